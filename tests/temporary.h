/*
 * temporary.h - a folder for one test: files written from text, and everything gone at the end.
 *
 *     wgt_folder folder = wgt_folder_open();
 *     wgt_write(&folder, "1_Pooling/config.json", text, strlen(text));
 *     ... folder.path ...
 *     wgt_folder_close(&folder);
 */
#ifndef WGT_TEMPORARY_H
#define WGT_TEMPORARY_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct wgt_folder {
    char path[200];
} wgt_folder;

static inline wgt_folder wgt_folder_open(void)
{
    const char *root = getenv("TMPDIR");
    wgt_folder folder;

    (void)snprintf(folder.path, sizeof(folder.path), "%.150s/warpgroup-test-XXXXXX",
                   root && *root ? root : "/tmp");
    if (!mkdtemp(folder.path)) {
        perror(folder.path);
        exit(1);
    }
    return folder;
}

/* Folders on the way are made. */
static inline void wgt_write(const wgt_folder *folder, const char *name, const void *bytes,
                             size_t count)
{
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/%s", folder->path, name);
    for (char *at = path + strlen(folder->path) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = 0;
        (void)mkdir(path, 0777);
        *at = '/';
    }
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static inline void wgt_remove(const char *path)
{
    struct stat info;
    char inner[768];

    if (lstat(path, &info) != 0) return;
    if (!S_ISDIR(info.st_mode)) {
        (void)unlink(path);
        return;
    }
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        (void)snprintf(inner, sizeof(inner), "%.500s/%.250s", path, entry->d_name);
        wgt_remove(inner);
    }
    if (directory) (void)closedir(directory);
    (void)rmdir(path);
}

static inline void wgt_folder_close(wgt_folder *folder)
{
    wgt_remove(folder->path);
}

/* The whole file in memory for free(); *count may be NULL. */
static inline char *wgt_slurp(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    size_t room = 1 << 16, at = 0;
    char *bytes = malloc(room);

    if (!file || !bytes) {
        perror(path);
        exit(1);
    }
    for (size_t got; (got = fread(bytes + at, 1, room - at - 1, file)) > 0;) {
        at += got;
        if (room - at > 1) continue;
        room *= 2;
        bytes = realloc(bytes, room);
        if (!bytes) exit(1);
    }
    (void)fclose(file);
    bytes[at] = 0;
    if (count) *count = at;
    return bytes;
}

#endif
