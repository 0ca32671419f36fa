/*
 * os_file.h - files that are written: claimed, filled, made durable, closed, every error seen. Each
 * message begins with the path (or the name given) and says what to do where that is not plain.
 */
#ifndef WGI_OS_FILE_H
#define WGI_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"

/* A file open for writing. Zero is not an open file: WGI_FILE_CLOSED is. */
typedef struct wgi_file {
    int fd;          /* -1: closed */
    bool is_regular; /* can be cut, synced and written at an offset */
    bool is_created; /* by us, just now */
    uint64_t device, inode;
} wgi_file;

#define WGI_FILE_CLOSED ((wgi_file){.fd = -1})

/*
 * Claims a path: a file that exists is refused, a terminal, device or named pipe is opened as it
 * is. Waits for a reader where the path is a named pipe.
 */
wg_status wgi_file_create(wgi_file *out, const char *path, wg_error *err);

/* A descriptor of our own for a standard stream (1); closing it leaves the stream open. */
wg_status wgi_file_standard(wgi_file *out, int fd, const char *name, wg_error *err);

/* Writes all of it; short writes and interruptions are gone on with. */
wg_status wgi_file_write(const wgi_file *file, const char *name, const void *bytes, size_t count,
                         wg_error *err);
wg_status wgi_file_write_at(const wgi_file *file, const char *name, uint64_t offset,
                            const void *bytes, size_t count, wg_error *err);

/* Cuts a regular file as far as that can be done; for the way out after an error. */
void wgi_file_cut(const wgi_file *file, uint64_t bytes);

/* On disk, for a regular file; nothing to do for others. */
wg_status wgi_file_sync(const wgi_file *file, const char *name, wg_error *err);

/* An error of close is an error. The file is closed in any case; a closed one may be closed. */
wg_status wgi_file_close(wgi_file *file, const char *name, wg_error *err);

/* Appends to a file that may exist, in one write: two appenders leave two whole lines. Directories
 * on the way are made. */
wg_status wgi_file_append_line(const char *path, const char *line, size_t count, wg_error *err);

/* The path must not exist. */
wg_status wgi_directory_create(const char *path, wg_error *err);
/* What was made in a directory is on disk. */
wg_status wgi_directory_sync(const char *path, wg_error *err);

/* Takes back what was created here: a file, or an empty directory. Errors do not matter. */
void wgi_path_remove(const char *path);

/* Bytes of a regular file; 0 for anything else. */
uint64_t wgi_path_file_bytes(const char *path);

/* Appends the absolute path without links; the path must exist. */
wg_status wgi_path_real(wgi_buf *out, const char *path, wg_error *err);

/* Are these two descriptors the same regular file? Not so when one is closed. */
bool wgi_descriptors_meet(int a, int b);

/* Test hooks; not for use while another thread writes. */
/* The nth call above from now fails with "No space left on device", and so does every one after;
 * -nth: that one alone; 0: none. */
void wgi_os_fail_at(long nth);
bool wgi_os_has_failed(void);            /* did one, since it was set? */
void wgi_os_write_bytes_max(size_t max); /* every write is cut to so many bytes; 0: as asked */

#endif
