/*
 * config.c - config.json of a BERT encoder -> description.
 *
 * The idea: a key either sets a number of the description, or would change the answer in a way that
 * is not implemented and is then refused by name, or does not change the answer and is passed over.
 * Refused: passing over whatever is not known. Vectors that are nearly right are worse than none.
 *
 *   read             model_type, hidden_size, num_hidden_layers, num_attention_heads,
 *                    intermediate_size, vocab_size, max_position_embeddings, type_vocab_size,
 *                    layer_norm_eps, hidden_act. A key that is not there has the value that
 *                    transformers' BertConfig gives it; model_type has none and must be there.
 *   refused unless   model_type "bert" | position_embedding_type "absolute" | is_decoder,
 *                    add_cross_attention, is_encoder_decoder false | hidden_act one of the table
 *                    below | pruned_heads, quantization_config, auto_map empty |
 * num_attention_heads divides hidden_size passed over      architectures (any BertFor... holds the
 * same encoder), dropout rates, initializer_range, use_cache, token ids, labels,
 * tie_word_embeddings, torch_dtype, classifier_dropout, chunk_size_feed_forward, output_*,
 *                    transformers_version, ... and keys that BertConfig does not have
 *
 * Refused families are named by their model_type, RoBERTa among them: its positions begin at
 * padding_idx + 1, and a description that got that wrong would look right.
 *
 * Sizes have ceilings far above any published model, so that products of them stay in range;
 * whether they are true is for the tensors to say (wgi_weights_need).
 *
 * Threads: no shared state.
 */
#include "model/model.h"

#include <string.h>

#include "model/directory.h"

static const char file_name[] = "config.json";

enum { HIDDEN, LAYERS, HEADS, FEED_FORWARD, VOCABULARY, POSITIONS, TYPES, SIZE_COUNT };

static const struct size_row {
    const char *key;
    uint64_t initial; /* BertConfig's default */
    uint64_t most;
} size_rows[SIZE_COUNT] = {
    [HIDDEN] = {"hidden_size", 768, 1u << 16},
    [LAYERS] = {"num_hidden_layers", 12, 1u << 12},
    [HEADS] = {"num_attention_heads", 12, 1u << 12},
    [FEED_FORWARD] = {"intermediate_size", 3072, 1u << 20},
    [VOCABULARY] = {"vocab_size", 30522, INT32_MAX},
    [POSITIONS] = {"max_position_embeddings", 512, 1u << 24},
    [TYPES] = {"type_vocab_size", 2, 1u << 10},
};

/* transformers' names of the activations that backends have. */
static const struct activation_row {
    const char *name;
    wgi_activation activation;
} activations[] = {
    {"gelu", WGI_ACTIVATION_GELU},
    {"gelu_python", WGI_ACTIVATION_GELU},
    {"gelu_new", WGI_ACTIVATION_GELU_TANH},
    {"gelu_fast", WGI_ACTIVATION_GELU_TANH},
    {"gelu_accurate", WGI_ACTIVATION_GELU_TANH},
    {"gelu_pytorch_tanh", WGI_ACTIVATION_GELU_TANH},
    {"gelu_python_tanh", WGI_ACTIVATION_GELU_TANH},
    {"relu", WGI_ACTIVATION_RELU},
    {"silu", WGI_ACTIVATION_SILU},
    {"swish", WGI_ACTIVATION_SILU},
    {"tanh", WGI_ACTIVATION_TANH},
    {"linear", WGI_ACTIVATION_NONE},
};

/* Keys whose value must be false, and keys whose value must be empty. */
static const char *const false_keys[] = {"is_decoder", "add_cross_attention", "is_encoder_decoder"};
static const char *const empty_keys[] = {"pruned_heads", "quantization_config", "auto_map"};

typedef struct config_reading {
    wgi_settings settings;
    wgi_buf text;
    uint64_t sizes[SIZE_COUNT];
    double epsilon;
    wgi_activation activation;
} config_reading;

static wg_status refuse_text(const config_reading *reading, const char *key, const char *supported,
                             wg_error *err)
{
    char shown[WGI_SHOWN_BYTES];

    return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: %s \"%s\" (supported: %s)",
                    reading->settings.path, key,
                    wgi_text_show(shown, reading->text.data, reading->text.count), supported);
}

static bool text_is(const config_reading *reading, const char *text)
{
    return wgi_slice_is((wgi_slice){reading->text.data, reading->text.count}, text);
}

static wg_status read_activation(config_reading *reading, wg_error *err)
{
    wg_status status = wgi_settings_string(&reading->settings, "hidden_act", &reading->text, err);

    if (status != WG_OK) return status;
    for (size_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++) {
        if (!text_is(reading, activations[i].name)) continue;
        reading->activation = activations[i].activation;
        return WG_OK;
    }
    return refuse_text(reading, "hidden_act", "gelu, gelu_new, relu, silu, tanh", err);
}

static wg_status read_epsilon(config_reading *reading, wg_error *err)
{
    static const char key[] = "layer_norm_eps";
    wg_status status = wgi_settings_double(&reading->settings, key, &reading->epsilon, err);

    if (status != WG_OK) return status;
    if (!(reading->epsilon >= 0 && reading->epsilon <= 1))
        return wgi_settings_fail(&reading->settings, key, WG_ERR_FORMAT, err,
                                 "%g is out of range (0 to 1)", reading->epsilon);
    return WG_OK;
}

static wg_status read_position_type(config_reading *reading, wg_error *err)
{
    static const char key[] = "position_embedding_type";

    if (wgi_settings_take_null(&reading->settings)) return WG_OK;
    wg_status status = wgi_settings_string(&reading->settings, key, &reading->text, err);
    if (status != WG_OK || text_is(reading, "absolute")) return status;
    return refuse_text(reading, key, "absolute", err);
}

/* Keys that only one value leaves the answer as it is. *is_taken: the key was one of them. */
static wg_status read_guard(config_reading *reading, wgi_slice key, bool *is_taken, wg_error *err)
{
    wgi_settings *settings = &reading->settings;
    wg_status status = WG_OK;

    *is_taken = true;
    for (size_t i = 0; i < sizeof(false_keys) / sizeof(false_keys[0]); i++) {
        bool value = false;
        if (!wgi_slice_is(key, false_keys[i])) continue;
        if (wgi_settings_take_null(settings)) return WG_OK;
        status = wgi_settings_bool(settings, false_keys[i], &value, err);
        if (status != WG_OK || !value) return status;
        return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: %s true", settings->path,
                        false_keys[i]);
    }
    for (size_t i = 0; i < sizeof(empty_keys) / sizeof(empty_keys[0]); i++) {
        bool is_empty = false;
        if (!wgi_slice_is(key, empty_keys[i])) continue;
        status = wgi_settings_is_empty(settings, empty_keys[i], &is_empty, err);
        if (status != WG_OK || is_empty) return status;
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "%s: not supported yet: %s, which changes what the model computes",
                        settings->path, empty_keys[i]);
    }
    *is_taken = false;
    return WG_OK;
}

static wg_status read_key(config_reading *reading, wgi_slice key, wg_error *err)
{
    wgi_settings *settings = &reading->settings;
    bool is_taken;

    for (size_t i = 0; i < SIZE_COUNT; i++) {
        if (wgi_slice_is(key, size_rows[i].key))
            return wgi_settings_count(settings, size_rows[i].key, size_rows[i].most,
                                      &reading->sizes[i], err);
    }
    if (wgi_slice_is(key, "hidden_act")) return read_activation(reading, err);
    if (wgi_slice_is(key, "layer_norm_eps")) return read_epsilon(reading, err);
    if (wgi_slice_is(key, "position_embedding_type")) return read_position_type(reading, err);
    wg_status status = read_guard(reading, key, &is_taken, err);
    if (status != WG_OK || is_taken) return status;
    return wgi_settings_skip(settings, err);
}

/*
 * Before anything else, in a pass of its own: other families give the same keys other meanings.
 * The file stays well formed or fails here.
 */
static wg_status check_family(config_reading *reading, wg_error *err)
{
    wgi_settings *settings = &reading->settings;
    bool has_type = false;
    wg_status status = WG_OK;
    wgi_slice key;

    while (wgi_settings_next(settings, &key)) {
        if (wgi_slice_is(key, "model_type")) {
            has_type = true;
            WGI_TRY(wgi_settings_string(settings, "model_type", &reading->text, err));
        } else {
            WGI_TRY(wgi_settings_skip(settings, err));
        }
    }
    WGI_TRY(wgi_settings_finish(settings, err));
    if (!has_type) {
        status = wgi_settings_fail(settings, "model_type", WG_ERR_FORMAT, err,
                                   "is missing; it says which family the model is of");
    } else if (!text_is(reading, "bert")) {
        status = refuse_text(reading, "model_type", "bert", err);
    }

cleanup:
    return status;
}

static wg_status describe(const config_reading *reading, wgi_description *out, wg_error *err)
{
    const uint64_t *sizes = reading->sizes;

    if (sizes[HIDDEN] % sizes[HEADS] != 0)
        return wgi_fail(err, WG_ERR_FORMAT,
                        "%s: num_attention_heads %llu does not divide hidden_size %llu",
                        reading->settings.path, (unsigned long long)sizes[HEADS],
                        (unsigned long long)sizes[HIDDEN]);
    *out = (wgi_description){
        .architecture = "bert",
        .layer_count = (uint32_t)sizes[LAYERS],
        .hidden_count = (uint32_t)sizes[HIDDEN],
        .head_count = (uint32_t)sizes[HEADS],
        .key_head_count = (uint32_t)sizes[HEADS],
        .head_dim = (uint32_t)(sizes[HIDDEN] / sizes[HEADS]),
        .feed_forward_count = (uint32_t)sizes[FEED_FORWARD],
        .vocabulary_count = sizes[VOCABULARY],
        .position_count = (uint32_t)sizes[POSITIONS],
        .type_count = (uint32_t)sizes[TYPES],
        .activation = reading->activation,
        .norm_epsilon = (float)reading->epsilon,
    };
    return WG_OK;
}

wg_status wgi_description_load(wgi_description *out, const char *directory, wg_error *err)
{
    config_reading reading = {.epsilon = 1e-12, .activation = WGI_ACTIVATION_GELU};
    wg_status status = WG_OK;
    wgi_slice key;

    *out = (wgi_description){0};
    for (size_t i = 0; i < SIZE_COUNT; i++)
        reading.sizes[i] = size_rows[i].initial;

    WGI_TRY(wgi_settings_open(&reading.settings, directory, "", file_name, true, err));
    WGI_TRY(check_family(&reading, err));
    wgi_settings_fini(&reading.settings);
    WGI_TRY(wgi_settings_open(&reading.settings, directory, "", file_name, true, err));
    while (wgi_settings_next(&reading.settings, &key))
        WGI_TRY(read_key(&reading, key, err));
    WGI_TRY(wgi_settings_finish(&reading.settings, err));
    WGI_TRY(describe(&reading, out, err));

cleanup:
    wgi_settings_fini(&reading.settings);
    wgi_buf_fini(&reading.text);
    return status;
}
