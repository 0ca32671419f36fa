/*
 * pack_best.c - best-fit decreasing by length buckets, O(n log64 C).
 *
 * Bins stand in buckets by the room that is left in them, 0 to C tokens. The best bin for a text is
 * the head of the first bucket at or above its length that is not empty, which a bitmap of three
 * levels finds in a few words: a bit of a level says that the 64 below are not all empty.
 *
 *     level 2   0010...                room 130 -> word 130 / 64 of level 0, and so on upwards
 *     level 1   ....0100...
 *     level 0   ........00101000...    one bit a bucket
 *
 * With a limit on squares the buckets at and above are walked until a bin keeps that, too. A
 * balanced tree of rooms was refused: slower by a factor, and it allocates.
 *
 * Threads: none.
 */
#include "engine/pack.h"

#include "base/alloc.h"
#include "engine/pack_order.h"

#include <string.h>

#define TOKENS_MOST ((size_t)1 << 24)
#define LEVELS      5u
#define NONE        UINT32_MAX

typedef struct best {
    uint32_t *order, *swap; /* [count] */
    uint32_t *head;         /* [tokens + 1] first bin of a bucket */
    uint32_t *next;         /* [count] next bin in the bucket */
    uint32_t *room, *taken; /* [count] of each bin */
    uint64_t *squares;      /* [count] left */
    uint64_t *bits[LEVELS];
    size_t level_count;
} best;

static void bit_set(best *b, size_t at)
{
    for (size_t level = 0; level < b->level_count; level++, at /= 64)
        b->bits[level][at / 64] |= (uint64_t)1 << (at % 64);
}

static void bit_clear(best *b, size_t at)
{
    for (size_t level = 0; level < b->level_count; level++, at /= 64) {
        b->bits[level][at / 64] &= ~((uint64_t)1 << (at % 64));
        if (b->bits[level][at / 64]) return;
    }
}

/* First bucket at or above `at` that is not empty; SIZE_MAX: none. */
static size_t bit_next(const best *b, size_t at, size_t bucket_count)
{
    for (size_t level = 0; level < b->level_count; level++) {
        uint64_t word;

        if (at >= bucket_count) return SIZE_MAX;
        word = b->bits[level][at / 64] >> (at % 64);
        if (word) {
            at += (size_t)__builtin_ctzll(word);
            while (level-- > 0)
                at = at * 64 + (size_t)__builtin_ctzll(b->bits[level][at]);
            return at;
        }
        at = at / 64 + 1;
        bucket_count = (bucket_count + 63) / 64;
    }
    return SIZE_MAX;
}

static void bucket_push(best *b, uint32_t bin)
{
    uint32_t room = b->room[bin];

    if (b->head[room] == NONE) bit_set(b, room);
    b->next[bin] = b->head[room];
    b->head[room] = bin;
}

static wg_status take_memory(best *b, wgi_packing *packing, size_t count, size_t tokens,
                             wg_error *err)
{
    size_t words = 0, bytes, buckets = tokens + 1;
    char *base;
    wg_status status;

    for (size_t n = buckets; b->level_count == 0 || n > 1; b->level_count++) {
        n = (n + 63) / 64;
        words += n;
    }
    if (!wgi_mul(count, 5 * sizeof(uint32_t) + sizeof(uint64_t), &bytes) ||
        !wgi_add(bytes, words * sizeof(uint64_t) + buckets * sizeof(uint32_t), &bytes))
        return wgi_fail(err, WG_ERR_NO_MEMORY, "%zu sequences are too many to pack", count);
    status = wgi_pack_memory(packing, bytes, count, err);
    if (status != WG_OK) return status;
    base = packing->scratch;
    b->squares = (uint64_t *)(void *)base;
    b->bits[0] = b->squares + count;
    memset(b->bits[0], 0, words * sizeof(uint64_t));
    for (size_t level = 1, n = (buckets + 63) / 64; level < b->level_count; level++) {
        b->bits[level] = b->bits[level - 1] + n;
        n = (n + 63) / 64;
    }
    b->order = (uint32_t *)(void *)(b->bits[0] + words);
    b->swap = b->order + count;
    b->next = b->swap + count;
    b->room = b->next + count;
    b->taken = b->room + count;
    b->head = b->taken + count;
    memset(b->head, 0xff, buckets * sizeof(uint32_t));
    return WG_OK;
}

/* The bin that the text leaves least room in, taken out of its bucket; NONE: a new one is needed.
 */
static uint32_t bin_take(best *b, uint32_t length, const wgi_pack_limits *limits)
{
    uint64_t square = (uint64_t)length * length;

    for (size_t room = length; (room = bit_next(b, room, limits->tokens + 1)) != SIZE_MAX; room++) {
        uint32_t *link = &b->head[room];

        while (*link != NONE && limits->squares && b->squares[*link] < square)
            link = &b->next[*link];
        if (*link != NONE) {
            uint32_t bin = *link;

            *link = b->next[bin];
            if (b->head[room] == NONE) bit_clear(b, room);
            return bin;
        }
    }
    return NONE;
}

wg_status wgi_pack_best_fit(wgi_packing *packing, const uint32_t *lengths, size_t count,
                            const wgi_pack_limits *limits, wg_error *err)
{
    best b = {0};
    uint32_t longest;
    wg_status status = wgi_pack_check(packing, lengths, count, limits, &longest, err);

    if (status != WG_OK || count == 0) return status;
    if (limits->tokens > TOKENS_MOST)
        return wgi_fail(err, WG_ERR_LIMIT, "best fit packs bins of at most %zu tokens, not %zu",
                        TOKENS_MOST, limits->tokens);
    status = take_memory(&b, packing, count, limits->tokens, err);
    if (status != WG_OK) return status;
    wgi_pack_sort(&b.order, b.swap, lengths, count, longest);
    for (size_t i = 0; i < count; i++) {
        uint32_t length = lengths[b.order[i]];
        uint32_t bin = bin_take(&b, length, limits);

        if (bin == NONE) {
            bin = (uint32_t)packing->bin_count++;
            b.room[bin] = (uint32_t)limits->tokens;
            b.taken[bin] = 0;
            b.squares[bin] = limits->squares;
        }
        packing->bin_of[b.order[i]] = bin;
        b.room[bin] -= length;
        b.taken[bin]++;
        if (limits->squares) b.squares[bin] -= (uint64_t)length * length;
        if (limits->sequences == 0 || b.taken[bin] < limits->sequences) bucket_push(&b, bin);
    }
    wgi_pack_bound_all(packing, lengths, b.order, count, limits);
    return WG_OK;
}
