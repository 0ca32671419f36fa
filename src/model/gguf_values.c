/*
 * gguf_values.c - the metadata of a GGUF file: keys with typed values.
 *
 * The idea: reading checks that every value lies in the file, whatever its type, and keeps where it
 * is; a getter looks at the type and loads it. Nothing is converted or copied before it is asked
 * for, since a tokenizer's lists make up nearly all of a header.
 *
 * An array of strings has no index: its items have their own lengths. It is handed out one string
 * after another, which is how every user wants it. Arrays of arrays are checked (to a small depth,
 * which bounds the stack) and never handed out.
 *
 * Threads: no shared state.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "model/directory.h"
#include "model/gguf_parts.h"

#define KEY_BYTES_MAX   65535u /* the format's own limit */
#define ARRAY_DEPTH_MAX 4      /* arrays in arrays; no published file has one */

#define KIND_COUNT (WGI_GGUF_F64 + 1)

typedef enum kind_family { UNSIGNED, SIGNED, FLOAT, TRUTH, TEXT, LIST } kind_family;

static const struct family_row {
    const char *name, *plural;
} families[] = {
    [UNSIGNED] = {"an integer", "integers"}, [SIGNED] = {"an integer", "integers"},
    [FLOAT] = {"a float", "floats"},         [TRUTH] = {"a bool", "bools"},
    [TEXT] = {"a string", "strings"},        [LIST] = {"an array", "arrays"},
};

/* Bytes: of a value; of a string or an array the least that it takes. */
static const struct kind_row {
    kind_family family;
    uint32_t bytes;
} kinds[KIND_COUNT] = {
    [WGI_GGUF_U8] = {UNSIGNED, 1}, [WGI_GGUF_I8] = {SIGNED, 1},    [WGI_GGUF_U16] = {UNSIGNED, 2},
    [WGI_GGUF_I16] = {SIGNED, 2},  [WGI_GGUF_U32] = {UNSIGNED, 4}, [WGI_GGUF_I32] = {SIGNED, 4},
    [WGI_GGUF_F32] = {FLOAT, 4},   [WGI_GGUF_BOOL] = {TRUTH, 1},   [WGI_GGUF_STRING] = {TEXT, 8},
    [WGI_GGUF_ARRAY] = {LIST, 12}, [WGI_GGUF_U64] = {UNSIGNED, 8}, [WGI_GGUF_I64] = {SIGNED, 8},
    [WGI_GGUF_F64] = {FLOAT, 8},
};

static bool is_integer(wgi_gguf_kind kind)
{
    return kinds[kind].family == UNSIGNED || kinds[kind].family == SIGNED;
}

static const char *plural_of(wgi_gguf_kind kind)
{
    return families[kinds[kind].family].plural;
}

/* ------------------------------------------------------------------------------------- reading */

typedef struct pair_reading {
    wgi_gguf_cursor *cursor;
    char shown[WGI_SHOWN_BYTES]; /* the key that is being read */
} pair_reading;

static wg_status fail_cut(const pair_reading *reading, wg_error *err)
{
    return wgi_fail(err, WG_ERR_FORMAT, "the file is truncated: it ends in key %s", reading->shown);
}

static wg_status check_bools(const pair_reading *reading, const char *at, uint64_t count,
                             wg_error *err)
{
    for (uint64_t i = 0; i < count; i++)
        if ((unsigned char)at[i] > 1)
            return wgi_fail(err, WG_ERR_FORMAT, "key %s: a bool is 0 or 1, found %u",
                            reading->shown, (unsigned)(unsigned char)at[i]);
    return WG_OK;
}

static wg_status skip_string(const pair_reading *reading, uint64_t *count, wg_error *err)
{
    if (!wgi_gguf_take(reading->cursor, 8, count)) return fail_cut(reading, err);
    if (*count > wgi_gguf_left(reading->cursor))
        return wgi_fail(err, WG_ERR_FORMAT,
                        "key %s: string length %llu exceeds the %zu bytes left of the file: it is "
                        "truncated or damaged",
                        reading->shown, (unsigned long long)*count, wgi_gguf_left(reading->cursor));
    reading->cursor->at += *count;
    return WG_OK;
}

/* What kind of items, and how many; they fit into what is left as far as can be said here. */
static wg_status take_array(const pair_reading *reading, wgi_gguf_kind *kind, uint64_t *count,
                            wg_error *err)
{
    wgi_gguf_cursor *cursor = reading->cursor;
    uint64_t found = 0;

    if (!wgi_gguf_take(cursor, 4, &found) || !wgi_gguf_take(cursor, 8, count))
        return fail_cut(reading, err);
    if (found >= KIND_COUNT)
        return wgi_fail(err, WG_ERR_FORMAT, "key %s: an array of values of unknown type %llu",
                        reading->shown, (unsigned long long)found);
    *kind = (wgi_gguf_kind)found;
    if (*count > wgi_gguf_left(cursor) / kinds[*kind].bytes)
        return wgi_fail(err, WG_ERR_FORMAT,
                        "key %s: an array of %llu %s exceeds the %zu bytes left of the file: it is "
                        "truncated or damaged",
                        reading->shown, (unsigned long long)*count, plural_of(*kind),
                        wgi_gguf_left(cursor));
    return WG_OK;
}

static wg_status skip_items(const pair_reading *reading, wgi_gguf_kind kind, uint64_t count,
                            int depth, wg_error *err)
{
    wg_status status = WG_OK;

    if (kinds[kind].family != TEXT &&
        kinds[kind].family != LIST) { /* the product was bounded by take_array */
        if (kind == WGI_GGUF_BOOL) WGI_TRY(check_bools(reading, reading->cursor->at, count, err));
        reading->cursor->at += count * kinds[kind].bytes;
        return WG_OK;
    }
    if (kind == WGI_GGUF_ARRAY && depth == ARRAY_DEPTH_MAX)
        return wgi_fail(err, WG_ERR_FORMAT, "key %s: arrays nested more than %d deep",
                        reading->shown, ARRAY_DEPTH_MAX);
    for (uint64_t i = 0; i < count; i++) {
        wgi_gguf_kind inner_kind = WGI_GGUF_U8;
        uint64_t inner = 0;
        if (kind == WGI_GGUF_STRING) {
            WGI_TRY(skip_string(reading, &inner, err));
            continue;
        }
        WGI_TRY(take_array(reading, &inner_kind, &inner, err));
        WGI_TRY(skip_items(reading, inner_kind, inner, depth + 1, err));
    }

cleanup:
    return status;
}

static wg_status read_value(const pair_reading *reading, wgi_gguf_pair *pair, wg_error *err)
{
    wgi_gguf_cursor *cursor = reading->cursor;
    wg_status status = WG_OK;
    uint64_t kind = 0;

    if (!wgi_gguf_take(cursor, 4, &kind)) return fail_cut(reading, err);
    if (kind >= KIND_COUNT)
        return wgi_fail(err, WG_ERR_FORMAT, "key %s: value type %llu unknown", reading->shown,
                        (unsigned long long)kind);
    pair->kind = (wgi_gguf_kind)kind;
    if (pair->kind == WGI_GGUF_ARRAY) {
        WGI_TRY(take_array(reading, &pair->item_kind, &pair->count, err));
        pair->data = cursor->at;
        WGI_TRY(skip_items(reading, pair->item_kind, pair->count, 1, err));
    } else if (pair->kind == WGI_GGUF_STRING) {
        WGI_TRY(skip_string(reading, &pair->count, err));
        pair->data = cursor->at - pair->count;
    } else {
        if (wgi_gguf_left(cursor) < kinds[kind].bytes) return fail_cut(reading, err);
        pair->data = cursor->at;
        WGI_TRY(skip_items(reading, pair->kind, 1, 1, err));
    }

cleanup:
    return status;
}

static wg_status read_pair(wgi_gguf *gguf, pair_reading *reading, wg_error *err)
{
    wgi_gguf_pair pair = {0};
    wg_status status = WG_OK;

    WGI_TRY(wgi_gguf_take_string(reading->cursor, "key", gguf->pair_count, &pair.key, err));
    if (pair.key.count == 0 || pair.key.count > KEY_BYTES_MAX) {
        status = wgi_fail(err, WG_ERR_FORMAT, "key %zu: a name of %zu bytes (1 to %u are allowed)",
                          gguf->pair_count, pair.key.count, KEY_BYTES_MAX);
        goto cleanup;
    }
    (void)wgi_text_show(reading->shown, pair.key.data, pair.key.count);
    WGI_TRY(read_value(reading, &pair, err));
    WGI_TRY(
        wgi_grow(&gguf->pairs, &gguf->pair_room, gguf->pair_count + 1, sizeof(*gguf->pairs), err));
    gguf->pairs[gguf->pair_count++] = pair;

cleanup:
    return status;
}

wg_status wgi_gguf_read_pairs(wgi_gguf *gguf, wgi_gguf_cursor *cursor, uint64_t count,
                              wg_error *err)
{
    pair_reading reading = {.cursor = cursor};
    wg_status status = WG_OK;
    wgi_slice twice;

    for (uint64_t i = 0; i < count; i++)
        WGI_TRY(read_pair(gguf, &reading, err));
    gguf->pair_links = wgi_calloc(gguf->pair_count, sizeof(*gguf->pair_links));
    if (!gguf->pair_links) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu keys", gguf->pair_count);
        goto cleanup;
    }
    for (size_t i = 0; i < gguf->pair_count; i++)
        gguf->pair_links[i] = (wgi_gguf_link){gguf->pairs[i].key, i};
    wgi_gguf_sort(gguf->pair_links, gguf->pair_count, &twice);
    if (twice.data)
        status = wgi_fail(err, WG_ERR_FORMAT, "duplicate key %s",
                          wgi_text_show(reading.shown, twice.data, twice.count));

cleanup:
    return status;
}

/* ------------------------------------------------------------------------------------- getters */

static const wgi_gguf_pair *pair_find(const wgi_gguf *gguf, const char *key)
{
    size_t index = wgi_gguf_index(gguf->pair_links, gguf->pair_count, key);

    return index == SIZE_MAX ? NULL : &gguf->pairs[index];
}

static wg_status pair_need(const wgi_gguf *gguf, const char *key, const wgi_gguf_pair **out,
                           wg_error *err)
{
    *out = pair_find(gguf, key);
    return *out ? WG_OK : wgi_fail(err, WG_ERR_FORMAT, "%s: key %s: is missing", gguf->path, key);
}

static wg_status fail_kind(const wgi_gguf *gguf, const char *key, const wgi_gguf_pair *pair,
                           const char *expected, wg_error *err)
{
    bool is_array = pair->kind == WGI_GGUF_ARRAY;

    return wgi_fail(err, WG_ERR_FORMAT, "%s: key %s: expected %s, found %s%s", gguf->path, key,
                    expected, is_array ? "an array of " : families[kinds[pair->kind].family].name,
                    is_array ? plural_of(pair->item_kind) : "");
}

/* As 64 bits of two's complement. */
static uint64_t load_integer(wgi_gguf_kind kind, const char *at)
{
    uint64_t value = wgi_gguf_load(at, kinds[kind].bytes);

    if (kinds[kind].family != SIGNED) return value;
    uint64_t sign = (uint64_t)1 << (8 * kinds[kind].bytes - 1);
    return (value ^ sign) - sign;
}

static double load_float(wgi_gguf_kind kind, const char *at)
{
    uint64_t bits = wgi_gguf_load(at, kinds[kind].bytes);
    uint32_t low_bits = (uint32_t)bits;
    double wide;
    float narrow;

    memcpy(&narrow, &low_bits, sizeof(narrow));
    memcpy(&wide, &bits, sizeof(wide));
    return kind == WGI_GGUF_F32 ? (double)narrow : wide;
}

bool wgi_gguf_has(const wgi_gguf *gguf, const char *key)
{
    return pair_find(gguf, key) != NULL;
}

size_t wgi_gguf_key_count(const wgi_gguf *gguf)
{
    return gguf->pair_count;
}

wgi_slice wgi_gguf_key_at(const wgi_gguf *gguf, size_t index, wgi_gguf_kind *kind)
{
    if (kind) *kind = gguf->pairs[index].kind;
    return gguf->pairs[index].key;
}

wg_status wgi_gguf_uint(const wgi_gguf *gguf, const char *key, uint64_t *out, wg_error *err)
{
    const wgi_gguf_pair *pair = NULL;
    wg_status status = pair_need(gguf, key, &pair, err);

    if (status != WG_OK) return status;
    if (!is_integer(pair->kind)) return fail_kind(gguf, key, pair, "an integer", err);
    uint64_t value = load_integer(pair->kind, pair->data);
    if (kinds[pair->kind].family == SIGNED && value >> 63)
        return wgi_fail(err, WG_ERR_FORMAT, "%s: key %s: expected an integer from 0 on, found %lld",
                        gguf->path, key, (long long)value);
    *out = value;
    return WG_OK;
}

wg_status wgi_gguf_int(const wgi_gguf *gguf, const char *key, int64_t *out, wg_error *err)
{
    const wgi_gguf_pair *pair = NULL;
    wg_status status = pair_need(gguf, key, &pair, err);

    if (status != WG_OK) return status;
    if (!is_integer(pair->kind)) return fail_kind(gguf, key, pair, "an integer", err);
    uint64_t value = load_integer(pair->kind, pair->data);
    if (kinds[pair->kind].family == UNSIGNED && value >> 63)
        return wgi_fail(err, WG_ERR_FORMAT, "%s: key %s: %llu does not fit a signed integer",
                        gguf->path, key, (unsigned long long)value);
    *out = (int64_t)value;
    return WG_OK;
}

wg_status wgi_gguf_float(const wgi_gguf *gguf, const char *key, double *out, wg_error *err)
{
    const wgi_gguf_pair *pair = NULL;
    wg_status status = pair_need(gguf, key, &pair, err);

    if (status != WG_OK) return status;
    if (kinds[pair->kind].family != FLOAT) return fail_kind(gguf, key, pair, "a float", err);
    double value = load_float(pair->kind, pair->data);
    if (!isfinite(value))
        return wgi_fail(err, WG_ERR_FORMAT, "%s: key %s: the float is not finite", gguf->path, key);
    *out = value;
    return WG_OK;
}

wg_status wgi_gguf_bool(const wgi_gguf *gguf, const char *key, bool *out, wg_error *err)
{
    const wgi_gguf_pair *pair = NULL;
    wg_status status = pair_need(gguf, key, &pair, err);

    if (status != WG_OK) return status;
    if (pair->kind != WGI_GGUF_BOOL) return fail_kind(gguf, key, pair, "a bool", err);
    *out = *pair->data != 0;
    return WG_OK;
}

wg_status wgi_gguf_string(const wgi_gguf *gguf, const char *key, wgi_slice *out, wg_error *err)
{
    const wgi_gguf_pair *pair = NULL;
    wg_status status = pair_need(gguf, key, &pair, err);

    if (status != WG_OK) return status;
    if (pair->kind != WGI_GGUF_STRING) return fail_kind(gguf, key, pair, "a string", err);
    *out = (wgi_slice){pair->data, (size_t)pair->count};
    return WG_OK;
}

/* -------------------------------------------------------------------------------------- arrays */

static wg_status array_need(const wgi_gguf *gguf, const char *key, kind_family family,
                            const char *expected, wgi_gguf_array *out, wg_error *err)
{
    const wgi_gguf_pair *pair = NULL;
    wg_status status = pair_need(gguf, key, &pair, err);

    if (status != WG_OK) return status;
    bool is_wanted = family == kinds[pair->item_kind].family ||
                     (family == SIGNED && is_integer(pair->item_kind));
    if (pair->kind != WGI_GGUF_ARRAY || !is_wanted)
        return fail_kind(gguf, key, pair, expected, err);
    *out = (wgi_gguf_array){
        .kind = pair->item_kind, .count = pair->count, .data = pair->data, .left = pair->count};
    return WG_OK;
}

wg_status wgi_gguf_strings(const wgi_gguf *gguf, const char *key, wgi_gguf_array *out,
                           wg_error *err)
{
    return array_need(gguf, key, TEXT, "an array of strings", out, err);
}

wg_status wgi_gguf_ints(const wgi_gguf *gguf, const char *key, wgi_gguf_array *out, wg_error *err)
{
    return array_need(gguf, key, SIGNED, "an array of integers", out, err);
}

wg_status wgi_gguf_floats(const wgi_gguf *gguf, const char *key, wgi_gguf_array *out, wg_error *err)
{
    return array_need(gguf, key, FLOAT, "an array of floats", out, err);
}

wg_status wgi_gguf_bools(const wgi_gguf *gguf, const char *key, wgi_gguf_array *out, wg_error *err)
{
    return array_need(gguf, key, TRUTH, "an array of bools", out, err);
}

bool wgi_gguf_string_next(wgi_gguf_array *strings, wgi_slice *out)
{
    if (strings->left == 0) return false;
    size_t count = (size_t)wgi_gguf_load(strings->data, 8); /* checked when the file was read */
    *out = (wgi_slice){strings->data + 8, count};
    strings->data += 8 + count;
    strings->left--;
    return true;
}

int64_t wgi_gguf_int_at(const wgi_gguf_array *array, uint64_t index)
{
    return (int64_t)load_integer(array->kind, array->data + index * kinds[array->kind].bytes);
}

double wgi_gguf_float_at(const wgi_gguf_array *array, uint64_t index)
{
    return load_float(array->kind, array->data + index * kinds[array->kind].bytes);
}
