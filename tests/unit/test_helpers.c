/*
 * test_helpers.c - every item of a loop runs once, on lanes below the number asked for and each
 * lane by one thread at a time; callers on several threads; no more helpers than the widest loop
 * wants; and a forked child starts its own. LABELS: quick stress
 */
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/helpers.h"

#define ITEMS 41
#define LANES 4

typedef struct work {
    atomic_int runs[ITEMS];
    atomic_int inside[LANES]; /* threads that are in a lane now */
    atomic_int wrong;
    atomic_int helped; /* items of lanes above 0 */
    pthread_t caller;
    size_t lane_count;
    int is_slow;
} work;

static void body(void *context, size_t index, size_t lane)
{
    work *w = context;

    if (lane >= w->lane_count || atomic_fetch_add(&w->inside[lane], 1) != 0)
        atomic_fetch_add(&w->wrong, 1);
    if ((lane == 0) != (pthread_equal(pthread_self(), w->caller) != 0))
        atomic_fetch_add(&w->wrong, 1);
    atomic_fetch_add(&w->runs[index], 1);
    if (lane > 0) atomic_fetch_add(&w->helped, 1);
    if (w->is_slow) (void)usleep(300);
    if (lane < w->lane_count) atomic_fetch_sub(&w->inside[lane], 1);
}

/* Returns how many things were wrong; adds to *helped. */
static int run_loop(size_t lane_count, size_t count, int is_slow, int *helped)
{
    work w = {.caller = pthread_self(), .lane_count = lane_count ? lane_count : 1};
    int wrong = 0;

    w.is_slow = is_slow;
    wgi_helpers_loop(lane_count, count, body, &w);
    for (size_t i = 0; i < ITEMS; i++)
        wrong += atomic_load(&w.runs[i]) != (i < count);
    *helped += atomic_load(&w.helped);
    return wrong + atomic_load(&w.wrong);
}

static void *caller(void *context)
{
    int *wrong = context, helped = 0;

    for (int i = 0; i < 300; i++)
        *wrong += run_loop(2 + (size_t)i % 3, (size_t)(i * 7) % (ITEMS + 1), i % 50 == 0, &helped);
    return NULL;
}

static void check_loops(void)
{
    int helped = 0;

    EXPECT_EQ(wgi_helpers_count(), 0);
    EXPECT_EQ(run_loop(0, 3, 0, &helped), 0);
    EXPECT_EQ(run_loop(1, ITEMS, 0, &helped), 0);
    EXPECT_EQ(run_loop(4, 1, 0, &helped), 0);
    EXPECT_EQ(run_loop(4, 0, 0, &helped), 0);
    EXPECT_EQ(wgi_helpers_count(), 0); /* nobody was wanted */
    EXPECT_EQ(helped, 0);
    EXPECT_EQ(run_loop(3, 2, 0, &helped), 0);
    EXPECT_EQ(wgi_helpers_count(), 1); /* as many as there are items */
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(run_loop(LANES, ITEMS, 1, &helped), 0);
    EXPECT_EQ(wgi_helpers_count(), LANES - 1);
    EXPECT(helped > 0);
}

static void check_callers(void)
{
    pthread_t threads[5];
    int wrong[5] = {0};

    for (int i = 0; i < 5; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, caller, &wrong[i]), 0);
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
        EXPECT_EQ(wrong[i], 0);
    }
    EXPECT_EQ(wgi_helpers_count(), LANES - 1);
}

static void *fork_again(void *context)
{
    int *wrong = context;

    for (int i = 0; i < 20; i++) {
        int state = 0, helped = 0;
        pid_t child = fork();

        if (child == 0) {
            (void)alarm(60); /* a child that hangs is killed, and seen */
            _exit(wgi_helpers_count() != 0 || run_loop(3, ITEMS, i % 2, &helped) != 0 ||
                  wgi_helpers_count() != 2);
        }
        *wrong += !(child > 0 && waitpid(child, &state, 0) == child && state == 0);
    }
    return NULL;
}

/* Children of a process whose helpers are at work and whose other threads offer loops. */
static void check_fork(void)
{
    pthread_t threads[2];
    int wrong[2] = {0};

    EXPECT_EQ(pthread_create(&threads[0], NULL, caller, &wrong[0]), 0);
    EXPECT_EQ(pthread_create(&threads[1], NULL, fork_again, &wrong[1]), 0);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
        EXPECT_EQ(wrong[i], 0);
    }
}

int main(void)
{
    check_loops();
    check_callers();
    /* ThreadSanitizer ends a child that starts threads after a fork of many. */
    if (!WGT_HAS_TSAN) check_fork();
    return wgt_result();
}
