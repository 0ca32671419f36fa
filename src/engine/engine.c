/*
 * engine.c - one packer thread between submitters and takers.
 *
 *     push ─▶ queue (pages) ─▶ packer thread: round (look-ahead, plan) ─▶ ring ─▶ take ... release
 *
 *     slot:   free ─▶ filling ─▶ ready ─▶ taken ─▶ free
 *
 * When the packer cuts. Bins form as late as they may: only while a slot is free, and then when
 * the input is done or a flush asks, a submitter is held back, a taker found nothing, the
 * look-ahead is full, or the ring runs low although two bins' worth waits. Else it sleeps,
 * and says in `want_at` how many tokens must have been pushed for a wake-up to be worth while, so
 * that most pushes touch no lock but their lane's.
 *
 * No wake-up is lost: want_at is set under the mutex before the packer looks at the queue a last
 * time and sleeps; a submitter first adds its tokens, then reads want_at (both sequentially
 * consistent), and takes the mutex before it signals. Every other condition changes under the
 * mutex. Back-pressure works the same way with `blocked_count` and the queue's free pages.
 *
 * Refused: a lock-free ring of bins. A bin is handed over some hundred times a second; a mutex
 * is not seen there, and it can be read.
 *
 * Threads: push, take, release, flush, finish, stop on any; the round belongs to the packer
 * (wg-packer). Locks: engine, then a lane's, then the pool's.
 */
#include "engine/engine.h"

#include "base/alloc.h"
#include "base/os_clock.h"
#include "base/thread.h"
#include "engine/queue.h"
#include "engine/round.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define LOOKAHEAD_BINS      32u
#define ROUND_SEQUENCES_MAX ((size_t)1 << 16)
#define NEVER               UINT64_MAX

typedef enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_TAKEN } slot_state;

typedef struct ring_slot {
    wgi_bin bin; /* first: a bin's address is its slot's */
    slot_state state;
    struct ring_slot *next; /* free or ready list */
} ring_slot;

struct wgi_engine {
    wgi_engine_options options;
    wgi_queue queue;
    wgi_round round; /* the packer's */
    pthread_t packer;
    bool packer_runs;

    pthread_mutex_t mutex; /* guards all below that is not atomic */
    pthread_cond_t packer_wake, space, ready;
    ring_slot *slots;
    ring_slot *free_first, *ready_first, *ready_last;
    size_t ready_count;
    size_t taker_count; /* sleep in take */
    bool taker_left;    /* a take without wait found nothing */
    bool flush_is_asked, is_finished, is_stopped, has_ended;
    uint64_t flush_serial;         /* older sequences are to go now */
    atomic_uint blocked_count;     /* submitters that sleep; written under the mutex */
    atomic_uint_least64_t want_at; /* tokens pushed at which the packer is to be woken */
    wgi_engine_counts counts;
    atomic_uint_least64_t sequences_in, push_wait_ns;
};

/* ------------------------------------------------------------------------------------ opening */

static wg_status options_complete(wgi_engine_options *options, wg_error *err)
{
    size_t ahead;

    if (options->bin_tokens == 0 || options->bin_tokens > INT32_MAX)
        return wgi_fail(err, WG_ERR_ARGUMENT, "a bin of %zu tokens: 1 to %d are possible",
                        options->bin_tokens, INT32_MAX);
    if (options->worker_count == 0)
        return wgi_fail(err, WG_ERR_ARGUMENT, "no worker takes bins: at least 1 is needed");
    if (options->bin_sequences == 0 || options->bin_sequences > options->bin_tokens)
        options->bin_sequences = options->bin_tokens;
    if (options->slot_count == 0) options->slot_count = options->worker_count + 1;
    if (options->slot_count < 2) options->slot_count = 2;
    if (options->lookahead_tokens == 0 &&
        !wgi_mul(options->bin_tokens, LOOKAHEAD_BINS, &options->lookahead_tokens))
        options->lookahead_tokens = options->bin_tokens;
    if (options->lookahead_tokens < options->bin_tokens)
        options->lookahead_tokens = options->bin_tokens;
    if (options->pending_bytes == 0) {
        if (!wgi_mul(options->lookahead_tokens, 4 * 2 * sizeof(int32_t), &ahead))
            return wgi_fail(err, WG_ERR_ARGUMENT, "a look-ahead of %zu tokens is too long",
                            options->lookahead_tokens);
        options->pending_bytes = ahead;
    }
    return WG_OK;
}

static size_t round_capacity(const wgi_engine_options *options)
{
    size_t most = options->lookahead_tokens < ROUND_SEQUENCES_MAX ? options->lookahead_tokens
                                                                  : ROUND_SEQUENCES_MAX;
    return most < options->bin_sequences ? options->bin_sequences : most;
}

size_t wgi_engine_bytes(const wgi_engine_options *options)
{
    wgi_engine_options full = *options;
    size_t page_bytes, page_count, queue, ring;

    if (options_complete(&full, NULL) != WG_OK) return SIZE_MAX;
    wgi_queue_layout(full.bin_tokens, full.pending_bytes, &page_bytes, &page_count);
    ring = wgi_bin_bytes(full.bin_tokens, full.bin_sequences);
    if (!wgi_mul(page_bytes, page_count, &queue) || !wgi_mul(ring, full.slot_count, &ring) ||
        !wgi_add(queue, ring, &ring) ||
        !wgi_add(ring, wgi_round_bytes(round_capacity(&full)), &ring))
        return SIZE_MAX;
    return ring;
}

static wg_status ring_open(wgi_engine *engine, wg_error *err)
{
    size_t slot_count = engine->options.slot_count;

    engine->slots = wgi_calloc(slot_count, sizeof(engine->slots[0]));
    if (!engine->slots)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a ring of %zu bins", slot_count);
    for (size_t i = 0; i < slot_count; i++) {
        ring_slot *slot = &engine->slots[i];
        wg_status status = wgi_bin_init(&slot->bin, engine->options.bin_tokens,
                                        engine->options.bin_sequences, err);
        if (status != WG_OK) return status;
        slot->next = engine->free_first;
        engine->free_first = slot;
    }
    return WG_OK;
}

static void *packer_body(void *context);

wg_status wgi_engine_open(wgi_engine **out, const wgi_engine_options *options, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_engine *engine = NULL;
    wgi_engine_options full = *options;
    wgi_pack_limits limits;
    size_t page_bytes, page_count;

    *out = NULL;
    status = options_complete(&full, err);
    if (status != WG_OK) return status;
    engine = wgi_calloc(1, sizeof(*engine));
    if (!engine) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for an engine");
    engine->options = full;
    (void)pthread_mutex_init(&engine->mutex, NULL);
    (void)pthread_cond_init(&engine->packer_wake, NULL);
    (void)pthread_cond_init(&engine->space, NULL);
    (void)pthread_cond_init(&engine->ready, NULL);
    atomic_store(&engine->want_at, NEVER);
    wgi_queue_layout(full.bin_tokens, full.pending_bytes, &page_bytes, &page_count);
    WGI_TRY(wgi_queue_init(&engine->queue, page_bytes, page_count, err));
    limits = (wgi_pack_limits){.tokens = full.bin_tokens, .sequences = full.bin_sequences};
    WGI_TRY(
        wgi_round_init(&engine->round, &limits, full.lookahead_tokens, round_capacity(&full), err));
    WGI_TRY(ring_open(engine, err));
    WGI_TRY(wgi_thread_start(&engine->packer, "wg-packer", packer_body, engine, err));
    engine->packer_runs = true;

    *out = engine;
    engine = NULL;

cleanup:
    wgi_engine_close(engine);
    return status;
}

void wgi_engine_close(wgi_engine *engine)
{
    if (!engine) return;
    if (engine->packer_runs) {
        wgi_engine_stop(engine);
        (void)pthread_join(engine->packer, NULL);
    }
    for (size_t i = 0; engine->slots && i < engine->options.slot_count; i++)
        wgi_bin_fini(&engine->slots[i].bin);
    wgi_free(engine->slots);
    wgi_round_fini(&engine->round);
    wgi_queue_fini(&engine->queue);
    (void)pthread_cond_destroy(&engine->ready);
    (void)pthread_cond_destroy(&engine->space);
    (void)pthread_cond_destroy(&engine->packer_wake);
    (void)pthread_mutex_destroy(&engine->mutex);
    wgi_free(engine);
}

/* --------------------------------------------------------------------------------- submitters */

/* Wakes the packer when it waits for as many tokens as there are now. */
static void wake_for_tokens(wgi_engine *engine)
{
    uint64_t want = atomic_load(&engine->want_at);

    if (atomic_load(&engine->queue.token_count) < want) return;
    (void)pthread_mutex_lock(&engine->mutex);
    atomic_store(&engine->want_at, NEVER);
    (void)pthread_cond_signal(&engine->packer_wake);
    (void)pthread_mutex_unlock(&engine->mutex);
}

/* Sleeps until a page may be free; false when no push will succeed any more. */
static bool wait_for_space(wgi_engine *engine)
{
    uint64_t since = wgi_clock_ns();
    bool is_open;

    (void)pthread_mutex_lock(&engine->mutex);
    atomic_fetch_add(&engine->blocked_count, 1);
    (void)pthread_cond_signal(&engine->packer_wake);
    while (!engine->is_finished && !engine->is_stopped &&
           atomic_load(&engine->queue.free_count) == 0)
        (void)pthread_cond_wait(&engine->space, &engine->mutex);
    atomic_fetch_sub(&engine->blocked_count, 1);
    is_open = !engine->is_finished && !engine->is_stopped;
    (void)pthread_mutex_unlock(&engine->mutex);
    atomic_fetch_add_explicit(&engine->push_wait_ns, wgi_clock_ns() - since, memory_order_relaxed);
    return is_open;
}

wg_status wgi_engine_push(wgi_engine *engine, uint64_t id, const int32_t *token_ids,
                          const int32_t *type_ids, size_t count, wg_error *err)
{
    wgi_queue_answer answer;

    if (count == 0)
        return wgi_fail(err, WG_ERR_ARGUMENT, "sequence %llu is empty", (unsigned long long)id);
    if (count > engine->options.bin_tokens)
        return wgi_fail(
            err, WG_ERR_ARGUMENT,
            "sequence %llu has %zu tokens, a bin holds %zu; cut it, or make bins larger",
            (unsigned long long)id, count, engine->options.bin_tokens);
    do {
        answer = wgi_queue_push(&engine->queue, id, token_ids, type_ids, (uint32_t)count);
    } while (answer == WGI_QUEUE_FULL && wait_for_space(engine));
    if (answer != WGI_QUEUE_TAKEN)
        return wgi_fail(err, WG_ERR_CLOSED, "sequence %llu came after the end of the input",
                        (unsigned long long)id);
    atomic_fetch_add_explicit(&engine->sequences_in, 1, memory_order_relaxed);
    wake_for_tokens(engine);
    /* A page that this push gave up may be what another submitter sleeps for. */
    if (atomic_load(&engine->blocked_count) > 0 && atomic_load(&engine->queue.free_count) > 0) {
        (void)pthread_mutex_lock(&engine->mutex);
        (void)pthread_cond_broadcast(&engine->space);
        (void)pthread_mutex_unlock(&engine->mutex);
    }
    return WG_OK;
}

void wgi_engine_finish(wgi_engine *engine)
{
    wgi_queue_close(&engine->queue);
    (void)pthread_mutex_lock(&engine->mutex);
    engine->is_finished = true;
    (void)pthread_cond_signal(&engine->packer_wake);
    (void)pthread_cond_broadcast(&engine->space);
    (void)pthread_mutex_unlock(&engine->mutex);
}

void wgi_engine_flush(wgi_engine *engine)
{
    (void)pthread_mutex_lock(&engine->mutex);
    engine->flush_is_asked = true;
    (void)pthread_cond_signal(&engine->packer_wake);
    (void)pthread_mutex_unlock(&engine->mutex);
}

void wgi_engine_stop(wgi_engine *engine)
{
    wgi_queue_close(&engine->queue);
    (void)pthread_mutex_lock(&engine->mutex);
    engine->is_stopped = true;
    (void)pthread_cond_signal(&engine->packer_wake);
    (void)pthread_cond_broadcast(&engine->space);
    (void)pthread_cond_broadcast(&engine->ready);
    (void)pthread_mutex_unlock(&engine->mutex);
    if (engine->options.ready) engine->options.ready(engine->options.ready_context);
}

/* ------------------------------------------------------------------------------------- packer */

static uint64_t tokens_pending(const wgi_engine *engine)
{
    return atomic_load(&engine->queue.token_count) - engine->counts.tokens_out;
}

/* Something other than an amount of tokens asks for a bin. The mutex is held. */
static bool is_pressed(wgi_engine *engine)
{
    if (engine->flush_is_asked) {
        wgi_round_drain(&engine->round, &engine->queue);
        engine->flush_serial = engine->round.drained_count;
        engine->flush_is_asked = false;
    }
    return engine->is_finished || atomic_load(&engine->blocked_count) > 0 ||
           wgi_round_oldest(&engine->round) < engine->flush_serial ||
           (engine->ready_count == 0 && (engine->taker_count > 0 || engine->taker_left));
}

/* Tokens that must be pending for a bin to be cut without pressure. The mutex is held. */
static uint64_t tokens_wanted(const wgi_engine *engine)
{
    size_t two = 2 * engine->options.bin_tokens;

    if (engine->ready_count < engine->options.worker_count &&
        two < engine->options.lookahead_tokens)
        return two;
    return engine->options.lookahead_tokens;
}

/*
 * Waits until a bin should be cut and a slot is free, and takes the slot; NULL at the end.
 * The mutex is held.
 */
static ring_slot *wait_for_cut(wgi_engine *engine)
{
    for (;;) {
        uint64_t pending = tokens_pending(engine), want = NEVER;

        if (engine->is_stopped) return NULL;
        if (pending == 0) {
            if (engine->is_finished) return NULL;
            if (atomic_load(&engine->blocked_count) > 0) {
                wgi_queue_reclaim(&engine->queue);
                (void)pthread_cond_broadcast(&engine->space);
            }
        }
        if (engine->free_first) {
            ring_slot *slot = engine->free_first;

            want = is_pressed(engine) ? 1 : tokens_wanted(engine);
            if (pending >= want) {
                engine->free_first = slot->next;
                slot->state = SLOT_FILLING;
                return slot;
            }
            want += engine->counts.tokens_out;
        }
        atomic_store(&engine->want_at, want);
        if (want == NEVER || atomic_load(&engine->queue.token_count) < want)
            (void)pthread_cond_wait(&engine->packer_wake, &engine->mutex);
        atomic_store(&engine->want_at, NEVER);
    }
}

static void slot_ready(wgi_engine *engine, ring_slot *slot)
{
    wgi_engine_counts *counts = &engine->counts;

    slot->state = SLOT_READY;
    slot->next = NULL;
    if (engine->ready_last)
        engine->ready_last->next = slot;
    else
        engine->ready_first = slot;
    engine->ready_last = slot;
    engine->ready_count++;
    counts->bins_out++;
    counts->sequences_out += slot->bin.sequence_count;
    counts->tokens_out += slot->bin.token_count;
    counts->bin_tokens_offered += slot->bin.token_capacity;
    if (engine->taker_count > 0) (void)pthread_cond_signal(&engine->ready);
    if (atomic_load(&engine->blocked_count) > 0 && atomic_load(&engine->queue.free_count) > 0)
        (void)pthread_cond_broadcast(&engine->space);
}

static void *packer_body(void *context)
{
    wgi_engine *engine = context;
    ring_slot *slot;

    (void)pthread_mutex_lock(&engine->mutex);
    while ((slot = wait_for_cut(engine)) != NULL) {
        bool has_bin;

        (void)pthread_mutex_unlock(&engine->mutex);
        has_bin = wgi_round_cut(&engine->round, &engine->queue, &slot->bin,
                                engine->options.position_offset);
        (void)pthread_mutex_lock(&engine->mutex);
        if (!has_bin) { /* cannot be: tokens were pending */
            slot->state = SLOT_FREE;
            slot->next = engine->free_first;
            engine->free_first = slot;
            continue;
        }
        slot_ready(engine, slot);
        if (!engine->options.ready) continue;
        (void)pthread_mutex_unlock(&engine->mutex);
        engine->options.ready(engine->options.ready_context);
        (void)pthread_mutex_lock(&engine->mutex);
    }
    engine->has_ended = true;
    (void)pthread_cond_broadcast(&engine->ready);
    (void)pthread_mutex_unlock(&engine->mutex);
    if (engine->options.ready) engine->options.ready(engine->options.ready_context);
    return NULL;
}

/* ------------------------------------------------------------------------------------- takers */

wgi_engine_answer wgi_engine_take(wgi_engine *engine, bool wait, wgi_bin **bin)
{
    wgi_engine_answer answer = WGI_ENGINE_NONE;

    *bin = NULL;
    (void)pthread_mutex_lock(&engine->mutex);
    if (wait && !engine->ready_first && !engine->has_ended && !engine->is_stopped) {
        uint64_t since = wgi_clock_ns();

        engine->taker_count++;
        (void)pthread_cond_signal(&engine->packer_wake);
        while (!engine->ready_first && !engine->has_ended && !engine->is_stopped)
            (void)pthread_cond_wait(&engine->ready, &engine->mutex);
        engine->taker_count--;
        engine->counts.take_wait_ns += wgi_clock_ns() - since;
    }
    if (engine->is_stopped || (engine->has_ended && !engine->ready_first)) {
        answer = WGI_ENGINE_END;
    } else if (engine->ready_first) {
        ring_slot *slot = engine->ready_first;

        engine->ready_first = slot->next;
        if (!engine->ready_first) engine->ready_last = NULL;
        engine->ready_count--;
        engine->taker_left = false;
        slot->state = SLOT_TAKEN;
        *bin = &slot->bin;
        answer = WGI_ENGINE_BIN;
        /* The ring runs low sooner than the look-ahead is full. */
        if (engine->free_first) (void)pthread_cond_signal(&engine->packer_wake);
    } else if (!engine->taker_left) {
        engine->taker_left = true;
        (void)pthread_cond_signal(&engine->packer_wake);
    }
    (void)pthread_mutex_unlock(&engine->mutex);
    return answer;
}

void wgi_engine_release(wgi_engine *engine, wgi_bin *bin)
{
    ring_slot *slot = (ring_slot *)(void *)bin;

    if (!bin) return;
    (void)pthread_mutex_lock(&engine->mutex);
    if (slot->state == SLOT_TAKEN) {
        slot->state = SLOT_FREE;
        slot->next = engine->free_first;
        if (!engine->free_first) (void)pthread_cond_signal(&engine->packer_wake);
        engine->free_first = slot;
    }
    (void)pthread_mutex_unlock(&engine->mutex);
}

wgi_engine_counts wgi_engine_counted(const wgi_engine *engine)
{
    wgi_engine *shared = (wgi_engine *)engine; /* counting locks, nothing else changes */
    wgi_engine_counts counts;

    (void)pthread_mutex_lock(&shared->mutex);
    counts = shared->counts;
    (void)pthread_mutex_unlock(&shared->mutex);
    counts.sequences_in = atomic_load(&shared->sequences_in);
    counts.tokens_in = atomic_load(&shared->queue.token_count);
    counts.push_wait_ns = atomic_load(&shared->push_wait_ns);
    counts.pending_bytes_peak = wgi_queue_bytes_peak(&shared->queue);
    return counts;
}
