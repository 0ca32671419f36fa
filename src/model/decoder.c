/*
 * decoder.c - the forward pass of causal decoders, written once over the operations of backend.h.
 *
 *   embedding, norm, Q/K/V of layer 0, rotation         a loop over row blocks
 *   for each layer:
 *     attention                                         a loop over (stretch of a segment, key
 * head) out [norm] + residual, norm, gate and up, down    a loop over row blocks: what a block
 * needs [norm] + residual, norm, Q/K/V of the next layer  stays in L2 from one step to the next
 *   final norm                                          a loop over row blocks
 *
 *   bin memory    hidden [T, H] | context [T, N*D] | Q/K/V | angles [T, rotary] x 1 or 2 |
 * stretches lane memory   normed [block, H] | the feed-forward rows [block, F] | the backend's
 * scratch
 *
 * The residual stream stays as it is (pre-norm); norms write beside it. In brackets: families with
 * norms behind the blocks (Gemma 3), or a factor on what is added (Granite).
 *
 * The angles of a row are worked out once a bin in double and shared by all heads and layers;
 * tables by position would be as long as the longest text that a model takes. They depend on the
 * row's own position only.
 *
 * Threads: a decoder is constant once open; a bin belongs to the lane that runs it.
 */
#include "model/decoder.h"

#include "model/decoder_parts.h"
#include "model/pass.h"

/* ----------------------------------------------------------------------------------- plan */

typedef struct bin_parts {
    wgi_view hidden, context;
    wgi_view angles[WGI_ROPES];
    void *qkv;
    wgi_stretch *stretches;
} bin_parts;

typedef struct lane_parts {
    wgi_view normed; /* [block_rows, H] */
    wgi_view wide;   /* [block_rows, F] */
    void *scratch;
} lane_parts;

static size_t carve_bin(const wgi_decoder *decoder, size_t tokens, char *base, bin_parts *parts)
{
    const wgi_description *d = &decoder->description;
    size_t at = 0, stretches = wgi_stretches_most(decoder->backend, tokens);

    parts->hidden = wgi_carve_view(base, &at, tokens, d->hidden_count);
    parts->context = wgi_carve_view(base, &at, tokens, (size_t)d->head_count * d->head_dim);
    parts->qkv =
        wgi_carve(base, &at, 1, decoder->backend->qkv_bytes(decoder->layers[0].attention, tokens));
    for (size_t i = 0; i < WGI_ROPES; i++)
        parts->angles[i] = decoder->frequencies[i]
                               ? wgi_carve_view(base, &at, tokens, d->decoder.rotary_count)
                               : parts->angles[0];
    parts->stretches = wgi_carve(base, &at, stretches, sizeof(wgi_stretch));
    return at;
}

static size_t carve_lane(const wgi_decoder *decoder, char *base, lane_parts *parts)
{
    const wgi_backend *backend = decoder->backend;
    const wgi_description *d = &decoder->description;
    size_t at = 0;

    parts->normed = wgi_carve_view(base, &at, backend->block_rows, d->hidden_count);
    parts->wide = wgi_carve_view(base, &at, backend->block_rows, d->feed_forward_count);
    parts->scratch =
        wgi_carve(base, &at, 1, backend->scratch_bytes(backend, decoder->layers[0].attention));
    return at;
}

wgi_plan wgi_decoder_plan(const wgi_decoder *decoder, size_t tokens_max, size_t longest_max)
{
    bin_parts bin;
    lane_parts lane;

    return (wgi_plan){.tokens_max = tokens_max,
                      .longest_max = longest_max,
                      .bin_bytes = carve_bin(decoder, tokens_max, NULL, &bin),
                      .lane_bytes = carve_lane(decoder, NULL, &lane)};
}

/* ------------------------------------------------------------------------------------ run */

typedef struct run_state {
    const wgi_decoder *decoder;
    const wgi_bin *bin;
    const wgi_forward *forward;
    bin_parts parts;
    const wgi_decoder_layer *layer; /* whose loop is running */
    const wgi_decoder_layer *next;  /* whose Q/K/V the block makes; NULL behind the last */
} run_state;

/* The rows of a block, and what the lane brings along. */
typedef struct block {
    size_t row, rows;
    wgi_view hidden, context;
    lane_parts lane;
} block;

static block block_of(const run_state *state, size_t index, size_t lane)
{
    size_t height = state->decoder->backend->block_rows, total = state->bin->token_count;
    block b = {.row = index * height};

    b.rows = total - b.row < height ? total - b.row : height;
    b.hidden = wgi_view_from(state->parts.hidden, b.row);
    b.context = wgi_view_from(state->parts.context, b.row);
    (void)carve_lane(state->decoder, state->forward->lane_memory[lane], &b.lane);
    return b;
}

/* Norm, Q/K/V and rotation of the next layer. */
static void next_qkv(const run_state *state, const block *b)
{
    const wgi_decoder *decoder = state->decoder;
    const wgi_backend *backend = decoder->backend;
    const wgi_decoder_layer *next = state->next;
    bool has_head_norm = decoder->description.decoder.has_head_norm;
    size_t rows = state->bin->token_count;

    if (!next) return;
    wgi_rotary rotary = {.angles = state->parts.angles[next->is_local ? 1 : 0],
                         .count = decoder->description.decoder.rotary_count,
                         .query_norm = has_head_norm ? &next->query_norm : NULL,
                         .key_norm = has_head_norm ? &next->key_norm : NULL};
    backend->rms_norm(backend, &next->attention_norm, b->hidden, b->lane.normed, b->rows);
    backend->qkv(backend, next->attention, b->lane.normed, state->parts.qkv, rows, b->row, b->rows,
                 b->lane.scratch);
    backend->rotate(backend, next->attention, &rotary, state->parts.qkv, rows, b->row, b->rows);
}

static void embed_block(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_decoder *decoder = state->decoder;
    const wgi_decoder_traits *traits = &decoder->description.decoder;
    const wgi_backend *backend = decoder->backend;
    const wgi_bin *bin = state->bin;
    block b = block_of(state, index, lane);

    backend->embed(backend, &decoder->embedding, bin->token_ids + b.row, bin->position_ids + b.row,
                   bin->type_ids + b.row, b.hidden, b.rows);
    for (size_t row = 0; row < b.rows && traits->embedding_scale != 1; row++)
        for (size_t j = 0; j < decoder->description.hidden_count; j++)
            b.hidden.data[row * b.hidden.stride + j] *= traits->embedding_scale;
    for (size_t i = 0; i < WGI_ROPES && decoder->frequencies[i]; i++) {
        wgi_view angles = wgi_view_from(state->parts.angles[i], b.row);
        for (size_t row = 0; row < b.rows; row++)
            wgi_angles_turn(decoder->frequencies[i], traits->rotary_count / 2,
                            bin->position_ids[b.row + row], angles.data + row * angles.stride);
    }
    next_qkv(state, &b);
}

static void attend_item(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_backend *backend = state->decoder->backend;
    uint32_t heads = state->decoder->description.key_head_count;
    wgi_attend_item item = wgi_stretch_item(state->bin, state->parts.stretches, index, heads);
    lane_parts parts;

    (void)carve_lane(state->decoder, state->forward->lane_memory[lane], &parts);
    backend->attend(backend, state->layer->attention, state->parts.qkv, state->bin->token_count,
                    &item, state->parts.context, parts.scratch);
}

/* hidden += factor * norm(in W^T); the norm where the family has it. */
static void add_branch(const run_state *state, const block *b, const wgi_linear *linear,
                       const wgi_norm *post, wgi_view in)
{
    const wgi_description *d = &state->decoder->description;
    const wgi_backend *backend = state->decoder->backend;
    const wgi_view nothing = {NULL, 0};
    wgi_view out = b->lane.normed;

    if (!d->decoder.has_post_norm && d->decoder.residual_scale == 1) {
        backend->linear(backend, linear, in, b->hidden, b->hidden, WGI_ACTIVATION_NONE, b->rows,
                        b->lane.scratch);
        return;
    }
    backend->linear(backend, linear, in, out, nothing, WGI_ACTIVATION_NONE, b->rows,
                    b->lane.scratch);
    if (d->decoder.has_post_norm) backend->rms_norm(backend, post, out, out, b->rows);
    for (size_t row = 0; row < b->rows; row++) {
        float *to = b->hidden.data + row * b->hidden.stride;
        const float *from = out.data + row * out.stride;
        for (size_t j = 0; j < d->hidden_count; j++)
            to[j] += d->decoder.residual_scale * from[j];
    }
}

static void layer_block(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_backend *backend = state->decoder->backend;
    const wgi_decoder_layer *layer = state->layer;
    wgi_activation activation = state->decoder->description.activation;
    const wgi_view nothing = {NULL, 0};
    block b = block_of(state, index, lane);

    add_branch(state, &b, layer->out, &layer->attention_post, b.context);
    backend->rms_norm(backend, &layer->feed_forward_norm, b.hidden, b.lane.normed, b.rows);
    backend->linear(backend, layer->gate, b.lane.normed, b.lane.wide, nothing, activation, b.rows,
                    b.lane.scratch);
    backend->linear_product(backend, layer->up, b.lane.normed, b.lane.wide, b.rows, b.lane.scratch);
    add_branch(state, &b, layer->down, &layer->feed_forward_post, b.lane.wide);
    next_qkv(state, &b);
}

static void final_block(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_backend *backend = state->decoder->backend;
    block b = block_of(state, index, lane);

    backend->rms_norm(backend, &state->decoder->final_norm, b.hidden, b.hidden, b.rows);
}

static void probe(const run_state *state, uint32_t layer)
{
    const wgi_forward *forward = state->forward;

    if (forward->probe)
        forward->probe(forward->probe_context, layer, state->parts.hidden, state->bin->token_count);
}

wg_status wgi_decoder_run(const wgi_decoder *decoder, const wgi_bin *bin,
                          const wgi_forward *forward, wgi_view *hidden, wg_error *err)
{
    const wgi_description *d = &decoder->description;
    size_t height = decoder->backend->block_rows;
    size_t blocks = (bin->token_count + height - 1) / height, stretches;
    run_state state = {.decoder = decoder, .bin = bin, .forward = forward};
    wg_status status = wgi_bin_ids_check(d, bin, err);

    if (status != WG_OK) return status;
    (void)carve_bin(decoder, bin->token_count, forward->bin_memory, &state.parts);
    stretches = wgi_stretches_cut(bin, decoder->backend->attend_rows, state.parts.stretches);

    state.next = &decoder->layers[0];
    wgi_crew_loop(forward->crew, forward->lane, blocks, embed_block, &state);
    probe(&state, 0);
    for (uint32_t i = 0; i < d->layer_count; i++) {
        state.layer = &decoder->layers[i];
        state.next = i + 1 < d->layer_count ? &decoder->layers[i + 1] : NULL;
        wgi_crew_loop(forward->crew, forward->lane, stretches * d->key_head_count, attend_item,
                      &state);
        wgi_crew_loop(forward->crew, forward->lane, blocks, layer_block, &state);
        probe(&state, i + 1);
    }
    wgi_crew_loop(forward->crew, forward->lane, blocks, final_block, &state);
    *hidden = state.parts.hidden;
    return WG_OK;
}
