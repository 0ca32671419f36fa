/*
 * sink_directory.c - a directory with one array and what belongs to its rows:
 *
 *     embeddings.npy    [rows, dim]: row k is the k-th document that succeeded, in input order
 *     rows.jsonl        line k: {"row":k,"id":..,"source":"..","tokens":..,"truncated":..}
 *     failures.jsonl    a line for each document that failed (unless they go elsewhere)
 *     report.json       last of all
 *
 *     tokens.npy, offsets.npy   in place of embeddings.npy, with one row a token: the tokens of
 *                               document k are rows [offsets[k], offsets[k + 1])
 *
 * A flush writes data first, then lines, then the headers that count the data. So at any moment,
 * killed or not, a header counts rows that are there and that rows.jsonl names. When a write of
 * data fails, all files go back to the last flush. One file a row was refused: a million documents.
 *
 * Threads: the writer thread only.
 */
#include <string.h>

#include "base/alloc.h"
#include "output/sink_parts.h"

/* Appends OUT/name to the buffer, as a path. */
static wg_status join(wgi_buf *out, const wgi_sink *sink, const char *name, wg_error *err)
{
    const char *path = sink->directory.path;
    size_t count = strlen(path);

    out->count = 0;
    wg_status status = wgi_buf_append(out, path, count, err);
    if (status == WG_OK && path[count - 1] != '/') status = wgi_buf_text(out, "/", err);
    return status == WG_OK ? wgi_buf_text(out, name, err) : status;
}

static void directory_fini(wgi_sink *sink, bool is_undo)
{
    wgi_directory_out *out = &sink->directory;

    wgi_stream_fini(&out->vectors.stream, is_undo);
    wgi_stream_fini(&out->offsets.stream, is_undo);
    wgi_stream_fini(&out->rows, is_undo);
    if (is_undo && out->path) {
        wgi_stream_fini(&sink->failures, true);
        wgi_path_remove(out->path);
    }
    wgi_free(out->path);
    out->path = NULL;
}

static wg_status directory_open(wgi_sink *sink, const wgi_sink_options *options, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_directory_out *out = &sink->directory;
    wgi_buf path = {0};
    int64_t zero = 0;

    WGI_TRY(wgi_directory_create(options->output, err));
    out->path = wgi_strdup(options->output);
    if (!out->path) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "%s: no memory for a name", options->output);
        wgi_path_remove(options->output);
        goto cleanup;
    }
    WGI_TRY(join(&path, sink, sink->one_row_a_token ? "tokens.npy" : "embeddings.npy", err));
    WGI_TRY(wgi_npy_create(&out->vectors, path.data, WGI_NPY_F32, sink->dim, err));
    if (sink->one_row_a_token) {
        WGI_TRY(join(&path, sink, "offsets.npy", err));
        WGI_TRY(wgi_npy_create(&out->offsets, path.data, WGI_NPY_I64, 0, err));
        WGI_TRY(wgi_npy_append(&out->offsets, &zero, 1, err));
        WGI_TRY(wgi_npy_flush(&out->offsets, err));
        WGI_TRY(wgi_npy_write_header(&out->offsets, err));
    }
    WGI_TRY(join(&path, sink, "rows.jsonl", err));
    WGI_TRY(wgi_stream_create(&out->rows, path.data, err));
    if (!wgi_stream_is_open(&sink->failures)) {
        WGI_TRY(join(&path, sink, "failures.jsonl", err));
        WGI_TRY(wgi_stream_create(&sink->failures, path.data, err));
    }

cleanup:
    wgi_buf_fini(&path);
    return status;
}

static wg_status append_line(wgi_sink *sink, const wgi_row *row, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf *buf = &sink->directory.rows.buf;

    WGI_TRY(wgi_buf_printf(buf, err,
                           "{\"row\":%llu,\"id\":", (unsigned long long)sink->directory.row_count));
    WGI_TRY(wgi_record_id(buf, row, err));
    WGI_TRY(wgi_buf_text(buf, ",\"source\":\"", err));
    WGI_TRY(wgi_buf_append(buf, row->source, row->source_bytes, err));
    WGI_TRY(wgi_buf_printf(buf, err, "\",\"tokens\":%lu,\"truncated\":%s}\n",
                           (unsigned long)row->token_count, row->is_truncated ? "true" : "false"));

cleanup:
    return status;
}

static wg_status directory_put(wgi_sink *sink, const wgi_row *row, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_directory_out *out = &sink->directory;
    size_t vectors = out->vectors.stream.buf.count, offsets = out->offsets.stream.buf.count;
    size_t rows = out->rows.buf.count;
    int64_t end = (int64_t)(out->vector_count + row->vector_count);

    WGI_TRY(wgi_npy_append(&out->vectors, row->vectors, row->vector_count, err));
    if (sink->one_row_a_token) WGI_TRY(wgi_npy_append(&out->offsets, &end, 1, err));
    WGI_TRY(append_line(sink, row, err));
    out->row_count++;
    out->vector_count += row->vector_count;

cleanup:
    if (status != WG_OK) {
        out->vectors.stream.buf.count = vectors;
        out->offsets.stream.buf.count = offsets;
        out->rows.buf.count = rows;
    }
    return status;
}

static size_t directory_buffered(const wgi_sink *sink)
{
    return sink->directory.vectors.stream.buf.count + sink->directory.rows.buf.count;
}

static wg_status directory_flush(wgi_sink *sink, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_directory_out *out = &sink->directory;
    uint64_t vectors = out->vectors.stream.written, offsets = out->offsets.stream.written;

    status = wgi_npy_flush(&out->vectors, err);
    if (status == WG_OK) status = wgi_npy_flush(&out->offsets, err);
    if (status == WG_OK) status = wgi_stream_flush(&out->rows, err);
    if (status != WG_OK) {
        wgi_file_cut(&out->vectors.stream.file, vectors);
        if (sink->one_row_a_token) wgi_file_cut(&out->offsets.stream.file, offsets);
        out->offsets.stream.buf.count = out->rows.buf.count = 0; /* theirs of the rows dropped */
        return status;
    }
    WGI_TRY(wgi_npy_write_header(&out->vectors, err));
    WGI_TRY(wgi_npy_write_header(&out->offsets, err));
    WGI_TRY(wgi_stream_flush(&sink->failures, err));

cleanup:
    return status;
}

static wg_status write_report(wgi_sink *sink, const char *report, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_stream stream = {.file = WGI_FILE_CLOSED};
    wgi_buf path = {0};
    bool is_created = false;

    WGI_TRY(join(&path, sink, "report.json", err));
    WGI_TRY(wgi_stream_create(&stream, path.data, err));
    is_created = true;
    WGI_TRY(wgi_buf_text(&stream.buf, report, err));
    WGI_TRY(wgi_buf_text(&stream.buf, "\n", err));
    WGI_TRY(wgi_stream_finish(&stream, err));

cleanup:
    wgi_stream_fini(&stream, false);
    if (status != WG_OK && is_created) wgi_path_remove(path.data); /* half a report is none */
    wgi_buf_fini(&path);
    return status;
}

/* Runs every step although an earlier one failed; the first error is the one that is told. */
static wg_status directory_finish(wgi_sink *sink, const char *report, wg_error *err)
{
    wgi_directory_out *out = &sink->directory;
    wg_status status = WG_OK;

    for (int step = 0; step < 6; step++) {
        wg_error step_err = {0};
        wg_status done = WG_OK;

        if (step == 0) done = wgi_stream_finish(&out->vectors.stream, &step_err);
        if (step == 1) done = wgi_stream_finish(&out->offsets.stream, &step_err);
        if (step == 2) done = wgi_stream_finish(&out->rows, &step_err);
        if (step == 3) done = wgi_stream_finish(&sink->failures, &step_err);
        if (step == 4 && report) done = write_report(sink, report, &step_err);
        if (step == 5) done = wgi_directory_sync(out->path, &step_err);
        if (done == WG_OK || status != WG_OK) continue;
        status = done;
        if (err) *err = step_err;
    }
    return status;
}

const wgi_sink_kind wgi_sink_directory = {
    .open = directory_open,
    .put = directory_put,
    .buffered = directory_buffered,
    .flush = directory_flush,
    .finish = directory_finish,
    .fini = directory_fini,
};
