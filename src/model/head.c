/*
 * head.c - config.json's labels and the tensors of a classifier; see head.h.
 *
 * The idea: the family's row names the tensors (encoder_family.c), config.json says how many labels
 * there are, and the two must agree before anything else is believed. Labels that config.json
 * leaves out are made only then, so that no number in a file asks for memory.
 *
 * Which class wrote the directory is told by `architectures`: tensors called "classifier" belong to
 * token classifiers too, and those have another head.
 *
 * Threads: no shared state; constant once loaded.
 */
#include "model/head.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "model/directory.h"
#include "model/encoder_family.h"

#define LABELS_MOST    (1u << 20)
#define LABELS_DEFAULT 2 /* transformers', where neither id2label nor num_labels is there */

typedef struct placed_label {
    uint64_t place;
    char *text;
} placed_label;

typedef struct head_reading {
    wgi_settings settings;
    wgi_buf text;
    const wgi_encoder_family *family;
    const wgi_description *description;
    const wgi_weights *weights;
    wgi_head *out;
    bool is_classifier;  /* architectures names one */
    bool has_dense_bias; /* classifier_bias, where that is a key */
    placed_label *items;
    size_t count, capacity;
    uint64_t label_count; /* id2label's, else num_labels, else the default */
    const char *count_key;
    const char *prefix; /* "" or the family's */
} head_reading;

static const char *const problem_names[] = {
    [WGI_PROBLEM_UNSAID] = "",
    [WGI_PROBLEM_REGRESSION] = "regression",
    [WGI_PROBLEM_SINGLE_LABEL] = "single_label_classification",
    [WGI_PROBLEM_MULTI_LABEL] = "multi_label_classification",
};
#define PROBLEMS (sizeof(problem_names) / sizeof(problem_names[0]))

const char *wgi_problem_name(wgi_problem problem)
{
    return (size_t)problem < PROBLEMS ? problem_names[problem] : "";
}

/* ------------------------------------------------------------------------------ config.json */

static wg_status read_architectures(head_reading *reading, wg_error *err)
{
    static const char key[] = "architectures", ending[] = "ForSequenceClassification";
    const size_t ending_bytes = sizeof(ending) - 1;
    wgi_json *json = &reading->settings.json;
    wg_status status = WG_OK;

    if (wgi_settings_take_null(&reading->settings)) return WG_OK;
    WGI_TRY(wgi_settings_blame(&reading->settings, key, wgi_json_array_begin(json, err), err));
    while (wgi_json_array_next(json)) {
        WGI_TRY(wgi_settings_string(&reading->settings, key, &reading->text, err));
        const wgi_buf *name = &reading->text;
        if (name->count >= ending_bytes &&
            memcmp(name->data + name->count - ending_bytes, ending, ending_bytes) == 0)
            reading->is_classifier = true;
    }
    status = wgi_settings_blame(&reading->settings, key, wgi_json_status(json, err), err);

cleanup:
    return status;
}

/* "0", "17": the place of a label; more than any count where it is no such number. */
static uint64_t label_place(wgi_slice key)
{
    uint64_t place = 0;

    if (key.count == 0 || key.count > 7 || (key.data[0] == '0' && key.count > 1)) return UINT64_MAX;
    for (size_t i = 0; i < key.count; i++) {
        if (key.data[i] < '0' || key.data[i] > '9') return UINT64_MAX;
        place = place * 10 + (uint64_t)(key.data[i] - '0');
    }
    return place;
}

static wg_status put_label(head_reading *reading, uint64_t place, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(wgi_grow(&reading->items, &reading->capacity, reading->count + 1,
                     sizeof(*reading->items), err));
    char *text = wgi_memdup(reading->text.data, reading->text.count);
    if (!text) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for the labels");
        goto cleanup;
    }
    reading->items[reading->count++] = (placed_label){place, text};

cleanup:
    return status;
}

/* The labels in order: each place from 0 on has one. They are the head's from here on. */
static wg_status order_labels(head_reading *reading, wg_error *err)
{
    wgi_head *head = reading->out;

    head->labels = wgi_calloc(reading->count, sizeof(*head->labels));
    if (!head->labels) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for the labels");
    head->label_count = (uint32_t)reading->count;
    for (size_t i = 0; i < reading->count; i++) {
        placed_label *item = &reading->items[i];
        if (item->place >= reading->count || head->labels[item->place])
            return wgi_settings_fail(&reading->settings, "id2label", WG_ERR_FORMAT, err,
                                     "label %llu is there twice, or others are missing: "
                                     "there are %zu labels",
                                     (unsigned long long)item->place, reading->count);
        head->labels[item->place] = item->text;
        item->text = NULL;
    }
    return WG_OK;
}

static wg_status read_labels(head_reading *reading, wg_error *err)
{
    static const char name[] = "id2label";
    wgi_json *json = &reading->settings.json;
    char shown[WGI_SHOWN_BYTES];
    wg_status status = WG_OK;
    wgi_slice key;

    if (wgi_settings_take_null(&reading->settings)) return WG_OK;
    status = wgi_json_object_begin(json, err);
    if (status != WG_OK) return wgi_settings_blame(&reading->settings, name, status, err);
    while (wgi_json_object_next(json, &key)) {
        uint64_t place = label_place(key);
        if (place >= LABELS_MOST)
            return wgi_settings_fail(&reading->settings, name, WG_ERR_FORMAT, err,
                                     "'%s' is no number of a label",
                                     wgi_text_show(shown, key.data, key.count));
        WGI_TRY(wgi_settings_string(&reading->settings, name, &reading->text, err));
        WGI_TRY(put_label(reading, place, err));
    }

cleanup:
    return status;
}

static wg_status refuse(const head_reading *reading, const char *key, const char *supported,
                        wg_error *err)
{
    char shown[WGI_SHOWN_BYTES];

    return wgi_settings_fail(
        &reading->settings, key, WG_ERR_UNSUPPORTED, err, "'%s' is not supported (%s)",
        wgi_text_show(shown, reading->text.data, reading->text.count), supported);
}

static wg_status read_problem(head_reading *reading, wg_error *err)
{
    static const char key[] = "problem_type";

    if (wgi_settings_take_null(&reading->settings)) return WG_OK;
    wg_status status = wgi_settings_string(&reading->settings, key, &reading->text, err);
    if (status != WG_OK) return status;
    for (size_t i = 1; i < PROBLEMS; i++)
        if (strcmp(reading->text.data, problem_names[i]) == 0) {
            reading->out->problem = (wgi_problem)i;
            return WG_OK;
        }
    return refuse(reading, key,
                  "regression, single_label_classification, multi_label_classification are", err);
}

/* Keys of the families whose row says has_keys (ModernBERT). */
static wg_status read_own_key(head_reading *reading, wgi_slice key, wg_error *err)
{
    wgi_settings *settings = &reading->settings;
    static const char pooling[] = "classifier_pooling", bias[] = "classifier_bias",
                      activation[] = "classifier_activation";
    wg_status status = WG_OK;

    if (wgi_slice_is(key, bias))
        return wgi_settings_bool(settings, bias, &reading->has_dense_bias, err);
    if (wgi_slice_is(key, pooling)) {
        WGI_TRY(wgi_settings_string(settings, pooling, &reading->text, err));
        reading->out->is_mean = strcmp(reading->text.data, "mean") == 0;
        if (!reading->out->is_mean && strcmp(reading->text.data, "cls") != 0)
            status = refuse(reading, pooling, "cls and mean are", err);
        goto cleanup;
    }
    if (wgi_slice_is(key, activation)) {
        WGI_TRY(wgi_settings_string(settings, activation, &reading->text, err));
        if (!wgi_activation_find(reading->text.data, &reading->out->activation))
            status = refuse(reading, activation, "gelu, gelu_new, relu, silu, tanh are", err);
        goto cleanup;
    }
    status = wgi_settings_skip(settings, err);

cleanup:
    return status;
}

static wg_status read_key(head_reading *reading, wgi_slice key, wg_error *err)
{
    if (wgi_slice_is(key, "id2label")) return read_labels(reading, err);
    if (wgi_slice_is(key, "problem_type")) return read_problem(reading, err);
    if (wgi_slice_is(key, "num_labels")) {
        reading->count_key = "num_labels";
        return wgi_settings_count(&reading->settings, "num_labels", LABELS_MOST,
                                  &reading->label_count, err);
    }
    if (reading->family->head.has_keys) return read_own_key(reading, key, err);
    return wgi_settings_skip(&reading->settings, err);
}

/* --------------------------------------------------------------------------------- tensors */

/* "bert.pooler.dense" + ".weight": the name in the file. */
static const char *full_name(const head_reading *reading, char out[160], const char *name,
                             const char *suffix)
{
    bool is_inside = reading->family->head.is_dense_inside && name == reading->family->head.dense;

    (void)snprintf(out, 160, "%s%s.%s", is_inside ? reading->prefix : "", name, suffix);
    return out;
}

static wg_status need(const head_reading *reading, const wgi_tensor **tensor, const char *name,
                      const char *suffix, uint64_t rows, const char *rows_key, bool is_matrix,
                      wg_error *err)
{
    const char *hidden_key = reading->family->sizes[WGI_SIZE_HIDDEN].key;
    char full[160];
    wgi_tensor_need what = {.name = full_name(reading, full, name, suffix),
                            .asked_by = "...ForSequenceClassification in architectures",
                            .rank = is_matrix ? 2 : 1,
                            .shape = {rows, reading->description->hidden_count},
                            .keys = {rows_key, hidden_key}};

    return wgi_weights_need(reading->weights, &what, tensor, err);
}

static wg_status need_layer(const head_reading *reading, wgi_head_layer *layer, const char *name,
                            uint64_t rows, const char *rows_key, bool has_bias, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(need(reading, &layer->weight, name, "weight", rows, rows_key, true, err));
    if (has_bias) WGI_TRY(need(reading, &layer->bias, name, "bias", rows, rows_key, false, err));

cleanup:
    return status;
}

static wg_status need_all(const head_reading *reading, wg_error *err)
{
    const wgi_head_names *names = &reading->family->head;
    const wgi_description *d = reading->description;
    const char *hidden_key = reading->family->sizes[WGI_SIZE_HIDDEN].key;
    wgi_head *head = reading->out;
    wg_status status = WG_OK;

    WGI_TRY(need_layer(reading, &head->out, names->out, reading->label_count, reading->count_key,
                       true, err));
    WGI_TRY(need_layer(reading, &head->dense, names->dense, d->hidden_count, hidden_key,
                       reading->has_dense_bias, err));
    if (!names->norm) goto cleanup;
    WGI_TRY(need(reading, &head->norm_weight, names->norm, "weight", d->hidden_count, hidden_key,
                 false, err));
    if (!d->encoder.lacks_norm_bias)
        WGI_TRY(need(reading, &head->norm_bias, names->norm, "bias", d->hidden_count, hidden_key,
                     false, err));

cleanup:
    return status;
}

/* A base model's pooler is no head: what tells one is a tensor outside the encoder. */
static bool has_any(const head_reading *reading)
{
    const wgi_head_names *names = &reading->family->head;
    const char *const suffixes[] = {"weight", "bias"};
    char full[160];

    for (size_t i = 0; i < 2; i++) {
        if (wgi_weights_find(reading->weights, full_name(reading, full, names->out, suffixes[i])))
            return true;
        if (!names->is_dense_inside &&
            wgi_weights_find(reading->weights, full_name(reading, full, names->dense, suffixes[i])))
            return true;
    }
    return false;
}

/* "LABEL_0", ...: the out tensor has a row for each. */
static wg_status make_labels(head_reading *reading, wg_error *err)
{
    wg_status status = WG_OK;
    char name[32];

    for (uint64_t i = 0; i < reading->label_count; i++) {
        reading->text.count = 0;
        (void)snprintf(name, sizeof(name), "LABEL_%llu", (unsigned long long)i);
        WGI_TRY(wgi_buf_text(&reading->text, name, err));
        WGI_TRY(put_label(reading, i, err));
    }

cleanup:
    return status;
}

/* A pass over config.json; the first looks for the class alone. */
static wg_status read_config(head_reading *reading, const char *directory, bool is_first,
                             wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice key;

    wgi_settings_fini(&reading->settings);
    WGI_TRY(wgi_settings_open(&reading->settings, directory, "", "config.json", true, err));
    while (wgi_settings_next(&reading->settings, &key)) {
        if (!is_first)
            WGI_TRY(read_key(reading, key, err));
        else if (wgi_slice_is(key, "architectures"))
            WGI_TRY(read_architectures(reading, err));
        else
            WGI_TRY(wgi_settings_skip(&reading->settings, err));
    }
    WGI_TRY(wgi_settings_finish(&reading->settings, err));

cleanup:
    return status;
}

static wg_status load(head_reading *reading, const char *directory, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(read_config(reading, directory, true, err));
    if (!reading->is_classifier) goto cleanup;
    if (!has_any(reading)) {
        wgi_log(WG_LOG_WARNING,
                "%s: architectures names a classifier, but there is no tensor of its head",
                reading->settings.path);
        goto cleanup;
    }
    WGI_TRY(read_config(reading, directory, false, err));
    if (reading->count) {
        reading->label_count = reading->count;
        reading->count_key = "labels in id2label";
    }
    WGI_TRY(need_all(reading, err));
    if (reading->count == 0) WGI_TRY(make_labels(reading, err));
    WGI_TRY(order_labels(reading, err));

cleanup:
    return status;
}

wg_status wgi_head_load(wgi_head *out, const char *directory, const wgi_description *description,
                        const wgi_weights *weights, wg_error *err)
{
    head_reading reading = {.family = wgi_encoder_family_find(description->architecture),
                            .description = description,
                            .weights = weights,
                            .out = out,
                            .label_count = LABELS_DEFAULT,
                            .count_key = "labels by default"};

    *out = (wgi_head){0};
    if (description->is_decoder || wgi_path_is_gguf(directory) || !reading.family) return WG_OK;
    out->activation = reading.family->head.activation;
    reading.has_dense_bias = !reading.family->head.has_keys;
    reading.prefix = wgi_encoder_prefix(reading.family, weights);
    wg_status status = load(&reading, directory, err);
    if (status != WG_OK || out->label_count == 0) wgi_head_fini(out);
    for (size_t i = 0; i < reading.count; i++)
        wgi_free(reading.items[i].text);
    wgi_free(reading.items);
    wgi_settings_fini(&reading.settings);
    wgi_buf_fini(&reading.text);
    return status;
}

void wgi_head_fini(wgi_head *head)
{
    for (uint32_t i = 0; i < head->label_count; i++)
        wgi_free(head->labels[i]);
    wgi_free(head->labels);
    *head = (wgi_head){0};
}
