/*
 * pack.h - bin packing as a pure function: lengths in, bins out. No threads, no I/O.
 */
#ifndef WGI_PACK_H
#define WGI_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct wgi_pack_limits {
    size_t tokens;    /* most tokens of a bin */
    size_t sequences; /* most sequences of a bin; 0: no limit */
    uint64_t squares; /* most of the sum of n * n; 0: no limit */
} wgi_pack_limits;

typedef struct wgi_packing {
    uint32_t *bin_of; /* [count] bin index of each sequence */
    size_t capacity;  /* of bin_of */
    size_t bin_count;
    uint64_t token_count;
    uint64_t bin_count_least; /* lower bound: no packing needs fewer bins */
    void *scratch;            /* kept between calls */
    size_t scratch_bytes;
} wgi_packing;

/*
 * First-fit decreasing with a tournament tree, O(n log n). Ties keep the input order, so the result
 * is a function of the lengths alone. A length of 0 or above limits.tokens is WG_ERR_ARGUMENT
 * naming its index.
 */
wg_status wgi_pack_first_fit(wgi_packing *packing, const uint32_t *lengths, size_t count,
                             const wgi_pack_limits *limits, wg_error *err);
/*
 * The same, each text into the fullest bin that has room: best-fit decreasing. Bins of at most 2^24
 * tokens (WG_ERR_LIMIT).
 */
wg_status wgi_pack_best_fit(wgi_packing *packing, const uint32_t *lengths, size_t count,
                            const wgi_pack_limits *limits, wg_error *err);

/* A number of bins, and what a text of n tokens costs: cost_linear * n + cost_square * n * n. */
typedef struct wgi_pack_balance {
    size_t bin_count;
    double cost_linear, cost_square;
    double cost_most, cost_mean; /* of a bin; the result */
} wgi_pack_balance;

/*
 * Spreads the texts over bin_count bins, as even in cost as may be; limits may all be 0.
 * WG_ERR_LIMIT: they do not all fit.
 */
wg_status wgi_pack_balanced(wgi_packing *packing, const uint32_t *lengths, size_t count,
                            const wgi_pack_limits *limits, wgi_pack_balance *how, wg_error *err);

/* Takes all memory that first fit of `count` sequences can need: later calls allocate nothing. */
wg_status wgi_packing_reserve(wgi_packing *packing, size_t count, bool has_squares, wg_error *err);
/* Bytes that this takes; SIZE_MAX: too many. */
size_t wgi_packing_bytes(size_t count, bool has_squares);
void wgi_packing_fini(wgi_packing *packing);

#endif
