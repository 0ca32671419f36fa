/*
 * feed.c - a thin use of the public engine.
 *
 * A bin handed out is the first member of its slot, so it leads back to the ticket with which it is
 * released. Threads: any.
 */
#include "engine/feed.h"

#include "engine/dispatcher.h"

/* These calls fail only on misuse that the types of this file rule out. */
static void ignore(wg_status status)
{
    (void)status;
}

static wg_engine_options options_of(const wgi_engine_options *options)
{
    return (wg_engine_options){
        .bin_tokens = options->bin_tokens,
        .bin_sequences = options->bin_sequences,
        .slot_count = (uint32_t)options->slot_count,
        .worker_count = (uint32_t)options->worker_count,
        .lookahead_tokens = options->lookahead_tokens,
        .pending_bytes = options->pending_bytes,
        .position_offset = options->position_offset,
        .ready = options->ready,
        .ready_context = options->ready_context,
    };
}

wg_status wgi_engine_open(wgi_engine **out, const wgi_engine_options *options, wg_error *err)
{
    wg_engine_options full = options_of(options);

    *out = NULL;
    if (options->worker_count == 0 || options->worker_count > UINT32_MAX ||
        options->slot_count > UINT32_MAX)
        return wgi_fail(err, WG_ERR_ARGUMENT, "%zu workers cannot take bins from a ring of %zu",
                        options->worker_count, options->slot_count);
    return wg_engine_open(out, &full, err);
}

size_t wgi_engine_bytes(const wgi_engine_options *options)
{
    wg_engine_options full = options_of(options);
    uint64_t bytes = wg_engine_bytes(&full);

    return bytes ? bytes : SIZE_MAX;
}

wg_status wgi_engine_push(wgi_engine *engine, uint64_t id, const int32_t *token_ids,
                          const int32_t *type_ids, size_t count, wg_error *err)
{
    return wg_engine_submit(
        engine,
        &(wg_sequence){
            .id = id, .token_ids = token_ids, .type_ids = type_ids, .token_count = count},
        err);
}

void wgi_engine_finish(wgi_engine *engine)
{
    ignore(wg_engine_finish(engine, NULL));
}

void wgi_engine_flush(wgi_engine *engine)
{
    ignore(wg_engine_flush(engine, NULL));
}

void wgi_engine_stop(wgi_engine *engine)
{
    ignore(wg_engine_stop(engine, NULL));
}

wgi_engine_answer wgi_engine_take(wgi_engine *engine, bool wait, wgi_bin **bin)
{
    wg_bin view;
    wg_next next;

    *bin = NULL;
    if (wg_engine_next(engine, NULL, wait ? WG_FOREVER : 0, &view, &next, NULL) != WG_OK ||
        next == WG_NEXT_DRAINED)
        return WGI_ENGINE_END;
    if (next == WG_NEXT_NONE) return WGI_ENGINE_NONE;
    *bin = &engine->ring.slots[view.slot].bin;
    return WGI_ENGINE_BIN;
}

void wgi_engine_release(wgi_engine *engine, wgi_bin *bin)
{
    const wgi_slot *slot = (const wgi_slot *)(const void *)bin;

    if (!bin) return;
    ignore(wg_engine_release(engine, &(wg_bin){.slot = slot->index, .ticket = slot->ticket}, NULL));
}

bool wgi_engine_no_memory(wgi_engine *engine, wgi_bin *bin)
{
    const wgi_slot *slot = (const wgi_slot *)(const void *)bin;
    int is_given_up = 0;

    ignore(wg_engine_fail(engine, &(wg_bin){.slot = slot->index, .ticket = slot->ticket},
                          WG_FAULT_MEMORY, &is_given_up, NULL));
    return !is_given_up;
}

wgi_engine_counts wgi_engine_counted(const wgi_engine *engine)
{
    wg_engine *shared = (wg_engine *)(uintptr_t)engine; /* counting locks, nothing else changes */
    wg_engine_stats stats = {0};

    ignore(wg_engine_statistics(shared, &stats, NULL));
    return (wgi_engine_counts){
        .sequences_in = stats.sequences_in,
        .tokens_in = stats.tokens_in,
        .bins_out = stats.bins_out,
        .sequences_out = stats.sequences_out,
        .tokens_out = stats.tokens_out,
        .bin_tokens_offered = stats.bin_tokens_offered,
        .pending_bytes_peak = stats.pending_bytes_peak,
        .push_wait_ns = stats.submit_wait_ns,
        .take_wait_ns = stats.next_wait_ns,
    };
}

void wgi_engine_close(wgi_engine *engine)
{
    if (engine) wgi_engine_abandon(engine);
    wg_engine_close(engine);
}
