/*
 * source.h - the bytes of one input as they lie there: a file or standard input.
 */
#ifndef WGI_SOURCE_H
#define WGI_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Zero it to begin; wgi_source_close ends it. */
typedef struct wgi_source {
    int fd;
    int stop_fd;
    bool is_open;
    bool can_wait; /* a pipe, a socket: reading may wait, and can be stopped while it does */
    bool is_empty; /* standard input was closed before we came */
} wgi_source;

wg_status wgi_source_open(wgi_source *source, const char *path, bool is_stdin, int stop_fd,
                          wg_error *err);
/* At least one byte, or *got = 0 at the end. */
wg_status wgi_source_read(wgi_source *source, void *into, size_t capacity, size_t *got,
                          wg_error *err);
void wgi_source_close(wgi_source *source);

#endif
