/*
 * peak.c - fused multiply-adds on registers alone: the ceiling that kernels are held against.
 *
 * Twelve independent chains, enough for a latency of four cycles on two units, and no memory. All
 * threads start together and the slowest ends the clock, so what they share (power, a sibling
 * thread) counts. The alternative, clock rate times width, is wrong on every machine that
 * changes either under load.
 *
 * Threads: the caller's and `threads` of its own.
 */
#include "peak.h"

#include <pthread.h>
#include <stddef.h>
#include <time.h>

#define CHAINS      12
#define ROUNDS      400000L /* about 40 ms */
#define THREADS_MAX 256

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 12")
#endif

double wgb_seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#if defined(__x86_64__)

#include <immintrin.h>

__attribute__((target("avx512f"), noinline)) static float chains_avx512(long rounds)
{
    __m512 sum[CHAINS], by = _mm512_set1_ps(0.999f), plus = _mm512_set1_ps(1e-3f);

    UNROLL for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_set1_ps((float)i);
    for (long r = 0; r < rounds; r++)
        UNROLL for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_fmadd_ps(sum[i], by, plus);
    for (int i = 1; i < CHAINS; i++)
        sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return _mm512_reduce_add_ps(sum[0]);
}

__attribute__((target("avx2,fma"), noinline)) static float chains_avx2(long rounds)
{
    __m256 sum[CHAINS], by = _mm256_set1_ps(0.999f), plus = _mm256_set1_ps(1e-3f);

    UNROLL for (int i = 0; i < CHAINS; i++) sum[i] = _mm256_set1_ps((float)i);
    for (long r = 0; r < rounds; r++)
        UNROLL for (int i = 0; i < CHAINS; i++) sum[i] = _mm256_fmadd_ps(sum[i], by, plus);
    for (int i = 1; i < CHAINS; i++)
        sum[0] = _mm256_add_ps(sum[0], sum[i]);
    return _mm256_cvtss_f32(sum[0]);
}

typedef struct runner {
    float (*chains)(long rounds);
    pthread_barrier_t *start;
    float result; /* kept, so that nothing is optimised away */
    double begin, end;
} runner;

static void *run(void *context)
{
    runner *self = context;

    (void)pthread_barrier_wait(self->start);
    self->begin = wgb_seconds();
    self->result = self->chains(ROUNDS);
    self->end = wgb_seconds();
    return NULL;
}

/* Seconds from the first start to the last end; 0 when threads could not be had. */
static double once(float (*chains)(long rounds), int threads)
{
    pthread_t ids[THREADS_MAX];
    runner runners[THREADS_MAX];
    pthread_barrier_t start;
    int started = 0;
    double begin, end;

    if (pthread_barrier_init(&start, NULL, (unsigned)threads)) return 0;
    for (int i = 0; i < threads; i++)
        runners[i] = (runner){.chains = chains, .start = &start};
    for (; started < threads - 1; started++)
        if (pthread_create(&ids[started], NULL, run, &runners[started])) return 0;
    (void)run(&runners[threads - 1]);
    for (int i = 0; i < started; i++)
        (void)pthread_join(ids[i], NULL);
    (void)pthread_barrier_destroy(&start);
    begin = runners[0].begin;
    end = runners[0].end;
    for (int i = 1; i < threads; i++) {
        if (runners[i].begin < begin) begin = runners[i].begin;
        if (runners[i].end > end) end = runners[i].end;
    }
    return end - begin;
}

static double best(float (*chains)(long rounds), int lanes, int threads, int tries)
{
    double most = 0, work;

    if (threads < 1) threads = 1;
    if (threads > THREADS_MAX) threads = THREADS_MAX;
    work = 2.0 * lanes * CHAINS * (double)ROUNDS * threads;
    for (int i = 0; i < tries; i++) {
        double seconds = once(chains, threads);
        if (seconds > 0 && work / seconds * 1e-9 > most) most = work / seconds * 1e-9;
    }
    return most;
}

double wgb_peak_avx2(int threads, int tries)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    return best(chains_avx2, 8, threads, tries);
}

double wgb_peak_avx512(int threads, int tries)
{
    if (!__builtin_cpu_supports("avx512f")) return 0;
    return best(chains_avx512, 16, threads, tries);
}

#else

double wgb_peak_avx2(int threads, int tries)
{
    (void)threads, (void)tries;
    return 0;
}

double wgb_peak_avx512(int threads, int tries)
{
    (void)threads, (void)tries;
    return 0;
}

#endif

double wgb_peak(int threads, int tries)
{
    double narrow = wgb_peak_avx2(threads, tries), wide = wgb_peak_avx512(threads, tries);

    return wide > narrow ? wide : narrow;
}
