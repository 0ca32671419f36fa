/*
 * test_memory_ceiling.c - the ceiling holds: with a fifth more than what is mandatory (weights,
 * packed weights, code: the resident set once the model is open, and the tables that are read in
 * place) a corpus of very uneven texts is finished with its peak resident set below the ceiling,
 * and to the same bytes as without one. The real all-MiniLM-L6-v2, in $WARPGROUP_CACHE or
 * ~/.cache/warpgroup. Each run is a child process, so that its peak is its own. LABELS: model
 */
#include "harness.h"
#include "temporary.h"

#include <unistd.h>

#include "base/os_fork.h"
#include "base/os_memory.h"
#include "job/footprint.h"
#include "warpgroup/warpgroup.h"

#define TEXTS  60
#define RUN_MS 300000

static wgt_folder folder;
static wg_error err;
static char model_path[400];

/* Alternately 45 to 130 and 1,820 to 2,000 made-up words. */
static void write_corpus(const char *path)
{
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    wgt_seed_set(45130);
    for (int i = 0; i < TEXTS && file; i++) {
        fprintf(file, "{\"id\": %d, \"text\": \"", i);
        for (uint64_t n = i % 2 ? 1820 + wgt_below(181) : 45 + wgt_below(86); n; n--) {
            for (uint64_t letters = 2 + wgt_below(8); letters; letters--)
                (void)fputc((int)('a' + wgt_below(26)), file);
            (void)fputc(n > 1 ? ' ' : '"', file);
        }
        fprintf(file, "}\n");
    }
    if (file) (void)fclose(file);
}

/* In a child. share: of the mandatory bytes, 0 for no ceiling. */
typedef struct trial {
    double share;
    uint32_t threads;
    const char *name;
} trial;

static int run_trial(void *context)
{
    const trial *t = context;
    char corpus[256], out[256];
    const char *inputs[] = {corpus};
    wg_model *model = NULL;
    wg_job *job = NULL;

    (void)snprintf(corpus, sizeof(corpus), "%s/corpus.jsonl", folder.path);
    (void)snprintf(out, sizeof(out), "%s/%s", folder.path, t->name);
    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = model_path}, &err));
    if (!model) return 1;
    uint64_t mandatory = wgi_budget_now(model, 0).held;
    uint64_t ceiling = (uint64_t)(t->share * (double)mandatory);
    wg_job_options options = {.output = out,
                              .input = {.inputs = inputs, .input_count = 1},
                              .embed = {.memory_bytes = ceiling, .thread_count = t->threads}};
    EXPECT_OK(wg_job_open(&job, model, &options, &err));
    if (!job) return 1;
    EXPECT_OK(wg_job_run(job, &err));
    wg_progress progress = wg_job_progress(job);
    EXPECT_EQ(progress.documents_done, TEXTS);
    EXPECT_EQ(progress.documents_failed, 0);
    uint64_t peak = wgi_memory_peak_rss();
    const char *bins = strstr(wg_job_report(job), "\"max_batch_tokens\"");
    fprintf(stderr, "%s: mandatory %.1f MiB, ceiling %.1f, peak %.1f; %.*s\n", t->name,
            (double)mandatory / 1048576, (double)ceiling / 1048576, (double)peak / 1048576,
            bins ? (int)strcspn(bins, ",") : 0, bins ? bins : "");
    EXPECT(peak > 0);
    if (ceiling) EXPECT(peak <= ceiling);
    wg_job_close(job);
    wg_model_close(model);
    return wgt_result();
}

static char *vectors(const char *name, size_t *bytes)
{
    char path[400];

    (void)snprintf(path, sizeof(path), "%s/%s/embeddings.npy", folder.path, name);
    return wgt_slurp(path, bytes);
}

int main(void)
{
    static trial trials[] = {{0, 4, "free"},      {1.2, 1, "tight-1"}, {1.2, 2, "tight-2"},
                             {1.2, 4, "tight-4"}, {1.5, 4, "middle"},  {1.2, 0, "tight-auto"}};
    const char *cache = getenv("WARPGROUP_CACHE"), *home = getenv("HOME");
    char corpus[256];
    size_t bytes, want_bytes;
    wgi_fork_end end;

    if (WGT_HAS_SANITIZER) {
        fprintf(stderr, "skipped: a sanitizer's own memory is most of the process\n");
        return WGT_SKIP;
    }

    if (cache)
        (void)snprintf(model_path, sizeof(model_path), "%s/models/all-MiniLM-L6-v2", cache);
    else
        (void)snprintf(model_path, sizeof(model_path),
                       "%s/.cache/warpgroup/models/all-MiniLM-L6-v2", home ? home : "");
    if (access(model_path, R_OK) != 0) {
        fprintf(stderr, "skipped: %s is not there\n", model_path);
        return WGT_SKIP;
    }
    folder = wgt_folder_open();
    EXPECT_EQ(setenv("XDG_CACHE_HOME", folder.path, 1), 0); /* no size that was measured here */
    (void)snprintf(corpus, sizeof(corpus), "%s/corpus.jsonl", folder.path);
    write_corpus(corpus);
    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
        EXPECT_OK(wgi_fork_run(run_trial, &trials[i], RUN_MS, &end, &err));
        EXPECT(end.is_exited && end.exit_code == 0);
    }
    if (!wgt_failed) {
        char *want = vectors("free", &want_bytes);
        for (size_t i = 1; i < sizeof(trials) / sizeof(trials[0]); i++) {
            char *got = vectors(trials[i].name, &bytes);
            EXPECT_EQ(bytes, want_bytes);
            EXPECT(bytes == want_bytes && memcmp(got, want, bytes) == 0);
            free(got);
        }
        free(want);
    }
    wgt_folder_close(&folder);
    return wgt_result();
}
