/*
 * engine.h - token ids in, packed bins out, for programs with a model of their own.
 *
 * An engine queues sequences from any number of threads, packs them end to end into bins of a fixed
 * capacity, and hands the bins to any number of consumers.
 *
 *     wg_engine *engine = NULL;
 *     wg_engine_open(&engine, &(wg_engine_options){.bin_tokens = 16384}, &err);
 *
 *     producer:  wg_engine_submit(engine, &(wg_sequence){.id = 7, .token_ids = ids,
 *                                                        .token_count = n}, &err);
 *                wg_engine_finish(engine, &err);
 *     consumer:  for (;;) {
 *                    wg_bin bin;
 *                    wg_next next;
 *                    if (wg_engine_next(engine, NULL, WG_FOREVER, &bin, &next, &err) != WG_OK ||
 *                        next != WG_NEXT_BIN)
 *                        break;
 *                    ... run the model over bin.token_ids with bin.cu_seqlens ...
 *                    wg_engine_release(engine, &bin, &err);
 *                }
 *     at the end: wg_engine_close(engine);
 *
 * A bin holds T tokens and S sequences and no pad token inside any of them:
 *
 *     token_ids     [ 101 7 9 102 | 101 5 102 | 101 8 8 8 102 ]    T
 *     position_ids  [   0 1 2   3 |   0 1   2 |   0 1 2 3   4 ]    T
 *     cu_seqlens    [ 0             4           7           12 ]   S + 1
 *     segments      {row 0, 4 rows} {row 4, 3 rows} {row 7, 5 rows}
 *
 * Threads: every call may be made on any thread at any time, except that no call may begin once
 * wg_engine_close() was called. Misuse (a null pointer, an empty sequence, one longer than a bin, a
 * submission after the end, a bin given back twice) is WG_ERR_ARGUMENT or WG_ERR_CLOSED with a
 * sentence, never a silent no-op. After opening nothing is allocated.
 */
#ifndef WARPGROUP_ENGINE_H
#define WARPGROUP_ENGINE_H

#include "warpgroup/warpgroup.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wg_engine wg_engine;

/* ------------------------------------------------------------------------------------- options */

#define WG_ENGINE_CLASSES_MAX 8

/*
 * A class of sequences, served as in logical channel prioritisation (3GPP TS 38.321): in each bin
 * first every class, in order of priority, up to what its token bucket holds; then what room is
 * left in strict priority. A class with a bucket is never starved.
 */
typedef struct wg_engine_class {
    uint32_t priority;     /* 0 is served first; classes of equal priority in order of index */
    uint64_t tokens_per_s; /* what fills the bucket; 0: a 32nd of each bin */
    uint32_t burst_ms;     /* the bucket holds so many milliseconds' worth; 0: 100 */
} wg_engine_class;

typedef enum wg_engine_window {
    WG_WINDOW_ADAPTIVE = 0, /* from arrival rate and service time */
    WG_WINDOW_FIXED         /* after window_sequences or window_us, whichever is first */
} wg_engine_window;

/*
 * The device side of a bin's memory, for a backend that copies from it asynchronously. All pointers
 * may be NULL. copy() begins to copy a filled bin; wait() returns when the memory of that slot is
 * no longer read, and is called before the slot is filled again. Both are called on the engine's
 * thread.
 */
struct wg_bin;
typedef struct wg_engine_stage {
    void *(*allocate)(void *context, uint64_t bytes); /* pinned memory for a slot, at opening */
    void (*deallocate)(void *context, void *memory, uint64_t bytes);
    void (*copy)(void *context, const struct wg_bin *bin);
    void (*wait)(void *context, uint32_t slot);
    void *context;
} wg_engine_stage;

typedef struct wg_engine_options {
    uint64_t bin_tokens;       /* capacity of a bin, at most 2^31 - 1; required */
    uint64_t bin_sequences;    /* most sequences of a bin; 0: bin_tokens */
    uint64_t bin_squares;      /* most of the sum of n * n, for attention's share; 0: no limit */
    uint32_t token_multiple;   /* a bin's row_count is rounded up to this; 0: 1 */
    uint32_t worker_count;     /* consumers that run at once; 0: 1 */
    uint32_t slot_count;       /* bins in the ring; 0: worker_count + 1, at least 2 */
    uint64_t lookahead_tokens; /* packed over at once; 0: 32 bins */
    uint64_t pending_bytes;    /* ceiling of what waits, at least one sequence; 0: 4 look-aheads */
    uint32_t position_offset;  /* position id of every sequence's first token */
    wg_engine_window window;
    uint32_t window_sequences;      /* FIXED; 0: 16 */
    uint32_t window_us;             /* FIXED, and the longest wait of ADAPTIVE; 0: 5000 */
    const wg_engine_class *classes; /* [class_count], copied; NULL: one class */
    uint32_t class_count;
    wg_engine_stage stage;
    /* A bin became ready or the end came; for consumers that poll. Called without locks on some
     * thread; may submit (WG_ERR_BUSY instead of waiting) and may close the engine. */
    void (*ready)(void *context);
    void *ready_context;
} wg_engine_options;

/* Starts the packer thread. On failure *out is NULL and nothing is left allocated. */
WG_API WG_CHECKED wg_status wg_engine_open(wg_engine **out, const wg_engine_options *options,
                                           wg_error *err);

/* Bytes that opening with these options allocates; 0 when they are not valid. */
WG_API uint64_t wg_engine_bytes(const wg_engine_options *options);

/* ------------------------------------------------------------------------------------ submitting
 */

/* Ids are copied by the call. */
typedef struct wg_sequence {
    uint64_t id;              /* the caller's; need not be unique */
    const int32_t *token_ids; /* [token_count] */
    const int32_t *type_ids;  /* [token_count]; NULL: zeros */
    uint64_t token_count;     /* 1 to bin_tokens */
    uint32_t class_index;     /* below class_count */
    uint64_t deadline_ns;     /* result wanted so many nanoseconds from now; 0: no deadline */
} wg_sequence;

/* Waits while the queue is full. WG_ERR_CLOSED: the sequence came after finish, stop or close. */
WG_API WG_CHECKED wg_status wg_engine_submit(wg_engine *engine, const wg_sequence *sequence,
                                             wg_error *err);

/*
 * The same for many, at a fraction of the cost. All are checked first: a bad one is WG_ERR_ARGUMENT
 * and none is taken. *taken (may be NULL) says how many were when the input was closed meanwhile.
 */
WG_API WG_CHECKED wg_status wg_engine_submit_bulk(wg_engine *engine, const wg_sequence *sequences,
                                                  uint64_t count, uint64_t *taken, wg_error *err);

/*
 * As wg_engine_submit_bulk, but waits for room at most timeout_ns (0: does not wait): WG_OK with
 * *taken below count when the time was up. For callers that must look up now and then, at a signal
 * or at another queue.
 */
WG_API WG_CHECKED wg_status wg_engine_submit_within(wg_engine *engine, const wg_sequence *sequences,
                                                    uint64_t count, uint64_t timeout_ns,
                                                    uint64_t *taken, wg_error *err);

/* No more input: what is pending is packed and handed out. Again: no effect. */
WG_API WG_CHECKED wg_status wg_engine_finish(wg_engine *engine, wg_error *err);

/* What is pending now goes out without waiting for company. */
WG_API WG_CHECKED wg_status wg_engine_flush(wg_engine *engine, wg_error *err);

/* Gives up: submissions and wg_engine_next() answer WG_ERR_CLOSED, who waits is woken. */
WG_API WG_CHECKED wg_status wg_engine_stop(wg_engine *engine, wg_error *err);

/* -------------------------------------------------------------------------------------- consuming
 */

typedef struct wg_segment {
    uint32_t row;      /* first row in the bin */
    uint32_t count;    /* rows */
    uint32_t position; /* position of its first row in the text (0 for a whole text) */
} wg_segment;

/* A view; what it points to is the engine's and valid until the bin is given back. */
typedef struct wg_bin {
    const int32_t *token_ids;     /* [row_count] */
    const int32_t *type_ids;      /* [row_count] */
    const int32_t *position_ids;  /* [row_count] */
    const int32_t *cu_seqlens;    /* [S + 1] */
    const wg_segment *segments;   /* [S] */
    const uint64_t *sequence_ids; /* [S] as submitted */
    uint64_t token_count;         /* T */
    uint64_t row_count;           /* T rounded up to token_multiple; rows from T on are nobody's */
    uint64_t sequence_count;      /* S */
    uint64_t longest;             /* most rows of one segment: max_seqlen */
    uint32_t slot;                /* which slot of the ring holds it */
    uint64_t ticket;              /* the engine's: which hand-out this is */
} wg_bin;

typedef enum wg_next {
    WG_NEXT_BIN,    /* *bin was filled in */
    WG_NEXT_NONE,   /* nothing within the time allowed */
    WG_NEXT_DRAINED /* the input is done and nothing will come, unless this consumer gives a bin
                       that it still holds back as failed */
} wg_next;

#define WG_FOREVER UINT64_MAX

/* Who takes bins. Optional: without one, bins that are never given back are lost. */
typedef struct wg_consumer wg_consumer;
WG_API WG_CHECKED wg_status wg_consumer_open(wg_consumer **out, wg_engine *engine, wg_error *err);
/* Bins that it still holds are handed out again. NULL is allowed; also after wg_engine_close(). */
WG_API void wg_consumer_close(wg_consumer *consumer);

/*
 * Waits for a bin, at most timeout_ns (0: does not wait). consumer may be NULL; all who pass NULL
 * count as one. The bin may be given back by any thread, in any order.
 */
WG_API WG_CHECKED wg_status wg_engine_next(wg_engine *engine, wg_consumer *consumer,
                                           uint64_t timeout_ns, wg_bin *bin, wg_next *next,
                                           wg_error *err);

/* The bin is done. */
WG_API WG_CHECKED wg_status wg_engine_release(wg_engine *engine, const wg_bin *bin, wg_error *err);

typedef enum wg_fault {
    WG_FAULT_MEMORY, /* it did not fit: split, and bins become smaller for a while */
    WG_FAULT_OTHER   /* handed out once more as it is, then split until the culprit is alone */
} wg_fault;

/*
 * The bin could not be done. *is_given_up 0: it is taken back and its sequences are handed out
 * again. 1: it holds one sequence that fails alone; the bin is still the caller's, who reads its
 * id, reports it, and releases it.
 */
WG_API WG_CHECKED wg_status wg_engine_fail(wg_engine *engine, const wg_bin *bin, wg_fault fault,
                                           int *is_given_up, wg_error *err);

/* DLPack 1.x (dlpack.h), declared here only. */
struct DLManagedTensorVersioned;

typedef enum wg_bin_array {
    WG_ARRAY_TOKEN_IDS,    /* int32 [row_count] */
    WG_ARRAY_TYPE_IDS,     /* int32 [row_count] */
    WG_ARRAY_POSITION_IDS, /* int32 [row_count] */
    WG_ARRAY_CU_SEQLENS,   /* int32 [S + 1] */
    WG_ARRAY_SEQUENCE_IDS  /* uint64 [S] */
} wg_bin_array;

/*
 * An array of a bin as a read-only tensor, not copied. The slot is not filled again before the bin
 * was given back and every export's deleter was called (on any thread, also after
 * wg_engine_close()). WG_ERR_BUSY: 16 exports of the bin are out.
 */
WG_API WG_CHECKED wg_status wg_engine_export(wg_engine *engine, const wg_bin *bin,
                                             wg_bin_array array,
                                             struct DLManagedTensorVersioned **out, wg_error *err);

/* ------------------------------------------------------------------------------------- statistics
 */

/* Why bins were cut. */
typedef struct wg_engine_cuts {
    uint64_t full;     /* enough was waiting */
    uint64_t idle;     /* a consumer waited, and waiting longer would not have paid */
    uint64_t deadline; /* a deadline was near */
    uint64_t window;   /* the fixed window was over */
    uint64_t pressed;  /* end of input, flush, or a submitter held back by a full queue */
    uint64_t again;    /* the rest of a bin that failed */
} wg_engine_cuts;

typedef struct wg_engine_stats {
    uint64_t sequences_in, tokens_in;
    uint64_t sequences_out, tokens_out; /* in bins cut; what is handed out again counts once */
    uint64_t bins_out;
    uint64_t bin_tokens_offered; /* fill is tokens_out / bin_tokens_offered */
    uint64_t sequences_done;     /* given back as done */
    uint64_t sequences_given_up; /* failed alone */
    uint64_t bins_failed;
    uint64_t capacity_tokens; /* of a bin now; below bin_tokens after a WG_FAULT_MEMORY */
    uint64_t deadlines_met, deadlines_missed;
    uint64_t pending_bytes_peak;
    uint64_t submit_wait_ns, next_wait_ns;         /* slept by submitters; by consumers */
    uint64_t class_wait_ns[WG_ENGINE_CLASSES_MAX]; /* submission to cut, summed */
    uint64_t class_sequences[WG_ENGINE_CLASSES_MAX];
    wg_engine_cuts cuts;
    /* As it stands: with every slot taken or exported no bin can be made. */
    uint32_t slot_count;
    uint32_t slots_taken;    /* handed out and not given back */
    uint32_t slots_exported; /* given back, but tensors of it are out */
    int is_drained;          /* 1: the input is finished and the last bin was handed out */
} wg_engine_stats;

WG_API WG_CHECKED wg_status wg_engine_statistics(wg_engine *engine, wg_engine_stats *stats,
                                                 wg_error *err);

/*
 * Stops, wakes everybody, waits until they have left, and frees. Bins that are held and tensors
 * that are exported stay valid, and may be given back; the last one frees what is left. Called from
 * `ready` it takes effect when that returns. NULL is allowed.
 */
WG_API void wg_engine_close(wg_engine *engine);

/* ------------------------------------------------------------------------------------------
 * packing */

typedef enum wg_pack_policy {
    WG_PACK_FIRST_FIT = 0, /* first-fit decreasing */
    WG_PACK_BEST_FIT,      /* best-fit decreasing: the fullest bin that still has room */
    WG_PACK_BALANCED       /* a given number of bins, even in cost, longest first to the cheapest */
} wg_pack_policy;

typedef struct wg_pack_options {
    wg_pack_policy policy;
    uint64_t tokens;                 /* of a bin; required, BALANCED: 0 for no limit */
    uint64_t sequences;              /* of a bin; 0: no limit */
    uint64_t squares;                /* sum of n * n of a bin; 0: no limit */
    uint64_t multiple;               /* a bin's total is rounded up to this; 0: 1 */
    uint64_t bin_count;              /* BALANCED: bins to spread over */
    double cost_linear, cost_square; /* BALANCED: cost of n tokens; both 0: n */
} wg_pack_options;

typedef struct wg_pack_result {
    uint64_t bin_count;
    uint64_t bin_count_least; /* no packing needs fewer (Martello and Toth's L2) */
    uint64_t token_count;
    double fill;                 /* token_count / (bin_count * tokens) */
    double cost_most, cost_mean; /* BALANCED: of the bins */
} wg_pack_result;

/*
 * Bins for `count` lengths, a pure function: bin_of[i] is the bin of sequence i. A length of 0 or
 * above the limits is WG_ERR_ARGUMENT naming its index.
 */
WG_API WG_CHECKED wg_status wg_pack(uint32_t *bin_of, const uint32_t *lengths, uint64_t count,
                                    const wg_pack_options *options, wg_pack_result *result,
                                    wg_error *err);

#ifdef __cplusplus
}
#endif
#endif
