/*
 * gguf_parts.h - what the files of the GGUF reader share: the handle, and the cursor that walks the
 * header and never leaves the file.
 */
#ifndef WGI_GGUF_PARTS_H
#define WGI_GGUF_PARTS_H

#include "base/buf.h"
#include "model/gguf.h"

/* One key with its value, which stays in the map. */
typedef struct wgi_gguf_pair {
    wgi_slice key;
    wgi_gguf_kind kind;
    wgi_gguf_kind item_kind; /* of an array */
    uint64_t count;          /* items of an array, bytes of a string */
    const char *data;        /* the number, the string's bytes, the first item */
} wgi_gguf_pair;

typedef struct wgi_gguf_entry {
    wgi_tensor tensor;
    size_t name_at; /* in wgi_gguf.names, NUL-terminated there */
    size_t name_bytes;
    uint64_t begin; /* offset in the data */
} wgi_gguf_entry;

/* A name and where it belongs, in a list sorted by length and bytes: the way to find one. */
typedef struct wgi_gguf_link {
    wgi_slice name;
    size_t index;
} wgi_gguf_link;

struct wgi_gguf {
    char *path;
    wgi_map *owned; /* NULL: the map is the caller's */
    const wgi_map *map;
    size_t header_bytes;
    wgi_gguf_pair *pairs;
    size_t pair_count, pair_room;
    wgi_gguf_link *pair_links; /* [pair_count] */
    wgi_gguf_entry *entries;
    size_t entry_count, entry_room;
    wgi_gguf_link *entry_links; /* [entry_count] */
    wgi_buf names;
};

/* The bytes that are left of the file. */
typedef struct wgi_gguf_cursor {
    const char *at, *end;
} wgi_gguf_cursor;

static inline size_t wgi_gguf_left(const wgi_gguf_cursor *cursor)
{
    return (size_t)(cursor->end - cursor->at);
}

/* A little-endian number of 1 to 8 bytes at any address. */
static inline uint64_t wgi_gguf_load(const char *at, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)(unsigned char)at[i] << (8 * i);
    return value;
}

/* Takes a number; false when the file ends before it does. */
static inline bool wgi_gguf_take(wgi_gguf_cursor *cursor, size_t bytes, uint64_t *out)
{
    if (wgi_gguf_left(cursor) < bytes) return false;
    *out = wgi_gguf_load(cursor->at, bytes);
    cursor->at += bytes;
    return true;
}

/* gguf_values.c: `count` pairs into gguf->pairs; the cursor ends behind the last one. */
wg_status wgi_gguf_read_pairs(wgi_gguf *gguf, wgi_gguf_cursor *cursor, uint64_t count,
                              wg_error *err);
/* gguf_tensors.c: `count` tensors into gguf->entries, placed in the data behind the header. */
wg_status wgi_gguf_read_tensors(wgi_gguf *gguf, wgi_gguf_cursor *cursor, uint64_t count,
                                uint64_t alignment, wg_error *err);

/*
 * gguf.c: a string (a length and bytes). `what` and `index` name it in messages until it has a name
 * of its own: "key 3".
 */
wg_status wgi_gguf_take_string(wgi_gguf_cursor *cursor, const char *what, uint64_t index,
                               wgi_slice *out, wg_error *err);
/* gguf.c: sorts links; *twice is a name that is there two times, or has no data. */
void wgi_gguf_sort(wgi_gguf_link *links, size_t count, wgi_slice *twice);
/* gguf.c: index of the name, or SIZE_MAX. */
size_t wgi_gguf_index(const wgi_gguf_link *links, size_t count, const char *name);

#endif
