/*
 * model_open.c - the public handle of a model: opens the parts in the order in which they check
 * one another, and says what is known of them.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os_clock.h"
#include "job/gguf_tokenizer.h"
#include "job/handles.h"
#include "tokenizer/tokenizer.h"

/* Of the file's tensors; whole numbers among them are buffers that transformers saved. */
static uint64_t count_parameters(const wgi_weights *weights)
{
    uint64_t total = 0;

    for (size_t i = 0; i < wgi_weights_count(weights); i++)
        if (wgi_weights_at(weights, i)->dtype != WGI_DTYPE_OTHER)
            total += wgi_tensor_count(wgi_weights_at(weights, i));
    return total;
}

static void fill_info(wg_model *model, double load_seconds)
{
    const wgi_description *description = &model->description;
    const wgi_modules *modules = &model->modules;
    uint32_t dim = description->hidden_count;

    if (modules->dense_count)
        dim = (uint32_t)modules->dense[modules->dense_count - 1].weight->shape[0];
    wgi_weights_hash(model->weights, model->hash);
    model->info = (wg_model_info){
        .path = model->path,
        .architecture = description->architecture,
        .backend = model->backend->name,
        .isa = model->backend->isa,
        .hash = model->hash,
        .layer_count = description->layer_count,
        .head_count = description->head_count,
        .hidden_count = description->hidden_count,
        .feed_forward_count = description->feed_forward_count,
        .vocabulary_count = description->vocabulary_count,
        .parameter_count = count_parameters(model->weights),
        .weight_bytes = wgi_weights_bytes(model->weights),
        .packed_bytes = wgi_network_bytes(model->network),
        .position_count = description->position_count - description->position_offset,
        .token_count_default = modules->token_count_default,
        .dim = dim,
        .pooling = modules->pooling,
        .normalize = modules->normalize,
        .pooling_rule = modules->pooling_rule,
        .normalize_rule = modules->normalize_rule,
        .length_rule = modules->length_rule,
        .load_seconds = load_seconds,
        .label_count = model->head.label_count,
        .labels = (const char *const *)model->head.labels,
        .problem_type = wgi_problem_name(model->head.problem),
    };
}

/*
 * do_lower_case of sentence_bert_config.json lowers the text before the tokenizer. Where the
 * tokenizer lowers anyway there is nothing to do; where it does not, the answer would differ.
 */
static wg_status check_case(const wg_model *model, wg_error *err)
{
    wg_encoding upper = {0}, lower = {0};
    wg_status status = WG_OK;

    if (!model->modules.lower_case) return WG_OK;
    WGI_TRY(wg_tokenizer_encode(model->tokenizer, "A B", 3, NULL, 0, NULL, &upper, err));
    WGI_TRY(wg_tokenizer_encode(model->tokenizer, "a b", 3, NULL, 0, NULL, &lower, err));
    if (upper.token_count != lower.token_count ||
        memcmp(upper.token_ids, lower.token_ids, upper.token_count * sizeof(int32_t)) != 0)
        status = wgi_fail(err, WG_ERR_UNSUPPORTED,
                          "%s/sentence_bert_config.json: do_lower_case true is not supported with "
                          "a tokenizer that keeps upper case",
                          model->path);

cleanup:
    wg_encoding_fini(&upper);
    wg_encoding_fini(&lower);
    return status;
}

/* A GGUF file without a tokenizer serves records that bring ids. */
static wg_status open_gguf_tokenizer(wg_model *model, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_gguf *gguf = NULL;

    WGI_TRY(wgi_gguf_open(&gguf, model->path, err));
    if (wgi_gguf_has(gguf, "tokenizer.ggml.tokens"))
        WGI_TRY(wgi_gguf_tokenizer_open(&model->tokenizer, gguf, err));

cleanup:
    wgi_gguf_close(gguf);
    return status;
}

static wg_status open_tokenizer(wg_model *model, wg_error *err)
{
    wg_status status = WG_OK;

    if (wgi_path_is_gguf(model->path))
        WGI_TRY(open_gguf_tokenizer(model, err));
    else
        WGI_TRY(wg_tokenizer_open(&model->tokenizer, model->path, err));
    if (!model->tokenizer) return WG_OK;
    WGI_TRY(check_case(model, err));
    if ((uint64_t)wgi_tokenizer_id_end(model->tokenizer) > model->description.vocabulary_count) {
        /* The texts that meet such an id fail one by one; the rest are right. */
        wgi_log(WG_LOG_WARNING,
                "%s: the tokenizer knows ids up to %zu, the embedding has %llu rows", model->path,
                (size_t)wgi_tokenizer_id_end(model->tokenizer) - 1,
                (unsigned long long)model->description.vocabulary_count);
    }

cleanup:
    return status;
}

wg_status wg_model_open(wg_model **out, const wg_model_options *options, wg_error *err)
{
    wg_status status = WG_OK;
    wg_model *model = NULL;
    uint64_t begin = wgi_clock_ns();

    if (!out) return wgi_fail(err, WG_ERR_ARGUMENT, "wg_model_open: out is NULL");
    *out = NULL;
    if (!options || !options->path)
        return wgi_fail(err, WG_ERR_ARGUMENT, "wg_model_open: a path is needed");

    model = wgi_calloc(1, sizeof(*model));
    if (model) model->path = wgi_strdup(options->path);
    if (!model || !model->path) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "%s: no memory for a model handle", options->path);
        goto cleanup;
    }
    WGI_TRY(wgi_backend_find(&model->backend, options->backend_name, options->isa, err));
    WGI_TRY(wgi_description_load(&model->description, model->path, err));
    WGI_TRY(wgi_modules_load(&model->modules, model->path, &model->description, err));
    WGI_TRY(open_tokenizer(model, err));
    WGI_TRY(wgi_weights_open(&model->weights, model->path, err));
    WGI_TRY(wgi_network_open(&model->network, &model->description, model->weights, model->backend,
                             err));
    WGI_TRY(wgi_head_load(&model->head, model->path, &model->description, model->weights, err));
    fill_info(model, (double)(wgi_clock_ns() - begin) * 1e-9);

    *out = model;
    model = NULL;

cleanup:
    wg_model_close(model);
    return status;
}

void wg_model_close(wg_model *model)
{
    if (!model) return;
    wgi_network_close(model->network);
    wgi_head_fini(&model->head);
    wgi_modules_fini(&model->modules);
    wgi_weights_close(model->weights);
    wg_tokenizer_close(model->tokenizer);
    wgi_free(model->path);
    wgi_free(model);
}

const wg_model_info *wg_model_describe(const wg_model *model)
{
    return model ? &model->info : NULL;
}

const wg_tokenizer *wg_model_tokenizer(const wg_model *model)
{
    return model ? model->tokenizer : NULL;
}
