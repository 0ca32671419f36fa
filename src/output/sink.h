/*
 * sink.h - where rows go: a directory (embeddings.npy, rows.jsonl, failures.jsonl, report.json), a
 * .jsonl file, or standard output. Called by the writer thread only, in input order.
 */
#ifndef WGI_SINK_H
#define WGI_SINK_H

#include <stdbool.h>

#include "base/status.h"

/* One finished document, in input order. Pointers are borrowed for the call. */
typedef struct wgi_row {
    uint64_t ordinal;
    const char *id; /* JSON value */
    size_t id_bytes;
    const char *source; /* JSON text without quotes */
    size_t source_bytes;
    wg_place place_kind;
    uint64_t place;
    uint32_t token_count;
    bool is_truncated;
    const float *vectors; /* [vector_count, dim] */
    size_t vector_count;  /* 1, or token_count for WG_POOLING_NONE */
    wg_failure failure;
    const char *reason;
} wgi_row;

/* The failure as a message: "notes.jsonl, line 3: too_long: ...". */
void wgi_failure_log(const wgi_row *row);

typedef struct wgi_sink wgi_sink;

typedef struct wgi_sink_options {
    const char *output;   /* "-", FILE.jsonl, or a directory */
    const char *failures; /* NULL: see wg_job_options.failures */
    size_t dim;
    bool one_row_a_token;      /* WG_POOLING_NONE: tokens.npy + offsets.npy */
    const char *const *inputs; /* refused when the output is one of them or lies in one */
    size_t input_count;
} wgi_sink_options;

/*
 * Claims the output. Refused with a sentence: an existing OUT, an OUT that is an input or lies in
 * an input directory, a file name that is neither .jsonl nor usable as a directory.
 */
wg_status wgi_sink_open(wgi_sink **out, const wgi_sink_options *options, wg_error *err);

/* Failures (row->failure) go to the failures list. Buffered. */
wg_status wgi_sink_put(wgi_sink *sink, const wgi_row *row, wg_error *err);

/* Whole rows reach the files, and the .npy header says how many there are. */
wg_status wgi_sink_flush(wgi_sink *sink, wg_error *err);

/* Flushes, writes report.json where the output is a directory, syncs; errors of close are seen. */
wg_status wgi_sink_finish(wgi_sink *sink, const char *report, wg_error *err);

/* Frees; an unfinished sink is flushed as far as it goes. NULL is allowed. */
void wgi_sink_close(wgi_sink *sink);

#endif
