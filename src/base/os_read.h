/*
 * os_read.h - opening and reading of input, stoppable, and with hooks that fail or shorten reads.
 */
#ifndef WGI_OS_READ_H
#define WGI_OS_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* *fd is an open descriptor or -1. Messages say what went wrong and leave the name to the caller.
 */
wg_status wgi_read_open(int *fd, const char *path, wg_error *err);
void wgi_read_close(int fd); /* -1 is allowed */

/*
 * The same open file under a number above the standard streams, or -1 (errno is set, fd is closed).
 * A host may run with standard input closed: what we open must not take its place.
 */
int wgi_fd_lift(int fd);

/* A terminal or a directory (which cannot be input), or something that can keep a reader waiting.
 */
typedef enum wgi_read_kind {
    WGI_READ_CLOSED, /* not an open descriptor */
    WGI_READ_FILE,
    WGI_READ_DIRECTORY,
    WGI_READ_TERMINAL,
    WGI_READ_STREAM
} wgi_read_kind;
wgi_read_kind wgi_read_look(int fd);

/*
 * Reads at least one byte, or *got = 0 at the end. can_wait: first waits until there is something
 * to read or stop_fd (-1: none) is raised, which gives WG_ERR_INTERRUPTED.
 */
wg_status wgi_read_some(int fd, bool can_wait, int stop_fd, void *into, size_t capacity,
                        size_t *got, wg_error *err);
/* For a descriptor that does not block: *got = 0 and not *is_end when nothing is there. */
wg_status wgi_read_now(int fd, void *into, size_t capacity, size_t *got, bool *is_end,
                       wg_error *err);

/* A flag that a wait can see. Raising it is async-signal-safe; it stays up. */
wg_status wgi_stop_open(int *stop_fd, wg_error *err);
void wgi_stop_raise(int stop_fd);
bool wgi_stop_is_raised(int stop_fd);

/* A file without a name that lives in memory, for a child that wants a file. */
wg_status wgi_memory_file_open(int *fd, wg_error *err);
wg_status wgi_memory_file_write(int fd, const void *bytes, size_t count, wg_error *err);

/* Test hooks; not for use while another thread reads. */
void wgi_read_fail_at(long nth); /* the nth read from now fails, and every one after; 0: never */
void wgi_read_bytes_max(size_t bytes); /* every read is cut to so many bytes; 0: as asked */

#endif
