/*
 * safetensors.h - the tensors of one weight file: checked against the whole format, and named.
 */
#ifndef WGI_SAFETENSORS_H
#define WGI_SAFETENSORS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/os_map.h"
#include "base/tensor.h"

typedef struct wgi_entry {
    wgi_tensor tensor;
    size_t name_at, name_bytes; /* in wgi_entries.names; tensor.name is set by _settle */
    uint64_t begin;             /* offset of its bytes in the data of the file */
    uint32_t file;              /* number of the file, given by the caller */
    bool is_listed;             /* for the caller: an index names it */
} wgi_entry;

/* Entries in file order, and a hash table over (file, name). Zero it to begin. */
typedef struct wgi_entries {
    wgi_entry *items;
    size_t count, capacity;
    wgi_buf names;
    uint32_t *slots; /* index + 1, or 0; a power of two of them */
    size_t slot_count;
} wgi_entries;

/*
 * Checks a mapped file and appends its tensors, whose data is borrowed from the map. `path` is for
 * messages. *header_bytes (may be NULL): the length of the header. On failure entries may hold a
 * part of the file.
 */
wg_status wgi_safetensors_read(wgi_entries *entries, const wgi_map *map, const char *path,
                               uint32_t file, uint64_t *header_bytes, wg_error *err);

/* NULL when the file has no tensor of that name. */
wgi_entry *wgi_entries_find(const wgi_entries *entries, uint32_t file, const char *name,
                            size_t name_bytes);
/* Adds items[index] to the table; false in *is_new when its (file, name) is there already. */
wg_status wgi_entries_add(wgi_entries *entries, size_t index, bool *is_new, wg_error *err);
/* Forgets the table; every item has to be added again. */
void wgi_entries_unhash(wgi_entries *entries);
/* Gives every tensor its name; nothing may be read into entries afterwards. */
void wgi_entries_settle(wgi_entries *entries);
void wgi_entries_fini(wgi_entries *entries);

#endif
