/*
 * record_out.c - pieces of the JSON lines that the sinks write, and the list of failures.
 *
 * An id is the JSON value that the reader found, echoed byte for byte; a source is JSON text
 * already.
 *
 * Threads: the writer thread only.
 */
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "output/sink_parts.h"

wg_status wgi_record_id(wgi_buf *out, const wgi_row *row, wg_error *err)
{
    if (!row->id || row->id_bytes == 0) return wgi_buf_text(out, "null", err);
    return wgi_buf_append(out, row->id, row->id_bytes, err);
}

wg_status wgi_record_vector(wgi_buf *out, const float *vector, size_t dim, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(wgi_buf_append(out, "[", 1, err));
    for (size_t i = 0; i < dim; i++) {
        if (i) WGI_TRY(wgi_buf_append(out, ",", 1, err));
        WGI_TRY(wgi_json_put_float(out, vector[i], err));
    }
    WGI_TRY(wgi_buf_append(out, "]", 1, err));

cleanup:
    return status;
}

static const char *place_key(wg_place place)
{
    switch (place) {
    case WG_PLACE_LINE:
        return "line";
    case WG_PLACE_PAGE:
        return "page";
    case WG_PLACE_OFFSET:
        return "offset";
    default:
        return NULL;
    }
}

void wgi_failure_log(const wgi_row *row)
{
    const char *key = place_key(row->place_kind);
    char place[48] = "";

    if (key) {
        (void)snprintf(place, sizeof(place), ", %s %llu", key, (unsigned long long)row->place);
    }
    wgi_log(WG_LOG_ERROR, "%.*s%s: %s: %s",
            (int)(row->source_bytes > 400 ? 400 : row->source_bytes),
            row->source ? row->source : "", place, wg_failure_code(row->failure),
            row->reason ? row->reason : "");
}

wg_status wgi_failure_put(wgi_stream *stream, const wgi_row *row, wg_error *err)
{
    wg_status status = WG_OK;
    const char *key = place_key(row->place_kind);
    const char *reason = row->reason ? row->reason : "";
    size_t before = stream->buf.count, reason_bytes = 0;

    if (!wgi_stream_is_open(stream)) {
        wgi_failure_log(row);
        return WG_OK;
    }
    while (reason[reason_bytes])
        reason_bytes++;
    WGI_TRY(wgi_buf_text(&stream->buf, "{\"id\":", err));
    WGI_TRY(wgi_record_id(&stream->buf, row, err));
    WGI_TRY(wgi_buf_text(&stream->buf, ",\"source\":\"", err));
    WGI_TRY(wgi_buf_append(&stream->buf, row->source, row->source_bytes, err));
    WGI_TRY(wgi_buf_text(&stream->buf, "\"", err));
    if (key)
        WGI_TRY(
            wgi_buf_printf(&stream->buf, err, ",\"%s\":%llu", key, (unsigned long long)row->place));
    WGI_TRY(wgi_buf_printf(&stream->buf, err,
                           ",\"code\":\"%s\",\"reason\":", wg_failure_code(row->failure)));
    WGI_TRY(wgi_json_quote(&stream->buf, reason, reason_bytes, err));
    WGI_TRY(wgi_buf_text(&stream->buf, "}\n", err));

cleanup:
    if (status != WG_OK) stream->buf.count = before;
    return status;
}
