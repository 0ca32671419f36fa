/*
 * test_crew.c - every task runs once, every loop item runs once, whoever helps; and a crew ends,
 * cancelled or not.
 * LABELS: quick stress
 */
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/crew.h"

#define TASKS     60
#define ITEMS     37
#define LOOPS_MAX 20000
#define LOOPS     8 /* a task offers several loops: idle lanes arrive during the first */

typedef struct work {
    pthread_mutex_t lock;
    wgi_crew *crew;
    size_t next, count;
    atomic_int item_runs[TASKS][ITEMS];
    atomic_int task_runs[TASKS];
    atomic_int helped; /* items run by another lane than the task's */
    size_t lane_of[TASKS];
    uint32_t lane_count;
    int loops; /* that a task offered */
} work;

static work shared;

static wgi_crew_answer take(void *context, size_t lane, void **task)
{
    work *w = context;
    wgi_crew_answer answer = WGI_CREW_END;

    (void)lane;
    pthread_mutex_lock(&w->lock);
    if (w->next < w->count) {
        *task = &w->task_runs[w->next++];
        answer = WGI_CREW_TASK;
    }
    pthread_mutex_unlock(&w->lock);
    return answer;
}

static void item_body(void *context, size_t index, size_t lane)
{
    size_t task = *(size_t *)context;

    atomic_fetch_add(&shared.item_runs[task][index], 1);
    if (lane != shared.lane_of[task]) atomic_fetch_add(&shared.helped, 1);
    if (index % 5 == 0) (void)usleep(50);
}

static void run(void *context, size_t lane, void *task)
{
    work *w = context;
    size_t index = (size_t)((atomic_int *)task - w->task_runs);

    w->lane_of[index] = lane;
    atomic_fetch_add(&w->task_runs[index], 1);
    for (int i = 0; i < w->loops; i++) {
        wgi_crew_loop(w->crew, lane, ITEMS, item_body, &index);
        /* The other lanes may still be on their way: one task goes on until one of them came. */
        if (w->count == 1 && w->lane_count > 1 && w->helped == 0 && w->loops < LOOPS_MAX)
            w->loops++;
    }
}

static void run_crew(uint32_t lanes, size_t tasks)
{
    wg_error err;
    wgi_crew *crew = NULL;

    memset(&shared, 0, sizeof(shared));
    pthread_mutex_init(&shared.lock, NULL);
    pthread_mutex_lock(&shared.lock); /* nobody takes a task before shared.crew is set */
    shared.count = tasks;
    shared.loops = LOOPS;
    shared.lane_count = lanes;
    EXPECT_OK(wgi_crew_open(
        &crew,
        &(wgi_crew_options){.lane_count = lanes, .take = take, .run = run, .context = &shared},
        &err));
    shared.crew = crew;
    pthread_mutex_unlock(&shared.lock);
    wgi_crew_close(crew);
    for (size_t t = 0; t < tasks; t++) {
        EXPECT_EQ(shared.task_runs[t], 1);
        for (size_t i = 0; i < ITEMS; i++)
            EXPECT_EQ(shared.item_runs[t][i], shared.loops);
    }
    pthread_mutex_destroy(&shared.lock);
}

static void cancelling_body(void *context, size_t index, size_t lane)
{
    work *w = context;

    (void)lane;
    atomic_fetch_add(&w->item_runs[0][0], 1);
    if (index == 4) wgi_crew_cancel(w->crew);
}

static void run_cancelled(void *context, size_t lane, void *task)
{
    work *w = context;

    (void)task;
    for (int i = 0; i < w->loops; i++)
        wgi_crew_loop(w->crew, lane, LOOPS_MAX, cancelling_body, w);
}

/* What is left of the loops is left out, and the crew ends as ever. */
static void run_and_cancel(uint32_t lanes)
{
    wg_error err;
    wgi_crew *crew = NULL;

    memset(&shared, 0, sizeof(shared));
    pthread_mutex_init(&shared.lock, NULL);
    pthread_mutex_lock(&shared.lock);
    shared.count = TASKS;
    shared.loops = LOOPS;
    EXPECT_OK(wgi_crew_open(
        &crew,
        &(wgi_crew_options){
            .lane_count = lanes, .take = take, .run = run_cancelled, .context = &shared},
        &err));
    shared.crew = crew;
    pthread_mutex_unlock(&shared.lock);
    wgi_crew_close(crew);
    EXPECT_EQ(shared.next, TASKS);
    EXPECT(shared.item_runs[0][0] >= 5);
    EXPECT(shared.item_runs[0][0] < (int)lanes * LOOPS_MAX);
    if (lanes == 1) EXPECT_EQ(shared.item_runs[0][0], 5);
    pthread_mutex_destroy(&shared.lock);
}

int main(void)
{
    wg_error err;
    wgi_crew *crew = NULL;

    for (uint32_t lanes = 1; lanes <= 4; lanes++) {
        run_crew(lanes, TASKS);
        run_crew(lanes, 1);
        if (lanes > 1) EXPECT(shared.helped > 0); /* one task, idle lanes: they must help */
        run_crew(lanes, 0);
        run_and_cancel(lanes);
    }
    EXPECT_EQ(wgi_crew_open(&crew, &(wgi_crew_options){0}, &err), WG_ERR_ARGUMENT);
    wgi_crew_close(NULL);
    return wgt_result();
}
