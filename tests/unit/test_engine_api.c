/*
 * test_engine_api.c - the public engine: misuse is a sentence, failed bins come again, consumers
 * that vanish cost nothing, tensors outlive what they were taken from, a close wakes everybody.
 */
#include "base/alloc.h"
#include "base/os_clock.h"
#include "base/thread.h"
#include "harness.h"
#include "warpgroup/engine.h"
/* LIBRARIES: wgi_engine wgi_base */

#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#define BURSTS 2000u

static const int32_t ids[4096];

static wg_engine *open_engine(wg_engine_options options)
{
    wg_engine *engine = NULL;
    wg_error err;

    EXPECT_OK(wg_engine_open(&engine, &options, &err));
    return engine;
}

static wg_status submit(wg_engine *engine, uint64_t id, uint64_t count, wg_error *err)
{
    return wg_engine_submit(engine,
                            &(wg_sequence){.id = id, .token_ids = ids, .token_count = count}, err);
}

static wg_next take(wg_engine *engine, wg_consumer *consumer, wg_bin *bin)
{
    wg_next next = WG_NEXT_NONE;
    wg_error err;

    EXPECT_OK(wg_engine_next(engine, consumer, WG_FOREVER, bin, &next, &err));
    return next;
}

/* Recipes B-01, B-02, Q-06, X-01. */
static void test_misuse(void)
{
    wg_engine_class one = {0};
    wg_engine *engine = NULL;
    wg_bin bin = {0};
    wg_next next;
    wg_error err;
    int given_up;

    EXPECT_EQ(wg_engine_open(NULL, &(wg_engine_options){.bin_tokens = 1}, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_engine_open(&engine, NULL, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_engine_open(&engine, &(wg_engine_options){0}, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "1 to 2147483647");
    EXPECT_EQ(wg_engine_open(&engine, &(wg_engine_options){.bin_tokens = (uint64_t)1 << 31}, &err),
              WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_engine_open(&engine,
                             &(wg_engine_options){.bin_tokens = 100, .token_multiple = 128}, &err),
              WG_ERR_ARGUMENT);
    EXPECT_EQ(
        wg_engine_open(&engine, &(wg_engine_options){.bin_tokens = 9, .class_count = 1}, &err),
        WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_engine_open(
                  &engine, &(wg_engine_options){.bin_tokens = 9, .classes = &one, .class_count = 9},
                  &err),
              WG_ERR_ARGUMENT);
    EXPECT(engine == NULL);

    /* Before the engine is open there is none to submit to. */
    EXPECT_EQ(submit(NULL, 1, 1, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_engine_finish(NULL, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_engine_flush(NULL, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_engine_stop(NULL, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_engine_next(NULL, NULL, 0, &bin, &next, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_engine_release(NULL, &bin, &err), WG_ERR_ARGUMENT);
    wg_engine_close(NULL);
    wg_consumer_close(NULL);

    engine = open_engine((wg_engine_options){.bin_tokens = 100, .bin_squares = 8100});
    EXPECT_EQ(wg_engine_submit(engine, NULL, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(submit(engine, 7, 0, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "sequence 7 is empty");
    EXPECT_EQ(submit(engine, 8, 101, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "sequence 8 has 101 tokens, a bin holds 100");
    EXPECT_EQ(submit(engine, 8, 95, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "squares");
    EXPECT_EQ(wg_engine_submit(engine, &(wg_sequence){.id = 9, .token_count = 3}, &err),
              WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "no token ids");
    EXPECT_EQ(wg_engine_submit(
                  engine,
                  &(wg_sequence){.id = 9, .token_ids = ids, .token_count = 3, .class_index = 1},
                  &err),
              WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "class 1");
    EXPECT_EQ(wg_engine_next(engine, NULL, 0, NULL, &next, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_engine_release(engine, &bin, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "no bin of the engine");
    EXPECT_EQ(wg_engine_fail(engine, &bin, WG_FAULT_OTHER, &given_up, &err), WG_ERR_ARGUMENT);
    EXPECT_OK(submit(engine, 10, 90, &err));
    EXPECT_OK(wg_engine_finish(engine, &err));
    EXPECT_OK(wg_engine_finish(engine, &err));
    EXPECT_EQ(submit(engine, 11, 1, &err), WG_ERR_CLOSED);
    EXPECT_IN(err.message, "sequence 11");
    EXPECT_EQ(take(engine, NULL, &bin), WG_NEXT_BIN);
    EXPECT_EQ(bin.sequence_ids[0], 10);
    EXPECT_OK(wg_engine_release(engine, &bin, &err));
    EXPECT_EQ(wg_engine_release(engine, &bin, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "given back already");
    EXPECT_EQ(take(engine, NULL, &bin), WG_NEXT_DRAINED);
    EXPECT_EQ(take(engine, NULL, &bin), WG_NEXT_DRAINED);
    EXPECT_OK(wg_engine_stop(engine, &err));
    EXPECT_EQ(wg_engine_next(engine, NULL, 0, &bin, &next, &err), WG_ERR_CLOSED);
    wg_engine_close(engine);
}

static void test_view(void)
{
    static const int32_t tokens[] = {11, 12, 13, 14, 15}, types[] = {0, 1, 1, 1, 1};
    wg_engine *engine = open_engine((wg_engine_options){
        .bin_tokens = 70, .token_multiple = 16, .position_offset = 2, .bin_sequences = 3});
    wg_sequence all[2] = {{.id = 5, .token_ids = tokens, .type_ids = types, .token_count = 5},
                          {.id = 6, .token_ids = tokens + 1, .token_count = 3}};
    wg_engine_stats stats;
    uint64_t taken;
    wg_next next;
    wg_bin bin;
    wg_error err;

    EXPECT_EQ(submit(engine, 1, 65, &err), WG_ERR_ARGUMENT); /* 70 is no multiple of 16: 64 are */
    EXPECT_OK(wg_engine_next(engine, NULL, 1000000, &bin, &next, &err));
    EXPECT_EQ(next, WG_NEXT_NONE);
    EXPECT_OK(wg_engine_submit_bulk(engine, all, 2, &taken, &err));
    EXPECT_EQ(taken, 2);
    EXPECT_OK(wg_engine_finish(engine, &err));
    EXPECT_EQ(take(engine, NULL, &bin), WG_NEXT_BIN);
    EXPECT_EQ(bin.token_count, 8);
    EXPECT_EQ(bin.row_count, 16);
    EXPECT_EQ(bin.sequence_count, 2);
    EXPECT_EQ(bin.longest, 5);
    EXPECT_EQ(bin.cu_seqlens[2], 8);
    EXPECT_EQ(bin.sequence_ids[0], 5);
    EXPECT_EQ(bin.token_ids[5], 12);
    EXPECT_EQ(bin.type_ids[4], 1);
    EXPECT_EQ(bin.type_ids[5], 0);
    EXPECT_EQ(bin.position_ids[5], 2);
    EXPECT_EQ(bin.position_ids[15], 0);
    EXPECT_EQ(bin.token_ids[15], 0);
    EXPECT_EQ(bin.segments[1].row, 5);
    EXPECT_OK(wg_engine_release(engine, &bin, &err));
    EXPECT_OK(wg_engine_statistics(engine, &stats, &err));
    EXPECT_EQ(stats.sequences_in, 2);
    EXPECT_EQ(stats.sequences_done, 2);
    EXPECT_EQ(stats.tokens_out, 8);
    EXPECT_EQ(stats.capacity_tokens, 64);
    EXPECT_EQ(stats.bin_tokens_offered, 64);
    /* A bad one among many: none is taken. */
    all[1].token_count = 0;
    EXPECT_EQ(wg_engine_submit_bulk(engine, all, 2, &taken, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(taken, 0);
    wg_engine_close(engine);
}

/*
 * A full queue: who does not want to wait is told how many went in, who waits a while waits that
 * long, and who only ever polls gets everything through in the end.
 */
static void test_bounded_wait(void)
{
    enum { COUNT = 64 };
    wg_engine *engine = open_engine((wg_engine_options){.bin_tokens = 64,
                                                        .slot_count = 2,
                                                        .pending_bytes = 1,
                                                        .window = WG_WINDOW_FIXED,
                                                        .window_sequences = 1000000,
                                                        .window_us = 1000000000});
    wg_sequence all[COUNT];
    bool is_out[COUNT] = {false};
    uint64_t taken = 99, sent = 0, out = 0, before, refused = 0;
    wg_next next;
    wg_bin bin;
    wg_error err;

    for (uint64_t i = 0; i < COUNT; i++)
        all[i] = (wg_sequence){.id = i, .token_ids = ids, .token_count = 60};
    EXPECT_EQ(wg_engine_submit_within(NULL, all, 1, 0, &taken, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(taken, 0);
    EXPECT_OK(wg_engine_submit_within(engine, all, 0, 0, NULL, &err));
    /* Nobody takes bins, so what fits goes in and no more, at once or after a wait. */
    EXPECT_OK(wg_engine_submit_within(engine, all, COUNT, 100000000, &sent, &err));
    EXPECT(sent > 0 && sent < COUNT);
    before = wgi_clock_ns();
    EXPECT_OK(wg_engine_submit_within(engine, all + sent, COUNT - sent, 30000000, &taken, &err));
    EXPECT(wgi_clock_ns() - before >= 30000000);
    EXPECT_EQ(taken, 0);
    before = wgi_clock_ns();
    EXPECT_OK(wg_engine_submit_within(engine, all + sent, COUNT - sent, 0, NULL, &err));
    EXPECT(wgi_clock_ns() - before < 1000000000);

    for (unsigned turn = 0; out < COUNT && turn < 20000; turn++) {
        if (sent < COUNT) {
            EXPECT_OK(wg_engine_submit_within(engine, all + sent, COUNT - sent, 0, &taken, &err));
            refused += taken < COUNT - sent;
            sent += taken;
            if (sent == COUNT) EXPECT_OK(wg_engine_finish(engine, &err));
        }
        EXPECT_OK(wg_engine_next(engine, NULL, 100000, &bin, &next, &err));
        if (next != WG_NEXT_BIN) continue;
        for (uint64_t s = 0; s < bin.sequence_count; s++, out++) {
            EXPECT(!is_out[bin.sequence_ids[s]]);
            is_out[bin.sequence_ids[s]] = true;
        }
        EXPECT_OK(wg_engine_release(engine, &bin, &err));
    }
    EXPECT_EQ(out, COUNT);
    EXPECT(refused > 0);
    EXPECT_EQ(wg_engine_submit_within(engine, all, 1, 0, &taken, &err), WG_ERR_CLOSED);
    EXPECT_EQ(taken, 0);
    wg_engine_close(engine);
}

/* Sequences that fail: 13 always, and any bin above 60 tokens does not fit. */
static void test_failures(void)
{
    wg_engine *engine = open_engine((wg_engine_options){.bin_tokens = 100, .slot_count = 2});
    unsigned done[40] = {0}, given_up_count = 0, bins = 0;
    wg_engine_stats stats;
    wg_bin bin;
    wg_error err;
    int given_up;

    for (uint64_t id = 0; id < 40; id++)
        EXPECT_OK(submit(engine, id, 5 + id % 7, &err));
    EXPECT_OK(wg_engine_finish(engine, &err));
    while (bins++ < 1000 && take(engine, NULL, &bin) == WG_NEXT_BIN) {
        bool has_culprit = false;

        EXPECT_EQ(bin.cu_seqlens[0], 0);
        EXPECT_EQ(bin.cu_seqlens[bin.sequence_count], bin.token_count);
        for (uint64_t s = 0; s < bin.sequence_count; s++) {
            EXPECT_EQ(bin.segments[s].row, bin.cu_seqlens[s]);
            EXPECT_EQ(bin.segments[s].count, 5 + bin.sequence_ids[s] % 7);
            EXPECT(bin.segments[s].count <= bin.longest);
            has_culprit = has_culprit || bin.sequence_ids[s] == 13;
        }
        if (bin.token_count > 60 || has_culprit) {
            EXPECT_OK(wg_engine_fail(engine, &bin,
                                     bin.token_count > 60 ? WG_FAULT_MEMORY : WG_FAULT_OTHER,
                                     &given_up, &err));
            if (!given_up) {
                EXPECT_EQ(wg_engine_release(engine, &bin, &err), WG_ERR_ARGUMENT);
                continue;
            }
            EXPECT_EQ(bin.sequence_count, 1);
            EXPECT_EQ(bin.sequence_ids[0], 13);
            given_up_count++;
        } else {
            for (uint64_t s = 0; s < bin.sequence_count; s++)
                done[bin.sequence_ids[s]]++;
        }
        EXPECT_OK(wg_engine_release(engine, &bin, &err));
    }
    EXPECT_EQ(given_up_count, 1);
    for (uint64_t id = 0; id < 40; id++)
        EXPECT_EQ(done[id], id != 13);
    EXPECT_OK(wg_engine_statistics(engine, &stats, &err));
    EXPECT_EQ(stats.sequences_done, 39);
    EXPECT_EQ(stats.sequences_given_up, 1);
    EXPECT(stats.capacity_tokens < 100);
    EXPECT(stats.cuts.again > 0);
    wg_engine_close(engine);
}

/* Out of memory strikes one bin in twenty, at random: nothing is lost, doubled or changed. */
static void test_random_memory(void)
{
    wg_engine *engine = open_engine((wg_engine_options){.bin_tokens = 512, .slot_count = 3});
    static unsigned done[3000];
    unsigned lost = 0;
    wg_bin bin;
    wg_error err;
    int given_up;

    wgt_seed_set(5);
    for (uint64_t id = 0; id < 3000; id++) {
        int32_t tokens[60];
        uint64_t count = 1 + id % 60;

        for (uint64_t i = 0; i < count; i++)
            tokens[i] = (int32_t)(id * 60 + i);
        EXPECT_OK(wg_engine_submit(
            engine, &(wg_sequence){.id = id, .token_ids = tokens, .token_count = count}, &err));
    }
    EXPECT_OK(wg_engine_finish(engine, &err));
    while (take(engine, NULL, &bin) == WG_NEXT_BIN) {
        if (wgt_below(20) == 0) {
            EXPECT_OK(wg_engine_fail(engine, &bin, WG_FAULT_MEMORY, &given_up, &err));
            if (!given_up) continue;
            lost++;
        }
        for (uint64_t s = 0; s < bin.sequence_count; s++) {
            uint64_t id = bin.sequence_ids[s];
            const int32_t *row = bin.token_ids + bin.segments[s].row;

            done[id]++;
            if (bin.segments[s].count != 1 + id % 60 || row[0] != (int32_t)(id * 60) ||
                row[id % 60] != (int32_t)(id * 60 + id % 60) ||
                bin.position_ids[bin.segments[s].row + id % 60] != (int32_t)(id % 60))
                EXPECT_EQ(id, -1);
        }
        EXPECT_OK(wg_engine_release(engine, &bin, &err));
    }
    for (uint64_t id = 0; id < 3000; id++)
        if (done[id] != 1) EXPECT_EQ(done[id], 1);
    EXPECT_EQ(lost, 0);
    wg_engine_close(engine);
}

/* A consumer that ends without giving its bins back costs nothing but their second run. */
static void test_consumers(void)
{
    wg_engine *engine = open_engine((wg_engine_options){.bin_tokens = 10, .worker_count = 2});
    wg_engine *other = open_engine((wg_engine_options){.bin_tokens = 10});
    wg_consumer *first = NULL, *second = NULL;
    wg_bin bin, again;
    wg_next next;
    wg_error err;
    int given_up;

    EXPECT_EQ(wg_consumer_open(&first, NULL, &err), WG_ERR_ARGUMENT);
    EXPECT_OK(wg_consumer_open(&first, engine, &err));
    EXPECT_OK(wg_consumer_open(&second, engine, &err));
    EXPECT_EQ(wg_engine_next(other, first, 0, &bin, &next, &err), WG_ERR_ARGUMENT);
    EXPECT_OK(submit(engine, 1, 10, &err));
    EXPECT_OK(wg_engine_finish(engine, &err));
    EXPECT_EQ(take(engine, first, &bin), WG_NEXT_BIN);
    /* The second must wait: the first may still fail. The first itself is told. */
    EXPECT_OK(wg_engine_next(engine, second, 2000000, &again, &next, &err));
    EXPECT_EQ(next, WG_NEXT_NONE);
    EXPECT_EQ(take(engine, first, &again), WG_NEXT_DRAINED);
    wg_consumer_close(first);
    EXPECT_EQ(take(engine, second, &again), WG_NEXT_BIN);
    EXPECT_EQ(again.sequence_ids[0], 1);
    EXPECT_EQ(wg_engine_release(engine, &bin, &err), WG_ERR_ARGUMENT); /* the old ticket */
    EXPECT_OK(wg_engine_fail(engine, &again, WG_FAULT_OTHER, &given_up, &err));
    EXPECT_EQ(take(engine, second, &again), WG_NEXT_BIN);
    EXPECT_OK(wg_engine_release(engine, &again, &err));
    EXPECT_EQ(take(engine, second, &again), WG_NEXT_DRAINED);
    wg_engine_close(engine);
    wg_consumer_close(second); /* keeps the closed engine's memory until here */
    wg_engine_close(other);
}

/* dlpack.h of DLPack 1.0, as an importer sees it. */
struct DLManagedTensorVersioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    struct {
        void *data;
        int32_t device_type, device_id;
        int32_t ndim;
        uint8_t code, bits;
        uint16_t lanes;
        int64_t *shape, *strides;
        uint64_t byte_offset;
    } tensor;
};

/* Where the slots are, and when the end has come. */
static void test_slots(void)
{
    wg_engine *engine = open_engine((wg_engine_options){.bin_tokens = 4, .slot_count = 3});
    struct DLManagedTensorVersioned *tensor = NULL;
    wg_engine_stats stats;
    wg_bin bins[2];
    wg_error err;

    for (uint64_t i = 0; i < 2; i++)
        EXPECT_OK(submit(engine, i, 4, &err));
    EXPECT_OK(wg_engine_finish(engine, &err));
    EXPECT_EQ(take(engine, NULL, &bins[0]), WG_NEXT_BIN);
    EXPECT_OK(wg_engine_export(engine, &bins[0], WG_ARRAY_TOKEN_IDS, &tensor, &err));
    EXPECT_OK(wg_engine_release(engine, &bins[0], &err));
    EXPECT_OK(wg_engine_statistics(engine, &stats, &err));
    EXPECT_EQ(stats.slot_count, 3);
    EXPECT_EQ(stats.slots_taken, 0);
    EXPECT_EQ(stats.slots_exported, 1);
    EXPECT_EQ(stats.is_drained, 0); /* the second bin is still to come */
    EXPECT_EQ(take(engine, NULL, &bins[1]), WG_NEXT_BIN);
    EXPECT_OK(wg_engine_statistics(engine, &stats, &err));
    EXPECT_EQ(stats.slots_taken, 1);
    EXPECT_EQ(stats.is_drained, 1);
    tensor->deleter(tensor);
    EXPECT_OK(wg_engine_release(engine, &bins[1], &err));
    EXPECT_OK(wg_engine_statistics(engine, &stats, &err));
    EXPECT_EQ(stats.slots_taken + stats.slots_exported, 0);
    wg_engine_close(engine);
}

static void test_export(void)
{
    wg_engine *engine = open_engine((wg_engine_options){.bin_tokens = 8, .slot_count = 2});
    struct DLManagedTensorVersioned *tensor[17] = {NULL}, *sequences, *last;
    const int32_t tokens[] = {3, 4, 5};
    wg_bin bin, next_bin;
    wg_next next;
    wg_error err;

    EXPECT_OK(wg_engine_submit(
        engine, &(wg_sequence){.id = 77, .token_ids = tokens, .token_count = 3}, &err));
    EXPECT_EQ(take(engine, NULL, &bin), WG_NEXT_BIN);
    EXPECT_EQ(wg_engine_export(engine, &bin, (wg_bin_array)9, &last, &err), WG_ERR_ARGUMENT);
    for (int i = 0; i < 16; i++)
        EXPECT_OK(wg_engine_export(engine, &bin, WG_ARRAY_TOKEN_IDS, &tensor[i], &err));
    EXPECT_EQ(wg_engine_export(engine, &bin, WG_ARRAY_TOKEN_IDS, &last, &err), WG_ERR_BUSY);
    EXPECT(last == NULL);
    for (int i = 1; i < 16; i++)
        tensor[i]->deleter(tensor[i]);
    EXPECT_EQ(tensor[0]->version.major, 1);
    EXPECT_EQ(tensor[0]->flags, 1);
    EXPECT_EQ(tensor[0]->tensor.device_type, 1);
    EXPECT_EQ(tensor[0]->tensor.ndim, 1);
    EXPECT_EQ(tensor[0]->tensor.code, 0);
    EXPECT_EQ(tensor[0]->tensor.bits, 32);
    EXPECT_EQ(tensor[0]->tensor.shape[0], 3);
    EXPECT(tensor[0]->tensor.data == bin.token_ids);
    EXPECT_OK(wg_engine_export(engine, &bin, WG_ARRAY_SEQUENCE_IDS, &sequences, &err));
    EXPECT_EQ(sequences->tensor.bits, 64);
    EXPECT_EQ(*(uint64_t *)sequences->tensor.data, 77);
    sequences->deleter(sequences);

    /* Given back, but exported: the ring has one slot less, and nothing is overwritten. */
    EXPECT_OK(wg_engine_release(engine, &bin, &err));
    EXPECT_EQ(wg_engine_export(engine, &bin, WG_ARRAY_TOKEN_IDS, &last, &err), WG_ERR_ARGUMENT);
    for (int round = 0; round < 4; round++) {
        EXPECT_OK(submit(engine, 1, 8, &err));
        EXPECT_EQ(take(engine, NULL, &next_bin), WG_NEXT_BIN);
        EXPECT(next_bin.slot != bin.slot);
        EXPECT_OK(wg_engine_release(engine, &next_bin, &err));
    }
    EXPECT_EQ(((int32_t *)tensor[0]->tensor.data)[2], 5);
    tensor[0]->deleter(tensor[0]);

    /* After the close a tensor and a bin keep what they need. */
    EXPECT_OK(wg_engine_submit(
        engine, &(wg_sequence){.id = 78, .token_ids = tokens, .token_count = 3}, &err));
    EXPECT_EQ(take(engine, NULL, &bin), WG_NEXT_BIN);
    EXPECT_OK(wg_engine_export(engine, &bin, WG_ARRAY_CU_SEQLENS, &last, &err));
    EXPECT_OK(wg_engine_next(engine, NULL, 0, &next_bin, &next, &err));
    EXPECT_EQ(next, WG_NEXT_NONE);
    wg_engine_close(engine);
    EXPECT_EQ(bin.token_ids[1], 4);
    EXPECT_OK(wg_engine_release(engine, &bin, &err));
    EXPECT_EQ(((int32_t *)last->tensor.data)[1], 3);
    last->deleter(last);
}

/* Recipe Q-04: a callback submits, then closes. */
typedef struct callback_state {
    wg_engine *_Atomic engine;
    atomic_uint calls, submitted, busy;
    atomic_bool may_close;
} callback_state;

static void on_ready(void *context)
{
    callback_state *callback = context;
    wg_engine *engine = atomic_load(&callback->engine);

    atomic_fetch_add(&callback->calls, 1);
    if (!engine) return;
    if (atomic_load(&callback->may_close)) {
        atomic_store(&callback->engine, NULL);
        wg_engine_close(engine);
        return;
    }
    for (int i = 0; i < 10000; i++) {
        wg_status status = submit(engine, 2, 50, NULL);
        if (status == WG_OK) atomic_fetch_add(&callback->submitted, 1);
        if (status != WG_ERR_BUSY) continue;
        atomic_fetch_add(&callback->busy, 1);
        break;
    }
    atomic_store(&callback->may_close, true);
}

static void test_callback(void)
{
    callback_state callback = {.calls = 0};
    wg_engine *engine = open_engine((wg_engine_options){.bin_tokens = 100,
                                                        .pending_bytes = 1 << 16,
                                                        .ready = on_ready,
                                                        .ready_context = &callback});
    wg_error err;

    atomic_store(&callback.engine, engine);
    EXPECT_OK(submit(engine, 1, 100, &err));
    EXPECT_OK(wg_engine_flush(engine, &err));
    for (int i = 0; i < 5000 && atomic_load(&callback.engine); i++)
        (void)usleep(1000);
    EXPECT(atomic_load(&callback.engine) == NULL);
    EXPECT(atomic_load(&callback.submitted) > 10);
    EXPECT_EQ(atomic_load(&callback.busy), 1);
    (void)usleep(20000); /* the packer thread frees the engine when the callback has returned */
}

/* Classes: bulk fills every bin, and what is first in priority still is in the next one. */
static void test_classes(void)
{
    const wg_engine_class classes[] = {{.priority = 5}, {.priority = 1}, {.priority = 3}};
    wg_engine *engine = open_engine((wg_engine_options){
        .bin_tokens = 320, .classes = classes, .class_count = 3, .slot_count = 2});
    uint64_t seen[3] = {0}, in_bin[3], bins = 0;
    wg_bin bin;
    wg_error err;

    for (uint64_t i = 0; i < 600; i++)
        for (uint32_t c = 0; c < 3; c++)
            EXPECT_OK(wg_engine_submit(
                engine,
                &(wg_sequence){.id = c, .token_ids = ids, .token_count = 5, .class_index = c},
                &err));
    (void)usleep(10000);
    EXPECT_OK(wg_engine_finish(engine, &err));
    while (take(engine, NULL, &bin) == WG_NEXT_BIN) {
        memset(in_bin, 0, sizeof(in_bin));
        for (uint64_t s = 0; s < bin.sequence_count; s++)
            in_bin[bin.sequence_ids[s]]++;
        bins++;
        /* While all have something, each gets its share of a 32nd (2 texts) and class 1 the rest;
         * the first bins also hold what was saved up in full buckets, or came before the others. */
        if (bins > 4 && seen[1] < 400) {
            EXPECT(in_bin[0] >= 2);
            EXPECT(in_bin[2] >= 2);
            EXPECT(in_bin[1] >= 50);
        }
        for (int c = 0; c < 3; c++)
            seen[c] += in_bin[c];
        if (seen[1] < 600) EXPECT(seen[2] < 300 && seen[0] < 300);
        EXPECT_OK(wg_engine_release(engine, &bin, &err));
    }
    for (int c = 0; c < 3; c++)
        EXPECT_EQ(seen[c], 600);
    wg_engine_close(engine);
}

/* Recipe Q-03: one sequence at a time, two consumers: each is done once, nobody sleeps on it. */
typedef struct burst {
    wg_engine *engine;
    atomic_uint done;
    atomic_uint times[BURSTS];
} burst;

static void *consume_bursts(void *context)
{
    burst *b = context;
    wg_bin bin;
    wg_next next;
    wg_error err;

    while (wg_engine_next(b->engine, NULL, WG_FOREVER, &bin, &next, &err) == WG_OK &&
           next == WG_NEXT_BIN) {
        for (uint64_t s = 0; s < bin.sequence_count; s++)
            atomic_fetch_add(&b->times[bin.sequence_ids[s]], 1);
        atomic_fetch_add(&b->done, (unsigned)bin.sequence_count);
        EXPECT_OK(wg_engine_release(b->engine, &bin, &err));
    }
    return NULL;
}

static void test_bursts(void)
{
    static burst b;
    pthread_t threads[2];
    wg_error err;

    b.engine = open_engine((wg_engine_options){.bin_tokens = 16, .worker_count = 2});
    for (int i = 0; i < 2; i++)
        EXPECT_OK(wgi_thread_start(&threads[i], "consume", consume_bursts, &b, &err));
    for (unsigned id = 0; id < BURSTS; id++) {
        EXPECT_OK(submit(b.engine, id, 1 + id % 3, &err));
        for (unsigned ms = 0; id % 4 == 3 && atomic_load(&b.done) <= id; ms++) {
            if (ms > 10000) { /* ten seconds are no scheduling */
                EXPECT_EQ(atomic_load(&b.done), id + 1);
                break;
            }
            (void)usleep(1000);
        }
    }
    EXPECT_OK(wg_engine_finish(b.engine, &err));
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    for (unsigned id = 0; id < BURSTS; id++)
        EXPECT_EQ(atomic_load(&b.times[id]), 1);
    wg_engine_close(b.engine);
}

int main(void)
{
    test_misuse();
    test_view();
    test_slots();
    test_bounded_wait();
    test_failures();
    test_random_memory();
    test_consumers();
    test_export();
    test_callback();
    test_classes();
    test_bursts();
    return wgt_result();
}
