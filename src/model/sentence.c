/*
 * sentence.c - sentence_bert_config.json, tokenizer_config.json, config_sentence_transformers.json.
 *
 * The rules are those of sentence-transformers 6.2, without its silent parts:
 *
 *   limit     max_seq_length of sentence_bert_config.json (or the older sentence_*_config.json),
 * else model_max_length of tokenizer_config.json, else the positions. Never more than the
 *             positions: what is above is cut to them, with a line in the log. The truncation that
 * is written into tokenizer.json is not a limit. prompts   a name without a text is the empty
 * prompt; "query" and "document" always exist as defaults, any other default_prompt_name must be
 * among the prompts. refused   what would change the vectors and is not done: truncate_dim, another
 * model_type, another transformer_task or output, processing_kwargs, query_expansion, another
 * tokenizer's name, arguments to model or tokenizer other than those of harmless_arguments. no
 * matter similarity_fn_name, __version__, requirements, unpad_inputs; query_length and
 *             document_length (they belong to encode_query and encode_document, not to encode).
 *
 * Threads: no shared state.
 */
#include "model/sentence.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "model/directory.h"

/* The order in which sentence-transformers looks. */
static const char *const limit_files[] = {
    "sentence_bert_config.json",       "sentence_roberta_config.json",
    "sentence_distilbert_config.json", "sentence_camembert_config.json",
    "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
};

/* Objects of arguments for the model, its configuration and its tokenizer. */
static const char *const argument_keys[] = {"model_args",    "model_kwargs",   "config_args",
                                            "config_kwargs", "tokenizer_args", "processor_kwargs"};
static const char *const harmless_arguments[] = {
    "trust_remote_code", "torch_dtype",      "dtype", "attn_implementation", "use_cache",
    "unpad_inputs",      "add_pooling_layer"};
static const char *const refused_keys[] = {"processing_kwargs", "query_expansion",
                                           "tokenizer_name_or_path"};

static bool is_one_of(wgi_slice text, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (wgi_slice_is(text, list[i])) return true;
    }
    return false;
}

#define IS_ONE_OF(text, list) is_one_of(text, list, sizeof(list) / sizeof((list)[0]))

/* --------------------------------------------------------------------------------------- limit */

typedef struct limit_reading {
    wgi_settings settings;
    wgi_buf text;
    uint64_t tokens; /* max_seq_length; 0: not said */
    bool lower_case;
} limit_reading;

/* A string that must be `wanted`; null passes. */
static wg_status need_text(limit_reading *reading, const char *key, const char *wanted,
                           wg_error *err)
{
    char shown[WGI_SHOWN_BYTES];

    if (wgi_settings_take_null(&reading->settings)) return WG_OK;
    wg_status status = wgi_settings_string(&reading->settings, key, &reading->text, err);
    if (status != WG_OK || strcmp(reading->text.data, wanted) == 0) return status;
    return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: %s \"%s\" (supported: %s)",
                    reading->settings.path, key,
                    wgi_text_show(shown, reading->text.data, reading->text.count), wanted);
}

/* modality_config.text: {"method": "forward", "method_output_name": "last_hidden_state"}. */
static wg_status read_modality_text(limit_reading *reading, wg_error *err)
{
    static const char key_text[] = "modality_config.text";
    wgi_json *json = &reading->settings.json;
    wg_status status = WG_OK;
    wgi_slice key;

    WGI_TRY(
        wgi_settings_blame(&reading->settings, key_text, wgi_json_object_begin(json, err), err));
    while (wgi_json_object_next(json, &key)) {
        if (wgi_slice_is(key, "method")) {
            WGI_TRY(need_text(reading, "method", "forward", err));
        } else if (wgi_slice_is(key, "method_output_name")) {
            WGI_TRY(need_text(reading, "method_output_name", "last_hidden_state", err));
        } else {
            WGI_TRY(wgi_settings_skip(&reading->settings, err));
        }
    }
    WGI_TRY(wgi_settings_blame(&reading->settings, key_text, wgi_json_status(json, err), err));

cleanup:
    return status;
}

static wg_status read_modality(limit_reading *reading, wg_error *err)
{
    static const char key_text[] = "modality_config";
    wgi_json *json = &reading->settings.json;
    wg_status status = WG_OK;
    bool has_text = false;
    wgi_slice key;

    if (wgi_settings_take_null(&reading->settings)) return WG_OK;
    WGI_TRY(
        wgi_settings_blame(&reading->settings, key_text, wgi_json_object_begin(json, err), err));
    while (wgi_json_object_next(json, &key)) {
        if (wgi_slice_is(key, "text")) {
            has_text = true;
            WGI_TRY(read_modality_text(reading, err));
        } else {
            WGI_TRY(wgi_settings_skip(&reading->settings, err));
        }
    }
    WGI_TRY(wgi_settings_blame(&reading->settings, key_text, wgi_json_status(json, err), err));
    if (!has_text)
        status = wgi_settings_fail(&reading->settings, key_text, WG_ERR_UNSUPPORTED, err,
                                   "not supported yet: a model that does not take plain text");

cleanup:
    return status;
}

static wg_status read_arguments(limit_reading *reading, const char *name, wg_error *err)
{
    wgi_json *json = &reading->settings.json;
    char shown[WGI_SHOWN_BYTES];
    wg_status status = WG_OK;
    wgi_slice key;

    if (wgi_settings_take_null(&reading->settings)) return WG_OK;
    WGI_TRY(wgi_settings_blame(&reading->settings, name, wgi_json_object_begin(json, err), err));
    while (wgi_json_object_next(json, &key)) {
        if (!IS_ONE_OF(key, harmless_arguments)) {
            status = wgi_settings_fail(&reading->settings, name, WG_ERR_UNSUPPORTED, err,
                                       "not supported yet: %s",
                                       wgi_text_show(shown, key.data, key.count));
            goto cleanup;
        }
        WGI_TRY(wgi_settings_skip(&reading->settings, err));
    }
    WGI_TRY(wgi_settings_blame(&reading->settings, name, wgi_json_status(json, err), err));

cleanup:
    return status;
}

static wg_status refuse_unless_empty(wgi_settings *settings, const char *key, wg_error *err)
{
    bool is_empty = false;
    wg_status status = wgi_settings_is_empty(settings, key, &is_empty, err);

    if (status != WG_OK || is_empty) return status;
    return wgi_settings_fail(settings, key, WG_ERR_UNSUPPORTED, err,
                             "not supported yet, and it would change the vectors");
}

static wg_status read_limit_key(limit_reading *reading, wgi_slice key, wg_error *err)
{
    wgi_settings *settings = &reading->settings;

    if (wgi_slice_is(key, "max_seq_length")) {
        reading->tokens = 0;
        if (wgi_settings_take_null(settings)) return WG_OK;
        return wgi_settings_count(settings, "max_seq_length", UINT32_MAX, &reading->tokens, err);
    }
    if (wgi_slice_is(key, "do_lower_case"))
        return wgi_settings_bool(settings, "do_lower_case", &reading->lower_case, err);
    if (wgi_slice_is(key, "transformer_task"))
        return need_text(reading, "transformer_task", "feature-extraction", err);
    if (wgi_slice_is(key, "module_output_name"))
        return need_text(reading, "module_output_name", "token_embeddings", err);
    if (wgi_slice_is(key, "modality_config")) return read_modality(reading, err);
    for (size_t i = 0; i < sizeof(argument_keys) / sizeof(argument_keys[0]); i++) {
        if (wgi_slice_is(key, argument_keys[i]))
            return read_arguments(reading, argument_keys[i], err);
    }
    for (size_t i = 0; i < sizeof(refused_keys) / sizeof(refused_keys[0]); i++) {
        if (wgi_slice_is(key, refused_keys[i]))
            return refuse_unless_empty(settings, refused_keys[i], err);
    }
    return wgi_settings_skip(settings, err);
}

/* The first of limit_files that is there. */
static wg_status read_limit_file(limit_reading *reading, const char *directory, wg_error *err)
{
    size_t count = sizeof(limit_files) / sizeof(limit_files[0]);
    wg_status status = WG_OK;
    wgi_slice key;

    for (size_t i = 0; i < count && !reading->settings.map; i++) {
        wgi_settings_fini(&reading->settings);
        WGI_TRY(wgi_settings_open(&reading->settings, directory, "", limit_files[i], false, err));
    }
    while (wgi_settings_next(&reading->settings, &key))
        WGI_TRY(read_limit_key(reading, key, err));
    WGI_TRY(wgi_settings_finish(&reading->settings, err));

cleanup:
    return status;
}

/*
 * model_max_length (older: max_len) of tokenizer_config.json; *tokens 0 when it is not said or is
 * the "no limit" of transformers, 1e30 written as an integer.
 */
static wg_status read_tokenizer_limit(const char *directory, uint64_t *tokens, wg_error *err)
{
    static const char key_now[] = "model_max_length", key_old[] = "max_len";
    double limits[2] = {0, 0};
    wgi_settings settings;
    wg_status status = WG_OK;
    wgi_slice key;

    *tokens = 0;
    WGI_TRY(wgi_settings_open(&settings, directory, "", "tokenizer_config.json", false, err));
    while (wgi_settings_next(&settings, &key)) {
        size_t which = wgi_slice_is(key, key_now) ? 0 : wgi_slice_is(key, key_old) ? 1 : 2;
        const char *name = which == 0 ? key_now : key_old;
        if (which == 2) {
            WGI_TRY(wgi_settings_skip(&settings, err));
        } else if (wgi_settings_take_null(&settings)) {
            limits[which] = 0;
        } else {
            WGI_TRY(wgi_settings_double(&settings, name, &limits[which], err));
            if (limits[which] >= 1) continue;
            status = wgi_settings_fail(&settings, name, WG_ERR_FORMAT, err, "%g is out of range",
                                       limits[which]);
            goto cleanup;
        }
    }
    WGI_TRY(wgi_settings_finish(&settings, err));
    for (size_t i = 0; i < 2 && !*tokens; i++) {
        if (limits[i] > 0 && limits[i] <= (double)UINT32_MAX) *tokens = (uint64_t)limits[i];
    }

cleanup:
    wgi_settings_fini(&settings);
    return status;
}

wg_status wgi_sentence_load_limit(wgi_modules *modules, const char *directory,
                                  const wgi_description *description, bool has_modules,
                                  wg_error *err)
{
    uint64_t positions = description->position_count - description->position_offset;
    limit_reading reading = {0};
    uint64_t tokens = 0;
    wg_status status = WG_OK;
    const char *rule = "sentence_bert_config.json";

    if (has_modules) WGI_TRY(read_limit_file(&reading, directory, err));
    tokens = reading.tokens;
    if (!tokens) {
        rule = "tokenizer_config.json";
        WGI_TRY(read_tokenizer_limit(directory, &tokens, err));
    }
    if (tokens > positions) {
        wgi_log(WG_LOG_WARNING,
                "%s: %s allows %llu tokens, but the model has positions for %llu: limit %llu",
                directory, rule, (unsigned long long)tokens, (unsigned long long)positions,
                (unsigned long long)positions);
        tokens = 0;
    }
    if (!tokens) {
        rule = "config.json";
        tokens = positions;
    }
    modules->token_count_default = (uint32_t)tokens;
    modules->length_rule = rule;
    modules->lower_case = reading.lower_case;

cleanup:
    wgi_settings_fini(&reading.settings);
    wgi_buf_fini(&reading.text);
    return status;
}

/* ------------------------------------------------------------------------------------- prompts */

typedef struct prompt_reading {
    wgi_settings settings;
    wgi_modules *modules;
    size_t name_capacity, text_capacity;
    wgi_buf text;
} prompt_reading;

static size_t find_prompt(const wgi_modules *modules, const char *name)
{
    size_t i = 0;

    while (i < modules->prompt_count && strcmp(modules->prompt_names[i], name) != 0)
        i++;
    return i;
}

/* Adds or replaces; takes copies. */
static wg_status set_prompt(prompt_reading *reading, const char *name, const char *text,
                            wg_error *err)
{
    wgi_modules *modules = reading->modules;
    size_t at = find_prompt(modules, name), need = at + 1;
    char *name_copy = NULL, *text_copy = NULL;
    wg_status status = WG_OK;

    WGI_TRY(wgi_grow(&modules->prompt_names, &reading->name_capacity, need, sizeof(char *), err));
    WGI_TRY(wgi_grow(&modules->prompts, &reading->text_capacity, need, sizeof(char *), err));
    name_copy = wgi_strdup(name);
    text_copy = wgi_strdup(text);
    if (!name_copy || !text_copy) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a prompt");
        goto cleanup;
    }
    if (at == modules->prompt_count) {
        modules->prompt_names[at] = name_copy;
        name_copy = NULL;
        modules->prompt_count++;
    } else {
        wgi_free(modules->prompts[at]);
    }
    modules->prompts[at] = text_copy;
    text_copy = NULL;

cleanup:
    wgi_free(name_copy);
    wgi_free(text_copy);
    return status;
}

static wg_status read_prompts(prompt_reading *reading, wg_error *err)
{
    wgi_json *json = &reading->settings.json;
    wgi_buf name = {0};
    wg_status status = WG_OK;
    wgi_slice key;

    if (wgi_settings_take_null(&reading->settings)) return WG_OK;
    WGI_TRY(
        wgi_settings_blame(&reading->settings, "prompts", wgi_json_object_begin(json, err), err));
    while (wgi_json_object_next(json, &key)) {
        name.count = 0;
        WGI_TRY(wgi_buf_append(&name, key.data, key.count, err));
        if (memchr(name.data, 0, name.count)) {
            status = wgi_settings_fail(&reading->settings, "prompts", WG_ERR_FORMAT, err,
                                       "a name holds a NUL");
            goto cleanup;
        }
        reading->text.count = 0;
        WGI_TRY(wgi_buf_reserve(&reading->text, 0, err));
        if (!wgi_settings_take_null(&reading->settings))
            WGI_TRY(wgi_settings_string(&reading->settings, "prompts", &reading->text, err));
        WGI_TRY(set_prompt(reading, name.data, reading->text.data, err));
    }
    WGI_TRY(wgi_settings_blame(&reading->settings, "prompts", wgi_json_status(json, err), err));

cleanup:
    wgi_buf_fini(&name);
    return status;
}

static wg_status read_prompt_key(prompt_reading *reading, wgi_slice key, wg_error *err)
{
    static const char key_default[] = "default_prompt_name", key_type[] = "model_type";
    wgi_settings *settings = &reading->settings;
    wgi_modules *modules = reading->modules;
    char shown[WGI_SHOWN_BYTES];
    wg_status status;

    if (wgi_slice_is(key, "prompts")) return read_prompts(reading, err);
    if (wgi_slice_is(key, "truncate_dim"))
        return refuse_unless_empty(settings, "truncate_dim", err);
    if (wgi_slice_is(key, key_default)) {
        wgi_free(modules->default_prompt_name);
        modules->default_prompt_name = NULL;
        if (wgi_settings_take_null(settings)) return WG_OK;
        status = wgi_settings_string(settings, key_default, &reading->text, err);
        if (status != WG_OK) return status;
        modules->default_prompt_name = wgi_strdup(reading->text.data);
        if (!modules->default_prompt_name)
            return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a prompt name");
        return WG_OK;
    }
    if (wgi_slice_is(key, key_type)) {
        status = wgi_settings_string(settings, key_type, &reading->text, err);
        if (status != WG_OK || strcmp(reading->text.data, "SentenceTransformer") == 0)
            return status;
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "%s: not supported yet: model_type \"%s\" (supported: SentenceTransformer)",
                        settings->path,
                        wgi_text_show(shown, reading->text.data, reading->text.count));
    }
    return wgi_settings_skip(settings, err);
}

wg_status wgi_sentence_load_prompts(wgi_modules *modules, const char *directory, wg_error *err)
{
    prompt_reading reading = {.modules = modules};
    char shown[WGI_SHOWN_BYTES];
    wg_status status = WG_OK;
    const char *name;
    wgi_slice key;

    WGI_TRY(wgi_settings_open(&reading.settings, directory, "", "config_sentence_transformers.json",
                              false, err));
    while (wgi_settings_next(&reading.settings, &key))
        WGI_TRY(read_prompt_key(&reading, key, err));
    WGI_TRY(wgi_settings_finish(&reading.settings, err));

    name = modules->default_prompt_name;
    if (!name || find_prompt(modules, name) < modules->prompt_count) goto cleanup;
    if (strcmp(name, "query") == 0 || strcmp(name, "document") == 0) {
        WGI_TRY(set_prompt(&reading, name, "", err));
        goto cleanup;
    }
    status =
        wgi_settings_fail(&reading.settings, "default_prompt_name", WG_ERR_FORMAT, err,
                          "there is no prompt \"%s\"", wgi_text_show(shown, name, strlen(name)));

cleanup:
    wgi_settings_fini(&reading.settings);
    wgi_buf_fini(&reading.text);
    return status;
}
