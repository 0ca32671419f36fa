/*
 * road.h - one run: documents from a source, through tokenizer, engine, model and task head, to
 * rows in input order. A job (files in, files out) and wg_model_embed (texts in, floats out) are
 * both a road with their own two ends.
 */
#ifndef WGI_ROAD_H
#define WGI_ROAD_H

#include <stdatomic.h>
#include <stdbool.h>

#include "job/handles.h"
#include "job/tally.h"
#include "output/sink.h"

typedef struct wgi_road_options {
    const wg_model *model;
    wg_embed_options embed; /* what it points to is borrowed for the run */
    uint32_t tokenizer_thread_count;
    uint32_t padded_batch;
    bool padded_sorted;
    bool plan_only;

    /* The two ends. next runs on the reader thread, put on the thread that called wgi_road_run. */
    wg_status (*next)(void *context, wg_document *document, int *has_document, wg_error *err);
    wg_status (*put)(void *context, const wgi_row *row, wg_error *err);
    wg_status (*flush)(void *context, wg_error *err); /* NULL: none; called about once a second */
    void (*interrupt)(void *context);                 /* NULL: none; wakes a next() that waits */
    /*
     * NULL: none; called a few times a second where put runs; other than 0 is a wgi_road_stop, and
     * the bins in flight are not finished.
     */
    int (*tick)(void *context);
    void *context;
} wgi_road_options;

typedef struct wgi_road wgi_road;

/*
 * Settles limits, bin size and memory, allocates all that the workers need. What cannot work with
 * these options is refused here.
 */
wg_status wgi_road_open(wgi_road **out, const wgi_road_options *options, wg_error *err);
size_t wgi_road_dim(const wgi_road *road);
bool wgi_road_is_row_a_token(const wgi_road *road);

/* Runs to the end; WG_ERR_INTERRUPTED after a stop. Once. */
wg_status wgi_road_run(wgi_road *road, wg_error *err);
void wgi_road_stop(wgi_road *road); /* any thread, async-signal-safe */

wg_progress wgi_road_progress(const wgi_road *road);   /* any thread */
const wgi_tally *wgi_road_tally(const wgi_road *road); /* after the run */
void wgi_road_close(wgi_road *road);

#endif
