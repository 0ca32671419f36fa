/*
 * submit.c - the submitters' side of an engine.
 *
 * A submission is checked, copied into a page of the thread's lane, and forgotten. It takes the
 * engine's mutex only when the packer asked to be woken or the queue is full.
 *
 * Threads: any.
 */
#include "engine/dispatcher.h"

#include "base/os_clock.h"

/* Wakes the packer when it waits for as many tokens as there are now. */
static void wake_for_tokens(wg_engine *engine)
{
    uint64_t want = atomic_load(&engine->want_at);

    if (want == WGI_NEVER || atomic_load(&engine->queue.token_count) < want) return;
    (void)pthread_mutex_lock(&engine->mutex);
    atomic_store(&engine->want_at, WGI_NEVER);
    (void)pthread_cond_signal(&engine->packer_wake);
    (void)pthread_mutex_unlock(&engine->mutex);
}

/* A page that this thread gave up may be what another submitter sleeps for. */
static void wake_for_space(wg_engine *engine)
{
    if (atomic_load(&engine->blocked_count) == 0 || atomic_load(&engine->queue.free_count) == 0)
        return;
    (void)pthread_mutex_lock(&engine->mutex);
    (void)pthread_cond_broadcast(&engine->space);
    (void)pthread_mutex_unlock(&engine->mutex);
}

/*
 * Sleeps until a page may be free, no submission will succeed any more, or the time is up. True: it
 * is worth another try. A submitter that leaves without room is remembered, so that the packer
 * makes some for when it comes again, as it does for one that sleeps.
 */
static bool wait_for_space(wg_engine *engine, uint32_t class_index, uint64_t until)
{
    uint64_t since = wgi_clock_ns(), now = since;
    bool is_worth_it;

    (void)pthread_mutex_lock(&engine->mutex);
    atomic_fetch_add(&engine->blocked_count, 1);
    (void)pthread_cond_signal(&engine->packer_wake);
    for (;;) {
        is_worth_it = engine->is_finished || engine->is_stopped ||
                      wgi_queue_has_space(&engine->queue, class_index);
        if (is_worth_it || now >= until) break;
        wgi_engine_sleep(engine, &engine->space, until);
        now = wgi_clock_ns();
    }
    if (!is_worth_it) atomic_store(&engine->submitter_left, true);
    atomic_fetch_sub(&engine->blocked_count, 1);
    (void)pthread_mutex_unlock(&engine->mutex);
    atomic_fetch_add_explicit(&engine->submit_wait_ns, now - since, memory_order_relaxed);
    return is_worth_it;
}

static wg_status check_sequence(const wg_engine *engine, const wg_sequence *sequence, wg_error *err)
{
    const wg_engine_options *options = &engine->options;
    unsigned long long id = sequence->id, count = sequence->token_count;

    if (count == 0) return wgi_fail(err, WG_ERR_ARGUMENT, "sequence %llu is empty", id);
    if (!sequence->token_ids)
        return wgi_fail(err, WG_ERR_ARGUMENT, "sequence %llu has no token ids", id);
    if (count > options->bin_tokens)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "sequence %llu has %llu tokens, a bin holds %llu; cut it, "
                        "or make bins larger",
                        id, count, (unsigned long long)options->bin_tokens);
    if (options->bin_squares && count * count > options->bin_squares)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "sequence %llu has %llu tokens, the limit on squares is %llu", id, count,
                        (unsigned long long)options->bin_squares);
    if (sequence->class_index >= options->class_count)
        return wgi_fail(err, WG_ERR_ARGUMENT, "sequence %llu is of class %lu, there are %lu", id,
                        (unsigned long)sequence->class_index, (unsigned long)options->class_count);
    return WG_OK;
}

/* Checked sequences; WG_OK with *done below count when `until` (monotonic) came first. */
static wg_status push_all(wg_engine *engine, const wg_sequence *sequences, uint64_t count,
                          uint64_t until, uint64_t *done, wg_error *err)
{
    wgi_lane *lane = wgi_queue_enter(&engine->queue);
    wg_status status = WG_OK;
    uint64_t now = wgi_clock_ns();

    for (;;) {
        wgi_queue_answer answer = wgi_queue_push(&engine->queue, lane, sequences, count, done, now);

        wake_for_tokens(engine);
        if (answer == WGI_QUEUE_TAKEN) {
            if (atomic_load_explicit(&engine->submitter_left, memory_order_relaxed))
                atomic_store(&engine->submitter_left, false);
            break;
        }
        if (answer == WGI_QUEUE_CLOSED) {
            status = wgi_fail(err, WG_ERR_CLOSED, "sequence %llu came after the end of the input",
                              (unsigned long long)sequences[*done].id);
            break;
        }
        if (wgi_engine_on_packer(engine) && now < until) {
            status = wgi_fail(err, WG_ERR_BUSY,
                              "the queue is full, and its own thread cannot wait for it");
            break;
        }
        if (!wait_for_space(engine, sequences[*done].class_index, until)) break;
        now = wgi_clock_ns();
    }
    wake_for_space(engine);
    wgi_queue_leave(lane);
    return status;
}

wg_status wg_engine_submit(wg_engine *engine, const wg_sequence *sequence, wg_error *err)
{
    uint64_t done = 0;
    wg_status status;

    if (!engine || !sequence)
        return wgi_fail(err, WG_ERR_ARGUMENT, "a submission needs an engine and a sequence");
    status = check_sequence(engine, sequence, err);
    return status == WG_OK ? push_all(engine, sequence, 1, WGI_NEVER, &done, err) : status;
}

wg_status wg_engine_submit_within(wg_engine *engine, const wg_sequence *sequences, uint64_t count,
                                  uint64_t timeout_ns, uint64_t *taken, wg_error *err)
{
    uint64_t done = 0, since = wgi_clock_ns();
    uint64_t until = timeout_ns < WGI_NEVER - since ? since + timeout_ns : WGI_NEVER;
    wg_status status = WG_OK;

    if (taken) *taken = 0;
    if (!engine || (!sequences && count > 0))
        return wgi_fail(err, WG_ERR_ARGUMENT, "a submission needs an engine and sequences");
    for (uint64_t i = 0; i < count; i++) {
        status = check_sequence(engine, &sequences[i], err);
        if (status != WG_OK) return status;
    }
    if (count > 0) status = push_all(engine, sequences, count, until, &done, err);
    if (taken) *taken = done;
    return status;
}

wg_status wg_engine_submit_bulk(wg_engine *engine, const wg_sequence *sequences, uint64_t count,
                                uint64_t *taken, wg_error *err)
{
    return wg_engine_submit_within(engine, sequences, count, WG_FOREVER, taken, err);
}

uint64_t wgi_engine_longest(const wg_engine *engine)
{
    uint64_t most = engine->options.bin_tokens, squares = engine->options.bin_squares;

    if (!squares || most * most <= squares) return most; /* at most 2^31 each */
    uint64_t low = 0;                                    /* low * low <= squares < most * most */
    while (most - low > 1) {
        uint64_t middle = low + (most - low) / 2;

        if (middle * middle <= squares)
            low = middle;
        else
            most = middle;
    }
    return low;
}

bool wgi_engine_is_closed(wg_engine *engine)
{
    (void)pthread_mutex_lock(&engine->mutex);
    bool is_closed = engine->is_finished || engine->is_stopped;
    (void)pthread_mutex_unlock(&engine->mutex);
    return is_closed;
}

wg_status wg_engine_finish(wg_engine *engine, wg_error *err)
{
    if (!engine) return wgi_fail(err, WG_ERR_ARGUMENT, "no engine to finish");
    wgi_queue_close(&engine->queue);
    (void)pthread_mutex_lock(&engine->mutex);
    engine->is_finished = true;
    (void)pthread_cond_signal(&engine->packer_wake);
    (void)pthread_cond_broadcast(&engine->space);
    (void)pthread_cond_broadcast(&engine->ready);
    (void)pthread_mutex_unlock(&engine->mutex);
    return WG_OK;
}

wg_status wg_engine_flush(wg_engine *engine, wg_error *err)
{
    if (!engine) return wgi_fail(err, WG_ERR_ARGUMENT, "no engine to flush");
    (void)pthread_mutex_lock(&engine->mutex);
    engine->flush_is_asked = true;
    (void)pthread_cond_signal(&engine->packer_wake);
    (void)pthread_mutex_unlock(&engine->mutex);
    return WG_OK;
}
