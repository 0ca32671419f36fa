/*
 * window.c - the documents in flight; see window.h.
 */
#include "job/window.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/os_clock.h"

#define KEEP_BYTES ((size_t)64 << 10) /* a recycled buffer larger than this is given back */

wg_status wgi_window_init(wgi_window *window, size_t count_max, size_t bytes_max, wg_error *err)
{
    pthread_condattr_t monotonic;

    *window = (wgi_window){.count_max = count_max, .bytes_max = bytes_max, .capacity = 1024};
    window->ring = wgi_calloc(window->capacity, sizeof(wgi_entry *));
    if (!window->ring) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for the document window");
    pthread_mutex_init(&window->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&window->room, NULL);
    pthread_cond_init(&window->work, NULL);
    pthread_cond_init(&window->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return WG_OK;
}

static void entry_free(wgi_entry *entry)
{
    wgi_buf_fini(&entry->id);
    wgi_buf_fini(&entry->source);
    wgi_buf_fini(&entry->text);
    wgi_free(entry->ids);
    wgi_free(entry->vectors);
    wgi_free(entry);
}

void wgi_window_fini(wgi_window *window)
{
    if (!window->ring) return;
    for (uint64_t i = window->head; i < window->tail; i++)
        entry_free(window->ring[i & (window->capacity - 1)]);
    while (window->free_entries) {
        wgi_entry *entry = window->free_entries;
        window->free_entries = entry->next_free;
        entry_free(entry);
    }
    wgi_free(window->ring);
    pthread_cond_destroy(&window->done);
    pthread_cond_destroy(&window->work);
    pthread_cond_destroy(&window->room);
    pthread_mutex_destroy(&window->lock);
    *window = (wgi_window){0};
}

static size_t entry_bytes(const wgi_entry *entry)
{
    return sizeof(*entry) + entry->id.capacity + entry->source.capacity + entry->text.capacity +
           entry->id_capacity * sizeof(int32_t) + entry->vector_capacity * sizeof(float);
}

/* The lock is held. */
static wgi_entry *free_pop(wgi_window *window)
{
    wgi_entry *entry = window->free_entries;

    if (!entry) return NULL;
    window->free_entries = entry->next_free;
    window->kept_bytes -= entry->bytes;
    return entry;
}

/* Lets go of kept entries that there is no room for. The lock is held. */
static void free_trim(wgi_window *window)
{
    while (window->free_entries && (window->bytes >= window->bytes_max ||
                                    window->kept_bytes > window->bytes_max - window->bytes))
        entry_free(free_pop(window));
}

/* Copies what the reader only lends. */
static wg_status entry_fill(wgi_entry *entry, const wg_document *document, wg_error *err)
{
    wg_status status = WG_OK;

    entry->ordinal = document->ordinal;
    entry->place_kind = document->place_kind;
    entry->place = document->place;
    entry->failure = document->failure;
    entry->is_done = document->failure != WG_FAILURE_NONE;
    WGI_TRY(wgi_buf_append(&entry->id, document->id, document->id_bytes, err));
    WGI_TRY(wgi_buf_append(&entry->source, document->source, document->source_bytes, err));
    if (document->failure != WG_FAILURE_NONE) {
        size_t length = strnlen(document->reason, sizeof(entry->reason) - 1);
        memcpy(entry->reason, document->reason, length);
        entry->reason[length] = 0;
        goto cleanup;
    }
    entry->has_ids = document->token_ids != NULL;
    if (entry->has_ids) {
        WGI_TRY(wgi_grow(&entry->ids, &entry->id_capacity, document->token_count, sizeof(int32_t),
                         err));
        if (document->token_count)
            memcpy(entry->ids, document->token_ids, document->token_count * sizeof(int32_t));
        entry->id_count = document->token_count;
    } else {
        WGI_TRY(wgi_buf_append(&entry->text, document->text, document->text_bytes, err));
    }

cleanup:
    entry->bytes = entry_bytes(entry);
    return status;
}

/* Called with the lock held. */
static wg_status ring_grow(wgi_window *window, wg_error *err)
{
    size_t grown = window->capacity * 2;
    wgi_entry **ring = wgi_calloc(grown, sizeof(wgi_entry *));

    if (!ring)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu documents in flight", grown);
    for (uint64_t i = window->head; i < window->tail; i++)
        ring[i & (grown - 1)] = window->ring[i & (window->capacity - 1)];
    wgi_free(window->ring);
    window->ring = ring;
    window->capacity = grown;
    return WG_OK;
}

wg_status wgi_window_add(wgi_window *window, const wg_document *document,
                         void (*before_wait)(void *context), void *context, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_entry *entry;

    pthread_mutex_lock(&window->lock);
    while (
        !window->is_stopped && window->tail > window->head &&
        (window->tail - window->head >= window->count_max || window->bytes >= window->bytes_max)) {
        if (before_wait) {
            pthread_mutex_unlock(&window->lock);
            before_wait(context);
            before_wait = NULL;
            pthread_mutex_lock(&window->lock);
            continue;
        }
        pthread_cond_wait(&window->room, &window->lock);
    }
    entry = free_pop(window);
    if (window->is_stopped) status = wgi_fail(err, WG_ERR_CLOSED, "the run was stopped");
    if (status == WG_OK && window->tail - window->head == window->capacity)
        status = ring_grow(window, err);
    pthread_mutex_unlock(&window->lock);

    if (status == WG_OK && !entry) entry = wgi_calloc(1, sizeof(*entry));
    if (status == WG_OK && !entry)
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a document entry");
    if (status == WG_OK) status = entry_fill(entry, document, err);

    if (status != WG_OK) {
        if (entry) wgi_window_recycle(window, entry);
        return status;
    }
    pthread_mutex_lock(&window->lock);
    /* Only the reader moves the tail, so the place that was free is still free. */
    window->ring[window->tail++ & (window->capacity - 1)] = entry;
    window->bytes += entry->bytes;
    free_trim(window);
    pthread_cond_signal(&window->work);
    if (entry->is_done) pthread_cond_signal(&window->done);
    pthread_mutex_unlock(&window->lock);
    return WG_OK;
}

void wgi_window_input_done(wgi_window *window)
{
    pthread_mutex_lock(&window->lock);
    window->is_input_done = true;
    pthread_cond_broadcast(&window->work);
    pthread_cond_broadcast(&window->done);
    pthread_mutex_unlock(&window->lock);
}

wgi_entry *wgi_window_claim(wgi_window *window)
{
    wgi_entry *entry = NULL;

    pthread_mutex_lock(&window->lock);
    while (!entry && !window->is_stopped) {
        if (window->claimed == window->tail) {
            if (window->is_input_done) break;
            pthread_cond_wait(&window->work, &window->lock);
            continue;
        }
        entry = window->ring[window->claimed++ & (window->capacity - 1)];
        if (entry->is_done) entry = NULL; /* a failure of the reader: nothing to tokenise */
    }
    pthread_mutex_unlock(&window->lock);
    return entry;
}

wgi_entry *wgi_window_find(wgi_window *window, uint64_t ordinal)
{
    pthread_mutex_lock(&window->lock);
    wgi_entry *entry = NULL;
    if (ordinal >= window->head && ordinal < window->tail)
        entry = window->ring[ordinal & (window->capacity - 1)];
    pthread_mutex_unlock(&window->lock);
    return entry;
}

void wgi_window_finish(wgi_window *window, wgi_entry *entry)
{
    size_t bytes = entry_bytes(entry);

    pthread_mutex_lock(&window->lock);
    window->bytes += bytes - entry->bytes;
    entry->bytes = bytes;
    free_trim(window);
    entry->is_done = true;
    if (entry->ordinal == window->head) pthread_cond_signal(&window->done);
    pthread_mutex_unlock(&window->lock);
}

/* Called with the lock held. A failure of the reader may lie between head and claimed or behind
 * it; it is taken only once claimed has passed, so that head <= claimed holds. */
static wgi_entry *head_if_done(wgi_window *window)
{
    if (window->head == window->tail) return NULL;
    wgi_entry *entry = window->ring[window->head & (window->capacity - 1)];
    if (!entry->is_done) return NULL;
    if (window->claimed == window->head) window->claimed++;
    window->head++;
    window->bytes -= entry->bytes;
    return entry;
}

wgi_entry *wgi_window_take(wgi_window *window, uint32_t wait_ms)
{
    struct timespec until = wgi_clock_after_ms(wait_ms);

    pthread_mutex_lock(&window->lock);
    wgi_entry *entry = head_if_done(window);
    while (!entry && !(window->is_input_done && window->head == window->tail) &&
           pthread_cond_timedwait(&window->done, &window->lock, &until) != ETIMEDOUT)
        entry = head_if_done(window);
    if (!entry) entry = head_if_done(window);
    pthread_mutex_unlock(&window->lock);
    return entry;
}

void wgi_window_recycle(wgi_window *window, wgi_entry *entry)
{
    if (entry->text.capacity > KEEP_BYTES) wgi_buf_fini(&entry->text);
    if (entry->id_capacity * sizeof(int32_t) > KEEP_BYTES) {
        wgi_free(entry->ids);
        entry->ids = NULL;
        entry->id_capacity = 0;
    }
    if (entry->vector_capacity * sizeof(float) > KEEP_BYTES) {
        wgi_free(entry->vectors);
        entry->vectors = NULL;
        entry->vector_capacity = 0;
    }
    entry->id.count = entry->source.count = entry->text.count = 0;
    entry->id_count = entry->vector_count = 0;
    entry->token_count = 0;
    entry->is_truncated = entry->is_done = entry->has_ids = false;
    entry->failure = WG_FAILURE_NONE;
    entry->reason[0] = 0;
    entry->bytes = entry_bytes(entry);

    pthread_mutex_lock(&window->lock);
    entry->next_free = window->free_entries;
    window->free_entries = entry;
    window->kept_bytes += entry->bytes;
    free_trim(window);
    pthread_cond_signal(&window->room);
    pthread_mutex_unlock(&window->lock);
}

bool wgi_window_is_drained(wgi_window *window)
{
    pthread_mutex_lock(&window->lock);
    bool is_drained = window->is_input_done && window->head == window->tail;
    pthread_mutex_unlock(&window->lock);
    return is_drained;
}

void wgi_window_stop(wgi_window *window)
{
    pthread_mutex_lock(&window->lock);
    window->is_stopped = true;
    pthread_cond_broadcast(&window->room);
    pthread_cond_broadcast(&window->work);
    pthread_cond_broadcast(&window->done);
    pthread_mutex_unlock(&window->lock);
}
