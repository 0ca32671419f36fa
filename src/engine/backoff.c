/*
 * backoff.c - capacity as outer loop link adaptation sets a modulation scheme.
 *
 * A failure takes a step down at once, a success climbs by step * e / (1 - e). Where failures come
 * with a chance that rises with size, the capacity settles where one bin in 1/e fails (A. Sampath
 * et al., On setting reverse link power control parameters, 1997; the outer loop of LTE and NR),
 * and where the shortage has passed it returns to what was measured. e is 10^-3: a failed bin costs
 * a run and a half, so a thousandth of the bins may pay for the size of all others. Only bins that
 * used most of the capacity are evidence that it holds.
 *
 * Threads: none; the engine's mutex guards it.
 */
#include "engine/backoff.h"

#define FAILURE_RATE 1e-3
#define STEP_SHARE   0.2 /* of the bin that failed */
#define LEAST_SHARE  64  /* of what was measured */

void wgi_backoff_init(wgi_backoff *backoff, uint64_t tokens)
{
    backoff->most = tokens;
    backoff->least = tokens / LEAST_SHARE > 0 ? tokens / LEAST_SHARE : 1;
    backoff->tokens = (double)tokens;
    backoff->step = 0.0;
}

void wgi_backoff_failed(wgi_backoff *backoff, uint64_t tokens)
{
    double from = (double)tokens < backoff->tokens ? (double)tokens : backoff->tokens;

    backoff->step = STEP_SHARE * from;
    backoff->tokens = from - backoff->step;
    if (backoff->tokens < (double)backoff->least) backoff->tokens = (double)backoff->least;
}

void wgi_backoff_done(wgi_backoff *backoff, uint64_t tokens)
{
    if (backoff->tokens >= (double)backoff->most || (double)tokens < 0.9 * backoff->tokens) return;
    backoff->tokens += backoff->step * FAILURE_RATE / (1.0 - FAILURE_RATE);
    if (backoff->tokens > (double)backoff->most) backoff->tokens = (double)backoff->most;
}
