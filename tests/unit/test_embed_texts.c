/*
 * test_embed_texts.c - the tick of wg_model_embed: told on the caller's thread while a bin runs for
 * long, told the end, and heard when it says stop; jobs do not know it. How long a bin takes is the
 * hook's of job/road_parts.h.
 */
#include "harness.h"
#include "temporary.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/os_clock.h"
#include "job/road_parts.h"
#include "warpgroup/warpgroup.h"

#define MODEL    WGT_DATA "/tiny-bert-h32-d8-mean"
#define DIM      32
#define TEXTS    24
#define MS       1000000u
#define TICK_MAX ((WGT_HAS_SANITIZER ? 5000u : 250u) * (uint64_t)MS)

static wg_error err;
static wg_model *model;
static const char *texts[TEXTS];
static float vectors[TEXTS][DIM];

typedef struct watch {
    pthread_t caller;
    uint64_t since, gap_max, stop_at; /* stop_at: the call that says stop; 0: none */
    uint64_t calls, done;
} watch;

static int tick(void *context, uint64_t done, uint64_t count)
{
    watch *w = context;
    uint64_t now = wgi_clock_ns();

    EXPECT(pthread_equal(w->caller, pthread_self()));
    EXPECT_EQ(count, TEXTS);
    EXPECT(done >= w->done && done <= count);
    if (now - w->since > w->gap_max) w->gap_max = now - w->since;
    w->since = now;
    w->done = done;
    w->calls++;
    return w->calls == w->stop_at ? 7 : 0;
}

static atomic_uint bins;

static wg_status slow(void *context, const wgi_bin *bin, wg_error *why)
{
    (void)bin;
    (void)why;
    atomic_fetch_add(&bins, 1);
    (void)usleep(*(const unsigned *)context);
    return WG_OK;
}

static wg_status embed(watch *w, unsigned bin_us)
{
    wg_embed_options options = {
        .batch_tokens = 64, .thread_count = 1, .tick = tick, .tick_context = w};

    wgi_road_hook_set(bin_us ? slow : NULL, &bin_us);
    atomic_store(&bins, 0);
    w->caller = pthread_self();
    w->since = wgi_clock_ns();
    wg_status status =
        wg_model_embed(model, texts, NULL, TEXTS, &vectors[0][0], sizeof(vectors), &options, &err);
    wgi_road_hook_set(NULL, NULL);
    return status;
}

static void told_while_a_bin_runs(void)
{
    watch w = {0};

    EXPECT_OK(embed(&w, 300000));
    EXPECT(atomic_load(&bins) >= 2);
    EXPECT(w.gap_max < TICK_MAX);
    EXPECT(w.calls > atomic_load(&bins)); /* also within a bin */
    EXPECT_EQ(w.done, TEXTS);
}

static void told_the_end_of_a_short_run(void)
{
    watch w = {0};

    EXPECT_OK(embed(&w, 0));
    EXPECT(w.calls >= 1);
    EXPECT_EQ(w.done, TEXTS);
    w = (watch){.stop_at = 1};
    EXPECT_EQ(embed(&w, 0), WG_ERR_INTERRUPTED); /* whichever call it is, at the end even */
}

static void stops(void)
{
    watch w = {.stop_at = 1};
    uint64_t begin = wgi_clock_ns();

    EXPECT_EQ(embed(&w, 700000), WG_ERR_INTERRUPTED);
    EXPECT_IN(err.message, "stopped");
    EXPECT_EQ(w.calls, 1); /* it is not asked again */
    EXPECT_EQ(atomic_load(&bins), 1);
    EXPECT(w.gap_max < TICK_MAX);
    EXPECT(wgi_clock_ns() - begin < (uint64_t)(WGT_HAS_SANITIZER ? 20000u : 1400u) * MS);
}

static void jobs_do_not_tick(void)
{
    wgt_folder folder = wgt_folder_open();
    static const char line[] = "{\"text\": \"a cat\"}\n";
    char input[300], output[300];
    const char *inputs[] = {input};
    watch w = {.stop_at = 1};
    wg_job *job = NULL;
    unsigned bin_us = 300000;

    wgt_write(&folder, "in.jsonl", line, strlen(line));
    (void)snprintf(input, sizeof(input), "%s/in.jsonl", folder.path);
    (void)snprintf(output, sizeof(output), "%s/out", folder.path);
    wgi_road_hook_set(slow, &bin_us);
    EXPECT_OK(wg_job_open(&job, model,
                          &(wg_job_options){.input = {.inputs = inputs, .input_count = 1},
                                            .embed = {.tick = tick, .tick_context = &w},
                                            .output = output},
                          &err));
    EXPECT_OK(wg_job_run(job, &err));
    EXPECT_EQ(w.calls, 0);
    wg_job_close(job);
    wgi_road_hook_set(NULL, NULL);
    wgt_folder_close(&folder);
}

int main(void)
{
    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = MODEL}, &err));
    if (!model) return wgt_result();
    for (size_t i = 0; i < TEXTS; i++)
        texts[i] = i % 2 ? "the signal of a cat" : "a cat ran";
    told_while_a_bin_runs();
    told_the_end_of_a_short_run();
    stops();
    jobs_do_not_tick();
    wg_model_close(model);
    return wgt_result();
}
