/*
 * encoder.c - the forward pass of encoders, written once over the operations of backend.h and
 * driven by the description and the family's row.
 *
 *   embeddings, norm, Q/K/V of layer 0      a loop over row blocks
 *   for each layer:
 *     attention                             a loop over (stretch of a segment, key head)
 *     out + residual, feed-forward +        a loop over row blocks: what a block needs stays in
 *     residual, Q/K/V of the next layer     L2 from one step to the next
 *   final norm, where there is one          a loop over row blocks
 *
 *   norms behind the sums (BERT)            x = N(x + A(x)), x = N(x + F(x))
 *   norms before (ModernBERT)               x = x + A(N(x)), x = x + F(N(x))
 *
 *   bin memory    hidden [T, H] | context [T, N*D] | Q/K/V | stretches | rotary angles [T, D]
 *   lane memory   the feed-forward rows of one block [block, F] | its normed rows [block, H] |
 *                 the backend's scratch
 *
 * Each loop is offered to idle lanes (crew.h); its items are the same whoever runs them. The
 * alternative, each operation over the whole bin in turn, streams the activations through memory
 * once an operation and measured slower on large bins.
 *
 * Rotary angles are worked out once a bin, in double, from a row's position in its own text; so
 * they do not depend on the bin, and layers share them.
 *
 * Threads: an encoder is constant once open; a bin belongs to the lane that runs it.
 */
#include "model/encoder_parts.h"

#include <string.h>

#include "model/pass.h"

/* ----------------------------------------------------------------------------------- plan */

typedef struct run_state {
    wgi_pass pass;
    const wgi_encoder *encoder;
    wgi_view angles[WGI_ENCODER_ROPES]; /* data NULL: none */
    int32_t *positions;                 /* [T]; NULL: the bin's own hold */
} run_state;

typedef struct lane_parts {
    wgi_view wide;   /* [block_rows, F] */
    wgi_view normed; /* [block_rows, H], when norms stand before */
    void *scratch;
} lane_parts;

static const wgi_attention *first_attention(const wgi_encoder *encoder)
{
    return encoder->description.layer_count ? encoder->layers[0].attention : NULL;
}

static size_t carve_bin(run_state *state, size_t tokens, char *base)
{
    const wgi_encoder *encoder = state->encoder;
    size_t at = 0;

    wgi_pass_carve(&state->pass, first_attention(encoder), tokens, base, &at);
    for (size_t i = 0; i < WGI_ENCODER_ROPES; i++)
        state->angles[i] =
            encoder->frequencies[i]
                ? wgi_carve_view(base, &at, tokens, encoder->description.encoder.rotary_count)
                : (wgi_view){NULL, 0};
    state->positions =
        encoder->family->has_pad ? wgi_carve(base, &at, tokens, sizeof(int32_t)) : NULL;
    return at;
}

static size_t carve_lane(const wgi_encoder *encoder, char *base, lane_parts *parts)
{
    const wgi_backend *backend = encoder->backend;
    size_t at = 0;

    parts->wide =
        wgi_carve_view(base, &at, backend->block_rows, encoder->description.feed_forward_count);
    parts->normed =
        encoder->family->is_norm_before
            ? wgi_carve_view(base, &at, backend->block_rows, encoder->description.hidden_count)
            : (wgi_view){NULL, 0};
    parts->scratch =
        wgi_carve(base, &at, 1, backend->scratch_bytes(backend, first_attention(encoder)));
    return at;
}

static run_state state_of(const wgi_encoder *encoder)
{
    return (run_state){.pass = {.description = &encoder->description, .backend = encoder->backend},
                       .encoder = encoder};
}

wgi_plan wgi_encoder_plan(const wgi_encoder *encoder, size_t tokens_max, size_t longest_max)
{
    run_state state = state_of(encoder);
    lane_parts lane;

    return (wgi_plan){.tokens_max = tokens_max,
                      .longest_max = longest_max,
                      .bin_bytes = carve_bin(&state, tokens_max, NULL),
                      .lane_bytes = carve_lane(encoder, NULL, &lane)};
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

    (void)carve_lane(state->encoder, state->pass.forward->lane_memory[lane], &b.lane);
    return b;
}

/* What a stretch of the layer reads: the hidden rows, or their norm where norms stand before. */
static wgi_view input_of(const run_state *state, const block *b, const wgi_norm *norm)
{
    const wgi_backend *backend = state->encoder->backend;

    if (!state->encoder->family->is_norm_before || !norm->weight) return b->at.hidden;
    for (size_t row = 0; row < b->at.rows; row++)
        memcpy(b->lane.normed.data + row * b->lane.normed.stride,
               b->at.hidden.data + row * b->at.hidden.stride, norm->count * sizeof(float));
    backend->layer_norm(backend, norm, b->lane.normed, b->at.rows);
    return b->lane.normed;
}

/* The norm of a sum, where norms stand behind. */
static void norm_sum(const run_state *state, const block *b, const wgi_norm *norm)
{
    const wgi_backend *backend = state->encoder->backend;

    if (!state->encoder->family->is_norm_before)
        backend->layer_norm(backend, norm, b->at.hidden, b->at.rows);
}

static void next_qkv(const run_state *state, const block *b)
{
    const wgi_backend *backend = state->encoder->backend;
    size_t total = state->pass.bin->token_count;

    if (state->pass.next == state->encoder->description.layer_count) return;
    const wgi_encoder_layer *next = &state->encoder->layers[state->pass.next];
    backend->qkv(backend, next->attention, input_of(state, b, &next->attention_norm),
                 state->pass.qkv, total, b->at.row, b->at.rows, b->lane.scratch);
    if (state->encoder->frequencies[next->is_local]) {
        wgi_rotary rotary = {.angles = state->angles[next->is_local],
                             .count = state->encoder->description.encoder.rotary_count};
        backend->rotate(backend, next->attention, &rotary, state->pass.qkv, total, b->at.row,
                        b->at.rows);
    }
}

/* Cosines, then sines, for the positions of the block's rows. */
static void make_angles(const run_state *state, const block *b)
{
    size_t half = state->encoder->description.encoder.rotary_count / 2;

    for (size_t i = 0; i < WGI_ENCODER_ROPES && state->encoder->frequencies[i]; i++)
        for (size_t row = b->at.row; row < b->at.row + b->at.rows; row++) {
            float *out = state->angles[i].data + row * state->angles[i].stride;
            wgi_angles_turn(state->encoder->frequencies[i], half,
                            state->pass.bin->position_ids[row], out);
        }
}

static void embed_block(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_encoder *encoder = state->encoder;
    const wgi_backend *backend = encoder->backend;
    const wgi_bin *bin = state->pass.bin;
    block b = block_of(state, index, lane);

    const int32_t *positions = state->positions ? state->positions : bin->position_ids;

    backend->embed(backend, &encoder->embedding, bin->token_ids + b.at.row, positions + b.at.row,
                   bin->type_ids + b.at.row, b.at.hidden, b.at.rows);
    backend->layer_norm(backend, &encoder->embedding_norm, b.at.hidden, b.at.rows);
    make_angles(state, &b);
    next_qkv(state, &b);
}

static void attend_item(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    lane_parts parts;

    (void)carve_lane(state->encoder, state->pass.forward->lane_memory[lane], &parts);
    wgi_pass_attend(&state->pass, state->encoder->layers[state->pass.layer].attention, index,
                    parts.scratch);
}

static void layer_block(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_backend *backend = state->encoder->backend;
    const wgi_encoder_layer *layer = &state->encoder->layers[state->pass.layer];
    wgi_activation activation = state->encoder->description.activation;
    const wgi_view nothing = {NULL, 0};
    block b = block_of(state, index, lane);
    wgi_view in;

    backend->linear(backend, layer->out, b.at.context, b.at.hidden, b.at.hidden,
                    WGI_ACTIVATION_NONE, b.at.rows, b.lane.scratch);
    norm_sum(state, &b, &layer->attention_norm);
    in = input_of(state, &b, &layer->output_norm);
    backend->linear(backend, layer->gate ? layer->gate : layer->up, in, b.lane.wide, nothing,
                    activation, b.at.rows, b.lane.scratch);
    if (layer->gate)
        backend->linear_product(backend, layer->up, in, b.lane.wide, b.at.rows, b.lane.scratch);
    backend->linear(backend, layer->down, b.lane.wide, b.at.hidden, b.at.hidden,
                    WGI_ACTIVATION_NONE, b.at.rows, b.lane.scratch);
    norm_sum(state, &b, &layer->output_norm);
    next_qkv(state, &b);
}

static void final_block(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_backend *backend = state->encoder->backend;
    block b = block_of(state, index, lane);

    backend->layer_norm(backend, &state->encoder->final_norm, b.at.hidden, b.at.rows);
}

/*
 * Where positions begin behind the padding id, a padding token that stands in a text has that id as
 * its position and is not counted by those behind it, as in the original.
 */
static void set_positions(const wgi_description *d, const wgi_bin *bin, int32_t *positions)
{
    int32_t pad = (int32_t)d->position_offset - 1;

    for (size_t s = 0; s < bin->sequence_count; s++) {
        size_t end = (size_t)bin->segments[s].row + bin->segments[s].count;
        int32_t pads = 0;

        for (size_t row = bin->segments[s].row; row < end; row++) {
            bool is_pad = bin->token_ids[row] == pad;
            positions[row] = is_pad ? pad : bin->position_ids[row] - pads;
            pads += is_pad;
        }
    }
}

wg_status wgi_encoder_run(const wgi_encoder *encoder, const wgi_bin *bin,
                          const wgi_forward *forward, wgi_view *hidden, wg_error *err)
{
    const wgi_pass_loops loops = {.embed = embed_block,
                                  .layer = layer_block,
                                  .attend = attend_item,
                                  .last = encoder->final_norm.weight ? final_block : NULL};
    run_state state = state_of(encoder);
    wg_status status = wgi_bin_ids_check(&encoder->description, bin, err);

    if (status != WG_OK) return status;
    state.pass.bin = bin;
    state.pass.forward = forward;
    (void)carve_bin(&state, bin->token_count, forward->bin_memory);
    if (state.positions) set_positions(&encoder->description, bin, state.positions);
    wgi_pass_run(&state.pass, &loops, &state);
    *hidden = state.pass.hidden;
    return WG_OK;
}
