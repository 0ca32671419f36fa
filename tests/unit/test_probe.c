/*
 * test_probe.c - capacity of a real (tiny) model: under the budget, verified in a child, kept and
 * found again; refused with a figure that works; taken by a run; every try gives its memory back
 * (recipe D-03); and within 5 % of what a manual search finds by running children under RLIMIT_DATA
 * until one fails. LABELS: quick
 */
#include "harness.h"
#include "temporary.h"

#include <sys/resource.h>

#include "base/alloc.h"
#include "base/os_fork.h"
#include "base/os_memory.h"
#include "job/synthetic.h"
#include "warpgroup/capacity.h"

#define MODEL WGT_DATA "/tiny-bert-h128-d64-f16-mean"
#define MIB   ((uint64_t)1 << 20)

static wg_error err;
static wg_model *model;

static wg_status probe(uint64_t memory_mib, const char *cache, wg_probe *out)
{
    return wg_model_probe(
        model,
        &(wg_probe_options){.cache_path = cache,
                            .skip_knee = memory_mib != 200,
                            .embed = {.memory_bytes = memory_mib * MIB, .thread_count = 2}},
        out, &err);
}

static void under_the_budget(const char *cache)
{
    wg_probe small, large, again, other;

    /* The larger first: memory that was freed stays with the process and would count as held. */
    EXPECT_OK(probe(300, cache, &large));
    EXPECT_OK(probe(200, cache, &small));
    EXPECT(small.predicted_bytes <= 200 * MIB);
    EXPECT(small.verified_bytes > 0 && small.verified_bytes <= 200 * MIB);
    EXPECT(small.knee_tokens >= small.token_count_max &&
           small.knee_tokens <= small.capacity_tokens);
    EXPECT(small.best_tokens_per_s >= small.knee_tokens_per_s && small.knee_tokens_per_s > 0);
    EXPECT_EQ(small.is_from_cache, 0);
    EXPECT_EQ(small.tries_in_child, 1);

    EXPECT(large.capacity_tokens > small.capacity_tokens);
    /* The slope of the formula explains the difference: 100 MiB more for two workers. */
    double explained = (100.0 * (double)MIB + (double)small.held_bytes - (double)large.held_bytes) /
                       (2 * small.bytes_per_token);
    double gained = (double)(large.capacity_tokens - small.capacity_tokens);
    EXPECT(gained > 0.9 * explained && gained < 1.1 * explained);

    EXPECT_OK(probe(200, cache, &again));
    EXPECT_EQ(again.is_from_cache, 1);
    EXPECT_EQ(again.capacity_tokens, small.capacity_tokens);
    EXPECT(again.knee_tokens_per_s == small.knee_tokens_per_s);
    EXPECT_OK(probe(201, cache, &other)); /* another budget is another key */
    EXPECT_EQ(other.is_from_cache, 0);
    EXPECT_OK(probe(200, "", &again));
    EXPECT_EQ(again.is_from_cache, 0);
}

static void damaged_cache(const wgt_folder *folder)
{
    wg_probe found;
    char path[256];
    static const char text[] =
        "not json\n{\"key\": 7}\n{\"key\": \"x\", \"capacity_tokens\": 1}\n{\"ke";

    (void)snprintf(path, sizeof(path), "%s/damaged.jsonl", folder->path);
    wgt_write(folder, "damaged.jsonl", text, strlen(text));
    EXPECT_OK(probe(250, path, &found));
    EXPECT_EQ(found.is_from_cache, 0);
}

static void refusals(void)
{
    wg_probe found;
    unsigned long long needed = 0;

    EXPECT_EQ(probe(20, "", &found), WG_ERR_LIMIT);
    EXPECT_IN(err.message, "20 MiB");
    const char *figure = strstr(err.message, "--memory ");
    EXPECT(figure && sscanf(figure, "--memory %llu", &needed) == 1);
    EXPECT_OK(probe(needed, "", &found));                       /* the figure works ... */
    EXPECT(probe(needed * 9 / 10, "", &found) == WG_ERR_LIMIT); /* ... and is no wild guess */
    EXPECT_EQ(wg_model_probe(NULL, NULL, NULL, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_model_probe(model, &(wg_probe_options){.embed = {.token_count_max = 100000}},
                             &found, &err),
              WG_ERR_ARGUMENT);
}

/* Without a size, a run takes the knee that was measured for it, and says so (same key only). */
static void used_by_a_run(const wgt_folder *folder)
{
    char input[256], expected[64];
    const char *inputs[] = {input};
    wg_probe found;

    wgt_write(folder, "one.jsonl", "{\"text\": \"a cat\"}\n", 18);
    (void)snprintf(input, sizeof(input), "%s/one.jsonl", folder->path);
    EXPECT_EQ(setenv("XDG_CACHE_HOME", folder->path, 1), 0);
    for (int with_answer = 0; with_answer < 2; with_answer++) {
        for (uint64_t mib = 200; mib <= 201; mib++) {
            wg_job *job = NULL;
            EXPECT_OK(wg_job_open(
                &job, model,
                &(wg_job_options){.input = {.inputs = inputs, .input_count = 1},
                                  .plan_only = 1,
                                  .embed = {.memory_bytes = mib * MIB, .thread_count = 2}},
                &err));
            EXPECT_OK(wg_job_run(job, &err));
            EXPECT_IN(wg_job_report(job), with_answer && mib == 200
                                              ? "auto: knee that probe measured"
                                              : "auto: where this backend stops");
            (void)snprintf(expected, sizeof(expected), "\"max_batch_tokens\": %llu,",
                           (unsigned long long)found.knee_tokens);
            if (with_answer && mib == 200) EXPECT_IN(wg_job_report(job), expected);
            wg_job_close(job);
        }
        if (!with_answer) EXPECT_OK(probe(200, NULL, &found));
    }
    EXPECT_EQ(unsetenv("XDG_CACHE_HOME"), 0);
}

/* Recipe D-03: every try, fitted or not, leaves memory as it was. */
typedef struct tries {
    wgi_footprint footprint;
    uint64_t rss; /* before the first */
    uint64_t most;
    unsigned count;
} tries;

static wg_fit try_and_look(void *context, uint64_t tokens, double *seconds)
{
    tries *t = context;
    wg_error why = {0};

    t->footprint.bin_tokens = (size_t)tokens;
    t->count++;
    /* The last allocations of a large try do not succeed: half-made, it must go away whole. */
    wgi_alloc_fail_at(tokens > 6000 ? 5 : 0);
    wg_status status = wgi_synthetic_run(&t->footprint, (size_t)tokens, seconds, &why);
    wgi_alloc_fail_at(0);
    uint64_t rss = wgi_memory_rss();
    if (rss > t->rss && rss - t->rss > t->most) t->most = rss - t->rss;
    return status == WG_OK ? WG_FIT_YES : status == WG_ERR_NO_MEMORY ? WG_FIT_NO : WG_FIT_ERROR;
}

static void memory_back_after_each_try(void)
{
    wgi_embed_head head = {0};
    tries t = {.footprint = {.model = model, .head = &head, .lane_count = 2, .longest = 64}};
    wg_capacity found;
    double seconds;

    t.footprint.bin_tokens = 64; /* threads and kernels are made once */
    EXPECT_OK(wgi_synthetic_run(&t.footprint, 64, &seconds, &err));
    t.rss = wgi_memory_rss();
    EXPECT_OK(wg_capacity_measure(
        &found,
        &(wg_capacity_options){
            .run = try_and_look, .context = &t, .start_tokens = 64, .knee_runs = 1},
        &err));
    EXPECT(found.tokens > 5000 && found.tokens <= 6000);
    fprintf(stderr, "%u tries, at most %llu KiB more than before\n", t.count,
            (unsigned long long)t.most >> 10);
    EXPECT(t.most < 2 * MIB);
}

/* In a child: does a bin of this size run with so much data memory? */
typedef struct trial {
    wgi_footprint footprint;
    uint64_t data_bytes;
} trial;

static int run_trial(void *context)
{
    const trial *t = context;
    struct rlimit limit = {.rlim_cur = t->data_bytes, .rlim_max = t->data_bytes};
    size_t tokens = t->footprint.bin_tokens;
    double seconds;

    if (setrlimit(RLIMIT_DATA, &limit) != 0) return 3;
    return wgi_synthetic_run(&t->footprint, tokens < 512 ? tokens : 512, &seconds, NULL) == WG_OK
               ? 0
               : 1;
}

/*
 * The budget comes from RLIMIT_DATA; what the probe finds is compared with the largest bin that a
 * child survives when the parts that a job adds (window, queue, reserve) are held back by hand.
 */
static int within_5_percent_under_a_limit(void *context)
{
    wg_probe found;
    wgi_embed_head head = {0};
    struct rlimit limit;
    uint64_t data = 0;
    char line[256];

    (void)context;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof(line), file)) {
        unsigned long long kib;
        if (sscanf(line, "VmData: %llu kB", &kib) == 1) data = kib * 1024;
    }
    if (file) (void)fclose(file);
    limit.rlim_cur = limit.rlim_max = data + 900 * MIB;
    EXPECT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
    EXPECT_OK(probe(0, "", &found));
    EXPECT_IN(found.budget_rule, "limits");

    EXPECT_OK(wgi_embed_head_init(&head, &(wg_embed_options){0}, &model->modules,
                                  &model->description, model->backend, &err));
    trial t = {.footprint = {.model = model,
                             .head = &head,
                             .lane_count = 2,
                             .longest = found.token_count_max,
                             .tightness = WGI_TIGHTNESS_MAX}};
    /* What a run takes that is no activation memory of a worker. */
    t.footprint.bin_tokens = found.capacity_tokens;
    wgi_plan plan = wgi_network_plan(model->network, found.capacity_tokens, t.footprint.longest);
    uint64_t rest = wgi_footprint_bytes(&t.footprint) - 2 * (plan.bin_bytes + plan.lane_bytes);
    t.data_bytes = data + (uint64_t)(0.9 * 900 * (double)MIB) - rest;

    uint64_t low = found.capacity_tokens / 2, high = found.capacity_tokens * 2;
    while (high - low > low / 100) {
        wgi_fork_end end;
        t.footprint.bin_tokens = (size_t)(low + (high - low) / 2);
        EXPECT_OK(wgi_fork_run(run_trial, &t, 60000, &end, &err));
        if (end.is_exited && end.exit_code == 0)
            low = t.footprint.bin_tokens;
        else
            high = t.footprint.bin_tokens;
    }
    double ratio = (double)found.capacity_tokens / (double)low;
    fprintf(stderr, "probe %llu tokens, by hand %llu\n", (unsigned long long)found.capacity_tokens,
            (unsigned long long)low);
    EXPECT(ratio > 0.95 && ratio < 1.05);
    wgi_embed_head_fini(&head);
    return wgt_result();
}

int main(void)
{
    if (WGT_HAS_SANITIZER) {
        fprintf(stderr, "skipped: a sanitizer's own memory is most of the process\n");
        return WGT_SKIP;
    }
    wgt_folder folder = wgt_folder_open();
    char cache[256];
    wgi_fork_end end;

    (void)snprintf(cache, sizeof(cache), "%s/new/capacity.jsonl", folder.path);
    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = MODEL}, &err));
    if (model) {
        under_the_budget(cache);
        damaged_cache(&folder);
        refusals();
        used_by_a_run(&folder);
        memory_back_after_each_try();
        EXPECT_OK(wgi_fork_run(within_5_percent_under_a_limit, NULL, 300000, &end, &err));
        EXPECT(end.is_exited && end.exit_code == 0);
    }
    wg_model_close(model);
    wgt_folder_close(&folder);
    return wgt_result();
}
