/*
 * window.h - the documents in flight, in input order, between the reader and the writer.
 *
 *      written | done done .... done .. | tokenised ... | read ... |        <- ordinals rise
 *              ^ head (writer)           ^ next to tokenise         ^ tail (reader)
 *
 * Bounded by count and bytes: the reader waits for room, the writer makes room. A entry is
 * found by its ordinal. Buffers of entries are kept and used again while there is room for them
 * beside the documents in flight.
 *
 * Threads: one reader adds, tokenizers claim, workers finish, one writer takes; every field
 * is guarded by `lock`, except that a claimed entry's contents belong to whoever claimed it, and a
 * entry in a bin to the worker that runs the bin.
 */
#ifndef WGI_WINDOW_H
#define WGI_WINDOW_H

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/status.h"

#define WGI_REASON_BYTES 320

typedef struct wgi_entry {
    uint64_t ordinal;
    wgi_buf id;     /* JSON value */
    wgi_buf source; /* JSON text without quotes */
    wgi_buf text;   /* emptied once tokenised */
    bool has_ids;   /* ready ids were given: they stand in `ids` */
    int32_t *ids;
    size_t id_count, id_capacity;
    wg_place place_kind;
    uint64_t place;
    uint32_t token_count;
    bool is_truncated;
    float *vectors; /* [vector_count, dim] */
    size_t vector_count, vector_capacity;
    wg_failure failure;
    char reason[WGI_REASON_BYTES];
    bool is_done;
    size_t bytes; /* counted against the window */
    struct wgi_entry *next_free;
} wgi_entry;

typedef struct wgi_window {
    pthread_mutex_t lock;
    pthread_cond_t room; /* for the reader */
    pthread_cond_t work; /* for tokenizers */
    pthread_cond_t done; /* for the writer */
    wgi_entry **ring;    /* [capacity], a power of two; entry of ordinal o at o & (capacity - 1) */
    size_t capacity;
    uint64_t head, claimed, tail; /* head <= claimed <= tail */
    size_t count_max, bytes_max;
    size_t bytes;      /* of the documents in flight */
    size_t kept_bytes; /* of free_entries */
    bool is_input_done;
    bool is_stopped;
    wgi_entry *free_entries;
} wgi_window;

wg_status wgi_window_init(wgi_window *window, size_t count_max, size_t bytes_max, wg_error *err);
void wgi_window_fini(wgi_window *window);

/*
 * Reader: copies a document in; *had_to_wait tells that it stood at a full window once
 * (`before_wait` is called first, with the context). WG_ERR_CLOSED after a stop.
 */
wg_status wgi_window_add(wgi_window *window, const wg_document *document,
                         void (*before_wait)(void *context), void *context, wg_error *err);
void wgi_window_input_done(wgi_window *window);

/* Tokenizer: next entry to tokenise, in order; NULL when input is done or after a stop. */
wgi_entry *wgi_window_claim(wgi_window *window);

/* Any thread: the entry of an ordinal in flight. */
wgi_entry *wgi_window_find(wgi_window *window, uint64_t ordinal);
/* The entry has its vectors or its failure. */
void wgi_window_finish(wgi_window *window, wgi_entry *entry);

/*
 * Writer: the head entry once it is done (NULL after `wait_ms` without one: look at
 * wgi_window_is_drained and at the stop flag). Give it back with wgi_window_recycle.
 */
wgi_entry *wgi_window_take(wgi_window *window, uint32_t wait_ms);
void wgi_window_recycle(wgi_window *window, wgi_entry *entry);
bool wgi_window_is_drained(wgi_window *window); /* input is done and all of it was taken */

/* Everybody wakes: adds fail, claims end. Takes still hand out the done entries at the head. */
void wgi_window_stop(wgi_window *window);

#endif
