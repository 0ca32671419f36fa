/*
 * helpers.c - a process-wide pool that parks; see helpers.h for the idea.
 *
 * A loop lives on its caller's stack and hangs on the list `loops` while items are left. The caller
 * takes it off, under the lock, before it waits for the helpers inside, so nobody joins a loop that
 * is about to end. A lane number is given out once a loop: a helper that left does not come back,
 * since it leaves only when no item is left.
 *
 * fork: a handler holds the lock across it, so that the child gets the pool in one piece, and then
 * forgets threads and loops, which the child has not. The alternative, comparing process ids, would
 * still find the lock held when another thread forked in the middle of an offer.
 *
 * The end: a destructor joins the helpers, so that no thread runs in a library that is unloaded; a
 * helper inside a loop finishes it first. Loops that come later run on their callers alone.
 *
 * Threads: `lock` guards everything here but `at` of a loop.
 */
#include "base/helpers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/thread.h"

typedef struct loop {
    struct loop *next;
    wgi_helpers_body *body;
    void *context;
    size_t count;
    atomic_size_t at;         /* next item to claim */
    size_t lanes, lane_count; /* given out, the caller's included; at most */
    size_t helper_count;      /* inside now */
    pthread_cond_t *done;     /* the last helper left */
} loop;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t offered = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static loop *loops;
static pthread_t *threads;
static size_t thread_count, thread_room;
static bool can_help, is_ended;

static bool has_items(loop *l)
{
    return atomic_load_explicit(&l->at, memory_order_relaxed) < l->count;
}

static void run_items(loop *l, size_t lane)
{
    for (;;) {
        size_t item = atomic_fetch_add_explicit(&l->at, 1, memory_order_relaxed);

        if (item >= l->count) return;
        l->body(l->context, item, lane);
    }
}

static void *helper_body(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    while (!is_ended) {
        loop *l = loops;

        while (l && (l->lanes == l->lane_count || !has_items(l)))
            l = l->next;
        if (!l) {
            pthread_cond_wait(&offered, &lock);
            continue;
        }
        size_t lane = l->lanes++;
        l->helper_count++;
        pthread_mutex_unlock(&lock);
        run_items(l, lane);
        pthread_mutex_lock(&lock);
        if (--l->helper_count == 0) pthread_cond_signal(l->done);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* The child's only thread holds the lock. */
static void forget(void)
{
    loops = NULL;
    thread_count = 0;
    pthread_cond_init(&offered, NULL); /* those who waited are not in this process */
    pthread_mutex_unlock(&lock);
}

static void start(void)
{
    can_help = pthread_atfork(before_fork, after_fork, forget) == 0;
}

/* Called with the lock held: as many helpers as can be had, up to `wanted`. */
static void grow(size_t wanted)
{
    while (can_help && !is_ended && thread_count < wanted) {
        char name[32]; /* the thread takes what fits */
        int length = snprintf(name, sizeof(name), "wg-help-%zu", thread_count + 1);

        (void)length;
        if (wgi_grow(&threads, &thread_room, thread_count + 1, sizeof(*threads), NULL) != WG_OK)
            return;
        if (wgi_thread_start(&threads[thread_count], name, helper_body, NULL, NULL) != WG_OK)
            return;
        thread_count++;
    }
}

void wgi_helpers_loop(size_t lane_count, size_t count, wgi_helpers_body *body, void *context)
{
    pthread_cond_t done = PTHREAD_COND_INITIALIZER;
    loop l = {.body = body,
              .context = context,
              .count = count,
              .lanes = 1,
              .lane_count = lane_count < count ? lane_count : count,
              .done = &done};

    if (l.lane_count < 2) {
        run_items(&l, 0);
        return;
    }
    (void)pthread_once(&once, start);
    pthread_mutex_lock(&lock);
    grow(l.lane_count - 1);
    l.next = loops;
    loops = &l;
    for (size_t i = 1; i < l.lane_count; i++)
        pthread_cond_signal(&offered);
    pthread_mutex_unlock(&lock);

    run_items(&l, 0);

    pthread_mutex_lock(&lock);
    loop **link = &loops;
    while (*link != &l)
        link = &(*link)->next;
    *link = l.next;
    while (l.helper_count)
        pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&done);
}

size_t wgi_helpers_count(void)
{
    pthread_mutex_lock(&lock);
    size_t count = thread_count;
    pthread_mutex_unlock(&lock);
    return count;
}

__attribute__((destructor)) static void end(void)
{
    pthread_mutex_lock(&lock);
    size_t count = thread_count;
    thread_count = 0;
    is_ended = true;
    pthread_cond_broadcast(&offered);
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    wgi_free(threads);
    threads = NULL;
    thread_room = 0;
}
