/*
 * dispatcher.h - the inside of wg_engine, shared by the files that make it up: dispatcher.c
 * (opening, the packer thread, closing), submit.c (submitters) and hand_out.c (consumers).
 */
#ifndef WGI_DISPATCHER_H
#define WGI_DISPATCHER_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/backoff.h"
#include "engine/classes.h"
#include "engine/pace.h"
#include "engine/queue.h"
#include "engine/ring.h"
#include "warpgroup/engine.h"

struct wg_consumer {
    wg_engine *engine;
    uint32_t held_count;
};

struct wg_engine {
    wg_engine_options options; /* complete; classes is NULL */
    wgi_queue queue;
    wgi_classes classes;     /* the packer's */
    uint64_t drained_tokens; /* the packer's: taken out of the queue so far */
    uint64_t noticed_tokens; /* the packer's: told to the pace */
    pthread_t packer;

    pthread_mutex_t mutex; /* guards all below that is not atomic */
    pthread_cond_t packer_wake, space, ready, left;
    wgi_ring ring;
    wgi_pace pace;
    wgi_backoff backoff;
    uint64_t tokens_cut;       /* that left the queue in bins */
    uint32_t sleeper_count;    /* threads that sleep in a call */
    uint32_t idle_taker_count; /* of those, in wg_engine_next */
    bool taker_left;           /* a poll found nothing */
    uint32_t consumer_count;   /* handles that are open */
    wg_consumer nobody;        /* stands for the consumer NULL */
    bool flush_is_asked, is_finished, is_stopped, end_was_told;
    bool close_is_deferred; /* close was called on the packer thread */
    bool is_closed;
    wg_engine_stats stats;
    atomic_uint blocked_count;     /* submitters that sleep; written under the mutex */
    atomic_bool submitter_left;    /* a submission with a limit on its wait found no room */
    atomic_uint_least64_t want_at; /* tokens pushed at which the packer is to be woken */
    atomic_uint_least64_t submit_wait_ns;
};

/* Completes and checks; no allocation. */
wg_status wgi_engine_options_complete(wg_engine_options *options, wg_error *err);

/* The mutex is held: nothing is left for anybody but what `consumer` itself holds. */
bool wgi_engine_is_drained(const wg_engine *engine, const wg_consumer *consumer);
/* The caller is the engine's own thread (inside `ready`). */
bool wgi_engine_on_packer(const wg_engine *engine);
/* Sleeps on a condition until it is signalled or `until` (monotonic) has come. */
void wgi_engine_sleep(wg_engine *engine, pthread_cond_t *condition, uint64_t until);
/* Tells a consumer that polls. Without the mutex, as the last thing that a call does. */
void wgi_engine_tell(wg_engine *engine);
/* Whoever held bins has left without giving them back. */
void wgi_engine_abandon(wg_engine *engine);
/* submit.c: the most tokens of a sequence that is taken; and whether none is taken any more. */
uint64_t wgi_engine_longest(const wg_engine *engine);
bool wgi_engine_is_closed(wg_engine *engine);
/* Frees the engine if it was closed and nothing of it is out; unlocks in any case. */
void wgi_engine_unlock(wg_engine *engine);

#endif
