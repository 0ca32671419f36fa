/*
 * pack_balanced.c - a given number of bins, as even in cost as may be: longest processing time
 * first.
 *
 * Texts go, longest first, each into the bin that costs least so far (R. L. Graham, Bounds on
 * multiprocessing timing anomalies, 1969: at most 4/3 of the best). Cost is a n + b n^2, so that a
 * bin with one long text and a bin with many short ones of as many tokens are told apart. The bins
 * stand in a heap by (cost, index), so ties are decided and the result is a function of its input.
 *
 * Threads: none.
 */
#include "engine/pack.h"

#include "base/alloc.h"
#include "engine/pack_order.h"

#include <string.h>

typedef struct balance {
    uint32_t *order, *swap;     /* [count] */
    uint32_t *heap;             /* [bin_count] cheapest first */
    uint32_t *aside;            /* [bin_count] too full for the text at hand */
    uint32_t *taken;            /* [bin_count] */
    uint64_t *tokens, *squares; /* [bin_count] */
    double *cost;               /* [bin_count] */
    size_t heap_count;
} balance;

static bool is_cheaper(const balance *b, uint32_t x, uint32_t y)
{
    return b->cost[x] < b->cost[y] || (b->cost[x] <= b->cost[y] && x < y);
}

static void heap_push(balance *b, uint32_t bin)
{
    size_t at = b->heap_count++;

    for (; at > 0 && is_cheaper(b, bin, b->heap[(at - 1) / 2]); at = (at - 1) / 2)
        b->heap[at] = b->heap[(at - 1) / 2];
    b->heap[at] = bin;
}

static uint32_t heap_pop(balance *b)
{
    uint32_t first = b->heap[0], last = b->heap[--b->heap_count];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= b->heap_count) break;
        if (child + 1 < b->heap_count && is_cheaper(b, b->heap[child + 1], b->heap[child])) child++;
        if (!is_cheaper(b, b->heap[child], last)) break;
        b->heap[at] = b->heap[child];
        at = child;
    }
    b->heap[at] = last;
    return first;
}

static wg_status take_memory(balance *b, wgi_packing *packing, size_t count, size_t bin_count,
                             wg_error *err)
{
    size_t bytes, more;
    wg_status status;

    if (!wgi_mul(count, 2 * sizeof(uint32_t), &bytes) ||
        !wgi_mul(bin_count, 3 * sizeof(uint32_t) + 3 * sizeof(uint64_t), &more) ||
        !wgi_add(bytes, more, &bytes))
        return wgi_fail(err, WG_ERR_NO_MEMORY, "%zu bins are too many", bin_count);
    status = wgi_pack_memory(packing, bytes, count, err);
    if (status != WG_OK) return status;
    memset(packing->scratch, 0, bytes);
    b->tokens = packing->scratch;
    b->squares = b->tokens + bin_count;
    b->cost = (double *)(void *)(b->squares + bin_count);
    b->order = (uint32_t *)(void *)(b->cost + bin_count);
    b->swap = b->order + count;
    b->heap = b->swap + count;
    b->aside = b->heap + bin_count;
    b->taken = b->aside + bin_count;
    return WG_OK;
}

static bool fits(const balance *b, uint32_t bin, uint64_t length, const wgi_pack_limits *limits)
{
    return b->tokens[bin] + length <= limits->tokens &&
           (!limits->sequences || b->taken[bin] < limits->sequences) &&
           (!limits->squares || b->squares[bin] + length * length <= limits->squares);
}

/* The cheapest bin that has room; those that have not stay out of the heap until it is placed. */
static wg_status place(balance *b, wgi_packing *packing, uint32_t i, uint64_t length,
                       const wgi_pack_balance *how, const wgi_pack_limits *limits, wg_error *err)
{
    size_t aside_count = 0;
    wg_status status = WG_OK;

    while (b->heap_count > 0 && !fits(b, b->heap[0], length, limits))
        b->aside[aside_count++] = heap_pop(b);
    if (b->heap_count == 0) {
        status =
            wgi_fail(err, WG_ERR_LIMIT, "sequence %lu of %llu tokens fits none of the %zu bins",
                     (unsigned long)i, (unsigned long long)length, how->bin_count);
    } else {
        uint32_t bin = heap_pop(b);

        packing->bin_of[i] = bin;
        b->tokens[bin] += length;
        b->squares[bin] += length * length;
        b->taken[bin]++;
        b->cost[bin] +=
            how->cost_linear * (double)length + how->cost_square * (double)length * (double)length;
        heap_push(b, bin);
    }
    while (aside_count > 0)
        heap_push(b, b->aside[--aside_count]);
    return status;
}

wg_status wgi_pack_balanced(wgi_packing *packing, const uint32_t *lengths, size_t count,
                            const wgi_pack_limits *limits, wgi_pack_balance *how, wg_error *err)
{
    wgi_pack_limits full = *limits;
    balance b = {0};
    uint32_t longest;
    wg_status status;
    double sum = 0.0;

    if (full.tokens == 0) full.tokens = INT32_MAX;
    status = wgi_pack_check(packing, lengths, count, &full, &longest, err);
    if (status != WG_OK) return status;
    if (limits->tokens == 0) full.tokens = SIZE_MAX / 2; /* texts are bounded, their sum is not */
    if (how->bin_count == 0 || how->bin_count > UINT32_MAX / 2)
        return wgi_fail(err, WG_ERR_ARGUMENT, "%zu bins to balance over: 1 to %u are possible",
                        how->bin_count, UINT32_MAX / 2);
    status = take_memory(&b, packing, count, how->bin_count, err);
    if (status != WG_OK) return status;
    wgi_pack_sort(&b.order, b.swap, lengths, count, longest);
    for (size_t bin = 0; bin < how->bin_count; bin++)
        heap_push(&b, (uint32_t)bin);
    for (size_t k = 0; k < count && status == WG_OK; k++)
        status = place(&b, packing, b.order[k], lengths[b.order[k]], how, &full, err);
    if (status != WG_OK) return status;
    packing->bin_count = how->bin_count;
    packing->bin_count_least = 0;
    how->cost_most = 0.0;
    for (size_t bin = 0; bin < how->bin_count; bin++) {
        sum += b.cost[bin];
        if (b.cost[bin] > how->cost_most) how->cost_most = b.cost[bin];
    }
    how->cost_mean = sum / (double)how->bin_count;
    return WG_OK;
}
