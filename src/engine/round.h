/*
 * round.h - the packer's look-ahead: which waiting sequences share which of the next bins.
 */
#ifndef WGI_ROUND_H
#define WGI_ROUND_H

#include "engine/bin.h"
#include "engine/pack.h"
#include "engine/queue.h"

typedef struct wgi_round {
    wgi_pack_limits limits;
    size_t tokens_max; /* of the look-ahead */
    size_t capacity;   /* most sequences of it */

    wgi_record **records; /* [capacity] oldest first; NULL: left with a bin */
    uint32_t *lengths;    /* [capacity] */
    size_t count;         /* entries of records, NULL ones too */
    size_t oldest;        /* first entry that is not NULL, or count */
    size_t token_count;   /* of those that are still there */

    wgi_packing packing;
    uint32_t *items;         /* [capacity] entries of records by bin, input order inside a bin */
    uint32_t *bin_begin;     /* [capacity + 1] */
    size_t bin_count;        /* of the plan */
    size_t bin_next;         /* bins before it have left */
    size_t bin_early;        /* handed out before its turn, or SIZE_MAX */
    size_t plan_tokens;      /* token_count when the plan was made */
    uint64_t oldest_in_plan; /* serial of the oldest sequence then */

    wgi_record *backlog_first, *backlog_last; /* drained, not yet in the look-ahead */
    uint64_t serial_next;                     /* for the next sequence that is taken in */
    uint64_t drained_count;
} wgi_round;

wg_status wgi_round_init(wgi_round *round, const wgi_pack_limits *limits, size_t tokens_max,
                         size_t capacity, wg_error *err);
void wgi_round_fini(wgi_round *round);
/* Bytes that init takes. */
size_t wgi_round_bytes(size_t capacity);

/* Takes over what waits in the queue. */
void wgi_round_drain(wgi_round *round, wgi_queue *queue);
/* Serial of the oldest sequence that waits; serials count up from 0. UINT64_MAX: nothing waits. */
uint64_t wgi_round_oldest(const wgi_round *round);

/*
 * Fills an empty bin with the next sequences and releases their records; false when nothing
 * waits. Allocates nothing.
 */
bool wgi_round_cut(wgi_round *round, wgi_queue *queue, wgi_bin *bin, uint32_t position_offset);

#endif
