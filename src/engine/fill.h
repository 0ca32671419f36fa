/*
 * fill.h - a bin while the packer lays sequences into it.
 */
#ifndef WGI_FILL_H
#define WGI_FILL_H

#include "engine/bin.h"
#include "engine/queue.h"

typedef struct wgi_fill {
    wgi_queue *queue;
    wgi_bin *bin;
    uint64_t *deadlines; /* [sequence capacity] of the bin */
    uint32_t position_offset;
    size_t tokens_max, sequences_max;
    uint64_t squares_max, squares; /* of n * n */
    uint64_t now;
    bool has_deadline; /* some deadline is not WGI_NEVER */
    uint64_t wait_ns[WG_ENGINE_CLASSES_MAX];
    uint64_t class_count[WG_ENGINE_CLASSES_MAX];
    wgi_page *page; /* whose records were copied and not yet released */
    unsigned page_records;
} wgi_fill;

/* Room for a sequence of `count` tokens. An empty bin takes any. */
static inline bool wgi_fill_fits(const wgi_fill *fill, uint32_t count)
{
    const wgi_bin *bin = fill->bin;

    if (bin->sequence_count == 0) return true;
    return bin->sequence_count < fill->sequences_max &&
           bin->token_count + count <= fill->tokens_max &&
           (uint64_t)count * count <= fill->squares_max - fill->squares;
}

/* Copies a record into the bin and releases it, sooner or later. */
void wgi_fill_append(wgi_fill *fill, const wgi_record *record);
/* Releases what is still held. */
void wgi_fill_end(wgi_fill *fill);

#endif
