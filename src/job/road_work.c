/*
 * road_work.c - what is done to one document (tokenise, limit, hand on) and to one bin (forward
 * pass, pooling). What goes wrong with a document is written into its entry, and the run goes on.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os_clock.h"
#include "base/os_memory.h"
#include "engine/pack.h"
#include "job/road_parts.h"

__attribute__((format(printf, 3, 4))) static void entry_fail(wgi_entry *entry, wg_failure failure,
                                                             const char *format, ...)
{
    va_list arguments;

    entry->failure = failure;
    va_start(arguments, format);
    (void)vsnprintf(entry->reason, sizeof(entry->reason), format, arguments);
    va_end(arguments);
}

/* Ready ids are limited as text is, but no special token is known in them. */
static void limit_ids(const wgi_road *road, wgi_entry *entry, const int32_t **ids, size_t *count)
{
    size_t most = road->encode.token_count_max;

    *ids = entry->ids;
    *count = entry->id_count;
    if (*count <= most) return;
    if (road->encode.truncate == WG_TRUNCATE_ERROR) {
        entry_fail(entry, WG_FAILURE_TOO_LONG, "%zu tokens, the limit is %zu", *count, most);
        return;
    }
    if (road->encode.truncate == WG_TRUNCATE_TAIL) *ids += *count - most;
    *count = most;
    entry->is_truncated = true;
}

static wg_status encode_text(wgi_road *road, wgi_entry *entry, wg_encoding *encoding,
                             wgi_buf *joined, wg_error *err)
{
    const wg_tokenizer *tokenizer = road->options.model->tokenizer;
    const wgi_buf *text = &entry->text;
    wg_error why = {0};

    if (!tokenizer)
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "%s: this file has no tokenizer that is read here: give records with token "
                        "ids (ids_field)",
                        road->options.model->path);
    if (road->prompt_bytes) {
        joined->count = 0;
        wg_status status = wgi_buf_append(joined, road->prompt, road->prompt_bytes, err);
        if (status == WG_OK) status = wgi_buf_append(joined, text->data, text->count, err);
        if (status != WG_OK) return status;
        text = joined;
    }
    wg_status status = wg_tokenizer_encode(tokenizer, text->data ? text->data : "", text->count,
                                           NULL, 0, &road->encode, encoding, &why);
    if (status == WG_ERR_LIMIT) {
        entry_fail(entry, WG_FAILURE_TOO_LONG, "%s", why.message);
        return WG_OK;
    }
    if (status != WG_OK && err) *err = why;
    entry->is_truncated = status == WG_OK && encoding->is_truncated;
    return status;
}

/* An id that the embedding has no row for fails its document, not the run. */
static void check_ids(const wgi_road *road, wgi_entry *entry, const int32_t *ids, size_t count)
{
    uint64_t rows = road->options.model->description.vocabulary_count;

    for (size_t i = 0; i < count; i++) {
        if (ids[i] >= 0 && (uint64_t)ids[i] < rows) continue;
        entry_fail(entry, WG_FAILURE_BAD_TOKEN, "token id %d at %zu, the embedding has %llu rows",
                   (int)ids[i], i, (unsigned long long)rows);
        return;
    }
}

wg_status wgi_road_tokenize(wgi_road *road, wgi_entry *entry, wg_encoding *encoding, wgi_buf *text,
                            wg_error *err)
{
    wg_status status = WG_OK;
    uint64_t begin = wgi_clock_ns();
    const int32_t *ids, *type_ids = NULL;
    size_t count;

    if (entry->has_ids) {
        limit_ids(road, entry, &ids, &count);
    } else {
        status = encode_text(road, entry, encoding, text, err);
        ids = encoding->token_ids;
        type_ids = encoding->type_ids;
        count = encoding->token_count;
    }
    entry->text.count = 0;
    if (status != WG_OK) return status;
    if (entry->failure == WG_FAILURE_NONE && count == 0)
        entry_fail(entry, WG_FAILURE_NO_TOKENS, "the tokenizer gives no token for this text");
    if (entry->failure == WG_FAILURE_NONE) check_ids(road, entry, ids, count);
    atomic_fetch_add(&road->tokenize_ns, wgi_clock_ns() - begin);

    if (entry->failure == WG_FAILURE_NONE) entry->token_count = (uint32_t)count;
    if (entry->failure != WG_FAILURE_NONE || road->options.plan_only) {
        wgi_window_finish(&road->window, entry);
        return WG_OK;
    }
    if (road->padded)
        return wgi_padded_push(road->padded, entry->ordinal, ids, type_ids, count, err);
    return wgi_engine_push(road->engine, entry->ordinal, ids, type_ids, count, err);
}

/* 2 x multiply-adds: linear layers over T rows, QK^T and PV over each text's own keys. */
static double bin_flops(const wgi_description *d, const wgi_bin *bin)
{
    double query = (double)d->head_count * d->head_dim,
           key = (double)d->key_head_count * d->head_dim;
    double hidden = d->hidden_count;
    double per_row = 2 * (hidden * (query + 2 * key) + query * hidden +
                          (d->is_decoder ? 3 : 2) * hidden * (double)d->feed_forward_count);
    double pairs = 0;

    for (size_t s = 0; s < bin->sequence_count; s++) {
        if (bin->sequence_ids[s] != WGI_PADDED_NOBODY)
            pairs += (double)bin->segments[s].count * bin->segments[s].count;
    }
    if (d->is_decoder) pairs /= 2; /* a row sees what is before it */
    return d->layer_count * (per_row * (double)bin->token_count + 4 * query * pairs);
}

/* ---------------------------------------------------------------------------------- one bin */

static struct {
    wgi_road_hook *hook;
    void *context;
} backend_says;

void wgi_road_hook_set(wgi_road_hook *hook, void *context)
{
    backend_says.hook = hook;
    backend_says.context = context;
}

/* Room for the vectors of a segment; what was there stays as it was when there is none. */
static wg_status reserve_vectors(wgi_road *road, const wgi_bin *bin, size_t s, wg_error *err)
{
    wgi_entry *entry = wgi_window_find(&road->window, bin->sequence_ids[s]);
    size_t floats, vectors = road->head.pooling == WG_POOLING_NONE ? bin->segments[s].count : 1;

    if (!entry)
        return wgi_fail(err, WG_ERR_BACKEND, "a bin holds document %llu, which is not in flight",
                        (unsigned long long)bin->sequence_ids[s]);
    if (!wgi_mul(vectors, road->head.dim, &floats))
        return wgi_fail(err, WG_ERR_NO_MEMORY, "%zu vectors do not fit", vectors);
    entry->vector_count = vectors;
    return wgi_grow(&entry->vectors, &entry->vector_capacity, floats, sizeof(float), err);
}

static void pool_segment(wgi_road *road, const wgi_bin *bin, size_t s, wgi_view hidden,
                         void *scratch)
{
    const wgi_segment *segment = &bin->segments[s];
    wgi_entry *entry = wgi_window_find(&road->window, bin->sequence_ids[s]);
    wgi_view first = {.data = hidden.data + (size_t)segment->row * hidden.stride,
                      .stride = hidden.stride};

    if (!wgi_embed_pool(&road->head, first, segment->count, road->prompt_skip, entry->vectors,
                        scratch))
        entry_fail(entry, WG_FAILURE_NOT_FINITE, "the vector of this text is not finite");
    wgi_window_finish(&road->window, entry);
}

static wg_status check_device(const wgi_road *road, wg_error *err)
{
    return atomic_load(&road->is_broken)
               ? wgi_fail(err, WG_ERR_CLOSED, "the run has failed already")
               : WG_OK;
}

/* The forward pass, and room for what it gives: after this nothing can fail. */
static wg_status run_forward(wgi_road *road, const wgi_bin *bin, size_t lane, wgi_view *hidden,
                             wg_error *err)
{
    wg_status status = WG_OK;
    const wg_model *model = road->options.model;
    wgi_forward forward = {
        .bin_memory = road->lanes[lane].bin_memory,
        .lane_memory = road->lane_memory,
        .crew = road->crew,
        .lane = lane,
    };

    WGI_TRY(check_device(road, err));
    WGI_TRY(wgi_bin_check(bin, model->description.vocabulary_count, err));
    WGI_TRY(wgi_network_run(model->network, bin, &forward, hidden, err));
    if (backend_says.hook) WGI_TRY(backend_says.hook(backend_says.context, bin, err));
    for (size_t s = 0; s < bin->sequence_count; s++) {
        if (bin->sequence_ids[s] != WGI_PADDED_NOBODY) WGI_TRY(reserve_vectors(road, bin, s, err));
    }
    WGI_TRY(check_device(road, err));

cleanup:
    return status;
}

wg_status wgi_road_compute(wgi_road *road, wgi_bin *bin, size_t lane_index, wg_error *err)
{
    const wg_model *model = road->options.model;
    wgi_lane *lane = &road->lanes[lane_index];
    wgi_view hidden;
    uint64_t begin = wgi_clock_ns();

    wg_status status = run_forward(road, bin, lane_index, &hidden, err);
    uint64_t computed = wgi_clock_ns();
    lane->compute_ns += computed - begin;
    if (status != WG_OK) return status;

    size_t real = 0;
    for (size_t s = 0; s < bin->sequence_count; s++) {
        if (bin->sequence_ids[s] == WGI_PADDED_NOBODY) continue;
        real += bin->segments[s].count;
        pool_segment(road, bin, s, hidden, lane->pool_memory);
    }
    size_t multiple = model->backend->row_multiple;
    lane->bins++;
    lane->bin_tokens += bin->token_count;
    lane->rows_real += real;
    lane->rows_computed += (bin->token_count + multiple - 1) / multiple * multiple;
    lane->flops += bin_flops(&model->description, bin);
    lane->pool_ns += wgi_clock_ns() - computed;
    return WG_OK;
}

void wgi_road_give_up(wgi_road *road, const wgi_bin *bin)
{
    wgi_entry *entry = wgi_window_find(&road->window, bin->sequence_ids[0]);

    if (!entry) return;
    entry_fail(entry, WG_FAILURE_NO_MEMORY,
               "no memory to run this text of %zu tokens, not even alone in its bin",
               bin->token_count);
    entry->vector_count = 0;
    wgi_window_finish(&road->window, entry);
}

wg_status wgi_road_plan_add(wgi_road *road, uint32_t token_count, wg_error *err)
{
    wg_status status = wgi_grow(&road->lengths, &road->length_capacity, road->length_count + 1,
                                sizeof(*road->lengths), err);

    if (status == WG_OK) road->lengths[road->length_count++] = token_count;
    return status;
}

/* plan_only: the bins that first-fit decreasing makes of the whole corpus. */
static void settle_plan(wgi_road *road)
{
    wgi_tally *tally = &road->tally;
    wgi_packing packing = {0};
    wg_error err = {0};

    wg_status status =
        wgi_pack_first_fit(&packing, road->lengths, road->length_count,
                           &(wgi_pack_limits){.tokens = (size_t)tally->batch_tokens}, &err);
    if (status == WG_OK) {
        tally->bins = packing.bin_count;
        tally->bins_least = packing.bin_count_least;
        tally->bin_tokens = packing.token_count;
    } else if (road->failure == WG_OK) {
        road->failure = status;
        road->failure_error = err;
    }
    wgi_packing_fini(&packing);
}

void wgi_road_settle(wgi_road *road)
{
    wgi_tally *tally = &road->tally;

    for (uint32_t i = 0; i < road->lane_count && road->lanes; i++) {
        const wgi_lane *lane = &road->lanes[i];
        tally->bins += lane->bins;
        tally->bins_failed += lane->bins_failed;
        tally->bin_tokens += lane->bin_tokens;
        tally->rows_computed += lane->rows_computed;
        tally->rows_real += lane->rows_real;
        tally->flops += lane->flops;
        tally->compute_s += (double)lane->compute_ns * 1e-9;
        tally->pool_s += (double)lane->pool_ns * 1e-9;
    }
    if (road->options.plan_only && road->length_count) settle_plan(road);
    tally->read_s = (double)atomic_load(&road->read_ns) * 1e-9;
    tally->tokenize_s = (double)atomic_load(&road->tokenize_ns) * 1e-9;
    tally->peak_bytes = wgi_memory_peak_rss();
}
