/*
 * sink_jsonl.c - rows as JSON lines, to a file or to standard output:
 *
 *     {"id":7,"embedding":[0.01,-0.5]}                     one vector a document
 *     {"id":7,"embedding":[[0.01,-0.5],[0.3,0.25]]}        one vector a token
 *
 * A file like that says nothing of the run that made it, so it is never resumed: an existing one is
 * refused. Whole lines are written; on a full disk a file of ours is cut back to whole lines.
 *
 * Threads: the writer thread only.
 */
#include <string.h>

#include "output/sink_parts.h"

static wg_status jsonl_open(wgi_sink *sink, const wgi_sink_options *options, wg_error *err)
{
    if (strcmp(options->output, "-") == 0) return wgi_stream_standard_output(&sink->lines, err);
    return wgi_stream_create(&sink->lines, options->output, err);
}

static wg_status jsonl_put(wgi_sink *sink, const wgi_row *row, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf *buf = &sink->lines.buf;
    size_t before = buf->count;

    WGI_TRY(wgi_buf_text(buf, "{\"id\":", err));
    WGI_TRY(wgi_record_id(buf, row, err));
    WGI_TRY(wgi_buf_text(buf, sink->one_row_a_token ? ",\"embedding\":[" : ",\"embedding\":", err));
    for (size_t i = 0; i < row->vector_count; i++) {
        if (i) WGI_TRY(wgi_buf_text(buf, ",", err));
        WGI_TRY(wgi_record_vector(buf, row->vectors + i * sink->dim, sink->dim, err));
    }
    WGI_TRY(wgi_buf_text(buf, sink->one_row_a_token ? "]}\n" : "}\n", err));

cleanup:
    if (status != WG_OK) buf->count = before;
    return status;
}

static size_t jsonl_buffered(const wgi_sink *sink)
{
    return sink->lines.buf.count;
}

static wg_status jsonl_flush(wgi_sink *sink, wg_error *err)
{
    wg_status status = wgi_stream_flush(&sink->lines, err);

    return status == WG_OK ? wgi_stream_flush(&sink->failures, err) : status;
}

static wg_status jsonl_finish(wgi_sink *sink, const char *report, wg_error *err)
{
    wg_error second = {0};

    (void)report;
    wg_status status = wgi_stream_finish(&sink->lines, err);
    wg_status failures = wgi_stream_finish(&sink->failures, &second);
    if (status != WG_OK || failures == WG_OK) return status;
    if (err) *err = second;
    return failures;
}

static void jsonl_fini(wgi_sink *sink, bool is_undo)
{
    wgi_stream_fini(&sink->lines, is_undo);
}

const wgi_sink_kind wgi_sink_jsonl = {
    .open = jsonl_open,
    .put = jsonl_put,
    .buffered = jsonl_buffered,
    .flush = jsonl_flush,
    .finish = jsonl_finish,
    .fini = jsonl_fini,
};
