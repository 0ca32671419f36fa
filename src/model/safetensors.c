/*
 * safetensors.c - reads and checks one .safetensors file.
 *
 *     [u64 n, little-endian][header: n bytes of JSON, '{' first, spaces may follow][data ...]
 *     {"__metadata__": {..}, "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..}
 *
 * The idea: everything that the format demands is checked here, once, before anybody follows an
 * offset, so that the rest of the program can use a tensor without looking. Checked are: the header
 * length against the file, UTF-8, an object, one tensor a name, known element types, shape x
 * element size = bytes (with overflow), offsets inside the data, and that the tensors sorted by
 * offset cover the data from its first byte to its last. The last rule is that of the format's own
 * reader: a hole, an overlap, or bytes behind the last tensor are refused, since they hide a
 * damaged file or something that is not weights.
 *
 * No number from the file is a size of an allocation: entries grow as they are met.
 *
 * Element types that exist in the format but are of no use as weights here (integers, 8-bit floats,
 * ...) are valid in a file and refused when such a tensor is asked for (weights.c).
 *
 * Threads: no shared state.
 */
#include "model/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/utf8.h"
#include "model/directory.h"

/* The limit of the format's own reader; the largest real headers are a few megabytes. */
#define HEADER_BYTES_MAX 100000000u

static const struct dtype_row {
    const char *name;
    wgi_dtype dtype;
    uint32_t bits; /* of one element */
} dtypes[] = {
    {"F32", WGI_DTYPE_F32, 32},          {"F16", WGI_DTYPE_F16, 16},
    {"BF16", WGI_DTYPE_BF16, 16},        {"F64", WGI_DTYPE_OTHER, 64},
    {"I64", WGI_DTYPE_OTHER, 64},        {"U64", WGI_DTYPE_OTHER, 64},
    {"C64", WGI_DTYPE_OTHER, 64},        {"I32", WGI_DTYPE_OTHER, 32},
    {"U32", WGI_DTYPE_OTHER, 32},        {"I16", WGI_DTYPE_OTHER, 16},
    {"U16", WGI_DTYPE_OTHER, 16},        {"I8", WGI_DTYPE_OTHER, 8},
    {"U8", WGI_DTYPE_OTHER, 8},          {"BOOL", WGI_DTYPE_OTHER, 8},
    {"F8_E4M3", WGI_DTYPE_OTHER, 8},     {"F8_E5M2", WGI_DTYPE_OTHER, 8},
    {"F8_E8M0", WGI_DTYPE_OTHER, 8},     {"F8_E4M3FNUZ", WGI_DTYPE_OTHER, 8},
    {"F8_E5M2FNUZ", WGI_DTYPE_OTHER, 8}, {"F6_E2M3", WGI_DTYPE_OTHER, 6},
    {"F6_E3M2", WGI_DTYPE_OTHER, 6},     {"F4", WGI_DTYPE_OTHER, 4},
};

/* ---------------------------------------------------------------------------------- the table */

/* FNV-1a, 64 bit (Fowler, Noll, Vo). */
static uint64_t hash_of(uint32_t file, const char *name, size_t count)
{
    uint64_t hash = 0xCBF29CE484222325u ^ file;

    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (unsigned char)name[i]) * 0x100000001B3u;
    return hash ^ hash >> 32;
}

static const char *name_of(const wgi_entries *entries, const wgi_entry *entry)
{
    return entries->names.data + entry->name_at;
}

/* The slot that holds (file, name), or the empty one where it belongs. */
static size_t slot_of(const wgi_entries *entries, uint32_t file, const char *name, size_t count)
{
    size_t mask = entries->slot_count - 1;
    size_t slot = (size_t)hash_of(file, name, count) & mask;

    for (; entries->slots[slot]; slot = (slot + 1) & mask) {
        const wgi_entry *entry = &entries->items[entries->slots[slot] - 1];
        if (entry->file == file && entry->name_bytes == count &&
            memcmp(name_of(entries, entry), name, count) == 0)
            break;
    }
    return slot;
}

wgi_entry *wgi_entries_find(const wgi_entries *entries, uint32_t file, const char *name,
                            size_t name_bytes)
{
    if (!entries->slot_count) return NULL;
    uint32_t found = entries->slots[slot_of(entries, file, name, name_bytes)];
    return found ? &entries->items[found - 1] : NULL;
}

/* Room for `need` entries at a load of at most one half. */
static wg_status table_grow(wgi_entries *entries, size_t need, wg_error *err)
{
    size_t slot_count = entries->slot_count ? entries->slot_count : 256;
    uint32_t *old = entries->slots;
    size_t old_count = entries->slot_count;

    if (need >= UINT32_MAX / 2) return wgi_fail(err, WG_ERR_LIMIT, "too many tensors");
    while (slot_count < 2 * need)
        slot_count *= 2;
    if (slot_count == entries->slot_count) return WG_OK;

    uint32_t *slots = wgi_calloc(slot_count, sizeof(*slots));
    if (!slots) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu tensor names", need);
    entries->slots = slots;
    entries->slot_count = slot_count;
    for (size_t i = 0; i < old_count; i++) {
        if (!old[i]) continue;
        const wgi_entry *entry = &entries->items[old[i] - 1];
        slots[slot_of(entries, entry->file, name_of(entries, entry), entry->name_bytes)] = old[i];
    }
    wgi_free(old);
    return WG_OK;
}

wg_status wgi_entries_add(wgi_entries *entries, size_t index, bool *is_new, wg_error *err)
{
    const wgi_entry *entry = &entries->items[index];
    wg_status status = table_grow(entries, index + 1, err);

    if (status != WG_OK) return status;
    size_t slot = slot_of(entries, entry->file, name_of(entries, entry), entry->name_bytes);
    *is_new = !entries->slots[slot];
    if (*is_new) entries->slots[slot] = (uint32_t)(index + 1);
    return WG_OK;
}

void wgi_entries_unhash(wgi_entries *entries)
{
    wgi_free(entries->slots);
    entries->slots = NULL;
    entries->slot_count = 0;
}

void wgi_entries_settle(wgi_entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        entries->items[i].tensor.name = name_of(entries, &entries->items[i]);
}

void wgi_entries_fini(wgi_entries *entries)
{
    wgi_entries_unhash(entries);
    wgi_buf_fini(&entries->names);
    wgi_free(entries->items);
    *entries = (wgi_entries){0};
}

/* ---------------------------------------------------------------------------------- the header */

typedef struct file_reading {
    wgi_entries *entries;
    wgi_json json;
    const char *data; /* behind the header */
    uint64_t data_bytes;
    size_t first; /* entries of this file begin here */
    uint32_t file;
    char shown[WGI_SHOWN_BYTES]; /* the tensor that is being read */
} file_reading;

/* "tensor 'NAME': PART: " before the scanner's message. */
static wg_status blame(const file_reading *reading, const char *part, wg_status status,
                       wg_error *err)
{
    char message[sizeof(err->message)];

    if (status == WG_OK || !err) return status;
    memcpy(message, err->message, sizeof(message));
    return wgi_fail(err, status, "tensor '%s': %s: %.300s", reading->shown, part, message);
}

static wg_status read_dtype(file_reading *reading, wgi_tensor *tensor, uint32_t *bits,
                            wg_error *err)
{
    char shown[WGI_SHOWN_BYTES];
    wgi_buf text = {0};
    wg_status status = WG_OK;

    WGI_TRY(blame(reading, "dtype", wgi_json_string(&reading->json, &text, err), err));
    *bits = 0;
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        if (!wgi_slice_is((wgi_slice){text.data, text.count}, dtypes[i].name)) continue;
        tensor->dtype = dtypes[i].dtype;
        memcpy(tensor->dtype_name, dtypes[i].name, strlen(dtypes[i].name) + 1);
        *bits = dtypes[i].bits;
    }
    if (!*bits)
        status = wgi_fail(err, WG_ERR_FORMAT, "tensor '%s': dtype %s is not one of the format's",
                          reading->shown, wgi_text_show(shown, text.data, text.count));

cleanup:
    wgi_buf_fini(&text);
    return status;
}

static wg_status read_shape(file_reading *reading, wgi_tensor *tensor, wg_error *err)
{
    wgi_json *json = &reading->json;
    wg_status status = WG_OK;

    tensor->rank = 0;
    WGI_TRY(blame(reading, "shape", wgi_json_array_begin(json, err), err));
    while (wgi_json_array_next(json)) {
        uint64_t count = 0;
        WGI_TRY(blame(reading, "shape", wgi_json_uint(json, &count, err), err));
        if (tensor->rank == WGI_TENSOR_RANK_MAX) {
            status = wgi_fail(err, WG_ERR_UNSUPPORTED,
                              "tensor '%s': shape: more than %d dimensions are not supported",
                              reading->shown, WGI_TENSOR_RANK_MAX);
            goto cleanup;
        }
        tensor->shape[tensor->rank++] = count;
    }
    WGI_TRY(blame(reading, "shape", wgi_json_status(json, err), err));

cleanup:
    return status;
}

static wg_status read_offsets(file_reading *reading, uint64_t offsets[2], wg_error *err)
{
    wgi_json *json = &reading->json;
    wg_status status = WG_OK;
    size_t count = 0;

    WGI_TRY(blame(reading, "data_offsets", wgi_json_array_begin(json, err), err));
    for (; wgi_json_array_next(json); count++) {
        uint64_t value = 0;
        WGI_TRY(blame(reading, "data_offsets", wgi_json_uint(json, &value, err), err));
        if (count < 2) offsets[count] = value;
    }
    WGI_TRY(blame(reading, "data_offsets", wgi_json_status(json, err), err));
    if (count != 2)
        status = wgi_fail(err, WG_ERR_FORMAT, "tensor '%s': data_offsets: %zu numbers, not two",
                          reading->shown, count);

cleanup:
    return status;
}

/* shape x element size = end - begin, and both inside the data. */
static wg_status place_tensor(const file_reading *reading, wgi_entry *entry, uint32_t bits,
                              const uint64_t offsets[2], wg_error *err)
{
    wgi_tensor *tensor = &entry->tensor;
    uint64_t total = 1;
    bool fits = true;

    if (offsets[0] > offsets[1])
        return wgi_fail(
            err, WG_ERR_FORMAT, "tensor '%s': data_offsets: the end %llu is before the begin %llu",
            reading->shown, (unsigned long long)offsets[1], (unsigned long long)offsets[0]);
    for (uint32_t i = 0; i < tensor->rank; i++)
        fits = fits && !__builtin_mul_overflow(total, tensor->shape[i], &total);
    fits = fits && !__builtin_mul_overflow(total, (uint64_t)bits, &total);
    if (!fits || total % 8 != 0 || total / 8 != offsets[1] - offsets[0])
        return wgi_fail(
            err, WG_ERR_FORMAT,
            "tensor '%s': shape and dtype %s do not give the %llu bytes of data_offsets",
            reading->shown, tensor->dtype_name, (unsigned long long)(offsets[1] - offsets[0]));
    if (offsets[1] > reading->data_bytes)
        return wgi_fail(
            err, WG_ERR_FORMAT,
            "the file is truncated: tensor '%s' ends %llu bytes past the end of the file",
            reading->shown, (unsigned long long)(offsets[1] - reading->data_bytes));
    entry->begin = offsets[0];
    tensor->bytes = (size_t)(offsets[1] - offsets[0]);
    tensor->data = reading->data + offsets[0];
    return WG_OK;
}

static wg_status read_tensor(file_reading *reading, wgi_entry *entry, wg_error *err)
{
    wgi_json *json = &reading->json;
    wg_status status = WG_OK;
    uint64_t offsets[2] = {0, 0};
    unsigned seen[3] = {0, 0, 0}; /* dtype, shape, data_offsets */
    uint32_t bits = 0;
    wgi_slice key;

    WGI_TRY(blame(reading, "value", wgi_json_object_begin(json, err), err));
    while (wgi_json_object_next(json, &key)) {
        if (wgi_slice_is(key, "dtype")) {
            seen[0]++;
            WGI_TRY(read_dtype(reading, &entry->tensor, &bits, err));
        } else if (wgi_slice_is(key, "shape")) {
            seen[1]++;
            WGI_TRY(read_shape(reading, &entry->tensor, err));
        } else if (wgi_slice_is(key, "data_offsets")) {
            seen[2]++;
            WGI_TRY(read_offsets(reading, offsets, err));
        } else {
            WGI_TRY(blame(reading, "value", wgi_json_skip(json, err), err));
        }
    }
    WGI_TRY(blame(reading, "value", wgi_json_status(json, err), err));
    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = {"dtype", "shape", "data_offsets"};
        if (seen[i] == 1) continue;
        status = wgi_fail(err, WG_ERR_FORMAT, "tensor '%s': %s is %s", reading->shown, names[i],
                          seen[i] ? "there twice" : "missing");
        goto cleanup;
    }
    WGI_TRY(place_tensor(reading, entry, bits, offsets, err));

cleanup:
    return status;
}

/* Appends the entry that `name` begins. */
static wg_status append_tensor(file_reading *reading, wgi_slice name, wg_error *err)
{
    wgi_entries *entries = reading->entries;
    wgi_entry entry = {
        .file = reading->file, .name_at = entries->names.count, .name_bytes = name.count};
    wg_status status = WG_OK;
    bool is_new;

    (void)wgi_text_show(reading->shown, name.data, name.count);
    if (memchr(name.data, 0, name.count)) {
        status = wgi_fail(err, WG_ERR_FORMAT, "tensor '%s': the name holds a NUL", reading->shown);
        goto cleanup;
    }
    WGI_TRY(wgi_grow(&entries->items, &entries->capacity, entries->count + 1,
                     sizeof(*entries->items), err));
    WGI_TRY(wgi_buf_append(&entries->names, name.data, name.count, err));
    WGI_TRY(wgi_buf_append(&entries->names, "", 1, err));
    WGI_TRY(read_tensor(reading, &entry, err));
    entries->items[entries->count++] = entry;
    WGI_TRY(wgi_entries_add(entries, entries->count - 1, &is_new, err));
    if (!is_new)
        status =
            wgi_fail(err, WG_ERR_FORMAT, "tensor '%s': the name is there twice", reading->shown);

cleanup:
    return status;
}

/* __metadata__: an object of strings; nobody reads them. */
static wg_status check_metadata(wgi_json *json, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice key;

    WGI_TRY(wgi_json_object_begin(json, err));
    while (wgi_json_object_next(json, &key)) {
        if (wgi_json_peek(json) != WGI_JSON_STRING) {
            status = wgi_fail(err, WG_ERR_FORMAT, "__metadata__: a value is not a string");
            goto cleanup;
        }
        WGI_TRY(wgi_json_skip(json, err));
    }
    WGI_TRY(wgi_json_status(json, err));

cleanup:
    return status;
}

/* --------------------------------------------------------------------- coverage of the data */

typedef struct stretch {
    uint64_t begin, end;
    size_t index;
} stretch;

static int stretch_compare(const void *a, const void *b)
{
    const stretch *x = a, *y = b;

    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* In order of offset, each tensor begins where the one before ends, and the last ends the file. */
static wg_status check_cover(const file_reading *reading, wg_error *err)
{
    const wgi_entries *entries = reading->entries;
    size_t count = entries->count - reading->first;
    char shown[2][WGI_SHOWN_BYTES];
    const wgi_entry *before = NULL;
    wg_status status = WG_OK;
    uint64_t end = 0;

    stretch *sorted = wgi_calloc(count, sizeof(*sorted));
    if (!sorted) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory to sort %zu tensors", count);
    for (size_t i = 0; i < count; i++) {
        const wgi_entry *entry = &entries->items[reading->first + i];
        sorted[i] = (stretch){entry->begin, entry->begin + entry->tensor.bytes, reading->first + i};
    }
    qsort(sorted, count, sizeof(*sorted), stretch_compare);

    for (size_t i = 0; i < count; i++) {
        const wgi_entry *entry = &entries->items[sorted[i].index];
        (void)wgi_text_show(shown[0], name_of(entries, entry), entry->name_bytes);
        if (sorted[i].begin < end) {
            (void)wgi_text_show(shown[1], name_of(entries, before), before->name_bytes);
            status = wgi_fail(err, WG_ERR_FORMAT,
                              "tensors '%s' and '%s' overlap: data_offsets %llu is before %llu",
                              shown[1], shown[0], (unsigned long long)sorted[i].begin,
                              (unsigned long long)end);
            goto cleanup;
        }
        if (sorted[i].begin > end) {
            status =
                wgi_fail(err, WG_ERR_FORMAT, "%llu bytes before tensor '%s' belong to no tensor",
                         (unsigned long long)(sorted[i].begin - end), shown[0]);
            goto cleanup;
        }
        end = sorted[i].end;
        before = entry;
    }
    if (end != reading->data_bytes)
        status =
            wgi_fail(err, WG_ERR_FORMAT, "%llu bytes behind the last tensor belong to no tensor",
                     (unsigned long long)(reading->data_bytes - end));

cleanup:
    wgi_free(sorted);
    return status;
}

/* ------------------------------------------------------------------------------------ the file */

static wg_status read_header(file_reading *reading, wg_error *err)
{
    wgi_json *json = &reading->json;
    wg_status status = WG_OK;
    wgi_slice key;

    WGI_TRY(wgi_json_object_begin(json, err));
    while (wgi_json_object_next(json, &key)) {
        if (wgi_slice_is(key, "__metadata__")) {
            WGI_TRY(check_metadata(json, err));
        } else {
            WGI_TRY(append_tensor(reading, key, err));
        }
    }
    WGI_TRY(wgi_json_finish(json, err));
    if (json->repaired) {
        status = wgi_fail(err, WG_ERR_FORMAT, "the header holds half a surrogate pair");
        goto cleanup;
    }
    WGI_TRY(check_cover(reading, err));

cleanup:
    return status;
}

/* Where the header stands; everything that can be said before it is read. */
static wg_status find_header(const wgi_map *map, uint64_t *header_bytes, wg_error *err)
{
    uint64_t count = 0;

    if (map->bytes < sizeof(count))
        return wgi_fail(err, WG_ERR_FORMAT, "%zu bytes are too short for a safetensors file",
                        map->bytes);
    for (size_t i = 0; i < sizeof(count); i++)
        count |= (uint64_t)(unsigned char)map->data[i] << (8 * i);
    if (count == 0) return wgi_fail(err, WG_ERR_FORMAT, "empty header (its length is 0)");
    if (count > map->bytes - sizeof(count))
        return wgi_fail(err, WG_ERR_FORMAT,
                        "header length exceeds file: %llu bytes of header in a file of %zu; it is "
                        "cut, or no safetensors file",
                        (unsigned long long)count, map->bytes);
    if (count > HEADER_BYTES_MAX)
        return wgi_fail(err, WG_ERR_FORMAT, "a header of %llu bytes (the format allows %u)",
                        (unsigned long long)count, HEADER_BYTES_MAX);
    if (map->data[sizeof(count)] != '{')
        return wgi_fail(err, WG_ERR_FORMAT, "the header does not begin with '{'");
    size_t good = wgi_utf8_check(map->data + sizeof(count), (size_t)count);
    if (good < count)
        return wgi_fail(err, WG_ERR_FORMAT, "the header is not UTF-8 (byte %zu of it)", good);
    *header_bytes = count;
    return WG_OK;
}

wg_status wgi_safetensors_read(wgi_entries *entries, const wgi_map *map, const char *path,
                               uint32_t file, uint64_t *header_bytes, wg_error *err)
{
    file_reading reading = {.entries = entries, .first = entries->count, .file = file};
    uint64_t count = 0;
    wg_status status = wgi_pointer_check(map, path, err);

    if (status != WG_OK) return status;
    WGI_TRY(find_header(map, &count, err));
    reading.data = map->data + sizeof(count) + count;
    reading.data_bytes = map->bytes - sizeof(count) - count;
    wgi_json_init(&reading.json, map->data + sizeof(count), (size_t)count);
    WGI_TRY(read_header(&reading, err));
    if (header_bytes) *header_bytes = count;

cleanup:
    wgi_json_fini(&reading.json);
    return status == WG_OK ? WG_OK : wgi_fail_prefix(err, status, path);
}
