/*
 * test_job_failures.c - what a run does when its backend fails: out of memory in one bin of twenty,
 * at random, costs no document and no byte; a text that never fits is one listed failure; any other
 * error ends the run, and nothing that was in flight then is written (recipe D-01).
 *
 * The backend is the real one; its status comes from the hook of job/road_parts.h. LABELS: quick
 */
#include "harness.h"
#include "temporary.h"

#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "job/road_parts.h"
#include "warpgroup/warpgroup.h"

#define TEXTS 600
#define DIM   32
#define MODEL WGT_DATA "/tiny-bert-h32-d8-mean"

/* A backend that fails. Guarded by its lock; `done` is per document. */
typedef struct device {
    pthread_mutex_t lock;
    unsigned one_in;    /* bins that have no memory, at random; 0: none */
    size_t holds;       /* tokens of a bin that fit; 0: any */
    uint64_t never;     /* a document that never fits; UINT64_MAX: none */
    unsigned breaks_at; /* the bin that breaks the device; 0: none */
    bool has_late;      /* the bin of document 0 comes back after the device broke */
    bool late_is_inside;
    unsigned bins, refused; /* seen so far */
    bool is_broken;
    unsigned alone[TEXTS]; /* failures of a document alone in its bin */
} device;

static wgt_folder folder;
static wg_error err;
static wg_model *model;

static void write_corpus(const char *path)
{
    static const char *const words[] = {"the", "signal", "a", "of", "cat", "1", "ran", "zz", "."};
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    wgt_seed = 3;
    for (int i = 0; i < TEXTS && file; i++) {
        fprintf(file, "{\"id\": %d, \"text\": \"", i);
        for (uint64_t n = 1 + wgt_below(i % 10 == 0 ? 60 : 12); n; n--)
            fprintf(file, "%s%s", words[wgt_below(9)], n > 1 ? " " : "");
        fprintf(file, "\"}\n");
    }
    if (file) (void)fclose(file);
}

static bool holds(const wgi_bin *bin, uint64_t id)
{
    for (size_t s = 0; s < bin->sequence_count; s++)
        if (bin->sequence_ids[s] == id) return true;
    return false;
}

/* What the device answers, with its lock held. */
static wg_status judge(device *d, const wgi_bin *bin, wg_error *why)
{
    if (++d->bins == d->breaks_at) d->is_broken = true;
    if (d->is_broken) return wgi_fail(why, WG_ERR_BACKEND, "device: illegal access");
    if (holds(bin, d->never) || (d->holds && bin->token_count > d->holds))
        return wgi_fail(why, WG_ERR_NO_MEMORY, "device: out of memory");
    if (!d->one_in || wgt_below(d->one_in)) return WG_OK;
    /* By chance a text may fail alone four times: then the run would be right to give it up. */
    if (bin->sequence_count == 1 && ++d->alone[bin->sequence_ids[0]] > 2) return WG_OK;
    return wgi_fail(why, WG_ERR_NO_MEMORY, "device: out of memory");
}

static bool is_broken(device *d)
{
    (void)pthread_mutex_lock(&d->lock);
    bool answer = d->is_broken;
    (void)pthread_mutex_unlock(&d->lock);
    return answer;
}

static wg_status backend_status(void *context, const wgi_bin *bin, wg_error *why)
{
    device *d = context;

    if (d->has_late && holds(bin, 0)) { /* judged well before the break, heard of well after it */
        (void)pthread_mutex_lock(&d->lock);
        d->late_is_inside = true;
        (void)pthread_mutex_unlock(&d->lock);
        while (!is_broken(d))
            (void)usleep(1000);
        (void)usleep(20000);
        return WG_OK;
    }
    for (bool is_inside = false; d->has_late && !is_inside;) {
        (void)usleep(1000);
        (void)pthread_mutex_lock(&d->lock);
        is_inside = d->late_is_inside;
        (void)pthread_mutex_unlock(&d->lock);
    }
    (void)pthread_mutex_lock(&d->lock);
    wg_status status = judge(d, bin, why);
    d->refused += status != WG_OK;
    (void)pthread_mutex_unlock(&d->lock);
    return status;
}

static device device_new(void)
{
    return (device){.lock = PTHREAD_MUTEX_INITIALIZER, .never = UINT64_MAX};
}

/* A run in a directory of its own; path_of gives its files. */
static int run_count;

static const char *corpus_name = "corpus.jsonl";

static const char *path_of(const char *name)
{
    static char path[400];

    (void)snprintf(path, sizeof(path), "%s/out-%d/%s", folder.path, run_count, name);
    return path;
}

static wg_status run(device *d, uint32_t threads, uint64_t bin_tokens, char **report)
{
    static char kept[1 << 15];
    char corpus[256], out[256];
    const char *inputs[] = {corpus};
    wg_job *job = NULL;

    run_count++;
    (void)snprintf(corpus, sizeof(corpus), "%s/%s", folder.path, corpus_name);
    (void)snprintf(out, sizeof(out), "%s/out-%d", folder.path, run_count);
    wg_job_options options = {.output = out,
                              .input = {.inputs = inputs, .input_count = 1},
                              .embed = {.thread_count = threads, .batch_tokens = bin_tokens}};
    EXPECT_OK(wg_job_open(&job, model, &options, &err));
    if (!job) exit(1);
    wgi_road_hook_set(d ? backend_status : NULL, d);
    wg_status status = wg_job_run(job, &err);
    wgi_road_hook_set(NULL, NULL);
    (void)snprintf(kept, sizeof(kept), "%s", wg_job_report(job));
    if (report) *report = kept;
    wg_job_close(job);
    return status;
}

/* Vectors of embeddings.npy, [*rows, DIM]. */
static float *vectors(size_t *rows)
{
    size_t bytes;
    char *file = wgt_slurp(path_of("embeddings.npy"), &bytes);

    *rows = bytes > 128 ? (bytes - 128) / (DIM * sizeof(float)) : 0;
    float *copy = calloc(TEXTS + 1, DIM * sizeof(float));
    if (!copy || *rows > TEXTS) exit(1);
    if (*rows) memcpy(copy, file + 128, *rows * DIM * sizeof(float));
    free(file);
    return copy;
}

/* Ids of rows.jsonl in order; returns how many. */
static size_t row_ids(int ids[TEXTS])
{
    size_t count = 0;
    char *text = wgt_slurp(path_of("rows.jsonl"), NULL);

    for (char *at = text; (at = strstr(at, "\"id\":")) != NULL && count < TEXTS; at += 5)
        ids[count++] = atoi(at + 5);
    free(text);
    return count;
}

static void same_as(const float *want)
{
    size_t rows;
    float *got = vectors(&rows);

    EXPECT_EQ(rows, TEXTS);
    EXPECT_EQ(memcmp(got, want, (size_t)TEXTS * DIM * sizeof(float)), 0);
    free(got);
}

static void random_shortage(const float *want)
{
    unsigned bins = 0, refused = 0;

    for (uint32_t threads = 1; threads <= 3; threads++) {
        for (uint64_t tokens = 64; tokens <= 512; tokens *= 2) {
            device d = device_new();
            char *report, expected[64];
            d.one_in = 20;
            wgt_seed_set(threads * 100 + tokens);
            EXPECT_OK(run(&d, threads, tokens, &report));
            EXPECT_IN(report, "\"failed\": 0");
            (void)snprintf(expected, sizeof(expected), "\"bins_failed\": %u", d.refused);
            EXPECT_IN(report, expected);
            same_as(want);
            bins += d.bins;
            refused += d.refused;
        }
    }
    fprintf(stderr, "%u of %u bins had no memory\n", refused, bins);
    EXPECT(refused > bins / 40 && refused < bins / 10);
}

/* The device holds half of what was said: capacity steps down, and the bins that follow fit. */
static void less_than_measured(const float *want)
{
    device d = device_new();

    d.holds = 130;
    EXPECT_OK(run(&d, 2, 260, NULL));
    same_as(want);
    fprintf(stderr, "bins of 260 on a device that holds 130: %u of %u refused\n", d.refused,
            d.bins);
    EXPECT(d.refused > 0 && d.refused < d.bins / 2);
}

static void one_that_never_fits(const float *want)
{
    device d = device_new();
    char *report;
    int ids[TEXTS];
    size_t rows;

    d.never = 77;
    EXPECT_OK(run(&d, 2, 256, &report));
    EXPECT_IN(report, "\"failed\": 1");
    EXPECT_IN(report, "\"no_memory\": 1");
    char *failures = wgt_slurp(path_of("failures.jsonl"), NULL);
    EXPECT_IN(failures, "\"id\":77");
    EXPECT_IN(failures, "\"code\":\"no_memory\"");
    EXPECT_IN(failures, "alone");
    free(failures);
    float *got = vectors(&rows);
    EXPECT_EQ(rows, TEXTS - 1);
    EXPECT_EQ(row_ids(ids), TEXTS - 1);
    for (size_t i = 0; i < rows && i < TEXTS - 1; i++) {
        EXPECT_EQ(ids[i], i < 77 ? i : i + 1);
        EXPECT_EQ(memcmp(got + i * DIM, want + (size_t)ids[i] * DIM, DIM * sizeof(float)), 0);
    }
    free(got);

    const char *texts[] = {"a cat", "the signal"};
    float two[2][DIM];
    d = device_new();
    d.never = 1;
    wgi_road_hook_set(backend_status, &d);
    EXPECT_EQ(wg_model_embed(model, texts, NULL, 2, &two[0][0], sizeof(two), NULL, &err),
              WG_ERR_NO_MEMORY);
    wgi_road_hook_set(NULL, NULL);
    EXPECT_IN(err.message, "text 1");
}

/* The device breaks for good at some bin: it is not asked again, and what came before is right. */
static void broken(const float *want, unsigned breaks_at)
{
    device d = device_new();
    char *report;
    int ids[TEXTS];
    size_t rows;

    d.breaks_at = breaks_at;
    EXPECT_EQ(run(&d, 3, 64, &report), WG_ERR_BACKEND);
    EXPECT_IN(err.message, "illegal access");
    EXPECT_IN(report, "\"status\": \"the backend failed\"");
    EXPECT(d.bins <= breaks_at + 2); /* two were on their way */
    float *got = vectors(&rows);
    EXPECT(rows < TEXTS);
    EXPECT_EQ(row_ids(ids), rows);
    for (size_t i = 0; i < rows; i++)
        EXPECT_EQ(memcmp(got + i * DIM, want + (size_t)ids[i] * DIM, DIM * sizeof(float)), 0);
    fprintf(stderr, "broken at bin %u: %zu rows written\n", breaks_at, rows);
    free(got);
}

/* A result that was under way when the device broke is not used, good as it may look. */
static void broken_beside(void)
{
    device d = device_new();
    char text[700] = "";
    size_t rows;

    for (int i = 0; i < 3; i++) {
        (void)strcat(text, "{\"text\": \"");
        for (int n = 0; n < 50; n++)
            (void)strcat(text, "cat ");
        (void)strcat(text, "\"}\n");
    }
    wgt_write(&folder, "three.jsonl", text, strlen(text));
    corpus_name = "three.jsonl";
    d.breaks_at = 1;
    d.has_late = true;
    EXPECT_EQ(run(&d, 3, 64, NULL), WG_ERR_BACKEND);
    EXPECT(d.late_is_inside);
    free(vectors(&rows));
    EXPECT_EQ(rows, 0);
    corpus_name = "corpus.jsonl";
}

int main(void)
{
    char corpus[256];
    size_t rows;

    folder = wgt_folder_open();
    (void)snprintf(corpus, sizeof(corpus), "%s/corpus.jsonl", folder.path);
    write_corpus(corpus);
    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = MODEL}, &err));
    if (model) {
        EXPECT_OK(run(NULL, 1, 4096, NULL));
        float *want = vectors(&rows);
        EXPECT_EQ(rows, TEXTS);
        EXPECT(memcmp(want, want + DIM, DIM * sizeof(float)) != 0);
        random_shortage(want);
        less_than_measured(want);
        one_that_never_fits(want);
        broken(want, 1);
        broken(want, 150);
        broken_beside();
        free(want);
    }
    wg_model_close(model);
    wgt_folder_close(&folder);
    return wgt_result();
}
