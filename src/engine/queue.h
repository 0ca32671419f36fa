/*
 * queue.h - many submitters, one packer: sequences wait in pages of fixed size.
 */
#ifndef WGI_QUEUE_H
#define WGI_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define WGI_QUEUE_LANES 4u

/* One waiting sequence; its token ids and then, if it has any, its type ids follow it. */
typedef struct wgi_record {
    struct wgi_record *next;
    uint64_t id;
    uint64_t serial; /* set by the packer, in the order in which it took them */
    uint32_t count;
    uint32_t has_types;
} wgi_record;

typedef struct wgi_page {
    struct wgi_page *next; /* on the free list */
    char *base;
    size_t used;
    atomic_uint holds; /* records not yet released, and 1 for the lane that fills the page */
} wgi_page;

/* Submitters are spread over lanes, each with a lock and a page of its own. */
typedef struct wgi_lane {
    pthread_mutex_t mutex;
    wgi_page *page;           /* being filled, or NULL */
    wgi_record *first, *last; /* not yet taken by the packer */
    uint64_t record_count;    /* in that list */
    bool is_closed;
    char apart[64]; /* lanes do not share a cache line */
} wgi_lane;

typedef struct wgi_queue {
    wgi_lane lanes[WGI_QUEUE_LANES];
    size_t lane_count;
    wgi_page *pages;
    char *memory;
    size_t page_count, page_bytes;
    pthread_mutex_t pool_mutex; /* guards the free list; innermost */
    wgi_page *free_first;
    atomic_size_t free_count;
    size_t free_count_least;
    atomic_uint_least64_t token_count; /* all that was ever pushed */
} wgi_queue;

typedef enum wgi_queue_answer {
    WGI_QUEUE_TAKEN,
    WGI_QUEUE_FULL, /* no page is free; try again after one was released */
    WGI_QUEUE_CLOSED
} wgi_queue_answer;

static inline const int32_t *wgi_record_tokens(const wgi_record *record)
{
    return (const int32_t *)(const void *)(record + 1);
}

static inline const int32_t *wgi_record_types(const wgi_record *record)
{
    return record->has_types ? wgi_record_tokens(record) + record->count : NULL;
}

/* Pages as wgi_queue_layout says for the longest sequence and a ceiling of bytes. */
void wgi_queue_layout(size_t tokens_max, size_t pending_bytes, size_t *page_bytes,
                      size_t *page_count);
wg_status wgi_queue_init(wgi_queue *queue, size_t page_bytes, size_t page_count, wg_error *err);
void wgi_queue_fini(wgi_queue *queue);

/* Any thread; never blocks for long. Sequences of one thread keep their order. */
wgi_queue_answer wgi_queue_push(wgi_queue *queue, uint64_t id, const int32_t *token_ids,
                                const int32_t *type_ids, uint32_t count);
/* After it has returned, no push succeeds and all that succeeded can be drained. */
void wgi_queue_close(wgi_queue *queue);

/* Packer only. Appends what waits behind *last (a list with its tail) and returns how many. */
uint64_t wgi_queue_drain(wgi_queue *queue, wgi_record **first, wgi_record **last);
/* Packer only: the record's memory may be used again. */
void wgi_queue_release(wgi_queue *queue, const wgi_record *record);
/* Takes half-filled pages whose records are all gone away from idle lanes. */
void wgi_queue_reclaim(wgi_queue *queue);
/* Most bytes that were ever held in pages. */
size_t wgi_queue_bytes_peak(wgi_queue *queue);

#endif
