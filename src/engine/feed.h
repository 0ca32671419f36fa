/*
 * feed.h - the engine as the job runner uses it: the public one (warpgroup/engine.h) with bins as
 * the model's forward pass takes them, one class, no deadlines.
 */
#ifndef WGI_FEED_H
#define WGI_FEED_H

#include <stdbool.h>

#include "base/status.h"
#include "engine/bin.h"

typedef struct wg_engine wgi_engine;

typedef struct wgi_engine_options {
    size_t bin_tokens;       /* capacity of a bin; required */
    size_t bin_sequences;    /* most sequences of a bin; 0: bin_tokens */
    size_t slot_count;       /* bins in the ring; 0: worker_count + 1, at least 2 */
    size_t worker_count;     /* consumers; required */
    size_t lookahead_tokens; /* packed over at once; 0: 32 bins */
    size_t pending_bytes; /* ceiling of what waits; 0: 4 look-aheads; at least one sequence fits */
    uint32_t position_offset;     /* position id of each sequence's first token */
    void (*ready)(void *context); /* a bin became ready or the end came; called without locks */
    void *ready_context;
} wgi_engine_options;

wg_status wgi_engine_open(wgi_engine **out, const wgi_engine_options *options, wg_error *err);

/*
 * Copies one sequence in; blocks while the queue is full. type_ids NULL: zeros. Errors: ARGUMENT
 * (empty, longer than bin_tokens), CLOSED (after finish or stop).
 */
wg_status wgi_engine_push(wgi_engine *engine, uint64_t id, const int32_t *token_ids,
                          const int32_t *type_ids, size_t count, wg_error *err);
/* No more input: what is pending is packed and handed out. */
void wgi_engine_finish(wgi_engine *engine);
/* Whoever holds the submitters back asks that pending sequences be cut now. Any thread. */
void wgi_engine_flush(wgi_engine *engine);
/* Everybody wakes; pushes fail with CLOSED, takes answer the end. */
void wgi_engine_stop(wgi_engine *engine);

typedef enum wgi_engine_answer {
    WGI_ENGINE_BIN,
    WGI_ENGINE_NONE, /* nothing ready now (only without wait) */
    WGI_ENGINE_END   /* drained or stopped */
} wgi_engine_answer;

/* Any thread. The bin belongs to the caller until wgi_engine_release (any thread, any order). */
wgi_engine_answer wgi_engine_take(wgi_engine *engine, bool wait, wgi_bin **bin);
void wgi_engine_release(wgi_engine *engine, wgi_bin *bin);
/*
 * There was no memory for the bin. True: it was taken back, and comes again in halves. False: its
 * one sequence has failed alone often enough; the bin is still the caller's, who releases it.
 */
bool wgi_engine_no_memory(wgi_engine *engine, wgi_bin *bin);

typedef struct wgi_engine_counts {
    uint64_t sequences_in, tokens_in, bins_out, sequences_out, tokens_out;
    uint64_t
        bin_tokens_offered; /* sum of capacities of the bins handed out: fill = out / offered */
    uint64_t pending_bytes_peak;
    uint64_t push_wait_ns, take_wait_ns;
} wgi_engine_counts;
wgi_engine_counts wgi_engine_counted(const wgi_engine *engine);

/* Bytes the engine allocates for these options (queue ceiling and ring). */
size_t wgi_engine_bytes(const wgi_engine_options *options);

/* All takers must have left. NULL is allowed. */
void wgi_engine_close(wgi_engine *engine);

#endif
