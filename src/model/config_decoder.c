/*
 * config_decoder.c - config.json of a causal decoder -> description.
 *
 * The idea: a family is a row of `families`; keys mean the same in every family that has them. A
 * key either sets something, or would change the answer in a way that is not implemented and is
 * refused by name, or does not change the answer and is passed over.
 *
 *   must be there    hidden_size, num_hidden_layers, num_attention_heads, intermediate_size,
 *                    vocab_size; the families' own default for the rest of the sizes
 *   read             num_key_value_heads, head_dim, max_position_embeddings, rms_norm_eps,
 * rope_theta, rope_scaling and rope_parameters (default, linear, llama3; flat or by layer type),
 * rope_local_base_freq, partial_rotary_factor (Phi-3), hidden_act, hidden_activation (Gemma),
 * attention_bias, mlp_bias, sliding_window, use_sliding_window and max_window_layers (Qwen),
 * layer_types, sliding_window_pattern (Gemma), query_pre_attn_scalar (Gemma), embedding_multiplier,
 * attention_multiplier, residual_multiplier (Granite) refused          other kinds of rope;
 * is_causal false, use_bidirectional_attention true; attn_logit_softcapping (Gemma 3 in
 * transformers reads it and does nothing, so what a file that has it means is not known);
 * quantization_config; auto_map (another author's code, which may attend both ways), but for Phi-3,
 * whose own code it was before transformers had it passed over      whatever only the head of a
 * language model needs (final_logit_softcapping, logits_scaling, tie_word_embeddings), dropout
 * rates, token ids, ...
 *
 * Files differ in their order of keys, so everything is collected first and put together behind
 * the last key.
 *
 * Threads: no shared state.
 */
#include <math.h>
#include <string.h>

#include "model/directory.h"
#include "model/model.h"

static const char file_name[] = "config.json";

enum window_rule {
    WINDOW_NONE,
    WINDOW_ALL,    /* sliding_window is every layer's */
    WINDOW_SWITCH, /* Qwen: layers from max_window_layers on, when use_sliding_window */
    WINDOW_PATTERN /* Gemma: all but every n-th layer */
};

static const struct family {
    const char *type;
    uint64_t positions;      /* default of max_position_embeddings */
    uint64_t key_heads;      /* of num_key_value_heads; 0: as many as heads */
    uint64_t head_dim;       /* of head_dim; 0: hidden_size / num_attention_heads */
    uint64_t sliding_window; /* of sliding_window; 0: none */
    double epsilon, rope_base;
    enum window_rule window;
    wgi_decoder_traits traits; /* flags only */
} families[] = {
    {"llama", 2048, 0, 0, 0, 1e-6, 10000, WINDOW_NONE, {.window = 0}},
    {"mistral", 131072, 8, 0, 4096, 1e-6, 10000, WINDOW_ALL, {.window = 0}},
    {"qwen2", 32768, 32, 0, 4096, 1e-6, 10000, WINDOW_SWITCH, {.has_qkv_bias = true}},
    {"qwen3", 32768, 32, 128, 4096, 1e-6, 10000, WINDOW_SWITCH, {.has_head_norm = true}},
    {"gemma3_text",
     131072,
     4,
     256,
     4096,
     1e-6,
     1000000,
     WINDOW_PATTERN,
     {.has_head_norm = true, .has_post_norm = true, .is_norm_plus_one = true}},
    {"phi3", 4096, 0, 0, 0, 1e-5, 10000, WINDOW_ALL, {.is_fused = true}},
    {"granite", 2048, 0, 0, 0, 1e-6, 10000, WINDOW_NONE, {.window = 0}},
};
#define FAMILY_COUNT (sizeof(families) / sizeof(families[0]))

enum {
    HIDDEN,
    LAYERS,
    HEADS,
    FEED_FORWARD,
    VOCABULARY, /* up to here they must be there */
    POSITIONS,
    KEY_HEADS,
    HEAD_DIM,
    WINDOW,
    WINDOW_LAYERS,
    WINDOW_PERIOD,
    SIZE_COUNT
};

static const struct size_row {
    const char *key;
    uint64_t most;
} size_rows[SIZE_COUNT] = {
    [HIDDEN] = {"hidden_size", 1u << 16},
    [LAYERS] = {"num_hidden_layers", WGI_LAYER_MAX},
    [HEADS] = {"num_attention_heads", 1u << 12},
    [FEED_FORWARD] = {"intermediate_size", 1u << 20},
    [VOCABULARY] = {"vocab_size", INT32_MAX},
    [POSITIONS] = {"max_position_embeddings", 1u << 30},
    [KEY_HEADS] = {"num_key_value_heads", 1u << 12},
    [HEAD_DIM] = {"head_dim", 1u << 12},
    [WINDOW] = {"sliding_window", 1u << 30},
    [WINDOW_LAYERS] = {"max_window_layers", 1u << 12},
    [WINDOW_PERIOD] = {"sliding_window_pattern", 1u << 12},
};

enum {
    EPSILON,
    BASE,
    LOCAL_BASE,
    PARTIAL,
    ATTENTION_SCALAR,
    EMBEDDING,
    ATTENTION,
    RESIDUAL,
    NUMBER_COUNT
};

static const char *const number_keys[NUMBER_COUNT] = {
    [EPSILON] = "rms_norm_eps",
    [BASE] = "rope_theta",
    [LOCAL_BASE] = "rope_local_base_freq",
    [PARTIAL] = "partial_rotary_factor",
    [ATTENTION_SCALAR] = "query_pre_attn_scalar",
    [EMBEDDING] = "embedding_multiplier",
    [ATTENTION] = "attention_multiplier",
    [RESIDUAL] = "residual_multiplier",
};

enum { ATTENTION_BIAS, MLP_BIAS, USE_WINDOW, CAUSAL, BOTH_WAYS, MROPE, FLAG_COUNT };

static const char *const flag_keys[FLAG_COUNT] = {
    [ATTENTION_BIAS] = "attention_bias",         [MLP_BIAS] = "mlp_bias",
    [USE_WINDOW] = "use_sliding_window",         [CAUSAL] = "is_causal",
    [BOTH_WAYS] = "use_bidirectional_attention", [MROPE] = "use_mrope",
};

/* transformers' names of the activations that gates of these families have. */
static const struct activation_row {
    const char *name;
    wgi_activation activation;
} activations[] = {
    {"silu", WGI_ACTIVATION_SILU},          {"swish", WGI_ACTIVATION_SILU},
    {"gelu", WGI_ACTIVATION_GELU},          {"gelu_pytorch_tanh", WGI_ACTIVATION_GELU_TANH},
    {"gelu_new", WGI_ACTIVATION_GELU_TANH}, {"relu", WGI_ACTIVATION_RELU},
};

/* What one object of rope settings says; NAN where it does not. */
typedef struct rope_reading {
    bool is_linear, is_llama3;
    double base, factor, low, high, original, partial;
} rope_reading;

const char *wgi_decoder_type_at(size_t index)
{
    return index < FAMILY_COUNT ? families[index].type : NULL;
}

typedef struct decoder_reading {
    wgi_settings settings;
    wgi_buf text;
    const struct family *family;
    uint64_t sizes[SIZE_COUNT]; /* 0: not there, or null */
    bool has_size[SIZE_COUNT];
    double numbers[NUMBER_COUNT]; /* NAN: not there */
    bool flags[FLAG_COUNT];
    wgi_activation activation;
    rope_reading rope, rope_local;
    bool has_parameters; /* rope_parameters wins over the older rope_scaling */
    bool has_layer_types;
    uint64_t layer_type_count;
    uint8_t local_layers[WGI_LAYER_MAX / 8];
} decoder_reading;

bool wgi_model_type_is_decoder(const char *model_type)
{
    for (size_t i = 0; i < FAMILY_COUNT; i++)
        if (strcmp(families[i].type, model_type) == 0) return true;
    return false;
}

static bool text_is(const decoder_reading *reading, const char *text)
{
    return wgi_slice_is((wgi_slice){reading->text.data, reading->text.count}, text);
}

static wg_status refuse_text(const decoder_reading *reading, const char *key, const char *supported,
                             wg_error *err)
{
    char shown[WGI_SHOWN_BYTES];

    return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: %s \"%s\" (supported: %s)",
                    reading->settings.path, key,
                    wgi_text_show(shown, reading->text.data, reading->text.count), supported);
}

/* ----------------------------------------------------------------------------------- values */

#define NUMBER_MOST 1e15 /* like the least, far beyond any model, and what a float can hold */

static wg_status read_number(decoder_reading *reading, const char *key, double most, double *out,
                             wg_error *err)
{
    double value = NAN;

    if (wgi_settings_take_null(&reading->settings)) return WG_OK;
    wg_status status = wgi_settings_double(&reading->settings, key, &value, err);
    if (status != WG_OK) return status;
    if (!(value >= 1e-30 && value <= most))
        return wgi_settings_fail(&reading->settings, key, WG_ERR_FORMAT, err,
                                 "%g is out of range (1e-30 to %g)", value, most);
    *out = value;
    return WG_OK;
}

static wg_status read_activation(decoder_reading *reading, const char *key, wg_error *err)
{
    wg_status status = wgi_settings_string(&reading->settings, key, &reading->text, err);

    if (status != WG_OK) return status;
    for (size_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++) {
        if (!text_is(reading, activations[i].name)) continue;
        reading->activation = activations[i].activation;
        return WG_OK;
    }
    return refuse_text(reading, key, "silu, gelu, gelu_pytorch_tanh, relu", err);
}

static wg_status read_layer_types(decoder_reading *reading, wg_error *err)
{
    static const char key[] = "layer_types";
    wgi_settings *settings = &reading->settings;
    wg_status status = WG_OK;

    if (wgi_settings_take_null(settings)) return WG_OK;
    reading->has_layer_types = true;
    reading->layer_type_count = 0;
    memset(reading->local_layers, 0, sizeof(reading->local_layers));
    WGI_TRY(wgi_settings_blame(settings, key, wgi_json_array_begin(&settings->json, err), err));
    while (wgi_json_array_next(&settings->json)) {
        uint64_t layer = reading->layer_type_count++;
        WGI_TRY(wgi_settings_string(settings, key, &reading->text, err));
        if (text_is(reading, "full_attention")) continue;
        if (!text_is(reading, "sliding_attention"))
            return refuse_text(reading, key, "full_attention, sliding_attention", err);
        if (layer < WGI_LAYER_MAX) reading->local_layers[layer / 8] |= (uint8_t)(1u << layer % 8);
    }
    WGI_TRY(wgi_settings_blame(settings, key, wgi_json_status(&settings->json, err), err));

cleanup:
    return status;
}

/* --------------------------------------------------------------------------- rope's settings */

static wg_status read_rope_type(decoder_reading *reading, const char *key, rope_reading *rope,
                                wg_error *err)
{
    wg_status status = wgi_settings_string(&reading->settings, key, &reading->text, err);

    if (status != WG_OK) return status;
    rope->is_linear = text_is(reading, "linear");
    rope->is_llama3 = text_is(reading, "llama3");
    if (rope->is_linear || rope->is_llama3 || text_is(reading, "default")) return WG_OK;
    return refuse_text(reading, key, "default, linear, llama3", err);
}

/* One key of an object of rope settings. */
static wg_status read_rope_key(decoder_reading *reading, wgi_slice key, rope_reading *rope,
                               wg_error *err)
{
    const struct {
        const char *key;
        double *out;
    } numbers[] = {{"rope_theta", &rope->base},
                   {"factor", &rope->factor},
                   {"low_freq_factor", &rope->low},
                   {"high_freq_factor", &rope->high},
                   {"original_max_position_embeddings", &rope->original},
                   {"partial_rotary_factor", &rope->partial}};

    if (wgi_slice_is(key, "rope_type")) return read_rope_type(reading, "rope_type", rope, err);
    if (wgi_slice_is(key, "type")) return read_rope_type(reading, "type", rope, err);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (wgi_slice_is(key, numbers[i].key))
            return read_number(reading, numbers[i].key, NUMBER_MOST, numbers[i].out, err);
    return wgi_settings_skip(&reading->settings, err);
}

static const rope_reading rope_unsaid = {false, false, NAN, NAN, NAN, NAN, NAN, NAN};

static wg_status read_rope_object(decoder_reading *reading, const char *name, rope_reading *rope,
                                  wg_error *err)
{
    wgi_json *json = &reading->settings.json;
    wg_status status = WG_OK;
    wgi_slice key;

    *rope = rope_unsaid;
    WGI_TRY(wgi_settings_blame(&reading->settings, name, wgi_json_object_begin(json, err), err));
    while (wgi_json_object_next(json, &key))
        WGI_TRY(read_rope_key(reading, key, rope, err));
    WGI_TRY(wgi_settings_blame(&reading->settings, name, wgi_json_status(json, err), err));

cleanup:
    return status;
}

/* rope_scaling or rope_parameters: settings, or an object of them for each type of layer. */
static wg_status read_rope(decoder_reading *reading, const char *name, bool is_parameters,
                           wg_error *err)
{
    wgi_json *json = &reading->settings.json;
    bool is_gemma = reading->family->window == WINDOW_PATTERN;
    rope_reading flat = rope_unsaid;
    wg_status status = WG_OK;
    bool is_by_type = false;
    wgi_slice key;

    if (wgi_settings_take_null(&reading->settings)) return WG_OK;
    WGI_TRY(wgi_settings_blame(&reading->settings, name, wgi_json_object_begin(json, err), err));
    while (wgi_json_object_next(json, &key)) {
        bool is_full = wgi_slice_is(key, "full_attention");
        bool is_local = wgi_slice_is(key, "sliding_attention");
        if (!is_full && !is_local) {
            WGI_TRY(read_rope_key(reading, key, &flat, err));
            continue;
        }
        if (!is_gemma) {
            status = wgi_settings_fail(&reading->settings, name, WG_ERR_UNSUPPORTED, err,
                                       "not supported yet: settings by layer type in a %s",
                                       reading->family->type);
            goto cleanup;
        }
        is_by_type = true;
        if (wgi_settings_take_null(&reading->settings)) continue;
        WGI_TRY(
            read_rope_object(reading, name, is_full ? &reading->rope : &reading->rope_local, err));
    }
    WGI_TRY(wgi_settings_blame(&reading->settings, name, wgi_json_status(json, err), err));
    if (is_parameters) reading->has_parameters = true;
    if (!is_by_type && (is_parameters || !reading->has_parameters)) reading->rope = flat;

cleanup:
    return status;
}

/* ------------------------------------------------------------------------------------- keys */

/* Keys with a value that changes the answer and is not implemented. *is_taken: it was one. */
static wg_status read_guard(decoder_reading *reading, wgi_slice key, bool *is_taken, wg_error *err)
{
    static const char *const empty_keys[] = {"attn_logit_softcapping", "quantization_config",
                                             "auto_map"};
    wgi_settings *settings = &reading->settings;

    *is_taken = true;
    for (size_t i = 0; i < sizeof(empty_keys) / sizeof(empty_keys[0]); i++) {
        bool is_empty = false;
        if (!wgi_slice_is(key, empty_keys[i])) continue;
        wg_status status = wgi_settings_is_empty(settings, empty_keys[i], &is_empty, err);
        if (status != WG_OK || is_empty) return status;
        if (i == 2 && reading->family->traits.is_fused) return WG_OK;
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "%s: not supported yet: %s, which changes what the model computes",
                        settings->path, empty_keys[i]);
    }
    *is_taken = false;
    return WG_OK;
}

static wg_status read_size(decoder_reading *reading, size_t i, wg_error *err)
{
    reading->has_size[i] = true;
    reading->sizes[i] = 0;
    if (i > VOCABULARY && wgi_settings_take_null(&reading->settings)) return WG_OK;
    if (i == WINDOW_LAYERS) { /* may be 0 */
        double value = 0;
        wg_status status = wgi_settings_double(&reading->settings, size_rows[i].key, &value, err);
        if (status == WG_OK && !(value >= 0 && value <= WGI_LAYER_MAX))
            return wgi_settings_fail(&reading->settings, size_rows[i].key, WG_ERR_FORMAT, err,
                                     "%g is out of range (0 to %d)", value, WGI_LAYER_MAX);
        reading->sizes[i] = (uint64_t)value;
        return status;
    }
    return wgi_settings_count(&reading->settings, size_rows[i].key, size_rows[i].most,
                              &reading->sizes[i], err);
}

static wg_status read_key(decoder_reading *reading, wgi_slice key, wg_error *err)
{
    wgi_settings *settings = &reading->settings;
    bool is_gemma = reading->family->window == WINDOW_PATTERN, is_taken;

    for (size_t i = 0; i < SIZE_COUNT; i++)
        if (wgi_slice_is(key, size_rows[i].key)) return read_size(reading, i, err);
    if (wgi_slice_is(key, "_sliding_window_pattern")) return read_size(reading, WINDOW_PERIOD, err);
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        if (wgi_slice_is(key, number_keys[i]))
            return read_number(reading, number_keys[i], i == EPSILON ? 1 : NUMBER_MOST,
                               &reading->numbers[i], err);
    for (size_t i = 0; i < FLAG_COUNT; i++)
        if (wgi_slice_is(key, flag_keys[i])) {
            if (wgi_settings_take_null(settings)) return WG_OK;
            return wgi_settings_bool(settings, flag_keys[i], &reading->flags[i], err);
        }
    if (wgi_slice_is(key, "hidden_act") && !is_gemma)
        return read_activation(reading, "hidden_act", err);
    if (wgi_slice_is(key, "hidden_activation") && is_gemma)
        return read_activation(reading, "hidden_activation", err);
    if (wgi_slice_is(key, "rope_scaling")) return read_rope(reading, "rope_scaling", false, err);
    if (wgi_slice_is(key, "rope_parameters"))
        return read_rope(reading, "rope_parameters", true, err);
    if (wgi_slice_is(key, "layer_types")) return read_layer_types(reading, err);
    wg_status status = read_guard(reading, key, &is_taken, err);
    if (status != WG_OK || is_taken) return status;
    return wgi_settings_skip(settings, err);
}

/* -------------------------------------------------------------------------- put together */

static double number_or(double value, double otherwise)
{
    return isnan(value) ? otherwise : value;
}

static wg_status describe_rope(const decoder_reading *reading, const rope_reading *rope,
                               double base, wgi_rope *out, wg_error *err)
{
    *out = (wgi_rope){.base = number_or(rope->base, base), .factor = 1};
    if (!rope->is_linear && !rope->is_llama3) return WG_OK;
    if (isnan(rope->factor) || (rope->is_llama3 && (isnan(rope->low) || isnan(rope->high))))
        return wgi_fail(err, WG_ERR_FORMAT, "%s: rope scaling without %s", reading->settings.path,
                        isnan(rope->factor) ? "a factor" : "low_freq_factor, high_freq_factor");
    out->factor = rope->factor;
    if (!rope->is_llama3) return WG_OK;
    out->is_llama3 = true;
    out->low = rope->low;
    out->high = rope->high;
    out->original = number_or(rope->original, (double)reading->sizes[POSITIONS]);
    if (out->low >= out->high)
        return wgi_fail(err, WG_ERR_FORMAT,
                        "%s: low_freq_factor %g is not below high_freq_factor %g",
                        reading->settings.path, out->low, out->high);
    return WG_OK;
}

static void set_local(wgi_decoder_traits *traits, uint64_t layer)
{
    traits->local_layers[layer / 8] |= (uint8_t)(1u << layer % 8);
}

/* Which layers have a window, and how wide. */
static wg_status describe_window(const decoder_reading *reading, wgi_decoder_traits *traits,
                                 wg_error *err)
{
    const uint64_t *sizes = reading->sizes;
    enum window_rule rule = reading->family->window;
    uint64_t layers = sizes[LAYERS], local = 0;
    bool is_by_type = reading->has_layer_types;

    if (is_by_type && reading->layer_type_count != layers)
        return wgi_fail(err, WG_ERR_FORMAT,
                        "%s: layer_types has %llu items, num_hidden_layers is %llu",
                        reading->settings.path, (unsigned long long)reading->layer_type_count,
                        (unsigned long long)layers);
    for (uint64_t i = 0; i < layers; i++) {
        bool is_local = rule == WINDOW_ALL ||
                        (rule == WINDOW_SWITCH && i >= sizes[WINDOW_LAYERS]) ||
                        (rule == WINDOW_PATTERN && (i + 1) % sizes[WINDOW_PERIOD] != 0);
        if (is_by_type) {
            bool is_listed = reading->local_layers[i / 8] >> i % 8 & 1;
            bool is_free = rule == WINDOW_SWITCH || rule == WINDOW_PATTERN;
            if (!is_free && is_listed != (is_local && sizes[WINDOW] > 0))
                return wgi_fail(err, WG_ERR_UNSUPPORTED,
                                "%s: not supported yet: layer_types that mix kinds in a %s",
                                reading->settings.path, reading->family->type);
            is_local = is_listed;
        }
        if (!is_local) continue;
        set_local(traits, i);
        local++;
    }
    bool is_on = rule != WINDOW_SWITCH || reading->flags[USE_WINDOW];
    if (local && is_on) traits->window = (uint32_t)sizes[WINDOW];
    return WG_OK;
}

static wg_status check_flags(const decoder_reading *reading, wg_error *err)
{
    const char *what = NULL;

    if (!reading->flags[CAUSAL]) what = "is_causal false";
    if (reading->flags[BOTH_WAYS]) what = "use_bidirectional_attention true";
    if (reading->flags[MROPE]) what = "use_mrope true";
    if (!what) return WG_OK;
    return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: %s", reading->settings.path,
                    what);
}

/* Sizes that are not there, from the family or from others. */
static wg_status complete_sizes(decoder_reading *reading, wg_error *err)
{
    const struct family *family = reading->family;
    uint64_t *sizes = reading->sizes;

    for (size_t i = 0; i <= VOCABULARY; i++)
        if (!sizes[i])
            return wgi_settings_fail(&reading->settings, size_rows[i].key, WG_ERR_FORMAT, err,
                                     "is missing");
    if (!sizes[POSITIONS]) sizes[POSITIONS] = family->positions;
    if (!sizes[KEY_HEADS])
        sizes[KEY_HEADS] =
            family->key_heads && !reading->has_size[KEY_HEADS] ? family->key_heads : sizes[HEADS];
    if (!sizes[HEAD_DIM]) {
        sizes[HEAD_DIM] = family->head_dim ? family->head_dim : sizes[HIDDEN] / sizes[HEADS];
        if (!family->head_dim && sizes[HIDDEN] % sizes[HEADS] != 0)
            return wgi_fail(err, WG_ERR_FORMAT,
                            "%s: num_attention_heads %llu does not divide hidden_size %llu",
                            reading->settings.path, (unsigned long long)sizes[HEADS],
                            (unsigned long long)sizes[HIDDEN]);
    }
    if (sizes[HEADS] % sizes[KEY_HEADS] != 0)
        return wgi_fail(err, WG_ERR_FORMAT,
                        "%s: num_key_value_heads %llu does not divide num_attention_heads %llu",
                        reading->settings.path, (unsigned long long)sizes[KEY_HEADS],
                        (unsigned long long)sizes[HEADS]);
    if (!reading->has_size[WINDOW]) sizes[WINDOW] = family->sliding_window;
    if (!reading->has_size[WINDOW_LAYERS]) sizes[WINDOW_LAYERS] = 28;
    if (!sizes[WINDOW_PERIOD]) sizes[WINDOW_PERIOD] = 6;
    return WG_OK;
}

static wg_status describe_traits(const decoder_reading *reading, wgi_decoder_traits *traits,
                                 wg_error *err)
{
    const struct family *family = reading->family;
    const uint64_t *sizes = reading->sizes;
    const double *numbers = reading->numbers;
    bool is_gemma = family->window == WINDOW_PATTERN;
    bool is_granite = strcmp(family->type, "granite") == 0;
    bool has_bias = reading->flags[ATTENTION_BIAS] && !family->traits.is_fused &&
                    !family->traits.has_qkv_bias && family->window != WINDOW_ALL;
    double partial = number_or(reading->rope.partial, number_or(numbers[PARTIAL], 1));
    double dim = (double)sizes[HEAD_DIM], local_base = number_or(numbers[LOCAL_BASE], 10000);
    double scale = 1 / sqrt(is_gemma ? number_or(numbers[ATTENTION_SCALAR], 256) : dim);
    wg_status status = WG_OK;

    *traits = family->traits;
    traits->has_qkv_bias |= has_bias;
    traits->has_out_bias = has_bias;
    traits->has_mlp_bias = reading->flags[MLP_BIAS] && family->window == WINDOW_NONE;
    traits->embedding_scale = is_gemma ? (float)sqrt((double)sizes[HIDDEN]) : 1;
    traits->residual_scale = 1;
    if (is_granite) {
        scale = number_or(numbers[ATTENTION], 1);
        traits->embedding_scale = (float)number_or(numbers[EMBEDDING], 1);
        traits->residual_scale = (float)number_or(numbers[RESIDUAL], 1);
    }
    traits->attention_scale = (float)scale;
    if (partial > 1 || (partial != 1 && !traits->is_fused))
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "%s: not supported yet: partial_rotary_factor %g in a %s",
                        reading->settings.path, partial, family->type);
    traits->rotary_count = (uint32_t)(dim * partial);
    if (traits->rotary_count == 0 || traits->rotary_count % 2 != 0)
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "%s: not supported: %u rotated elements of a head, which are no pairs",
                        reading->settings.path, traits->rotary_count);
    WGI_TRY(describe_rope(reading, &reading->rope, number_or(numbers[BASE], family->rope_base),
                          &traits->rope, err));
    traits->rope_local = traits->rope;
    if (is_gemma)
        WGI_TRY(describe_rope(reading, &reading->rope_local, local_base, &traits->rope_local, err));
    WGI_TRY(describe_window(reading, traits, err));

cleanup:
    return status;
}

static wg_status describe(decoder_reading *reading, wgi_description *out, wg_error *err)
{
    const uint64_t *sizes = reading->sizes;
    double epsilon = number_or(reading->numbers[EPSILON], reading->family->epsilon);
    wg_status status = WG_OK;

    WGI_TRY(check_flags(reading, err));
    WGI_TRY(complete_sizes(reading, err));
    *out = (wgi_description){
        .layer_count = (uint32_t)sizes[LAYERS],
        .hidden_count = (uint32_t)sizes[HIDDEN],
        .head_count = (uint32_t)sizes[HEADS],
        .key_head_count = (uint32_t)sizes[KEY_HEADS],
        .head_dim = (uint32_t)sizes[HEAD_DIM],
        .feed_forward_count = (uint32_t)sizes[FEED_FORWARD],
        .vocabulary_count = sizes[VOCABULARY],
        .position_count = (uint32_t)sizes[POSITIONS],
        .activation = reading->activation,
        .norm_epsilon = (float)epsilon,
        .is_decoder = true,
    };
    memcpy(out->architecture, reading->family->type, strlen(reading->family->type) + 1);
    WGI_TRY(describe_traits(reading, &out->decoder, err));

cleanup:
    return status;
}

wg_status wgi_description_load_decoder(wgi_description *out, const char *directory,
                                       const char *model_type, wg_error *err)
{
    decoder_reading reading = {.activation = WGI_ACTIVATION_SILU, .family = &families[0]};
    wg_status status = WG_OK;
    wgi_slice key;

    *out = (wgi_description){0};
    for (size_t i = 0; i < FAMILY_COUNT; i++)
        if (strcmp(families[i].type, model_type) == 0) reading.family = &families[i];
    if (reading.family->window == WINDOW_PATTERN) reading.activation = WGI_ACTIVATION_GELU_TANH;
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        reading.numbers[i] = NAN;
    reading.rope = reading.rope_local = rope_unsaid;
    reading.flags[CAUSAL] = true;

    WGI_TRY(wgi_settings_open(&reading.settings, directory, "", file_name, true, err));
    while (wgi_settings_next(&reading.settings, &key))
        WGI_TRY(read_key(&reading, key, err));
    WGI_TRY(wgi_settings_finish(&reading.settings, err));
    WGI_TRY(describe(&reading, out, err));

cleanup:
    wgi_settings_fini(&reading.settings);
    wgi_buf_fini(&reading.text);
    if (status != WG_OK) *out = (wgi_description){0};
    return status;
}
