/*
 * test_head.c - classifiers of every family that has one (tests/data/tiny-heads, written by
 * transformers): they open for embedding, their head is described with its labels, and its tensors
 * put together as head.h says give the original's float64 scores; then heads that are malformed.
 */
#include "model/head.h"

#include <math.h>

#include "base/alloc.h"
#include "base/json.h"
#include "harness.h"
#include "temporary.h"
#include "warpgroup/warpgroup.h"

#define HIDDEN     16
#define LABELS_MAX 8

static wg_error err;

typedef struct parts {
    wgi_description description;
    wgi_weights *weights;
    wgi_head head;
} parts;

static wg_status open_parts(parts *p, const char *path)
{
    wg_status status;

    *p = (parts){.weights = NULL};
    status = wgi_description_load(&p->description, path, &err);
    if (status == WG_OK) status = wgi_weights_open(&p->weights, path, &err);
    if (status == WG_OK) status = wgi_head_load(&p->head, path, &p->description, p->weights, &err);
    return status;
}

static void close_parts(parts *p)
{
    wgi_head_fini(&p->head);
    wgi_weights_close(p->weights);
}

/* ----------------------------------------------------------------------------------- scores */

static void apply(const wgi_head_layer *layer, const double *in, size_t rows, double *out)
{
    float weight[HIDDEN], bias;

    for (size_t row = 0; row < rows; row++) {
        wgi_tensor_widen(layer->weight, row * HIDDEN, HIDDEN, weight);
        out[row] = 0;
        for (size_t j = 0; j < HIDDEN; j++)
            out[row] += (double)weight[j] * in[j];
        if (!layer->bias) continue;
        wgi_tensor_widen(layer->bias, row, 1, &bias);
        out[row] += (double)bias;
    }
}

static double activate(wgi_activation activation, double x)
{
    switch (activation) {
    case WGI_ACTIVATION_TANH:
        return tanh(x);
    case WGI_ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case WGI_ACTIVATION_GELU:
        return x * 0.5 * (1 + erf(x / sqrt(2)));
    case WGI_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    default:
        return NAN;
    }
}

static void norm(const parts *p, double *x)
{
    float weight[HIDDEN], bias[HIDDEN] = {0};
    double mean = 0, variance = 0;

    if (!p->head.norm_weight) return;
    wgi_tensor_widen(p->head.norm_weight, 0, HIDDEN, weight);
    if (p->head.norm_bias) wgi_tensor_widen(p->head.norm_bias, 0, HIDDEN, bias);
    for (size_t j = 0; j < HIDDEN; j++)
        mean += x[j] / HIDDEN;
    for (size_t j = 0; j < HIDDEN; j++)
        variance += (x[j] - mean) * (x[j] - mean) / HIDDEN;
    for (size_t j = 0; j < HIDDEN; j++)
        x[j] = (x[j] - mean) / sqrt(variance + (double)p->description.norm_epsilon) *
                   (double)weight[j] +
               (double)bias[j];
}

static void check_scores(const parts *p, const wg_model *model, const char *line, size_t bytes)
{
    wgi_buf text = {0};
    wgi_json json;
    wgi_slice key;
    double want[LABELS_MAX], pooled[HIDDEN], x[HIDDEN], scores[LABELS_MAX], worst = 0;
    float vector[HIDDEN];
    size_t count = 0;

    wgi_json_init(&json, line, bytes);
    EXPECT_OK(wgi_json_object_begin(&json, &err));
    while (wgi_json_object_next(&json, &key)) {
        if (wgi_slice_is(key, "text")) {
            EXPECT_OK(wgi_json_string(&json, &text, &err));
            continue;
        }
        EXPECT_OK(wgi_json_array_begin(&json, &err));
        while (wgi_json_array_next(&json) && count < LABELS_MAX)
            EXPECT_OK(wgi_json_double(&json, &want[count++], &err));
    }
    EXPECT_OK(wgi_json_finish(&json, &err));
    EXPECT_EQ(count, p->head.label_count);
    wg_embed_options options = {.normalize = -1,
                                .pooling = p->head.is_mean ? WG_POOLING_MEAN : WG_POOLING_CLS};
    EXPECT_OK(wg_model_embed(model, (const char *[]){text.data}, &text.count, 1, vector,
                             sizeof(vector), &options, &err));
    for (size_t j = 0; j < HIDDEN; j++)
        pooled[j] = (double)vector[j];
    apply(&p->head.dense, pooled, HIDDEN, x);
    for (size_t j = 0; j < HIDDEN; j++)
        x[j] = activate(p->head.activation, x[j]);
    norm(p, x);
    apply(&p->head.out, x, count, scores);
    for (size_t i = 0; i < count; i++) {
        double error = fabs(scores[i] - want[i]);
        if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
    }
    EXPECT(worst <= 2e-5);
    if (!(worst <= 2e-5)) fprintf(stderr, "  %s: off by %g\n", p->description.architecture, worst);
    wgi_buf_fini(&text);
}

static void check(const char *name, wgi_problem problem, const char *labels)
{
    char path[512], got[256] = "";
    wg_model *model = NULL;
    size_t bytes, lines = 0;
    parts p;

    (void)snprintf(path, sizeof(path), WGT_DATA "/tiny-heads/%s", name);
    EXPECT_OK(open_parts(&p, path));
    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = path}, &err));
    if (!model) exit(1);
    const wg_model_info *info = wg_model_describe(model);
    EXPECT_EQ(info->label_count, p.head.label_count);
    EXPECT_TEXT(info->problem_type, wgi_problem_name(problem));
    EXPECT_EQ(p.head.problem, problem);
    for (uint32_t i = 0; i < info->label_count; i++) {
        strncat(got, i ? "," : "", sizeof(got) - strlen(got) - 1);
        strncat(got, info->labels[i], sizeof(got) - strlen(got) - 1);
    }
    EXPECT_TEXT(got, labels);

    (void)snprintf(path, sizeof(path), WGT_DATA "/tiny-heads/%s/reference.jsonl", name);
    char *data = wgt_slurp(path, &bytes);
    for (char *line = data; *line; lines++) {
        char *end = strchr(line, '\n');
        check_scores(&p, model, line, (size_t)(end - line));
        line = end + 1;
    }
    EXPECT_EQ(lines, 4);
    free(data);
    wg_model_close(model);
    close_parts(&p);
}

/* ---------------------------------------------------------------------------------- refusals */

/* A copy of one of the folders; a text of a file, once, is another one there. */
static char copied[260];

static void copy(const wgt_folder *folder, const char *name, const char *file, const char *from,
                 const char *to)
{
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json"};
    char path[400], name_there[64];

    (void)snprintf(copied, sizeof(copied), "%s/copy", folder->path);
    for (size_t f = 0; f < 3; f++) {
        size_t bytes, count = strlen(from);
        wgi_buf out = {0};
        (void)snprintf(path, sizeof(path), WGT_DATA "/tiny-heads/%s/%s", name, files[f]);
        char *data = wgt_slurp(path, &bytes);
        size_t at = bytes;
        for (size_t i = 0; i + count <= bytes && at == bytes && strcmp(file, files[f]) == 0; i++)
            if (memcmp(data + i, from, count) == 0) at = i;
        EXPECT_EQ(at < bytes, strcmp(file, files[f]) == 0);
        size_t rest = at < bytes ? at + count : bytes;
        if (wgi_buf_append(&out, data, at, NULL) != WG_OK ||
            (at < bytes && wgi_buf_text(&out, to, NULL) != WG_OK) ||
            wgi_buf_append(&out, data + rest, bytes - rest, NULL) != WG_OK)
            exit(1);
        (void)snprintf(name_there, sizeof(name_there), "copy/%s", files[f]);
        wgt_write(folder, name_there, out.data, out.count);
        wgi_buf_fini(&out);
        free(data);
    }
}

static const wgt_folder *at;

static void refuse(const char *name, const char *file, const char *from, const char *to,
                   wg_status status, const char *part)
{
    wg_model *model = NULL;

    copy(at, name, file, from, to);
    EXPECT_EQ(wg_model_open(&model, &(wg_model_options){.path = copied}, &err), status);
    EXPECT_IN(err.message, part);
    EXPECT_IN(err.message, copied);
    wg_model_close(model);
}

static void take(const char *name, const char *file, const char *from, const char *to,
                 uint32_t labels)
{
    parts p;

    copy(at, name, file, from, to);
    EXPECT_OK(open_parts(&p, copied));
    EXPECT_EQ(p.head.label_count, labels);
    close_parts(&p);
}

static void test_tensors(void)
{
    static const char config[] = "config.json", weights[] = "model.safetensors";

    refuse("bert-3", config, "\"2\": \"positive\"", "\"2\": \"positive\", \"3\": \"else\"",
           WG_ERR_FORMAT, "'classifier.weight' has shape [3, 16], but");
    refuse("bert-3", config, ",\n    \"2\": \"positive\"", "", WG_ERR_FORMAT,
           "labels in id2label 2");
    refuse("bert-default", config, "\"is_decoder\"", "\"num_labels\": 5, \"is_decoder\"",
           WG_ERR_FORMAT, "num_labels 5");
    take("bert-default", config, "\"is_decoder\"", "\"num_labels\": 2, \"is_decoder\"", 2);
    refuse("mpnet-5-regression", weights, "classifier.out_proj.weight",
           "classifier.out_proj.weighs", WG_ERR_FORMAT, "'classifier.out_proj.weight' is missing");
    refuse("bert-3", weights, "bert.pooler.dense.bias", "bert.pooler.dense.bia5", WG_ERR_FORMAT,
           "'bert.pooler.dense.bias' is missing");
    refuse("distilbert-2", weights, "pre_classifier.weight\":{\"dtype\":\"F32\"",
           "pre_classifier.weight\":{\"dtype\":\"I32\"", WG_ERR_UNSUPPORTED,
           "dtype I32 not supported for tensor 'pre_classifier.weight'");
    refuse("distilbert-2", weights, "pre_classifier.weight\":{\"dtype\":\"F32\",\"shape\":[16,16]",
           "pre_classifier.weight\":{\"dtype\":\"F32\",\"shape\":[32, 8]", WG_ERR_FORMAT,
           "'pre_classifier.weight' has shape [32, 8], but");
    take("modernbert-2-bias", config, "\"norm_bias\": true", "\"norm_bias\": false", 2);
    refuse("modernbert-3-mean", config, "\"classifier_bias\": false", "\"classifier_bias\": true",
           WG_ERR_FORMAT, "'head.dense.bias' is missing");
}

static void test_labels(void)
{
    static const char config[] = "config.json";

    refuse("bert-3", config, "\"2\": \"positive\"", "\"3\": \"positive\"", WG_ERR_FORMAT,
           "config.json: key id2label: label 3");
    refuse("bert-3", config, "\"2\": \"positive\"", "\"1\": \"positive\"", WG_ERR_FORMAT,
           "label 1 is there twice");
    refuse("bert-3", config, "\"2\": \"positive\"", "\"02\": \"positive\"", WG_ERR_FORMAT,
           "'02' is no number of a label");
    refuse("bert-3", config, "\"2\": \"positive\"", "\"99999999999999999999\": \"positive\"",
           WG_ERR_FORMAT, "is no number of a label");
    refuse("bert-3", config, "\"2\": \"positive\"", "\"2\": 7", WG_ERR_FORMAT, "key id2label");
    refuse("bert-3", config, "\"BertForSequenceClassification\"", "7", WG_ERR_FORMAT,
           "copy/config.json: key architectures: expected a string");
    EXPECT(strstr(err.message, "expected") == strstr(err.message, "key ") + 19); /* said once */
    refuse("bert-3", config, "\"0\": \"negative\"", "\"0\": [", WG_ERR_FORMAT, "config.json");
    refuse("bert-3", config, "\"problem_type\": \"single", "\"problem_type\": \"triple",
           WG_ERR_UNSUPPORTED, "'triple_label_classification' is not supported");
    refuse("modernbert-3-mean", config, "\"classifier_pooling\": \"mean\"",
           "\"classifier_pooling\": \"max\"", WG_ERR_UNSUPPORTED, "key classifier_pooling: 'max'");
    refuse("modernbert-3-mean", config, "\"classifier_activation\": \"gelu\"",
           "\"classifier_activation\": \"mish\"", WG_ERR_UNSUPPORTED,
           "key classifier_activation: 'mish'");
}

/* Other classes with tensors of these names, and bare models, have no head. */
static void test_none(void)
{
    static const char config[] = "config.json";

    take("bert-3", config, "BertForSequenceClassification", "BertForTokenClassification", 0);
    take("bert-3", config, "\"architectures\": [\n    \"BertForSequenceClassification\"\n  ],", "",
         0);
    take("bert-3", config, "\"BertForSequenceClassification\"", "", 0);
    parts p;
    EXPECT_OK(open_parts(&p, WGT_DATA "/tiny-bert-h32-d8-mean")); /* has a pooler */
    EXPECT_EQ(p.head.label_count, 0);
    close_parts(&p);
    EXPECT_OK(open_parts(&p, WGT_DATA "/tiny-bert-h32-d8-mean.gguf"));
    EXPECT_EQ(p.head.label_count, 0);
    close_parts(&p);
}

/* Every allocation of reading a head fails in turn. */
static void test_no_memory(void)
{
    parts p;

    EXPECT_OK(open_parts(&p, WGT_DATA "/tiny-heads/roberta-4-multi"));
    wgi_head_fini(&p.head);
    for (long nth = 1; nth < 500; nth++) {
        wgi_alloc_fail_at(nth);
        wg_status status = wgi_head_load(&p.head, WGT_DATA "/tiny-heads/roberta-4-multi",
                                         &p.description, p.weights, &err);
        wgi_alloc_fail_at(0);
        if (status == WG_OK) {
            EXPECT(nth > 8);
            break;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
        EXPECT(p.head.labels == NULL);
    }
    EXPECT_EQ(p.head.label_count, 4);
    close_parts(&p);
}

int main(void)
{
    wgt_folder folder = wgt_folder_open();

    at = &folder;
    check("bert-3", WGI_PROBLEM_SINGLE_LABEL, "negative,neutral,positive");
    check("bert-default", WGI_PROBLEM_UNSAID, "LABEL_0,LABEL_1");
    check("roberta-4-multi", WGI_PROBLEM_MULTI_LABEL, "joy,anger,sorrow,\xC3\xA9tonnement");
    check("xlm-roberta-1", WGI_PROBLEM_UNSAID, "LABEL_0");
    check("distilbert-2", WGI_PROBLEM_UNSAID, "NEGATIVE,POSITIVE");
    check("mpnet-5-regression", WGI_PROBLEM_REGRESSION, "a,b,c,d,e");
    check("modernbert-3-mean", WGI_PROBLEM_UNSAID, "x,y,z");
    check("modernbert-2-bias", WGI_PROBLEM_UNSAID, "LABEL_0,LABEL_1");
    test_tensors();
    test_labels();
    test_none();
    test_no_memory();
    wgt_folder_close(&folder);
    return wgt_result();
}
