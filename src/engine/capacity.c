/*
 * capacity.c - the search for the largest bin that fits, and for the knee; see
 * warpgroup/capacity.h.
 *
 *   fits      256 512 1024 ... 65536            131072        bisection between the last two
 *             |---------- x 2 ------|   no ------^
 *
 * A size is only ever tried once for fitting; whether a size fits is taken to be monotone. The knee
 * is the smallest size whose rate is within 3 % of the best rate among capacity, 1/2, 1/4, ...
 *
 * Refused: growing by a fixed step (the STEP mode keeps it for comparison): its number of tries is
 * linear in the capacity, and a share that is kept (x 0.9) wastes a tenth of a large device.
 */
#include "warpgroup/capacity.h"

#include <inttypes.h>
#include <string.h>

#include "base/os_memory.h"
#include "base/status.h"

typedef struct search {
    const wg_capacity_options *options;
    wg_capacity *found;
    wg_error *err;
} search;

static wg_status try_tokens(search *s, uint64_t tokens, int is_for_knee, wg_fit *fit,
                            double *seconds)
{
    wg_capacity *found = s->found;
    double took = 0;

    *fit = s->options->run(s->options->context, tokens, &took);
    if (*fit == WG_FIT_ERROR)
        return wgi_fail(s->err, WG_ERR_BACKEND,
                        "the run of %" PRIu64 " tokens failed for another reason than memory",
                        tokens);
    if (seconds) *seconds = took;
    if (found->try_count < WG_CAPACITY_TRIES_MAX)
        found->tries[found->try_count++] = (wg_capacity_try){.tokens = tokens,
                                                             .seconds = took,
                                                             .did_fit = *fit == WG_FIT_YES,
                                                             .is_for_knee = is_for_knee};
    if (is_for_knee) return WG_OK;
    if (*fit == WG_FIT_YES) {
        if (tokens > found->fitted_tokens) found->fitted_tokens = tokens;
    } else if (!found->refused_tokens || tokens < found->refused_tokens) {
        found->refused_tokens = tokens;
    }
    return WG_OK;
}

static wg_status nothing_fits(search *s, uint64_t tokens)
{
    return wgi_fail(s->err, WG_ERR_LIMIT,
                    "not even a bin of %" PRIu64 " tokens fits into memory: free memory, use fewer "
                    "workers, a smaller dtype or model, or start lower",
                    tokens);
}

/* Doubles until a size does not fit or the limit is reached, then halves the gap. */
static wg_status search_by_doubling(search *s, uint64_t start, uint64_t most, double resolution)
{
    wg_status status;
    wg_fit fit = WG_FIT_YES;
    uint64_t tokens = start < most ? start : most;

    for (;;) {
        status = try_tokens(s, tokens, 0, &fit, NULL);
        if (status != WG_OK || fit == WG_FIT_NO || tokens == most) break;
        tokens = tokens > most / 2 ? most : tokens * 2;
    }
    if (status != WG_OK) return status;
    if (s->found->fitted_tokens == 0) return nothing_fits(s, tokens);
    while (s->found->refused_tokens) {
        uint64_t low = s->found->fitted_tokens, high = s->found->refused_tokens;
        if (high - low <= 1 || (double)(high - low) <= resolution * (double)low) break;
        status = try_tokens(s, low + (high - low) / 2, 0, &fit, NULL);
        if (status != WG_OK) return status;
    }
    uint64_t reserve = s->options->reserve_tokens;
    if (reserve >= s->found->fitted_tokens) return nothing_fits(s, reserve + 1);
    s->found->tokens = s->found->fitted_tokens - reserve;
    return WG_OK;
}

static wg_status search_by_steps(search *s, uint64_t step, uint64_t most, double keep)
{
    wg_fit fit = WG_FIT_YES;
    uint64_t tokens = 0;

    while (fit == WG_FIT_YES && tokens < most) {
        tokens = tokens > most - step ? most : tokens + step;
        wg_status status = try_tokens(s, tokens, 0, &fit, NULL);
        if (status != WG_OK) return status;
    }
    s->found->tokens = (uint64_t)(keep * (double)s->found->fitted_tokens);
    return s->found->tokens ? WG_OK : nothing_fits(s, step);
}

/*
 * Times the capacity and its halves, all of them in each round, so that a machine that is busy for
 * a while is busy for all; a size that no longer fits, or that cannot be timed, is left out.
 */
static wg_status find_knee(search *s)
{
    const wg_capacity_options *options = s->options;
    uint32_t runs = options->knee_runs ? options->knee_runs : 3;
    double share = options->knee_share > 0 ? options->knee_share : 0.03;
    uint64_t start = options->start_tokens ? options->start_tokens : 256;
    uint64_t least = options->knee_from_tokens ? options->knee_from_tokens : start;
    uint64_t sizes[64];
    double rates[64] = {0};
    int count = 0;

    for (uint64_t tokens = s->found->tokens; tokens && count < 64; tokens /= 2) {
        sizes[count++] = tokens;
        if (tokens / 2 < least) break;
    }
    for (uint32_t round = 0; round < runs; round++) {
        for (int i = 0; i < count; i++) {
            double seconds = 0;
            wg_fit fit;
            wg_status status = try_tokens(s, sizes[i], 1, &fit, &seconds);
            if (status != WG_OK) return status;
            if (fit == WG_FIT_YES && seconds > 0 && (double)sizes[i] / seconds > rates[i])
                rates[i] = (double)sizes[i] / seconds;
        }
    }
    for (int i = 0; i < count; i++) {
        if (rates[i] > s->found->best_tokens_per_s) s->found->best_tokens_per_s = rates[i];
    }
    if (s->found->best_tokens_per_s <= 0) return WG_OK; /* the callback tells no time: no knee */
    for (int i = count - 1; i >= 0; i--) {
        if (rates[i] < (1 - share) * s->found->best_tokens_per_s) continue;
        s->found->knee_tokens = sizes[i];
        s->found->knee_tokens_per_s = rates[i];
        break;
    }
    return WG_OK;
}

wg_status wg_capacity_measure(wg_capacity *out, const wg_capacity_options *options, wg_error *err)
{
    search s = {.options = options, .found = out, .err = err};
    wg_status status;

    if (!out || !options || !options->run)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "wg_capacity_measure: out and a run callback are needed");
    uint64_t most = options->tokens_max ? options->tokens_max : INT32_MAX;
    double resolution = options->resolution > 0 ? options->resolution : 0.03;
    double keep = options->keep > 0 ? options->keep : 0.9;
    if (keep > 1)
        return wgi_fail(err, WG_ERR_ARGUMENT, "keep is %g: a share of at most 1 can be kept", keep);
    memset(out, 0, sizeof(*out));
    if (options->mode == WG_CAPACITY_STEP)
        status =
            search_by_steps(&s, options->step_tokens ? options->step_tokens : 5000, most, keep);
    else
        status = search_by_doubling(&s, options->start_tokens ? options->start_tokens : 256, most,
                                    resolution);
    if (status == WG_OK && !options->skip_knee) status = find_knee(&s);
    return status;
}

uint64_t wg_memory_available(void)
{
    return wgi_memory_available(NULL);
}
