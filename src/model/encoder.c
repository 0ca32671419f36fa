/*
 * encoder.c - the BERT forward pass, written once over the operations of backend.h.
 *
 *   embeddings, norm, Q/K/V of layer 0                  a loop over row blocks
 *   for each layer:
 *     attention                                         a loop over (stretch of a segment, key
 * head) out + residual, norm, up + activation,            a loop over row blocks: what a block
 * needs down + residual, norm, Q/K/V of the next layer      stays in L2 from one step to the next
 *
 *   bin memory    hidden [T, H] | context [T, N*D] | Q/K/V | stretches
 *   lane memory   the feed-forward rows of one block [block, F] | the backend's scratch
 *
 * Each loop is offered to idle lanes (crew.h); its items are the same whoever runs them. Post-norm
 * (BERT) is the only order here so far. The alternative, each operation over the whole bin in turn,
 * streams the activations through memory once an operation and measured slower on large bins.
 *
 * The token, position and type tables are read in place, in the mapped file: the weights must
 * outlive the encoder.
 *
 * Threads: an encoder is constant once open; a bin belongs to the lane that runs it.
 */
#include "model/model.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"

typedef struct encoder_layer {
    wgi_attention *attention;
    wgi_linear *out, *up, *down;
    wgi_norm attention_norm, output_norm;
} encoder_layer;

struct wgi_encoder {
    const wgi_backend *backend;
    wgi_description description;
    wgi_embedding embedding;
    wgi_norm embedding_norm;
    float *norms; /* [2 (1 + 2 layers), H] weights and biases of all norms, widened */
    size_t norms_bytes;
    encoder_layer layers[];
};

/* ----------------------------------------------------------------------------------- open */

typedef struct opening {
    wgi_encoder *encoder;
    const wgi_weights *weights;
    const char *prefix;   /* "" or "bert." */
    const char *asked_by; /* NULL, or layer_text while layers are opened */
    char layer_text[48];  /* "num_hidden_layers 6" */
    float *norm_at;
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

/* "encoder.layer.3." + rest */
static const char *layer_name(char out[128], uint32_t layer, const char *rest)
{
    (void)snprintf(out, 128, "encoder.layer.%u.%s", layer, rest);
    return out;
}

static wg_status open_norm(opening *o, wgi_norm *norm, const char *name)
{
    wg_status status = WG_OK;
    uint32_t hidden = o->encoder->description.hidden_count;
    const wgi_tensor *tensor;
    char full[160];

    *norm = (wgi_norm){.count = hidden, .epsilon = o->encoder->description.norm_epsilon};
    norm->weight = o->norm_at;
    norm->bias = o->norm_at + hidden;
    (void)snprintf(full, sizeof(full), "%s.weight", name);
    WGI_TRY(need(o, &tensor, full, hidden, "hidden_size", 0, NULL));
    wgi_tensor_widen(tensor, 0, hidden, o->norm_at);
    (void)snprintf(full, sizeof(full), "%s.bias", name);
    WGI_TRY(need(o, &tensor, full, hidden, "hidden_size", 0, NULL));
    wgi_tensor_widen(tensor, 0, hidden, o->norm_at + hidden);
    o->norm_at += 2 * (size_t)hidden;

cleanup:
    return status;
}

/* Both tensors of a projection. */
static wg_status need_pair(const opening *o, const wgi_tensor **weight, const wgi_tensor **bias,
                           const char *name, uint64_t rows, const char *rows_key, uint64_t columns,
                           const char *columns_key)
{
    wg_status status = WG_OK;
    char full[160];

    (void)snprintf(full, sizeof(full), "%s.weight", name);
    WGI_TRY(need(o, weight, full, rows, rows_key, columns, columns_key));
    (void)snprintf(full, sizeof(full), "%s.bias", name);
    WGI_TRY(need(o, bias, full, rows, rows_key, 0, NULL));

cleanup:
    return status;
}

static wg_status open_linear(const opening *o, wgi_linear **out, const char *name, uint64_t rows,
                             const char *rows_key, uint64_t columns, const char *columns_key)
{
    wg_status status = WG_OK;
    const wgi_backend *backend = o->encoder->backend;
    const wgi_tensor *weight, *bias;

    WGI_TRY(need_pair(o, &weight, &bias, name, rows, rows_key, columns, columns_key));
    WGI_TRY(backend->linear_pack(backend, out, weight, bias, o->err));
    wgi_weights_drop(o->weights, weight);

cleanup:
    return status;
}

static wg_status open_attention(const opening *o, wgi_attention **out, uint32_t layer)
{
    wg_status status = WG_OK;
    const wgi_description *d = &o->encoder->description;
    const wgi_backend *backend = o->encoder->backend;
    uint64_t query_rows = (uint64_t)d->head_count * d->head_dim;
    uint64_t key_rows = (uint64_t)d->key_head_count * d->head_dim;
    wgi_attention_weights weights = {.shape = {.head_count = d->head_count,
                                               .key_head_count = d->key_head_count,
                                               .head_dim = d->head_dim,
                                               .scale = 1 / sqrtf((float)d->head_dim)}};
    char name[128];

    WGI_TRY(need_pair(o, &weights.query, &weights.query_bias,
                      layer_name(name, layer, "attention.self.query"), query_rows, "hidden_size",
                      d->hidden_count, "hidden_size"));
    WGI_TRY(need_pair(o, &weights.key, &weights.key_bias,
                      layer_name(name, layer, "attention.self.key"), key_rows, "hidden_size",
                      d->hidden_count, "hidden_size"));
    WGI_TRY(need_pair(o, &weights.value, &weights.value_bias,
                      layer_name(name, layer, "attention.self.value"), key_rows, "hidden_size",
                      d->hidden_count, "hidden_size"));
    WGI_TRY(backend->attention_pack(backend, out, &weights, o->err));
    wgi_weights_drop(o->weights, weights.query);
    wgi_weights_drop(o->weights, weights.key);
    wgi_weights_drop(o->weights, weights.value);

cleanup:
    return status;
}

static wg_status open_layer(opening *o, uint32_t index)
{
    wg_status status = WG_OK;
    const wgi_description *d = &o->encoder->description;
    encoder_layer *layer = &o->encoder->layers[index];
    char name[128];

    WGI_TRY(open_attention(o, &layer->attention, index));
    WGI_TRY(open_linear(o, &layer->out, layer_name(name, index, "attention.output.dense"),
                        d->hidden_count, "hidden_size", (uint64_t)d->head_count * d->head_dim,
                        "hidden_size"));
    WGI_TRY(open_norm(o, &layer->attention_norm,
                      layer_name(name, index, "attention.output.LayerNorm")));
    WGI_TRY(open_linear(o, &layer->up, layer_name(name, index, "intermediate.dense"),
                        d->feed_forward_count, "intermediate_size", d->hidden_count,
                        "hidden_size"));
    WGI_TRY(open_linear(o, &layer->down, layer_name(name, index, "output.dense"), d->hidden_count,
                        "hidden_size", d->feed_forward_count, "intermediate_size"));
    WGI_TRY(open_norm(o, &layer->output_norm, layer_name(name, index, "output.LayerNorm")));

cleanup:
    return status;
}

static wg_status open_embedding(opening *o)
{
    wg_status status = WG_OK;
    const wgi_description *d = &o->encoder->description;
    wgi_embedding *e = &o->encoder->embedding;

    e->hidden_count = d->hidden_count;
    WGI_TRY(need(o, &e->token, "embeddings.word_embeddings.weight", d->vocabulary_count,
                 "vocab_size", d->hidden_count, "hidden_size"));
    if (d->position_count)
        WGI_TRY(need(o, &e->position, "embeddings.position_embeddings.weight", d->position_count,
                     "max_position_embeddings", d->hidden_count, "hidden_size"));
    if (d->type_count)
        WGI_TRY(need(o, &e->type, "embeddings.token_type_embeddings.weight", d->type_count,
                     "type_vocab_size", d->hidden_count, "hidden_size"));
    WGI_TRY(open_norm(o, &o->encoder->embedding_norm, "embeddings.LayerNorm"));

cleanup:
    return status;
}

wg_status wgi_encoder_open(wgi_encoder **out, const wgi_description *description,
                           const wgi_weights *weights, const wgi_backend *backend, wg_error *err)
{
    wg_status status = WG_OK;
    size_t layers = description->layer_count, bytes;
    opening o = {.weights = weights, .prefix = "", .err = err};
    wgi_encoder *encoder = NULL;

    *out = NULL;
    if (!wgi_mul(layers, sizeof(encoder_layer), &bytes) ||
        !wgi_add(bytes, sizeof(*encoder), &bytes) || !(encoder = wgi_calloc(1, bytes))) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu layers", layers);
        goto cleanup;
    }
    encoder->backend = backend;
    encoder->description = *description;
    if (!wgi_mul(2 * (1 + 2 * layers), description->hidden_count * sizeof(float),
                 &encoder->norms_bytes) ||
        !(encoder->norms = wgi_malloc_aligned(WGI_BYTE_ALIGN, encoder->norms_bytes))) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for the norms of %zu layers", layers);
        goto cleanup;
    }
    o.encoder = encoder;
    o.norm_at = encoder->norms;
    if (!wgi_weights_find(weights, "embeddings.word_embeddings.weight") &&
        wgi_weights_find(weights, "bert.embeddings.word_embeddings.weight"))
        o.prefix = "bert.";
    (void)snprintf(o.layer_text, sizeof(o.layer_text), "num_hidden_layers %zu", layers);

    WGI_TRY(open_embedding(&o));
    o.asked_by = o.layer_text;
    for (uint32_t i = 0; i < description->layer_count; i++)
        WGI_TRY(open_layer(&o, i));
    *out = encoder;
    encoder = NULL;

cleanup:
    wgi_encoder_close(encoder);
    return status;
}

void wgi_encoder_close(wgi_encoder *encoder)
{
    if (!encoder) return;
    for (uint32_t i = 0; i < encoder->description.layer_count; i++) {
        encoder_layer *layer = &encoder->layers[i];
        encoder->backend->attention_free(layer->attention);
        encoder->backend->linear_free(layer->out);
        encoder->backend->linear_free(layer->up);
        encoder->backend->linear_free(layer->down);
    }
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
        const encoder_layer *layer = &encoder->layers[i];
        bytes += backend->attention_bytes(layer->attention) + backend->linear_bytes(layer->out) +
                 backend->linear_bytes(layer->up) + backend->linear_bytes(layer->down);
    }
    return bytes;
}

/* ----------------------------------------------------------------------------------- plan */

/* Query rows [first, first + count) of segment `segment`: what attention takes at once. */
typedef struct stretch {
    uint32_t segment, first, count;
} stretch;

typedef struct bin_parts {
    wgi_view hidden, context;
    void *qkv;
    stretch *stretches;
} bin_parts;

typedef struct lane_parts {
    wgi_view wide; /* [block_rows, F] */
    void *scratch;
} lane_parts;

/* The next part of `base` (NULL: only counting); *at stays SIZE_MAX once anything overflows. */
static void *carve(char *base, size_t *at, size_t count, size_t item_bytes)
{
    size_t bytes, begin = *at;

    if (!wgi_mul(count, item_bytes, &bytes) || !wgi_add(bytes, WGI_BYTE_ALIGN - 1, &bytes) ||
        !wgi_add(begin, bytes / WGI_BYTE_ALIGN * WGI_BYTE_ALIGN, at))
        *at = SIZE_MAX;
    return base ? base + begin : NULL;
}

/* Rows of `columns` floats. */
static wgi_view carve_view(char *base, size_t *at, size_t rows, size_t columns)
{
    wgi_view view = {.stride = wgi_view_stride(columns)};

    view.data = carve(base, at, rows, view.stride * sizeof(float));
    return view;
}

static size_t carve_bin(const wgi_encoder *encoder, size_t tokens, char *base, bin_parts *parts)
{
    const wgi_description *d = &encoder->description;
    size_t at = 0, stretches = tokens + tokens / encoder->backend->attend_rows;

    parts->hidden = carve_view(base, &at, tokens, d->hidden_count);
    parts->context = carve_view(base, &at, tokens, (size_t)d->head_count * d->head_dim);
    parts->qkv = carve(
        base, &at, 1,
        d->layer_count ? encoder->backend->qkv_bytes(encoder->layers[0].attention, tokens) : 0);
    parts->stretches = carve(base, &at, stretches, sizeof(stretch));
    return at;
}

static size_t carve_lane(const wgi_encoder *encoder, char *base, lane_parts *parts)
{
    const wgi_backend *backend = encoder->backend;
    const wgi_attention *attention =
        encoder->description.layer_count ? encoder->layers[0].attention : NULL;
    size_t at = 0;

    parts->wide =
        carve_view(base, &at, backend->block_rows, encoder->description.feed_forward_count);
    parts->scratch = carve(base, &at, 1, backend->scratch_bytes(backend, attention));
    return at;
}

wgi_plan wgi_encoder_plan(const wgi_encoder *encoder, size_t tokens_max, size_t longest_max)
{
    bin_parts bin;
    lane_parts lane;

    return (wgi_plan){.tokens_max = tokens_max,
                      .longest_max = longest_max,
                      .bin_bytes = carve_bin(encoder, tokens_max, NULL, &bin),
                      .lane_bytes = carve_lane(encoder, NULL, &lane)};
}

/* ------------------------------------------------------------------------------------ run */

typedef struct run_state {
    const wgi_encoder *encoder;
    const wgi_bin *bin;
    const wgi_forward *forward;
    bin_parts parts;
    const encoder_layer *layer; /* whose loop is running */
    const encoder_layer *next;  /* whose Q/K/V the block makes; NULL behind the last */
} run_state;

/* The rows of a block, and what the lane brings along. */
typedef struct block {
    size_t row, rows;
    wgi_view hidden, context;
    lane_parts lane;
} block;

static block block_of(const run_state *state, size_t index, size_t lane)
{
    size_t height = state->encoder->backend->block_rows, total = state->bin->token_count;
    block b = {.row = index * height};

    b.rows = total - b.row < height ? total - b.row : height;
    b.hidden = wgi_view_from(state->parts.hidden, b.row);
    b.context = wgi_view_from(state->parts.context, b.row);
    (void)carve_lane(state->encoder, state->forward->lane_memory[lane], &b.lane);
    return b;
}

static void next_qkv(const run_state *state, const block *b)
{
    const wgi_backend *backend = state->encoder->backend;

    if (!state->next) return;
    backend->qkv(backend, state->next->attention, b->hidden, state->parts.qkv,
                 state->bin->token_count, b->row, b->rows, b->lane.scratch);
}

static void embed_block(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_encoder *encoder = state->encoder;
    const wgi_backend *backend = encoder->backend;
    const wgi_bin *bin = state->bin;
    block b = block_of(state, index, lane);

    backend->embed(backend, &encoder->embedding, bin->token_ids + b.row, bin->position_ids + b.row,
                   bin->type_ids + b.row, b.hidden, b.rows);
    backend->layer_norm(backend, &encoder->embedding_norm, b.hidden, b.rows);
    next_qkv(state, &b);
}

static void attend_item(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_backend *backend = state->encoder->backend;
    uint32_t heads = state->encoder->description.key_head_count;
    const stretch *part = &state->parts.stretches[index / heads];
    wgi_attend_item item = {.segment = state->bin->segments[part->segment],
                            .first = part->first,
                            .count = part->count,
                            .key_head = (uint32_t)(index % heads)};
    lane_parts parts;

    (void)carve_lane(state->encoder, state->forward->lane_memory[lane], &parts);
    backend->attend(backend, state->layer->attention, state->parts.qkv, state->bin->token_count,
                    &item, state->parts.context, parts.scratch);
}

static void layer_block(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_backend *backend = state->encoder->backend;
    const encoder_layer *layer = state->layer;
    wgi_activation activation = state->encoder->description.activation;
    const wgi_view nothing = {NULL, 0};
    block b = block_of(state, index, lane);

    backend->linear(backend, layer->out, b.context, b.hidden, b.hidden, WGI_ACTIVATION_NONE, b.rows,
                    b.lane.scratch);
    backend->layer_norm(backend, &layer->attention_norm, b.hidden, b.rows);
    backend->linear(backend, layer->up, b.hidden, b.lane.wide, nothing, activation, b.rows,
                    b.lane.scratch);
    backend->linear(backend, layer->down, b.lane.wide, b.hidden, b.hidden, WGI_ACTIVATION_NONE,
                    b.rows, b.lane.scratch);
    backend->layer_norm(backend, &layer->output_norm, b.hidden, b.rows);
    next_qkv(state, &b);
}

/* Ids index tables, so they are looked at whatever the caller promised. */
static wg_status check_ids(const wgi_description *d, const wgi_bin *bin, wg_error *err)
{
    for (size_t i = 0; i < bin->token_count; i++) {
        if ((uint64_t)(uint32_t)bin->token_ids[i] >= d->vocabulary_count)
            return wgi_fail(err, WG_ERR_ARGUMENT, "row %zu: token id %d, the model has %llu", i,
                            (int)bin->token_ids[i], (unsigned long long)d->vocabulary_count);
        if (d->position_count && (uint32_t)bin->position_ids[i] >= d->position_count)
            return wgi_fail(err, WG_ERR_ARGUMENT, "row %zu: position %d, the model has %u", i,
                            (int)bin->position_ids[i], d->position_count);
        if (d->type_count && (uint32_t)bin->type_ids[i] >= d->type_count)
            return wgi_fail(err, WG_ERR_ARGUMENT, "row %zu: token type %d, the model has %u", i,
                            (int)bin->type_ids[i], d->type_count);
    }
    return WG_OK;
}

static size_t cut_stretches(const wgi_bin *bin, size_t rows, stretch *stretches)
{
    size_t count = 0;

    for (size_t s = 0; s < bin->sequence_count; s++)
        for (size_t first = 0; first < bin->segments[s].count; first += rows) {
            size_t left = bin->segments[s].count - first;
            stretches[count++] = (stretch){.segment = (uint32_t)s,
                                           .first = (uint32_t)first,
                                           .count = (uint32_t)(left < rows ? left : rows)};
        }
    return count;
}

static void probe(const run_state *state, uint32_t layer)
{
    const wgi_forward *forward = state->forward;

    if (forward->probe)
        forward->probe(forward->probe_context, layer, state->parts.hidden, state->bin->token_count);
}

wg_status wgi_encoder_run(const wgi_encoder *encoder, const wgi_bin *bin,
                          const wgi_forward *forward, wgi_view *hidden, wg_error *err)
{
    const wgi_description *d = &encoder->description;
    size_t height = encoder->backend->block_rows;
    size_t blocks = (bin->token_count + height - 1) / height, stretches;
    run_state state = {.encoder = encoder, .bin = bin, .forward = forward};
    wg_status status = check_ids(d, bin, err);

    if (status != WG_OK) return status;
    (void)carve_bin(encoder, bin->token_count, forward->bin_memory, &state.parts);
    stretches = cut_stretches(bin, encoder->backend->attend_rows, state.parts.stretches);

    state.next = d->layer_count ? &encoder->layers[0] : NULL;
    wgi_crew_loop(forward->crew, forward->lane, blocks, embed_block, &state);
    probe(&state, 0);
    for (uint32_t i = 0; i < d->layer_count; i++) {
        state.layer = &encoder->layers[i];
        state.next = i + 1 < d->layer_count ? &encoder->layers[i + 1] : NULL;
        wgi_crew_loop(forward->crew, forward->lane, stretches * d->key_head_count, attend_item,
                      &state);
        wgi_crew_loop(forward->crew, forward->lane, blocks, layer_block, &state);
        probe(&state, i + 1);
    }
    *hidden = state.parts.hidden;
    return WG_OK;
}
