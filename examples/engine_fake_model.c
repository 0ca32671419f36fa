/*
 * engine_fake_model.c - an engine in front of somebody else's model, here one that sums token ids.
 *
 * Two producers submit texts, one consumer runs bins and writes a result for each text; the second
 * bin fails once, as if memory had run out, and comes again in two halves.
 */
#include <warpgroup/engine.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define TEXTS 1000

static wg_engine *engine;
static long long results[2 * TEXTS];
static atomic_int producers_left = 2;

static void *produce(void *context)
{
    const int first = *(const int *)context;
    int32_t ids[64];
    wg_error err;

    for (int text = first; text < first + TEXTS; text++) {
        int count = 1 + text * 7 % 64;

        for (int i = 0; i < count; i++)
            ids[i] = text + i;
        if (wg_engine_submit(engine,
                             &(wg_sequence){.id = (uint64_t)text,
                                            .token_ids = ids,
                                            .token_count = (uint64_t)count},
                             &err) != WG_OK) {
            fprintf(stderr, "%s\n", err.message);
            break;
        }
    }
    if (atomic_fetch_sub(&producers_left, 1) == 1 && wg_engine_finish(engine, &err) != WG_OK)
        fprintf(stderr, "%s\n", err.message);
    return NULL;
}

/* The model: attention would go through cu_seqlens; a sum goes through the segments. */
static void run(const wg_bin *bin)
{
    for (uint64_t s = 0; s < bin->sequence_count; s++) {
        const int32_t *ids = bin->token_ids + bin->segments[s].row;
        long long sum = 0;

        for (uint32_t i = 0; i < bin->segments[s].count; i++)
            sum += ids[i];
        results[bin->sequence_ids[s]] = sum;
    }
}

static int consume(wg_error *err)
{
    for (int bins = 1;; bins++) {
        wg_bin bin;
        wg_next next;
        int given_up = 0;

        if (wg_engine_next(engine, NULL, WG_FOREVER, &bin, &next, err) != WG_OK) return 1;
        if (next == WG_NEXT_DRAINED) return 0;
        if (bins == 2) {
            if (wg_engine_fail(engine, &bin, WG_FAULT_MEMORY, &given_up, err) != WG_OK) return 1;
            if (!given_up) continue;
        }
        run(&bin);
        if (wg_engine_release(engine, &bin, err) != WG_OK) return 1;
    }
}

int main(void)
{
    static int firsts[2] = {0, TEXTS};
    pthread_t producers[2];
    long long total = 0;
    wg_error err;

    if (wg_engine_open(&engine, &(wg_engine_options){.bin_tokens = 2048}, &err) != WG_OK)
        goto failed;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&producers[i], NULL, produce, &firsts[i]) != 0) return 1;
    if (consume(&err) != 0) goto failed;
    for (int i = 0; i < 2; i++)
        (void)pthread_join(producers[i], NULL);
    wg_engine_close(engine);
    for (int text = 0; text < 2 * TEXTS; text++)
        total += results[text];
    printf("%d texts, sum of all tokens %lld\n", 2 * TEXTS, total);
    return 0;

failed:
    fprintf(stderr, "%s\n", err.message);
    return 1;
}
