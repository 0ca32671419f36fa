/*
 * varlen.c - wg_attention_varlen: attention of the CPU backend on tensors of the caller.
 *
 *   cu_seqlens  ->  tiles of query rows, longest work first  ->  x key heads = items, on any lane
 *
 * The arithmetic is that of the product's own models (cpu/cpu_attend.c), here on the caller's
 * strides; nothing is copied but what every item packs for itself. A row's bits do not depend on
 * how sequences are cut into items, so the height of an item follows from how many lanes want work.
 * Items are claimed in the order of falling work (Graham 1969), lest a long one is left for the
 * end.
 *
 * Threads: helpers of the process (base/helpers.h); each lane has its own scratch.
 */
#include "warpgroup/attention.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_attend.h"
#include "base/alloc.h"
#include "base/helpers.h"
#include "base/os_processor.h"

#define HEAD_DIM_MAX    512
#define ITEM_ROWS_LEAST 96 /* fewer, and packing the keys is felt beside the products */
#define LANES_MAX       1024
#define ITEMS_A_LANE    4 /* so that lanes end together */

typedef struct tile {
    uint64_t work;           /* scores, roughly: what its time goes with */
    uint32_t row, row_count; /* of its sequence */
    uint32_t first, count;   /* query rows */
} tile;

typedef struct varlen_call {
    const wg_varlen *options;
    const wgi_cpu_kernels *kernels;
    wgi_attention_shape shape;
    tile *tiles;
    size_t tile_count;
    char *scratch;
    size_t lane_bytes;
} varlen_call;

/* ---------------------------------------------------------------------------------- check */

/* *end: floats from the first to behind the last of count items at a stride, each of `floats`. */
static bool span(size_t count, size_t stride, size_t floats, size_t *end)
{
    size_t bytes;

    return wgi_mul(count - 1, stride, end) && wgi_add(*end, floats, end) &&
           wgi_mul(*end, sizeof(float), &bytes) && bytes <= PTRDIFF_MAX;
}

/* The rows and heads of a tensor can be addressed. */
static wg_status check_heads(const char *name, const void *data, size_t row_stride,
                             size_t head_stride, size_t rows, size_t heads, size_t dim,
                             wg_error *err)
{
    size_t head_end, end;

    if (!data) return wgi_fail(err, WG_ERR_ARGUMENT, "%s is NULL for %zu rows", name, rows);
    if ((uintptr_t)data % sizeof(float))
        return wgi_fail(err, WG_ERR_ARGUMENT, "%s does not lie on a multiple of %zu bytes", name,
                        sizeof(float));
    if (!span(heads, head_stride, dim, &head_end) || !span(rows, row_stride, head_end, &end))
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "%s: %zu rows at a stride of %zu with %zu heads at a stride of %zu do not "
                        "fit into memory",
                        name, rows, row_stride, heads, head_stride);
    return WG_OK;
}

/* Items of `floats` at a stride do not touch; one alone always. */
static bool is_apart(size_t count, size_t stride, size_t floats)
{
    return count < 2 || stride >= floats;
}

/* No float of out belongs to two rows or heads: heads lie inside a row, or rows inside a head. */
static wg_status check_out(const wg_varlen *o, size_t rows, wg_error *err)
{
    size_t heads = o->head_count, dim = o->head_dim, row_end, head_end;
    bool fits = span(heads, o->out_head_stride, dim, &row_end) &&
                span(rows, o->out_row_stride, dim, &head_end);

    if (fits && is_apart(heads, o->out_head_stride, dim) &&
        is_apart(rows, o->out_row_stride, row_end))
        return WG_OK;
    if (fits && is_apart(rows, o->out_row_stride, dim) &&
        is_apart(heads, o->out_head_stride, head_end))
        return WG_OK;
    return wgi_fail(
        err, WG_ERR_ARGUMENT,
        "out: rows at out_row_stride %zu and heads of %zu floats at out_head_stride %zu "
        "overlap",
        o->out_row_stride, dim, o->out_head_stride);
}

static wg_status check_shape(const wg_varlen *o, wg_error *err)
{
    if (o->head_count == 0 || o->key_head_count == 0 || o->head_count % o->key_head_count)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "head_count is %u and key_head_count %u; both must be above 0, and the "
                        "second must divide the first",
                        o->head_count, o->key_head_count);
    if (o->head_dim == 0 || o->head_dim > HEAD_DIM_MAX)
        return wgi_fail(err, WG_ERR_ARGUMENT, "head_dim is %u; 1 to %d is possible", o->head_dim,
                        HEAD_DIM_MAX);
    if (!(o->scale >= 0) || !isfinite(o->scale * 2))
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "scale is %g; it must be finite and above 0, or 0 for 1 / sqrt(head_dim)",
                        (double)o->scale);
    return WG_OK;
}

static wg_status check_sequences(const wg_varlen *o, wg_error *err)
{
    const int32_t *cu = o->cu_seqlens;

    if (!cu) return wgi_fail(err, WG_ERR_ARGUMENT, "cu_seqlens is NULL");
    if (cu[0] != 0)
        return wgi_fail(err, WG_ERR_ARGUMENT, "cu_seqlens[0] is %d; it must be 0", cu[0]);
    for (size_t i = 0; i < o->sequence_count; i++)
        if (cu[i + 1] < cu[i])
            return wgi_fail(err, WG_ERR_ARGUMENT, "cu_seqlens[%zu] is %d, below %d before it",
                            i + 1, cu[i + 1], cu[i]);
    return WG_OK;
}

static wg_status check(const wg_varlen *o, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(check_shape(o, err));
    WGI_TRY(check_sequences(o, err));
    size_t rows = (size_t)o->cu_seqlens[o->sequence_count], dim = o->head_dim;
    if (rows == 0) goto cleanup;
    WGI_TRY(check_heads("query", o->query.data, o->query.row_stride, o->query.head_stride, rows,
                        o->head_count, dim, err));
    WGI_TRY(check_heads("key", o->key.data, o->key.row_stride, o->key.head_stride, rows,
                        o->key_head_count, dim, err));
    WGI_TRY(check_heads("value", o->value.data, o->value.row_stride, o->value.head_stride, rows,
                        o->key_head_count, dim, err));
    WGI_TRY(check_heads("out", o->out, o->out_row_stride, o->out_head_stride, rows, o->head_count,
                        dim, err));
    WGI_TRY(check_out(o, rows, err));
    if (o->out == o->query.data || o->out == o->key.data || o->out == o->value.data)
        status = wgi_fail(err, WG_ERR_ARGUMENT, "out is where query, key or value is");

cleanup:
    return status;
}

/* ----------------------------------------------------------------------------------- items */

static size_t count_tiles(const wg_varlen *o, size_t rows)
{
    size_t count = 0;

    for (size_t i = 0; i < o->sequence_count; i++)
        count += ((size_t)o->cu_seqlens[i + 1] - (size_t)o->cu_seqlens[i] + rows - 1) / rows;
    return count;
}

static uint64_t work_of(const wgi_attention_shape *shape, const tile *t)
{
    uint64_t keys = shape->is_causal ? t->first + t->count : t->row_count;
    uint64_t reach = (uint64_t)shape->window * (shape->is_causal ? 1 : 2) + t->count;

    return (shape->window && reach < keys ? reach : keys) * t->count;
}

/* Falling work, then rising place. */
static int compare(const void *a, const void *b)
{
    const tile *x = a, *y = b;

    if (x->work != y->work) return x->work < y->work ? 1 : -1;
    return x->row + x->first < y->row + y->first ? -1 : 1;
}

/* Sequences as tiles of query rows, small enough that there is an item for every lane. */
static wg_status cut(varlen_call *call, size_t lanes, wg_error *err)
{
    const wg_varlen *o = call->options;
    size_t rows = WGI_CPU_ATTEND_ROWS, at = 0;

    call->tile_count = count_tiles(o, rows);
    while (lanes > 1 && rows / 2 >= ITEM_ROWS_LEAST &&
           call->tile_count * o->key_head_count / ITEMS_A_LANE < lanes) {
        rows /= 2;
        call->tile_count = count_tiles(o, rows);
    }
    call->tiles = wgi_calloc(call->tile_count, sizeof(*call->tiles));
    if (!call->tiles)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu tiles", call->tile_count);
    for (size_t i = 0; i < o->sequence_count; i++) {
        uint32_t row = (uint32_t)o->cu_seqlens[i], count = (uint32_t)o->cu_seqlens[i + 1] - row;

        for (uint32_t first = 0; first < count; first += (uint32_t)rows) {
            tile *t = &call->tiles[at++];
            uint32_t left = count - first;

            *t = (tile){.row = row, .row_count = count, .first = first};
            t->count = left < rows ? left : (uint32_t)rows;
            t->work = work_of(&call->shape, t);
        }
    }
    if (lanes > 1) qsort(call->tiles, call->tile_count, sizeof(*call->tiles), compare);
    return WG_OK;
}

static wgi_cpu_rows head_of(const wg_heads *heads, size_t head, size_t row)
{
    return (wgi_cpu_rows){heads->data + row * heads->row_stride + head * heads->head_stride,
                          heads->row_stride};
}

/* One tile of query rows with one key head and the query heads that share it. */
static void run_item(void *context, size_t index, size_t lane)
{
    const varlen_call *call = context;
    const wg_varlen *o = call->options;
    const tile *t = &call->tiles[index / o->key_head_count];
    size_t key_head = index % o->key_head_count, group = o->head_count / o->key_head_count;
    wgi_cpu_attend_task task = {.kernels = call->kernels,
                                .shape = &call->shape,
                                .row_count = t->row_count,
                                .first = t->first,
                                .count = t->count,
                                .key = head_of(&o->key, key_head, t->row),
                                .value = head_of(&o->value, key_head, t->row)};

    for (size_t i = 0; i < group; i++) {
        size_t head = key_head * group + i;

        task.query = head_of(&o->query, head, t->row);
        task.out = (wgi_view){o->out + t->row * o->out_row_stride + head * o->out_head_stride,
                              o->out_row_stride};
        wgi_cpu_attend_head(&task, i > 0, call->scratch + lane * call->lane_bytes);
    }
}

wg_status wg_attention_varlen(const wg_varlen *options, wg_error *err)
{
    wg_status status = WG_OK;
    const wgi_backend *backend = NULL;
    varlen_call call = {.options = options};
    size_t lanes, items, bytes;

    if (!options) return wgi_fail(err, WG_ERR_ARGUMENT, "options is NULL");
    WGI_TRY(check(options, err));
    WGI_TRY(wgi_backend_find(&backend, "cpu", options->isa, err));
    if (options->cu_seqlens[options->sequence_count] == 0) goto cleanup;

    call.kernels = wgi_cpu_of(backend)->kernels;
    call.shape = (wgi_attention_shape){
        .head_count = options->head_count,
        .key_head_count = options->key_head_count,
        .head_dim = options->head_dim,
        .is_causal = options->is_causal != 0,
        .scale = options->scale > 0 ? options->scale : 1 / sqrtf((float)options->head_dim),
        .window = options->window > INT32_MAX ? 0 : options->window};
    lanes = options->thread_count ? options->thread_count : wgi_core_count();
    if (lanes > LANES_MAX) lanes = LANES_MAX;
    WGI_TRY(cut(&call, lanes, err));
    items = call.tile_count * options->key_head_count; /* not above the floats of out */
    if (lanes > items) lanes = items;
    call.lane_bytes = wgi_cpu_attend_bytes(options->head_dim);
    if (wgi_mul(call.lane_bytes, lanes, &bytes))
        call.scratch = wgi_malloc_aligned(WGI_BYTE_ALIGN, bytes);
    if (!call.scratch) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for attention on %zu threads", lanes);
        goto cleanup;
    }
    wgi_helpers_loop(lanes, items, run_item, &call);

cleanup:
    wgi_free(call.scratch);
    wgi_free(call.tiles);
    return status;
}
