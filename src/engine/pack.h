/*
 * pack.h - bin packing as a pure function: lengths in, bins out. No threads, no I/O.
 */
#ifndef WGI_PACK_H
#define WGI_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct wgi_pack_limits {
    size_t tokens;    /* most tokens of a bin */
    size_t sequences; /* most sequences of a bin; 0: no limit */
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
 * First-fit decreasing with a tournament tree, O(n log n). Ties keep the input order, so the
 * result is a function of the lengths alone. A length of 0 or above limits.tokens is
 * WG_ERR_ARGUMENT naming its index.
 */
wg_status wgi_pack_first_fit(wgi_packing *packing, const uint32_t *lengths, size_t count,
                             const wgi_pack_limits *limits, wg_error *err);
/* Takes all memory that packing `count` sequences can need, so that later calls allocate nothing.
 */
wg_status wgi_packing_reserve(wgi_packing *packing, size_t count, wg_error *err);
void wgi_packing_fini(wgi_packing *packing);

#endif
