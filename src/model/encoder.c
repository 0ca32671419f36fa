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

typedef struct bin_parts {
    wgi_view hidden, context;
    void *qkv;
    wgi_stretch *stretches;
    wgi_view angles[WGI_ENCODER_ROPES]; /* data NULL: none */
    int32_t *positions;                 /* [T]; NULL: the bin's own hold */
} bin_parts;

typedef struct lane_parts {
    wgi_view wide;   /* [block_rows, F] */
    wgi_view normed; /* [block_rows, H], when norms stand before */
    void *scratch;
} lane_parts;

static size_t carve_bin(const wgi_encoder *encoder, size_t tokens, char *base, bin_parts *parts)
{
    const wgi_description *d = &encoder->description;
    size_t at = 0, stretches = wgi_stretches_most(encoder->backend, tokens);

    parts->hidden = wgi_carve_view(base, &at, tokens, d->hidden_count);
    parts->context = wgi_carve_view(base, &at, tokens, (size_t)d->head_count * d->head_dim);
    parts->qkv = wgi_carve(
        base, &at, 1,
        d->layer_count ? encoder->backend->qkv_bytes(encoder->layers[0].attention, tokens) : 0);
    parts->stretches = wgi_carve(base, &at, stretches, sizeof(wgi_stretch));
    for (size_t i = 0; i < WGI_ENCODER_ROPES; i++)
        parts->angles[i] = encoder->frequencies[i]
                               ? wgi_carve_view(base, &at, tokens, d->encoder.rotary_count)
                               : (wgi_view){NULL, 0};
    parts->positions = NULL;
    if (encoder->family->has_pad) parts->positions = wgi_carve(base, &at, tokens, sizeof(int32_t));
    return at;
}

static size_t carve_lane(const wgi_encoder *encoder, char *base, lane_parts *parts)
{
    const wgi_backend *backend = encoder->backend;
    const wgi_attention *attention =
        encoder->description.layer_count ? encoder->layers[0].attention : NULL;
    size_t at = 0;

    parts->wide =
        wgi_carve_view(base, &at, backend->block_rows, encoder->description.feed_forward_count);
    parts->normed =
        encoder->family->is_norm_before
            ? wgi_carve_view(base, &at, backend->block_rows, encoder->description.hidden_count)
            : (wgi_view){NULL, 0};
    parts->scratch = wgi_carve(base, &at, 1, backend->scratch_bytes(backend, attention));
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
    const wgi_encoder_layer *layer; /* whose loop is running */
    const wgi_encoder_layer *next;  /* whose Q/K/V the block makes; NULL behind the last */
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

/* What a stretch of the layer reads: the hidden rows, or their norm where norms stand before. */
static wgi_view input_of(const run_state *state, const block *b, const wgi_norm *norm)
{
    const wgi_backend *backend = state->encoder->backend;

    if (!state->encoder->family->is_norm_before || !norm->weight) return b->hidden;
    for (size_t row = 0; row < b->rows; row++)
        memcpy(b->lane.normed.data + row * b->lane.normed.stride,
               b->hidden.data + row * b->hidden.stride, norm->count * sizeof(float));
    backend->layer_norm(backend, norm, b->lane.normed, b->rows);
    return b->lane.normed;
}

/* The norm of a sum, where norms stand behind. */
static void norm_sum(const run_state *state, const block *b, const wgi_norm *norm)
{
    const wgi_backend *backend = state->encoder->backend;

    if (!state->encoder->family->is_norm_before)
        backend->layer_norm(backend, norm, b->hidden, b->rows);
}

static void next_qkv(const run_state *state, const block *b)
{
    const wgi_backend *backend = state->encoder->backend;
    const wgi_encoder_layer *next = state->next;
    size_t total = state->bin->token_count;

    if (!next) return;
    backend->qkv(backend, next->attention, input_of(state, b, &next->attention_norm),
                 state->parts.qkv, total, b->row, b->rows, b->lane.scratch);
    if (state->encoder->frequencies[next->is_local]) {
        wgi_rotary rotary = {.angles = state->parts.angles[next->is_local],
                             .count = state->encoder->description.encoder.rotary_count};
        backend->rotate(backend, next->attention, &rotary, state->parts.qkv, total, b->row,
                        b->rows);
    }
}

/* Cosines, then sines, for the positions of the block's rows. */
static void make_angles(const run_state *state, const block *b)
{
    size_t half = state->encoder->description.encoder.rotary_count / 2;

    for (size_t i = 0; i < WGI_ENCODER_ROPES && state->encoder->frequencies[i]; i++)
        for (size_t row = b->row; row < b->row + b->rows; row++) {
            float *out = state->parts.angles[i].data + row * state->parts.angles[i].stride;
            wgi_angles_turn(state->encoder->frequencies[i], half, state->bin->position_ids[row],
                            out);
        }
}

static void embed_block(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_encoder *encoder = state->encoder;
    const wgi_backend *backend = encoder->backend;
    const wgi_bin *bin = state->bin;
    block b = block_of(state, index, lane);

    const int32_t *positions = state->parts.positions ? state->parts.positions : bin->position_ids;

    backend->embed(backend, &encoder->embedding, bin->token_ids + b.row, positions + b.row,
                   bin->type_ids + b.row, b.hidden, b.rows);
    backend->layer_norm(backend, &encoder->embedding_norm, b.hidden, b.rows);
    make_angles(state, &b);
    next_qkv(state, &b);
}

static void attend_item(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_backend *backend = state->encoder->backend;
    uint32_t heads = state->encoder->description.key_head_count;
    wgi_attend_item item = wgi_stretch_item(state->bin, state->parts.stretches, index, heads);
    lane_parts parts;

    (void)carve_lane(state->encoder, state->forward->lane_memory[lane], &parts);
    backend->attend(backend, state->layer->attention, state->parts.qkv, state->bin->token_count,
                    &item, state->parts.context, parts.scratch);
}

static void layer_block(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_backend *backend = state->encoder->backend;
    const wgi_encoder_layer *layer = state->layer;
    wgi_activation activation = state->encoder->description.activation;
    const wgi_view nothing = {NULL, 0};
    block b = block_of(state, index, lane);
    wgi_view in;

    backend->linear(backend, layer->out, b.context, b.hidden, b.hidden, WGI_ACTIVATION_NONE, b.rows,
                    b.lane.scratch);
    norm_sum(state, &b, &layer->attention_norm);
    in = input_of(state, &b, &layer->output_norm);
    backend->linear(backend, layer->gate ? layer->gate : layer->up, in, b.lane.wide, nothing,
                    activation, b.rows, b.lane.scratch);
    if (layer->gate)
        backend->linear_product(backend, layer->up, in, b.lane.wide, b.rows, b.lane.scratch);
    backend->linear(backend, layer->down, b.lane.wide, b.hidden, b.hidden, WGI_ACTIVATION_NONE,
                    b.rows, b.lane.scratch);
    norm_sum(state, &b, &layer->output_norm);
    next_qkv(state, &b);
}

static void final_block(void *context, size_t index, size_t lane)
{
    const run_state *state = context;
    const wgi_backend *backend = state->encoder->backend;
    block b = block_of(state, index, lane);

    backend->layer_norm(backend, &state->encoder->final_norm, b.hidden, b.rows);
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
    wg_status status = wgi_bin_ids_check(d, bin, err);

    if (status != WG_OK) return status;
    (void)carve_bin(encoder, bin->token_count, forward->bin_memory, &state.parts);
    if (state.parts.positions) set_positions(d, bin, state.parts.positions);
    stretches = wgi_stretches_cut(bin, encoder->backend->attend_rows, state.parts.stretches);

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
    if (encoder->final_norm.weight)
        wgi_crew_loop(forward->crew, forward->lane, blocks, final_block, &state);
    *hidden = state.parts.hidden;
    return WG_OK;
}
