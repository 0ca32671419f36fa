/*
 * padded.c - batches padded to the longest; see padded.h.
 *
 *   rows   [ text 0 ........ | pad ][ text 1 | pad ........... ][ text 2 ......... ]
 *   segments   real            pad     real      pad               real
 *
 * Threads: `lock` guards all of it but the bins, each of which belongs to its lane.
 */
#include "job/padded.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

typedef struct sequence {
    uint64_t id;
    size_t first; /* in the two id arrays */
    size_t count;
} sequence;

struct wgi_padded {
    pthread_mutex_t lock;
    uint32_t batch;
    bool is_sorted, is_finished;
    uint32_t position_offset;
    int32_t *token_ids, *type_ids;
    size_t id_count, token_capacity, type_capacity;
    sequence *sequences;
    size_t sequence_count, sequence_capacity;
    size_t next;
    wgi_bin *bins; /* [lane_count] */
    size_t lane_count;
};

wg_status wgi_padded_open(wgi_padded **out, uint32_t batch, bool is_sorted,
                          uint32_t position_offset, size_t lane_count, wg_error *err)
{
    wgi_padded *padded = wgi_calloc(1, sizeof(*padded));

    *out = NULL;
    if (padded) padded->bins = wgi_calloc(lane_count, sizeof(*padded->bins));
    if (!padded || !padded->bins) {
        wgi_free(padded);
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for padded batches");
    }
    pthread_mutex_init(&padded->lock, NULL);
    padded->batch = batch;
    padded->is_sorted = is_sorted;
    padded->position_offset = position_offset;
    padded->lane_count = lane_count;
    *out = padded;
    return WG_OK;
}

void wgi_padded_close(wgi_padded *padded)
{
    if (!padded) return;
    for (size_t i = 0; i < padded->lane_count; i++)
        wgi_bin_fini(&padded->bins[i]);
    wgi_free(padded->bins);
    wgi_free(padded->token_ids);
    wgi_free(padded->type_ids);
    wgi_free(padded->sequences);
    pthread_mutex_destroy(&padded->lock);
    wgi_free(padded);
}

wg_status wgi_padded_push(wgi_padded *padded, uint64_t id, const int32_t *token_ids,
                          const int32_t *type_ids, size_t count, wg_error *err)
{
    wg_status status = WG_OK;

    pthread_mutex_lock(&padded->lock);
    size_t need = padded->id_count + count;
    WGI_TRY(wgi_grow(&padded->token_ids, &padded->token_capacity, need, sizeof(int32_t), err));
    WGI_TRY(wgi_grow(&padded->type_ids, &padded->type_capacity, need, sizeof(int32_t), err));
    WGI_TRY(wgi_grow(&padded->sequences, &padded->sequence_capacity, padded->sequence_count + 1,
                     sizeof(sequence), err));
    memcpy(padded->token_ids + padded->id_count, token_ids, count * sizeof(int32_t));
    if (type_ids)
        memcpy(padded->type_ids + padded->id_count, type_ids, count * sizeof(int32_t));
    else
        memset(padded->type_ids + padded->id_count, 0, count * sizeof(int32_t));
    padded->sequences[padded->sequence_count++] =
        (sequence){.id = id, .first = padded->id_count, .count = count};
    padded->id_count = need;

cleanup:
    pthread_mutex_unlock(&padded->lock);
    return status;
}

static int by_id(const void *a, const void *b)
{
    const sequence *left = a, *right = b;

    return (left->id > right->id) - (left->id < right->id);
}

static int by_length(const void *a, const void *b)
{
    const sequence *left = a, *right = b;

    if (left->count != right->count) return left->count < right->count ? 1 : -1;
    return by_id(a, b);
}

void wgi_padded_finish(wgi_padded *padded)
{
    pthread_mutex_lock(&padded->lock);
    if (padded->sequence_count)
        qsort(padded->sequences, padded->sequence_count, sizeof(sequence),
              padded->is_sorted ? by_length : by_id);
    padded->is_finished = true;
    pthread_mutex_unlock(&padded->lock);
}

/* Room for `tokens` rows and `segments` segments; the bin grows to the largest batch and stays. */
static wg_status bin_reserve(wgi_bin *bin, size_t tokens, size_t segments, wg_error *err)
{
    if (tokens <= bin->token_capacity && segments <= bin->sequence_capacity) {
        wgi_bin_clear(bin);
        return WG_OK;
    }
    wgi_bin_fini(bin);
    return wgi_bin_init(bin, tokens, segments, err);
}

wg_status wgi_padded_take(wgi_padded *padded, size_t lane, wgi_bin **out, bool *is_end,
                          wg_error *err)
{
    wg_status status = WG_OK;
    wgi_bin *bin = &padded->bins[lane];
    const sequence *longest;

    *out = NULL;
    *is_end = false;
    pthread_mutex_lock(&padded->lock);
    if (!padded->is_finished) goto cleanup;
    size_t first = padded->next;
    size_t last = first + padded->batch;
    if (last > padded->sequence_count) last = padded->sequence_count;
    *is_end = first == last;
    if (*is_end) goto cleanup;

    longest = &padded->sequences[first];
    for (size_t i = first + 1; i < last; i++) {
        if (padded->sequences[i].count > longest->count) longest = &padded->sequences[i];
    }
    WGI_TRY(bin_reserve(bin, (last - first) * longest->count, 2 * (last - first), err));
    for (size_t i = first; i < last; i++) {
        const sequence *s = &padded->sequences[i];
        size_t pad = longest->count - s->count;
        wgi_bin_append(bin, s->id, padded->token_ids + s->first, padded->type_ids + s->first,
                       (uint32_t)s->count, padded->position_offset);
        /* What stands in a pad row does not matter: any valid ids will do. */
        if (pad)
            wgi_bin_append(bin, WGI_PADDED_NOBODY, padded->token_ids + longest->first, NULL,
                           (uint32_t)pad, padded->position_offset);
    }
    padded->next = last;
    *out = bin;

cleanup:
    pthread_mutex_unlock(&padded->lock);
    return status;
}
