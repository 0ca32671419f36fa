/*
 * sink_parts.h - what the files of src/output share: the kinds of sink and the list of failures.
 */
#ifndef WGI_SINK_PARTS_H
#define WGI_SINK_PARTS_H

#include "output/npy.h"
#include "output/sink.h"
#include "output/stream.h"

/* A directory: see sink_directory.c. */
typedef struct wgi_directory_out {
    char *path;
    wgi_npy vectors; /* embeddings.npy or tokens.npy */
    wgi_npy offsets; /* offsets.npy; open with one_row_a_token only */
    wgi_stream rows; /* rows.jsonl */
    uint64_t row_count;
    uint64_t vector_count; /* rows of `vectors` so far */
} wgi_directory_out;

/* What a kind of sink does; every call may fail half way, wgi_sink_put and others clean up. */
typedef struct wgi_sink_kind {
    wg_status (*open)(wgi_sink *sink, const wgi_sink_options *options, wg_error *err);
    wg_status (*put)(wgi_sink *sink, const wgi_row *row, wg_error *err); /* a row that succeeded */
    size_t (*buffered)(const wgi_sink *sink);                            /* bytes */
    wg_status (*flush)(wgi_sink *sink, wg_error *err); /* failures are flushed by it too */
    wg_status (*finish)(wgi_sink *sink, const char *report, wg_error *err);
    void (*fini)(wgi_sink *sink, bool is_undo);
} wgi_sink_kind;

extern const wgi_sink_kind wgi_sink_directory;
extern const wgi_sink_kind wgi_sink_jsonl;

struct wgi_sink {
    const wgi_sink_kind *kind;
    size_t dim;
    bool one_row_a_token;
    wgi_stream failures; /* not open: failures go to the log */
    union {
        wgi_directory_out directory;
        wgi_stream lines;
    };
    bool is_finished;
    bool is_failed; /* a write failed: nothing more is taken, error says why */
    wg_error error;
};

/* One line of failures.jsonl into the stream, or one message in the log when it is not open. */
wg_status wgi_failure_put(wgi_stream *stream, const wgi_row *row, wg_error *err);

/* Helpers for records. */
wg_status wgi_record_id(wgi_buf *out, const wgi_row *row, wg_error *err); /* null without an id */
wg_status wgi_record_vector(wgi_buf *out, const float *vector, size_t dim, wg_error *err);

#endif
