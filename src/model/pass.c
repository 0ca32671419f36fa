/*
 * pass.c - bookkeeping of a forward pass; see pass.h.
 *
 * The idea: encoder and decoder differ in what they compute, not in how a bin is cut up. One pass
 * with switches for both was refused: their loops would be a list of exceptions.
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

size_t wgi_stretches_most(const wgi_backend *backend, size_t tokens)
{
    return tokens + tokens / backend->attend_rows;
}

size_t wgi_stretches_cut(const wgi_bin *bin, size_t rows, wgi_stretch *stretches)
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

wgi_attend_item wgi_stretch_item(const wgi_bin *bin, const wgi_stretch *stretches, size_t index,
                                 uint32_t key_heads)
{
    const wgi_stretch *part = &stretches[index / key_heads];

    return (wgi_attend_item){.segment = bin->segments[part->segment],
                             .first = part->first,
                             .count = part->count,
                             .key_head = (uint32_t)(index % key_heads)};
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
