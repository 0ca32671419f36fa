/*
 * test_engine.c - sequences through the engine: each comes out once and whole, whatever the
 * threads do; misuse is a status; nothing waits for ever; nothing is allocated while it runs.
 */
#include "base/alloc.h"
#include "base/os_clock.h"
#include "base/thread.h"
#include "engine/feed.h"
#include "harness.h"

#include <stdatomic.h>
#include <unistd.h>

#define SEQUENCES 4000u

/* Sequence `id` is a function of its id, so that the receiver can tell. */
static uint32_t length_of(uint64_t id, uint32_t most)
{
    return 1 + (uint32_t)((id * 2654435761u >> 7) % most);
}

static void tokens_of(uint64_t id, int32_t *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (int32_t)((id * 31 + i) & 0xffff);
}

typedef struct road {
    wgi_engine *engine;
    uint64_t first, count;
    uint32_t most;
    size_t bin_tokens, bin_sequences;
    bool may_keep;
    unsigned slow_us; /* a consumer's rest after each bin */
    atomic_uint *seen;
    atomic_uint wrong;
    atomic_ullong tokens_seen;
} road;

static void *submit_all(void *context)
{
    road *stage = context;
    int32_t tokens[512];

    for (uint64_t id = stage->first; id < stage->first + stage->count; id++) {
        uint32_t count = length_of(id, stage->most);
        tokens_of(id, tokens, count);
        if (wgi_engine_push(stage->engine, id, tokens, id % 3 ? NULL : tokens, count, NULL) !=
            WG_OK)
            atomic_fetch_add(&stage->wrong, 1);
    }
    return NULL;
}

static void check_sequence(road *stage, const wgi_bin *bin, size_t s)
{
    uint64_t id = bin->sequence_ids[s];
    const wgi_segment *segment = &bin->segments[s];
    int32_t tokens[512];

    atomic_fetch_add(&stage->seen[id], 1);
    atomic_fetch_add(&stage->tokens_seen, segment->count);
    if (segment->count != length_of(id, stage->most)) {
        atomic_fetch_add(&stage->wrong, 1);
        return;
    }
    tokens_of(id, tokens, segment->count);
    if (memcmp(tokens, bin->token_ids + segment->row, segment->count * sizeof(int32_t)) != 0 ||
        bin->type_ids[segment->row] != (id % 3 ? 0 : tokens[0]))
        atomic_fetch_add(&stage->wrong, 1);
}

static void *take_all(void *context)
{
    road *stage = context;
    wgi_bin *bin;
    wgi_bin *kept = NULL;

    while (wgi_engine_take(stage->engine, true, &bin) == WGI_ENGINE_BIN) {
        if (wgi_bin_check(bin, 1 << 16, NULL) != WG_OK || bin->token_count > stage->bin_tokens ||
            bin->sequence_count > stage->bin_sequences)
            atomic_fetch_add(&stage->wrong, 1);
        for (size_t s = 0; s < bin->sequence_count; s++)
            check_sequence(stage, bin, s);
        if (stage->slow_us) (void)usleep(stage->slow_us);
        /* Every second bin is given back late, out of order, where the ring can bear it. */
        if (!stage->may_keep) {
            wgi_engine_release(stage->engine, bin);
            continue;
        }
        wgi_engine_release(stage->engine, kept);
        kept = kept ? NULL : bin;
        if (kept == NULL) wgi_engine_release(stage->engine, bin);
    }
    wgi_engine_release(stage->engine, kept);
    return NULL;
}

static void run_road(const wgi_engine_options *options, uint32_t most, unsigned producers,
                     unsigned consumers, unsigned slow_us)
{
    static atomic_uint seen[SEQUENCES];
    pthread_t threads[8];
    road stages[8];
    road total = {.bin_tokens = options->bin_tokens};
    wgi_engine *engine = NULL;
    wgi_engine_counts counts;
    uint64_t allocations;
    wg_error err;

    for (size_t i = 0; i < SEQUENCES; i++)
        atomic_store(&seen[i], 0);
    EXPECT_OK(wgi_engine_open(&engine, options, &err));
    allocations = wgi_alloc_count();
    for (unsigned i = 0; i < producers + consumers; i++) {
        stages[i] = total;
        stages[i].engine = engine;
        stages[i].count = SEQUENCES / producers;
        stages[i].first = i * stages[i].count;
        stages[i].most = most;
        stages[i].bin_sequences = options->bin_sequences ? options->bin_sequences : SIZE_MAX;
        stages[i].slow_us = slow_us;
        stages[i].may_keep = options->slot_count >= 2 * consumers;
        stages[i].seen = seen;
        EXPECT_OK(wgi_thread_start(&threads[i], "road", i < producers ? submit_all : take_all,
                                   &stages[i], &err));
    }
    for (unsigned i = 0; i < producers; i++)
        (void)pthread_join(threads[i], NULL);
    wgi_engine_finish(engine);
    for (unsigned i = producers; i < producers + consumers; i++)
        (void)pthread_join(threads[i], NULL);
    EXPECT_EQ(wgi_alloc_count() - allocations, 0);
    for (unsigned i = 0; i < producers + consumers; i++)
        EXPECT_EQ(atomic_load(&stages[i].wrong), 0);
    for (size_t i = 0; i < SEQUENCES / producers * producers; i++) {
        if (atomic_load(&seen[i]) == 1) continue;
        fprintf(stderr, "sequence %zu came out %u times\n", i, atomic_load(&seen[i]));
        wgt_failed++;
        break;
    }
    counts = wgi_engine_counted(engine);
    EXPECT_EQ(counts.sequences_in, SEQUENCES / producers * producers);
    EXPECT_EQ(counts.sequences_out, counts.sequences_in);
    EXPECT_EQ(counts.tokens_out, counts.tokens_in);
    EXPECT(counts.bin_tokens_offered >= counts.tokens_out);
    if (options->pending_bytes) EXPECT(counts.pending_bytes_peak <= options->pending_bytes);
    wgi_engine_close(engine);
}

static void test_road(void)
{
    run_road(&(wgi_engine_options){.bin_tokens = 1024, .worker_count = 1}, 200, 1, 1, 0);
    run_road(&(wgi_engine_options){.bin_tokens = 1024, .worker_count = 2, .slot_count = 5}, 200, 2,
             2, 0);
    run_road(&(wgi_engine_options){.bin_tokens = 300, .worker_count = 2, .bin_sequences = 3}, 300,
             4, 3, 0);
    /* A queue of one page, and of a few: every push has to wait for its room. */
    run_road(&(wgi_engine_options){.bin_tokens = 512, .worker_count = 2, .pending_bytes = 4200},
             500, 4, 2, 0);
    run_road(&(wgi_engine_options){.bin_tokens = 512, .worker_count = 2, .pending_bytes = 200000},
             500, 3, 2, 50);
    run_road(&(wgi_engine_options){.bin_tokens = 1, .worker_count = 3, .slot_count = 2}, 1, 2, 3,
             0);
}

/* Recipes B-01, B-02, Q-06, X-01: refused with a sentence. */
static void test_misuse(void)
{
    wgi_engine *engine = NULL;
    wgi_bin *bin;
    int32_t tokens[101] = {0};
    wg_error err;

    EXPECT_EQ(wgi_engine_open(&engine, &(wgi_engine_options){.worker_count = 1}, &err),
              WG_ERR_ARGUMENT);
    EXPECT(engine == NULL);
    EXPECT_EQ(wgi_engine_open(&engine, &(wgi_engine_options){.bin_tokens = 100}, &err),
              WG_ERR_ARGUMENT);
    EXPECT_EQ(
        wgi_engine_open(
            &engine, &(wgi_engine_options){.bin_tokens = (size_t)1 << 31, .worker_count = 1}, &err),
        WG_ERR_ARGUMENT);
    EXPECT_OK(wgi_engine_open(&engine, &(wgi_engine_options){.bin_tokens = 100, .worker_count = 1},
                              &err));
    EXPECT_EQ(wgi_engine_push(engine, 7, tokens, NULL, 0, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "sequence 7 is empty");
    EXPECT_EQ(wgi_engine_push(engine, 8, tokens, NULL, 101, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "sequence 8 has 101 tokens, a bin holds 100");
    EXPECT_EQ(wgi_engine_take(engine, false, &bin), WGI_ENGINE_NONE);
    EXPECT_OK(wgi_engine_push(engine, 9, tokens, NULL, 100, &err));
    wgi_engine_finish(engine);
    EXPECT_EQ(wgi_engine_push(engine, 10, tokens, NULL, 1, &err), WG_ERR_CLOSED);
    wgi_engine_finish(engine); /* twice is harmless */
    EXPECT_EQ(wgi_engine_take(engine, true, &bin), WGI_ENGINE_BIN);
    EXPECT_EQ(bin->sequence_ids[0], 9);
    wgi_engine_release(engine, bin);
    wgi_engine_release(engine, bin); /* twice is harmless */
    wgi_engine_release(engine, NULL);
    EXPECT_EQ(wgi_engine_take(engine, true, &bin), WGI_ENGINE_END);
    EXPECT_EQ(wgi_engine_take(engine, false, &bin), WGI_ENGINE_END);
    wgi_engine_close(engine);
    wgi_engine_close(NULL);
}

/* Recipe B-06: a few texts far below a bin come out when somebody waits, asks, or ends the input.
 */
static void test_cuts(void)
{
    wgi_engine_options options = {.bin_tokens = 10000, .worker_count = 1, .position_offset = 2};
    wgi_engine *engine = NULL;
    wgi_bin *bin;
    int32_t tokens[3] = {1, 2, 3};
    wg_error err;

    EXPECT_OK(wgi_engine_open(&engine, &options, &err));
    EXPECT_OK(wgi_engine_push(engine, 1, tokens, NULL, 3, &err));
    (void)usleep(20000);
    EXPECT_EQ(wgi_engine_counted(engine).bins_out, 0); /* nobody asked: it waits for company */
    EXPECT_OK(wgi_engine_push(engine, 2, tokens, NULL, 3, &err));
    wgi_engine_flush(engine);
    for (int i = 0; i < 2000 && wgi_engine_counted(engine).bins_out == 0; i++)
        (void)usleep(1000);
    EXPECT_EQ(wgi_engine_take(engine, false, &bin), WGI_ENGINE_BIN);
    EXPECT_EQ(bin->sequence_count, 2);
    EXPECT_EQ(bin->position_ids[3], 2);
    wgi_engine_release(engine, bin);

    EXPECT_OK(wgi_engine_push(engine, 3, tokens, NULL, 3, &err));
    EXPECT_EQ(wgi_engine_take(engine, true, &bin), WGI_ENGINE_BIN); /* a taker waits */
    EXPECT_EQ(bin->sequence_ids[0], 3);
    wgi_engine_release(engine, bin);

    EXPECT_EQ(wgi_engine_take(engine, false, &bin), WGI_ENGINE_NONE); /* one came and left */
    EXPECT_OK(wgi_engine_push(engine, 4, tokens, NULL, 3, &err));
    for (int i = 0; i < 2000 && wgi_engine_counted(engine).bins_out == 2; i++)
        (void)usleep(1000);
    EXPECT_EQ(wgi_engine_take(engine, false, &bin), WGI_ENGINE_BIN);
    wgi_engine_release(engine, bin);

    EXPECT_OK(wgi_engine_push(engine, 5, tokens, NULL, 3, &err));
    wgi_engine_finish(engine);
    EXPECT_EQ(wgi_engine_take(engine, true, &bin), WGI_ENGINE_BIN);
    EXPECT_EQ(bin->sequence_ids[0], 5);
    EXPECT_EQ(wgi_engine_take(engine, true, &bin), WGI_ENGINE_END);
    wgi_engine_close(engine);
}

static atomic_uint ready_calls;

static void count_ready(void *context)
{
    (void)context;
    atomic_fetch_add(&ready_calls, 1);
}

/* Full bins while input goes on: the fill is what packing is for. */
static void test_fill(void)
{
    wgi_engine_options options = {.bin_tokens = 2048, .worker_count = 1, .ready = count_ready};
    wgi_engine *engine = NULL;
    wgi_engine_counts counts;
    pthread_t producer;
    wgi_bin *bin;
    wg_error err;
    road stage = {.first = 0, .count = SEQUENCES, .most = 500};

    EXPECT_OK(wgi_engine_open(&engine, &options, &err));
    stage.engine = engine;
    EXPECT_OK(wgi_thread_start(&producer, "road", submit_all, &stage, &err));
    for (size_t bins = 0; bins < 200; bins++) {
        (void)usleep(500);
        if (wgi_engine_take(engine, true, &bin) != WGI_ENGINE_BIN) break;
        wgi_engine_release(engine, bin);
    }
    counts = wgi_engine_counted(engine);
    EXPECT((double)counts.tokens_out > 0.97 * (double)counts.bin_tokens_offered);
    wgi_engine_stop(engine);
    (void)pthread_join(producer, NULL);
    EXPECT(atomic_load(&ready_calls) >= counts.bins_out);
    wgi_engine_close(engine);
}

/* No text waits for ever: an early odd one leaves although better company keeps coming. */
static void test_age(void)
{
    wgi_engine_options options = {
        .bin_tokens = 1000, .worker_count = 1, .slot_count = 2, .lookahead_tokens = 8000};
    wgi_engine *engine = NULL;
    static int32_t tokens[1000];
    uint64_t next = 1, bins = 0, seen_at = 0;
    wgi_bin *bin;
    wg_error err;

    EXPECT_OK(wgi_engine_open(&engine, &options, &err));
    EXPECT_OK(wgi_engine_push(engine, 0, tokens, NULL, 1, &err));
    while (bins < 60 && seen_at == 0) {
        while (next < 9 + bins)
            EXPECT_OK(wgi_engine_push(engine, next++, tokens, NULL, 1000, &err));
        if (wgi_engine_take(engine, true, &bin) != WGI_ENGINE_BIN) break;
        bins++;
        for (size_t s = 0; s < bin->sequence_count; s++)
            if (bin->sequence_ids[s] == 0) seen_at = bins;
        wgi_engine_release(engine, bin);
    }
    EXPECT(seen_at > 0 && seen_at <= 24);
    wgi_engine_close(engine);
}

static void *block_in_push(void *context)
{
    road *stage = context;
    int32_t tokens[512] = {0};
    wg_status status;

    do {
        status = wgi_engine_push(stage->engine, 1, tokens, NULL, 512, NULL);
    } while (status == WG_OK);
    atomic_fetch_add(&stage->wrong, status != WG_ERR_CLOSED);
    return NULL;
}

static void *block_in_take(void *context)
{
    road *stage = context;
    wgi_bin *bin;

    while (wgi_engine_take(stage->engine, true, &bin) == WGI_ENGINE_BIN)
        ; /* keeps every bin, so the ring runs dry */
    return NULL;
}

/* Recipes: open and close without work; a stop wakes submitters and takers. */
static void test_shutdown(void)
{
    wg_error err;

    for (int i = 0; i < 300; i++) {
        wgi_engine_options options = {
            .bin_tokens = 512, .worker_count = 1, .pending_bytes = 1u << 14};
        wgi_engine *engine = NULL;
        pthread_t threads[4];
        road stage = {0};

        EXPECT_OK(wgi_engine_open(&engine, &options, &err));
        stage.engine = engine;
        for (unsigned t = 0; i % 3 && t < 4; t++)
            EXPECT_OK(wgi_thread_start(&threads[t], "end", t < 2 ? block_in_push : block_in_take,
                                       &stage, &err));
        if (i % 3 == 2) (void)usleep((unsigned)(i % 7) * 100);
        if (i % 2) wgi_engine_stop(engine);
        if (i % 3 && !(i % 2)) wgi_engine_stop(engine);
        for (unsigned t = 0; i % 3 && t < 4; t++)
            (void)pthread_join(threads[t], NULL);
        EXPECT_EQ(atomic_load(&stage.wrong), 0);
        wgi_engine_close(engine);
    }
}

/* Each allocation of opening fails in turn. */
static void test_memory(void)
{
    wgi_engine_options options = {.bin_tokens = 64, .worker_count = 1};
    long nth = 1;

    for (;; nth++) {
        wgi_engine *engine = NULL;
        wg_error err;
        wg_status status;

        wgi_alloc_fail_at(nth);
        status = wgi_engine_open(&engine, &options, &err);
        wgi_alloc_fail_at(0);
        if (status == WG_OK) {
            wgi_engine_close(engine);
            break;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
        EXPECT(engine == NULL);
    }
    EXPECT(nth > 5);
    EXPECT(wgi_engine_bytes(&options) < 10u << 20);
}

int main(void)
{
    test_misuse();
    test_cuts();
    test_road();
    test_fill();
    test_age();
    test_shutdown();
    test_memory();
    return wgt_result();
}
