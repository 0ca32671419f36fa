/*
 * pack_order.c - what every packer begins with: lengths checked, and sorted longest first.
 *
 * A stable radix sort, so texts of one length keep their order and a packing is a function of the
 * lengths alone; digits that no length has are skipped, so short texts cost one pass.
 *
 * The lower bound is L2 of Martello and Toth (Knapsack Problems, 1990, section 8.3).
 *
 * Threads: none.
 */
#include "engine/pack_order.h"

#include "base/alloc.h"

#define RADIX_BITS 11u
#define RADIX_SIZE (1u << RADIX_BITS)

wg_status wgi_pack_memory(wgi_packing *packing, size_t bytes, size_t count, wg_error *err)
{
    size_t bins_bytes;

    if (bytes > packing->scratch_bytes) {
        wgi_free(packing->scratch);
        packing->scratch = wgi_malloc(bytes);
        packing->scratch_bytes = packing->scratch ? bytes : 0;
    }
    if (count > packing->capacity) {
        wgi_free(packing->bin_of);
        packing->bin_of =
            wgi_mul(count, sizeof(uint32_t), &bins_bytes) ? wgi_malloc(bins_bytes) : NULL;
        packing->capacity = packing->bin_of ? count : 0;
    }
    if (packing->scratch_bytes < bytes || packing->capacity < count)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory to pack %zu sequences", count);
    return WG_OK;
}

wg_status wgi_pack_check(wgi_packing *packing, const uint32_t *lengths, size_t count,
                         const wgi_pack_limits *limits, uint32_t *longest, wg_error *err)
{
    packing->bin_count = 0;
    packing->token_count = 0;
    packing->bin_count_least = 0;
    *longest = 0;
    if (limits->tokens == 0 || limits->tokens > INT32_MAX)
        return wgi_fail(err, WG_ERR_ARGUMENT, "a bin of %zu tokens: 1 to %d are possible",
                        limits->tokens, INT32_MAX);
    if (count > UINT32_MAX / 2)
        return wgi_fail(err, WG_ERR_LIMIT, "%zu sequences are too many to pack at once", count);
    for (size_t i = 0; i < count; i++) {
        if (lengths[i] == 0) return wgi_fail(err, WG_ERR_ARGUMENT, "sequence %zu is empty", i);
        if (lengths[i] > limits->tokens)
            return wgi_fail(err, WG_ERR_ARGUMENT,
                            "sequence %zu has %lu tokens, a bin holds %zu; cut it, "
                            "or make bins larger",
                            i, (unsigned long)lengths[i], limits->tokens);
        if (limits->squares && (uint64_t)lengths[i] * lengths[i] > limits->squares)
            return wgi_fail(err, WG_ERR_ARGUMENT,
                            "sequence %zu has %lu tokens, the limit on squares is %llu", i,
                            (unsigned long)lengths[i], (unsigned long long)limits->squares);
        if (lengths[i] > *longest) *longest = lengths[i];
        packing->token_count += lengths[i];
    }
    return WG_OK;
}

void wgi_pack_sort(uint32_t **order, uint32_t *swap, const uint32_t *lengths, size_t count,
                   uint32_t longest)
{
    for (size_t i = 0; i < count; i++)
        (*order)[i] = (uint32_t)i;
    for (unsigned shift = 0; shift < 32 && (longest >> shift) != 0; shift += RADIX_BITS) {
        uint32_t begin[RADIX_SIZE] = {0};
        uint32_t sum = 0, *from = *order;

        for (size_t i = 0; i < count; i++)
            begin[(lengths[i] >> shift) & (RADIX_SIZE - 1)]++;
        for (uint32_t digit = RADIX_SIZE; digit-- > 0;) {
            uint32_t here = begin[digit];
            begin[digit] = sum;
            sum += here;
        }
        for (size_t i = 0; i < count; i++)
            swap[begin[(lengths[from[i]] >> shift) & (RADIX_SIZE - 1)]++] = from[i];
        *order = swap;
        swap = from;
    }
}

/*
 * L2 over sizes sorted decreasingly. For a threshold k in [0, C/2], texts above
 * C - k are alone in their bins, those above C/2 have a bin each, and those in
 * [k, C/2] must go into what the second kind leaves or into bins of their own.
 */
uint64_t wgi_pack_bound(const uint32_t *lengths, const uint32_t *order, size_t count,
                        uint32_t limit)
{
    size_t half = 0, alone, small;
    uint64_t sum_middle = 0, sum_small = 0, best;

    while (half < count && lengths[order[half]] > limit - lengths[order[half]])
        half++;
    best = half;
    alone = half; /* texts [0, alone) are longer than C - k, texts [alone, half)
                     share */
    for (small = half; small < count;) {
        uint32_t k = lengths[order[small]];
        uint64_t room;

        while (small < count && lengths[order[small]] == k)
            sum_small += lengths[order[small++]];
        while (alone > 0 && lengths[order[alone - 1]] <= limit - k)
            sum_middle += lengths[order[--alone]];
        room = (uint64_t)(half - alone) * limit - sum_middle;
        if (sum_small > room) {
            uint64_t bins = half + (sum_small - room - 1) / limit + 1;
            if (bins > best) best = bins;
        }
    }
    return best;
}

static void at_least(wgi_packing *packing, uint64_t bins)
{
    if (bins > packing->bin_count_least) packing->bin_count_least = bins;
}

void wgi_pack_bound_all(wgi_packing *packing, const uint32_t *lengths, const uint32_t *order,
                        size_t count, const wgi_pack_limits *limits)
{
    uint64_t squares = 0;

    at_least(packing, wgi_pack_bound(lengths, order, count, (uint32_t)limits->tokens));
    at_least(packing, (packing->token_count - 1) / limits->tokens + 1);
    if (limits->sequences) at_least(packing, (count - 1) / limits->sequences + 1);
    if (limits->squares == 0) return;
    for (size_t i = 0; i < count; i++)
        squares += (uint64_t)lengths[i] * lengths[i];
    at_least(packing, (squares - 1) / limits->squares + 1);
}
