/*
 * ring.c - slots of a fixed number, memory taken once.
 *
 * A bin that failed needs no memory to be split: what is handed out is always the first sequences
 * of the slot, so its first half is the same memory with smaller counts, and when that is done the
 * rest moves to the front. Splitting into another slot was refused: when all bins fail at once no
 * slot is free, and the ring would stand still.
 *
 * With a stage, a slot's memory comes from the backend (pinned), the backend's copy begins when the
 * slot is filled, and the packer waits for that copy before it writes the slot again: a bin that is
 * in flight is never overwritten.
 *
 * Threads: lists and states under the engine's mutex; the contents of a slot belong to the packer
 * while it is filling or rest, to the consumer while it is taken.
 */
#include "engine/ring.h"

#include "base/alloc.h"
#include "engine/dlpack.h"

#include <string.h>

size_t wgi_ring_bytes(const wg_engine_options *options)
{
    size_t bytes = wgi_bin_bytes(options->bin_tokens, options->bin_sequences), deadlines;

    if (bytes == SIZE_MAX || !wgi_mul(options->bin_sequences, sizeof(uint64_t), &deadlines) ||
        !wgi_add(bytes, deadlines, &bytes) ||
        !wgi_add(bytes, sizeof(wgi_slot) + WGI_EXPORTS_MAX * wgi_export_bytes(), &bytes) ||
        !wgi_mul(bytes, options->slot_count, &bytes))
        return SIZE_MAX;
    return bytes;
}

static wg_status slot_init(wgi_ring *ring, wgi_slot *slot, const wg_engine_options *options,
                           wg_error *err)
{
    wg_status status = WG_OK;

    if (ring->stage.allocate) {
        void *memory = ring->stage.allocate(ring->stage.context, ring->slot_bytes);

        if (!memory)
            return wgi_fail(err, WG_ERR_NO_MEMORY, "the stage has no %zu bytes for a bin",
                            ring->slot_bytes);
        wgi_bin_carve(&slot->bin, memory, options->bin_tokens, options->bin_sequences);
    } else {
        status = wgi_bin_init(&slot->bin, options->bin_tokens, options->bin_sequences, err);
        if (status != WG_OK) return status;
    }
    slot->deadlines = wgi_calloc(options->bin_sequences, sizeof(slot->deadlines[0]));
    slot->exports = wgi_calloc(WGI_EXPORTS_MAX, wgi_export_bytes());
    if (!slot->deadlines || !slot->exports)
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a bin of %llu sequences",
                          (unsigned long long)options->bin_sequences);
    return status;
}

wg_status wgi_ring_init(wgi_ring *ring, const wg_engine_options *options, wg_error *err)
{
    memset(ring, 0, sizeof(*ring));
    ring->stage = options->stage;
    ring->token_multiple = options->token_multiple;
    ring->slot_bytes = wgi_bin_bytes(options->bin_tokens, options->bin_sequences);
    ring->slots = wgi_calloc(options->slot_count, sizeof(ring->slots[0]));
    if (!ring->slots)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a ring of %lu bins",
                        (unsigned long)options->slot_count);
    ring->slot_count = options->slot_count;
    for (uint32_t i = 0; i < options->slot_count; i++) {
        wg_status status = slot_init(ring, &ring->slots[i], options, err);

        if (status != WG_OK) {
            wgi_ring_fini(ring);
            return status;
        }
        ring->slots[i].index = i;
        wgi_slot_list_push(&ring->free, &ring->slots[i]);
    }
    return WG_OK;
}

void wgi_ring_fini(wgi_ring *ring)
{
    for (uint32_t i = 0; i < ring->slot_count; i++) {
        wgi_slot *slot = &ring->slots[i];

        wgi_free(slot->deadlines);
        wgi_free(slot->exports);
        if (!ring->stage.allocate)
            wgi_bin_fini(&slot->bin);
        else if (slot->bin.token_ids && ring->stage.deallocate)
            ring->stage.deallocate(ring->stage.context, slot->bin.token_ids, ring->slot_bytes);
    }
    wgi_free(ring->slots);
    memset(ring, 0, sizeof(*ring));
}

void wgi_slot_list_push(wgi_slot_list *list, wgi_slot *slot)
{
    slot->next = NULL;
    if (list->last)
        list->last->next = slot;
    else
        list->first = slot;
    list->last = slot;
    list->count++;
}

void wgi_slot_list_push_front(wgi_slot_list *list, wgi_slot *slot)
{
    slot->next = list->first;
    list->first = slot;
    if (!list->last) list->last = slot;
    list->count++;
}

wgi_slot *wgi_slot_list_pop(wgi_slot_list *list)
{
    wgi_slot *slot = list->first;

    if (!slot) return NULL;
    list->first = slot->next;
    if (!list->first) list->last = NULL;
    list->count--;
    return slot;
}

wgi_slot *wgi_ring_find(wgi_ring *ring, const wg_bin *bin, wg_error *err)
{
    if (bin->slot >= ring->slot_count || bin->ticket == 0) {
        (void)wgi_fail(err, WG_ERR_ARGUMENT, "this is no bin of the engine (slot %lu of %lu)",
                       (unsigned long)bin->slot, (unsigned long)ring->slot_count);
        return NULL;
    }
    if (ring->slots[bin->slot].ticket != bin->ticket) {
        (void)wgi_fail(err, WG_ERR_ARGUMENT, "the bin in slot %lu was given back already",
                       (unsigned long)bin->slot);
        return NULL;
    }
    return &ring->slots[bin->slot];
}

void wgi_slot_view(const wgi_ring *ring, const wgi_slot *slot, wg_bin *view)
{
    const wgi_bin *bin = &slot->bin;
    size_t rows = bin->token_count, multiple = ring->token_multiple;

    rows = (rows + multiple - 1) / multiple * multiple;
    *view = (wg_bin){
        .token_ids = bin->token_ids,
        .type_ids = bin->type_ids,
        .position_ids = bin->position_ids,
        .cu_seqlens = bin->cu_seqlens,
        .segments = bin->segments,
        .sequence_ids = bin->sequence_ids,
        .token_count = bin->token_count,
        .row_count = rows < slot->row_count ? rows : slot->row_count,
        .sequence_count = bin->sequence_count,
        .longest = bin->longest,
        .slot = slot->index,
        .ticket = slot->ticket,
    };
}

void wgi_slot_round_up(const wgi_ring *ring, wgi_slot *slot)
{
    wgi_bin *bin = &slot->bin;
    /* Behind all that the slot holds: behind the first part of a split bin lies its rest. */
    size_t from = (size_t)bin->cu_seqlens[slot->sequence_count], multiple = ring->token_multiple;
    size_t rows = (from + multiple - 1) / multiple * multiple;
    size_t bytes;

    if (rows > bin->token_capacity) rows = bin->token_capacity;
    bytes = (rows - from) * sizeof(int32_t);
    slot->row_count = rows;
    if (bytes == 0) return;
    memset(bin->token_ids + from, 0, bytes);
    memset(bin->type_ids + from, 0, bytes);
    memset(bin->position_ids + from, 0, bytes);
}

void wgi_slot_limit(wgi_slot *slot, size_t tokens)
{
    wgi_bin *bin = &slot->bin;
    size_t s = 1, longest = bin->segments[0].count;

    while (s < slot->sequence_count && (size_t)bin->cu_seqlens[s + 1] <= tokens) {
        if (bin->segments[s].count > longest) longest = bin->segments[s].count;
        s++;
    }
    bin->sequence_count = s;
    bin->token_count = (size_t)bin->cu_seqlens[s];
    bin->longest = longest;
}

void wgi_slot_shift(wgi_slot *slot)
{
    wgi_bin *bin = &slot->bin;
    size_t gone = bin->sequence_count, left = slot->sequence_count - gone;
    size_t row = bin->token_count;
    size_t bytes = ((size_t)bin->cu_seqlens[slot->sequence_count] - row) * sizeof(int32_t);

    memmove(bin->token_ids, bin->token_ids + row, bytes);
    memmove(bin->type_ids, bin->type_ids + row, bytes);
    memmove(bin->position_ids, bin->position_ids + row, bytes);
    memmove(bin->sequence_ids, bin->sequence_ids + gone, left * sizeof(bin->sequence_ids[0]));
    memmove(slot->deadlines, slot->deadlines + gone, left * sizeof(slot->deadlines[0]));
    for (size_t s = 0; s < left; s++) {
        bin->segments[s] = bin->segments[s + gone];
        bin->segments[s].row -= (uint32_t)row;
        bin->cu_seqlens[s + 1] = bin->cu_seqlens[s + 1 + gone] - (int32_t)row;
    }
    slot->sequence_count = left;
    wgi_slot_limit(slot, SIZE_MAX);
}
