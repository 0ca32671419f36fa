/*
 * test_encoder_gguf.c - BERT from GGUF (tests/data, made by tools/make_tiny_gguf.py with gguf-py):
 * texts give the vectors of the folder it was made from, byte for byte, and those of the float64
 * reference; pooling as the file says; token types with and without their key; a file without a
 * vocabulary; what is refused.
 */
#include <math.h>

#include "base/json.h"
#include "harness.h"
#include "temporary.h"
#include "warpgroup/warpgroup.h"

#define TEXTS_MAX 8
#define DIM_MAX   128

static wg_error err;
static wgt_folder folder;

/* Texts of a reference.jsonl. */
typedef struct texts {
    wgi_buf text[TEXTS_MAX];
    const char *start[TEXTS_MAX];
    size_t bytes[TEXTS_MAX], count;
} texts;

static void read_texts(texts *all, const char *name)
{
    char path[512];
    size_t count;

    *all = (texts){.count = 0};
    (void)snprintf(path, sizeof(path), WGT_DATA "/%s/reference.jsonl", name);
    char *lines = wgt_slurp(path, &count);
    for (char *line = lines; *line && all->count < TEXTS_MAX;) {
        char *end = strchr(line, '\n');
        wgi_buf *text = &all->text[all->count];
        wgi_json json;
        wgi_slice key;
        wgi_json_init(&json, line, (size_t)(end - line));
        EXPECT_OK(wgi_json_object_begin(&json, &err));
        while (wgi_json_object_next(&json, &key))
            if (wgi_slice_is(key, "text"))
                EXPECT_OK(wgi_json_string(&json, text, &err));
            else
                EXPECT_OK(wgi_json_skip(&json, &err));
        wgi_json_fini(&json);
        if (text->count) {
            all->start[all->count] = text->data;
            all->bytes[all->count++] = text->count;
        }
        line = end + 1;
    }
    free(lines);
    EXPECT(all->count > 1);
}

static void free_texts(texts *all)
{
    for (size_t i = 0; i < TEXTS_MAX; i++)
        wgi_buf_fini(&all->text[i]);
}

typedef struct vectors {
    float value[TEXTS_MAX * DIM_MAX];
    uint32_t dim;
} vectors;

static void embed(vectors *out, const char *path, const texts *all, wg_pooling pooling)
{
    wg_model *model = NULL;

    *out = (vectors){.dim = 0};
    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = path}, &err));
    if (!model) return;
    out->dim = wg_model_describe(model)->dim;
    EXPECT(out->dim <= DIM_MAX);
    EXPECT_OK(wg_model_embed(model, all->start, all->bytes, all->count, out->value,
                             all->count * out->dim * sizeof(float),
                             &(wg_embed_options){.pooling = pooling}, &err));
    wg_model_close(model);
}

static void expect_same(const vectors *got, const vectors *want, const texts *all)
{
    EXPECT_EQ(got->dim, want->dim);
    EXPECT(want->dim > 0);
    EXPECT(memcmp(got->value, want->value, all->count * want->dim * sizeof(float)) == 0);
}

/* The unit vectors at the end of each text's part of reference.bin (tools/make_tiny_bert.py). */
static void expect_reference(const vectors *got, const char *name, const texts *all)
{
    char path[512];
    uint32_t head[4], tokens;
    size_t bytes, at = 8 + sizeof(head), seen = 0;
    double worst = 0, value;

    (void)snprintf(path, sizeof(path), WGT_DATA "/%s/reference.bin", name);
    char *data = wgt_slurp(path, &bytes);
    memcpy(head, data + 8, sizeof(head));
    EXPECT_EQ(head[2], got->dim);
    for (uint32_t text = 0; text < head[3]; text++) {
        memcpy(&tokens, data + at, 4);
        at += 4 + 4 * tokens + 8 * ((head[0] + 1) * (size_t)tokens + 6) * head[1] + 8 * head[2];
        bool has_text = tokens > 2; /* fewer are special tokens alone */
        for (uint32_t j = 0; j < head[2] && has_text; j++) {
            memcpy(&value, data + at + 8 * j, 8);
            double error = fabs((double)got->value[seen * head[2] + j] - value);
            if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
        }
        seen += has_text;
        at += 8 * head[2];
    }
    EXPECT(at == bytes);
    EXPECT_EQ(seen, all->count);
    EXPECT(worst <= 2e-5);
    free(data);
}

static void check(const char *name)
{
    char path[512], file[512];
    vectors want, got;
    texts all;

    read_texts(&all, name);
    (void)snprintf(path, sizeof(path), WGT_DATA "/%s", name);
    (void)snprintf(file, sizeof(file), WGT_DATA "/%s.gguf", name);
    embed(&want, path, &all, WG_POOLING_MODEL);
    embed(&got, file, &all, WG_POOLING_MODEL);
    expect_same(&got, &want, &all);
    expect_reference(&got, name, &all);
    free_texts(&all);
}

static const char name[] = "tiny-bert-h32-d8-mean";

/* Matrices in blocks, a kind after the other, against the same values in F32. */
static void check_quantised(void)
{
    vectors exact, want, got;
    texts all;

    read_texts(&all, name);
    embed(&exact, WGT_DATA "/tiny-bert-h32-d8-mean.gguf", &all, WG_POOLING_MODEL);
    embed(&want, WGT_DATA "/tiny-bert-quantised-wide.gguf", &all, WG_POOLING_MODEL);
    embed(&got, WGT_DATA "/tiny-bert-quantised.gguf", &all, WG_POOLING_MODEL);
    expect_same(&got, &want, &all);
    EXPECT(memcmp(got.value, exact.value, sizeof(float) * got.dim) != 0);
    free_texts(&all);
}

/* The file with `bytes` in place of those that stand `behind` bytes after its key. */
static const char *change(const char *key, size_t behind, const void *bytes, size_t count)
{
    static char path[512];
    size_t file_bytes, key_bytes = strlen(key);
    char *data = wgt_slurp(WGT_DATA "/tiny-bert-h32-d8-mean.gguf", &file_bytes), *found = NULL;

    for (size_t i = 0; i + key_bytes < file_bytes && !found; i++)
        if (memcmp(data + i, key, key_bytes) == 0) found = data + i;
    EXPECT(found != NULL);
    if (found) memcpy(found + key_bytes + behind, bytes, count);
    wgt_write(&folder, "changed.gguf", data, file_bytes);
    free(data);
    (void)snprintf(path, sizeof(path), "%s/changed.gguf", folder.path);
    return path;
}

#define KIND_BYTES 4 /* between a key and its value */

static void check_pooling(void)
{
    static const wg_pooling poolings[4] = {WG_POOLING_MEAN, WG_POOLING_MEAN, WG_POOLING_CLS,
                                           WG_POOLING_LAST};
    vectors want, got;
    texts all;

    read_texts(&all, name);
    for (uint32_t type = 0; type < 4; type++) {
        embed(&want, WGT_DATA "/tiny-bert-h32-d8-mean", &all, poolings[type]);
        embed(&got, change("bert.pooling_type", KIND_BYTES, &type, 4), &all, WG_POOLING_MODEL);
        expect_same(&got, &want, &all);
    }
    free_texts(&all);
}

static void check_types(void)
{
    static const uint32_t one = 1;
    wg_model *model = NULL;
    vectors want, got;
    texts all;

    read_texts(&all, name);
    embed(&want, WGT_DATA "/tiny-bert-h32-d8-mean", &all, WG_POOLING_MODEL);
    /* Without the key ("..._counT") the tensor says it. */
    embed(&got, change("tokenizer.ggml.token_type_coun", 0, "T", 1), &all, WG_POOLING_MODEL);
    expect_same(&got, &want, &all);
    EXPECT_EQ(wg_model_open(&model,
                            &(wg_model_options){.path = change("tokenizer.ggml.token_type_count",
                                                               KIND_BYTES, &one, 4)},
                            &err),
              WG_ERR_FORMAT);
    EXPECT_IN(err.message, "token_types.weight"); /* as the file names it */
    /* As converters write DistilBERT: a count of 1 and no table. */
    const char *path = change("tokenizer.ggml.token_type_count", KIND_BYTES, &one, 4);
    size_t bytes;
    char *data = wgt_slurp(path, &bytes);
    for (size_t i = 0; i + 18 < bytes; i++)
        if (memcmp(data + i, "token_types.weight", 18) == 0) data[i] = 'x';
    wgt_write(&folder, "changed.gguf", data, bytes);
    free(data);
    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = path}, &err));
    wg_model_close(model);
    free_texts(&all);
}

static void check_refused(const char *key, const void *value, size_t count, const char *part)
{
    wg_model *model = NULL;
    const char *path = change(key, KIND_BYTES, value, count);

    EXPECT_EQ(wg_model_open(&model, &(wg_model_options){.path = path}, &err), WG_ERR_UNSUPPORTED);
    EXPECT_IN(err.message, part);
    EXPECT_IN(err.message, "changed.gguf: ");
    EXPECT(model == NULL);
}

/* A tensor that would have been passed over, as the file names it. */
static void check_strange_tensor(const char *tensor, const char *instead, wg_status status,
                                 const char *part)
{
    size_t bytes, name_bytes = strlen(tensor);
    char *data = wgt_slurp(WGT_DATA "/tiny-bert-h32-d8-mean.gguf", &bytes);
    wg_model *model = NULL;
    char path[512];
    int found = 0;

    for (size_t i = 0; i + name_bytes < bytes; i++) {
        if (memcmp(data + i, tensor, name_bytes) != 0) continue;
        memcpy(data + i, instead, name_bytes);
        found++;
    }
    EXPECT_EQ(found, 1);
    wgt_write(&folder, "changed.gguf", data, bytes);
    free(data);
    (void)snprintf(path, sizeof(path), "%s/changed.gguf", folder.path);
    EXPECT_EQ(wg_model_open(&model, &(wg_model_options){.path = path}, &err), status);
    EXPECT_IN(err.message, part);
    EXPECT_IN(err.message, instead);
}

static wg_status run_job(const char *path, const char *input, const char *output)
{
    static char files[2][512];
    const char *inputs[] = {files[0]};
    wg_model *model = NULL;
    wg_job *job = NULL;
    wg_job_options options = {.output = files[1],
                              .input = {.inputs = inputs, .input_count = 1, .ids_field = "ids"},
                              .embed = {.prompt = "a prompt"}};

    (void)snprintf(files[0], sizeof(files[0]), "%s/%s", folder.path, input);
    (void)snprintf(files[1], sizeof(files[1]), "%s/%s", folder.path, output);
    if (strcmp(input, "text.jsonl") == 0) options.input.ids_field = NULL;
    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = path}, &err));
    wg_status status = wg_job_open(&job, model, &options, &err);
    if (status == WG_OK) status = wg_job_run(job, &err);
    wg_job_close(job);
    wg_model_close(model);
    return status;
}

/* A file without a vocabulary serves records that bring ids, and says so where a text comes. */
static void check_without_words(void)
{
    static const char key[] = "tokenizer.ggml.tokens", ids[] = "{\"ids\":[2,5,6,3]}\n",
                      text[] = "{\"text\":\"amber\"}\n";
    const char *path = change("tokenizer.ggml.token_type_count", KIND_BYTES, "\2", 1);
    char output[512];
    size_t bytes, want_bytes;
    char *data = wgt_slurp(path, &bytes);

    for (size_t i = 0; i + sizeof(key) < bytes; i++)
        if (memcmp(data + i, key, sizeof(key) - 1) == 0) data[i + sizeof(key) - 2] = 'S';
    wgt_write(&folder, "changed.gguf", data, bytes);
    free(data);
    wgt_write(&folder, "ids.jsonl", ids, sizeof(ids) - 1);
    wgt_write(&folder, "text.jsonl", text, sizeof(text) - 1);
    EXPECT_OK(run_job(path, "ids.jsonl", "without.jsonl"));
    EXPECT_OK(run_job(WGT_DATA "/tiny-bert-h32-d8-mean", "ids.jsonl", "with.jsonl"));
    (void)snprintf(output, sizeof(output), "%s/without.jsonl", folder.path);
    data = wgt_slurp(output, &bytes);
    (void)snprintf(output, sizeof(output), "%s/with.jsonl", folder.path);
    char *want = wgt_slurp(output, &want_bytes);
    EXPECT(bytes > 300); /* 32 numbers */
    EXPECT(bytes == want_bytes && memcmp(data, want, bytes) == 0);
    free(data);
    free(want);
    EXPECT_EQ(run_job(path, "text.jsonl", "none.jsonl"), WG_ERR_UNSUPPORTED);
    EXPECT_IN(err.message, "has no tokenizer");
    EXPECT_IN(err.message, "changed.gguf");
}

int main(void)
{
    static const uint32_t rank = 4;

    folder = wgt_folder_open();
    check("tiny-bert-h32-d8-mean");
    check("tiny-bert-h128-d64-f16-mean");
    check_quantised();
    check_pooling();
    check_types();
    check_without_words();
    check_strange_tensor("blk.0.attn_k.bias", "blk.0.attn_z.bias", WG_ERR_UNSUPPORTED,
                         "is not one that bert models have here");
    check_strange_tensor("blk.1.attn_k.bias", "blk.7.attn_k.bias", WG_ERR_FORMAT,
                         "bert.block_count says 2");
    check_refused("bert.pooling_type", &rank, 4, "bert.pooling_type: 4");
    check_refused("bert.attention.causal", "\1", 1, "bert.attention.causal");
    wgt_folder_close(&folder);
    return wgt_result();
}
