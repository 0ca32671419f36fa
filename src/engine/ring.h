/*
 * ring.h - the bins of an engine and where each of them stands.
 *
 *     free ─▶ filling ─▶ ready ─▶ taken ─▶ free            given back as done
 *                          ▲        │
 *                          ├────────┤                      failed: the same again, or its first
 * half └─ rest ◀┘                      done, and more of what was split is left
 */
#ifndef WGI_RING_H
#define WGI_RING_H

#include <stdatomic.h>

#include "engine/bin.h"
#include "engine/queue.h"

typedef enum wgi_slot_state {
    WGI_SLOT_FREE,
    WGI_SLOT_FILLING, /* the packer's */
    WGI_SLOT_READY,
    WGI_SLOT_TAKEN,
    WGI_SLOT_REST,    /* the packer is to bring its rest to the front */
    WGI_SLOT_EXPORTED /* given back, but tensors of it are out */
} wgi_slot_state;

#define WGI_EXPORTS_MAX 16u

struct wgi_export; /* dlpack.h */

typedef struct wgi_slot {
    wgi_bin bin; /* first; its counts are of what is handed out, the first of `sequences` */
    wgi_slot_state state;
    uint32_t index;
    uint64_t *deadlines; /* [sequence capacity] */
    bool has_deadline;
    size_t sequence_count; /* all that it holds */
    size_t row_count;      /* rows of the bin that may be read */
    uint64_t ticket;       /* of this hand-out; 0: not handed out */
    wg_consumer *consumer;
    uint64_t taken_ns;
    unsigned attempts; /* failures of just this bin */
    bool is_given_up;
    unsigned export_count;
    struct wgi_export *exports; /* [WGI_EXPORTS_MAX] */
    struct wgi_slot *next;
} wgi_slot;

typedef struct wgi_slot_list {
    wgi_slot *first, *last;
    uint32_t count;
} wgi_slot_list;

/* Guarded by the engine's mutex. */
typedef struct wgi_ring {
    wgi_slot *slots;
    uint32_t slot_count;
    wgi_slot_list free, ready, rest;
    uint32_t taken_count;
    uint32_t filling_count;
    uint32_t export_count;
    uint64_t ticket;
    uint32_t token_multiple;
    wg_engine_stage stage;
    size_t slot_bytes;
} wgi_ring;

wg_status wgi_ring_init(wgi_ring *ring, const wg_engine_options *options, wg_error *err);
void wgi_ring_fini(wgi_ring *ring);
/* Bytes that init takes; SIZE_MAX: too many. */
size_t wgi_ring_bytes(const wg_engine_options *options);

void wgi_slot_list_push(wgi_slot_list *list, wgi_slot *slot);
void wgi_slot_list_push_front(wgi_slot_list *list, wgi_slot *slot);
wgi_slot *wgi_slot_list_pop(wgi_slot_list *list); /* NULL: empty */

/* The slot of a view, or NULL and a sentence when it is not one that is handed out. */
wgi_slot *wgi_ring_find(wgi_ring *ring, const wg_bin *bin, wg_error *err);
void wgi_slot_view(const wgi_ring *ring, const wgi_slot *slot, wg_bin *view);

/* Packer: rows behind the last sequence, up to the multiple, become harmless. */
void wgi_slot_round_up(const wgi_ring *ring, wgi_slot *slot);
/* Hands out only the first sequences, of at most `tokens` tokens but at least one sequence. */
void wgi_slot_limit(wgi_slot *slot, size_t tokens);
/* Packer: brings what follows the sequences handed out to the front. */
void wgi_slot_shift(wgi_slot *slot);

#endif
