/*
 * os_dir.c - directories; see os_dir.h.
 *
 * A directory is read whole and closed before anything in it is visited, so a deep tree holds no
 * descriptors. Refused: nftw(3) and fts(3), whose order and link rules are not ours.
 *
 * Threads: any.
 */
#include "base/os_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"

wg_status wgi_path_look(const char *path, wgi_path_info *info, wg_error *err)
{
    struct stat stat_info;

    if (stat(path, &stat_info) != 0) return wgi_fail(err, WG_ERR_IO, "%s", strerror(errno));
    info->kind = S_ISREG(stat_info.st_mode)   ? WGI_PATH_FILE
                 : S_ISDIR(stat_info.st_mode) ? WGI_PATH_DIRECTORY
                                              : WGI_PATH_OTHER;
    info->device = (uint64_t)stat_info.st_dev;
    info->inode = (uint64_t)stat_info.st_ino;
    info->bytes = stat_info.st_size > 0 ? (uint64_t)stat_info.st_size : 0;
    return WG_OK;
}

static bool entry_is_directory(int folder_fd, const struct dirent *entry)
{
    struct stat info;

    if (entry->d_type == DT_DIR) return true;
    if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN) return false;
    return fstatat(folder_fd, entry->d_name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}

static int items_compare(const void *left, const void *right)
{
    const wgi_dir_item *a = left, *b = right;
    const char *x = a->name, *y = b->name;

    while (*x && *x == *y) {
        x++;
        y++;
    }
    unsigned char p = (unsigned char)(*x ? *x : a->is_directory ? '/' : 0);
    unsigned char q = (unsigned char)(*y ? *y : b->is_directory ? '/' : 0);
    return (p > q) - (p < q);
}

static wg_status add_item(wgi_dir *dir, const char *name, bool is_directory, wg_error *err)
{
    wg_status status =
        wgi_grow(&dir->items, &dir->capacity, dir->count + 1, sizeof(*dir->items), err);

    if (status != WG_OK) return status;
    dir->items[dir->count] =
        (wgi_dir_item){.name_offset = dir->names.count, .is_directory = is_directory};
    status = wgi_buf_append(&dir->names, name, strlen(name) + 1, err);
    if (status == WG_OK) dir->count++;
    return status;
}

wg_status wgi_dir_list(wgi_dir *dir, const char *path, wg_error *err)
{
    wg_status status = WG_OK;
    DIR *folder = opendir(path);

    if (!folder) {
        if (errno == ENOMEM)
            status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a directory");
        else
            status =
                wgi_fail(err, WG_ERR_IO, "the directory cannot be opened: %s", strerror(errno));
        goto cleanup;
    }
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry) break;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        WGI_TRY(add_item(dir, entry->d_name, entry_is_directory(dirfd(folder), entry), err));
    }
    if (errno != 0) {
        status = wgi_fail(err, WG_ERR_IO, "the directory cannot be read: %s", strerror(errno));
        goto cleanup;
    }
    for (size_t i = 0; i < dir->count; i++)
        dir->items[i].name = dir->names.data + dir->items[i].name_offset;
    if (dir->count > 1) qsort(dir->items, dir->count, sizeof(*dir->items), items_compare);

cleanup:
    if (folder) (void)closedir(folder);
    return status;
}

void wgi_dir_fini(wgi_dir *dir)
{
    wgi_free(dir->items);
    wgi_buf_fini(&dir->names);
    *dir = (wgi_dir){0};
}
