/*
 * queue.c - where sequences wait for the packer.
 *
 *     submitter 1 ─▶ lane 0: lock, page ▓▓▓▓░░ ┐
 *     submitter 2 ─▶ lane 1: lock, page ▓░░░░░ ├─▶ packer drains each lane's list in one step
 *     submitter 3 ─▶ lane 0 ...                ┘   and gives a page back when its last record left
 *
 * All memory is a fixed number of pages, taken at init: that bounds the queue in bytes, and
 * nothing is allocated while it runs. A record lies in one piece in one page, so the packer copies
 * it once, from the page to the bin. A page returns to the pool when its `holds` fall to zero:
 * one for each record, one for the lane that still appends.
 *
 * Refused: one lock and one deque (submitters and packer meet on it for every sequence), and a byte
 * ring (the packer takes sequences out of order, so its tail would stand still behind one of them).
 *
 * Threads: push on any, drain and release on the packer. A thread keeps its lane, so its
 * sequences stay in order. Locks: lane, then pool.
 */
#include "engine/queue.h"

#include "base/alloc.h"

#include <string.h>

#define PAGE_BYTES_LEAST ((size_t)64 << 10)
#define RECORD_ALIGN     8u

static size_t record_bytes(size_t tokens, bool has_types)
{
    size_t bytes = sizeof(wgi_record) + tokens * sizeof(int32_t) * (has_types ? 2 : 1);

    return (bytes + RECORD_ALIGN - 1) & ~(size_t)(RECORD_ALIGN - 1);
}

void wgi_queue_layout(size_t tokens_max, size_t pending_bytes, size_t *page_bytes,
                      size_t *page_count)
{
    size_t longest = record_bytes(tokens_max, true);

    *page_bytes = pending_bytes / 16;
    if (*page_bytes < PAGE_BYTES_LEAST) *page_bytes = PAGE_BYTES_LEAST;
    if (*page_bytes > pending_bytes) *page_bytes = pending_bytes;
    *page_bytes &= ~(size_t)63;
    if (*page_bytes < longest) *page_bytes = (longest + 63) & ~(size_t)63;
    *page_count = pending_bytes / *page_bytes;
    if (*page_count < 1) *page_count = 1;
}

wg_status wgi_queue_init(wgi_queue *queue, size_t page_bytes, size_t page_count, wg_error *err)
{
    size_t bytes;

    memset(queue, 0, sizeof(*queue));
    queue->page_bytes = page_bytes;
    queue->page_count = page_count;
    queue->lane_count = page_count < WGI_QUEUE_LANES ? page_count : WGI_QUEUE_LANES;
    (void)pthread_mutex_init(&queue->pool_mutex, NULL);
    for (size_t i = 0; i < WGI_QUEUE_LANES; i++)
        (void)pthread_mutex_init(&queue->lanes[i].mutex, NULL);
    queue->pages = wgi_calloc(page_count, sizeof(queue->pages[0]));
    queue->memory = wgi_mul(page_bytes, page_count, &bytes) ? wgi_malloc_aligned(64, bytes) : NULL;
    if (!queue->pages || !queue->memory) {
        wgi_queue_fini(queue);
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu pages of %zu bytes in the queue",
                        page_count, page_bytes);
    }
    for (size_t i = page_count; i-- > 0;) {
        queue->pages[i].base = queue->memory + i * page_bytes;
        queue->pages[i].next = queue->free_first;
        queue->free_first = &queue->pages[i];
    }
    atomic_store(&queue->free_count, page_count);
    queue->free_count_least = page_count;
    return WG_OK;
}

void wgi_queue_fini(wgi_queue *queue)
{
    if (queue->page_count == 0) return;
    for (size_t i = 0; i < WGI_QUEUE_LANES; i++)
        (void)pthread_mutex_destroy(&queue->lanes[i].mutex);
    (void)pthread_mutex_destroy(&queue->pool_mutex);
    wgi_free(queue->pages);
    wgi_free(queue->memory);
    memset(queue, 0, sizeof(*queue));
}

static wgi_page *page_take(wgi_queue *queue)
{
    wgi_page *page;
    size_t left;

    (void)pthread_mutex_lock(&queue->pool_mutex);
    page = queue->free_first;
    if (page) {
        queue->free_first = page->next;
        left = atomic_fetch_sub(&queue->free_count, 1) - 1;
        if (left < queue->free_count_least) queue->free_count_least = left;
    }
    (void)pthread_mutex_unlock(&queue->pool_mutex);
    if (page) {
        page->used = 0;
        atomic_store_explicit(&page->holds, 1, memory_order_relaxed);
    }
    return page;
}

static void page_drop(wgi_queue *queue, wgi_page *page)
{
    if (atomic_fetch_sub_explicit(&page->holds, 1, memory_order_acq_rel) != 1) return;
    (void)pthread_mutex_lock(&queue->pool_mutex);
    page->next = queue->free_first;
    queue->free_first = page;
    atomic_fetch_add(&queue->free_count, 1);
    (void)pthread_mutex_unlock(&queue->pool_mutex);
}

/* Which lane this thread uses; threads are dealt out in turn. */
static wgi_lane *lane_of_thread(wgi_queue *queue)
{
    static atomic_uint dealt;
    static _Thread_local unsigned mine; /* 0: not yet dealt */

    if (mine == 0) mine = (atomic_fetch_add(&dealt, 1) & 0x7fffffffu) + 1;
    return &queue->lanes[mine % queue->lane_count];
}

/* Makes sure that the lane's page has room; the lane is locked. */
static bool lane_has_room(wgi_queue *queue, wgi_lane *lane, size_t bytes)
{
    wgi_page *page = lane->page;

    if (page && page->used + bytes <= queue->page_bytes) return true;
    if (page && atomic_load_explicit(&page->holds, memory_order_acquire) == 1) {
        page->used = 0; /* every record in it has left */
        return true;
    }
    lane->page = page_take(queue);
    if (!lane->page) {
        lane->page = page;
        return false;
    }
    if (page) page_drop(queue, page);
    return true;
}

static void lane_append(wgi_lane *lane, wgi_record *record)
{
    record->next = NULL;
    if (lane->last)
        lane->last->next = record;
    else
        lane->first = record;
    lane->last = record;
    lane->record_count++;
}

wgi_queue_answer wgi_queue_push(wgi_queue *queue, uint64_t id, const int32_t *token_ids,
                                const int32_t *type_ids, uint32_t count)
{
    wgi_lane *lane = lane_of_thread(queue);
    wgi_queue_answer answer = WGI_QUEUE_TAKEN;
    size_t bytes = record_bytes(count, type_ids != NULL);

    (void)pthread_mutex_lock(&lane->mutex);
    if (lane->is_closed) {
        answer = WGI_QUEUE_CLOSED;
    } else if (!lane_has_room(queue, lane, bytes)) {
        answer = WGI_QUEUE_FULL;
    } else {
        wgi_record *record = (wgi_record *)(void *)(lane->page->base + lane->page->used);

        record->id = id;
        record->serial = 0;
        record->count = count;
        record->has_types = type_ids != NULL;
        memcpy(record + 1, token_ids, count * sizeof(int32_t));
        if (type_ids)
            memcpy((char *)(record + 1) + count * sizeof(int32_t), type_ids,
                   count * sizeof(int32_t));
        lane->page->used += bytes;
        atomic_fetch_add_explicit(&lane->page->holds, 1, memory_order_relaxed);
        lane_append(lane, record);
        atomic_fetch_add(&queue->token_count, count);
    }
    (void)pthread_mutex_unlock(&lane->mutex);
    return answer;
}

void wgi_queue_close(wgi_queue *queue)
{
    for (size_t i = 0; i < queue->lane_count; i++) {
        (void)pthread_mutex_lock(&queue->lanes[i].mutex);
        queue->lanes[i].is_closed = true;
        (void)pthread_mutex_unlock(&queue->lanes[i].mutex);
    }
}

uint64_t wgi_queue_drain(wgi_queue *queue, wgi_record **first, wgi_record **last)
{
    uint64_t drained = 0;

    for (size_t i = 0; i < queue->lane_count; i++) {
        wgi_lane *lane = &queue->lanes[i];

        (void)pthread_mutex_lock(&lane->mutex);
        if (lane->first) {
            if (*last)
                (*last)->next = lane->first;
            else
                *first = lane->first;
            *last = lane->last;
            drained += lane->record_count;
            lane->first = lane->last = NULL;
            lane->record_count = 0;
        }
        (void)pthread_mutex_unlock(&lane->mutex);
    }
    return drained;
}

void wgi_queue_release(wgi_queue *queue, const wgi_record *record)
{
    size_t at = (size_t)((const char *)record - queue->memory);

    page_drop(queue, &queue->pages[at / queue->page_bytes]);
}

void wgi_queue_reclaim(wgi_queue *queue)
{
    for (size_t i = 0; i < queue->lane_count; i++) {
        wgi_lane *lane = &queue->lanes[i];
        wgi_page *page = NULL;

        (void)pthread_mutex_lock(&lane->mutex);
        if (lane->page && atomic_load(&lane->page->holds) == 1) {
            page = lane->page;
            lane->page = NULL;
        }
        (void)pthread_mutex_unlock(&lane->mutex);
        if (page) page_drop(queue, page);
    }
}

size_t wgi_queue_bytes_peak(wgi_queue *queue)
{
    size_t pages;

    (void)pthread_mutex_lock(&queue->pool_mutex);
    pages = queue->page_count - queue->free_count_least;
    (void)pthread_mutex_unlock(&queue->pool_mutex);
    return pages * queue->page_bytes;
}
