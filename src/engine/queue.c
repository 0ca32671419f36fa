/*
 * queue.c - where sequences wait for the packer.
 *
 *     submitter 1 ─▶ lane 0: lock, page ▓▓▓▓░░ ┐
 *     submitter 2 ─▶ lane 1: lock, page ▓░░░░░ ├─▶ packer drains each lane's list in one step
 *     submitter 3 ─▶ lane 0 ...                ┘   and gives a page back when its last record left
 *
 * All memory is a fixed number of pages, taken at init: that bounds the queue in bytes, and nothing
 * is allocated while it runs. A record lies in one piece in one page, so the packer copies it once,
 * from the page to the bin. A page returns to the pool when its `holds` fall to zero: one for each
 * record, one for the lane that still appends.
 *
 * With classes, the last pages are kept for the first one: bulk work that fills the queue would
 * else hold urgent submitters back at its door.
 *
 * Refused: one lock and one deque (submitters and packer meet on it for every sequence), and a byte
 * ring (the packer takes sequences out of order, so its tail would stand still behind one of them).
 *
 * Threads: push on any, drain and release on the packer. A thread keeps its lane, so its sequences
 * stay in order. Locks: lane, then pool.
 */
#include "engine/queue.h"

#include "base/alloc.h"

#include <sched.h>
#include <string.h>

#define PAGE_BYTES_LEAST    ((size_t)64 << 10)
#define RECORD_ALIGN        8u
#define RESERVE_SHARE       4u /* of the pages, for the first class */
#define RESERVE_PAGES_LEAST 4u

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

wg_status wgi_queue_init(wgi_queue *queue, size_t page_bytes, size_t page_count, size_t class_count,
                         wg_error *err)
{
    size_t bytes;

    memset(queue, 0, sizeof(*queue));
    queue->page_bytes = page_bytes;
    queue->page_count = page_count;
    queue->class_count = class_count;
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

void wgi_queue_reserve(wgi_queue *queue, const wg_engine_class *classes)
{
    uint32_t first = UINT32_MAX;

    if (queue->page_count < RESERVE_PAGES_LEAST) return;
    for (size_t c = 0; c < queue->class_count; c++)
        if (classes[c].priority < first) first = classes[c].priority;
    for (size_t c = 0; c < queue->class_count; c++)
        if (classes[c].priority != first) queue->reserves[c] = queue->page_count / RESERVE_SHARE;
}

static wgi_page *page_take(wgi_queue *queue, size_t reserve)
{
    wgi_page *page;
    size_t left;

    (void)pthread_mutex_lock(&queue->pool_mutex);
    page = atomic_load(&queue->free_count) > reserve ? queue->free_first : NULL;
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

static void page_drop(wgi_queue *queue, wgi_page *page, unsigned count)
{
    if (atomic_fetch_sub_explicit(&page->holds, count, memory_order_acq_rel) != count) return;
    (void)pthread_mutex_lock(&queue->pool_mutex);
    page->next = queue->free_first;
    queue->free_first = page;
    atomic_fetch_add(&queue->free_count, 1);
    (void)pthread_mutex_unlock(&queue->pool_mutex);
}

/* Threads are dealt out to lanes in turn. */
wgi_lane *wgi_queue_enter(wgi_queue *queue)
{
    static atomic_uint dealt;
    static _Thread_local unsigned mine; /* 0: not yet dealt */
    wgi_lane *lane;

    if (mine == 0) mine = (atomic_fetch_add(&dealt, 1) & 0x7fffffffu) + 1;
    lane = &queue->lanes[mine % queue->lane_count];
    atomic_fetch_add(&lane->inside, 1);
    return lane;
}

void wgi_queue_leave(wgi_lane *lane)
{
    atomic_fetch_sub(&lane->inside, 1);
}

void wgi_queue_empty(wgi_queue *queue)
{
    for (size_t i = 0; i < queue->lane_count; i++) {
        while (atomic_load(&queue->lanes[i].inside) > 0)
            (void)sched_yield();
    }
}

/* Makes sure that the lane's page has room; the lane is locked. */
static bool lane_has_room(wgi_queue *queue, wgi_lane *lane, size_t bytes, size_t reserve)
{
    wgi_page *page = lane->page;

    if (page && page->used + bytes <= queue->page_bytes) return true;
    if (page && atomic_load_explicit(&page->holds, memory_order_acquire) == 1) {
        page->used = 0; /* every record in it has left */
        return true;
    }
    lane->page = page_take(queue, reserve);
    if (!lane->page) {
        lane->page = page;
        return false;
    }
    if (page) page_drop(queue, page, 1);
    return true;
}

void wgi_record_list_append(wgi_record_list *list, wgi_record_list *more)
{
    if (!more->first) return;
    if (list->last)
        list->last->next = more->first;
    else
        list->first = more->first;
    list->last = more->last;
    list->record_count += more->record_count;
    list->token_count += more->token_count;
    list->deadline_count += more->deadline_count;
    memset(more, 0, sizeof(*more));
}

wgi_record *wgi_record_list_pop(wgi_record_list *list)
{
    wgi_record *record = list->first;

    if (!record) return NULL;
    list->first = record->next;
    if (!list->first) list->last = NULL;
    list->record_count--;
    list->token_count -= record->count;
    list->deadline_count -= record->deadline_ns != WGI_NEVER;
    return record;
}

static void lane_append(wgi_lane *lane, const wg_sequence *sequence, uint32_t count, uint64_t now)
{
    wgi_record *record = (wgi_record *)(void *)(lane->page->base + lane->page->used);
    wgi_record_list *list = &lane->lists[sequence->class_index];
    size_t bytes = count * sizeof(int32_t);

    record->next = NULL;
    record->id = sequence->id;
    record->serial = 0;
    record->arrival_ns = now;
    record->deadline_ns = WGI_NEVER;
    record->count = count;
    record->class_index = (uint16_t)sequence->class_index;
    record->has_types = sequence->type_ids != NULL;
    if (sequence->deadline_ns) {
        if (sequence->deadline_ns < WGI_NEVER - now)
            record->deadline_ns = now + sequence->deadline_ns;
        list->deadline_count += record->deadline_ns != WGI_NEVER;
    }
    memcpy(record + 1, sequence->token_ids, bytes);
    if (sequence->type_ids) memcpy((char *)(record + 1) + bytes, sequence->type_ids, bytes);
    if (list->last)
        list->last->next = record;
    else
        list->first = record;
    list->last = record;
    list->record_count++;
    list->token_count += count;
}

wgi_queue_answer wgi_queue_push(wgi_queue *queue, wgi_lane *lane, const wg_sequence *sequences,
                                uint64_t count, uint64_t *done, uint64_t now)
{
    wgi_queue_answer answer = WGI_QUEUE_TAKEN;
    uint64_t tokens = 0;
    unsigned records = 0; /* appended to the page, not yet among its holds */

    (void)pthread_mutex_lock(&lane->mutex);
    if (lane->is_closed) answer = WGI_QUEUE_CLOSED;
    while (answer == WGI_QUEUE_TAKEN && *done < count) {
        const wg_sequence *sequence = &sequences[*done];
        uint32_t length = (uint32_t)sequence->token_count;
        size_t bytes = record_bytes(length, sequence->type_ids != NULL);

        if (!lane->page || lane->page->used + bytes > queue->page_bytes) {
            if (records)
                atomic_fetch_add_explicit(&lane->page->holds, records, memory_order_relaxed);
            records = 0;
            if (!lane_has_room(queue, lane, bytes, queue->reserves[sequence->class_index])) {
                answer = WGI_QUEUE_FULL;
                break;
            }
        }
        lane_append(lane, sequence, length, now);
        lane->page->used += bytes;
        tokens += length;
        records++;
        lane->pushed++;
        (*done)++;
    }
    if (records) atomic_fetch_add_explicit(&lane->page->holds, records, memory_order_relaxed);
    if (tokens) atomic_fetch_add(&queue->token_count, tokens);
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

void wgi_queue_drain(wgi_queue *queue, wgi_record_list *const *lists)
{
    for (size_t i = 0; i < queue->lane_count; i++) {
        wgi_lane *lane = &queue->lanes[i];

        (void)pthread_mutex_lock(&lane->mutex);
        for (size_t c = 0; c < queue->class_count; c++)
            wgi_record_list_append(lists[c], &lane->lists[c]);
        (void)pthread_mutex_unlock(&lane->mutex);
    }
}

void wgi_queue_release(wgi_queue *queue, wgi_page *page, unsigned count)
{
    page_drop(queue, page, count);
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
        if (page) page_drop(queue, page, 1);
    }
}

uint64_t wgi_queue_pushed(wgi_queue *queue)
{
    uint64_t pushed = 0;

    for (size_t i = 0; i < queue->lane_count; i++) {
        (void)pthread_mutex_lock(&queue->lanes[i].mutex);
        pushed += queue->lanes[i].pushed;
        (void)pthread_mutex_unlock(&queue->lanes[i].mutex);
    }
    return pushed;
}

size_t wgi_queue_bytes_peak(wgi_queue *queue)
{
    size_t pages;

    (void)pthread_mutex_lock(&queue->pool_mutex);
    pages = queue->page_count - queue->free_count_least;
    (void)pthread_mutex_unlock(&queue->pool_mutex);
    return pages * queue->page_bytes;
}
