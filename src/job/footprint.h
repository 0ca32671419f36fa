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

/* Ceiling of the documents in flight; a run that is short of memory takes less. */
#define WGI_WINDOW_BYTES ((size_t)48 << 20)

typedef struct wgi_footprint {
    const wg_model *model;
    const wgi_embed_head *head; /* of the task: what it needs beside the forward pass */
    uint32_t lane_count;
    size_t bin_tokens;
    size_t longest;      /* tokens of the longest text */
    size_t window_bytes; /* documents in flight */
} wgi_footprint;

/* The engine that a run of this shape opens. */
wgi_engine_options wgi_footprint_engine(const wgi_footprint *footprint);

/* Bytes that a run takes besides what the process holds already; SIZE_MAX when they do not fit. */
size_t wgi_footprint_bytes(const wgi_footprint *footprint);

/* What the process may hold at most. */
typedef struct wgi_budget {
    uint64_t held;    /* held now, with what of the model will come in during a run */
    uint64_t ceiling; /* asked for, or held + nine tenths of what machine and cgroup leave */
    const char *rule; /* static text */
} wgi_budget;
wgi_budget wgi_budget_now(const wg_model *model, uint64_t asked_bytes);

#endif
