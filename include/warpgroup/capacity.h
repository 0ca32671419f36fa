/*
 * capacity.h - how many tokens of one bin a device holds, and from which size on it runs no faster.
 *
 * A black box: the caller runs a synthetic forward pass of n tokens and says whether it fitted;
 * the search does the rest. For callers with their own model; `warpgroup probe` uses the same
 * search.
 *
 *     static wg_fit run(void *context, uint64_t tokens, double *seconds) { ... }
 *     wg_capacity capacity;
 *     wg_capacity_measure(&capacity, &(wg_capacity_options){.run = run}, &err);
 *     capacity.tokens   use bins of at most so many tokens
 */
#ifndef WARPGROUP_CAPACITY_H
#define WARPGROUP_CAPACITY_H

#include "warpgroup/warpgroup.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wg_fit {
    WG_FIT_NO = 0, /* out of memory: the device is as it was before the try */
    WG_FIT_YES = 1,
    WG_FIT_ERROR = -1 /* something else is wrong: the search stops */
} wg_fit;

typedef enum wg_capacity_mode {
    WG_CAPACITY_DOUBLE = 0, /* x 2 from a safe start, then bisection, then an additive reserve */
    WG_CAPACITY_STEP        /* start 0, + step until it does not fit, keep a share (5,000; 0.9) */
} wg_capacity_mode;

typedef struct wg_capacity_options {
    /* Runs `tokens` tokens once; *seconds may be set to what it took. Required. */
    wg_fit (*run)(void *context, uint64_t tokens, double *seconds);
    void *context;
    wg_capacity_mode mode;
    uint64_t start_tokens;     /* DOUBLE: a size that should fit; 0: 256 */
    uint64_t tokens_max;       /* never tried above; 0: 2^31 - 1 */
    double resolution;         /* DOUBLE: bisect until the gap is below this share; 0: 0.03 */
    uint64_t reserve_tokens;   /* DOUBLE: taken off what fitted; 0: none */
    uint64_t step_tokens;      /* STEP; 0: 5000 */
    double keep;               /* STEP: share of the last success that is used; 0: 0.9 */
    int skip_knee;             /* do not time sizes below the capacity */
    uint64_t knee_from_tokens; /* smallest size to time; 0: start_tokens */
    uint32_t knee_runs;        /* runs a size for the knee, the fastest counts; 0: 3 */
    double knee_share;         /* smallest size within this share of the best rate; 0: 0.03 */
} wg_capacity_options;

#define WG_CAPACITY_TRIES_MAX 96

typedef struct wg_capacity_try {
    uint64_t tokens;
    double seconds; /* 0: not told */
    int did_fit;
    int is_for_knee;
} wg_capacity_try;

typedef struct wg_capacity {
    uint64_t tokens;         /* use this */
    uint64_t fitted_tokens;  /* the largest size that was seen to fit */
    uint64_t refused_tokens; /* the smallest that did not; 0: none was met */
    uint64_t knee_tokens;    /* 0: not measured */
    double knee_tokens_per_s, best_tokens_per_s;
    uint32_t try_count; /* the evidence, in order */
    wg_capacity_try tries[WG_CAPACITY_TRIES_MAX];
} wg_capacity;

/*
 * Errors: WG_ERR_LIMIT when even the start does not fit (the message says what was tried and
 * what to lower), WG_ERR_BACKEND after WG_FIT_ERROR, WG_ERR_ARGUMENT.
 */
WG_API WG_CHECKED wg_status wg_capacity_measure(wg_capacity *out,
                                                const wg_capacity_options *options, wg_error *err);

/*
 * Bytes that this process can still take: the least of what machine, cgroups and resource limits
 * leave. UINT64_MAX: nothing says so.
 */
WG_API uint64_t wg_memory_available(void);

/* ------------------------------------------------------------------------- of our own models */

typedef enum wg_task { WG_TASK_EMBED = 0 } wg_task;

typedef struct wg_probe_options {
    wg_task task;
    wg_embed_options embed; /* token_count_max, memory_bytes and thread_count count here */
    const char *cache_path; /* answers are kept here; NULL: $XDG_CACHE_HOME/warpgroup/capacity.jsonl
                               (~/.cache where that is not set); "": nowhere */
    int ignore_cache;       /* measure again, and keep the new answer */
    int skip_knee;
} wg_probe_options;

typedef struct wg_probe {
    uint64_t capacity_tokens; /* of one bin while every worker runs a bin of that size */
    uint64_t knee_tokens;     /* 0: not measured */
    double knee_tokens_per_s; /* all workers together */
    double best_tokens_per_s;
    uint64_t token_count_max; /* longest text */
    uint32_t thread_count;
    uint64_t held_bytes;   /* by the process before the run */
    uint64_t budget_bytes; /* ceiling of the process */
    char budget_rule[64];
    uint64_t predicted_bytes;     /* by the formula, at the capacity */
    uint64_t verified_bytes;      /* peak of the child that ran it */
    uint64_t verified_run_tokens; /* tokens a worker ran in that child; all pages were touched */
    double bytes_per_token;       /* slope of the formula, a worker */
    uint32_t tries_in_child;
    int is_from_cache;
    char key[256]; /* what the answer depends on */
} wg_probe;

/*
 * Capacity and knee of this machine for this model and task: searched in the formula of peak bytes
 * under the real budget, verified once in a child process, then timed. Call it while no job runs.
 * WG_ERR_LIMIT: not even one longest text fits; the message says what would do.
 */
WG_API WG_CHECKED wg_status wg_model_probe(const wg_model *model, const wg_probe_options *options,
                                           wg_probe *out, wg_error *err);

#ifdef __cplusplus
}
#endif
#endif
