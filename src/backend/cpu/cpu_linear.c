/*
 * cpu_linear.c - linear layers: weights in tiles of 64 output columns, finished tile by tile.
 *
 *   weights   [tile][K][64]    packed once; a tile is streamed while a block of rows stays in L2
 *   a tile    [rows][64]       scratch in L1/L2: GEMM writes it, `finish` adds bias, activation and
 *                              residual and puts it where it belongs
 *
 * The last tile of a panel is 32, 48 or 64 wide. Rows go in blocks of at most
 * WGI_CPU_BLOCK_ROWS, a multiple of 8 and the rest, so that a layer needs 12 + 7 kernels a tile
 * width, all made when the layer is packed. A kernel that is not there (libxsmm absent, no
 * leave to make code, odd stride) is replaced by our own, which gives the same bits.
 *
 * The alternative, finishing in the registers of an own kernel, measured the same end to end.
 *
 * Threads: packed layers are constant; scratch belongs to a lane.
 */
#include "backend/cpu/cpu.h"

#include <string.h>

#include "backend/cpu/tile_xsmm.h"
#include "base/alloc.h"

#define BLOCK WGI_CPU_BLOCK_ROWS
#define TILE  WGI_CPU_TILE

typedef struct tile_kernels {
    wgi_xsmm_tile blocks[BLOCK / 8 + 1]; /* of 8 i rows */
    wgi_xsmm_tile rests[8];              /* of i rows */
} tile_kernels;

struct wgi_linear {
    size_t inputs; /* K */
    size_t panel_count, panel_columns;
    size_t wide_count;  /* tiles of 64 in a panel */
    size_t rest_width;  /* width of the last tile: 0, 32, 48 or 64 */
    size_t panel_width; /* columns of a panel with those that fill the last tile */
    size_t in_stride;   /* that the kernels were made for */
    size_t bytes;
    tile_kernels wide, rest;
    float *bias;    /* [panel][panel_width] */
    float *weights; /* [panel][tile][K][64 or rest_width] */
};

static size_t rest_width_of(size_t columns)
{
    if (columns == 0) return 0;
    return columns <= 32 ? 32 : columns <= 48 ? 48 : 64;
}

size_t wgi_cpu_linear_scratch_bytes(void)
{
    return (size_t)BLOCK * TILE * sizeof(float);
}

size_t wgi_cpu_linear_bytes(const wgi_linear *linear)
{
    return linear->bytes;
}

void wgi_cpu_linear_free(wgi_linear *linear)
{
    wgi_free(linear);
}

/* ----------------------------------------------------------------------------------- pack */

/* One row of the stacked tensors, widened; its bias too. */
static void stacked_row(const wgi_cpu_linear_parts *parts, size_t row, size_t inputs,
                        float *weights, float *bias)
{
    for (size_t i = 0; i < 3 && parts->weights[i]; i++) {
        const wgi_tensor *tensor = parts->weights[i];
        if (row < tensor->shape[0]) {
            wgi_tensor_widen(tensor, row * inputs, inputs, weights);
            *bias = 0;
            if (parts->biases[i]) wgi_tensor_widen(parts->biases[i], row, 1, bias);
            return;
        }
        row -= (size_t)tensor->shape[0];
    }
}

static void pack_tile(const wgi_cpu_linear_parts *parts, size_t inputs, size_t first, size_t have,
                      size_t width, float *row, float *weights, float *bias)
{
    for (size_t column = 0; column < width; column++) {
        size_t source = first + column;

        if (column < have && parts->rows) source = parts->rows[source];
        if (column >= have || source == WGI_CPU_NO_ROW) {
            for (size_t k = 0; k < inputs; k++)
                weights[k * width + column] = 0;
            bias[column] = 0;
            continue;
        }
        stacked_row(parts, source, inputs, row, bias + column);
        for (size_t k = 0; k < inputs; k++)
            weights[k * width + column] = row[k];
    }
}

static void find_kernels(tile_kernels *kernels, const wgi_linear *linear, size_t width)
{
    if (width == 0) return;
    for (size_t i = 1; i <= BLOCK / 8; i++)
        kernels->blocks[i] = wgi_xsmm_find(width, 8 * i, linear->inputs, linear->in_stride, TILE);
    for (size_t i = 1; i < 8; i++)
        kernels->rests[i] = wgi_xsmm_find(width, i, linear->inputs, linear->in_stride, TILE);
}

/* Bytes of the block that holds everything; false when they do not fit. */
static bool count_bytes(const wgi_linear *shape, size_t *head, size_t *bias, size_t *total)
{
    size_t columns, weights;

    *head = (sizeof(*shape) + WGI_BYTE_ALIGN - 1) / WGI_BYTE_ALIGN * WGI_BYTE_ALIGN;
    if (!wgi_mul(shape->panel_count, shape->panel_width, &columns)) return false;
    if (!wgi_mul(columns, sizeof(float), bias)) return false;
    if (!wgi_mul(*bias, shape->inputs, &weights)) return false;
    return wgi_add(weights, *bias, total) && wgi_add(*total, *head, total) &&
           wgi_add(*total, WGI_BYTE_ALIGN, total);
}

wg_status wgi_cpu_linear_make(const wgi_backend *self, wgi_linear **out,
                              const wgi_cpu_linear_parts *parts, wg_error *err)
{
    wg_status status = WG_OK;
    size_t head, bias_bytes, total;
    float *row = NULL;
    wgi_linear *linear = NULL, shape = {.inputs = (size_t)parts->weights[0]->shape[1],
                                        .panel_count = parts->panel_count,
                                        .panel_columns = parts->panel_columns};

    *out = NULL;
    if (!shape.inputs || !shape.panel_count || !shape.panel_columns) {
        status = wgi_fail(err, WG_ERR_ARGUMENT, "tensor '%s': a layer without rows or columns",
                          parts->weights[0]->name);
        goto cleanup;
    }
    shape.wide_count = shape.panel_columns / TILE;
    shape.rest_width = rest_width_of(shape.panel_columns % TILE);
    shape.panel_width = shape.wide_count * TILE + shape.rest_width;
    shape.in_stride = wgi_view_stride(shape.inputs);
    if (!count_bytes(&shape, &head, &bias_bytes, &total)) {
        status =
            wgi_fail(err, WG_ERR_LIMIT, "tensor '%s': too large to pack", parts->weights[0]->name);
        goto cleanup;
    }
    shape.bytes = total;
    linear = wgi_malloc_aligned(WGI_BYTE_ALIGN, total);
    row = wgi_malloc(shape.inputs * sizeof(float));
    if (!linear || !row) {
        status =
            wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for the packed weights of '%s' (%zu bytes)",
                     parts->weights[0]->name, total);
        goto cleanup;
    }
    *linear = shape;
    linear->bias = (float *)(void *)((char *)linear + head);
    linear->weights = linear->bias + (bias_bytes + WGI_BYTE_ALIGN - 1) / WGI_BYTE_ALIGN *
                                         (WGI_BYTE_ALIGN / sizeof(float));

    for (size_t panel = 0; panel < shape.panel_count; panel++) {
        float *bias = linear->bias + panel * shape.panel_width;
        float *weights = linear->weights + panel * shape.panel_width * shape.inputs;
        for (size_t at = 0; at < shape.panel_width; at += TILE) {
            size_t have = shape.panel_columns - at, width = shape.rest_width;
            if (have >= TILE) have = width = TILE;
            pack_tile(parts, shape.inputs, panel * shape.panel_columns + at, have, width, row,
                      weights + at * shape.inputs, bias + at);
        }
    }
    if (wgi_cpu_of(self)->has_xsmm) {
        find_kernels(&linear->wide, linear, shape.wide_count ? TILE : 0);
        find_kernels(&linear->rest, linear, shape.rest_width);
    }
    *out = linear;
    linear = NULL;

cleanup:
    wgi_free(row);
    wgi_free(linear);
    return status;
}

wg_status wgi_cpu_linear_pack(const wgi_backend *self, wgi_linear **out, const wgi_tensor *weight,
                              const wgi_tensor *bias, wg_error *err)
{
    wgi_cpu_linear_parts parts = {.weights = {weight},
                                  .biases = {bias},
                                  .panel_count = 1,
                                  .panel_columns = (size_t)weight->shape[0]};

    return wgi_cpu_linear_make(self, out, &parts, err);
}

/* ------------------------------------------------------------------------------------ run */

typedef struct linear_call {
    const wgi_cpu_kernels *kernels;
    const wgi_linear *linear;
    wgi_view in, out, residual;
    size_t panel_stride;
    wgi_activation activation;
    float *tile; /* [BLOCK][TILE] */
} linear_call;

/* tile = in W for `rows` rows with what kernels there are. */
static void multiply(const linear_call *call, const tile_kernels *tiles, const float *weights,
                     size_t width, const float *in, size_t rows)
{
    size_t whole = rows & ~(size_t)7, rest = rows & 7;
    bool fits = call->in.stride == call->linear->in_stride;
    wgi_xsmm_tile block = fits ? tiles->blocks[whole / 8] : NULL;
    wgi_xsmm_tile last = fits ? tiles->rests[rest] : NULL;
    wgi_gemm own = {.a = weights,
                    .a_stride = width,
                    .b = in,
                    .b_stride = call->in.stride,
                    .c = call->tile,
                    .c_stride = TILE,
                    .rows = whole,
                    .columns = width,
                    .depth = call->linear->inputs};

    if (whole && block)
        block(weights, in, call->tile);
    else if (whole)
        call->kernels->gemm(&own);
    if (rest == 0) return;
    own.b += whole * own.b_stride;
    own.c += whole * TILE;
    own.rows = rest;
    if (last)
        last(weights, own.b, own.c);
    else
        call->kernels->gemm(&own);
}

/* Rows [row, row + rows), at most a block. */
static void run_block(const linear_call *call, size_t row, size_t rows)
{
    const wgi_linear *linear = call->linear;
    const float *in = call->in.data + row * call->in.stride;

    for (size_t panel = 0; panel < linear->panel_count; panel++) {
        size_t base = panel * linear->panel_width;
        float *out = call->out.data + panel * call->panel_stride + row * call->out.stride;
        const float *residual = call->residual.data;

        if (residual) residual += row * call->residual.stride;
        for (size_t at = 0; at < linear->panel_width; at += TILE) {
            size_t have = linear->panel_columns - at;
            bool is_wide = have >= TILE;
            size_t width = is_wide ? TILE : linear->rest_width;
            wgi_finish end = {.tile = call->tile,
                              .tile_stride = TILE,
                              .bias = linear->bias + base + at,
                              .out = out + at,
                              .out_stride = call->out.stride,
                              .residual = residual ? residual + at : NULL,
                              .residual_stride = call->residual.stride,
                              .rows = rows,
                              .columns = is_wide ? TILE : have,
                              .activation = call->activation};

            multiply(call, is_wide ? &linear->wide : &linear->rest,
                     linear->weights + (base + at) * linear->inputs, width, in, rows);
            call->kernels->finish(&end);
        }
    }
}

static void run(const linear_call *call, size_t rows)
{
    for (size_t row = 0; row < rows; row += BLOCK)
        run_block(call, row, rows - row < BLOCK ? rows - row : BLOCK);
}

void wgi_cpu_linear(const wgi_backend *self, const wgi_linear *linear, wgi_view in, wgi_view out,
                    wgi_view residual, wgi_activation activation, size_t rows, void *scratch)
{
    linear_call call = {.kernels = wgi_cpu_of(self)->kernels,
                        .linear = linear,
                        .in = in,
                        .out = out,
                        .residual = residual,
                        .activation = activation,
                        .tile = scratch};

    run(&call, rows);
}

void wgi_cpu_linear_panels(const wgi_backend *self, const wgi_linear *linear, wgi_view in,
                           wgi_view out, size_t panel_stride, size_t rows, void *scratch)
{
    linear_call call = {.kernels = wgi_cpu_of(self)->kernels,
                        .linear = linear,
                        .in = in,
                        .out = out,
                        .panel_stride = panel_stride,
                        .tile = scratch};

    run(&call, rows);
}
