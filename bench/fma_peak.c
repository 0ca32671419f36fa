/*
 * fma_peak.c - prints the fp32 FMA peak of this machine, one JSON line.
 *
 * usage: fma_peak [THREADS]     (default: 1 and all processors that are online)
 *
 * Threads: see peak.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "peak.h"

static void show(int threads)
{
    printf("{\"threads\": %d, \"avx2_gflops\": %.1f, \"avx512_gflops\": %.1f}\n", threads,
           wgb_peak_avx2(threads, 10), wgb_peak_avx512(threads, 10));
}

int main(int argc, char **argv)
{
    int all = (int)sysconf(_SC_NPROCESSORS_ONLN);

    if (argc > 1) {
        long threads = strtol(argv[1], NULL, 10);
        if (threads < 1 || threads > 256) {
            fprintf(stderr, "usage: fma_peak [THREADS]    (1 to 256)\n");
            return 2;
        }
        show((int)threads);
        return 0;
    }
    show(1);
    if (all > 1) show(all);
    return 0;
}
