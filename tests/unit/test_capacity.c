/*
 * test_capacity.c - the search against devices whose true capacity and speed the test knows.
 */
#include "harness.h"

#include "base/os_memory.h"
#include "engine/feed.h"
#include "warpgroup/capacity.h"

typedef struct device {
    uint64_t holds;     /* tokens that fit */
    uint64_t knee;      /* rate grows linearly up to here, then stays */
    uint64_t largest;   /* tried */
    uint64_t breaks_at; /* FIT_ERROR from here on; 0: never */
    unsigned tries, refused;
} device;

static wg_fit run(void *context, uint64_t tokens, double *seconds)
{
    device *d = context;

    d->tries++;
    if (tokens > d->largest) d->largest = tokens;
    if (d->breaks_at && tokens >= d->breaks_at) return WG_FIT_ERROR;
    if (tokens > d->holds) {
        d->refused++;
        return WG_FIT_NO;
    }
    *seconds = (double)(tokens < d->knee ? d->knee : tokens) * 1e-6;
    return WG_FIT_YES;
}

static void known_devices(void)
{
    wg_error err;
    wg_capacity found;

    wgt_seed_set(7);
    for (int trial = 0; trial < 500; trial++) {
        device d = {.holds = 256 + wgt_below(1u << (9 + trial % 20)), .knee = 1 + wgt_below(4096)};
        EXPECT_OK(
            wg_capacity_measure(&found, &(wg_capacity_options){.run = run, .context = &d}, &err));
        EXPECT(found.tokens <= d.holds);
        EXPECT((double)found.tokens >= (double)d.holds / 1.031 - 1);
        EXPECT(found.refused_tokens == 0 || found.refused_tokens > d.holds);
        EXPECT(d.tries <= WG_CAPACITY_TRIES_MAX);
        EXPECT_EQ(found.try_count, d.tries);
        /* The knee lies on the grid capacity / 2^k: it reaches the rate, and half of it does not
           (or is below the start). */
        double rate = found.knee_tokens < d.knee ? (double)found.knee_tokens / (double)d.knee : 1;
        double best = found.tokens < d.knee ? (double)found.tokens / (double)d.knee : 1;
        EXPECT(rate >= 0.97 * best);
        double half = (double)(found.knee_tokens / 2) / (double)d.knee;
        EXPECT(found.knee_tokens / 2 < 256 || half < 0.97 * best);
    }
}

static void limits_and_modes(void)
{
    wg_error err;
    wg_capacity found;
    device d = {.holds = 1u << 30};

    EXPECT_OK(wg_capacity_measure(
        &found, &(wg_capacity_options){.run = run, .context = &d, .tokens_max = 100000}, &err));
    EXPECT_EQ(found.tokens, 100000); /* never tried above the limit */
    EXPECT_EQ(d.largest, 100000);
    EXPECT_EQ(found.refused_tokens, 0);

    d = (device){.holds = 76500};
    EXPECT_OK(wg_capacity_measure(
        &found, &(wg_capacity_options){.run = run, .context = &d, .mode = WG_CAPACITY_STEP}, &err));
    EXPECT_EQ(found.fitted_tokens, 75000); /* 15 x 5,000 */
    EXPECT_EQ(found.tokens, 67500);        /* x 0.9 */
    EXPECT_EQ(d.refused, 1);

    d = (device){.holds = 10000};
    EXPECT_OK(wg_capacity_measure(
        &found, &(wg_capacity_options){.run = run, .context = &d, .reserve_tokens = 500}, &err));
    EXPECT_EQ(found.tokens, found.fitted_tokens - 500);
}

static void failures(void)
{
    wg_error err;
    wg_capacity found;
    device d = {.holds = 100};

    EXPECT_EQ(wg_capacity_measure(&found, &(wg_capacity_options){.run = run, .context = &d}, &err),
              WG_ERR_LIMIT);
    EXPECT_IN(err.message, "256 tokens");
    EXPECT_IN(err.message, "start lower");
    d = (device){.holds = 100};
    EXPECT_OK(wg_capacity_measure(
        &found, &(wg_capacity_options){.run = run, .context = &d, .start_tokens = 64}, &err));
    EXPECT(found.tokens >= 97 && found.tokens <= 100);
    d = (device){.holds = 100};
    EXPECT_EQ(wg_capacity_measure(
                  &found,
                  &(wg_capacity_options){.run = run, .context = &d, .mode = WG_CAPACITY_STEP},
                  &err),
              WG_ERR_LIMIT);
    d = (device){.holds = 1u << 20, .breaks_at = 3000};
    EXPECT_EQ(wg_capacity_measure(&found, &(wg_capacity_options){.run = run, .context = &d}, &err),
              WG_ERR_BACKEND);
    EXPECT_EQ(wg_capacity_measure(&found, &(wg_capacity_options){0}, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_capacity_measure(&found, NULL, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_capacity_measure(
                  &found, &(wg_capacity_options){.run = run, .context = &d, .keep = 1.5}, &err),
              WG_ERR_ARGUMENT);
}

static void memory_left(void)
{
    uint64_t left = wg_memory_available();

    /* What others take and give back meanwhile is allowed for. */
    EXPECT(left > 0 && left <= wgi_memory_available(NULL) + (UINT64_C(4) << 30));
}

int main(void)
{
    memory_left();
    known_devices();
    limits_and_modes();
    failures();
    return wgt_result();
}
