/*
 * report.h - report.json: what a run did, and how it was set up.
 */
#ifndef WGI_REPORT_H
#define WGI_REPORT_H

#include "job/handles.h"
#include "job/tally.h"

typedef struct wgi_report_input {
    const wg_model *model;
    const wg_job_options *options;
    const wgi_tally *tally;
    wg_reader_counts reader;
    wg_status status; /* how the run ended */
} wgi_report_input;

/* Appends one JSON object, indented. */
wg_status wgi_report_write(wgi_buf *out, const wgi_report_input *input, wg_error *err);

#endif
