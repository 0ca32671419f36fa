/*
 * footprint.h - peak bytes of a run as a function of bin size, longest text, workers and task; and
 * the budget that it must stay under. The same function settles a run, is searched by the probe,
 * and is what the probe's child verifies.
 */
#ifndef WGI_FOOTPRINT_H
#define WGI_FOOTPRINT_H

#include "engine/feed.h"
#include "job/handles.h"
#include "task/embed.h"

/* What a run keeps besides its bins: 0 ample, up to this where memory is short. */
#define WGI_TIGHTNESS_MAX 3

typedef struct wgi_footprint {
    const wg_model *model;
    const wgi_embed_head *head; /* of the task: what it needs beside the forward pass */
    uint32_t lane_count;
    size_t bin_tokens;
    size_t longest;     /* tokens of the longest text */
    unsigned tightness; /* at most WGI_TIGHTNESS_MAX */
} wgi_footprint;

/* Ceiling of the documents in flight. */
size_t wgi_footprint_window(const wgi_footprint *footprint);

/* The engine that a run of this shape opens. */
wgi_engine_options wgi_footprint_engine(const wgi_footprint *footprint);

/* Bytes that a run takes besides what the process holds already; SIZE_MAX when they do not fit. */
size_t wgi_footprint_bytes(const wgi_footprint *footprint);

/* MiB that a refusal names for so many bytes: what a process holds moves by some hundred KiB. */
static inline uint64_t wgi_memory_figure(uint64_t bytes)
{
    return ((bytes >> 19) + 1) / 2 + 1;
}

/* What the process may hold at most. */
typedef struct wgi_budget {
    uint64_t held;    /* held now, with what of the model will come in during a run */
    uint64_t ceiling; /* asked for, or held + nine tenths of what machine and cgroup leave */
    const char *rule; /* static text */
} wgi_budget;
wgi_budget wgi_budget_now(const wg_model *model, uint64_t asked_bytes);

#endif
