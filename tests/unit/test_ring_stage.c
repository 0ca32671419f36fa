/*
 * test_ring_stage.c - a backend whose copies end late and in random legal order never sees its
 * source overwritten (recipe Q-07). The same run without the wait for the copy must be caught, or
 * this test would prove nothing.
 *
 * The fake device is a thread: copy() only notes what to read; the device reads it some time later,
 * in random order among the slots, and compares it with a checksum taken when the copy began.
 * LIBRARIES: wgi_engine wgi_base
 */
#include "base/alloc.h"
#include "base/thread.h"
#include "harness.h"
#include "warpgroup/engine.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#define SLOTS  3u
#define PACKS  10000u
#define TOKENS 64u

typedef struct flight {
    bool is_in_flight;
    const int32_t *from;
    uint64_t count, sum;
} flight;

typedef struct fake {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    flight copies[SLOTS];
    bool must_wait, is_over;
    uint64_t torn, done;
    uint64_t seed;
    unsigned allocations;
} fake;

static uint64_t sum_of(const int32_t *ids, uint64_t count)
{
    uint64_t sum = count;

    for (uint64_t i = 0; i < count; i++)
        sum = sum * 1099511628211u + (uint32_t)ids[i];
    return sum;
}

static uint64_t draw(fake *d)
{
    d->seed = d->seed * 6364136223846793005u + 1442695040888963407u;
    return d->seed >> 33;
}

static void *allocate(void *context, uint64_t bytes)
{
    ((fake *)context)->allocations++;
    return wgi_malloc_aligned(64, bytes);
}

static void deallocate(void *context, void *memory, uint64_t bytes)
{
    (void)bytes;
    ((fake *)context)->allocations--;
    wgi_free(memory);
}

static void begin_copy(void *context, const wg_bin *bin)
{
    fake *d = context;

    (void)pthread_mutex_lock(&d->mutex);
    if (d->copies[bin->slot].is_in_flight) /* its source has just been written over */
        d->torn += sum_of(bin->token_ids, bin->token_count) != d->copies[bin->slot].sum;
    d->copies[bin->slot] = (flight){.is_in_flight = true,
                                    .from = bin->token_ids,
                                    .count = bin->token_count,
                                    .sum = sum_of(bin->token_ids, bin->token_count)};
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->mutex);
}

static void wait_copy(void *context, uint32_t slot)
{
    fake *d = context;

    (void)pthread_mutex_lock(&d->mutex);
    while (d->must_wait && d->copies[slot].is_in_flight)
        (void)pthread_cond_wait(&d->changed, &d->mutex);
    (void)pthread_mutex_unlock(&d->mutex);
}

/* Ends copies, one of those in flight at a time, chosen at random, and late. */
static void *run_device(void *context)
{
    fake *d = context;

    for (;;) {
        unsigned in_flight[SLOTS], count = 0;

        (void)pthread_mutex_lock(&d->mutex);
        for (unsigned s = 0; s < SLOTS; s++)
            if (d->copies[s].is_in_flight) in_flight[count++] = s;
        if (count == 0 && d->is_over) break;
        if (count == 0) {
            (void)pthread_cond_wait(&d->changed, &d->mutex);
        } else if (draw(d) % 4 == 0) {
            flight *copy = &d->copies[in_flight[draw(d) % count]];

            d->torn += sum_of(copy->from, copy->count) != copy->sum;
            d->done++;
            copy->is_in_flight = false;
            (void)pthread_cond_broadcast(&d->changed);
        }
        (void)pthread_mutex_unlock(&d->mutex);
        (void)sched_yield();
    }
    (void)pthread_mutex_unlock(&d->mutex);
    return NULL;
}

static void *submit_all(void *context)
{
    wg_engine *engine = context;
    int32_t ids[TOKENS];

    for (uint64_t id = 0; id < PACKS; id++) {
        for (unsigned i = 0; i < TOKENS; i++)
            ids[i] = (int32_t)(id * 977 + i);
        if (wg_engine_submit(engine,
                             &(wg_sequence){.id = id, .token_ids = ids, .token_count = TOKENS},
                             NULL) != WG_OK)
            break;
    }
    if (wg_engine_finish(engine, NULL) != WG_OK) return engine;
    return NULL;
}

/* Bins of one text each; the consumer gives them back at once, while their copy may be in flight.
 */
static uint64_t run(bool must_wait)
{
    fake d = {.must_wait = must_wait, .seed = 12345};
    wg_engine_options options = {
        .bin_tokens = TOKENS,
        .slot_count = SLOTS,
        .stage = {.allocate = allocate,
                  .deallocate = deallocate,
                  .copy = begin_copy,
                  .wait = wait_copy,
                  .context = &d},
    };
    wg_engine *engine = NULL;
    pthread_t device_thread, submitter;
    uint64_t allocations, bins = 0;
    wg_error err;
    wg_next next;
    wg_bin bin;

    (void)pthread_mutex_init(&d.mutex, NULL);
    (void)pthread_cond_init(&d.changed, NULL);
    EXPECT_OK(wg_engine_open(&engine, &options, &err));
    EXPECT_EQ(d.allocations, SLOTS);
    EXPECT_OK(wgi_thread_start(&device_thread, "device", run_device, &d, &err));
    allocations = wgi_alloc_count();
    EXPECT_OK(wgi_thread_start(&submitter, "submit", submit_all, engine, &err));
    while (wg_engine_next(engine, NULL, WG_FOREVER, &bin, &next, &err) == WG_OK &&
           next == WG_NEXT_BIN) {
        if (bin.token_ids[1] != (int32_t)(bin.sequence_ids[0] * 977 + 1))
            EXPECT_EQ(bin.token_ids[1], bin.sequence_ids[0]);
        bins++;
        EXPECT_OK(wg_engine_release(engine, &bin, &err));
    }
    EXPECT_EQ(bins, PACKS);
    EXPECT_EQ(wgi_alloc_count() - allocations, 0);
    (void)pthread_join(submitter, NULL);
    (void)pthread_mutex_lock(&d.mutex);
    d.is_over = true;
    (void)pthread_cond_broadcast(&d.changed);
    (void)pthread_mutex_unlock(&d.mutex);
    (void)pthread_join(device_thread, NULL);
    wg_engine_close(engine);
    EXPECT_EQ(d.allocations, 0);
    if (must_wait) EXPECT_EQ(d.done, PACKS);
    (void)pthread_cond_destroy(&d.changed);
    (void)pthread_mutex_destroy(&d.mutex);
    return d.torn;
}

int main(void)
{
    EXPECT_EQ(run(true), 0);
#if !WGT_HAS_TSAN /* there the mutation is a data race, and reported as one */
    EXPECT(run(false) > 0);
#endif
    return wgt_result();
}
