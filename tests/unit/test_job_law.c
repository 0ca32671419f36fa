/*
 * test_job_law.c - the law, end to end: a document's bytes in embeddings.npy are the same whatever
 * the bin size, the thread count, the order of the corpus, or padding; on every instruction set
 * that this machine has. The corpus is made here: 300 texts of 1 to 60 words. LABELS: quick stress
 */
#include "harness.h"
#include "temporary.h"

#include <sys/stat.h>
#include <unistd.h>

#include "warpgroup/warpgroup.h"

#define TEXTS 300
#define MODEL WGT_DATA "/tiny-bert-h32-d8-mean"

static wgt_folder folder;
static wg_error err;

/* A JSONL corpus whose line i holds text order[i]; ids are the text's number. */
static void write_corpus(const char *path, const int *order)
{
    static const char *const words[] = {"the", "signal", "a", "of", "cat", "1", "ran", "zz", "."};
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    for (int i = 0; i < TEXTS && file; i++) {
        wgt_seed = (uint64_t)order[i] * 977 + 5;
        fprintf(file, "{\"id\": %d, \"text\": \"", order[i]);
        for (uint64_t n = 1 + wgt_below(order[i] % 10 == 0 ? 60 : 12); n; n--)
            fprintf(file, "%s%s", words[wgt_below(9)], n > 1 ? " " : "");
        fprintf(file, "\"}\n");
    }
    if (file) (void)fclose(file);
}

/* Embeds the corpus and returns vectors by id: [TEXTS, *dim]. */
static float *embed(const wg_model *model, const char *corpus, const int *order,
                    const wg_job_options *with, size_t *dim)
{
    static int run;
    char out[256], path[300], header[128];
    wg_job_options options = *with;
    const char *inputs[] = {corpus};
    wg_job *job = NULL;

    (void)snprintf(out, sizeof(out), "%s/out-%d", folder.path, run++);
    options.input.inputs = inputs;
    options.input.input_count = 1;
    options.output = out;
    EXPECT_OK(wg_job_open(&job, model, &options, &err));
    if (!job) exit(1);
    EXPECT_OK(wg_job_run(job, &err));
    wg_progress progress = wg_job_progress(job);
    EXPECT_EQ(progress.documents_done, TEXTS);
    EXPECT_EQ(progress.documents_failed, 0);
    wg_job_close(job);

    (void)snprintf(path, sizeof(path), "%s/embeddings.npy", out);
    *dim = wg_model_describe(model)->dim;
    float *rows = calloc(TEXTS, *dim * sizeof(float));
    float *row = calloc(*dim, sizeof(float));
    FILE *file = fopen(path, "rb");
    if (!file || !rows || !row) {
        EXPECT(file != NULL);
        exit(1);
    }
    EXPECT_EQ(fread(header, 1, sizeof(header), file), sizeof(header));
    for (int i = 0; i < TEXTS; i++) {
        EXPECT_EQ(fread(row, sizeof(float), *dim, file), *dim);
        memcpy(rows + (size_t)order[i] * *dim, row, *dim * sizeof(float));
    }
    EXPECT_EQ(fgetc(file), EOF);
    (void)fclose(file);
    free(row);
    return rows;
}

static void check_isa(wg_isa isa, const char *name)
{
    wg_model *model = NULL;
    int order[TEXTS], shuffled[TEXTS];
    char corpus[256], mixed[256];
    size_t dim;

    if (wg_model_open(&model, &(wg_model_options){.path = MODEL, .isa = isa}, &err) != WG_OK) {
        fprintf(stderr, "skipped on this machine: %s (%s)\n", name, err.message);
        return;
    }
    for (int i = 0; i < TEXTS; i++)
        order[i] = shuffled[i] = i;
    wgt_seed_set(11);
    for (int i = TEXTS - 1; i > 0; i--) {
        int j = (int)wgt_below((uint64_t)i + 1), kept = shuffled[i];
        shuffled[i] = shuffled[j];
        shuffled[j] = kept;
    }
    (void)snprintf(corpus, sizeof(corpus), "%s/corpus.jsonl", folder.path);
    (void)snprintf(mixed, sizeof(mixed), "%s/mixed.jsonl", folder.path);
    write_corpus(corpus, order);
    write_corpus(mixed, shuffled);

    /* Alone: bins that hold one longest text, one thread, batches of one. */
    float *alone = embed(model, corpus, order,
                         &(wg_job_options){.padded_batch = 1, .embed = {.thread_count = 1}}, &dim);
    static const uint64_t bins[] = {64, 65, 100, 257, 1024, 5000};
    for (size_t b = 0; b < sizeof(bins) / sizeof(bins[0]); b++) {
        for (uint32_t threads = 1; threads <= 3; threads++) {
            wg_job_options options = {.embed = {.batch_tokens = bins[b], .thread_count = threads}};
            float *packed =
                embed(model, b % 2 ? mixed : corpus, b % 2 ? shuffled : order, &options, &dim);
            if (memcmp(alone, packed, TEXTS * dim * sizeof(float)) != 0) {
                wgt_fail_at(__FILE__, __LINE__);
                fprintf(stderr, "%s: bins of %d, %u threads: bytes differ\n", name, (int)bins[b],
                        threads);
            }
            free(packed);
        }
    }
    for (int sorted = 0; sorted < 2; sorted++) {
        wg_job_options options = {.padded_batch = 8, .padded_sorted = sorted};
        float *padded = embed(model, corpus, order, &options, &dim);
        EXPECT_EQ(memcmp(alone, padded, TEXTS * dim * sizeof(float)), 0);
        free(padded);
    }

    /* The texts are not all the same vector, or the comparison would be worth nothing. */
    EXPECT(memcmp(alone, alone + dim, dim * sizeof(float)) != 0);
    free(alone);
    wg_model_close(model);
}

/* One process has one instruction set in the kernel generator, so each gets a process of its own.
 */
int main(int argc, char **argv)
{
    static const struct {
        wg_isa isa;
        const char *name;
    } all[] = {{WG_ISA_PLAIN, "plain"}, {WG_ISA_AVX2, "avx2"}, {WG_ISA_AVX512, "avx512"}};
    char command[512];

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (argc > 1 && strcmp(argv[1], all[i].name) == 0) {
            folder = wgt_folder_open();
            check_isa(all[i].isa, all[i].name);
            wgt_folder_close(&folder);
            return wgt_result();
        }
        if (argc > 1) continue;
        (void)snprintf(command, sizeof(command), "\"%s\" %s", argv[0], all[i].name);
        EXPECT_EQ(system(command), 0);
    }
    return wgt_result();
}
