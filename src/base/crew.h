/*
 * crew.h - the compute workers of one device, each a "lane", and how they help one another.
 *
 * A lane takes a task (a bin) and runs it alone. Only when there are fewer tasks than lanes does an
 * idle lane join the loops of a busy one: a task offers its row blocks and attention tiles as
 * loops of independent items, and whoever is idle takes items from it. Items are the same
 * whoever computes them, so bits do not depend on help. The alternative, splitting every bin over
 * all threads, needs a barrier a layer and measured no faster (docs/decisions.md).
 *
 * Threads: the crew owns its threads, named wg-cpu-N. take() and run() are called on them.
 */
#ifndef WGI_CREW_H
#define WGI_CREW_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct wgi_crew wgi_crew;

typedef enum wgi_crew_answer {
    WGI_CREW_TASK, /* *task was set */
    WGI_CREW_NONE, /* nothing now; wgi_crew_wake() will tell */
    WGI_CREW_END   /* nothing ever again */
} wgi_crew_answer;

typedef struct wgi_crew_options {
    uint32_t lane_count;                                              /* at least 1 */
    wgi_crew_answer (*take)(void *context, size_t lane, void **task); /* must not block for long */
    void (*run)(void *context, size_t lane, void *task);
    void *context;
} wgi_crew_options;

wg_status wgi_crew_open(wgi_crew **out, const wgi_crew_options *options, wg_error *err);

/* A task may be there now, or the end came. Any thread. */
void wgi_crew_wake(wgi_crew *crew);

/*
 * The loops of tasks that run leave out the items that are left, now and from here on, so that
 * these tasks end soon; what they made is worth nothing, and who runs them has to know. Any thread.
 */
void wgi_crew_cancel(wgi_crew *crew);

/* Waits until every lane saw WGI_CREW_END; wgi_crew_wake may still be called. NULL is allowed. */
void wgi_crew_join(wgi_crew *crew);
/* Joins, then frees. NULL is allowed. */
void wgi_crew_close(wgi_crew *crew);

typedef void wgi_loop_body(void *context, size_t index, size_t lane);

/*
 * Runs body(context, i, lane) for each i in [0, count), on this lane and on any that are idle;
 * returns when all are done. Called from run(). crew NULL: a plain loop on lane 0.
 */
void wgi_crew_loop(wgi_crew *crew, size_t lane, size_t count, wgi_loop_body *body, void *context);

#endif
