/*
 * os_map.h - a file mapped read-only.
 */
#ifndef WGI_OS_MAP_H
#define WGI_OS_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct wgi_map {
    const char *data;
    size_t bytes; /* 0: an empty file, data is "" */
} wgi_map;

/* On success *out is a handle for wgi_map_close. A directory or a device is refused. */
wg_status wgi_map_open(wgi_map **out, const char *path, wg_error *err);
void wgi_map_close(wgi_map *map);

/* Something stands at path, or may: only "no such file" says no, other doubts are for the open. */
bool wgi_path_exists(const char *path);

/* Tells the kernel that a range was copied elsewhere and its pages may go. */
void wgi_map_drop(const wgi_map *map, const void *from, size_t bytes);

#endif
