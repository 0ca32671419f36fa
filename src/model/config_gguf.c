/*
 * config_gguf.c - the metadata of a GGUF file -> description.
 *
 * The idea: gguf_fields.c has read and checked the keys; here their meaning becomes the traits that
 * config_decoder.c makes of a config.json, so that one forward pass serves both. What the file does
 * not say is what its architecture always has: the activation, biases of Qwen2, norms of Gemma.
 *
 * Threads: no shared state.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/gguf_names.h"
#include "model/model.h"

bool wgi_path_is_gguf(const char *path)
{
    size_t count = strlen(path);

    return count > 5 && strcmp(path + count - 5, ".gguf") == 0;
}

static wg_status describe_pooling(const wgi_gguf_fields *fields, const char *path,
                                  wgi_description *out, wg_error *err)
{
    static const wg_pooling poolings[] = {
        [1] = WG_POOLING_MEAN, [2] = WG_POOLING_CLS, [3] = WG_POOLING_LAST};

    if (fields->pooling_type < 0 || fields->pooling_type == 0) return WG_OK;
    if (fields->pooling_type > 3)
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "%s: key %s.pooling_type: %lld is not supported (mean, cls and last are)",
                        path, wgi_gguf_architecture_name(fields->architecture),
                        (long long)fields->pooling_type);
    out->has_pooling = true;
    out->pooling = poolings[fields->pooling_type];
    return WG_OK;
}

static bool has_tensor(const wgi_gguf *gguf, const char *name)
{
    return wgi_gguf_find(gguf, name) != NULL;
}

static void describe_layers(const wgi_gguf_fields *fields, wgi_decoder_traits *traits)
{
    traits->window = (uint32_t)fields->sliding_window;
    for (uint64_t i = 0; i < fields->layer_count && traits->window; i++)
        if (!fields->sliding_pattern || (i + 1) % fields->sliding_pattern != 0)
            traits->local_layers[i / 8] |= (uint8_t)(1u << i % 8);
}

static wg_status describe_decoder(const wgi_gguf_fields *fields, const wgi_gguf *gguf,
                                  wgi_description *out, wg_error *err)
{
    bool is_gemma = fields->architecture == WGI_GGUF_GEMMA3;
    wgi_decoder_traits *traits = &out->decoder;
    double scale = fields->attention_scale;

    if (!fields->is_causal)
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "%s: not supported yet: a decoder that attends both ways",
                        wgi_gguf_path(gguf));
    if (!(fields->rope_base > 0 && fields->rope_base_local > 0))
        return wgi_fail(err, WG_ERR_FORMAT, "%s: key %s.rope.freq_base: %g is not above 0",
                        wgi_gguf_path(gguf), out->architecture, fields->rope_base);
    if (fields->attention_softcap != 0)
        return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: attn_logit_softcapping %g",
                        wgi_gguf_path(gguf), fields->attention_softcap);
    if (fields->rotary_count % 2 != 0)
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "%s: not supported: %llu rotated elements of a head, which are no pairs",
                        wgi_gguf_path(gguf), (unsigned long long)fields->rotary_count);
    out->is_decoder = true;
    out->activation = is_gemma ? WGI_ACTIVATION_GELU_TANH : WGI_ACTIVATION_SILU;
    *traits = (wgi_decoder_traits){
        .rope = {.base = fields->rope_base, .factor = fields->rope_factor},
        .rotary_count = (uint32_t)fields->rotary_count,
        .embedding_scale = is_gemma ? (float)sqrt((double)fields->hidden_count) : 1,
        .attention_scale = (float)(scale > 0 ? scale : 1 / sqrt((double)fields->head_dim)),
        .residual_scale = 1,
        .has_qkv_bias = has_tensor(gguf, "blk.0.attn_q.bias"),
        .has_out_bias = has_tensor(gguf, "blk.0.attn_output.bias"),
        .has_mlp_bias = has_tensor(gguf, "blk.0.ffn_up.bias"),
        .has_head_norm = is_gemma || fields->architecture == WGI_GGUF_QWEN3,
        .has_post_norm = is_gemma,
        .has_rope_factors = fields->has_rope_factors,
    };
    traits->rope_local = traits->rope;
    if (is_gemma) traits->rope_local = (wgi_rope){.base = fields->rope_base_local, .factor = 1};
    describe_layers(fields, traits);
    return WG_OK;
}

#define TYPE_COUNT_MOST 1024 /* as in a config.json */

static wg_status describe(const wgi_gguf_fields *fields, const wgi_gguf *gguf, wgi_description *out,
                          wg_error *err)
{
    wg_status status = WG_OK;

    if (fields->type_count > TYPE_COUNT_MOST)
        return wgi_fail(err, WG_ERR_FORMAT, "%s: %llu token types are more than %d",
                        wgi_gguf_path(gguf), (unsigned long long)fields->type_count,
                        TYPE_COUNT_MOST);
    *out = (wgi_description){
        .layer_count = (uint32_t)fields->layer_count,
        .hidden_count = (uint32_t)fields->hidden_count,
        .head_count = (uint32_t)fields->head_count,
        .key_head_count = (uint32_t)fields->key_head_count,
        .head_dim = (uint32_t)fields->head_dim,
        .feed_forward_count = (uint32_t)fields->feed_forward_count,
        .vocabulary_count = fields->vocabulary_count,
        .position_count = (uint32_t)fields->position_count,
        .type_count = (uint32_t)fields->type_count,
        .activation = WGI_ACTIVATION_GELU,
        .norm_epsilon = (float)fields->norm_epsilon,
    };
    (void)snprintf(out->architecture, sizeof(out->architecture), "%s",
                   wgi_gguf_architecture_name(fields->architecture));
    WGI_TRY(describe_pooling(fields, wgi_gguf_path(gguf), out, err));
    if (fields->architecture != WGI_GGUF_BERT) {
        WGI_TRY(describe_decoder(fields, gguf, out, err));
    } else if (fields->key_head_count != fields->head_count) {
        status = wgi_fail(err, WG_ERR_UNSUPPORTED,
                          "%s: not supported yet: a BERT with attention.head_count_kv %llu, which "
                          "is not attention.head_count %llu",
                          wgi_gguf_path(gguf), (unsigned long long)fields->key_head_count,
                          (unsigned long long)fields->head_count);
    }

cleanup:
    return status;
}

wg_status wgi_description_load_gguf(wgi_description *out, const char *path, wg_error *err)
{
    wgi_gguf_fields fields;
    wgi_gguf *gguf = NULL;
    wg_status status = WG_OK;

    *out = (wgi_description){0};
    WGI_TRY(wgi_gguf_open(&gguf, path, err));
    WGI_TRY(wgi_gguf_fields_read(&fields, gguf, err));
    WGI_TRY(describe(&fields, gguf, out, err));

cleanup:
    wgi_gguf_close(gguf);
    if (status != WG_OK) *out = (wgi_description){0};
    return status;
}
