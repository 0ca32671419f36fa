/*
 * pack_options.c - wg_pack(): the packers for programs that have no use for an engine.
 *
 * Threads: any; nothing is shared.
 */
#include "engine/pack.h"

#include "base/alloc.h"
#include "warpgroup/engine.h"

#include <string.h>

static wg_status run(wgi_packing *packing, const uint32_t *lengths, uint64_t count,
                     const wg_pack_options *options, wg_pack_result *result, wg_error *err)
{
    uint64_t multiple = options->multiple ? options->multiple : 1;
    wgi_pack_limits limits = {.tokens = options->tokens - options->tokens % multiple,
                              .sequences = options->sequences,
                              .squares = options->squares};
    wgi_pack_balance how = {.bin_count = options->bin_count,
                            .cost_linear = options->cost_linear,
                            .cost_square = options->cost_square};
    wg_status status;

    switch (options->policy) {
    case WG_PACK_FIRST_FIT:
        return wgi_pack_first_fit(packing, lengths, count, &limits, err);
    case WG_PACK_BEST_FIT:
        return wgi_pack_best_fit(packing, lengths, count, &limits, err);
    case WG_PACK_BALANCED:
        if (how.cost_linear == 0.0 && how.cost_square == 0.0) how.cost_linear = 1.0;
        status = wgi_pack_balanced(packing, lengths, count, &limits, &how, err);
        result->cost_most = how.cost_most;
        result->cost_mean = how.cost_mean;
        return status;
    }
    return wgi_fail(err, WG_ERR_ARGUMENT, "packing policy %d is not known", (int)options->policy);
}

wg_status wg_pack(uint32_t *bin_of, const uint32_t *lengths, uint64_t count,
                  const wg_pack_options *options, wg_pack_result *result, wg_error *err)
{
    wgi_packing packing = {0};
    wg_pack_result sums = {0};
    wg_status status = WG_OK;

    if (!options || ((!bin_of || !lengths) && count > 0))
        return wgi_fail(err, WG_ERR_ARGUMENT, "packing needs lengths, a place for bins, options");
    WGI_TRY(run(&packing, lengths, count, options, &sums, err));
    if (count > 0) memcpy(bin_of, packing.bin_of, count * sizeof(bin_of[0]));
    sums.bin_count = packing.bin_count;
    sums.bin_count_least = packing.bin_count_least;
    sums.token_count = packing.token_count;
    if (packing.bin_count > 0 && options->tokens > 0)
        sums.fill =
            (double)packing.token_count / ((double)packing.bin_count * (double)options->tokens);
    if (result) *result = sums;

cleanup:
    wgi_packing_fini(&packing);
    return status;
}
