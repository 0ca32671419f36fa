/*
 * report.c - report.json, one table of members: name, kind, value. A number that is not finite is
 * written as 0 (there is none in a sane run), so the text is always JSON.
 */
#include "job/report.h"

#include <math.h>
#include <string.h>

#include "base/json.h"

/* Writes members of nested objects; the first error sticks in `status`. */
typedef struct writer {
    wgi_buf *out;
    wg_error *err;
    wg_status status;
    int depth;
    int has_member; /* of the object that is open */
} writer;

static void raw(writer *w, const char *text)
{
    if (w->status == WG_OK) w->status = wgi_buf_text(w->out, text, w->err);
}

static void name(writer *w, const char *key)
{
    raw(w, w->has_member ? ",\n" : "\n");
    for (int i = 0; i < w->depth; i++)
        raw(w, "  ");
    if (w->status == WG_OK) w->status = wgi_json_quote(w->out, key, strlen(key), w->err);
    raw(w, ": ");
    w->has_member = 1;
}

static void open_object(writer *w, const char *key)
{
    if (key) name(w, key);
    raw(w, "{");
    w->depth++;
    w->has_member = 0;
}

static void close_object(writer *w)
{
    w->depth--;
    if (w->has_member) raw(w, "\n");
    for (int i = 0; i < w->depth && w->has_member; i++)
        raw(w, "  ");
    raw(w, "}");
    w->has_member = 1;
}

static void text(writer *w, const char *key, const char *value)
{
    name(w, key);
    if (!value)
        raw(w, "null");
    else if (w->status == WG_OK)
        w->status = wgi_json_quote(w->out, value, strlen(value), w->err);
}

static void count(writer *w, const char *key, uint64_t value)
{
    name(w, key);
    if (w->status == WG_OK)
        w->status = wgi_buf_printf(w->out, w->err, "%llu", (unsigned long long)value);
}

static void number(writer *w, const char *key, double value)
{
    /* Six significant digits are more than any clock here is good for. */
    double scale = value != 0 && isfinite(value) ? pow(10, 5 - floor(log10(fabs(value)))) : 1;
    double rounded = isfinite(value) ? round(value * scale) / scale : 0;

    name(w, key);
    if (w->status == WG_OK)
        w->status = wgi_json_put_double(w->out, isfinite(rounded) ? rounded : 0, w->err);
}

static void flag(writer *w, const char *key, int value)
{
    name(w, key);
    raw(w, value ? "true" : "false");
}

static void write_histogram(writer *w, const wgi_tally *tally)
{
    int has_step = 0;

    name(w, "histogram");
    raw(w, "[");
    for (int i = 0; i < WGI_HISTOGRAM_STEPS; i++) {
        if (!tally->histogram[i]) continue;
        if (w->status == WG_OK)
            w->status =
                wgi_buf_printf(w->out, w->err, "%s{\"from\": %llu, \"to\": %llu, \"count\": %llu}",
                               has_step ? ", " : "", 1ull << i, (2ull << i) - 1,
                               (unsigned long long)tally->histogram[i]);
        has_step = 1;
    }
    raw(w, "]");
}

static void write_failures(writer *w, const wgi_tally *tally)
{
    open_object(w, "failures");
    for (unsigned i = 1; i < sizeof(tally->failed_by_kind) / sizeof(tally->failed_by_kind[0]);
         i++) {
        if (tally->failed_by_kind[i])
            count(w, wg_failure_code((wg_failure)i), tally->failed_by_kind[i]);
    }
    close_object(w);
}

static void write_stages(writer *w, const wgi_tally *tally)
{
    open_object(w, "stages");
    number(w, "read_s", tally->read_s);
    number(w, "tokenize_s", tally->tokenize_s);
    number(w, "compute_s", tally->compute_s);
    number(w, "pool_s", tally->pool_s);
    number(w, "write_s", tally->write_s);
    close_object(w);
}

static void write_configuration(writer *w, const wgi_report_input *input)
{
    const wgi_tally *tally = input->tally;
    const wg_job_options *options = input->options;
    static const char *const truncations[] = {"head", "tail", "error"};

    open_object(w, "configuration");
    count(w, "max_length", tally->token_count_max);
    text(w, "max_length_from", tally->token_count_rule);
    text(w, "truncate", truncations[options->embed.truncate]);
    count(w, "max_batch_tokens", tally->batch_tokens);
    text(w, "max_batch_tokens_from", tally->batch_tokens_rule);
    count(w, "threads", tally->thread_count);
    count(w, "tokenizer_threads", tally->tokenizer_thread_count);
    count(w, "memory", tally->memory_bytes);
    count(w, "padded", options->padded_batch);
    flag(w, "sorted", options->padded_sorted);
    text(w, "dtype", "f32");
    text(w, "pooling", tally->pooling);
    text(w, "pooling_from", tally->pooling_rule);
    flag(w, "normalize", tally->normalize);
    text(w, "normalize_from", tally->normalize_rule);
    count(w, "dim", tally->dim);
    text(w, "prompt", options->embed.prompt);
    text(w, "prompt_name", options->embed.prompt_name);
    close_object(w);
}

static void write_model(writer *w, const wg_model_info *info)
{
    open_object(w, "model");
    text(w, "path", info->path);
    text(w, "architecture", info->architecture);
    text(w, "hash", info->hash);
    count(w, "parameters", info->parameter_count);
    count(w, "weight_bytes", info->weight_bytes);
    count(w, "packed_bytes", info->packed_bytes);
    number(w, "load_s", info->load_seconds);
    text(w, "backend", info->backend);
    text(w, "isa", info->isa);
    close_object(w);
}

static void write_counts(writer *w, const wgi_report_input *input)
{
    const wgi_tally *tally = input->tally;
    double seconds = tally->run_s > 0 ? tally->run_s : 1e-9;

    count(w, "documents", tally->documents);
    count(w, "failed", tally->failed);
    write_failures(w, tally);
    count(w, "truncated", tally->truncated);
    count(w, "warnings", input->reader.warnings);
    count(w, "files", input->reader.files);
    count(w, "files_skipped", input->reader.files_skipped);
    count(w, "bytes_read", input->reader.bytes);
    count(w, "tokens", tally->tokens);
    count(w, "longest", tally->longest);
    write_histogram(w, tally);
    number(w, "padding_of_batches_of_8", wgi_tally_padding_of_8(tally));
    count(w, "bins", tally->bins);
    if (tally->bins)
        number(w, "fill",
               (double)tally->bin_tokens / ((double)tally->bins * (double)tally->batch_tokens));
    if (input->options->plan_only) {
        count(w, "bins_least", tally->bins_least);
        count(w, "planned_bytes", tally->planned_bytes);
        return;
    }
    count(w, "bins_failed", tally->bins_failed);
    number(w, "padding", wgi_tally_padding(tally));
    number(w, "seconds", tally->run_s);
    number(w, "seconds_to_first_row", tally->first_row_s);
    number(w, "tokens_per_s", (double)tally->tokens / seconds);
    number(w, "documents_per_s", (double)(tally->documents - tally->failed) / seconds);
    number(w, "gflop_per_s", tally->flops * 1e-9 / seconds);
    count(w, "planned_bytes", tally->planned_bytes);
    count(w, "peak_bytes", tally->peak_bytes);
    write_stages(w, tally);
}

wg_status wgi_report_write(wgi_buf *out, const wgi_report_input *input, wg_error *err)
{
    writer w = {.out = out, .err = err, .status = WG_OK};

    open_object(&w, NULL);
    text(&w, "warpgroup", WG_VERSION);
    text(&w, "status", input->status == WG_OK ? "complete" : wg_status_text(input->status));
    write_counts(&w, input);
    write_configuration(&w, input);
    write_model(&w, wg_model_describe(input->model));
    text(&w, "libraries", wg_libraries());
    close_object(&w);
    return w.status;
}
