/*
 * bench_pack.c - packing time and bins by number of sequences: how it grows, and beside it the scan
 * over all bins that first-fit decreasing is usually written as.
 *
 *     bench_pack [--most N] [--runs N] [--factor F]     bins of F times the longest text; JSON
 * lines
 *
 * Lengths are log-normal (median 193 tokens, sigma 0.9, at most 5,200). The quadratic scan runs up
 * to 10^5 sequences. Times are the least and the median of the runs.
 */
#include "base/alloc.h"
#include "base/os_clock.h"
#include "warpgroup/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCAN_MOST 100000u
#define RUNS_MOST 64u

static uint64_t seed = 1;

static double uniform(void)
{
    uint64_t z = (seed += 0x9E3779B97F4A7C15u);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static uint32_t draw(void)
{
    double normal = sqrt(-2.0 * log(uniform())) * cos(6.283185307179586 * uniform());
    double tokens = 1.3 * exp(5.0 + 0.9 * normal);

    return tokens > 5200 ? 5200 : (uint32_t)tokens + 1;
}

static int by_length(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x < y) - (x > y);
}

/* Sort, then for each text look at every bin in turn. */
static uint64_t scan(uint32_t *sorted, uint32_t *room, uint64_t count, uint32_t tokens)
{
    uint64_t bins = 0;

    qsort(sorted, count, sizeof(sorted[0]), by_length);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t b = 0;

        while (b < bins && room[b] < sorted[i])
            b++;
        if (b == bins) room[bins++] = tokens;
        room[b] -= sorted[i];
    }
    return bins;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void report(const char *name, uint64_t count, uint64_t tokens, double *seconds,
                   uint64_t runs, uint64_t bins, uint64_t least)
{
    qsort(seconds, runs, sizeof(seconds[0]), by_value);
    printf("{\"bench\":\"pack\",\"policy\":\"%s\",\"count\":%llu,\"bin_tokens\":%llu,\"runs\":%llu,"
           "\"seconds_min\":%.6f,\"seconds_median\":%.6f,\"ns_per_sequence\":%.1f,\"bins\":%llu,"
           "\"bins_least\":%llu}\n",
           name, (unsigned long long)count, (unsigned long long)tokens, (unsigned long long)runs,
           seconds[0], seconds[runs / 2], seconds[0] * 1e9 / (double)count,
           (unsigned long long)bins, (unsigned long long)least);
    (void)fflush(stdout);
}

static int bench(uint32_t *lengths, uint32_t *bins, uint32_t *sorted, uint64_t count, uint64_t runs,
                 uint64_t factor)
{
    static const char *const names[] = {"first_fit", "best_fit", "balanced"};
    wg_pack_options options = {0};
    wg_pack_result result = {0};
    double seconds[RUNS_MOST];
    wg_error err;

    for (uint64_t i = 0; i < count; i++) {
        lengths[i] = draw();
        if (factor * lengths[i] > options.tokens) options.tokens = factor * lengths[i];
    }
    for (int policy = 0; policy < 3; policy++) {
        options.policy = (wg_pack_policy)policy;
        if (policy == 2) options = (wg_pack_options){.policy = WG_PACK_BALANCED, .bin_count = 8};
        for (uint64_t r = 0; r < runs; r++) {
            uint64_t begin = wgi_clock_ns();

            if (wg_pack(bins, lengths, count, &options, &result, &err) != WG_OK) {
                fprintf(stderr, "%s\n", err.message);
                return 1;
            }
            seconds[r] = (double)(wgi_clock_ns() - begin) / 1e9;
        }
        report(names[policy], count, options.tokens, seconds, runs, result.bin_count,
               result.bin_count_least);
        if (policy != 0 || count > SCAN_MOST) continue;
        for (uint64_t r = 0; r < runs; r++) {
            uint64_t begin = wgi_clock_ns(), found;

            memcpy(sorted, lengths, count * sizeof(sorted[0]));
            found = scan(sorted, bins, count, (uint32_t)options.tokens);
            seconds[r] = (double)(wgi_clock_ns() - begin) / 1e9;
            if (found != result.bin_count) return 1; /* the same algorithm, or no comparison */
        }
        report("scan", count, options.tokens, seconds, runs, result.bin_count,
               result.bin_count_least);
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t most = 10000000, runs = 3, factor = 4;
    uint32_t *memory;
    int status = 0;

    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--most") == 0) most = value;
        if (strcmp(argv[i], "--runs") == 0) runs = value;
        if (strcmp(argv[i], "--factor") == 0) factor = value;
    }
    if (most < 1000 || most > 1000000000 || runs < 1 || runs > RUNS_MOST || factor < 1 ||
        factor > 3000) {
        fprintf(stderr, "a parameter is out of range\n");
        return 2;
    }
    memory = wgi_malloc(3 * most * sizeof(memory[0]));
    if (!memory) return 1;
    for (uint64_t count = 1000; status == 0 && count <= most; count *= 10)
        status = bench(memory, memory + most, memory + 2 * most, count, runs, factor);
    wgi_free(memory);
    return status;
}
