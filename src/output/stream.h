/*
 * stream.h - an output file with a buffer of whole records, part of src/output for its own use.
 */
#ifndef WGI_STREAM_H
#define WGI_STREAM_H

#include "base/buf.h"
#include "base/os_file.h"

/* Zero it to begin. */
typedef struct wgi_stream {
    wgi_file file;
    char *name;       /* path, or what messages call it; NULL: not open */
    wgi_buf buf;      /* records that are not in the file yet */
    uint64_t written; /* bytes in the file, whole records */
} wgi_stream;

/* Claims the path, see wgi_file_create. On failure the stream is not open. */
wg_status wgi_stream_create(wgi_stream *stream, const char *path, wg_error *err);
wg_status wgi_stream_standard_output(wgi_stream *stream, wg_error *err);
bool wgi_stream_is_open(const wgi_stream *stream);

/*
 * Writes what is buffered. When that fails a file of ours is cut back to the records that were
 * whole before, and the buffer is dropped: nothing torn is left behind.
 */
wg_status wgi_stream_flush(wgi_stream *stream, wg_error *err);

/* Flushes, makes durable, closes. Frees in any case; not open: nothing to do. */
wg_status wgi_stream_finish(wgi_stream *stream, wg_error *err);

/* Closes and frees without a flush; is_undo takes a file that was created here away again. */
void wgi_stream_fini(wgi_stream *stream, bool is_undo);

#endif
