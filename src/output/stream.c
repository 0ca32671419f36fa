/*
 * stream.c - buffered output of whole records; see stream.h.
 *
 * Records are appended to `buf` by whoever makes them, in place, so a record that fails half made
 * is taken back by resetting the count; only whole ones are ever written.
 *
 * Threads: the writer thread only.
 */
#include "output/stream.h"

#include "base/alloc.h"

wg_status wgi_stream_create(wgi_stream *stream, const char *path, wg_error *err)
{
    wg_status status = WG_OK;

    *stream = (wgi_stream){.file = WGI_FILE_CLOSED};
    stream->name = wgi_strdup(path);
    if (!stream->name) return wgi_fail(err, WG_ERR_NO_MEMORY, "%s: no memory for a name", path);
    status = wgi_file_create(&stream->file, path, err);
    if (status != WG_OK) wgi_stream_fini(stream, false);
    return status;
}

wg_status wgi_stream_standard_output(wgi_stream *stream, wg_error *err)
{
    wg_status status = WG_OK;

    *stream = (wgi_stream){.file = WGI_FILE_CLOSED};
    stream->name = wgi_strdup("standard output");
    if (!stream->name) return wgi_fail(err, WG_ERR_NO_MEMORY, "standard output: no memory");
    status = wgi_file_standard(&stream->file, 1, stream->name, err);
    if (status != WG_OK) wgi_stream_fini(stream, false);
    return status;
}

bool wgi_stream_is_open(const wgi_stream *stream)
{
    return stream->name != NULL;
}

wg_status wgi_stream_flush(wgi_stream *stream, wg_error *err)
{
    size_t count = stream->buf.count;

    if (!wgi_stream_is_open(stream) || count == 0) return WG_OK;
    stream->buf.count = 0;
    wg_status status = wgi_file_write(&stream->file, stream->name, stream->buf.data, count, err);
    if (status == WG_OK) {
        stream->written += count;
    } else if (stream->file.is_created) {
        wgi_file_cut(&stream->file, stream->written);
    }
    return status;
}

wg_status wgi_stream_finish(wgi_stream *stream, wg_error *err)
{
    wg_status status = WG_OK;

    if (!wgi_stream_is_open(stream)) return WG_OK;
    WGI_TRY(wgi_stream_flush(stream, err));
    WGI_TRY(wgi_file_sync(&stream->file, stream->name, err));
    WGI_TRY(wgi_file_close(&stream->file, stream->name, err));

cleanup:
    wgi_stream_fini(stream, false);
    return status;
}

void wgi_stream_fini(wgi_stream *stream, bool is_undo)
{
    if (!wgi_stream_is_open(stream)) return;
    if (is_undo && stream->file.is_created) wgi_path_remove(stream->name);
    (void)wgi_file_close(&stream->file, stream->name, NULL);
    wgi_buf_fini(&stream->buf);
    wgi_free(stream->name);
    *stream = (wgi_stream){.file = WGI_FILE_CLOSED};
}
