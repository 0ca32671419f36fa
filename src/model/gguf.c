/*
 * gguf.c - reads and checks one GGUF file: the frame; values and tensors have files of their own.
 *
 *     "GGUF" [u32 version] [u64 tensor count] [u64 key count]
 *     key count    x  [string key] [u32 type] [value]                            gguf_values.c
 *     tensor count x  [string name] [u32 n] [n x u64 dimension] [u32 type] [u64 offset]
 *     zeros up to general.alignment (32)                                         gguf_tensors.c
 *     data: each tensor at its offset, a multiple of the alignment
 *
 * A string is [u64 length] [bytes]; all numbers are little-endian.
 *
 * The idea is that of safetensors.c: every rule is checked once, here, before anybody follows a
 * number, and what stays is a sorted list of names with pointers into the map. Counts and lengths
 * are compared with the bytes that are left before a loop or a copy depends on them; lists grow as
 * their items are met, so that no number of the file is a size of an allocation.
 *
 * Big-endian files exist (the version reads as 3 << 24); they are refused by name rather than
 * swapped, since every tensor would have to be copied. Version 1 had 32-bit counts and was
 * in use for weeks only.
 *
 * Refused: a hash table over names. There are some hundreds; two binary searches are simpler, and
 * sorting finds the duplicates.
 *
 * Threads: no shared state; an open file is read-only.
 */
#include "model/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/directory.h"
#include "model/gguf_parts.h"

/* The least that one key and one tensor take: bounds for the counts. */
#define PAIR_BYTES_MIN  (8 + 1 + 4 + 1)
#define ENTRY_BYTES_MIN (8 + 1 + 4 + 4 + 8)

/* --------------------------------------------------------------------------------------- names */

static int link_order(const wgi_gguf_link *a, const char *name, size_t count)
{
    if (a->name.count != count) return a->name.count < count ? -1 : 1;
    return memcmp(a->name.data, name, count);
}

static int link_compare(const void *a, const void *b)
{
    const wgi_gguf_link *x = a, *y = b;
    int order = link_order(x, y->name.data, y->name.count);

    if (order != 0) return order;
    return x->index < y->index ? -1 : x->index > y->index;
}

void wgi_gguf_sort(wgi_gguf_link *links, size_t count, wgi_slice *twice)
{
    *twice = (wgi_slice){NULL, 0};
    if (count > 1) qsort(links, count, sizeof(*links), link_compare);
    for (size_t i = 1; i < count && !twice->data; i++)
        if (link_order(&links[i - 1], links[i].name.data, links[i].name.count) == 0)
            *twice = links[i].name;
}

size_t wgi_gguf_index(const wgi_gguf_link *links, size_t count, const char *name)
{
    size_t name_bytes = strlen(name), low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = link_order(&links[middle], name, name_bytes);
        if (order == 0) return links[middle].index;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return SIZE_MAX;
}

/* ----------------------------------------------------------------------------------- the frame */

wg_status wgi_gguf_take_string(wgi_gguf_cursor *cursor, const char *what, uint64_t index,
                               wgi_slice *out, wg_error *err)
{
    uint64_t count = 0;

    if (!wgi_gguf_take(cursor, 8, &count))
        return wgi_fail(err, WG_ERR_FORMAT, "the file is truncated: it ends in %s %llu", what,
                        (unsigned long long)index);
    if (count > wgi_gguf_left(cursor))
        return wgi_fail(err, WG_ERR_FORMAT,
                        "%s %llu: string length %llu exceeds the %zu bytes left of the file: it is "
                        "truncated or damaged",
                        what, (unsigned long long)index, (unsigned long long)count,
                        wgi_gguf_left(cursor));
    *out = (wgi_slice){cursor->at, (size_t)count};
    cursor->at += count;
    return WG_OK;
}

static wg_status check_magic(wgi_gguf_cursor *cursor, wg_error *err)
{
    static const struct {
        char magic[5];
        const char *name;
    } others[] = {
        {"tjgg", "GGJT, a format before GGUF"},
        {"lmgg", "GGML, a format before GGUF"},
        {"fmgg", "GGMF, a format before GGUF"},
        {"algg", "GGLA, an adapter"},
    };
    char shown[WGI_SHOWN_BYTES];
    const char *magic = cursor->at;

    if (wgi_gguf_left(cursor) < 4)
        return wgi_fail(err, WG_ERR_FORMAT, "the file is truncated: %zu bytes are no GGUF file",
                        wgi_gguf_left(cursor));
    cursor->at += 4;
    if (memcmp(magic, "GGUF", 4) == 0) return WG_OK;
    if (memcmp(magic, "FUGG", 4) == 0)
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "the magic is 'FUGG': big-endian GGUF is not supported; convert the file "
                        "to little-endian");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (memcmp(magic, others[i].magic, 4) == 0)
            return wgi_fail(err, WG_ERR_UNSUPPORTED,
                            "the magic is '%s' (%s), not 'GGUF'; convert the model to GGUF",
                            others[i].magic, others[i].name);
    for (size_t i = 0; i < 4; i++) { /* a message is UTF-8, a magic need not be */
        shown[i] = '?';
        if (magic[i] >= 0x20 && magic[i] < 0x7F) shown[i] = magic[i];
        shown[i + 1] = 0;
    }
    return wgi_fail(err, WG_ERR_FORMAT, "not a GGUF file: the magic is '%s', not 'GGUF'", shown);
}

static wg_status check_version(wgi_gguf_cursor *cursor, wg_error *err)
{
    uint64_t version = 0;

    if (!wgi_gguf_take(cursor, 4, &version))
        return wgi_fail(err, WG_ERR_FORMAT, "the file is truncated: it ends before the version");
    if (version == 2 || version == 3) return WG_OK;
    if (version != 0 && (version & 0xFFFF) == 0)
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "big-endian GGUF is not supported; convert the file to little-endian");
    return wgi_fail(err, WG_ERR_UNSUPPORTED,
                    "GGUF version %llu is not supported (2 and 3 are); convert the model again",
                    (unsigned long long)version);
}

/* `count` items of at least item_bytes have to fit into what is left. */
static wg_status check_count(const wgi_gguf_cursor *cursor, const char *what, uint64_t count,
                             size_t item_bytes, wg_error *err)
{
    if (count <= wgi_gguf_left(cursor) / item_bytes) return WG_OK;
    return wgi_fail(err, WG_ERR_FORMAT,
                    "%s count %llu exceeds what the %zu bytes left of the file can hold: it is "
                    "truncated or damaged",
                    what, (unsigned long long)count, wgi_gguf_left(cursor));
}

static wg_status read_alignment(const wgi_gguf *gguf, uint64_t *alignment, wg_error *err)
{
    static const char key[] = "general.alignment";
    wg_status status = WG_OK;

    *alignment = 32; /* what the format says where the key is not */
    if (!wgi_gguf_has(gguf, key)) return WG_OK;
    WGI_TRY(wgi_gguf_uint(gguf, key, alignment, NULL));
    if (*alignment == 0 || (*alignment & (*alignment - 1)) != 0 || *alignment > 1u << 30)
        status = wgi_fail(err, WG_ERR_FORMAT,
                          "key %s: an alignment of %llu is not a power of two up to 2^30", key,
                          (unsigned long long)*alignment);
    return status;

cleanup:
    return wgi_fail(err, status, "key %s: the alignment is not a positive integer", key);
}

static wg_status read_file(wgi_gguf *gguf, wg_error *err)
{
    wgi_gguf_cursor cursor = {gguf->map->data, gguf->map->data + gguf->map->bytes};
    uint64_t tensor_count = 0, pair_count = 0, alignment = 0;
    wg_status status = WG_OK;

    WGI_TRY(check_magic(&cursor, err));
    WGI_TRY(check_version(&cursor, err));
    if (!wgi_gguf_take(&cursor, 8, &tensor_count) || !wgi_gguf_take(&cursor, 8, &pair_count)) {
        status = wgi_fail(err, WG_ERR_FORMAT, "the file is truncated: it ends in its header");
        goto cleanup;
    }
    WGI_TRY(check_count(&cursor, "tensor", tensor_count, ENTRY_BYTES_MIN, err));
    WGI_TRY(check_count(&cursor, "key", pair_count, PAIR_BYTES_MIN, err));
    WGI_TRY(wgi_gguf_read_pairs(gguf, &cursor, pair_count, err));
    WGI_TRY(read_alignment(gguf, &alignment, err));
    WGI_TRY(check_count(&cursor, "tensor", tensor_count, ENTRY_BYTES_MIN, err));
    WGI_TRY(wgi_gguf_read_tensors(gguf, &cursor, tensor_count, alignment, err));
    gguf->header_bytes = (size_t)(cursor.at - gguf->map->data);

cleanup:
    return status;
}

/* `owned` goes to the handle on success only. */
static wg_status read_map(wgi_gguf **out, const wgi_map *map, wgi_map *owned, const char *path,
                          wg_error *err)
{
    wg_status status = wgi_pointer_check(map, path, err);
    wgi_gguf *gguf = NULL;

    *out = NULL;
    if (status != WG_OK) return status;
    gguf = wgi_calloc(1, sizeof(*gguf));
    if (gguf) gguf->path = wgi_strdup(path);
    if (!gguf || !gguf->path) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a model file");
        goto cleanup;
    }
    gguf->map = map;
    WGI_TRY(read_file(gguf, err));
    gguf->owned = owned;
    *out = gguf;
    gguf = NULL;

cleanup:
    wgi_gguf_close(gguf);
    return status == WG_OK ? WG_OK : wgi_fail_prefix(err, status, path);
}

wg_status wgi_gguf_read(wgi_gguf **out, const wgi_map *map, const char *path, wg_error *err)
{
    return read_map(out, map, NULL, path, err);
}

wg_status wgi_gguf_open(wgi_gguf **out, const char *path, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_map *map = NULL;

    *out = NULL;
    WGI_TRY(wgi_map_open(&map, path, err));
    WGI_TRY(read_map(out, map, map, path, err));
    map = NULL;

cleanup:
    wgi_map_close(map);
    return status;
}

void wgi_gguf_close(wgi_gguf *gguf)
{
    if (!gguf) return;
    wgi_buf_fini(&gguf->names);
    wgi_free(gguf->entry_links);
    wgi_free(gguf->entries);
    wgi_free(gguf->pair_links);
    wgi_free(gguf->pairs);
    wgi_map_close(gguf->owned);
    wgi_free(gguf->path);
    wgi_free(gguf);
}

const char *wgi_gguf_path(const wgi_gguf *gguf)
{
    return gguf->path;
}

uint64_t wgi_gguf_bytes(const wgi_gguf *gguf)
{
    return gguf->map->bytes;
}

wgi_slice wgi_gguf_header(const wgi_gguf *gguf)
{
    return (wgi_slice){gguf->map->data, gguf->header_bytes};
}
