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
#include "warpgroup/engine.h"

#define WGI_QUEUE_LANES 4u
#define WGI_CLASSES_MAX ((size_t)WG_ENGINE_CLASSES_MAX)
#define WGI_NEVER       UINT64_MAX

/* One waiting sequence; its token ids and then, if it has any, its type ids follow it. */
typedef struct wgi_record {
    struct wgi_record *next;
    uint64_t id;
    uint64_t serial;      /* set by the packer, in the order in which it took them */
    uint64_t arrival_ns;  /* when it was submitted */
    uint64_t deadline_ns; /* when its result is wanted; WGI_NEVER: no deadline */
    uint32_t count;
    uint16_t class_index;
    uint16_t has_types;
} wgi_record;

/* Records in the order of their arrival, with what the packer wants to know of them all. */
typedef struct wgi_record_list {
    wgi_record *first, *last;
    uint64_t record_count, token_count;
    uint64_t deadline_count; /* records with a deadline */
} wgi_record_list;

typedef struct wgi_page {
    struct wgi_page *next; /* on the free list */
    char *base;
    size_t used;
    atomic_uint holds; /* records not yet released, and 1 for the lane that fills the page */
} wgi_page;

/* Submitters are spread over lanes, each with a lock and a page of its own. */
typedef struct wgi_lane {
    pthread_mutex_t mutex;
    wgi_page *page; /* being filled, or NULL */
    bool is_closed;
    wgi_record_list lists[WG_ENGINE_CLASSES_MAX]; /* not yet taken by the packer */
    uint64_t pushed;                              /* sequences ever */
    atomic_uint inside;                           /* submitters that may touch the engine */
    char apart[64];                               /* lanes do not share a cache line */
} wgi_lane;

typedef struct wgi_queue {
    wgi_lane lanes[WGI_QUEUE_LANES];
    size_t lane_count;
    size_t class_count;
    wgi_page *pages;
    char *memory;
    size_t page_count, page_bytes;
    pthread_mutex_t pool_mutex; /* guards the free list; innermost */
    wgi_page *free_first;
    atomic_size_t free_count;
    size_t free_count_least;
    size_t reserves[WG_ENGINE_CLASSES_MAX]; /* pages that a class must leave to those before it */
    atomic_uint_least64_t token_count;      /* all that was ever pushed */
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

void wgi_record_list_append(wgi_record_list *list, wgi_record_list *more); /* empties more */
wgi_record *wgi_record_list_pop(wgi_record_list *list);                    /* NULL: empty */

/* Pages for the longest sequence and a ceiling of bytes. */
void wgi_queue_layout(size_t tokens_max, size_t pending_bytes, size_t *page_bytes,
                      size_t *page_count);
/* Every class but those of the first priority leaves a part of the pages to them. */
void wgi_queue_reserve(wgi_queue *queue, const wg_engine_class *classes);
wg_status wgi_queue_init(wgi_queue *queue, size_t page_bytes, size_t page_count, size_t class_count,
                         wg_error *err);
void wgi_queue_fini(wgi_queue *queue);

/* Around everything that a submitter does, so that a close can wait for it. */
wgi_lane *wgi_queue_enter(wgi_queue *queue);
void wgi_queue_leave(wgi_lane *lane);
/* Waits until no submitter is between enter and leave. */
void wgi_queue_empty(wgi_queue *queue);

/*
 * Any thread; never blocks for long. Takes sequences [*done, count) and moves *done on; those of
 * one thread keep their order. They were checked before.
 */
wgi_queue_answer wgi_queue_push(wgi_queue *queue, wgi_lane *lane, const wg_sequence *sequences,
                                uint64_t count, uint64_t *done, uint64_t now);
/* After it has returned, no push succeeds and all that succeeded can be drained. */
void wgi_queue_close(wgi_queue *queue);

/* Packer only. Appends what waits to lists[class_count]. */
void wgi_queue_drain(wgi_queue *queue, wgi_record_list *const *lists);
/* Packer only: `count` records of one page may be overwritten. */
void wgi_queue_release(wgi_queue *queue, wgi_page *page, unsigned count);
static inline wgi_page *wgi_queue_page(const wgi_queue *queue, const wgi_record *record)
{
    return &queue->pages[(size_t)((const char *)record - queue->memory) / queue->page_bytes];
}
/* Takes half-filled pages whose records are all gone away from idle lanes. */
void wgi_queue_reclaim(wgi_queue *queue);
/* Sequences ever pushed. */
uint64_t wgi_queue_pushed(wgi_queue *queue);
/* A page is free for a sequence of this class. */
static inline bool wgi_queue_has_space(wgi_queue *queue, size_t class_index)
{
    return atomic_load(&queue->free_count) > queue->reserves[class_index];
}
/* Most bytes that were ever held in pages. */
size_t wgi_queue_bytes_peak(wgi_queue *queue);

#endif
