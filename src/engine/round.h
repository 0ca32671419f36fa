/*
 * round.h - the packer's look-ahead over one class: which waiting sequences share which bin.
 */
#ifndef WGI_ROUND_H
#define WGI_ROUND_H

#include "engine/fill.h"
#include "engine/pack.h"

typedef struct wgi_round {
    wgi_pack_limits limits;
    size_t tokens_max; /* of the look-ahead */
    size_t capacity;   /* most sequences of it */

    wgi_record **records;  /* [capacity] oldest first; NULL: left with a bin */
    uint32_t *lengths;     /* [capacity] */
    size_t count;          /* entries of records, NULL ones too */
    size_t oldest;         /* first entry that is not NULL, or count */
    size_t record_count;   /* entries that are not NULL */
    size_t token_count;    /* of those */
    size_t deadline_count; /* of those, with a deadline */

    wgi_packing packing;
    uint32_t *items;     /* [capacity] entries of records by bin, input order inside a bin */
    uint32_t *bin_begin; /* [capacity + 1] */
    size_t bin_count;    /* of the plan */
    size_t bin_next;     /* bins before it have left */
    size_t plan_tokens;  /* token_count when the plan was made */

    wgi_record_list backlog; /* drained, not yet in the look-ahead */
    uint64_t serial_next;    /* for the next sequence that is taken in */
} wgi_round;

wg_status wgi_round_init(wgi_round *round, const wgi_pack_limits *limits, size_t tokens_max,
                         size_t capacity, wg_error *err);
void wgi_round_fini(wgi_round *round);
/* Bytes that init takes. */
size_t wgi_round_bytes(size_t capacity, bool has_squares);

/* Bins become smaller or larger from the next one on. */
void wgi_round_limit(wgi_round *round, size_t tokens);

static inline uint64_t wgi_round_tokens(const wgi_round *round)
{
    return round->token_count + round->backlog.token_count;
}
static inline uint64_t wgi_round_sequences(const wgi_round *round)
{
    return round->record_count + round->backlog.record_count;
}
static inline bool wgi_round_has_deadline(const wgi_round *round)
{
    return round->deadline_count + round->backlog.deadline_count > 0;
}
/* Closes gaps in the look-ahead and takes in from the backlog; the order of arrival stays, a plan
 * that was made before does not. */
void wgi_round_refill(wgi_round *round);
/* Serial of the oldest sequence that waits; serials count up from 0. WGI_NEVER: nothing waits. */
uint64_t wgi_round_oldest(const wgi_round *round);
/* One past the serial of the youngest. */
static inline uint64_t wgi_round_youngest(const wgi_round *round)
{
    return round->serial_next + round->backlog.record_count;
}
/* When the oldest came; WGI_NEVER: nothing waits. */
uint64_t wgi_round_arrival(const wgi_round *round);
/* Earliest deadline that waits and is not before `from`; WGI_NEVER: none. Walks the look-ahead. */
uint64_t wgi_round_deadline(const wgi_round *round, uint64_t from);

/* Fills an empty bin by plan; false when nothing waits. Allocates nothing. */
bool wgi_round_cut(wgi_round *round, wgi_fill *fill);

/*
 * Lays sequences that fit into a bin, oldest first, until `budget` tokens are spent, and returns
 * how many tokens they have. With deadline_until: only those with a deadline in [from, until].
 */
uint64_t wgi_round_take(wgi_round *round, wgi_fill *fill, uint64_t budget);
uint64_t wgi_round_take_due(wgi_round *round, wgi_fill *fill, uint64_t from, uint64_t until);

#endif
