/*
 * dispatcher.c - opens and closes an engine, and runs its packer thread.
 *
 *     submit ─▶ queue (pages) ─▶ packer: classes, look-ahead, plan ─▶ ring ─▶ next ... release
 *
 * Bins form as late as they may: the packer cuts only while a slot is free and pace.c says so. Else
 * it sleeps, and says in `want_at` how many tokens must have been pushed for a wake-up to be worth
 * while, so that most submissions touch no lock but their lane's.
 *
 * No wake-up is lost: want_at is set under the mutex before the packer looks at the queue a last
 * time and sleeps; a submitter first adds its tokens, then reads want_at (both sequentially
 * consistent), and takes the mutex before it signals. All other conditions change under the mutex.
 * Back-pressure works the same way with `blocked_count` and the queue's free pages; who did not
 * want to wait leaves `submitter_left` behind, so that there is room when it comes again.
 *
 * Closing waits for every thread that is inside a call, then for the packer. What consumers still
 * hold, bins or exported tensors, keeps the memory: the last of it frees the engine.
 *
 * Refused: a lock-free ring of bins. A bin is handed over some hundred times a second; a mutex is
 * not seen there, and it can be read.
 *
 * Threads: this file's loop is the thread wg-packer, which alone touches classes and rounds. Locks:
 * engine, then a lane's, then the pool's.
 */
#include "engine/dispatcher.h"

#include "base/alloc.h"
#include "base/os_clock.h"
#include "base/thread.h"

#include <string.h>
#include <time.h>

#define LOOKAHEAD_BINS      32u
#define ROUND_SEQUENCES_MAX ((uint64_t)1 << 16)
#define NS_PER_S            1000000000u
#define PENDING_TOKEN_BYTES (sizeof(int32_t) * 8) /* ids and types of four look-aheads */
#define URGENT_RUNS         3.0                   /* a deadline that near goes before all else */

/* ------------------------------------------------------------------------------------ opening */

static wg_status check_classes(const wg_engine_options *options, wg_error *err)
{
    if (options->class_count > WG_ENGINE_CLASSES_MAX)
        return wgi_fail(err, WG_ERR_ARGUMENT, "%lu classes: at most %d are possible",
                        (unsigned long)options->class_count, WG_ENGINE_CLASSES_MAX);
    if (options->class_count > 0 && !options->classes)
        return wgi_fail(err, WG_ERR_ARGUMENT, "%lu classes were announced, none was given",
                        (unsigned long)options->class_count);
    if (options->window != WG_WINDOW_ADAPTIVE && options->window != WG_WINDOW_FIXED)
        return wgi_fail(err, WG_ERR_ARGUMENT, "window %d is not known", (int)options->window);
    return WG_OK;
}

static wg_status complete_sizes(wg_engine_options *options, wg_error *err)
{
    uint64_t bytes;

    if (options->bin_tokens == 0 || options->bin_tokens > INT32_MAX)
        return wgi_fail(err, WG_ERR_ARGUMENT, "a bin of %llu tokens: 1 to %d are possible",
                        (unsigned long long)options->bin_tokens, INT32_MAX);
    if (options->token_multiple == 0) options->token_multiple = 1;
    options->bin_tokens -= options->bin_tokens % options->token_multiple;
    if (options->bin_tokens == 0)
        return wgi_fail(err, WG_ERR_ARGUMENT, "a bin smaller than its multiple, %lu tokens",
                        (unsigned long)options->token_multiple);
    if (options->position_offset > INT32_MAX - options->bin_tokens)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "positions from %lu on in bins of %llu tokens end above %d",
                        (unsigned long)options->position_offset,
                        (unsigned long long)options->bin_tokens, INT32_MAX);
    if (options->bin_sequences == 0 || options->bin_sequences > options->bin_tokens)
        options->bin_sequences = options->bin_tokens;
    if (options->lookahead_tokens == 0)
        options->lookahead_tokens = LOOKAHEAD_BINS * options->bin_tokens;
    if (options->lookahead_tokens < options->bin_tokens)
        options->lookahead_tokens = options->bin_tokens;
    if (options->pending_bytes == 0) {
        if (__builtin_mul_overflow(options->lookahead_tokens, PENDING_TOKEN_BYTES, &bytes))
            return wgi_fail(err, WG_ERR_ARGUMENT, "a look-ahead of %llu tokens is too long",
                            (unsigned long long)options->lookahead_tokens);
        options->pending_bytes = bytes;
    }
    return WG_OK;
}

wg_status wgi_engine_options_complete(wg_engine_options *options, wg_error *err)
{
    wg_status status = complete_sizes(options, err);

    if (status == WG_OK) status = check_classes(options, err);
    if (status != WG_OK) return status;
    if (options->worker_count == 0) options->worker_count = 1;
    if (options->slot_count == 0 && options->worker_count == UINT32_MAX)
        return wgi_fail(err, WG_ERR_ARGUMENT, "%lu workers are too many",
                        (unsigned long)options->worker_count);
    if (options->slot_count == 0) options->slot_count = options->worker_count + 1;
    if (options->slot_count < 2) options->slot_count = 2;
    if (options->class_count == 0) options->class_count = 1;
    return WG_OK;
}

static uint64_t lookahead_sequences(const wg_engine_options *options)
{
    uint64_t most = options->lookahead_tokens < ROUND_SEQUENCES_MAX ? options->lookahead_tokens
                                                                    : ROUND_SEQUENCES_MAX;
    return most < options->bin_sequences ? options->bin_sequences : most;
}

uint64_t wg_engine_bytes(const wg_engine_options *options)
{
    wg_engine_options full;
    size_t page_bytes, page_count, queue, ring;

    if (!options) return 0;
    full = *options;
    if (wgi_engine_options_complete(&full, NULL) != WG_OK) return 0;
    wgi_queue_layout(full.bin_tokens, full.pending_bytes, &page_bytes, &page_count);
    ring = wgi_ring_bytes(&full);
    if (!wgi_mul(page_bytes, page_count, &queue) || !wgi_add(queue, ring, &ring) ||
        !wgi_add(
            ring,
            wgi_classes_bytes(full.class_count, lookahead_sequences(&full), full.bin_squares > 0),
            &ring) ||
        !wgi_add(ring, sizeof(wg_engine), &ring))
        return 0;
    return ring;
}

static void conditions_init(wg_engine *engine)
{
    pthread_condattr_t monotonic;

    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&engine->mutex, NULL);
    (void)pthread_cond_init(&engine->packer_wake, &monotonic);
    (void)pthread_cond_init(&engine->space, &monotonic);
    (void)pthread_cond_init(&engine->ready, &monotonic);
    (void)pthread_cond_init(&engine->left, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

static void engine_free(wg_engine *engine)
{
    wgi_ring_fini(&engine->ring);
    wgi_classes_fini(&engine->classes);
    wgi_queue_fini(&engine->queue);
    (void)pthread_cond_destroy(&engine->left);
    (void)pthread_cond_destroy(&engine->ready);
    (void)pthread_cond_destroy(&engine->space);
    (void)pthread_cond_destroy(&engine->packer_wake);
    (void)pthread_mutex_destroy(&engine->mutex);
    wgi_free(engine);
}

static void *packer_body(void *context);

wg_status wg_engine_open(wg_engine **out, const wg_engine_options *options, wg_error *err)
{
    wg_status status = WG_OK;
    wg_engine *engine = NULL;
    wg_engine_options full;
    wgi_pack_limits limits;
    size_t page_bytes, page_count;

    if (!out || !options)
        return wgi_fail(err, WG_ERR_ARGUMENT, "an engine needs options and a place for its handle");
    *out = NULL;
    full = *options;
    status = wgi_engine_options_complete(&full, err);
    if (status != WG_OK) return status;
    engine = wgi_calloc(1, sizeof(*engine));
    if (!engine) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for an engine");
    engine->options = full;
    engine->options.classes = NULL;
    conditions_init(engine);
    atomic_store(&engine->want_at, WGI_NEVER);
    wgi_pace_init(&engine->pace, &full);
    wgi_backoff_init(&engine->backoff, full.bin_tokens);
    wgi_queue_layout(full.bin_tokens, full.pending_bytes, &page_bytes, &page_count);
    WGI_TRY(wgi_queue_init(&engine->queue, page_bytes, page_count, full.class_count, err));
    if (full.classes) wgi_queue_reserve(&engine->queue, full.classes);
    limits = (wgi_pack_limits){full.bin_tokens, full.bin_sequences, full.bin_squares};
    WGI_TRY(wgi_classes_init(&engine->classes, full.classes, full.class_count, &limits,
                             full.lookahead_tokens, lookahead_sequences(&full), err));
    WGI_TRY(wgi_ring_init(&engine->ring, &full, err));
    WGI_TRY(wgi_thread_start(&engine->packer, "wg-packer", packer_body, engine, err));

    *out = engine;
    engine = NULL;

cleanup:
    if (engine) engine_free(engine);
    return status;
}

/* ------------------------------------------------------------------------------------ closing */

void wgi_engine_tell(wg_engine *engine)
{
    if (engine->options.ready) engine->options.ready(engine->options.ready_context);
}

void wgi_engine_unlock(wg_engine *engine)
{
    bool is_last = engine->is_closed && engine->ring.taken_count == 0 &&
                   engine->ring.export_count == 0 && engine->consumer_count == 0;

    (void)pthread_mutex_unlock(&engine->mutex);
    if (is_last) engine_free(engine);
}

static void stop(wg_engine *engine)
{
    wgi_queue_close(&engine->queue);
    (void)pthread_mutex_lock(&engine->mutex);
    engine->is_stopped = true;
    (void)pthread_cond_signal(&engine->packer_wake);
    (void)pthread_cond_broadcast(&engine->space);
    (void)pthread_cond_broadcast(&engine->ready);
    (void)pthread_mutex_unlock(&engine->mutex);
}

wg_status wg_engine_stop(wg_engine *engine, wg_error *err)
{
    if (!engine) return wgi_fail(err, WG_ERR_ARGUMENT, "no engine to stop");
    stop(engine);
    if (!wgi_engine_on_packer(engine)) wgi_engine_tell(engine);
    return WG_OK;
}

/* The engine is stopped and its packer has left, or is the caller. */
static void close_last(wg_engine *engine)
{
    wgi_queue_empty(&engine->queue);
    (void)pthread_mutex_lock(&engine->mutex);
    while (engine->sleeper_count > 0)
        (void)pthread_cond_wait(&engine->left, &engine->mutex);
    engine->is_closed = true;
    wgi_engine_unlock(engine);
}

void wg_engine_close(wg_engine *engine)
{
    if (!engine) return;
    stop(engine);
    if (wgi_engine_on_packer(engine)) {
        engine->close_is_deferred = true;
        return;
    }
    (void)pthread_join(engine->packer, NULL);
    close_last(engine);
}

/* ------------------------------------------------------------------------------------- packer */

void wgi_engine_sleep(wg_engine *engine, pthread_cond_t *condition, uint64_t until)
{
    struct timespec when;

    if (until == WGI_NEVER) {
        (void)pthread_cond_wait(condition, &engine->mutex);
        return;
    }
    when.tv_sec = (time_t)(until / NS_PER_S);
    when.tv_nsec = (long)(until % NS_PER_S);
    (void)pthread_cond_timedwait(condition, &engine->mutex, &when);
}

bool wgi_engine_is_drained(const wg_engine *engine, const wg_consumer *consumer)
{
    const wgi_ring *ring = &engine->ring;

    return engine->is_finished && atomic_load(&engine->queue.token_count) == engine->tokens_cut &&
           ring->ready.count == 0 && ring->rest.count == 0 && ring->filling_count == 0 &&
           ring->taken_count == consumer->held_count;
}

/* When the first busy worker should be done; WGI_NEVER: not known. */
static uint64_t worker_free_ns(const wg_engine *engine)
{
    uint64_t least = WGI_NEVER;

    if (engine->ring.taken_count == 0 || engine->pace.weight <= 0.0) return WGI_NEVER;
    for (uint32_t i = 0; i < engine->ring.slot_count; i++) {
        const wgi_slot *slot = &engine->ring.slots[i];
        uint64_t done;

        if (slot->state != WGI_SLOT_TAKEN) continue;
        done = slot->taken_ns + (uint64_t)wgi_pace_service_ns(&engine->pace, slot->bin.token_count);
        if (done < least) least = done;
    }
    return least;
}

/* A full queue holds submitters back, asleep or about to come again. */
static bool has_held_back(const wg_engine *engine)
{
    return atomic_load(&engine->blocked_count) > 0 || atomic_load(&engine->submitter_left);
}

static wgi_pace_view view_of(wg_engine *engine, uint64_t now)
{
    wgi_classes *classes = &engine->classes;

    return (wgi_pace_view){
        .tokens = wgi_classes_tokens(classes),
        .sequences = wgi_classes_sequences(classes),
        .arrival_ns = wgi_classes_arrival(classes),
        .deadline_ns = wgi_classes_deadline(classes, now),
        .free_ns = worker_free_ns(engine),
        .ready_count = engine->ring.ready.count,
        .idle_count = engine->idle_taker_count + (engine->taker_left ? 1 : 0),
        .is_pressed =
            engine->is_finished || has_held_back(engine) || wgi_classes_is_flushing(classes),
    };
}

/* Takes over what was submitted. The mutex is held and given away meanwhile. */
static void drain(wg_engine *engine, uint64_t now)
{
    uint64_t pushed = atomic_load(&engine->queue.token_count);

    if (pushed != engine->drained_tokens) {
        (void)pthread_mutex_unlock(&engine->mutex);
        wgi_classes_drain(&engine->classes, &engine->queue);
        (void)pthread_mutex_lock(&engine->mutex);
        engine->drained_tokens = engine->tokens_cut + wgi_classes_tokens(&engine->classes);
    }
    wgi_pace_arrived(&engine->pace, engine->drained_tokens - engine->noticed_tokens, now);
    engine->noticed_tokens = engine->drained_tokens;
}

/* Nothing waits: pages that idle submitters keep may be what others sleep for, and the end is told
 * once. The mutex is held; true: it was given away meanwhile. */
static bool when_empty(wg_engine *engine)
{
    if (has_held_back(engine)) {
        wgi_queue_reclaim(&engine->queue);
        (void)pthread_cond_broadcast(&engine->space);
    }
    if (engine->is_finished && !engine->end_was_told &&
        atomic_load(&engine->queue.token_count) == engine->tokens_cut) {
        engine->end_was_told = true;
        (void)pthread_cond_broadcast(&engine->ready);
        (void)pthread_mutex_unlock(&engine->mutex);
        wgi_engine_tell(engine);
        (void)pthread_mutex_lock(&engine->mutex);
        return true;
    }
    return false;
}

static void count_cut(wg_engine_cuts *cuts, wgi_pace_reason reason)
{
    cuts->full += reason == WGI_PACE_FULL;
    cuts->idle += reason == WGI_PACE_IDLE;
    cuts->deadline += reason == WGI_PACE_DEADLINE;
    cuts->window += reason == WGI_PACE_WINDOW;
    cuts->pressed += reason == WGI_PACE_PRESSED;
}

/*
 * Waits until a bin is to be filled and returns its slot, in the state FILLING or REST; NULL when
 * the engine was stopped. The mutex is held.
 */
static wgi_slot *wait_for_work(wg_engine *engine)
{
    while (!engine->is_stopped) {
        uint64_t now = wgi_clock_ns(), want = WGI_NEVER, until = WGI_NEVER;
        wgi_slot *slot = wgi_slot_list_pop(&engine->ring.rest);
        wgi_pace_view view;

        if (slot) return slot;
        drain(engine, now);
        if (engine->flush_is_asked) {
            wgi_classes_flush(&engine->classes);
            engine->flush_is_asked = false;
        }
        view = view_of(engine, now);
        if (view.tokens == 0 && when_empty(engine)) continue;
        if (engine->ring.rest.count > 0 || engine->is_stopped) continue;
        if (engine->ring.free.count > 0) {
            wgi_pace_answer answer = wgi_pace_decide(&engine->pace, &view, now);

            if (answer.reason != WGI_PACE_NOT_YET) {
                count_cut(&engine->stats.cuts, answer.reason);
                slot = wgi_slot_list_pop(&engine->ring.free);
                slot->state = WGI_SLOT_FILLING;
                return slot;
            }
            until = answer.wake_ns;
            if (answer.wake_tokens != WGI_NEVER)
                want = engine->drained_tokens + (answer.wake_tokens - view.tokens);
        }
        atomic_store(&engine->want_at, want);
        if (want == WGI_NEVER || atomic_load(&engine->queue.token_count) < want)
            wgi_engine_sleep(engine, &engine->packer_wake, until);
        atomic_store(&engine->want_at, WGI_NEVER);
    }
    return NULL;
}

/* Fills a free slot. Without the mutex. False: there was nothing after all. */
static bool fill_slot(wg_engine *engine, wgi_slot *slot, wgi_fill *fill, double service_ns)
{
    uint64_t urgent = fill->now + (uint64_t)(URGENT_RUNS * service_ns);

    wgi_bin_clear(&slot->bin);
    if (!wgi_classes_cut(&engine->classes, fill, urgent)) return false;
    slot->has_deadline = fill->has_deadline;
    slot->sequence_count = slot->bin.sequence_count;
    slot->attempts = 0;
    return true;
}

static void count_bin(wg_engine *engine, const wgi_bin *bin, const wgi_fill *fill)
{
    wg_engine_stats *stats = &engine->stats;

    stats->bins_out++;
    stats->sequences_out += bin->sequence_count;
    stats->tokens_out += bin->token_count;
    stats->bin_tokens_offered += engine->options.bin_tokens;
    for (size_t c = 0; c < engine->options.class_count; c++) {
        stats->class_wait_ns[c] += fill->wait_ns[c];
        stats->class_sequences[c] += fill->class_count[c];
    }
    engine->tokens_cut += bin->token_count;
}

/* Shifts or fills, and hands the slot to the stage. Without the mutex. */
static bool work_on(wg_engine *engine, wgi_slot *slot, wgi_fill *fill, double service_ns)
{
    const wg_engine_stage *stage = &engine->ring.stage;
    wg_bin view;

    if (stage->wait) stage->wait(stage->context, slot->index);
    if (slot->state == WGI_SLOT_REST) {
        wgi_slot_shift(slot);
        wgi_slot_limit(slot, fill->tokens_max);
    } else if (!fill_slot(engine, slot, fill, service_ns)) {
        return false;
    }
    wgi_slot_round_up(&engine->ring, slot);
    wgi_slot_view(&engine->ring, slot, &view);
    if (stage->copy) stage->copy(stage->context, &view);
    return true;
}

/* One bin, from the decision to the ready list. The mutex is held and given away meanwhile. */
static void make_bin(wg_engine *engine, wgi_slot *slot)
{
    const wg_engine_options *options = &engine->options;
    double service_ns = wgi_pace_service_ns(&engine->pace, options->bin_tokens);
    bool has_bin;
    wgi_fill fill = {
        .queue = &engine->queue,
        .bin = &slot->bin,
        .deadlines = slot->deadlines,
        .position_offset = options->position_offset,
        .tokens_max = wgi_backoff_tokens(&engine->backoff),
        .sequences_max = options->bin_sequences,
        .squares_max = options->bin_squares ? options->bin_squares : WGI_NEVER,
        .now = wgi_clock_ns(),
    };

    engine->ring.filling_count++;
    (void)pthread_mutex_unlock(&engine->mutex);
    has_bin = work_on(engine, slot, &fill, service_ns);
    (void)pthread_mutex_lock(&engine->mutex);
    engine->ring.filling_count--;
    if (!has_bin) {
        slot->state = WGI_SLOT_FREE;
        wgi_slot_list_push_front(&engine->ring.free, slot);
        return;
    }
    if (slot->state == WGI_SLOT_REST) {
        engine->stats.cuts.again++;
    } else {
        count_bin(engine, &slot->bin, &fill);
        /* Cutting takes about so long: the next bin is begun that much before it is wanted. */
        engine->pace.lead_ns = (7 * engine->pace.lead_ns + 2 * (wgi_clock_ns() - fill.now)) / 8;
    }
    slot->state = WGI_SLOT_READY;
    wgi_slot_list_push(&engine->ring.ready, slot);
    if (engine->idle_taker_count > 0) (void)pthread_cond_signal(&engine->ready);
    if (atomic_load(&engine->blocked_count) > 0 && atomic_load(&engine->queue.free_count) > 0)
        (void)pthread_cond_broadcast(&engine->space);
    if (!options->ready) return;
    (void)pthread_mutex_unlock(&engine->mutex);
    wgi_engine_tell(engine);
    (void)pthread_mutex_lock(&engine->mutex);
}

/* Which engine's packer this thread is. */
static _Thread_local const wg_engine *packing;

bool wgi_engine_on_packer(const wg_engine *engine)
{
    return packing == engine;
}

static void *packer_body(void *context)
{
    wg_engine *engine = context;
    wgi_slot *slot;

    packing = engine;
    (void)pthread_mutex_lock(&engine->mutex);
    while ((slot = wait_for_work(engine)) != NULL)
        make_bin(engine, slot);
    (void)pthread_mutex_unlock(&engine->mutex);
    if (engine->close_is_deferred) {
        (void)pthread_detach(pthread_self());
        close_last(engine);
    }
    return NULL;
}
