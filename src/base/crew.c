/*
 * crew.c - lanes, tasks and shared loops; see crew.h for the idea.
 *
 *   lane 0   take -> run(bin A) ......... offers loop ---- items 0 2 5 ... ---- waits for helpers
 *   lane 1   take -> nothing ready -----> joins loop ----- items 1 3 4 ... ---- take again
 *
 * A loop lives on the stack of the lane that offers it. It is found through the list `loops`, and
 * is taken off that list, under the lock, before its owner waits for the helpers inside to leave;
 * so nobody can join a loop that is about to end. Items are claimed with one atomic counter.
 *
 * Threads: `lock` guards the list of loops, helper_count of each loop and `wakes`.
 */
#include "base/crew.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/thread.h"

typedef struct loop {
    struct loop *next;
    wgi_loop_body *body;
    void *context;
    size_t count;
    atomic_size_t at;    /* next item to claim */
    size_t helper_count; /* lanes inside besides the owner */
} loop;

typedef struct lane {
    wgi_crew *crew;
    size_t index;
    pthread_t thread;
    bool is_started;
} lane;

struct wgi_crew {
    wgi_crew_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a task may be there, a loop was offered, or a helper left */
    loop *loops;
    atomic_size_t idle_count; /* lanes that wait; a loop is only offered when somebody does */
    uint64_t wakes;           /* counts wgi_crew_wake, so that none is missed */
    atomic_bool is_cancelled; /* items that are left are left out */
    lane lanes[];
};

static void run_items(const wgi_crew *crew, loop *shared, size_t lane_index)
{
    for (;;) {
        if (atomic_load(&crew->is_cancelled)) atomic_store(&shared->at, shared->count);
        size_t item = atomic_fetch_add_explicit(&shared->at, 1, memory_order_relaxed);
        if (item >= shared->count) return;
        shared->body(shared->context, item, lane_index);
    }
}

/* Called with the lock held: helps in one open loop. False when there is none. */
static bool help(wgi_crew *crew, size_t lane_index)
{
    loop *shared = crew->loops;

    while (shared && atomic_load_explicit(&shared->at, memory_order_relaxed) >= shared->count)
        shared = shared->next;
    if (!shared) return false;
    shared->helper_count++;
    pthread_mutex_unlock(&crew->lock);
    run_items(crew, shared, lane_index);
    pthread_mutex_lock(&crew->lock);
    if (--shared->helper_count == 0) pthread_cond_broadcast(&crew->changed);
    return true;
}

void wgi_crew_loop(wgi_crew *crew, size_t lane_index, size_t count, wgi_loop_body *body,
                   void *context)
{
    loop shared = {.body = body, .context = context, .count = count};

    if (!crew || count < 2 || atomic_load_explicit(&crew->idle_count, memory_order_relaxed) == 0) {
        for (size_t i = 0; i < count && !(crew && atomic_load(&crew->is_cancelled)); i++)
            body(context, i, lane_index);
        return;
    }
    pthread_mutex_lock(&crew->lock);
    shared.next = crew->loops;
    crew->loops = &shared;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);

    run_items(crew, &shared, lane_index);

    pthread_mutex_lock(&crew->lock);
    loop **link = &crew->loops;
    while (*link != &shared)
        link = &(*link)->next;
    *link = shared.next;
    while (shared.helper_count)
        pthread_cond_wait(&crew->changed, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

static void *lane_body(void *argument)
{
    lane *self = argument;
    wgi_crew *crew = self->crew;
    const wgi_crew_options *options = &crew->options;

    for (;;) {
        pthread_mutex_lock(&crew->lock);
        uint64_t wakes = crew->wakes;
        pthread_mutex_unlock(&crew->lock);

        void *task = NULL;
        wgi_crew_answer answer = options->take(options->context, self->index, &task);
        if (answer == WGI_CREW_TASK) {
            options->run(options->context, self->index, task);
            continue;
        }
        pthread_mutex_lock(&crew->lock);
        if (answer == WGI_CREW_END) {
            /* The last bins may still run elsewhere: stay and help until no lane has a task. */
            break;
        }
        atomic_fetch_add(&crew->idle_count, 1);
        while (crew->wakes == wakes && !help(crew, self->index))
            pthread_cond_wait(&crew->changed, &crew->lock);
        atomic_fetch_sub(&crew->idle_count, 1);
        pthread_mutex_unlock(&crew->lock);
    }
    atomic_fetch_add(&crew->idle_count, 1);
    while (atomic_load(&crew->idle_count) < options->lane_count) {
        if (!help(crew, self->index)) pthread_cond_wait(&crew->changed, &crew->lock);
    }
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

void wgi_crew_wake(wgi_crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    crew->wakes++;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
}

void wgi_crew_cancel(wgi_crew *crew)
{
    atomic_store(&crew->is_cancelled, true);
}

wg_status wgi_crew_open(wgi_crew **out, const wgi_crew_options *options, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_crew *crew = NULL;
    size_t bytes;

    *out = NULL;
    if (options->lane_count == 0)
        return wgi_fail(err, WG_ERR_ARGUMENT, "a crew needs at least one lane");
    if (wgi_mul(options->lane_count, sizeof(lane), &bytes) && wgi_add(bytes, sizeof(*crew), &bytes))
        crew = wgi_calloc(1, bytes);
    if (!crew)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %u lanes", options->lane_count);
    crew->options = *options;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->changed, NULL);
    *out = crew; /* lanes may run before this call returns, and their callbacks may use *out */

    for (uint32_t i = 0; i < options->lane_count; i++) {
        char name[24]; /* the thread takes what fits */
        int length = snprintf(name, sizeof(name), "wg-cpu-%u", i);
        (void)length;
        crew->lanes[i].crew = crew;
        crew->lanes[i].index = i;
        status = wgi_thread_start(&crew->lanes[i].thread, name, lane_body, &crew->lanes[i], err);
        if (status != WG_OK) {
            /* The lanes that did start are enough to drain; the caller ends the work and closes. */
            pthread_mutex_lock(&crew->lock);
            crew->options.lane_count = i;
            pthread_cond_broadcast(&crew->changed);
            pthread_mutex_unlock(&crew->lock);
            break;
        }
        crew->lanes[i].is_started = true;
    }
    return status;
}

void wgi_crew_join(wgi_crew *crew)
{
    if (!crew) return;
    for (size_t i = 0; i < crew->options.lane_count; i++) {
        if (crew->lanes[i].is_started) (void)pthread_join(crew->lanes[i].thread, NULL);
        crew->lanes[i].is_started = false;
    }
}

void wgi_crew_close(wgi_crew *crew)
{
    if (!crew) return;
    wgi_crew_join(crew);
    pthread_cond_destroy(&crew->changed);
    pthread_mutex_destroy(&crew->lock);
    wgi_free(crew);
}
