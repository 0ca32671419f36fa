/*
 * pack_order.h - the common beginning and end of the packers.
 */
#ifndef WGI_PACK_ORDER_H
#define WGI_PACK_ORDER_H

#include "engine/pack.h"

/* Scratch of `bytes` and room for `count` bins; what they held is not kept. */
wg_status wgi_pack_memory(wgi_packing *packing, size_t bytes, size_t count, wg_error *err);

/* Empties the result, checks limits and lengths, and sums up. */
wg_status wgi_pack_check(wgi_packing *packing, const uint32_t *lengths, size_t count,
                         const wgi_pack_limits *limits, uint32_t *longest, wg_error *err);

/* *order, [count]: indices, longest first, equal ones in input order. It may end up in swap. */
void wgi_pack_sort(uint32_t **order, uint32_t *swap, const uint32_t *lengths, size_t count,
                   uint32_t longest);

/* No packing of lengths, sorted by order, into bins of `limit` tokens needs fewer bins: L2. */
uint64_t wgi_pack_bound(const uint32_t *lengths, const uint32_t *order, size_t count,
                        uint32_t limit);

/* The best of all bounds, with the limits on sequences and squares. */
void wgi_pack_bound_all(wgi_packing *packing, const uint32_t *lengths, const uint32_t *order,
                        size_t count, const wgi_pack_limits *limits);

#endif
