/*
 * pace.h - when to cut a bin: a pure function of what is known and of the time.
 *
 * Nothing in here reads a clock, sleeps or locks, so a simulation in virtual time drives the code
 * that ships (tests/unit/test_window_sim.c).
 */
#ifndef WGI_PACE_H
#define WGI_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "warpgroup/engine.h"

typedef enum wgi_pace_reason {
    WGI_PACE_NOT_YET,
    WGI_PACE_FULL,
    WGI_PACE_IDLE,
    WGI_PACE_DEADLINE,
    WGI_PACE_WINDOW,
    WGI_PACE_PRESSED
} wgi_pace_reason;

/* Options and what was learnt. */
typedef struct wgi_pace {
    wg_engine_window window;
    uint32_t window_sequences;
    uint64_t window_ns;
    uint64_t bin_tokens, lookahead_tokens; /* the bin's changes as capacity does */
    uint32_t worker_count;
    uint64_t lead_ns; /* what cutting a bin takes */
    bool cuts_late;   /* there are classes: what comes last may have to go first */

    double tokens_per_ns;        /* moving average of arrivals */
    uint64_t arrival_ns;         /* of that average */
    double weight, x, y, xx, xy; /* decayed sums over bins served: x tokens took y ns */
} wgi_pace;

/* What waits and who waits for it. */
typedef struct wgi_pace_view {
    uint64_t tokens, sequences; /* pending */
    uint64_t arrival_ns;        /* of the oldest pending */
    uint64_t deadline_ns;       /* the earliest; UINT64_MAX: none */
    uint64_t free_ns;           /* when a busy worker should be done; UINT64_MAX: not known */
    uint32_t ready_count;       /* bins that nobody has taken yet */
    uint32_t idle_count;        /* workers that wait */
    bool is_pressed;            /* end of input, flush, or a submitter held back */
} wgi_pace_view;

typedef struct wgi_pace_answer {
    wgi_pace_reason reason; /* NOT_YET: wait until either of the two below */
    uint64_t wake_ns;       /* UINT64_MAX: no time */
    uint64_t wake_tokens;   /* pending tokens; UINT64_MAX: no amount */
} wgi_pace_answer;

void wgi_pace_init(wgi_pace *pace, const wg_engine_options *options);

/* `tokens` came since the last call. */
void wgi_pace_arrived(wgi_pace *pace, uint64_t tokens, uint64_t now);
/* A bin of `tokens` was done in `ns`. */
void wgi_pace_served(wgi_pace *pace, uint64_t tokens, uint64_t ns);
/* How long a bin of `tokens` is expected to run; 0: not known yet. */
double wgi_pace_service_ns(const wgi_pace *pace, uint64_t tokens);

wgi_pace_answer wgi_pace_decide(const wgi_pace *pace, const wgi_pace_view *view, uint64_t now);

#endif
