/*
 * gguf_maker.h - GGUF files made by tests, a piece at a time.
 *
 *     wgi_buf file = {0};
 *     wgt_gguf_begin(&file, 3, 1, 1);
 *     wgt_gguf_key(&file, "general.architecture", WGI_GGUF_STRING);
 *     wgt_gguf_string(&file, "llama");
 *     wgt_gguf_tensor(&file, "w", 1, (uint64_t[]){4}, 0, 0);
 *     wgt_gguf_align(&file, 32);
 *     wgt_gguf_zeros(&file, 16);
 */
#ifndef WGT_GGUF_MAKER_H
#define WGT_GGUF_MAKER_H

#include "base/buf.h"
#include "model/gguf.h"

static inline void wgt_gguf_bytes(wgi_buf *file, const void *bytes, size_t count)
{
    if (wgi_buf_append(file, bytes, count, NULL) != WG_OK) exit(1);
}

static inline void wgt_gguf_number(wgi_buf *file, uint64_t value, size_t bytes)
{
    char out[8];

    for (size_t i = 0; i < 8; i++)
        out[i] = (char)(value >> (8 * i) & 0xFF);
    wgt_gguf_bytes(file, out, bytes);
}

static inline void wgt_gguf_string(wgi_buf *file, const char *text)
{
    wgt_gguf_number(file, strlen(text), 8);
    wgt_gguf_bytes(file, text, strlen(text));
}

static inline void wgt_gguf_begin(wgi_buf *file, uint64_t version, uint64_t tensors, uint64_t keys)
{
    wgt_gguf_bytes(file, "GGUF", 4);
    wgt_gguf_number(file, version, 4);
    wgt_gguf_number(file, tensors, 8);
    wgt_gguf_number(file, keys, 8);
}

/* The value follows. */
static inline void wgt_gguf_key(wgi_buf *file, const char *key, uint64_t kind)
{
    wgt_gguf_string(file, key);
    wgt_gguf_number(file, kind, 4);
}

/* The items follow. */
static inline void wgt_gguf_array(wgi_buf *file, const char *key, uint64_t kind, uint64_t count)
{
    wgt_gguf_key(file, key, WGI_GGUF_ARRAY);
    wgt_gguf_number(file, kind, 4);
    wgt_gguf_number(file, count, 8);
}

static inline void wgt_gguf_text(wgi_buf *file, const char *key, const char *value)
{
    wgt_gguf_key(file, key, WGI_GGUF_STRING);
    wgt_gguf_string(file, value);
}

static inline void wgt_gguf_count(wgi_buf *file, const char *key, uint64_t value)
{
    wgt_gguf_key(file, key, WGI_GGUF_U32);
    wgt_gguf_number(file, value, 4);
}

static inline void wgt_gguf_float(wgi_buf *file, const char *key, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    wgt_gguf_key(file, key, WGI_GGUF_F32);
    wgt_gguf_number(file, bits, 4);
}

static inline void wgt_gguf_tensor(wgi_buf *file, const char *name, uint32_t rank,
                                   const uint64_t *dimensions, uint32_t type, uint64_t offset)
{
    wgt_gguf_string(file, name);
    wgt_gguf_number(file, rank, 4);
    for (uint32_t i = 0; i < rank; i++)
        wgt_gguf_number(file, dimensions[i], 8);
    wgt_gguf_number(file, type, 4);
    wgt_gguf_number(file, offset, 8);
}

static inline void wgt_gguf_zeros(wgi_buf *file, size_t count)
{
    while (count-- > 0)
        wgt_gguf_number(file, 0, 1);
}

static inline void wgt_gguf_align(wgi_buf *file, size_t alignment)
{
    while (file->count % alignment != 0)
        wgt_gguf_zeros(file, 1);
}

/* Reads the file from a copy of its exact size, which a sanitizer guards; empties `file`. */
static inline wg_status wgt_gguf_read(wgi_gguf **out, wgi_map *map, wgi_buf *file, wg_error *err)
{
    char *copy = malloc(file->count ? file->count : 1);

    if (!copy) exit(1);
    if (file->count) memcpy(copy, file->data, file->count);
    *map = (wgi_map){.data = copy, .bytes = file->count};
    file->count = 0;
    return wgi_gguf_read(out, map, "made.gguf", err);
}

static inline void wgt_gguf_done(wgi_gguf *gguf, wgi_map *map)
{
    wgi_gguf_close(gguf);
    free((void *)(uintptr_t)map->data);
    *map = (wgi_map){0};
}

/* The file is refused with a message that holds `part`; NULL: it is valid. Empties `file`. */
static inline void wgt_gguf_expect(wgi_buf *file, const char *part)
{
    wgi_gguf *gguf = NULL;
    wg_error err = {0};
    wgi_map map;

    wg_status status = wgt_gguf_read(&gguf, &map, file, &err);
    if (part) {
        EXPECT(status == WG_ERR_FORMAT || status == WG_ERR_UNSUPPORTED);
        EXPECT(gguf == NULL);
        EXPECT_IN(err.message, part);
        EXPECT(strncmp(err.message, "made.gguf: ", 11) == 0);
    } else {
        EXPECT_OK(status);
    }
    wgt_gguf_done(gguf, &map);
}

#endif
