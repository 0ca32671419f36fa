/*
 * test_engine_random.c - random operations from many threads against the simplest truth: an array
 * with a count for each sequence. In a run to the end every sequence is done exactly once; in one
 * that is stopped, or closed under its callers, none is done twice and everybody comes home.
 *
 * WGT_OPS sets the number of operations (300,000; the full tier and ThreadSanitizer runs use 10^7),
 * WGT_SHUTDOWNS how often an engine is only opened and closed (1,000; recipe Q-01 asks for
 * 100,000). LIBRARIES: wgi_engine wgi_base
 */
#include "base/alloc.h"
#include "base/os_clock.h"
#include "base/thread.h"
#include "engine/dispatcher.h"
#include "harness.h"
#include "warpgroup/engine.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#define PRODUCERS     3u
#define CONSUMERS     3u
#define THREADS       (PRODUCERS + CONSUMERS)
#define SEQUENCES_MAX 20000u
#define MAILBOX       4u
#define LENGTH_MAX    64u

typedef struct trial {
    wg_engine *engine;
    uint64_t sequence_count; /* of each producer */
    bool may_stop, may_fail;
    atomic_uint *done; /* [PRODUCERS * sequence_count] */
    atomic_uint wrong;
    atomic_ullong operations;
    _Atomic(wg_bin *) mailbox[MAILBOX]; /* bins given to another thread to release */
} trial;

typedef struct actor {
    trial *trial;
    unsigned index;
    uint64_t seed;
} actor;

static uint64_t draw(actor *a)
{
    uint64_t z = (a->seed += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void dither(actor *a)
{
    uint64_t z = draw(a) % 256;

    if (z < 20) (void)sched_yield();
    if (z == 21) (void)usleep((unsigned)(draw(a) % 300));
}

static uint64_t length_of(uint64_t id)
{
    return 1 + (id * 2654435761u >> 9) % LENGTH_MAX;
}

static int32_t token_of(uint64_t id, uint64_t i)
{
    return (int32_t)((id * 71 + i) & 0x7fffffff);
}

static void *produce(void *context)
{
    actor *a = context;
    trial *t = a->trial;
    int32_t tokens[8][LENGTH_MAX];
    wg_sequence batch[8];
    uint64_t first = a->index * t->sequence_count;

    for (uint64_t at = 0; at < t->sequence_count;) {
        uint64_t count = draw(a) % 4 ? 1 : 1 + draw(a) % 8, taken = 0;
        wg_status status;

        if (count > t->sequence_count - at) count = t->sequence_count - at;
        for (uint64_t k = 0; k < count; k++) {
            uint64_t id = first + at + k;
            batch[k] = (wg_sequence){.id = id,
                                     .token_ids = tokens[k],
                                     .token_count = length_of(id),
                                     .class_index = (uint32_t)(id % 2),
                                     .deadline_ns = id % 5 ? 0 : 1 + draw(a) % 10000000};
            for (uint64_t i = 0; i < batch[k].token_count; i++)
                tokens[k][i] = token_of(id, i);
        }
        if (count == 1) {
            status = wg_engine_submit(t->engine, batch, NULL);
            taken = status == WG_OK;
        } else {
            status = wg_engine_submit_bulk(t->engine, batch, count, &taken, NULL);
        }
        atomic_fetch_add(&t->operations, 1);
        at += taken;
        if (status == WG_ERR_CLOSED && t->may_stop) break;
        if (status != WG_OK || taken != count) {
            atomic_fetch_add(&t->wrong, 1);
            break;
        }
        if (draw(a) % 512 == 0 && wg_engine_flush(t->engine, NULL) != WG_OK)
            atomic_fetch_add(&t->wrong, 1);
        dither(a);
    }
    return NULL;
}

static void check_bin(trial *t, const wg_bin *bin)
{
    if (bin->cu_seqlens[0] != 0 || bin->sequence_count == 0 ||
        (uint64_t)bin->cu_seqlens[bin->sequence_count] != bin->token_count)
        atomic_fetch_add(&t->wrong, 1);
    for (uint64_t s = 0; s < bin->sequence_count; s++) {
        uint64_t id = bin->sequence_ids[s], row = bin->segments[s].row;

        if (bin->segments[s].count != length_of(id) || bin->token_ids[row] != token_of(id, 0) ||
            bin->token_ids[row + length_of(id) - 1] != token_of(id, length_of(id) - 1))
            atomic_fetch_add(&t->wrong, 1);
    }
}

static void finish_bin(trial *t, const wg_bin *bin)
{
    check_bin(t, bin); /* whatever happened since: the bin is what it was */
    for (uint64_t s = 0; s < bin->sequence_count; s++)
        atomic_fetch_add(&t->done[bin->sequence_ids[s]], 1);
    if (wg_engine_release(t->engine, bin, NULL) != WG_OK) atomic_fetch_add(&t->wrong, 1);
    atomic_fetch_add(&t->operations, 1);
}

static void use_bin(actor *a, wg_bin *bin)
{
    trial *t = a->trial;
    wg_bin *other;
    int given_up = 0;

    check_bin(t, bin);
    dither(a);
    if (t->may_fail && draw(a) % 8 == 0) {
        wg_fault fault = draw(a) % 2 ? WG_FAULT_MEMORY : WG_FAULT_OTHER;

        if (wg_engine_fail(t->engine, bin, fault, &given_up, NULL) != WG_OK)
            atomic_fetch_add(&t->wrong, 1);
        atomic_fetch_add(&t->operations, 1);
        if (!given_up) return;
    }
    if (draw(a) % 3 == 0) { /* somebody else releases it */
        wg_bin *gift = wgi_memdup(bin, sizeof(*bin));

        other = atomic_exchange(&t->mailbox[draw(a) % MAILBOX], gift);
        if (!other) return;
        finish_bin(t, other);
        wgi_free(other);
        return;
    }
    finish_bin(t, bin);
}

static void empty_mailbox(trial *t)
{
    for (unsigned i = 0; i < MAILBOX; i++) {
        wg_bin *bin = atomic_exchange(&t->mailbox[i], NULL);

        if (bin) finish_bin(t, bin);
        wgi_free(bin);
    }
}

static void *consume(void *context)
{
    actor *a = context;
    trial *t = a->trial;

    for (;;) {
        static const uint64_t timeouts[] = {0, 0, 1000, 300000, 2000000};
        wg_next next = WG_NEXT_NONE;
        wg_bin bin;

        if (wg_engine_next(t->engine, NULL, timeouts[draw(a) % 5], &bin, &next, NULL) != WG_OK)
            break;
        atomic_fetch_add(&t->operations, 1);
        if (next == WG_NEXT_BIN) use_bin(a, &bin);
        if (next == WG_NEXT_DRAINED) break;
        /* Gifts that nobody picked up would keep the ring dry. */
        if (next == WG_NEXT_NONE) empty_mailbox(t);
        dither(a);
    }
    return NULL;
}

static void start(trial *t, actor *actors, pthread_t *threads)
{
    wg_error err;

    for (unsigned i = 0; i < THREADS; i++) {
        actors[i] = (actor){.trial = t, .index = i, .seed = wgt_random()};
        EXPECT_OK(wgi_thread_start(&threads[i], "random", i < PRODUCERS ? produce : consume,
                                   &actors[i], &err));
    }
}

static wg_engine_options random_options(void)
{
    static const wg_engine_class classes[2] = {{.priority = 1}, {.priority = 0}};
    wg_engine_options options = {
        .bin_tokens = LENGTH_MAX + wgt_below(500),
        .bin_sequences = wgt_below(3) ? 0 : 1 + wgt_below(20),
        .worker_count = 1 + (uint32_t)wgt_below(3),
        .slot_count = wgt_below(2) ? 0 : 2 + (uint32_t)wgt_below(8),
        .pending_bytes = wgt_below(2) ? 0 : 1 + wgt_below(200000),
        .lookahead_tokens = wgt_below(2) ? 0 : 1 + wgt_below(3000),
        .window = wgt_below(2) ? WG_WINDOW_FIXED : WG_WINDOW_ADAPTIVE,
        .token_multiple = wgt_below(2) ? 1 : 16,
        .classes = classes,
        .class_count = 2,
    };

    options.bin_tokens += options.token_multiple;
    return options;
}

static void run_trial(bool may_stop, uint64_t sequence_count, uint64_t *operations)
{
    static atomic_uint done[PRODUCERS * SEQUENCES_MAX];
    trial t = {.sequence_count = sequence_count,
               .may_stop = may_stop,
               .may_fail = wgt_below(2) != 0,
               .done = done};
    wg_engine_options options = random_options();
    uint64_t seed = wgt_seed, total = PRODUCERS * sequence_count, sum = 0;
    pthread_t threads[THREADS];
    actor actors[THREADS];
    wg_engine_stats stats;
    wg_error err;
    int failed = wgt_failed;

    for (uint64_t i = 0; i < total; i++)
        atomic_store(&done[i], 0);
    EXPECT_OK(wg_engine_open(&t.engine, &options, &err));
    start(&t, actors, threads);
    if (may_stop) {
        if (wgt_below(4)) (void)usleep((unsigned)wgt_below(3000));
        EXPECT_OK(wg_engine_stop(t.engine, &err));
    }
    for (unsigned i = 0; i < PRODUCERS; i++)
        (void)pthread_join(threads[i], NULL);
    EXPECT_OK(wg_engine_finish(t.engine, &err));
    for (unsigned i = PRODUCERS; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    empty_mailbox(&t);
    EXPECT_OK(wg_engine_statistics(t.engine, &stats, &err));
    wg_engine_close(t.engine);
    for (uint64_t i = 0; i < total; i++) {
        unsigned times = atomic_load(&done[i]);

        sum += times;
        if (times == 1 || (may_stop && times == 0)) continue;
        fprintf(stderr, "sequence %" PRIu64 " was done %u times\n", i, times);
        wgt_failed++;
        break;
    }
    EXPECT_EQ(atomic_load(&t.wrong), 0);
    if (!may_stop) EXPECT_EQ(stats.sequences_done + stats.sequences_given_up, sum);
    if (wgt_failed != failed) fprintf(stderr, "WGT_SEED=%" PRIu64 "\n", seed);
    *operations += atomic_load(&t.operations);
}

/* Everybody sleeps in a call while the engine is closed. */
static void *sleep_in_next(void *context)
{
    trial *t = context;
    wg_next next;
    wg_bin bin;

    while (wg_engine_next(t->engine, NULL, WG_FOREVER, &bin, &next, NULL) == WG_OK)
        ; /* never here: nothing was submitted */
    return NULL;
}

static void test_close_on_sleepers(void)
{
    for (int i = 0; i < 50; i++) {
        trial t = {.sequence_count = 0};
        pthread_t threads[4];
        wg_error err;

        EXPECT_OK(wg_engine_open(&t.engine, &(wg_engine_options){.bin_tokens = 10}, &err));
        for (int k = 0; k < 4; k++)
            EXPECT_OK(wgi_thread_start(&threads[k], "sleep", sleep_in_next, &t, &err));
        for (uint32_t asleep = 0; asleep < 4;) { /* no call may begin after the close */
            (void)usleep(100);
            (void)pthread_mutex_lock(&t.engine->mutex);
            asleep = t.engine->sleeper_count;
            (void)pthread_mutex_unlock(&t.engine->mutex);
        }
        wg_engine_close(t.engine);
        for (int k = 0; k < 4; k++)
            (void)pthread_join(threads[k], NULL);
    }
}

/* Recipe Q-01: opened and closed, over and over, with and without threads inside. */
static void test_shutdowns(void)
{
    uint64_t operations = 0;
    wg_error err;

    const char *given = getenv("WGT_SHUTDOWNS");
    int count = given ? atoi(given) : 1000;

    for (int i = 0; i < count && wgt_failed == 0; i++) {
        wg_engine *engine = NULL;

        EXPECT_OK(wg_engine_open(&engine, &(wg_engine_options){.bin_tokens = 10}, &err));
        if (i % 2) EXPECT_OK(wg_engine_finish(engine, &err));
        wg_engine_close(engine);
        if (i < 1000) run_trial(true, 200, &operations);
    }
}

int main(void)
{
    const char *given = getenv("WGT_OPS");
    uint64_t want = given ? strtoull(given, NULL, 10) : 300000, operations = 0;

    wgt_seed_set(2024);
    test_close_on_sleepers();
    test_shutdowns();
    while (operations < want && wgt_failed == 0)
        run_trial(wgt_below(8) == 0, 1 + wgt_below(SEQUENCES_MAX), &operations);
    return wgt_result();
}
