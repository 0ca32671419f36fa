/*
 * decoder_open.c - the weights of a decoder: finds every tensor by its Hugging Face name, checks
 * it, and packs it for the backend.
 *
 * The idea: names are the same for all families, so what differs is a trait of the description: a
 * bias or none, norms behind the blocks, one tensor in place of three (Phi-3). Where a file has the
 * rows of Q and K in another order (GGUF), a copy in order is packed: rows are whole quantised
 * blocks, so this is exact and needs memory for one tensor.
 *
 * The token table is read in place, in the mapped file: the weights must outlive the decoder. The
 * head of a language model (lm_head) is not needed here.
 *
 * Threads: opening is one thread's work.
 */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "model/decoder_parts.h"

typedef struct opening {
    wgi_decoder *decoder;
    const wgi_weights *weights;
    const char *prefix;   /* "model.", or "" in files of the bare model */
    const char *asked_by; /* NULL, or layer_text while layers are opened */
    char layer_text[48];  /* "num_hidden_layers 6" */
    bool keep_stored;     /* packed as f32 the weights would be too large */
    wg_error *err;
} opening;

/* A matrix of the checkpoint; without columns, a vector. */
static wg_status need(const opening *o, const wgi_tensor **tensor, const char *name, uint64_t rows,
                      const char *rows_key, uint64_t columns, const char *columns_key)
{
    char full[160];
    wgi_tensor_need what = {.name = full,
                            .asked_by = o->asked_by,
                            .rank = columns ? 2 : 1,
                            .shape = {rows, columns},
                            .keys = {rows_key, columns_key}};

    (void)snprintf(full, sizeof(full), "%s%s", o->prefix, name);
    return wgi_weights_need(o->weights, &what, tensor, o->err);
}

/* "layers.3." + rest */
static const char *layer_name(char out[128], uint32_t layer, const char *rest)
{
    (void)snprintf(out, 128, "layers.%u.%s", layer, rest);
    return out;
}

/* Memory only for what the file was found to hold. */
static wg_status open_norm(opening *o, wgi_norm *norm, const char *name, uint32_t count,
                           const char *key)
{
    const wgi_description *d = &o->decoder->description;
    wg_status status = WG_OK;
    const wgi_tensor *tensor;
    float *weight;

    WGI_TRY(need(o, &tensor, name, count, key, 0, NULL));
    weight = wgi_malloc_aligned(WGI_BYTE_ALIGN, count * sizeof(float));
    if (!weight)
        return wgi_fail(o->err, WG_ERR_NO_MEMORY, "no memory for the norm '%s'", tensor->name);
    *norm = (wgi_norm){.weight = weight, .count = count, .epsilon = d->norm_epsilon};
    wgi_tensor_widen(tensor, 0, count, weight);
    for (uint32_t i = 0; i < count && d->decoder.is_norm_plus_one; i++)
        weight[i] += 1;
    o->decoder->norms_bytes += count * sizeof(float);

cleanup:
    return status;
}

static wg_status open_norms(opening *o, wgi_decoder_layer *layer, uint32_t index)
{
    static const char key[] = "hidden_size", head_key[] = "head_dim";
    const wgi_description *d = &o->decoder->description;
    const wgi_decoder_traits *traits = &d->decoder;
    uint32_t hidden = d->hidden_count;
    wg_status status = WG_OK;
    char name[128];

    WGI_TRY(open_norm(o, &layer->attention_norm, layer_name(name, index, "input_layernorm.weight"),
                      hidden, key));
    (void)layer_name(name, index, "post_attention_layernorm.weight");
    WGI_TRY(open_norm(o, traits->has_post_norm ? &layer->attention_post : &layer->feed_forward_norm,
                      name, hidden, key));
    if (traits->has_post_norm) {
        WGI_TRY(open_norm(o, &layer->feed_forward_norm,
                          layer_name(name, index, "pre_feedforward_layernorm.weight"), hidden,
                          key));
        WGI_TRY(open_norm(o, &layer->feed_forward_post,
                          layer_name(name, index, "post_feedforward_layernorm.weight"), hidden,
                          key));
    }
    if (traits->has_head_norm) {
        WGI_TRY(open_norm(o, &layer->query_norm, layer_name(name, index, "self_attn.q_norm.weight"),
                          d->head_dim, head_key));
        WGI_TRY(open_norm(o, &layer->key_norm, layer_name(name, index, "self_attn.k_norm.weight"),
                          d->head_dim, head_key));
    }

cleanup:
    return status;
}

/* Rows [first, first + count) of a matrix or vector. */
static wgi_tensor rows_of(const wgi_tensor *tensor, uint64_t first, uint64_t count)
{
    size_t row_bytes = tensor->bytes / (size_t)tensor->shape[0];
    wgi_tensor part = *tensor;

    part.shape[0] = count;
    part.data = (const char *)tensor->data + (size_t)first * row_bytes;
    part.bytes = (size_t)count * row_bytes;
    return part;
}

/* Weight and bias (NULL without) of a projection. */
static wg_status need_pair(const opening *o, const wgi_tensor **weight, const wgi_tensor **bias,
                           const char *name, uint64_t rows, const char *rows_key, uint64_t columns,
                           const char *columns_key, bool has_bias)
{
    wg_status status = WG_OK;
    char full[160];

    *bias = NULL;
    (void)snprintf(full, sizeof(full), "%s.weight", name);
    WGI_TRY(need(o, weight, full, rows, rows_key, columns, columns_key));
    if (!has_bias) return WG_OK;
    (void)snprintf(full, sizeof(full), "%s.bias", name);
    WGI_TRY(need(o, bias, full, rows, rows_key, 0, NULL));

cleanup:
    return status;
}

static wg_status pack(const opening *o, wgi_linear **out, const wgi_tensor *weight,
                      const wgi_tensor *bias)
{
    const wgi_backend *backend = o->decoder->backend;

    if (o->keep_stored) return backend->linear_pack_stored(backend, out, weight, bias, o->err);
    return backend->linear_pack(backend, out, weight, bias, o->err);
}

static wg_status open_linear(const opening *o, wgi_linear **out, const char *name, uint64_t rows,
                             const char *rows_key, uint64_t columns, const char *columns_key,
                             bool has_bias)
{
    const wgi_tensor *weight, *bias;
    wg_status status = WG_OK;

    WGI_TRY(need_pair(o, &weight, &bias, name, rows, rows_key, columns, columns_key, has_bias));
    WGI_TRY(pack(o, out, weight, bias));
    wgi_weights_drop(o->weights, weight);

cleanup:
    return status;
}

/* -------------------------------------------------------------------------------- attention */

typedef struct projections {
    wgi_tensor weights[3], biases[3];
    bool has_bias;
    const wgi_tensor *stored[3]; /* the tensors of the file; NULL: none */
    void *copies[6];
} projections;

static wg_status find_fused(const opening *o, projections *p, const uint64_t rows[3],
                            uint32_t layer)
{
    const wgi_description *d = &o->decoder->description;
    const wgi_tensor *weight, *bias;
    wg_status status = WG_OK;
    uint64_t first = 0;
    char name[128];

    WGI_TRY(need_pair(o, &weight, &bias, layer_name(name, layer, "self_attn.qkv_proj"),
                      rows[0] + rows[1] + rows[2], "all heads x head_dim", d->hidden_count,
                      "hidden_size", p->has_bias));
    p->stored[0] = weight;
    for (int i = 0; i < 3; i++) {
        p->weights[i] = rows_of(weight, first, rows[i]);
        if (bias) p->biases[i] = rows_of(bias, first, rows[i]);
        first += rows[i];
    }

cleanup:
    return status;
}

static wg_status find_separate(const opening *o, projections *p, const uint64_t rows[3],
                               uint32_t layer)
{
    static const char *const names[3] = {"self_attn.q_proj", "self_attn.k_proj",
                                         "self_attn.v_proj"};
    static const char *const keys[3] = {"num_attention_heads x head_dim",
                                        "num_key_value_heads x head_dim",
                                        "num_key_value_heads x head_dim"};
    const wgi_description *d = &o->decoder->description;
    wg_status status = WG_OK;
    char name[128];

    for (int i = 0; i < 3; i++) {
        const wgi_tensor *weight, *bias;
        WGI_TRY(need_pair(o, &weight, &bias, layer_name(name, layer, names[i]), rows[i], keys[i],
                          d->hidden_count, "hidden_size", p->has_bias));
        p->stored[i] = weight;
        WGI_TRY(
            wgi_weights_in_order(o->weights, weight, &p->weights[i], &p->copies[2 * i], o->err));
        if (!bias) continue;
        WGI_TRY(
            wgi_weights_in_order(o->weights, bias, &p->biases[i], &p->copies[2 * i + 1], o->err));
    }

cleanup:
    return status;
}

static wg_status open_attention(const opening *o, wgi_decoder_layer *layer, uint32_t index)
{
    const wgi_description *d = &o->decoder->description;
    const wgi_decoder_traits *traits = &d->decoder;
    const wgi_backend *backend = o->decoder->backend;
    uint64_t key_rows = (uint64_t)d->key_head_count * d->head_dim;
    uint64_t rows[3] = {(uint64_t)d->head_count * d->head_dim, key_rows, key_rows};
    projections p = {.has_bias = traits->has_qkv_bias};
    const wgi_tensor *w = p.weights, *b = p.biases;
    wgi_attention_weights weights = {.query = &w[0], .key = &w[1], .value = &w[2]};
    wg_status status = WG_OK;

    WGI_TRY(traits->is_fused ? find_fused(o, &p, rows, index) : find_separate(o, &p, rows, index));
    if (p.has_bias) {
        weights.query_bias = &b[0];
        weights.key_bias = &b[1];
        weights.value_bias = &b[2];
    }
    layer->is_local = traits->window > 0 && wgi_layer_is_local(traits, index);
    weights.shape = (wgi_attention_shape){.head_count = d->head_count,
                                          .key_head_count = d->key_head_count,
                                          .head_dim = d->head_dim,
                                          .is_causal = 1,
                                          .window = layer->is_local ? traits->window : 0,
                                          .scale = traits->attention_scale};
    weights.keep_stored = o->keep_stored;
    WGI_TRY(backend->attention_pack(backend, &layer->attention, &weights, o->err));
    for (int i = 0; i < 3; i++)
        if (p.stored[i]) wgi_weights_drop(o->weights, p.stored[i]);

cleanup:
    for (int i = 0; i < 6; i++)
        wgi_free(p.copies[i]);
    return status;
}

static wg_status open_gated(const opening *o, wgi_decoder_layer *layer, uint32_t index)
{
    static const char key[] = "intermediate_size";
    const wgi_description *d = &o->decoder->description;
    bool has_bias = d->decoder.has_mlp_bias;
    uint64_t inner = d->feed_forward_count;
    wg_status status = WG_OK;
    const wgi_tensor *both, *bias;
    char name[128];

    if (d->decoder.is_fused) {
        WGI_TRY(need_pair(o, &both, &bias, layer_name(name, index, "mlp.gate_up_proj"), 2 * inner,
                          "2 x intermediate_size", d->hidden_count, "hidden_size", false));
        wgi_tensor gate = rows_of(both, 0, inner), up = rows_of(both, inner, inner);
        WGI_TRY(pack(o, &layer->gate, &gate, NULL));
        WGI_TRY(pack(o, &layer->up, &up, NULL));
        wgi_weights_drop(o->weights, both);
    } else {
        WGI_TRY(open_linear(o, &layer->gate, layer_name(name, index, "mlp.gate_proj"), inner, key,
                            d->hidden_count, "hidden_size", has_bias));
        WGI_TRY(open_linear(o, &layer->up, layer_name(name, index, "mlp.up_proj"), inner, key,
                            d->hidden_count, "hidden_size", has_bias));
    }
    WGI_TRY(open_linear(o, &layer->down, layer_name(name, index, "mlp.down_proj"), d->hidden_count,
                        "hidden_size", inner, key, has_bias));

cleanup:
    return status;
}

static wg_status open_layer(opening *o, uint32_t index)
{
    const wgi_description *d = &o->decoder->description;
    wgi_decoder_layer *layer = &o->decoder->layers[index];
    wg_status status = WG_OK;
    char name[128];

    WGI_TRY(open_norms(o, layer, index));
    WGI_TRY(open_attention(o, layer, index));
    WGI_TRY(open_linear(o, &layer->out, layer_name(name, index, "self_attn.o_proj"),
                        d->hidden_count, "hidden_size", (uint64_t)d->head_count * d->head_dim,
                        "num_attention_heads x head_dim", d->decoder.has_out_bias));
    WGI_TRY(open_gated(o, layer, index));

cleanup:
    return status;
}

/* -------------------------------------------------------------------------------- positions */

/* A frequency after scaling; llama3's rule is that of its config.json (Llama 3.1, 2024). */
static double scaled(const wgi_rope *rope, double frequency)
{
    if (!rope->is_llama3) return frequency / rope->factor;
    double wavelength = 2 * 3.14159265358979323846 / frequency;
    if (wavelength > rope->original / rope->low) return frequency / rope->factor;
    if (wavelength < rope->original / rope->high) return frequency;
    double smooth = (rope->original / wavelength - rope->low) / (rope->high - rope->low);
    return (1 - smooth) * frequency / rope->factor + smooth * frequency;
}

static bool same_rope(const wgi_rope *a, const wgi_rope *b)
{
    return a->base == b->base && a->factor == b->factor && a->is_llama3 == b->is_llama3 &&
           a->low == b->low && a->high == b->high && a->original == b->original;
}

static wg_status open_rope(opening *o, size_t index, const wgi_rope *rope)
{
    const wgi_decoder_traits *traits = &o->decoder->description.decoder;
    size_t half = traits->rotary_count / 2;
    wg_status status = WG_OK;
    const wgi_tensor *factors = NULL;
    double *out = wgi_malloc(half * sizeof(double));

    o->decoder->frequencies[index] = out;
    if (!out) return wgi_fail(o->err, WG_ERR_NO_MEMORY, "no memory for %zu frequencies", half);
    if (traits->has_rope_factors) {
        wgi_tensor_need what = {.name = "rope_freqs.weight", .rank = 1, .shape = {half}};
        WGI_TRY(wgi_weights_need(o->weights, &what, &factors, o->err));
    }
    for (size_t j = 0; j < half; j++) {
        float factor = 1;
        if (factors) wgi_tensor_widen(factors, j, 1, &factor);
        if (!(factor > 0) || isinf(factor)) {
            status =
                wgi_fail(o->err, WG_ERR_FORMAT, "%s: tensor 'rope_freqs.weight': factor %zu is %g",
                         wgi_weights_path(o->weights), j, (double)factor);
            goto cleanup;
        }
        out[j] = scaled(rope, pow(rope->base, -(double)j / (double)half)) / (double)factor;
    }

cleanup:
    return status;
}

/* ------------------------------------------------------------------------------- the whole */

static wg_status open_parts(opening *o)
{
    wgi_decoder *decoder = o->decoder;
    const wgi_description *d = &decoder->description;
    wg_status status = WG_OK;

    decoder->embedding.hidden_count = d->hidden_count;
    WGI_TRY(need(o, &decoder->embedding.token, "embed_tokens.weight", d->vocabulary_count,
                 "vocab_size", d->hidden_count, "hidden_size"));
    WGI_TRY(open_norm(o, &decoder->final_norm, "norm.weight", d->hidden_count, "hidden_size"));
    WGI_TRY(open_rope(o, 0, &d->decoder.rope));
    if (d->decoder.window && !same_rope(&d->decoder.rope, &d->decoder.rope_local))
        WGI_TRY(open_rope(o, 1, &d->decoder.rope_local));
    o->asked_by = o->layer_text;
    for (uint32_t i = 0; i < d->layer_count; i++)
        WGI_TRY(open_layer(o, i));

cleanup:
    return status;
}

/*
 * Up to here a packed f32 copy is worth its memory (measured, see docs/decisions.md); beyond it the
 * weights stay in the type of the file.
 */
#define F32_BYTES_MOST 2e9

static bool is_large(const wgi_description *d)
{
    double heads = ((double)d->head_count + d->key_head_count) * 2 * d->head_dim;

    return 4.0 * d->layer_count * d->hidden_count * (heads + 3.0 * d->feed_forward_count) >
           F32_BYTES_MOST;
}

wg_status wgi_decoder_open(wgi_decoder **out, const wgi_description *description,
                           const wgi_weights *weights, const wgi_backend *backend, wg_error *err)
{
    size_t layers = description->layer_count, bytes;
    opening o = {.weights = weights, .prefix = "model.", .err = err};
    wgi_decoder *decoder = NULL;
    wg_status status = WG_OK;

    *out = NULL;
    if (!wgi_mul(layers, sizeof(wgi_decoder_layer), &bytes) ||
        !wgi_add(bytes, sizeof(*decoder), &bytes) || !(decoder = wgi_calloc(1, bytes))) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu layers", layers);
        goto cleanup;
    }
    decoder->backend = backend;
    decoder->description = *description;
    o.decoder = decoder;
    o.keep_stored = is_large(description) || description->decoder.keep_stored;
    if (!wgi_weights_find(weights, "model.embed_tokens.weight") &&
        wgi_weights_find(weights, "embed_tokens.weight"))
        o.prefix = "";
    (void)snprintf(o.layer_text, sizeof(o.layer_text), "num_hidden_layers %zu", layers);
    WGI_TRY(open_parts(&o));
    *out = decoder;
    decoder = NULL;

cleanup:
    wgi_decoder_close(decoder);
    return status;
}

/* Norms borrow their weights elsewhere; here they are the decoder's own. */
static void free_norm(wgi_norm *norm)
{
    wgi_free((void *)(uintptr_t)norm->weight);
}

void wgi_decoder_close(wgi_decoder *decoder)
{
    if (!decoder) return;
    for (uint32_t i = 0; i < decoder->description.layer_count; i++) {
        wgi_decoder_layer *layer = &decoder->layers[i];
        decoder->backend->attention_free(layer->attention);
        decoder->backend->linear_free(layer->out);
        decoder->backend->linear_free(layer->gate);
        decoder->backend->linear_free(layer->up);
        decoder->backend->linear_free(layer->down);
        free_norm(&layer->attention_norm);
        free_norm(&layer->feed_forward_norm);
        free_norm(&layer->attention_post);
        free_norm(&layer->feed_forward_post);
        free_norm(&layer->query_norm);
        free_norm(&layer->key_norm);
    }
    for (size_t i = 0; i < WGI_ROPES; i++)
        wgi_free(decoder->frequencies[i]);
    free_norm(&decoder->final_norm);
    wgi_free(decoder);
}

size_t wgi_decoder_mapped_bytes(const wgi_decoder *decoder)
{
    return decoder->embedding.token->bytes;
}

size_t wgi_decoder_bytes(const wgi_decoder *decoder)
{
    const wgi_backend *backend = decoder->backend;
    size_t bytes = decoder->norms_bytes;

    for (uint32_t i = 0; i < decoder->description.layer_count; i++) {
        const wgi_decoder_layer *layer = &decoder->layers[i];
        bytes += backend->attention_bytes(layer->attention) + backend->linear_bytes(layer->out) +
                 backend->linear_bytes(layer->gate) + backend->linear_bytes(layer->up) +
                 backend->linear_bytes(layer->down);
    }
    return bytes;
}
