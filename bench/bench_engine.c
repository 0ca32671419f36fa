/*
 * bench_engine.c - sequences per second through an engine, from submission to released bins.
 *
 *     bench_engine [--tokens N] [--bin N] [--producers N] [--consumers N] [--seconds S] [--bulk N]
 *
 * Every parameter has a default; the result is one JSON line. Consumers read each bin's sequence
 * ids and token sums once, as a check: what came out is compared with what went in.
 */
#include "base/alloc.h"
#include "base/os_clock.h"
#include "base/thread.h"
#include "warpgroup/engine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MOST_THREADS 16u
#define MOST_TOKENS  512u
#define MOST_BULK    1024u

typedef struct bench {
    wg_engine *engine;
    uint64_t tokens, bin_tokens, producers, consumers, bulk, runs;
    double seconds;
    uint64_t count; /* sequences each producer submits */
    atomic_uint_least64_t id_sum_in, id_sum_out, sequences_out;
    atomic_uint next_producer;
} bench;

static void *produce(void *context)
{
    bench *b = context;
    uint64_t first = atomic_fetch_add(&b->next_producer, 1) * b->count, sum = 0;
    int32_t ids[MOST_TOKENS];
    wg_sequence sequences[MOST_BULK];

    for (uint32_t i = 0; i < MOST_TOKENS; i++)
        ids[i] = (int32_t)i;
    for (uint64_t done = 0; done < b->count;) {
        uint64_t take = b->bulk < b->count - done ? b->bulk : b->count - done;

        for (uint64_t i = 0; i < take; i++) {
            sequences[i] =
                (wg_sequence){.id = first + done + i, .token_ids = ids, .token_count = b->tokens};
            sum += sequences[i].id;
        }
        if ((take == 1 ? wg_engine_submit(b->engine, sequences, NULL)
                       : wg_engine_submit_bulk(b->engine, sequences, take, NULL, NULL)) != WG_OK)
            return NULL;
        done += take;
    }
    atomic_fetch_add(&b->id_sum_in, sum);
    return NULL;
}

static void *consume(void *context)
{
    bench *b = context;
    uint64_t sum = 0, sequences = 0;
    wg_bin bin;
    wg_next next;

    while (wg_engine_next(b->engine, NULL, WG_FOREVER, &bin, &next, NULL) == WG_OK &&
           next == WG_NEXT_BIN) {
        for (uint64_t s = 0; s < bin.sequence_count; s++)
            sum += bin.sequence_ids[s];
        sequences += bin.sequence_count;
        if (wg_engine_release(b->engine, &bin, NULL) != WG_OK) break;
    }
    atomic_fetch_add(&b->id_sum_out, sum);
    atomic_fetch_add(&b->sequences_out, sequences);
    return NULL;
}

/* CPU time of the process: what a sequence costs even while the machine does other work. */
static double cpu_seconds(void)
{
    struct rusage use;

    (void)getrusage(RUSAGE_SELF, &use);
    return (double)use.ru_utime.tv_sec + (double)use.ru_stime.tv_sec +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static int run_once(bench *b, double *rate, double *fill, double *cpu)
{
    double cpu_begin = cpu_seconds();
    pthread_t threads[2 * MOST_THREADS];
    wg_engine_options options = {.bin_tokens = b->bin_tokens,
                                 .worker_count = (uint32_t)b->consumers};
    wg_engine_stats stats;
    uint64_t begin, allocations, total = b->producers * b->count;
    wg_error err;

    atomic_store(&b->id_sum_in, 0);
    atomic_store(&b->id_sum_out, 0);
    atomic_store(&b->sequences_out, 0);
    atomic_store(&b->next_producer, 0);
    if (wg_engine_open(&b->engine, &options, &err) != WG_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    allocations = wgi_alloc_count();
    begin = wgi_clock_ns();
    for (uint64_t i = 0; i < b->producers + b->consumers; i++) {
        if (wgi_thread_start(&threads[i], "bench", i < b->producers ? produce : consume, b, &err) !=
            WG_OK)
            return 1;
    }
    for (uint64_t i = 0; i < b->producers; i++)
        (void)pthread_join(threads[i], NULL);
    if (wg_engine_finish(b->engine, &err) != WG_OK) return 1;
    for (uint64_t i = 0; i < b->consumers; i++)
        (void)pthread_join(threads[b->producers + i], NULL);
    *rate = (double)total / ((double)(wgi_clock_ns() - begin) / 1e9);
    *cpu = (cpu_seconds() - cpu_begin) / (double)total;
    if (wg_engine_statistics(b->engine, &stats, &err) != WG_OK) return 1;
    *fill = (double)stats.tokens_out / (double)stats.bin_tokens_offered;
    allocations = wgi_alloc_count() - allocations;
    wg_engine_close(b->engine);
    if (atomic_load(&b->sequences_out) != total ||
        atomic_load(&b->id_sum_in) != atomic_load(&b->id_sum_out) || allocations != 0) {
        fprintf(stderr, "lost, repeated or allocated: %llu of %llu came out, %llu allocations\n",
                (unsigned long long)atomic_load(&b->sequences_out), (unsigned long long)total,
                (unsigned long long)allocations);
        return 1;
    }
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static bench b = {.tokens = 20,
                      .bin_tokens = 16384,
                      .producers = 2,
                      .consumers = 1,
                      .bulk = 1,
                      .runs = 5,
                      .count = 4000000};
    double rates[64], fill = 0.0, cpu = 0.0;

    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--tokens") == 0) b.tokens = value;
        if (strcmp(argv[i], "--bin") == 0) b.bin_tokens = value;
        if (strcmp(argv[i], "--producers") == 0) b.producers = value;
        if (strcmp(argv[i], "--consumers") == 0) b.consumers = value;
        if (strcmp(argv[i], "--bulk") == 0) b.bulk = value;
        if (strcmp(argv[i], "--runs") == 0) b.runs = value;
        if (strcmp(argv[i], "--count") == 0) b.count = value;
    }
    if (b.tokens < 1 || b.tokens > MOST_TOKENS || b.bulk < 1 || b.bulk > MOST_BULK || b.runs < 1 ||
        b.runs > 64 || b.producers < 1 || b.producers > MOST_THREADS || b.consumers < 1 ||
        b.consumers > MOST_THREADS) {
        fprintf(stderr, "a parameter is out of range\n");
        return 2;
    }
    for (uint64_t r = 0; r < b.runs; r++)
        if (run_once(&b, &rates[r], &fill, &cpu) != 0) return 1;
    qsort(rates, b.runs, sizeof(rates[0]), by_value);
    printf("{\"bench\":\"engine\",\"tokens\":%llu,\"bin_tokens\":%llu,\"producers\":%llu,"
           "\"consumers\":%llu,\"bulk\":%llu,\"runs\":%llu,\"sequences_per_s_min\":%.0f,"
           "\"sequences_per_s_median\":%.0f,\"sequences_per_s_max\":%.0f,\"fill\":%.4f,"
           "\"cpu_ns_per_sequence\":%.0f}\n",
           (unsigned long long)b.tokens, (unsigned long long)b.bin_tokens,
           (unsigned long long)b.producers, (unsigned long long)b.consumers,
           (unsigned long long)b.bulk, (unsigned long long)b.runs, rates[0], rates[b.runs / 2],
           rates[b.runs - 1], fill, cpu * 1e9);
    return 0;
}
