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
 * tree. Corpora have few distinct lengths, so this is most of the speed. The scan over all bins for
 * each text was refused: it is quadratic (docs/packing.md has both curves).
 *
 * A limit on the sum of squares gives each leaf a second number. A node then promises only that
 * some bin below has the tokens and some the squares, so the walk may have to turn back.
 *
 * Threads: none; a packing belongs to one thread.
 */
#include "engine/pack.h"

#include "base/alloc.h"
#include "engine/pack_order.h"

#include <string.h>

/* What is carved out of packing->scratch. */
typedef struct pack_scratch {
    uint32_t *order;   /* [count] indices, longest first */
    uint32_t *swap;    /* [count] */
    uint32_t *room;    /* [2 * leaf_count] tournament tree, root at 1 */
    uint32_t *taken;   /* [leaf_count] sequences in each bin */
    uint64_t *squares; /* [2 * leaf_count] tree of what is left of the squares; NULL: no limit */
    size_t leaf_count; /* power of two */
} pack_scratch;

static size_t power_of_two(size_t least)
{
    size_t power = 1;

    while (power < least)
        power *= 2;
    return power;
}

static bool scratch_bytes(size_t count, size_t leaf_count, bool has_squares, size_t *bytes)
{
    size_t items, more;

    /* Squares are of 8 bytes; an even number of the others stands before them. */
    return wgi_mul(count, 2, &items) && wgi_mul(leaf_count, has_squares ? 8 : 4, &more) &&
           wgi_add(items, more, &items) && wgi_mul(items, sizeof(uint32_t), bytes);
}

static wg_status scratch_take(wgi_packing *packing, size_t count, size_t leaf_count,
                              bool has_squares, pack_scratch *scratch, wg_error *err)
{
    size_t bytes;
    wg_status status;
    uint32_t *base;

    if (!scratch_bytes(count, leaf_count, has_squares, &bytes))
        return wgi_fail(err, WG_ERR_NO_MEMORY, "%zu sequences are too many to pack", count);
    status = wgi_pack_memory(packing, bytes, count, err);
    if (status != WG_OK) return status;
    base = packing->scratch;
    scratch->order = base;
    scratch->swap = base + count;
    scratch->room = base + 2 * count;
    scratch->taken = scratch->room + 2 * leaf_count;
    scratch->squares = has_squares ? (uint64_t *)(void *)(scratch->room + 4 * leaf_count) : NULL;
    scratch->leaf_count = leaf_count;
    return WG_OK;
}

size_t wgi_packing_bytes(size_t count, bool has_squares)
{
    size_t bytes, bins;

    if (count > UINT32_MAX / 2 || !wgi_mul(count, sizeof(uint32_t), &bins) ||
        !scratch_bytes(count, power_of_two(count), has_squares, &bytes) ||
        !wgi_add(bytes, bins, &bytes))
        return SIZE_MAX;
    return bytes;
}

wg_status wgi_packing_reserve(wgi_packing *packing, size_t count, bool has_squares, wg_error *err)
{
    pack_scratch scratch = {0};

    if (count > UINT32_MAX / 2)
        return wgi_fail(err, WG_ERR_LIMIT, "%zu sequences are too many to pack at once", count);
    return scratch_take(packing, count, power_of_two(count), has_squares, &scratch, err);
}

void wgi_packing_fini(wgi_packing *packing)
{
    wgi_free(packing->bin_of);
    wgi_free(packing->scratch);
    memset(packing, 0, sizeof(*packing));
}

static bool node_fits(const pack_scratch *scratch, size_t node, uint32_t length)
{
    return scratch->room[node] >= length &&
           (!scratch->squares || scratch->squares[node] >= (uint64_t)length * length);
}

/* Leftmost bin with room for `length`; there is always one. */
static size_t tree_find(const pack_scratch *scratch, uint32_t length)
{
    size_t node = 1;

    while (node < scratch->leaf_count) {
        node *= 2;
        if (node_fits(scratch, node, length)) continue;
        node++;
        /* A promise of two numbers that no one bin keeps: up, and to the next on the right. */
        while (!node_fits(scratch, node, length) && node > 1) {
            while (node & 1)
                node /= 2;
            node++;
        }
    }
    return node - scratch->leaf_count;
}

static void squares_update(pack_scratch *scratch, size_t bin, uint64_t squares)
{
    size_t node = scratch->leaf_count + bin;

    scratch->squares[node] = squares;
    for (node /= 2; node > 0; node /= 2) {
        uint64_t left = scratch->squares[2 * node], right = scratch->squares[2 * node + 1];
        scratch->squares[node] = left > right ? left : right;
    }
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
        size_t bin = tree_find(scratch, length), leaf = scratch->leaf_count + bin;
        uint32_t room = scratch->room[leaf], taken = scratch->taken[bin];
        uint64_t square = (uint64_t)length * length;
        uint64_t squares = scratch->squares ? scratch->squares[leaf] : 0;

        do {
            packing->bin_of[scratch->order[i++]] = (uint32_t)bin;
            room -= length;
            squares -= square;
            taken++;
        } while (i < count && lengths[scratch->order[i]] == length && room >= length &&
                 taken < sequences && (!scratch->squares || squares >= square));
        scratch->taken[bin] = taken;
        tree_update(scratch, bin, taken < sequences ? room : 0);
        if (scratch->squares) squares_update(scratch, bin, squares);
        if (bin + 1 > packing->bin_count) packing->bin_count = bin + 1;
    }
}

/* How many bins first fit can need at most. */
static size_t bins_most(const wgi_packing *packing, size_t count, uint32_t limit,
                        uint32_t sequences, bool has_squares)
{
    /* All bins but one are more than half full, or full in sequences. */
    uint64_t bins = 2 * (packing->token_count / limit) + 2 + count / sequences;

    return has_squares || bins > count ? count : (size_t)bins;
}

wg_status wgi_pack_first_fit(wgi_packing *packing, const uint32_t *lengths, size_t count,
                             const wgi_pack_limits *limits, wg_error *err)
{
    pack_scratch scratch = {0};
    bool has_squares = limits->squares > 0;
    uint32_t longest, sequences;
    size_t bins;
    wg_status status = wgi_pack_check(packing, lengths, count, limits, &longest, err);

    if (status != WG_OK || count == 0) return status;
    sequences = limits->sequences == 0 || limits->sequences > count ? (uint32_t)count
                                                                    : (uint32_t)limits->sequences;
    bins = bins_most(packing, count, (uint32_t)limits->tokens, sequences, has_squares);
    status = scratch_take(packing, count, power_of_two(bins), has_squares, &scratch, err);
    if (status != WG_OK) return status;
    wgi_pack_sort(&scratch.order, scratch.swap, lengths, count, longest);
    for (size_t node = 1; node < 2 * scratch.leaf_count; node++)
        scratch.room[node] = (uint32_t)limits->tokens;
    for (size_t node = 1; has_squares && node < 2 * scratch.leaf_count; node++)
        scratch.squares[node] = limits->squares;
    memset(scratch.taken, 0, scratch.leaf_count * sizeof(scratch.taken[0]));
    place_all(packing, &scratch, lengths, count, sequences);
    wgi_pack_bound_all(packing, lengths, scratch.order, count, limits);
    return WG_OK;
}
