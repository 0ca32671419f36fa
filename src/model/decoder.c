/*
 * decoder.c - the forward pass of causal decoders, written once over the operations of backend.h.
 *
 *   embedding, norm, Q/K/V of layer 0, rotation   a loop over row blocks
 *   for each layer:
 *     attention                                   a loop over (stretch of a segment, key head)
 *     out [norm] + residual, norm, gate, up,      a loop over row blocks: what a block needs
 *     down [norm] + residual, norm, Q/K/V of      stays in L2 from one step to the next
 *     the next layer, rotation
 *   final norm                                    a loop over row blocks
 *
 *   bin memory    hidden [T, H] | context [T, N*D] | Q/K/V | stretches | angles [T, rotary] x 1, 2
 *   lane memory   normed [block, H] | the feed-forward rows [block, F] | the backend's scratch
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

typedef struct run_state {
    wgi_pass pass;
    const wgi_decoder *decoder;
    wgi_view angles[WGI_ROPES];
} run_state;

typedef struct lane_parts {
    wgi_view normed; /* [block_rows, H] */
    wgi_view wide;   /* [block_rows, F] */
    void *scratch;
} lane_parts;

static size_t carve_bin(run_state *state, size_t tokens, char *base)
{
    const wgi_decoder *decoder = state->decoder;
    size_t at = 0;

    wgi_pass_carve(&state->pass, decoder->layers[0].attention, tokens, base, &at);
    for (size_t i = 0; i < WGI_ROPES; i++)
        state->angles[i] =
            decoder->frequencies[i]
                ? wgi_carve_view(base, &at, tokens, decoder->description.decoder.rotary_count)
                : state->angles[0];
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

static run_state state_of(const wgi_decoder *decoder)
{
    return (run_state){.pass = {.description = &decoder->description, .backend = decoder->backend},
                       .decoder = decoder};
}

wgi_plan wgi_decoder_plan(const wgi_decoder *decoder, size_t tokens_max, size_t longest_max)
{
    run_state state = state_of(decoder);
    lane_parts lane;

    return (wgi_plan){.tokens_max = tokens_max,
                      .longest_max = longest_max,
                      .bin_bytes = carve_bin(&state, tokens_max, NULL),
                      .lane_bytes = carve_lane(decoder, NULL, &lane)};
}

/* ------------------------------------------------------------------------------------ run */

/* A block, and what the lane brings along. */
typedef struct block {
    wgi_block at;
    lane_parts lane;
} block;

static block block_of(const run_state *state, size_t index, size_t lane)
{
    block b = {.at = wgi_pass_block(&state->pass, index)};

    (void)carve_lane(state->decoder, state->pass.forward->lane_memory[lane], &b.lane);
    return b;
}

/* Norm, Q/K/V and rotation of the next layer. */
static void next_qkv(const run_state *state, const block *b)
{
    const wgi_decoder *decoder = state->decoder;
    const wgi_backend *backend = decoder->backend;
    bool has_head_norm = decoder->description.decoder.has_head_norm;
    size_t rows = state->pass.bin->token_count;

    if (state->pass.next == decoder->description.layer_count) return;
    const wgi_decoder_layer *next = &decoder->layers[state->pass.next];
    wgi_rotary rotary = {.angles = state->angles[next->is_local ? 1 : 0],
                         .count = decoder->description.decoder.rotary_count,
                         .query_norm = has_head_norm ? &next->query_norm : NULL,
                         .key_norm = has_head_norm ? &next->key_norm : NULL};
    backend->rms_norm(backend, &next->attention_norm, b->at.hidden, b->lane.normed, b->at.rows);
    backend->qkv(backend, next->attention, b->lane.normed, state->pass.qkv, rows, b->at.row,
                 b->at.rows, b->lane.scratch);
    backend->rotate(backend, next->attention, &rotary, state->pass.qkv, rows, b->at.row,
                    b->at.rows);
}

static void embed_block(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_decoder *decoder = state->decoder;
    const wgi_decoder_traits *traits = &decoder->description.decoder;
    const wgi_backend *backend = decoder->backend;
    const wgi_bin *bin = state->pass.bin;
    block b = block_of(state, index, lane);

    backend->embed(backend, &decoder->embedding, bin->token_ids + b.at.row,
                   bin->position_ids + b.at.row, bin->type_ids + b.at.row, b.at.hidden, b.at.rows);
    for (size_t row = 0; row < b.at.rows && traits->embedding_scale != 1; row++)
        for (size_t j = 0; j < decoder->description.hidden_count; j++)
            b.at.hidden.data[row * b.at.hidden.stride + j] *= traits->embedding_scale;
    for (size_t i = 0; i < WGI_ROPES && decoder->frequencies[i]; i++) {
        wgi_view angles = wgi_view_from(state->angles[i], b.at.row);
        for (size_t row = 0; row < b.at.rows; row++)
            wgi_angles_turn(decoder->frequencies[i], traits->rotary_count / 2,
                            bin->position_ids[b.at.row + row], angles.data + row * angles.stride);
    }
    next_qkv(state, &b);
}

static void attend_item(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    lane_parts parts;

    (void)carve_lane(state->decoder, state->pass.forward->lane_memory[lane], &parts);
    wgi_pass_attend(&state->pass, state->decoder->layers[state->pass.layer].attention, index,
                    parts.scratch);
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
        backend->linear(backend, linear, in, b->at.hidden, b->at.hidden, WGI_ACTIVATION_NONE,
                        b->at.rows, b->lane.scratch);
        return;
    }
    backend->linear(backend, linear, in, out, nothing, WGI_ACTIVATION_NONE, b->at.rows,
                    b->lane.scratch);
    if (d->decoder.has_post_norm) backend->rms_norm(backend, post, out, out, b->at.rows);
    for (size_t row = 0; row < b->at.rows; row++) {
        float *to = b->at.hidden.data + row * b->at.hidden.stride;
        const float *from = out.data + row * out.stride;
        for (size_t j = 0; j < d->hidden_count; j++)
            to[j] += d->decoder.residual_scale * from[j];
    }
}

static void layer_block(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_backend *backend = state->decoder->backend;
    const wgi_decoder_layer *layer = &state->decoder->layers[state->pass.layer];
    wgi_activation activation = state->decoder->description.activation;
    const wgi_view nothing = {NULL, 0};
    block b = block_of(state, index, lane);

    add_branch(state, &b, layer->out, &layer->attention_post, b.at.context);
    backend->rms_norm(backend, &layer->feed_forward_norm, b.at.hidden, b.lane.normed, b.at.rows);
    backend->linear(backend, layer->gate, b.lane.normed, b.lane.wide, nothing, activation,
                    b.at.rows, b.lane.scratch);
    backend->linear_product(backend, layer->up, b.lane.normed, b.lane.wide, b.at.rows,
                            b.lane.scratch);
    add_branch(state, &b, layer->down, &layer->feed_forward_post, b.lane.wide);
    next_qkv(state, &b);
}

static void final_block(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_backend *backend = state->decoder->backend;
    block b = block_of(state, index, lane);

    backend->rms_norm(backend, &state->decoder->final_norm, b.at.hidden, b.at.hidden, b.at.rows);
}

wg_status wgi_decoder_run(const wgi_decoder *decoder, const wgi_bin *bin,
                          const wgi_forward *forward, wgi_view *hidden, wg_error *err)
{
    static const wgi_pass_loops loops = {
        .embed = embed_block, .layer = layer_block, .attend = attend_item, .last = final_block};
    run_state state = state_of(decoder);
    wg_status status = wgi_bin_ids_check(&decoder->description, bin, err);

    if (status != WG_OK) return status;
    state.pass.bin = bin;
    state.pass.forward = forward;
    (void)carve_bin(&state, bin->token_count, forward->bin_memory);
    wgi_pass_run(&state.pass, &loops, &state);
    *hidden = state.pass.hidden;
    return WG_OK;
}
