/*
 * ingest.h - files into an engine: the reader and the tokenizer of the road, for programs with a
 * model of their own.
 *
 *     wg_ingest *ingest = NULL;
 *     wg_ingest_open(&ingest, &(wg_ingest_options){.input = {.inputs = paths, .input_count = n},
 *                                                  .tokenizer = tokenizer, .engine = engine},
 * &err);
 *     ... consume bins: wg_engine_next(...) ...
 *     wg_ingest_wait(ingest, WG_FOREVER, &is_done, &err);
 *     wg_ingest_close(ingest);
 *
 * One thread reads, others tokenise, and every document is submitted in input order: document k
 * (the reader's ordinal) is the engine's sequence first_id + k. Memory is bounded: a full engine
 * holds the tokenizers back, and they the reader. No document is lost: each one is told exactly
 * once, in input order, before it is submitted, so that whoever takes a bin knows every document in
 * it. However an ingest ends, it finishes the engine's input then, unless keep_open is set.
 *
 * Several ingests may feed one engine: with keep_open in all of them, and first_ids apart.
 *
 * Threads: wg_ingest_wait, wg_ingest_stop and wg_ingest_counted may be called on any thread.
 */
#ifndef WARPGROUP_INGEST_H
#define WARPGROUP_INGEST_H

#include "warpgroup/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What became of a document. Pointers are borrowed for the call. Without failure it goes into the
 * engine next; only the last one told of a run that ended early may have missed it.
 */
typedef struct wg_ingested {
    uint64_t sequence_id; /* first_id + ordinal */
    const char *id;       /* a JSON value: a quoted string, or the literal of the record */
    size_t id_bytes;
    const char *source; /* JSON text without quotes */
    size_t source_bytes;
    wg_place place_kind;
    uint64_t place;
    uint64_t token_count; /* after truncation; 0 with a failure */
    int is_truncated;
    wg_failure failure;
    const char *reason; /* a sentence; "" without failure */
} wg_ingested;

typedef struct wg_ingest_options {
    wg_reader_options input;       /* what it points to is borrowed until close */
    const wg_tokenizer *tokenizer; /* borrowed until close; NULL: records carry ready ids */
    wg_encode_options encode;      /* token_count_max 0 or above a bin of the engine: that bin */
    const char *prompt;            /* put before each text; NULL: none; borrowed until close */
    wg_engine *engine;             /* must not be closed before the ingest is */
    uint64_t first_id;
    uint32_t class_index;
    uint32_t thread_count; /* tokenizers, at most 16; 0: cores of the affinity mask, at most 8 */
    int keep_open;         /* do not finish the engine's input at the end */
    /* Called for each document in input order, on a thread of the ingest; must not block, nor close
       the ingest. NULL: none. */
    void (*document)(void *context, const wg_ingested *document);
    void *context;
} wg_ingest_options;

typedef struct wg_ingest_counts {
    wg_reader_counts reader;
    uint64_t submitted, failed, truncated, tokens;
} wg_ingest_counts;

typedef struct wg_ingest wg_ingest;

/* Starts the threads. On failure *out is NULL and nothing is left allocated or submitted. */
WG_API WG_CHECKED wg_status wg_ingest_open(wg_ingest **out, const wg_ingest_options *options,
                                           wg_error *err);
/*
 * Waits until all was submitted, at most timeout_ns (0: does not wait); *is_done 0: not yet. The
 * status is that of the run: bad input is a failed document, WG_ERR_CLOSED an engine that was
 * stopped or finished meanwhile, WG_ERR_INTERRUPTED a stop. May be asked again.
 */
WG_API WG_CHECKED wg_status wg_ingest_wait(wg_ingest *ingest, uint64_t timeout_ns, int *is_done,
                                           wg_error *err);
/*
 * Asks it to stop: what was not submitted within a moment is not submitted, nor told. Returns at
 * once.
 */
WG_API void wg_ingest_stop(wg_ingest *ingest);
WG_API wg_ingest_counts wg_ingest_counted(const wg_ingest *ingest);
/* Stops, waits for its threads, and frees. NULL is allowed. */
WG_API void wg_ingest_close(wg_ingest *ingest);

#ifdef __cplusplus
}
#endif
#endif
