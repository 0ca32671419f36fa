/*
 * encoder_open.c - finds an encoder's tensors by the names of its family's row, checks their shapes
 * against the description, and packs them for the backend.
 *
 * Where a family stores several matrices as one (Q, K and V; gate and up), their rows are taken
 * apart here without a copy: a slice of rows is a tensor like any other. Tensors that no name asks
 * for (poolers, heads) are left alone.
 *
 * The relative bias of MPNet is stored by bucket of distance. Its buckets are those of T5 (Raffel
 * et al. 2020) in both directions: exact up to 7, then 8 more for distances that grow by a factor
 * of 16^(1/8). It is spread out by distance here, so that backends know nothing of buckets.
 *
 * The token, position and type tables are read in place, in the mapped file: the weights must
 * outlive the encoder.
 *
 * Threads: none while opening; an encoder is constant once open.
 */
#include "model/encoder_parts.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"

/* Norms about the layers: of the embeddings, and the final one. */
#define OUTER_NORMS 2

typedef struct opening {
    wgi_encoder *encoder;
    const wgi_weights *weights;
    const wgi_encoder_family *family;
    const char *prefix;   /* "" or the family's */
    const char *asked_by; /* NULL, or layer_text while layers are opened */
    char layer_text[48];  /* "num_hidden_layers 6" */
    float *norm_at;
    float *relative_values; /* [N, 2 reach + 1]; NULL: none */
    wgi_relative_bias relative;
    wg_error *err;
} opening;

static const char *key_of(const opening *o, wgi_size_name name)
{
    return o->family->sizes[name].key;
}

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

/* "encoder.layer." + 3 + "." + rest */
static const char *layer_name(const opening *o, char out[128], uint32_t layer, const char *rest)
{
    (void)snprintf(out, 128, "%s%u.%s", o->family->names.layers, layer, rest);
    return out;
}

static wg_status open_norm(opening *o, wgi_norm *norm, const char *name)
{
    wg_status status = WG_OK;
    const wgi_description *d = &o->encoder->description;
    uint32_t hidden = d->hidden_count;
    const wgi_tensor *tensor;
    char full[160];

    *norm = (wgi_norm){.count = hidden, .epsilon = d->norm_epsilon};
    (void)snprintf(full, sizeof(full), "%s.weight", name);
    WGI_TRY(need(o, &tensor, full, hidden, key_of(o, WGI_SIZE_HIDDEN), 0, NULL));
    wgi_tensor_widen(tensor, 0, hidden, o->norm_at);
    norm->weight = o->norm_at;
    o->norm_at += hidden;
    if (d->encoder.lacks_norm_bias) goto cleanup;
    (void)snprintf(full, sizeof(full), "%s.bias", name);
    WGI_TRY(need(o, &tensor, full, hidden, key_of(o, WGI_SIZE_HIDDEN), 0, NULL));
    wgi_tensor_widen(tensor, 0, hidden, o->norm_at);
    norm->bias = o->norm_at;
    o->norm_at += hidden;

cleanup:
    return status;
}

/* A projection's shape, and which keys say so. */
typedef struct matrix {
    uint64_t rows, columns;
    const char *rows_key, *columns_key;
    bool lacks_bias;
} matrix;

/* Both tensors of a projection; *bias NULL where it lacks one. */
static wg_status need_pair(const opening *o, const wgi_tensor **weight, const wgi_tensor **bias,
                           const char *name, const matrix *m)
{
    wg_status status = WG_OK;
    char full[160];

    *bias = NULL;
    (void)snprintf(full, sizeof(full), "%s.weight", name);
    WGI_TRY(need(o, weight, full, m->rows, m->rows_key, m->columns, m->columns_key));
    if (m->lacks_bias) goto cleanup;
    (void)snprintf(full, sizeof(full), "%s.bias", name);
    WGI_TRY(need(o, bias, full, m->rows, m->rows_key, 0, NULL));

cleanup:
    return status;
}

/* Rows [first, first + rows), as a tensor of its own; NULL stays NULL. */
static const wgi_tensor *slice(const wgi_tensor *whole, uint64_t first, uint64_t rows,
                               wgi_tensor *out)
{
    size_t row_bytes;

    if (!whole) return NULL;
    row_bytes = whole->bytes / (size_t)whole->shape[0];
    *out = *whole;
    out->shape[0] = rows;
    out->data = (const char *)whole->data + (size_t)first * row_bytes;
    out->bytes = (size_t)rows * row_bytes;
    return out;
}

static wg_status open_linear(const opening *o, wgi_linear **out, const char *name, const matrix *m)
{
    wg_status status = WG_OK;
    const wgi_backend *backend = o->encoder->backend;
    const wgi_tensor *weight, *bias;

    WGI_TRY(need_pair(o, &weight, &bias, name, m));
    WGI_TRY(backend->linear_pack(backend, out, weight, bias, o->err));
    wgi_weights_drop(o->weights, weight);

cleanup:
    return status;
}

/* ------------------------------------------------------------------------------ attention */

/* Q, K and V out of three tensors, or out of one. */
static wg_status pack_attention(const opening *o, wgi_attention **out, uint32_t layer,
                                wgi_attention_weights *weights)
{
    wg_status status = WG_OK;
    const wgi_description *d = &o->encoder->description;
    const wgi_encoder_names *names = &o->family->names;
    const wgi_backend *backend = o->encoder->backend;
    const char *hidden_key = key_of(o, WGI_SIZE_HIDDEN);
    const struct {
        const char *name;
        const wgi_tensor **weight, **bias;
    } parts[3] = {{names->query, &weights->query, &weights->query_bias},
                  {names->key, &weights->key, &weights->key_bias},
                  {names->value, &weights->value, &weights->value_bias}};
    uint64_t rows = (uint64_t)d->head_count * d->head_dim;
    matrix m = {.rows = rows,
                .columns = d->hidden_count,
                .rows_key = hidden_key,
                .columns_key = hidden_key,
                .lacks_bias = d->encoder.lacks_attention_bias};
    const wgi_tensor *whole, *whole_bias;
    wgi_tensor slices[6];
    char name[128], text[64];

    if (!names->fused_qkv) {
        for (size_t i = 0; i < 3; i++)
            WGI_TRY(need_pair(o, parts[i].weight, parts[i].bias,
                              layer_name(o, name, layer, parts[i].name), &m));
        WGI_TRY(backend->attention_pack(backend, out, weights, o->err));
        for (size_t i = 0; i < 3; i++)
            wgi_weights_drop(o->weights, *parts[i].weight);
        goto cleanup;
    }
    (void)snprintf(text, sizeof(text), "3 x %s", hidden_key);
    m.rows = 3 * rows;
    m.rows_key = text;
    WGI_TRY(need_pair(o, &whole, &whole_bias, layer_name(o, name, layer, names->fused_qkv), &m));
    for (size_t i = 0; i < 3; i++) {
        *parts[i].weight = slice(whole, i * rows, rows, &slices[i]);
        *parts[i].bias = slice(whole_bias, i * rows, rows, &slices[3 + i]);
    }
    WGI_TRY(backend->attention_pack(backend, out, weights, o->err));
    wgi_weights_drop(o->weights, whole);

cleanup:
    return status;
}

static wg_status open_attention(const opening *o, wgi_encoder_layer *layer, uint32_t index)
{
    const wgi_description *d = &o->encoder->description;
    wgi_attention_weights weights = {.shape = {.head_count = d->head_count,
                                               .key_head_count = d->key_head_count,
                                               .head_dim = d->head_dim,
                                               .scale = 1 / sqrtf((float)d->head_dim),
                                               .window = layer->is_local ? d->encoder.window : 0},
                                     .relative = o->relative_values ? &o->relative : NULL};

    return pack_attention(o, &layer->attention, index, &weights);
}

/* --------------------------------------------------------------------------- relative bias */

#define BUCKETS 32 /* half of them for keys behind the query's row, half for keys after it */

/* Where buckets 8 to 15 begin; below 8 there is one for each distance. */
static const uint32_t bucket_begins[] = {8, 12, 16, 23, 32, 46, 64, 91};
#define REACH 91 /* all distances from here on share the last bucket */

static size_t bucket_of(int32_t distance) /* key - query */
{
    uint32_t away = (uint32_t)(distance < 0 ? -distance : distance);
    size_t bucket = away;

    if (away >= bucket_begins[0]) {
        bucket = 7;
        for (size_t i = 0; i < 8 && away >= bucket_begins[i]; i++)
            bucket++;
    }
    return bucket + (distance > 0 ? BUCKETS / 2 : 0);
}

static wg_status open_relative(opening *o)
{
    wg_status status = WG_OK;
    size_t heads = o->encoder->description.head_count;
    const wgi_tensor *table;
    char name[128];

    if (!o->family->names.relative) return WG_OK;
    (void)snprintf(name, sizeof(name), "%s.weight", o->family->names.relative);
    WGI_TRY(need(o, &table, name, BUCKETS, "relative_attention_num_buckets", heads,
                 key_of(o, WGI_SIZE_HEADS)));
    o->relative_values = wgi_calloc(heads, (2 * REACH + 1) * sizeof(float));
    if (!o->relative_values) {
        status = wgi_fail(o->err, WG_ERR_NO_MEMORY, "no memory for the relative bias");
        goto cleanup;
    }
    o->relative = (wgi_relative_bias){.values = o->relative_values, .reach = REACH};
    for (size_t head = 0; head < heads; head++)
        for (int32_t d = -REACH; d <= REACH; d++)
            wgi_tensor_widen(table, bucket_of(d) * heads + head, 1,
                             &o->relative_values[head * (2 * REACH + 1) + (size_t)(d + REACH)]);

cleanup:
    return status;
}

/* ----------------------------------------------------------------------------------- layer */

/* up and, when gated, gate out of one tensor: the gate's rows stand first. */
static wg_status open_fused_up(const opening *o, wgi_encoder_layer *layer, const char *name,
                               const matrix *one)
{
    wg_status status = WG_OK;
    const wgi_backend *backend = o->encoder->backend;
    const wgi_tensor *whole, *bias;
    wgi_tensor weight_slice, bias_slice;
    char text[64];
    matrix both = *one;

    (void)snprintf(text, sizeof(text), "2 x %s", one->rows_key);
    both.rows = 2 * one->rows;
    both.rows_key = text;
    WGI_TRY(need_pair(o, &whole, &bias, name, &both));
    for (uint64_t i = 0; i < 2; i++)
        WGI_TRY(backend->linear_pack(backend, i ? &layer->up : &layer->gate,
                                     slice(whole, i * one->rows, one->rows, &weight_slice),
                                     slice(bias, i * one->rows, one->rows, &bias_slice), o->err));
    wgi_weights_drop(o->weights, whole);

cleanup:
    return status;
}

static wg_status open_layer(opening *o, uint32_t index)
{
    wg_status status = WG_OK;
    const wgi_description *d = &o->encoder->description;
    const wgi_encoder_names *names = &o->family->names;
    const char *hidden_key = key_of(o, WGI_SIZE_HIDDEN),
               *wide_key = key_of(o, WGI_SIZE_FEED_FORWARD);
    wgi_encoder_layer *layer = &o->encoder->layers[index];
    uint64_t hidden = d->hidden_count, wide = d->feed_forward_count;
    matrix out = {(uint64_t)hidden, (uint64_t)d->head_count * d->head_dim, hidden_key, hidden_key,
                  d->encoder.lacks_attention_bias};
    matrix up = {wide, hidden, wide_key, hidden_key, d->encoder.lacks_feed_forward_bias};
    matrix down = {hidden, wide, hidden_key, wide_key, d->encoder.lacks_feed_forward_bias};
    char name[128];

    layer->is_local = d->encoder.local_layers[index / 8] >> index % 8 & 1;
    WGI_TRY(open_attention(o, layer, index));
    WGI_TRY(open_linear(o, &layer->out, layer_name(o, name, index, names->out), &out));
    if (index > 0 || !o->family->is_first_unnormed)
        WGI_TRY(open_norm(o, &layer->attention_norm,
                          layer_name(o, name, index, names->attention_norm)));
    if (o->family->is_gated)
        WGI_TRY(open_fused_up(o, layer, layer_name(o, name, index, names->fused_up), &up));
    else
        WGI_TRY(open_linear(o, &layer->up, layer_name(o, name, index, names->up), &up));
    WGI_TRY(open_linear(o, &layer->down, layer_name(o, name, index, names->down), &down));
    WGI_TRY(open_norm(o, &layer->output_norm, layer_name(o, name, index, names->output_norm)));

cleanup:
    return status;
}

/* ----------------------------------------------------------------------------------- open */

/* A table of `rows` rows; the name is without ".weight". NULL: there is none. */
static wg_status open_table(const opening *o, const wgi_tensor **table, const char *name,
                            uint64_t rows, wgi_size_name rows_name)
{
    char full[128];

    if (!name || !rows) return WG_OK;
    (void)snprintf(full, sizeof(full), "%s.weight", name);
    return need(o, table, full, rows, key_of(o, rows_name), o->encoder->description.hidden_count,
                key_of(o, WGI_SIZE_HIDDEN));
}

static wg_status open_embedding(opening *o)
{
    wg_status status = WG_OK;
    const wgi_description *d = &o->encoder->description;
    const wgi_encoder_names *names = &o->family->names;
    wgi_embedding *e = &o->encoder->embedding;

    e->hidden_count = d->hidden_count;
    /* No count: a GGUF file that lacks the table, which is then said to be missing. */
    WGI_TRY(open_table(o, &e->token, names->token, d->vocabulary_count ? d->vocabulary_count : 1,
                       WGI_SIZE_VOCABULARY));
    WGI_TRY(open_table(o, &e->position, names->position, d->position_count, WGI_SIZE_POSITIONS));
    WGI_TRY(open_table(o, &e->type, names->type, d->type_count, WGI_SIZE_TYPES));
    WGI_TRY(open_norm(o, &o->encoder->embedding_norm, names->embedding_norm));
    if (names->final_norm) WGI_TRY(open_norm(o, &o->encoder->final_norm, names->final_norm));
    WGI_TRY(open_relative(o));

cleanup:
    return status;
}

/* Pair j of a head turns by position * base^(-2 j / count). */
static wg_status open_frequencies(wgi_encoder *encoder, wg_error *err)
{
    const wgi_encoder_traits *traits = &encoder->description.encoder;
    const double bases[WGI_ENCODER_ROPES] = {traits->rotary_base, traits->rotary_base_local};
    size_t half = traits->rotary_count / 2;

    for (size_t i = 0; half && i < WGI_ENCODER_ROPES; i++) {
        encoder->frequencies[i] = wgi_calloc(half, sizeof(double));
        if (!encoder->frequencies[i])
            return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu frequencies", half);
        for (size_t j = 0; j < half; j++)
            encoder->frequencies[i][j] = pow(bases[i], -(double)j / (double)half);
    }
    return WG_OK;
}

static wg_status make(wgi_encoder **out, const wgi_description *description,
                      const wgi_backend *backend, const wgi_encoder_family *family, wg_error *err)
{
    size_t layers = description->layer_count, bytes;
    wgi_encoder *encoder = NULL;

    if (!wgi_mul(layers, sizeof(wgi_encoder_layer), &bytes) ||
        !wgi_add(bytes, sizeof(*encoder), &bytes) || !(encoder = wgi_calloc(1, bytes)))
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu layers", layers);
    *out = encoder;
    encoder->backend = backend;
    encoder->family = family;
    encoder->description = *description;
    if (!wgi_mul(2 * (OUTER_NORMS + 2 * layers), description->hidden_count * sizeof(float),
                 &encoder->norms_bytes) ||
        !(encoder->norms = wgi_malloc_aligned(WGI_BYTE_ALIGN, encoder->norms_bytes)))
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for the norms of %zu layers", layers);
    return open_frequencies(encoder, err);
}

wg_status wgi_encoder_open(wgi_encoder **out, const wgi_description *description,
                           const wgi_weights *weights, const wgi_backend *backend, wg_error *err)
{
    wg_status status = WG_OK;
    opening o = {.weights = weights,
                 .family = wgi_encoder_family_find(description->architecture),
                 .err = err};
    wgi_encoder *encoder = NULL;

    *out = NULL;
    if (!o.family) {
        status = wgi_fail(err, WG_ERR_UNSUPPORTED, "'%s' is not a family of encoders",
                          description->architecture);
        goto cleanup;
    }
    WGI_TRY(make(&encoder, description, backend, o.family, err));
    o.encoder = encoder;
    o.norm_at = encoder->norms;
    o.prefix = wgi_encoder_prefix(o.family, weights);
    (void)snprintf(o.layer_text, sizeof(o.layer_text), "%s %u", key_of(&o, WGI_SIZE_LAYERS),
                   description->layer_count);
    WGI_TRY(open_embedding(&o));
    o.asked_by = o.layer_text;
    for (uint32_t i = 0; i < description->layer_count; i++)
        WGI_TRY(open_layer(&o, i));
    *out = encoder;
    encoder = NULL;

cleanup:
    wgi_free(o.relative_values);
    wgi_encoder_close(encoder);
    return status;
}

void wgi_encoder_close(wgi_encoder *encoder)
{
    if (!encoder) return;
    for (uint32_t i = 0; i < encoder->description.layer_count; i++) {
        wgi_encoder_layer *layer = &encoder->layers[i];
        encoder->backend->attention_free(layer->attention);
        encoder->backend->linear_free(layer->out);
        encoder->backend->linear_free(layer->gate);
        encoder->backend->linear_free(layer->up);
        encoder->backend->linear_free(layer->down);
    }
    for (size_t i = 0; i < WGI_ENCODER_ROPES; i++)
        wgi_free(encoder->frequencies[i]);
    wgi_free(encoder->norms);
    wgi_free(encoder);
}

size_t wgi_encoder_mapped_bytes(const wgi_encoder *encoder)
{
    const wgi_embedding *embedding = &encoder->embedding;

    return embedding->token->bytes + (embedding->position ? embedding->position->bytes : 0) +
           (embedding->type ? embedding->type->bytes : 0);
}

size_t wgi_encoder_bytes(const wgi_encoder *encoder)
{
    const wgi_backend *backend = encoder->backend;
    size_t bytes = encoder->norms_bytes;

    for (uint32_t i = 0; i < encoder->description.layer_count; i++) {
        const wgi_encoder_layer *layer = &encoder->layers[i];
        bytes += backend->attention_bytes(layer->attention) + backend->linear_bytes(layer->out) +
                 backend->linear_bytes(layer->up) + backend->linear_bytes(layer->down) +
                 (layer->gate ? backend->linear_bytes(layer->gate) : 0);
    }
    return bytes;
}
