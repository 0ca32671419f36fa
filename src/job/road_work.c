/*
 * road_work.c - what is done to one document with its ids (hand on) and to one bin (forward pass,
 * pooling). What goes wrong with a document is written into its entry, and the run goes on.
 */
#include "base/alloc.h"
#include "base/os_clock.h"
#include "base/os_memory.h"
#include "engine/pack.h"
#include "job/road_parts.h"

wg_status wgi_road_encoded(void *context, wgi_entry *entry, const wgi_ids *ids, wg_error *err)
{
    wgi_road *road = context;

    if (entry->failure != WG_FAILURE_NONE || road->options.plan_only) {
        wgi_window_finish(&road->window, entry);
        return WG_OK;
    }
    if (road->padded)
        return wgi_padded_push(road->padded, entry->ordinal, ids->token_ids, ids->type_ids,
                               ids->count, err);
    return wgi_engine_push(road->engine, entry->ordinal, ids->token_ids, ids->type_ids, ids->count,
                           err);
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
    size_t skip = entry->has_ids ? 0 : road->prompt_skip; /* ready ids get no prompt */

    if (!wgi_embed_pool(&road->head, first, segment->count, skip, entry->vectors, scratch))
        wgi_entry_fail(entry, WG_FAILURE_NOT_FINITE, "the vector of this text is not finite");
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
    wgi_entry_fail(entry, WG_FAILURE_NO_MEMORY,
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
    tally->read_s = (double)atomic_load(&road->intake.read_ns) * 1e-9;
    tally->tokenize_s = (double)atomic_load(&road->intake.tokenize_ns) * 1e-9;
    tally->peak_bytes = wgi_memory_peak_rss();
}
