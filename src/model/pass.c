/*
 * pass.c - bookkeeping of a forward pass; see pass.h.
 *
 * The idea: encoder and decoder differ in what a loop does with a block, not in how a bin is cut up
 * nor in the order of the loops. One pass with switches for both was refused: their bodies would be
 * a list of exceptions.
 *
 * Stretches begin at multiples of the backend's rows counted from the segment's start, so that a
 * row's arithmetic does not depend on where the segment lies.
 *
 * Threads: no state.
 */
#include "model/pass.h"

#include <math.h>

#include "base/alloc.h"

void *wgi_carve(char *base, size_t *at, size_t count, size_t item_bytes)
{
    size_t bytes, begin = *at;

    if (!wgi_mul(count, item_bytes, &bytes) || !wgi_add(bytes, WGI_BYTE_ALIGN - 1, &bytes) ||
        !wgi_add(begin, bytes / WGI_BYTE_ALIGN * WGI_BYTE_ALIGN, at))
        *at = SIZE_MAX;
    return base ? base + begin : NULL;
}

wgi_view wgi_carve_view(char *base, size_t *at, size_t rows, size_t columns)
{
    wgi_view view = {.stride = wgi_view_stride(columns)};

    view.data = wgi_carve(base, at, rows, view.stride * sizeof(float));
    return view;
}

void wgi_pass_carve(wgi_pass *pass, const wgi_attention *attention, size_t tokens, char *base,
                    size_t *at)
{
    const wgi_description *d = pass->description;
    const wgi_backend *backend = pass->backend;
    size_t stretches = tokens + tokens / backend->attend_rows; /* the most that there can be */

    pass->hidden = wgi_carve_view(base, at, tokens, d->hidden_count);
    pass->context = wgi_carve_view(base, at, tokens, (size_t)d->head_count * d->head_dim);
    pass->qkv = wgi_carve(base, at, 1, attention ? backend->qkv_bytes(attention, tokens) : 0);
    pass->stretches = wgi_carve(base, at, stretches, sizeof(wgi_stretch));
}

wgi_block wgi_pass_block(const wgi_pass *pass, size_t index)
{
    size_t height = pass->backend->block_rows, row = index * height;
    size_t left = pass->bin->token_count - row;

    return (wgi_block){.row = row,
                       .rows = left < height ? left : height,
                       .hidden = wgi_view_from(pass->hidden, row),
                       .context = wgi_view_from(pass->context, row)};
}

void wgi_pass_attend(const wgi_pass *pass, const wgi_attention *attention, size_t index,
                     void *scratch)
{
    uint32_t heads = pass->description->key_head_count;
    const wgi_stretch *part = &pass->stretches[index / heads];
    wgi_attend_item item = {.segment = pass->bin->segments[part->segment],
                            .first = part->first,
                            .count = part->count,
                            .key_head = (uint32_t)(index % heads)};

    pass->backend->attend(pass->backend, attention, pass->qkv, pass->bin->token_count, &item,
                          pass->context, scratch);
}

/* Cuts every segment into stretches of at most `rows`, and returns how many there are. */
static size_t cut_stretches(const wgi_bin *bin, size_t rows, wgi_stretch *stretches)
{
    size_t count = 0;

    for (size_t s = 0; s < bin->sequence_count; s++)
        for (size_t first = 0; first < bin->segments[s].count; first += rows) {
            size_t left = bin->segments[s].count - first;
            stretches[count++] = (wgi_stretch){.segment = (uint32_t)s,
                                               .first = (uint32_t)first,
                                               .count = (uint32_t)(left < rows ? left : rows)};
        }
    return count;
}

static void probe(const wgi_pass *pass, uint32_t layer)
{
    const wgi_forward *forward = pass->forward;

    if (forward->probe)
        forward->probe(forward->probe_context, layer, pass->hidden, pass->bin->token_count);
}

void wgi_pass_run(wgi_pass *pass, const wgi_pass_loops *loops, void *context)
{
    wgi_crew *crew = pass->forward->crew;
    size_t lane = pass->forward->lane, height = pass->backend->block_rows;
    size_t blocks = (pass->bin->token_count + height - 1) / height;
    size_t items = cut_stretches(pass->bin, pass->backend->attend_rows, pass->stretches) *
                   pass->description->key_head_count;

    pass->next = 0;
    wgi_crew_loop(crew, lane, blocks, loops->embed, context);
    probe(pass, 0);
    while (pass->next < pass->description->layer_count) {
        pass->layer = pass->next++;
        wgi_crew_loop(crew, lane, items, loops->attend, context);
        wgi_crew_loop(crew, lane, blocks, loops->layer, context);
        probe(pass, pass->next);
    }
    if (loops->last) wgi_crew_loop(crew, lane, blocks, loops->last, context);
}

void wgi_angles_turn(const double *frequencies, size_t half, int32_t position, float *out)
{
    for (size_t j = 0; j < half; j++) {
        double angle = (double)position * frequencies[j];
        out[j] = (float)cos(angle);
        out[half + j] = (float)sin(angle);
    }
}

wg_status wgi_bin_ids_check(const wgi_description *d, const wgi_bin *bin, wg_error *err)
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
