/*
 * helpers.h - threads of the process that help any caller with one loop of independent items.
 *
 *     caller      offers loop -- items 0 2 3 6 ... --> takes it off, waits for those inside
 *     wg-help-1   parked ------- items 1 4 5 ... ----> parked
 *
 * For calls that take milliseconds and come by the thousand, a layer each: starting threads for
 * every call costs more than some of them take on a machine of many cores, and a helper that spins
 * between calls would steal from the caller's other threads. So the caller works itself, helpers
 * are started when first wanted, and they park as soon as a loop has no item left. A crew (crew.h)
 * is the other shape: lanes with work of their own, for as long as a job runs.
 *
 * Items are claimed by whoever comes first; so a body's result must not depend on the lane.
 *
 * Helpers are few: as many as the widest loop so far asked for. Loops of several callers share
 * them. After fork a child has none and starts its own; when the library is unloaded or the process
 * exits they are ended and joined.
 *
 * Threads: any may call.
 */
#ifndef WGI_HELPERS_H
#define WGI_HELPERS_H

#include <stddef.h>

typedef void wgi_helpers_body(void *context, size_t index, size_t lane);

/*
 * Runs body(context, i, lane) once for each i in [0, count), on this thread (lane 0) and on at most
 * lane_count - 1 helpers (lanes below lane_count), and returns when all are done. Fewer lanes where
 * threads cannot be had.
 */
void wgi_helpers_loop(size_t lane_count, size_t count, wgi_helpers_body *body, void *context);

/* Test hook: how many helpers there are. */
size_t wgi_helpers_count(void);

#endif
