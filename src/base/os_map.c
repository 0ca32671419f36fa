/*
 * os_map.c - a file mapped read-only, for weights and tokenizers.
 *
 * Refused: reading into the heap (a model would be in memory twice). The file must not shrink
 * while it is mapped; its size was checked against its header before anything is used.
 */
#include "base/os_map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

wg_status wgi_map_open(wgi_map **out, const char *path, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_map *map = NULL;
    struct stat info;
    int fd = -1;

    *out = NULL;

    map = wgi_calloc(1, sizeof(*map));
    if (!map) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "%s: no memory for a file handle", path);
        goto cleanup;
    }
    map->data = "";

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0) {
        status = wgi_fail(err, WG_ERR_IO, "%s: %s", path, strerror(errno));
        goto cleanup;
    }
    if (!S_ISREG(info.st_mode)) {
        status = wgi_fail(err, WG_ERR_IO, "%s: is not a regular file", path);
        goto cleanup;
    }
    if (info.st_size > 0) {
        void *base = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (base == MAP_FAILED) {
            status = wgi_fail(err, WG_ERR_IO, "%s: mmap: %s", path, strerror(errno));
            goto cleanup;
        }
        map->data = base;
        map->bytes = (size_t)info.st_size;
    }

    *out = map; /* ownership leaves here, only here */
    map = NULL;

cleanup: /* success passes through too, so this path runs in every test */
    if (fd >= 0) (void)close(fd);
    wgi_map_close(map);
    return status;
}

void wgi_map_close(wgi_map *map)
{
    if (!map) return;
    if (map->bytes) (void)munmap((void *)(uintptr_t)map->data, map->bytes);
    wgi_free(map);
}

bool wgi_path_exists(const char *path)
{
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

void wgi_map_drop(const wgi_map *map, const void *from, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)from + page - 1) / page * page; /* whole pages inside only */
    uintptr_t last = ((uintptr_t)from + bytes) / page * page;

    if (!map->bytes || first >= last) return;
    /* Advice only: a kernel that does not take it keeps the pages, nothing else changes. */
    (void)madvise((void *)first, last - first, MADV_DONTNEED);
}
