/*
 * reader_folder.h - a fresh folder for a test, with files in it.
 */
#ifndef WGT_READER_FOLDER_H
#define WGT_READER_FOLDER_H

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "harness.h"

static char wgt_folder[256];

static inline void wgt_folder_make(void)
{
    const char *base = getenv("TMPDIR");

    (void)snprintf(wgt_folder, sizeof(wgt_folder), "%s/wgt-reader-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(wgt_folder)) {
        perror(wgt_folder);
        exit(1);
    }
}

static inline void wgt_folder_drop(void)
{
    char command[600];

    (void)snprintf(command, sizeof(command), "chmod -R u+rwx '%s' && rm -r '%s'", wgt_folder,
                   wgt_folder);
    EXPECT_EQ(system(command), 0);
}

/* Path of a name in the folder; good until 64 calls later. */
static inline const char *wgt_in(const char *name)
{
    static char paths[64][600];
    static unsigned next;
    char *path = paths[next++ % 64];

    (void)snprintf(path, 600, "%s/%s", wgt_folder, name);
    return path;
}

static inline const char *wgt_put(const char *name, const void *bytes, size_t count)
{
    const char *path = wgt_in(name);
    FILE *file = fopen(path, "wb");

    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    return path;
}

static inline const char *wgt_put_text(const char *name, const char *text)
{
    return wgt_put(name, text, strlen(text));
}

static inline const char *wgt_put_gz(const char *name, const void *bytes, size_t count)
{
    const char *path = wgt_in(name);
    gzFile file = gzopen(path, "wb6");

    if (!file || (count && gzwrite(file, bytes, (unsigned)count) != (int)count) ||
        gzclose(file) != Z_OK) {
        perror(path);
        exit(1);
    }
    return path;
}

#endif
