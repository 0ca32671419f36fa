/*
 * modules.c - modules.json and the folders that it names -> what is done with the hidden states.
 *
 *     [{"path": "",            "type": "sentence_transformers.models.Transformer"},   first
 *      {"path": "1_Pooling",   "type": "sentence_transformers.models.Pooling"},       then one
 *      {"path": "2_Dense",     "type": "sentence_transformers.models.Dense"},         any, up to 4
 *      {"path": "3_Normalize", "type": "sentence_transformers.models.Normalize"}]     perhaps
 *
 * The idea: the list is a small state machine; each module either fits behind what came before or
 * is refused by name with its place in the list. Modules run in the order of the file, as in
 * sentence-transformers (6.2 was read for names, defaults and renames); `idx` and `name` say
 * nothing.
 *
 * A type is a Python path. Three roots are known (see type_roots); the class behind them decides. A
 * class of the same name from anywhere else is somebody's own code, and refused. Dropout does
 * nothing when a model is used, and is passed over.
 *
 * Not done, and refused by name: several pooling modes at once (their vectors would be
 * concatenated), use_residual, a module that reads or writes another feature than the sentence
 * vector, a transformer in a folder of its own (old models: 0_Transformer), Dense behind Normalize,
 * anything unknown.
 *
 * Without modules.json the architecture decides: mean over all tokens, of a decoder the last one;
 * then unit length. A GGUF file may say which.
 *
 * Threads: no shared state; wgi_modules is read-only once loaded.
 */
#include "model/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "model/directory.h"
#include "model/sentence.h"

static const char list_name[] = "modules.json";
static const char sentence_feature[] = "sentence_embedding";

static const char *const type_roots[] = {
    "sentence_transformers.models.",
    "sentence_transformers.base.modules.",
    "sentence_transformers.sentence_transformer.modules.",
};

typedef struct module_reading {
    wgi_modules *out;
    const wgi_description *description;
    const char *directory;
    wgi_settings list;
    wgi_buf path, type; /* of the module at hand */
    uint32_t index;     /* its place in the list */
    uint32_t dim;       /* floats of the sentence vector so far */
    bool has_pooling, has_normalize;
} module_reading;

__attribute__((format(printf, 3, 4))) static wg_status
fail_module(const module_reading *reading, wg_error *err, const char *format, ...)
{
    char message[200], shown[WGI_SHOWN_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: module %u (%s): %s", reading->list.path,
                    reading->index, wgi_text_show(shown, reading->type.data, reading->type.count),
                    message);
}

/* A key of a module's own config.json that says which feature it reads or writes. */
static wg_status need_feature(wgi_settings *settings, const char *key, wgi_buf *text, wg_error *err)
{
    char shown[WGI_SHOWN_BYTES];

    if (wgi_settings_take_null(settings)) return WG_OK;
    wg_status status = wgi_settings_string(settings, key, text, err);
    if (status != WG_OK || strcmp(text->data, sentence_feature) == 0) return status;
    return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: %s \"%s\" (supported: %s)",
                    settings->path, key, wgi_text_show(shown, text->data, text->count),
                    sentence_feature);
}

/* ------------------------------------------------------------------------------------- pooling */

static const struct pooling_row {
    const char *flag; /* the older spelling: one boolean a mode */
    const char *name; /* the newer: a string, or an array of them */
    wg_pooling pooling;
} poolings[] = {
    {"pooling_mode_cls_token", "cls", WG_POOLING_CLS},
    {"pooling_mode_max_tokens", "max", WG_POOLING_MAX},
    {"pooling_mode_mean_tokens", "mean", WG_POOLING_MEAN},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", WG_POOLING_SQRT_LENGTH_MEAN},
    {"pooling_mode_weightedmean_tokens", "weightedmean", WG_POOLING_WEIGHTED_MEAN},
    {"pooling_mode_lasttoken", "lasttoken", WG_POOLING_LAST},
};
#define POOLING_COUNT (sizeof(poolings) / sizeof(poolings[0]))

typedef struct pooling_reading {
    wgi_settings settings;
    wgi_buf text;
    bool flags[POOLING_COUNT]; /* by the older keys */
    bool names[POOLING_COUNT]; /* by pooling_mode, which wins */
    bool has_names;
    uint64_t dim[2]; /* word_embedding_dimension; embedding_dimension, which wins */
    bool include_prompt;
} pooling_reading;

static wg_status read_mode_name(pooling_reading *reading, wg_error *err)
{
    static const char key[] = "pooling_mode";
    char shown[WGI_SHOWN_BYTES];
    wg_status status = wgi_settings_string(&reading->settings, key, &reading->text, err);

    if (status != WG_OK) return status;
    for (size_t i = 0; i < POOLING_COUNT; i++) {
        if (strcmp(reading->text.data, poolings[i].name) != 0) continue;
        reading->names[i] = true;
        return WG_OK;
    }
    return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: %s \"%s\"",
                    reading->settings.path, key,
                    wgi_text_show(shown, reading->text.data, reading->text.count));
}

static wg_status read_mode(pooling_reading *reading, wg_error *err)
{
    wgi_json *json = &reading->settings.json;
    wg_status status = WG_OK;

    reading->has_names = true;
    memset(reading->names, 0, sizeof(reading->names));
    if (wgi_json_peek(json) != WGI_JSON_ARRAY) return read_mode_name(reading, err);
    WGI_TRY(wgi_settings_blame(&reading->settings, "pooling_mode", wgi_json_array_begin(json, err),
                               err));
    while (wgi_json_array_next(json))
        WGI_TRY(read_mode_name(reading, err));
    WGI_TRY(
        wgi_settings_blame(&reading->settings, "pooling_mode", wgi_json_status(json, err), err));

cleanup:
    return status;
}

static wg_status read_pooling_key(pooling_reading *reading, wgi_slice key, wg_error *err)
{
    static const char prefix[] = "pooling_mode_";
    static const char *const dim_keys[] = {"word_embedding_dimension", "embedding_dimension"};
    wgi_settings *settings = &reading->settings;
    char shown[WGI_SHOWN_BYTES];
    wg_status status;

    for (size_t i = 0; i < POOLING_COUNT; i++) {
        if (wgi_slice_is(key, poolings[i].flag))
            return wgi_settings_bool(settings, poolings[i].flag, &reading->flags[i], err);
    }
    for (size_t i = 0; i < 2; i++) {
        if (wgi_slice_is(key, dim_keys[i]))
            return wgi_settings_count(settings, dim_keys[i], UINT32_MAX, &reading->dim[i], err);
    }
    if (wgi_slice_is(key, "pooling_mode")) return read_mode(reading, err);
    if (wgi_slice_is(key, "include_prompt"))
        return wgi_settings_bool(settings, "include_prompt", &reading->include_prompt, err);
    if (key.count >= sizeof(prefix) - 1 && memcmp(key.data, prefix, sizeof(prefix) - 1) == 0) {
        bool is_empty = false;
        (void)wgi_text_show(shown, key.data, key.count);
        status = wgi_settings_is_empty(settings, shown, &is_empty, err);
        if (status != WG_OK || is_empty) return status;
        return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: %s", settings->path,
                        shown);
    }
    return wgi_settings_skip(settings, err);
}

/* One mode out of the flags; none is sentence-transformers' default, the mean. */
static wg_status settle_pooling(const pooling_reading *reading, wg_pooling *out, wg_error *err)
{
    const bool *is_on = reading->has_names ? reading->names : reading->flags;
    const char *first = NULL;

    *out = WG_POOLING_MEAN;
    for (size_t i = 0; i < POOLING_COUNT; i++) {
        if (!is_on[i]) continue;
        if (first)
            return wgi_fail(err, WG_ERR_UNSUPPORTED,
                            "%s: not supported yet: pooling modes %s and %s at once "
                            "(their vectors would be concatenated)",
                            reading->settings.path, first, poolings[i].name);
        first = poolings[i].name;
        *out = poolings[i].pooling;
    }
    return WG_OK;
}

static wg_status load_pooling(module_reading *module, wg_error *err)
{
    pooling_reading reading = {.include_prompt = true};
    uint32_t hidden = module->description->hidden_count;
    wg_status status = WG_OK;
    uint64_t dim;
    wgi_slice key;

    WGI_TRY(wgi_settings_open(&reading.settings, module->directory, module->path.data,
                              "config.json", true, err));
    while (wgi_settings_next(&reading.settings, &key))
        WGI_TRY(read_pooling_key(&reading, key, err));
    WGI_TRY(wgi_settings_finish(&reading.settings, err));
    dim = reading.dim[1] ? reading.dim[1] : reading.dim[0];
    if (dim != hidden) {
        status = wgi_settings_fail(
            &reading.settings, reading.dim[1] ? "embedding_dimension" : "word_embedding_dimension",
            WG_ERR_FORMAT, err,
            dim ? "%llu, but hidden_size of config.json is %u"
                : "is missing (%llu; hidden_size of config.json is %u)",
            (unsigned long long)dim, hidden);
        goto cleanup;
    }
    WGI_TRY(settle_pooling(&reading, &module->out->pooling, err));
    module->out->include_prompt = reading.include_prompt;
    module->out->pooling_rule =
        strcmp(module->path.data, "1_Pooling") == 0 ? "1_Pooling/config.json" : "modules.json";
    module->dim = hidden;
    module->has_pooling = true;

cleanup:
    wgi_settings_fini(&reading.settings);
    wgi_buf_fini(&reading.text);
    return status;
}

/* --------------------------------------------------------------------------------------- dense */

/* Classes of torch, by their own module and by the short way to them. */
static const struct torch_row {
    const char *name, *short_name;
    wgi_activation activation;
} torch_activations[] = {
    {"torch.nn.modules.linear.Identity", "torch.nn.Identity", WGI_ACTIVATION_NONE},
    {"torch.nn.modules.activation.Tanh", "torch.nn.Tanh", WGI_ACTIVATION_TANH},
    {"torch.nn.modules.activation.ReLU", "torch.nn.ReLU", WGI_ACTIVATION_RELU},
    {"torch.nn.modules.activation.GELU", "torch.nn.GELU", WGI_ACTIVATION_GELU},
    {"torch.nn.modules.activation.SiLU", "torch.nn.SiLU", WGI_ACTIVATION_SILU},
};

typedef struct dense_reading {
    wgi_settings settings;
    wgi_buf text;
    uint64_t in, out;
    bool has_bias, use_residual;
    wgi_activation activation;
} dense_reading;

static wg_status read_dense_activation(dense_reading *reading, wg_error *err)
{
    static const char key[] = "activation_function";
    char shown[WGI_SHOWN_BYTES];
    wg_status status = wgi_settings_string(&reading->settings, key, &reading->text, err);

    if (status != WG_OK) return status;
    for (size_t i = 0; i < sizeof(torch_activations) / sizeof(torch_activations[0]); i++) {
        const struct torch_row *row = &torch_activations[i];
        if (strcmp(reading->text.data, row->name) != 0 &&
            strcmp(reading->text.data, row->short_name) != 0)
            continue;
        reading->activation = row->activation;
        return WG_OK;
    }
    return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: %s \"%s\"",
                    reading->settings.path, key,
                    wgi_text_show(shown, reading->text.data, reading->text.count));
}

static wg_status read_dense_key(dense_reading *reading, wgi_slice key, wg_error *err)
{
    wgi_settings *settings = &reading->settings;

    if (wgi_slice_is(key, "in_features"))
        return wgi_settings_count(settings, "in_features", 1u << 20, &reading->in, err);
    if (wgi_slice_is(key, "out_features"))
        return wgi_settings_count(settings, "out_features", 1u << 20, &reading->out, err);
    if (wgi_slice_is(key, "bias"))
        return wgi_settings_bool(settings, "bias", &reading->has_bias, err);
    if (wgi_slice_is(key, "use_residual"))
        return wgi_settings_bool(settings, "use_residual", &reading->use_residual, err);
    if (wgi_slice_is(key, "activation_function")) return read_dense_activation(reading, err);
    if (wgi_slice_is(key, "module_input_name"))
        return need_feature(settings, "module_input_name", &reading->text, err);
    if (wgi_slice_is(key, "module_output_name"))
        return need_feature(settings, "module_output_name", &reading->text, err);
    return wgi_settings_skip(settings, err);
}

static wg_status check_dense(const dense_reading *reading, uint32_t dim, wg_error *err)
{
    const wgi_settings *settings = &reading->settings;

    if (reading->use_residual)
        return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: use_residual true",
                        settings->path);
    if (!reading->out)
        return wgi_settings_fail(settings, "out_features", WG_ERR_FORMAT, err, "is missing");
    if (reading->in != dim)
        return wgi_settings_fail(settings, "in_features", WG_ERR_FORMAT, err,
                                 reading->in ? "%llu, but the module before it gives %u floats"
                                             : "is missing (%llu; the module before it gives %u)",
                                 (unsigned long long)reading->in, dim);
    return WG_OK;
}

/* linear.weight and linear.bias, and nothing else: more would be a part that is not computed. */
static wg_status load_dense_weights(module_reading *module, const dense_reading *reading,
                                    wgi_dense *dense, wg_error *err)
{
    wgi_tensor_need weight = {.name = "linear.weight",
                              .rank = 2,
                              .shape = {reading->out, reading->in},
                              .keys = {"out_features", "in_features"}};
    wgi_tensor_need bias = {.name = "linear.bias",
                            .asked_by = "bias true",
                            .rank = 1,
                            .shape = {reading->out},
                            .keys = {"out_features"}};
    size_t count = reading->has_bias ? 2 : 1;
    char *folder = NULL;
    wg_status status = WG_OK;

    WGI_TRY(wgi_path_join(&folder, module->directory, module->path.data, "", err));
    WGI_TRY(wgi_weights_open(&dense->weights, folder, err));
    WGI_TRY(wgi_weights_need(dense->weights, &weight, &dense->weight, err));
    if (reading->has_bias) WGI_TRY(wgi_weights_need(dense->weights, &bias, &dense->bias, err));
    if (wgi_weights_count(dense->weights) != count)
        status = fail_module(module, err, "%zu tensors in %s, expected %zu",
                             wgi_weights_count(dense->weights), module->path.data, count);

cleanup:
    wgi_free(folder);
    return status;
}

static wg_status load_dense(module_reading *module, wg_error *err)
{
    /* What sentence-transformers assumes where a key is missing. */
    dense_reading reading = {.has_bias = true, .activation = WGI_ACTIVATION_TANH};
    wgi_modules *out = module->out;
    wg_status status = WG_OK;
    wgi_slice key;

    if (out->dense_count == WGI_DENSE_MAX)
        return fail_module(module, err, "more than %d Dense modules are not supported",
                           WGI_DENSE_MAX);
    WGI_TRY(wgi_settings_open(&reading.settings, module->directory, module->path.data,
                              "config.json", true, err));
    while (wgi_settings_next(&reading.settings, &key))
        WGI_TRY(read_dense_key(&reading, key, err));
    WGI_TRY(wgi_settings_finish(&reading.settings, err));
    WGI_TRY(check_dense(&reading, module->dim, err));
    out->dense[out->dense_count].activation = reading.activation;
    /* Counted first: what a failure leaves open is closed by wgi_modules_fini. */
    out->dense_count++;
    WGI_TRY(load_dense_weights(module, &reading, &out->dense[out->dense_count - 1], err));
    module->dim = (uint32_t)reading.out;

cleanup:
    wgi_settings_fini(&reading.settings);
    wgi_buf_fini(&reading.text);
    return status;
}

/* ----------------------------------------------------------------------------------- normalise */

static wg_status load_normalize(module_reading *module, wg_error *err)
{
    wgi_settings settings;
    wgi_buf text = {0};
    wg_status status = WG_OK;
    wgi_slice key;

    WGI_TRY(wgi_settings_open(&settings, module->directory, module->path.data, "config.json", false,
                              err));
    while (wgi_settings_next(&settings, &key)) {
        if (wgi_slice_is(key, "module_input_name")) {
            WGI_TRY(need_feature(&settings, "module_input_name", &text, err));
        } else if (wgi_slice_is(key, "module_output_name")) {
            WGI_TRY(need_feature(&settings, "module_output_name", &text, err));
        } else {
            WGI_TRY(wgi_settings_skip(&settings, err));
        }
    }
    WGI_TRY(wgi_settings_finish(&settings, err));
    module->out->normalize = true;
    module->has_normalize = true;

cleanup:
    wgi_settings_fini(&settings);
    wgi_buf_fini(&text);
    return status;
}

/* ---------------------------------------------------------------------------------- the list */

/* The class at the end of a Python path below a known root; NULL for somebody else's. */
static const char *class_of(const char *type)
{
    for (size_t i = 0; i < sizeof(type_roots) / sizeof(type_roots[0]); i++) {
        size_t count = strlen(type_roots[i]);
        if (strncmp(type, type_roots[i], count) == 0) return strrchr(type, '.') + 1;
    }
    return NULL;
}

static wg_status load_module(module_reading *reading, wg_error *err)
{
    const char *class = class_of(reading->type.data);

    if (!wgi_path_is_inside(reading->path.data, reading->path.count))
        return fail_module(reading, err, "its path is outside the model folder");
    if (!class) return fail_module(reading, err, "not supported yet: this module type");
    if (reading->index == 0) {
        if (strcmp(class, "Transformer") != 0)
            return fail_module(reading, err, "the first module must be a Transformer");
        if (reading->path.count && strcmp(reading->path.data, ".") != 0)
            return fail_module(reading, err, "not supported yet: a transformer in its own folder");
        return WG_OK;
    }
    if (strcmp(class, "Dropout") == 0) return WG_OK;
    if (strcmp(class, "Pooling") == 0) {
        if (reading->has_pooling) return fail_module(reading, err, "there is a Pooling before it");
        return load_pooling(reading, err);
    }
    if (strcmp(class, "Dense") == 0) {
        if (!reading->has_pooling || reading->has_normalize)
            return fail_module(reading, err,
                               "not supported yet: it does not stand between Pooling "
                               "and Normalize");
        return load_dense(reading, err);
    }
    if (strcmp(class, "Normalize") == 0) {
        if (!reading->has_pooling)
            return fail_module(reading, err, "there is no Pooling before it");
        return load_normalize(reading, err);
    }
    return fail_module(reading, err, "not supported yet: this module type");
}

/* One object of the list. */
static wg_status read_module(module_reading *reading, wg_error *err)
{
    wgi_json *json = &reading->list.json;
    bool has_path = false, has_type = false;
    wg_status status = WG_OK;
    wgi_slice key;

    status = wgi_json_object_begin(json, err);
    if (status != WG_OK) return wgi_fail_prefix(err, status, reading->list.path);
    while (wgi_json_object_next(json, &key)) {
        if (wgi_slice_is(key, "path")) {
            has_path = true;
            WGI_TRY(wgi_settings_string(&reading->list, "path", &reading->path, err));
        } else if (wgi_slice_is(key, "type")) {
            has_type = true;
            WGI_TRY(wgi_settings_string(&reading->list, "type", &reading->type, err));
        } else {
            WGI_TRY(wgi_settings_skip(&reading->list, err));
        }
    }
    status = wgi_json_status(json, err);
    if (status != WG_OK) return wgi_fail_prefix(err, status, reading->list.path);
    if (!has_path || !has_type) {
        status = wgi_fail(err, WG_ERR_FORMAT, "%s: module %u has no %s", reading->list.path,
                          reading->index, has_path ? "type" : "path");
        goto cleanup;
    }
    WGI_TRY(load_module(reading, err));
    reading->index++;

cleanup:
    return status;
}

static wg_status read_list(module_reading *reading, wg_error *err)
{
    wg_status status = WG_OK;

    while (wgi_json_array_next(&reading->list.json))
        WGI_TRY(read_module(reading, err));
    WGI_TRY(wgi_settings_finish(&reading->list, err));
    if (!reading->has_pooling)
        status = wgi_fail(err, WG_ERR_UNSUPPORTED,
                          "%s: there is no Pooling module, so there is no sentence vector",
                          reading->list.path);
    reading->out->normalize_rule = list_name;

cleanup:
    return status;
}

wg_status wgi_modules_load(wgi_modules *out, const char *directory,
                           const wgi_description *description, wg_error *err)
{
    module_reading reading = {.out = out, .directory = directory, .description = description};
    wg_status status = WG_OK;
    bool has_list;

    *out = (wgi_modules){.pooling = WG_POOLING_MEAN,
                         .normalize = true,
                         .include_prompt = true,
                         .pooling_rule = "architecture",
                         .normalize_rule = "architecture"};
    if (description->is_decoder) out->pooling = WG_POOLING_LAST;
    if (description->has_pooling) {
        out->pooling = description->pooling;
        out->pooling_rule = "GGUF pooling_type";
    }
    if (wgi_path_is_gguf(directory)) { /* there is no folder to look into */
        out->token_count_default = description->position_count;
        out->length_rule = "GGUF context_length";
        return WG_OK;
    }
    WGI_TRY(wgi_settings_open_array(&reading.list, directory, list_name, false, err));
    has_list = reading.list.map != NULL;
    if (has_list) {
        out->normalize = false;
        WGI_TRY(read_list(&reading, err));
        WGI_TRY(wgi_sentence_load_prompts(out, directory, err));
    }
    WGI_TRY(wgi_sentence_load_limit(out, directory, description, has_list, err));

cleanup:
    wgi_settings_fini(&reading.list);
    wgi_buf_fini(&reading.path);
    wgi_buf_fini(&reading.type);
    if (status != WG_OK) wgi_modules_fini(out);
    return status;
}

void wgi_modules_fini(wgi_modules *modules)
{
    for (uint32_t i = 0; i < modules->dense_count; i++)
        wgi_weights_close(modules->dense[i].weights);
    for (uint32_t i = 0; i < modules->prompt_count; i++) {
        wgi_free(modules->prompt_names[i]);
        wgi_free(modules->prompts[i]);
    }
    wgi_free(modules->prompt_names);
    wgi_free(modules->prompts);
    wgi_free(modules->default_prompt_name);
    *modules = (wgi_modules){0};
}
