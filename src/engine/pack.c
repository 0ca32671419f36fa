/*
 * pack.c - first-fit decreasing in O(n log n).
 *
 * Lengths are sorted (stable radix sort, longest first) and go, in that order, into the first bin
 * that has room. "The first bin with room" is asked of a tournament tree: leaf b holds what is left
 * in bin b, every inner node the larger of its children, so the leftmost leaf with enough is found
 * by one walk down (D. S. Johnson, Near-Optimal Bin Packing Algorithms, 1973).
 *
 *                 max 9                  room of the bins: 3 0 9 5
 *              3         9               a text of 5 goes left when the left node has >= 5,
 *            3   0     9   5             else right: bin 2
 *
 * Texts of one length are placed in one step: as many as the bin can take, then one update of the
 * tree. Corpora have few distinct lengths, so this is most of the speed. The scan over all bins
 * for each text was refused: it is quadratic (docs/packing.md has both curves).
 *
 * The lower bound is L2 of Martello and Toth (Knapsack Problems, 1990, section 8.3).
 *
 * Threads: none; a packing belongs to one thread.
 */
#include "engine/pack.h"

#include "base/alloc.h"

#include <string.h>

#define RADIX_BITS 11u
#define RADIX_SIZE (1u << RADIX_BITS)

/* What is carved out of packing->scratch. */
typedef struct pack_scratch {
    uint32_t *order;   /* [count] indices, longest first */
    uint32_t *swap;    /* [count] */
    uint32_t *room;    /* [2 * leaf_count] tournament tree, root at 1 */
    uint32_t *taken;   /* [leaf_count] sequences in each bin */
    size_t leaf_count; /* power of two */
} pack_scratch;

static size_t power_of_two(size_t least)
{
    size_t power = 1;

    while (power < least)
        power *= 2;
    return power;
}

static bool scratch_bytes(size_t count, size_t leaf_count, size_t *bytes)
{
    size_t items, more;

    return wgi_mul(count, 2, &items) && wgi_mul(leaf_count, 3, &more) &&
           wgi_add(items, more, &items) && wgi_mul(items, sizeof(uint32_t), bytes);
}

static wg_status scratch_take(wgi_packing *packing, size_t count, size_t leaf_count,
                              pack_scratch *scratch, wg_error *err)
{
    size_t bytes;
    wg_status status;
    uint32_t *base;

    if (!scratch_bytes(count, leaf_count, &bytes))
        return wgi_fail(err, WG_ERR_NO_MEMORY, "%zu sequences are too many to pack", count);
    status = wgi_grow(&packing->scratch, &packing->scratch_bytes, bytes, 1, err);
    if (status == WG_OK)
        status = wgi_grow(&packing->bin_of, &packing->capacity, count, sizeof(uint32_t), err);
    if (status != WG_OK) return status;
    base = packing->scratch;
    scratch->order = base;
    scratch->swap = base + count;
    scratch->room = base + 2 * count;
    scratch->taken = scratch->room + 2 * leaf_count;
    scratch->leaf_count = leaf_count;
    return WG_OK;
}

wg_status wgi_packing_reserve(wgi_packing *packing, size_t count, wg_error *err)
{
    pack_scratch scratch;

    if (count > UINT32_MAX / 2)
        return wgi_fail(err, WG_ERR_LIMIT, "%zu sequences are too many to pack at once", count);
    return scratch_take(packing, count, power_of_two(count), &scratch, err);
}

void wgi_packing_fini(wgi_packing *packing)
{
    wgi_free(packing->bin_of);
    wgi_free(packing->scratch);
    memset(packing, 0, sizeof(*packing));
}

/* Stable, longest first; the result is in scratch->order. */
static void sort_decreasing(pack_scratch *scratch, const uint32_t *lengths, size_t count,
                            uint32_t longest)
{
    for (size_t i = 0; i < count; i++)
        scratch->order[i] = (uint32_t)i;
    for (unsigned shift = 0; shift < 32 && (longest >> shift) != 0; shift += RADIX_BITS) {
        uint32_t begin[RADIX_SIZE] = {0};
        uint32_t sum = 0, *from = scratch->order;

        for (size_t i = 0; i < count; i++)
            begin[(lengths[i] >> shift) & (RADIX_SIZE - 1)]++;
        for (uint32_t digit = RADIX_SIZE; digit-- > 0;) {
            uint32_t here = begin[digit];
            begin[digit] = sum;
            sum += here;
        }
        for (size_t i = 0; i < count; i++)
            scratch->swap[begin[(lengths[from[i]] >> shift) & (RADIX_SIZE - 1)]++] = from[i];
        scratch->order = scratch->swap;
        scratch->swap = from;
    }
}

/*
 * L2 over sizes sorted decreasingly. For a threshold k in [0, C/2], texts above C - k are alone in
 * their bins, those above C/2 have a bin each, and those in [k, C/2] must go into what the second
 * kind leaves or into bins of their own.
 */
static uint64_t bound_l2(const uint32_t *lengths, const uint32_t *order, size_t count,
                         uint32_t limit)
{
    size_t half = 0, alone, small;
    uint64_t sum_middle = 0, sum_small = 0, best;

    while (half < count && lengths[order[half]] > limit - lengths[order[half]])
        half++;
    best = half;
    alone = half; /* texts [0, alone) are longer than C - k, texts [alone, half) share */
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

/* Leftmost bin with room for `length`; there is always one. */
static size_t tree_find(const pack_scratch *scratch, uint32_t length)
{
    size_t node = 1;

    while (node < scratch->leaf_count) {
        node *= 2;
        if (scratch->room[node] < length) node++;
    }
    return node - scratch->leaf_count;
}

static void tree_update(pack_scratch *scratch, size_t bin, uint32_t room)
{
    size_t node = scratch->leaf_count + bin;

    scratch->room[node] = room;
    for (node /= 2; node > 0; node /= 2) {
        uint32_t left = scratch->room[2 * node], right = scratch->room[2 * node + 1];
        uint32_t larger = left > right ? left : right;

        if (scratch->room[node] == larger) break;
        scratch->room[node] = larger;
    }
}

static void place_all(wgi_packing *packing, pack_scratch *scratch, const uint32_t *lengths,
                      size_t count, uint32_t sequences)
{
    size_t i = 0;

    while (i < count) {
        uint32_t length = lengths[scratch->order[i]];
        size_t bin = tree_find(scratch, length);
        uint32_t room = scratch->room[scratch->leaf_count + bin];
        uint32_t taken = scratch->taken[bin];

        do {
            packing->bin_of[scratch->order[i++]] = (uint32_t)bin;
            room -= length;
            taken++;
        } while (i < count && lengths[scratch->order[i]] == length && room >= length &&
                 taken < sequences);
        scratch->taken[bin] = taken;
        tree_update(scratch, bin, taken < sequences ? room : 0);
        if (bin + 1 > packing->bin_count) packing->bin_count = bin + 1;
    }
}

static wg_status check_lengths(wgi_packing *packing, const uint32_t *lengths, size_t count,
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
            return wgi_fail(
                err, WG_ERR_ARGUMENT,
                "sequence %zu has %lu tokens, a bin holds %zu; cut it, or make bins larger", i,
                (unsigned long)lengths[i], limits->tokens);
        if (lengths[i] > *longest) *longest = lengths[i];
        packing->token_count += lengths[i];
    }
    return WG_OK;
}

wg_status wgi_pack_first_fit(wgi_packing *packing, const uint32_t *lengths, size_t count,
                             const wgi_pack_limits *limits, wg_error *err)
{
    pack_scratch scratch;
    uint32_t longest, limit, sequences;
    uint64_t bins;
    wg_status status = check_lengths(packing, lengths, count, limits, &longest, err);

    if (status != WG_OK || count == 0) return status;
    limit = (uint32_t)limits->tokens;
    sequences = limits->sequences == 0 || limits->sequences > count ? (uint32_t)count
                                                                    : (uint32_t)limits->sequences;
    /* All bins but one are more than half full, or full in sequences. */
    bins = 2 * (packing->token_count / limit) + 2 + count / sequences;
    if (bins > count) bins = count;
    status = scratch_take(packing, count, power_of_two((size_t)bins), &scratch, err);
    if (status != WG_OK) return status;
    sort_decreasing(&scratch, lengths, count, longest);
    for (size_t node = 1; node < 2 * scratch.leaf_count; node++)
        scratch.room[node] = limit;
    memset(scratch.taken, 0, scratch.leaf_count * sizeof(scratch.taken[0]));
    place_all(packing, &scratch, lengths, count, sequences);

    packing->bin_count_least = bound_l2(lengths, scratch.order, count, limit);
    bins = (packing->token_count - 1) / limit + 1;
    if (bins > packing->bin_count_least) packing->bin_count_least = bins;
    bins = (count - 1) / sequences + 1;
    if (bins > packing->bin_count_least) packing->bin_count_least = bins;
    return WG_OK;
}
