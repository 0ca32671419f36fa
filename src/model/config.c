/*
 * config.c - config.json of an encoder -> description; decoders go to config_decoder.c.
 *
 * The idea: a key either sets a number of the description, or would change the answer in a way that
 * is not implemented and is then refused by name, or does not change the answer and is passed over.
 * Refused: passing over whatever is not known. Vectors that are nearly right are worse than none.
 *
 *   read             model_type, which must be there; then the keys that the family's row of
 *                    encoder_family.c names. A key that is not there has the value that
 *                    transformers gives it.
 *   refused unless   model_type of a known family | position_embedding_type "absolute" |
 *                    is_decoder, add_cross_attention, is_encoder_decoder false | the activation
 *                    one of the table below | pruned_heads, quantization_config, auto_map,
 *                    rope_scaling empty | the number of heads divides the hidden size
 *   passed over      architectures (any class of the family holds the same encoder), dropout rates,
 *                    initializer_range, use_cache, token ids, labels, tie_word_embeddings,
 *                    torch_dtype, classifier_dropout, chunk_size_feed_forward, output_*,
 *                    transformers_version, ... and keys that the family does not have
 *
 * Sizes have ceilings far above any published model, so that products of them stay in range;
 * whether they are true is for the tensors to say (wgi_weights_need).
 *
 * Threads: no shared state.
 */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

#include "model/config_pattern.h"
#include "model/directory.h"
#include "model/encoder_family.h"

static const char file_name[] = "config.json";

static const uint64_t size_most[WGI_SIZE_COUNT] = {
    [WGI_SIZE_HIDDEN] = 1u << 16,      [WGI_SIZE_LAYERS] = WGI_LAYER_MAX,
    [WGI_SIZE_HEADS] = 1u << 12,       [WGI_SIZE_FEED_FORWARD] = 1u << 20,
    [WGI_SIZE_VOCABULARY] = INT32_MAX, [WGI_SIZE_POSITIONS] = 1u << 24,
    [WGI_SIZE_TYPES] = 1u << 10,
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

bool wgi_activation_find(const char *name, wgi_activation *out)
{
    for (size_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++) {
        if (strcmp(name, activations[i].name) != 0) continue;
        *out = activations[i].activation;
        return true;
    }
    return false;
}

/* Keys whose value must be false, and keys whose value must be empty. */
static const char *const false_keys[] = {"is_decoder", "add_cross_attention", "is_encoder_decoder"};
static const char *const empty_keys[] = {"pruned_heads", "quantization_config", "auto_map",
                                         "rope_scaling"};

typedef struct config_reading {
    wgi_settings settings;
    wgi_buf text;
    const wgi_encoder_family *family;
    uint64_t sizes[WGI_SIZE_COUNT];
    uint32_t pad_id; /* of the families whose positions begin behind it */
    wgi_pattern_reading pattern;
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
    const char *key = reading->family->activation_key;
    wg_status status = wgi_settings_string(&reading->settings, key, &reading->text, err);

    if (status != WG_OK) return status;
    if (wgi_activation_find(reading->text.data, &reading->activation)) return WG_OK;
    return refuse_text(reading, key, "gelu, gelu_new, relu, silu, tanh", err);
}

static wg_status read_epsilon(config_reading *reading, wg_error *err)
{
    const char *key = reading->family->epsilon_key;
    wg_status status = wgi_settings_double(&reading->settings, key, &reading->epsilon, err);

    if (status != WG_OK) return status;
    if (!(reading->epsilon >= 0 && reading->epsilon <= 1))
        return wgi_settings_fail(&reading->settings, key, WG_ERR_FORMAT, err,
                                 "%g is out of range (0 to 1)", reading->epsilon);
    return WG_OK;
}

static wg_status read_pad(config_reading *reading, wg_error *err)
{
    const char *key = reading->family->pad_key;
    double id = 0;
    wg_status status = wgi_settings_double(&reading->settings, key, &id, err);

    if (status != WG_OK) return status;
    if (!(id >= 0 && id <= INT32_MAX) || id != (double)(uint32_t)id)
        return wgi_settings_fail(&reading->settings, key, WG_ERR_FORMAT, err,
                                 "%g is not an id; positions begin behind it", id);
    reading->pad_id = (uint32_t)id;
    return WG_OK;
}

/* The table from distances to buckets (encoder_open.c) is that of 32. */
static wg_status read_buckets(config_reading *reading, wg_error *err)
{
    static const char key[] = "relative_attention_num_buckets";
    uint64_t count = 0;
    wg_status status = wgi_settings_count(&reading->settings, key, UINT32_MAX, &count, err);

    if (status != WG_OK || count == 32) return status;
    return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: %s %llu (supported: 32)",
                    reading->settings.path, key, (unsigned long long)count);
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
    const wgi_encoder_family *family = reading->family;
    wg_status status;
    bool is_taken;

    for (size_t i = 0; i < WGI_SIZE_COUNT; i++) {
        const char *name = family->sizes[i].key;
        if (name && wgi_slice_is(key, name))
            return wgi_settings_count(settings, name, size_most[i], &reading->sizes[i], err);
    }
    if (wgi_slice_is(key, family->activation_key)) return read_activation(reading, err);
    if (family->epsilon_key && wgi_slice_is(key, family->epsilon_key))
        return read_epsilon(reading, err);
    if (family->pad_key && wgi_slice_is(key, family->pad_key)) return read_pad(reading, err);
    if (family->has_buckets && wgi_slice_is(key, "relative_attention_num_buckets"))
        return read_buckets(reading, err);
    if (wgi_slice_is(key, "position_embedding_type")) return read_position_type(reading, err);
    if (family->has_pattern) {
        status = wgi_pattern_read(&reading->pattern, settings, key, &is_taken, err);
        if (status != WG_OK || is_taken) return status;
    }
    status = read_guard(reading, key, &is_taken, err);
    if (status != WG_OK || is_taken) return status;
    return wgi_settings_skip(settings, err);
}

/* "bert, roberta, ..., llama, ..." */
static const char *supported_text(char out[256])
{
    const wgi_encoder_family *family = NULL;
    const char *type;
    size_t at = 0;

    for (size_t i = 0; (family = wgi_encoder_family_at(i)) && at < 256; i++) {
        int written = snprintf(out + at, 256 - at, "%s%s", i ? ", " : "", family->model_type);
        at += written > 0 ? (size_t)written : 0;
    }
    for (size_t i = 0; (type = wgi_decoder_type_at(i)) && at < 256; i++) {
        int written = snprintf(out + at, 256 - at, ", %s", type);
        at += written > 0 ? (size_t)written : 0;
    }
    return out;
}

/*
 * Before anything else, in a pass of its own: other families give the same keys other meanings.
 * The file stays well formed or fails here. reading->text is then the model_type.
 */
static wg_status read_family(config_reading *reading, wg_error *err)
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
    if (!has_type)
        return wgi_settings_fail(settings, "model_type", WG_ERR_FORMAT, err,
                                 "is missing; it says which family the model is of");
    reading->family = wgi_encoder_family_find(reading->text.data);

cleanup:
    return status;
}

static wg_status describe(const config_reading *reading, wgi_description *out, wg_error *err)
{
    const wgi_encoder_family *family = reading->family;
    const uint64_t *sizes = reading->sizes;
    uint64_t offset = family->has_pad ? (uint64_t)reading->pad_id + 1 : 0;

    if (sizes[WGI_SIZE_HIDDEN] % sizes[WGI_SIZE_HEADS] != 0)
        return wgi_fail(
            err, WG_ERR_FORMAT, "%s: %s %llu does not divide %s %llu", reading->settings.path,
            family->sizes[WGI_SIZE_HEADS].key, (unsigned long long)sizes[WGI_SIZE_HEADS],
            family->sizes[WGI_SIZE_HIDDEN].key, (unsigned long long)sizes[WGI_SIZE_HIDDEN]);
    if (sizes[WGI_SIZE_POSITIONS] <= offset)
        return wgi_fail(err, WG_ERR_FORMAT,
                        "%s: %s %llu leaves no position: the first is %llu, behind the padding id",
                        reading->settings.path, family->sizes[WGI_SIZE_POSITIONS].key,
                        (unsigned long long)sizes[WGI_SIZE_POSITIONS], (unsigned long long)offset);
    *out = (wgi_description){
        .layer_count = (uint32_t)sizes[WGI_SIZE_LAYERS],
        .hidden_count = (uint32_t)sizes[WGI_SIZE_HIDDEN],
        .head_count = (uint32_t)sizes[WGI_SIZE_HEADS],
        .key_head_count = (uint32_t)sizes[WGI_SIZE_HEADS],
        .head_dim = (uint32_t)(sizes[WGI_SIZE_HIDDEN] / sizes[WGI_SIZE_HEADS]),
        .feed_forward_count = (uint32_t)sizes[WGI_SIZE_FEED_FORWARD],
        .vocabulary_count = sizes[WGI_SIZE_VOCABULARY],
        .position_count = (uint32_t)sizes[WGI_SIZE_POSITIONS],
        .position_offset = (uint32_t)offset,
        .type_count = (uint32_t)sizes[WGI_SIZE_TYPES],
        .activation = reading->activation,
        .norm_epsilon = (float)reading->epsilon,
    };
    (void)snprintf(out->architecture, sizeof(out->architecture), "%s", family->model_type);
    return WG_OK;
}

/* The second pass, by the family's row. */
static wg_status load_encoder(config_reading *reading, const char *directory, wgi_description *out,
                              wg_error *err)
{
    const wgi_encoder_family *family = reading->family;
    wgi_description description;
    wg_status status = WG_OK;
    wgi_slice key;

    reading->epsilon = family->epsilon;
    reading->activation = WGI_ACTIVATION_GELU;
    reading->pad_id = family->pad_initial;
    for (size_t i = 0; i < WGI_SIZE_COUNT; i++)
        reading->sizes[i] = family->sizes[i].initial;
    wgi_settings_fini(&reading->settings);
    WGI_TRY(wgi_settings_open(&reading->settings, directory, "", file_name, true, err));
    while (wgi_settings_next(&reading->settings, &key))
        WGI_TRY(read_key(reading, key, err));
    WGI_TRY(wgi_settings_finish(&reading->settings, err));
    WGI_TRY(describe(reading, &description, err));
    if (family->has_pattern)
        WGI_TRY(wgi_pattern_describe(&reading->pattern, &reading->settings, &description, err));
    *out = description;

cleanup:
    return status;
}

wg_status wgi_description_load(wgi_description *out, const char *directory, wg_error *err)
{
    config_reading reading = {.family = NULL};
    wg_status status = WG_OK;
    char supported[256];

    *out = (wgi_description){0};
    if (wgi_path_is_gguf(directory)) return wgi_description_load_gguf(out, directory, err);
    wgi_pattern_init(&reading.pattern);
    WGI_TRY(wgi_settings_open(&reading.settings, directory, "", file_name, true, err));
    WGI_TRY(read_family(&reading, err));
    if (reading.family) {
        WGI_TRY(load_encoder(&reading, directory, out, err));
    } else if (wgi_model_type_is_decoder(reading.text.data)) {
        WGI_TRY(wgi_description_load_decoder(out, directory, reading.text.data, err));
    } else {
        status = refuse_text(&reading, "model_type", supported_text(supported), err);
    }

cleanup:
    wgi_settings_fini(&reading.settings);
    wgi_buf_fini(&reading.text);
    wgi_pattern_fini(&reading.pattern);
    return status;
}
