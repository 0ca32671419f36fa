/*
 * job.c - files in, rows out: a road whose one end is a reader and whose other end is a sink.
 *
 *   open   check options, open the road (limits, memory), claim the output; nothing is read yet
 *   run    road; then the report; then the sink is finished, so report.json is the last thing
 * written close
 */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os_file.h"
#include "job/report.h"
#include "job/road.h"
#include "output/sink.h"

struct wg_job {
    const wg_model *model;
    wg_job_options options;
    wg_reader *reader;
    wgi_sink *sink; /* NULL for a plan */
    wgi_road *road;
    wgi_buf report;
    atomic_ulong bytes_read; /* by the reader thread */
    uint64_t bytes_total;    /* 0: not known */
    bool has_run;
};

static wg_status next_document(void *context, wg_document *document, int *has_document,
                               wg_error *err)
{
    wg_job *job = context;

    wg_status status = wg_reader_next(job->reader, document, has_document, err);
    atomic_store(&job->bytes_read, wg_reader_counted(job->reader).bytes);
    return status;
}

static wg_status put_row(void *context, const wgi_row *row, wg_error *err)
{
    wg_job *job = context;

    if (job->sink) return wgi_sink_put(job->sink, row, err);
    wgi_failure_log(row);
    return WG_OK;
}

static wg_status flush_rows(void *context, wg_error *err)
{
    wg_job *job = context;

    return job->sink ? wgi_sink_flush(job->sink, err) : WG_OK;
}

static void interrupt_reader(void *context)
{
    wg_job *job = context;

    wg_reader_stop(job->reader);
}

/* Bytes that will be read, when every input is a plain file of text: then progress has an end. */
static uint64_t input_bytes(const wg_reader_options *input)
{
    static const char *const plain[] = {".jsonl", ".ndjson", ".txt", ".md"};
    uint64_t total = 0;

    for (size_t i = 0; i < input->input_count; i++) {
        const char *suffix = strrchr(input->inputs[i], '.');
        uint64_t bytes = wgi_path_file_bytes(input->inputs[i]);
        bool is_plain = false;
        for (size_t k = 0; suffix && k < sizeof(plain) / sizeof(plain[0]); k++)
            is_plain |= strcmp(suffix, plain[k]) == 0;
        if (!is_plain || bytes == 0) return 0;
        total += bytes;
    }
    return total;
}

wg_status wg_job_open(wg_job **out, const wg_model *model, const wg_job_options *options,
                      wg_error *err)
{
    wg_status status = WG_OK;
    wg_job *job = NULL;

    if (!out || !model || !options)
        return wgi_fail(err, WG_ERR_ARGUMENT, "wg_job_open: out, model or options is NULL");
    *out = NULL;
    if (options->padded_sorted && !options->padded_batch)
        return wgi_fail(err, WG_ERR_ARGUMENT, "sorted batches are for padded runs only");
    job = wgi_calloc(1, sizeof(*job));
    if (!job) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a job");
    job->model = model;
    job->options = *options;

    WGI_TRY(wgi_road_open(&job->road,
                          &(wgi_road_options){
                              .model = model,
                              .embed = options->embed,
                              .tokenizer_thread_count = options->tokenizer_thread_count,
                              .padded_batch = options->padded_batch,
                              .padded_sorted = options->padded_sorted != 0,
                              .plan_only = options->plan_only != 0,
                              .next = next_document,
                              .put = put_row,
                              .flush = flush_rows,
                              .interrupt = interrupt_reader,
                              .context = job,
                          },
                          err));
    WGI_TRY(wg_reader_open(&job->reader, &options->input, err));
    if (!options->plan_only) {
        WGI_TRY(wgi_sink_open(&job->sink,
                              &(wgi_sink_options){
                                  .output = options->output ? options->output : "-",
                                  .failures = options->failures,
                                  .dim = wgi_road_dim(job->road),
                                  .one_row_a_token = wgi_road_is_row_a_token(job->road),
                                  .inputs = options->input.inputs,
                                  .input_count = options->input.input_count,
                              },
                              err));
    }
    job->bytes_total = input_bytes(&options->input);
    *out = job;
    job = NULL;

cleanup:
    wg_job_close(job);
    return status;
}

wg_status wg_job_run(wg_job *job, wg_error *err)
{
    wg_status status, report_status;
    wg_error report_err = {0};

    if (!job) return wgi_fail(err, WG_ERR_ARGUMENT, "wg_job_run: job is NULL");
    if (job->has_run) return wgi_fail(err, WG_ERR_CLOSED, "this job has run already");
    job->has_run = true;
    status = wgi_road_run(job->road, err);

    /* However the run ended, what is there is reported and left whole. */
    report_status = wgi_report_write(&job->report,
                                     &(wgi_report_input){
                                         .model = job->model,
                                         .options = &job->options,
                                         .tally = wgi_road_tally(job->road),
                                         .reader = wg_reader_counted(job->reader),
                                         .status = status,
                                     },
                                     &report_err);
    if (report_status == WG_OK && job->sink)
        report_status = wgi_sink_finish(job->sink, job->report.data, &report_err);
    if (status == WG_OK && report_status != WG_OK) {
        status = report_status;
        if (err) *err = report_err;
    }
    return status;
}

void wg_job_stop(wg_job *job)
{
    if (job) wgi_road_stop(job->road);
}

wg_progress wg_job_progress(const wg_job *job)
{
    wg_progress progress = {0};

    if (job) {
        progress = wgi_road_progress(job->road);
        progress.bytes_read = atomic_load(&job->bytes_read);
        progress.bytes_total = job->bytes_total;
    }
    return progress;
}

const char *wg_job_report(const wg_job *job)
{
    return job && job->report.data ? job->report.data : "";
}

void wg_job_close(wg_job *job)
{
    if (!job) return;
    wgi_road_close(job->road);
    wg_reader_close(job->reader);
    wgi_sink_close(job->sink);
    wgi_buf_fini(&job->report);
    wgi_free(job);
}
