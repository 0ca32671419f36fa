/*
 * source.c - bytes of a file or of standard input; see source.h.
 *
 * Nothing here asks for a size or seeks, so a pipe is as good as a file. A terminal is refused:
 * a command that seems to hang while it waits for typed records helps nobody.
 *
 * Threads: the reader's own.
 */
#include "corpus/source.h"

#include "base/os_read.h"

wg_status wgi_source_open(wgi_source *source, const char *path, bool is_stdin, int stop_fd,
                          wg_error *err)
{
    wg_status status = WG_OK;
    wgi_source opened = {.fd = 0, .stop_fd = stop_fd}; /* 0 is standard input */

    if (!is_stdin) WGI_TRY(wgi_read_open(&opened.fd, path, err));
    switch (wgi_read_look(opened.fd)) {
    case WGI_READ_CLOSED:
        opened.is_empty = true;
        break;
    case WGI_READ_FILE:
        break;
    case WGI_READ_STREAM:
        opened.can_wait = true;
        break;
    case WGI_READ_DIRECTORY:
        status = wgi_fail(err, WG_ERR_IO, "is a directory: give its path instead");
        break;
    case WGI_READ_TERMINAL:
        status = wgi_fail(err, WG_ERR_IO, "is a terminal: give files, or pipe records in");
        break;
    }
    if (status != WG_OK) {
        if (!is_stdin) wgi_read_close(opened.fd);
        goto cleanup;
    }
    if (is_stdin)
        opened.is_open = false; /* not ours to close */
    else
        opened.is_open = true;
    *source = opened;

cleanup:
    return status;
}

wg_status wgi_source_read(wgi_source *source, void *into, size_t capacity, size_t *got,
                          wg_error *err)
{
    *got = 0;
    if (source->is_empty) return WG_OK;
    return wgi_read_some(source->fd, source->can_wait, source->stop_fd, into, capacity, got, err);
}

void wgi_source_close(wgi_source *source)
{
    if (source->is_open) wgi_read_close(source->fd);
    source->is_open = false;
}
