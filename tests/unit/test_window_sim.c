/*
 * test_window_sim.c - the adaptive window against fixed(16, 5 ms), in virtual time.
 *
 * A discrete-event simulation drives the shipped policy (engine/pace.h): arrivals, one device that
 * runs a bin of n tokens in a + b n, a ring of two bins of which one may be staged while the other
 * runs. Arrivals are Poisson, bursty (geometric bursts, 20 on average) and on/off (100 ms on, 100
 * ms off), 10 to 10^5 sequences/s of 5 to 35 tokens, and 400 voice streams of 25 to 75 tokens/s.
 * Devices: fast, 1 ms + 0.25 us a token; slow, 4 ms + 2 us a token; even, 0.2 ms + 5 us a token.
 *
 * Demanded: p99 of the wait from arrival to start in no cell worse by more than 5 %, and lower
 * wherever the device idles more than 10 % under `fixed`; fill no worse by more than 5 % where it
 * is busy 90 % or more under `fixed`; as many sequences finished in every cell. WGT_TABLE=1 prints
 * all. LIBRARIES: wgi_engine wgi_base
 */
#include "engine/pace.h"
#include "harness.h"

#include <math.h>
#include <stdbool.h>

#define NEVER      UINT64_MAX
#define COUNT      20000u
#define BIN_TOKENS 16384u

typedef struct event {
    uint64_t ns;
    uint32_t tokens;
} event;

typedef struct machine {
    const char *name;
    double fixed_ns, token_ns;
} machine;

typedef struct outcome {
    double p99_ms, mean_ms, busy, fill;
    uint64_t finished, bins;
} outcome;

static event arrivals[COUNT];
static double waits[COUNT];

static double uniform(void)
{
    return ((double)(wgt_random() >> 11) + 0.5) / 9007199254740992.0;
}

static double exponential(double mean)
{
    return -mean * log(uniform());
}

static int by_time(const void *a, const void *b)
{
    const event *x = a, *y = b;

    return (x->ns > y->ns) - (x->ns < y->ns);
}

static void make_arrivals(int pattern, double per_s)
{
    double now = 1e9, gap = 1e9 / per_s;

    for (size_t i = 0; i < COUNT; i++) {
        if (pattern == 0) {
            now += exponential(gap);
        } else if (pattern == 1) {
            if (uniform() < 1.0 / 20) now += exponential(20 * gap); /* else the burst goes on */
            now += 1000;
        } else if (pattern == 2) {
            now += exponential(gap / 2);
            if (fmod(now, 2e8) > 1e8) now += 2e8 - fmod(now, 2e8) + exponential(gap / 2);
        }
        arrivals[i] = (event){.ns = (uint64_t)now, .tokens = 5 + (uint32_t)wgt_below(31)};
    }
    if (pattern != 3) return;
    for (size_t s = 0; s < 400; s++) { /* a packet of 10 tokens of each stream at its own pace */
        double rate = 25 + 50 * uniform(), at = 1e9 + uniform() * 4e8;

        for (size_t k = 0; k < COUNT / 400; k++, at += 10e9 / rate)
            arrivals[s * (COUNT / 400) + k] = (event){.ns = (uint64_t)at, .tokens = 10};
    }
    qsort(arrivals, COUNT, sizeof(arrivals[0]), by_time);
}

typedef struct world {
    wgi_pace pace;
    const machine *device;
    uint64_t now, done_ns; /* done_ns NEVER: the device is idle */
    uint64_t started_ns;
    size_t arrived, cut, started; /* sequences, in order */
    size_t staged_count;          /* of a bin that is ready; 0: none */
    uint64_t pending_tokens, staged_tokens, running_tokens, noticed_tokens;
    double busy_ns;
    uint64_t bins, offered, tokens;
} world;

static void start_bin(world *w, size_t count, uint64_t tokens)
{
    double run = w->device->fixed_ns + w->device->token_ns * (double)tokens;

    for (size_t i = 0; i < count; i++)
        waits[w->started + i] = (double)(w->now - arrivals[w->started + i].ns) / 1e6;
    w->started += count;
    w->started_ns = w->now;
    w->done_ns = w->now + (uint64_t)run;
    w->running_tokens = tokens;
    w->busy_ns += run;
}

static void cut_bin(world *w)
{
    size_t count = 0;
    uint64_t tokens = 0;

    while (w->cut < w->arrived && tokens + arrivals[w->cut].tokens <= BIN_TOKENS) {
        tokens += arrivals[w->cut++].tokens;
        count++;
    }
    w->pending_tokens -= tokens;
    w->bins++;
    w->offered += BIN_TOKENS;
    w->tokens += tokens;
    if (w->done_ns == NEVER) {
        start_bin(w, count, tokens);
    } else {
        w->staged_count = count;
        w->staged_tokens = tokens;
    }
}

/* What the engine's packer does whenever it wakes. */
static uint64_t consult(world *w)
{
    uint64_t wake = NEVER;

    wgi_pace_arrived(&w->pace, w->noticed_tokens, w->now);
    w->noticed_tokens = 0;
    while (w->staged_count == 0) {
        wgi_pace_view view = {
            .tokens = w->pending_tokens,
            .sequences = w->arrived - w->cut,
            .arrival_ns = w->cut < w->arrived ? arrivals[w->cut].ns : NEVER,
            .deadline_ns = NEVER,
            .free_ns = w->pace.weight > 0 ? w->done_ns : NEVER,
            .idle_count = w->done_ns == NEVER ? 1 : 0,
            .is_pressed = w->arrived == COUNT,
        };
        wgi_pace_answer answer = wgi_pace_decide(&w->pace, &view, w->now);

        wake = answer.wake_ns;
        if (answer.reason == WGI_PACE_NOT_YET) break;
        cut_bin(w);
        wake = NEVER;
    }
    return wake;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static outcome simulate(wg_engine_window window, const machine *device)
{
    wg_engine_options options = {.bin_tokens = BIN_TOKENS,
                                 .lookahead_tokens = 32 * BIN_TOKENS,
                                 .worker_count = 1,
                                 .window = window};
    world w = {.device = device, .done_ns = NEVER};
    outcome result = {0};
    uint64_t wake = NEVER;

    wgi_pace_init(&w.pace, &options);
    while (w.started < COUNT || w.done_ns != NEVER) {
        uint64_t arrival = w.arrived < COUNT ? arrivals[w.arrived].ns : NEVER;

        w.now = arrival < w.done_ns ? arrival : w.done_ns;
        if (wake < w.now) w.now = wake;
        if (w.now == NEVER) break;
        for (; w.arrived < COUNT && arrivals[w.arrived].ns <= w.now; w.arrived++) {
            w.pending_tokens += arrivals[w.arrived].tokens;
            w.noticed_tokens += arrivals[w.arrived].tokens;
        }
        if (w.done_ns <= w.now) {
            wgi_pace_served(&w.pace, w.running_tokens, w.done_ns - w.started_ns);
            w.done_ns = NEVER;
            if (w.staged_count > 0) start_bin(&w, w.staged_count, w.staged_tokens);
            w.staged_count = 0;
        }
        wake = consult(&w);
    }
    result.finished = w.started;
    result.bins = w.bins;
    result.busy = w.busy_ns / (double)(w.now - arrivals[0].ns);
    result.fill = (double)w.tokens / (double)w.offered;
    for (size_t i = 0; i < COUNT; i++)
        result.mean_ms += waits[i] / COUNT;
    qsort(waits, COUNT, sizeof(waits[0]), by_value);
    result.p99_ms = waits[COUNT / 100 * 99];
    return result;
}

int main(void)
{
    static const char *const patterns[] = {"poisson", "bursty", "on/off", "voice"};
    static const double rates[] = {10, 30, 100, 300, 1e3, 3e3, 1e4, 3e4, 1e5};
    static const machine devices[] = {{"fast", 1e6, 250}, {"slow", 4e6, 2000}, {"even", 2e5, 5000}};
    bool wants_table = getenv("WGT_TABLE") != NULL;
    unsigned cells = 0, idle = 0, busy = 0;

    wgt_seed_set(7);
    for (int d = 0; d < 3; d++)
        for (int pattern = 0; pattern < 4; pattern++)
            for (size_t r = 0; r < (pattern == 3 ? 1 : sizeof(rates) / sizeof(rates[0])); r++) {
                int failed = wgt_failed;
                outcome fixed, adaptive;

                make_arrivals(pattern, rates[r]);
                fixed = simulate(WG_WINDOW_FIXED, &devices[d]);
                adaptive = simulate(WG_WINDOW_ADAPTIVE, &devices[d]);
                cells++;
                EXPECT_EQ(fixed.finished, COUNT);
                EXPECT_EQ(adaptive.finished, COUNT);
                EXPECT(adaptive.p99_ms <= 1.05 * fixed.p99_ms);
                if (fixed.busy < 0.9) {
                    idle++;
                    EXPECT(adaptive.p99_ms < fixed.p99_ms);
                } else {
                    busy++;
                    EXPECT(adaptive.fill >= 0.95 * fixed.fill);
                }
                if (wgt_failed != failed || wants_table)
                    printf("%s %s %g/s: fixed p99 %.3f mean %.3f ms busy %.3f fill %.4f | adaptive "
                           "p99 %.3f mean %.3f ms busy %.3f fill %.4f\n",
                           devices[d].name, patterns[pattern], pattern == 3 ? 2000.0 : rates[r],
                           fixed.p99_ms, fixed.mean_ms, fixed.busy, fixed.fill, adaptive.p99_ms,
                           adaptive.mean_ms, adaptive.busy, adaptive.fill);
            }
    printf("%u cells: %u idle more than 10 %% under fixed, %u busy\n", cells, idle, busy);
    EXPECT(idle >= 10 && busy >= 3);
    return wgt_result();
}
