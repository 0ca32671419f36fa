/*
 * sink.c - where rows go: which kind of sink an output names, and what all kinds have in common.
 *
 *     wgi_sink_put ---> buffers of whole records ---(flush, or 1 MiB)---> files
 *
 * Everything that can be refused is refused at open, before input is read: output that exists, that
 * is an input or would become one, a name that looks like a format we do not write. What open made
 * it takes back when it fails, so the same command can be tried again.
 *
 * The first failed write ends a sink: later calls return that error, because rows behind a hole
 * would not be where rows.jsonl says.
 *
 * Threads: the writer thread only.
 */
#include "output/sink.h"

#include <string.h>

#include "base/alloc.h"
#include "base/os_dir.h"
#include "output/claim.h"
#include "output/sink_parts.h"

#define BUFFER_BYTES (1 << 20)

static bool ends_with(const char *text, const char *end)
{
    size_t count = strlen(text), end_count = strlen(end);

    return count > end_count && strcmp(text + count - end_count, end) == 0;
}

/* Is there a device or a named pipe? These take lines. */
static bool is_stream_path(const char *path)
{
    wgi_path_info info;

    return wgi_path_look(path, &info, NULL) == WG_OK && info.kind == WGI_PATH_OTHER;
}

/* Which kind of sink an output names. */
static wg_status choose_kind(const wgi_sink_kind **out, const char *output, wg_error *err)
{
    static const char *const files[] = {".npy", ".npz",   ".json", ".ndjson",     ".csv", ".tsv",
                                        ".txt", ".gz",    ".zst",  ".parquet",    ".bin", ".pdf",
                                        ".md",  ".arrow", ".h5",   ".safetensors"};

    if (output[0] == 0) return wgi_fail(err, WG_ERR_ARGUMENT, "the name of the output is empty");
    if (strcmp(output, "-") == 0 || ends_with(output, ".jsonl") || is_stream_path(output)) {
        *out = &wgi_sink_jsonl;
        return WG_OK;
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (ends_with(output, files[i]))
            return wgi_fail(
                err, WG_ERR_ARGUMENT,
                "%s: the output is a directory, a file whose name ends in .jsonl, or '-' "
                "for standard output; %s files are not written",
                output, files[i]);
    }
    *out = &wgi_sink_directory;
    return WG_OK;
}

static wg_status open_failures(wgi_sink *sink, const wgi_sink_options *options, wg_error *err)
{
    const char *path = options->failures;
    wg_status status;

    if (!path) return WG_OK;
    if (path[0] == 0 || strcmp(path, "-") == 0)
        return wgi_fail(
            err, WG_ERR_ARGUMENT,
            "the list of failures needs the name of a file; standard output is for results");
    status =
        wgi_claim_check(path, "the list of failures", options->inputs, options->input_count, err);
    return status == WG_OK ? wgi_stream_create(&sink->failures, path, err) : status;
}

wg_status wgi_sink_open(wgi_sink **out, const wgi_sink_options *options, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_sink *sink = NULL;

    *out = NULL;
    if (!options->output || options->dim == 0)
        return wgi_fail(err, WG_ERR_ARGUMENT, "a sink needs an output and a dimension");
    sink = wgi_calloc(1, sizeof(*sink));
    if (!sink) return wgi_fail(err, WG_ERR_NO_MEMORY, "%s: no memory for output", options->output);
    sink->dim = options->dim;
    sink->one_row_a_token = options->one_row_a_token;

    WGI_TRY(choose_kind(&sink->kind, options->output, err));
    WGI_TRY(
        wgi_claim_check(options->output, "the output", options->inputs, options->input_count, err));
    WGI_TRY(open_failures(sink, options, err));
    WGI_TRY(sink->kind->open(sink, options, err));
    *out = sink;
    sink = NULL;

cleanup:
    if (sink) {
        if (sink->kind) sink->kind->fini(sink, true);
        wgi_stream_fini(&sink->failures, true);
        wgi_free(sink);
    }
    return status;
}

/* WG_OK when the sink still takes rows. */
static wg_status check_open(const wgi_sink *sink, wg_error *err)
{
    if (sink->is_failed) return wgi_fail(err, sink->error.status, "%s", sink->error.message);
    if (sink->is_finished) return wgi_fail(err, WG_ERR_CLOSED, "the output is finished already");
    return WG_OK;
}

wg_status wgi_sink_flush(wgi_sink *sink, wg_error *err)
{
    wg_status status = check_open(sink, err);

    if (status != WG_OK) return status;
    status = sink->kind->flush(sink, &sink->error);
    if (status == WG_OK) return WG_OK;
    sink->is_failed = true;
    return check_open(sink, err);
}

wg_status wgi_sink_put(wgi_sink *sink, const wgi_row *row, wg_error *err)
{
    wg_status status = check_open(sink, err);

    if (status != WG_OK) return status;
    if (row->failure != WG_FAILURE_NONE) {
        status = wgi_failure_put(&sink->failures, row, err);
    } else if (!row->vectors || (!sink->one_row_a_token && row->vector_count != 1)) {
        status = wgi_fail(err, WG_ERR_ARGUMENT, "document %llu has %zu vectors",
                          (unsigned long long)row->ordinal, row->vector_count);
    } else {
        status = sink->kind->put(sink, row, err);
    }
    if (status != WG_OK) return status;
    if (sink->kind->buffered(sink) + sink->failures.buf.count < BUFFER_BYTES) return WG_OK;
    return wgi_sink_flush(sink, err);
}

wg_status wgi_sink_finish(wgi_sink *sink, const char *report, wg_error *err)
{
    wg_error own = {0};
    wg_status status;

    if (sink->is_finished) return check_open(sink, err);
    status = wgi_sink_flush(sink, err);
    sink->is_finished = true;
    wg_status finished = sink->kind->finish(sink, report, &own);
    if (status != WG_OK || finished == WG_OK) return status;
    if (err) *err = own;
    return finished;
}

void wgi_sink_close(wgi_sink *sink)
{
    if (!sink) return;
    if (!sink->is_finished && !sink->is_failed) (void)wgi_sink_flush(sink, NULL);
    sink->kind->fini(sink, false);
    wgi_stream_fini(&sink->failures, false);
    wgi_free(sink);
}
