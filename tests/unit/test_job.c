/*
 * test_job.c - jobs and wg_model_embed: what is refused before any input is read, what a failed
 * document costs, what ready ids are spared, that both faces give the same bytes, that a stop
 * leaves whole rows.
 */
#include "harness.h"
#include "temporary.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "warpgroup/warpgroup.h"

#define MODEL WGT_DATA "/tiny-bert-h32-d8-mean"
#define DIM   32

static wgt_folder folder;
static wg_error err;
static wg_model *model;

static const char *in_folder(const char *name)
{
    static char path[4][256];
    static int turn;

    turn = (turn + 1) % 4;
    (void)snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder.path, name);
    return path[turn];
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    if (!file) return;
    (void)fputs(text, file);
    (void)fclose(file);
}

static char *slurp(const char *path)
{
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    size_t count = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

    EXPECT(file != NULL);
    if (file) (void)fclose(file);
    text[count] = 0;
    return text;
}

static wg_status run_job(const wg_job_options *with, const char *input, char **report)
{
    static char kept[1 << 15];
    wg_job_options options = *with;
    wg_job *job = NULL;
    const char *inputs[] = {input};

    options.input.inputs = inputs;
    options.input.input_count = 1;
    wg_status status = wg_job_open(&job, model, &options, &err);
    if (status == WG_OK) {
        status = wg_job_run(job, &err);
        (void)snprintf(kept, sizeof(kept), "%s", wg_job_report(job));
        if (report) *report = kept;
        EXPECT_EQ(wg_job_run(job, &err), WG_ERR_CLOSED);
    }
    wg_job_close(job);
    return status;
}

static void refused_at_the_start(void)
{
    const char *input = in_folder("two.jsonl"), *out = in_folder("refused");
    struct stat info;

    put(input, "{\"text\": \"a cat\"}\n{\"text\": \"the signal of a cat\"}\n");
    EXPECT_EQ(
        run_job(&(wg_job_options){.output = out, .embed = {.token_count_max = 65}}, input, NULL),
        WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "64 positions");
    EXPECT_EQ(run_job(&(wg_job_options){.output = out,
                                        .embed = {.token_count_max = 20, .batch_tokens = 10}},
                      input, NULL),
              WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "at least");
    EXPECT_EQ(
        run_job(&(wg_job_options){.output = out, .embed = {.memory_bytes = 1 << 20}}, input, NULL),
        WG_ERR_LIMIT);
    EXPECT_IN(err.message, "--memory");
    EXPECT_EQ(
        run_job(&(wg_job_options){.output = out, .embed = {.prompt_name = "nobody"}}, input, NULL),
        WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "nobody");
    EXPECT_EQ(run_job(&(wg_job_options){.output = out, .padded_sorted = 1}, input, NULL),
              WG_ERR_ARGUMENT);
    EXPECT_EQ(run_job(&(wg_job_options){.output = input}, input, NULL), WG_ERR_ARGUMENT);
    EXPECT(stat(out, &info) != 0); /* nothing refused leaves an output behind */
    EXPECT_EQ(wg_job_open(NULL, model, NULL, &err), WG_ERR_ARGUMENT);
    wg_job_close(NULL);
    EXPECT(wg_job_progress(NULL).documents_done == 0);
}

static void failures_are_rows_of_their_own(void)
{
    const char *input = in_folder("mixed.jsonl"), *out = in_folder("mixed-out");
    char *report = NULL, path[300];

    put(input, "{\"id\": 7, \"text\": \"a cat\"}\n"
               "{\"id\": 8, \"nothing\": 1}\n"
               "not json\n"
               "{\"id\": 9, \"text\": \"the signal ran\"}\n");
    EXPECT_OK(run_job(&(wg_job_options){.output = out}, input, &report));
    EXPECT_IN(report, "\"documents\": 4");
    EXPECT_IN(report, "\"failed\": 2");
    EXPECT_IN(report, "\"bad_json\": 1");
    EXPECT_IN(report, "\"no_text\": 1");
    (void)snprintf(path, sizeof(path), "%s/failures.jsonl", out);
    char *failures = slurp(path);
    EXPECT_IN(failures, "\"line\":2");
    EXPECT_IN(failures, "\"line\":3");
    (void)snprintf(path, sizeof(path), "%s/rows.jsonl", out);
    char *rows = slurp(path);
    EXPECT_IN(rows, "\"id\":7");
    EXPECT_IN(rows, "\"row\":1");
    EXPECT(!strstr(rows, "\"row\":2"));
    (void)snprintf(path, sizeof(path), "%s/report.json", out);
    (void)strcat(report, "\n");
    EXPECT_TEXT(slurp(path), report);
}

static void too_long(void)
{
    const char *input = in_folder("long.jsonl");
    char text[2000] = "{\"text\": \"", *report = NULL;

    for (int i = 0; i < 200; i++)
        (void)strcat(text, "cat ");
    (void)strcat(text, "\"}\n{\"text\": \"a\"}\n");
    put(input, text);
    EXPECT_OK(run_job(&(wg_job_options){.output = in_folder("cut")}, input, &report));
    EXPECT_IN(report, "\"truncated\": 1");
    EXPECT_IN(report, "\"failed\": 0");
    EXPECT_OK(run_job(
        &(wg_job_options){.output = in_folder("not-cut"), .embed = {.truncate = WG_TRUNCATE_ERROR}},
        input, &report));
    EXPECT_IN(report, "\"too_long\": 1");

    put(input, "{\"input_ids\": [2, 3, 4]}\n{\"input_ids\": [2, 99999]}\n{\"input_ids\": []}\n"
               "{\"input_ids\": [5, -1]}\n");
    wg_job_options ids = {.output = in_folder("ids"), .input = {.ids_field = "input_ids"}};
    EXPECT_OK(run_job(&ids, input, &report));
    EXPECT_IN(report, "\"failed\": 3");
    EXPECT_IN(report, "\"bad_token\"");
    EXPECT_IN(report, "\"no_tokens\": 1");
    EXPECT_IN(slurp(in_folder("ids/failures.jsonl")), "99999");
}

/* Ready ids get no prompt, so a model that leaves the prompt out of the mean skips none of them. */
static void ids_without_prompt(void)
{
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json",
                                        "modules.json", "sentence_bert_config.json"};
    wg_model *with = model;
    char from[400], input[400], *report = NULL;
    static char plain[1 << 12];

    EXPECT_EQ(mkdir(in_folder("skips"), 0755), 0);
    EXPECT_EQ(mkdir(in_folder("skips/1_Pooling"), 0755), 0);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char to[32];
        (void)snprintf(from, sizeof(from), MODEL "/%s", files[i]);
        (void)snprintf(to, sizeof(to), "skips/%s", files[i]);
        if (access(from, R_OK) == 0) EXPECT_EQ(symlink(from, in_folder(to)), 0);
    }
    put(in_folder("skips/1_Pooling/config.json"),
        "{\"word_embedding_dimension\": 32, \"pooling_mode_mean_tokens\": true, "
        "\"include_prompt\": false}");
    (void)snprintf(input, sizeof(input), "%s", in_folder("ready.jsonl"));
    put(input, "{\"ids\": [2, 3, 4, 5, 6]}\n");
    wg_job_options options = {.output = in_folder("plain.jsonl"), .input = {.ids_field = "ids"}};
    EXPECT_OK(run_job(&options, input, &report));
    (void)snprintf(plain, sizeof(plain), "%s", slurp(in_folder("plain.jsonl")));
    EXPECT_IN(plain, "embedding");
    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = in_folder("skips")}, &err));
    options.output = in_folder("skipped.jsonl");
    options.embed.prompt = "cat ";
    EXPECT_OK(run_job(&options, input, &report));
    EXPECT(strcmp(slurp(in_folder("skipped.jsonl")), plain) == 0);
    wg_model_close(model);
    model = with;
}

static void same_bytes_from_both_faces(void)
{
    const char *texts[] = {"a cat", "the signal ran", "", "cat cat cat cat cat"};
    float vectors[4][DIM], rows[4][DIM];
    char header[128];

    EXPECT_OK(wg_model_embed(model, texts, NULL, 4, &vectors[0][0], sizeof(vectors), NULL, &err));
    put(in_folder("four.jsonl"), "{\"text\": \"a cat\"}\n{\"text\": \"the signal ran\"}\n"
                                 "{\"text\": \"\"}\n{\"text\": \"cat cat cat cat cat\"}\n");
    EXPECT_OK(
        run_job(&(wg_job_options){.output = in_folder("four")}, in_folder("four.jsonl"), NULL));
    FILE *file = fopen(in_folder("four/embeddings.npy"), "rb");
    EXPECT(file != NULL);
    if (file) {
        EXPECT_EQ(fread(header, 1, sizeof(header), file), sizeof(header));
        EXPECT_EQ(fread(rows, 1, sizeof(rows), file), sizeof(rows));
        (void)fclose(file);
        EXPECT_EQ(memcmp(vectors, rows, sizeof(rows)), 0);
    }
    EXPECT_EQ(
        wg_model_embed(model, texts, NULL, 4, &vectors[0][0], sizeof(vectors) - 1, NULL, &err),
        WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "4 x 32 floats");
    texts[2] = NULL;
    EXPECT_EQ(wg_model_embed(model, texts, NULL, 4, &vectors[0][0], sizeof(vectors), NULL, &err),
              WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "text 2");
    EXPECT_OK(wg_model_embed(model, NULL, NULL, 0, NULL, 0, NULL, &err));

    const char *with_nul = "a cat\0 and the signal";
    size_t bytes = 21;
    float whole[DIM], cut[DIM];
    EXPECT_OK(wg_model_embed(model, &with_nul, &bytes, 1, whole, sizeof(whole), NULL, &err));
    EXPECT_OK(wg_model_embed(model, &with_nul, NULL, 1, cut, sizeof(cut), NULL, &err));
    EXPECT(memcmp(whole, cut, sizeof(whole)) != 0);
}

static void plan(void)
{
    char *report = NULL;
    struct stat info;

    EXPECT_OK(run_job(&(wg_job_options){.plan_only = 1, .output = in_folder("planned")},
                      in_folder("mixed.jsonl"), &report));
    EXPECT_IN(report, "\"documents\": 4");
    EXPECT_IN(report, "\"failed\": 2");
    EXPECT_IN(report, "\"bins\": 1");
    EXPECT_IN(report, "\"histogram\"");
    EXPECT(stat(in_folder("planned"), &info) != 0);
}

/* A pipe that gives text for ever: only a stop ends it. */
static void *feed(void *argument)
{
    int fd = *(int *)argument;
    static const char line[] = "{\"text\": \"the signal of a cat ran\"}\n";

    while (write(fd, line, sizeof(line) - 1) > 0) {
    }
    (void)close(fd);
    return NULL;
}

static void *stop_later(void *job)
{
    while (wg_job_progress(job).documents_done < 500)
        (void)usleep(1000);
    wg_job_stop(job);
    return NULL;
}

static void stop_leaves_whole_rows(void)
{
    int ends[2];
    pthread_t feeder, stopper;
    wg_job *job = NULL;
    char header[129] = {0}, want[64];
    const char *inputs[] = {in_folder("pipe")};

    EXPECT_EQ(pipe(ends), 0);
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
    EXPECT_EQ(symlink(path, inputs[0]), 0);
    wg_job_options options = {
        .output = in_folder("stopped"),
        .input = {.inputs = inputs, .input_count = 1, .format = WG_FORMAT_JSONL}};
    EXPECT_OK(wg_job_open(&job, model, &options, &err));
    if (!job) return;
    EXPECT_EQ(pthread_create(&feeder, NULL, feed, &ends[1]), 0);
    EXPECT_EQ(pthread_create(&stopper, NULL, stop_later, job), 0);
    EXPECT_EQ(wg_job_run(job, &err), WG_ERR_INTERRUPTED);
    (void)pthread_join(stopper, NULL);
    wg_progress progress = wg_job_progress(job);
    EXPECT(progress.documents_done >= 500);
    EXPECT_IN(wg_job_report(job), "stopped on request");
    wg_job_close(job);
    (void)close(ends[0]);
    (void)pthread_join(feeder, NULL);

    FILE *file = fopen(in_folder("stopped/embeddings.npy"), "rb");
    EXPECT(file != NULL);
    if (!file) return;
    EXPECT_EQ(fread(header, 1, 128, file), 128);
    (void)snprintf(want, sizeof(want), "(%llu, %d)", (unsigned long long)progress.documents_done,
                   DIM);
    EXPECT_IN(header + 10, want);
    (void)fseek(file, 0, SEEK_END);
    EXPECT_EQ(ftell(file), 128 + (long)(progress.documents_done * DIM * sizeof(float)));
    (void)fclose(file);
}

static void models_that_are_not_there(void)
{
    wg_model *none = NULL;

    EXPECT(wg_model_open(&none, &(wg_model_options){.path = "/nonexistent/model"}, &err) != WG_OK);
    EXPECT_IN(err.message, "/nonexistent/model");
    EXPECT(none == NULL);
    EXPECT_EQ(wg_model_open(&none, &(wg_model_options){0}, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(
        wg_model_open(&none, &(wg_model_options){.path = MODEL, .backend_name = "abacus"}, &err),
        WG_ERR_BACKEND);
    /* Recipe D-05: what was asked for, or an error. */
    EXPECT_EQ(
        wg_model_open(&none, &(wg_model_options){.path = MODEL, .backend_name = "cuda"}, &err),
        WG_ERR_BACKEND);
    EXPECT_IN(err.message, "no backend 'cuda'");
    EXPECT(none == NULL);
    wg_model_close(NULL);
}

int main(void)
{

    (void)signal(SIGPIPE, SIG_IGN);
    folder = wgt_folder_open();
    models_that_are_not_there();
    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = MODEL}, &err));
    if (model) {
        EXPECT_EQ(wg_model_describe(model)->dim, DIM);
        refused_at_the_start();
        failures_are_rows_of_their_own();
        too_long();
        ids_without_prompt();
        same_bytes_from_both_faces();
        plan();
        stop_leaves_whole_rows();
    }
    wg_model_close(model);
    wgt_folder_close(&folder);
    return wgt_result();
}
