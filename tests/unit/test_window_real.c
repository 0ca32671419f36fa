/*
 * test_window_real.c - three cells of the window simulation on the real engine, with a device that
 * sleeps: the adaptive window's p99 wait is below that of fixed(16, 5 ms), as the simulation says.
 *
 * It measures milliseconds, so it belongs to the tier that has the machine for itself.
 * LABELS: full
 * LIBRARIES: wgi_engine wgi_base
 */
#include "base/alloc.h"
#include "base/os_clock.h"
#include "base/thread.h"
#include "harness.h"
#include "warpgroup/engine.h"

#include <math.h>
#include <unistd.h>

#define COUNT 4000u

typedef struct pattern {
    const char *name;
    double per_s;
    unsigned burst; /* texts that come together */
    unsigned fixed_us;
    double token_us;
} pattern;

typedef struct load {
    const pattern *cell;
    wg_engine *engine;
    uint64_t seed, failed;
} load;

static uint64_t submitted_ns[COUNT];
static double waits_ms[COUNT];

static double uniform(load *l)
{
    l->seed = l->seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(l->seed >> 11) + 0.5) / 9007199254740992.0;
}

static void *submit(void *context)
{
    static const int32_t ids[64];
    load *l = context;
    double due = (double)wgi_clock_ns();

    for (uint64_t id = 0; id < COUNT; id++) {
        if (id % l->cell->burst == 0)
            due += -log(uniform(l)) * 1e9 * l->cell->burst / l->cell->per_s;
        while ((double)wgi_clock_ns() < due)
            (void)usleep(20);
        submitted_ns[id] = wgi_clock_ns();
        if (wg_engine_submit(l->engine,
                             &(wg_sequence){.id = id,
                                            .token_ids = ids,
                                            .token_count = 5 + (uint64_t)(uniform(l) * 31)},
                             NULL) != WG_OK)
            l->failed++;
    }
    if (wg_engine_finish(l->engine, NULL) != WG_OK) l->failed++;
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double p99_of(const pattern *cell, wg_engine_window window)
{
    load l = {.cell = cell, .seed = 42};
    wg_engine_options options = {.bin_tokens = 16384, .window = window};
    uint64_t done = 0;
    pthread_t submitter;
    wg_next next;
    wg_bin bin;
    wg_error err;

    EXPECT_OK(wg_engine_open(&l.engine, &options, &err));
    EXPECT_OK(wgi_thread_start(&submitter, "submit", submit, &l, &err));
    while (wg_engine_next(l.engine, NULL, WG_FOREVER, &bin, &next, &err) == WG_OK &&
           next == WG_NEXT_BIN) {
        uint64_t now = wgi_clock_ns();

        for (uint64_t s = 0; s < bin.sequence_count; s++)
            waits_ms[done++] = (double)(now - submitted_ns[bin.sequence_ids[s]]) / 1e6;
        (void)usleep(cell->fixed_us + (unsigned)(cell->token_us * (double)bin.token_count));
        EXPECT_OK(wg_engine_release(l.engine, &bin, &err));
    }
    (void)pthread_join(submitter, NULL);
    wg_engine_close(l.engine);
    EXPECT_EQ(done, COUNT);
    EXPECT_EQ(l.failed, 0);
    qsort(waits_ms, COUNT, sizeof(waits_ms[0]), by_value);
    return waits_ms[COUNT / 100 * 99];
}

int main(void)
{
    static const pattern cells[] = {{"poisson 1000/s, 1 ms + 0.25 us", 1000, 1, 1000, 0.25},
                                    {"bursts of 10, 1000/s, 1 ms + 0.25 us", 1000, 10, 1000, 0.25},
                                    {"poisson 3000/s, 4 ms + 2 us", 3000, 1, 4000, 2.0}};

    for (size_t c = 0; c < 3; c++) {
        double fixed = p99_of(&cells[c], WG_WINDOW_FIXED);
        double adaptive = p99_of(&cells[c], WG_WINDOW_ADAPTIVE);

        printf("%s: p99 of the wait %.2f ms fixed, %.2f ms adaptive\n", cells[c].name, fixed,
               adaptive);
        EXPECT(adaptive < fixed);
    }
    return wgt_result();
}
