/*
 * hand_out.c - the consumers' side of an engine: next, release, fail, export.
 *
 * Each hand-out of a slot has a ticket of its own, so a bin that is given back twice, or after it
 * was handed out again, is known and refused. A bin that failed goes to the head of the ready list,
 * whole or halved (ring.c says how); what a consumer holds when its handle is closed goes there
 * too.
 *
 * Threads: any; everything under the engine's mutex.
 */
#include "engine/dispatcher.h"

#include "base/alloc.h"
#include "base/os_clock.h"
#include "engine/dlpack.h"

#define ATTEMPTS_WHOLE 2u /* failures after which a bin is split, unless memory is to blame */
#define ATTEMPTS_ALONE 4u /* failures of a sequence by itself */

static wg_consumer *consumer_or_nobody(wg_engine *engine, wg_consumer *consumer)
{
    return consumer ? consumer : &engine->nobody;
}

wg_status wg_consumer_open(wg_consumer **out, wg_engine *engine, wg_error *err)
{
    if (!out || !engine)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "a consumer needs an engine and a place for its handle");
    *out = wgi_calloc(1, sizeof(**out));
    if (!*out) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a consumer");
    (*out)->engine = engine;
    (void)pthread_mutex_lock(&engine->mutex);
    engine->consumer_count++;
    (void)pthread_mutex_unlock(&engine->mutex);
    return WG_OK;
}

/* ---------------------------------------------------------------------------------------- next */

static void hand_out(wg_engine *engine, wgi_slot *slot, wg_consumer *consumer, wg_bin *bin)
{
    slot->state = WGI_SLOT_TAKEN;
    slot->ticket = ++engine->ring.ticket;
    slot->consumer = consumer;
    slot->taken_ns = wgi_clock_ns();
    slot->is_given_up = false;
    consumer->held_count++;
    engine->ring.taken_count++;
    engine->taker_left = false;
    wgi_slot_view(&engine->ring, slot, bin);
    /* The ring runs low, and the worker's next need has a time now. */
    if (engine->ring.free.count > 0) (void)pthread_cond_signal(&engine->packer_wake);
}

/* Sleeps for a bin; the mutex is held. */
static void wait_for_bin(wg_engine *engine, uint64_t until)
{
    engine->sleeper_count++;
    engine->idle_taker_count++;
    (void)pthread_cond_signal(&engine->packer_wake);
    wgi_engine_sleep(engine, &engine->ready, until);
    engine->idle_taker_count--;
    if (--engine->sleeper_count == 0) (void)pthread_cond_signal(&engine->left);
}

wg_status wg_engine_next(wg_engine *engine, wg_consumer *consumer, uint64_t timeout_ns, wg_bin *bin,
                         wg_next *next, wg_error *err)
{
    wg_status status = WG_OK;
    uint64_t since, until, now;

    if (!engine || !bin || !next || (consumer && consumer->engine != engine))
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "asking for a bin needs an engine, a consumer of it or "
                        "none, a bin, an answer");
    since = now = timeout_ns > 0 ? wgi_clock_ns() : 0;
    until = timeout_ns < WGI_NEVER - since ? since + timeout_ns : WGI_NEVER;
    (void)pthread_mutex_lock(&engine->mutex);
    consumer = consumer_or_nobody(engine, consumer);
    for (;;) {
        wgi_slot *slot;

        if (engine->is_stopped) {
            status = wgi_fail(err, WG_ERR_CLOSED, "the engine was stopped");
            break;
        }
        slot = wgi_slot_list_pop(&engine->ring.ready);
        if (slot) {
            hand_out(engine, slot, consumer, bin);
            *next = WG_NEXT_BIN;
            break;
        }
        *next = wgi_engine_is_drained(engine, consumer) ? WG_NEXT_DRAINED : WG_NEXT_NONE;
        if (*next == WG_NEXT_DRAINED) break;
        if (timeout_ns == 0 || now >= until) {
            if (!engine->taker_left) (void)pthread_cond_signal(&engine->packer_wake);
            engine->taker_left = true;
            break;
        }
        wait_for_bin(engine, until);
        now = wgi_clock_ns();
    }
    engine->stats.next_wait_ns += now - since;
    (void)pthread_mutex_unlock(&engine->mutex);
    return status;
}

/* --------------------------------------------------------------------------------- giving back */

/* The slot is nobody's any more; what it still holds decides where it goes. */
static void vacate(wg_engine *engine, wgi_slot *slot)
{
    if (slot->export_count > 0) {
        slot->state = WGI_SLOT_EXPORTED;
        return;
    }
    if (slot->sequence_count > slot->bin.sequence_count) {
        slot->state = WGI_SLOT_REST;
        wgi_slot_list_push(&engine->ring.rest, slot);
    } else {
        slot->state = WGI_SLOT_FREE;
        wgi_slot_list_push_front(&engine->ring.free, slot);
    }
    (void)pthread_cond_signal(&engine->packer_wake);
}

static void take_back(wg_engine *engine, wgi_slot *slot)
{
    slot->consumer->held_count--;
    engine->ring.taken_count--;
    slot->ticket = 0;
    slot->consumer = NULL;
}

static void put_again(wg_engine *engine, wgi_slot *slot)
{
    take_back(engine, slot);
    slot->state = WGI_SLOT_READY;
    wgi_slot_list_push_front(&engine->ring.ready, slot);
    if (engine->idle_taker_count > 0) (void)pthread_cond_signal(&engine->ready);
}

static void count_done(wg_engine *engine, const wgi_slot *slot)
{
    const wgi_bin *bin = &slot->bin;
    uint64_t now = wgi_clock_ns();

    engine->stats.sequences_done += bin->sequence_count;
    if (now > slot->taken_ns)
        wgi_pace_served(&engine->pace, bin->token_count, now - slot->taken_ns);
    wgi_backoff_done(&engine->backoff, bin->token_count);
    engine->pace.bin_tokens = wgi_backoff_tokens(&engine->backoff);
    for (size_t s = 0; slot->has_deadline && s < bin->sequence_count; s++) {
        if (slot->deadlines[s] == WGI_NEVER) continue;
        if (now <= slot->deadlines[s])
            engine->stats.deadlines_met++;
        else
            engine->stats.deadlines_missed++;
    }
}

wg_status wg_engine_release(wg_engine *engine, const wg_bin *bin, wg_error *err)
{
    wgi_slot *slot;
    bool is_drained = false;
    wg_status status = WG_OK;

    if (!engine || !bin)
        return wgi_fail(err, WG_ERR_ARGUMENT, "a release needs an engine and a bin");
    (void)pthread_mutex_lock(&engine->mutex);
    slot = wgi_ring_find(&engine->ring, bin, err);
    if (!slot) {
        status = WG_ERR_ARGUMENT;
    } else {
        if (!slot->is_given_up) count_done(engine, slot);
        take_back(engine, slot);
        vacate(engine, slot);
        is_drained = engine->is_finished && engine->options.ready && !engine->is_closed &&
                     wgi_engine_is_drained(engine, &(wg_consumer){0});
        if (engine->is_finished) (void)pthread_cond_broadcast(&engine->ready);
    }
    wgi_engine_unlock(engine);
    if (is_drained) wgi_engine_tell(engine);
    return status;
}

/* Halves what is handed out, or answers that it cannot be halved. */
static bool halve(wgi_slot *slot)
{
    if (slot->bin.sequence_count < 2) return false;
    wgi_slot_limit(slot, slot->bin.token_count / 2);
    slot->attempts = 0;
    return true;
}

wg_status wg_engine_fail(wg_engine *engine, const wg_bin *bin, wg_fault fault, int *is_given_up,
                         wg_error *err)
{
    wgi_slot *slot;
    wg_status status = WG_OK;
    bool is_again = false;

    if (!engine || !bin || !is_given_up)
        return wgi_fail(err, WG_ERR_ARGUMENT, "a failure needs an engine, a bin and an answer");
    (void)pthread_mutex_lock(&engine->mutex);
    slot = wgi_ring_find(&engine->ring, bin, err);
    if (!slot) {
        status = WG_ERR_ARGUMENT;
        goto cleanup;
    }
    engine->stats.bins_failed++;
    slot->attempts++;
    if (fault == WG_FAULT_MEMORY) {
        wgi_backoff_failed(&engine->backoff, slot->bin.token_count);
        engine->pace.bin_tokens = wgi_backoff_tokens(&engine->backoff);
    }
    if (fault == WG_FAULT_MEMORY || slot->attempts >= ATTEMPTS_WHOLE) {
        if (!halve(slot) && slot->attempts >= ATTEMPTS_ALONE) {
            if (!slot->is_given_up) engine->stats.sequences_given_up++;
            slot->is_given_up = true;
        }
    }
    *is_given_up = slot->is_given_up;
    is_again = !slot->is_given_up;
    if (is_again) put_again(engine, slot);

cleanup:
    is_again = is_again && !engine->is_closed;
    wgi_engine_unlock(engine);
    if (is_again) wgi_engine_tell(engine);
    return status;
}

void wg_consumer_close(wg_consumer *consumer)
{
    wg_engine *engine;
    bool has_any = false;

    if (!consumer) return;
    engine = consumer->engine;
    (void)pthread_mutex_lock(&engine->mutex);
    for (uint32_t i = 0; i < engine->ring.slot_count; i++) {
        wgi_slot *slot = &engine->ring.slots[i];

        if (slot->state != WGI_SLOT_TAKEN || slot->consumer != consumer) continue;
        put_again(engine, slot);
        has_any = true;
    }
    if (engine->is_finished) (void)pthread_cond_broadcast(&engine->ready);
    engine->consumer_count--;
    has_any = has_any && !engine->is_closed;
    wgi_free(consumer);
    wgi_engine_unlock(engine);
    if (has_any) wgi_engine_tell(engine);
}

void wgi_engine_abandon(wg_engine *engine)
{
    (void)pthread_mutex_lock(&engine->mutex);
    for (uint32_t i = 0; i < engine->ring.slot_count; i++) {
        wgi_slot *slot = &engine->ring.slots[i];

        if (slot->state != WGI_SLOT_TAKEN) continue;
        take_back(engine, slot);
        vacate(engine, slot);
    }
    (void)pthread_mutex_unlock(&engine->mutex);
}

/* -------------------------------------------------------------------------------------- export */

static void export_over(void *owner, wgi_slot *slot)
{
    wg_engine *engine = owner;

    (void)pthread_mutex_lock(&engine->mutex);
    slot->export_count--;
    engine->ring.export_count--;
    if (slot->export_count == 0 && slot->state == WGI_SLOT_EXPORTED) vacate(engine, slot);
    wgi_engine_unlock(engine);
}

wg_status wg_engine_export(wg_engine *engine, const wg_bin *bin, wg_bin_array array,
                           struct DLManagedTensorVersioned **out, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slot *slot;
    wg_bin view;

    if (out) *out = NULL;
    if (!engine || !bin || !out)
        return wgi_fail(err, WG_ERR_ARGUMENT, "an export needs an engine, a bin and a place");
    if ((unsigned)array > WG_ARRAY_SEQUENCE_IDS)
        return wgi_fail(err, WG_ERR_ARGUMENT, "array %d of a bin is not known", (int)array);
    (void)pthread_mutex_lock(&engine->mutex);
    slot = wgi_ring_find(&engine->ring, bin, err);
    if (!slot) {
        status = WG_ERR_ARGUMENT;
    } else {
        wgi_slot_view(&engine->ring, slot, &view);
        *out = wgi_export_fill(slot, &view, array, engine, export_over);
        if (*out) {
            slot->export_count++;
            engine->ring.export_count++;
        } else {
            status = wgi_fail(err, WG_ERR_BUSY, "%u exports of this bin are out already",
                              WGI_EXPORTS_MAX);
        }
    }
    (void)pthread_mutex_unlock(&engine->mutex);
    return status;
}

/* ---------------------------------------------------------------------------------- statistics */

wg_status wg_engine_statistics(wg_engine *engine, wg_engine_stats *stats, wg_error *err)
{
    wg_consumer holder = {0}; /* of every bin that is out */

    if (!engine || !stats)
        return wgi_fail(err, WG_ERR_ARGUMENT, "statistics need an engine and a place");
    (void)pthread_mutex_lock(&engine->mutex);
    *stats = engine->stats;
    stats->capacity_tokens = wgi_backoff_tokens(&engine->backoff);
    stats->slot_count = engine->ring.slot_count;
    stats->slots_taken = engine->ring.taken_count;
    for (uint32_t i = 0; i < engine->ring.slot_count; i++)
        stats->slots_exported += engine->ring.slots[i].state == WGI_SLOT_EXPORTED;
    holder.held_count = engine->ring.taken_count;
    stats->is_drained = wgi_engine_is_drained(engine, &holder);
    (void)pthread_mutex_unlock(&engine->mutex);
    stats->sequences_in = wgi_queue_pushed(&engine->queue);
    stats->tokens_in = atomic_load(&engine->queue.token_count);
    stats->submit_wait_ns = atomic_load(&engine->submit_wait_ns);
    stats->pending_bytes_peak = wgi_queue_bytes_peak(&engine->queue);
    return WG_OK;
}
