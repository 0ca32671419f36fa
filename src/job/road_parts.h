/*
 * road_parts.h - the inside of a road, shared by road.c (who hands what to whom), road_open.c
 * (limits and memory) and road_work.c (what is done to one document and one bin).
 */
#ifndef WGI_ROAD_PARTS_H
#define WGI_ROAD_PARTS_H

#include <pthread.h>

#include "base/crew.h"
#include "engine/feed.h"
#include "job/intake.h"
#include "job/padded.h"
#include "job/road.h"
#include "job/window.h"
#include "task/embed.h"

/* What one lane works with. */
typedef struct wgi_lane {
    void *bin_memory;  /* activations of a bin */
    void *pool_memory; /* scratch of the embedding head */
    uint64_t compute_ns, pool_ns;
    uint64_t bins, bins_failed, bin_tokens, rows_computed, rows_real;
    double flops;
} wgi_lane;

struct wgi_road {
    wgi_road_options options;
    wgi_embed_head head;
    wgi_text_rules rules;
    size_t prompt_skip; /* tokens that the model leaves out of pooling */

    size_t longest;     /* text that is run, at most the limit; longer ones fail */
    unsigned tightness; /* of the footprint that was settled on */
    wgi_window window;
    wgi_intake intake;
    wgi_engine *engine; /* packed, or NULL */
    wgi_padded *padded; /* padded, or NULL */
    wgi_crew *crew;
    wgi_plan plan;
    wgi_lane *lanes;    /* [lane_count] */
    void **lane_memory; /* [lane_count] */
    uint32_t lane_count;

    uint32_t *lengths; /* plan_only: of every document, in input order */
    size_t length_count, length_capacity;

    wgi_tally tally;
    atomic_ulong begin_ns;
    atomic_bool is_stop_asked, is_ending;
    atomic_bool is_broken; /* ends because of an error: no bin in flight counts any more */
    atomic_ulong documents_done, documents_failed, tokens_done;

    pthread_mutex_t lock;
    wg_status failure;
    wg_error failure_error;
};

/* road_work.c */
/* A tokenizer thread has the ids of a document: they go to the engine. */
wg_status wgi_road_encoded(void *context, wgi_entry *entry, const wgi_ids *ids, wg_error *err);
/*
 * Runs a bin and hands its vectors on. WG_ERR_NO_MEMORY: no document of it was touched. After
 * another error the device is not asked again.
 */
wg_status wgi_road_compute(wgi_road *road, wgi_bin *bin, size_t lane, wg_error *err);
/* The one document of the bin becomes a listed failure. */
void wgi_road_give_up(wgi_road *road, const wgi_bin *bin);
wg_status wgi_road_plan_add(wgi_road *road, uint32_t token_count, wg_error *err);
void wgi_road_settle(wgi_road *road); /* sums the lanes into the tally */

/*
 * Test hook, process-wide: is told of every bin after its forward pass, and what it answers stands
 * for the status of the backend. NULL: off. Set it while no road runs.
 */
typedef wg_status wgi_road_hook(void *context, const wgi_bin *bin, wg_error *err);
void wgi_road_hook_set(wgi_road_hook *hook, void *context);

/* road.c */
void wgi_road_bin_ready(void *context); /* the engine calls it */
void wgi_road_fail(void *road, wg_status status, const wg_error *err);

#endif
