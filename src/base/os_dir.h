/*
 * os_dir.h - what a path is, and the sorted names in a directory.
 */
#ifndef WGI_OS_DIR_H
#define WGI_OS_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"

typedef enum wgi_path_kind { WGI_PATH_FILE, WGI_PATH_DIRECTORY, WGI_PATH_OTHER } wgi_path_kind;

typedef struct wgi_path_info {
    wgi_path_kind kind;
    uint64_t device, inode; /* together they name the real file behind links */
    uint64_t bytes;
} wgi_path_info;

/* Follows symbolic links. WG_ERR_IO: missing, a dangling link, a loop of links; the message says.
 */
wg_status wgi_path_look(const char *path, wgi_path_info *info, wg_error *err);

typedef struct wgi_dir_item {
    const char *name;
    size_t name_offset;
    bool is_directory; /* or a link to one */
} wgi_dir_item;

/* Zero it to begin; items are in the byte order that their paths would have: a directory sorts as
 * if its name ended in '/'. */
typedef struct wgi_dir {
    wgi_dir_item *items;
    size_t count;
    size_t capacity;
    wgi_buf names;
} wgi_dir;

wg_status wgi_dir_list(wgi_dir *dir, const char *path, wg_error *err);
void wgi_dir_fini(wgi_dir *dir);

#endif
