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
 * Weights that are kept as stored (cpu_stored.c) are widened a stretch of the depth at a time; the
 * tile then goes through memory between stretches, and the chain of multiply-adds is the same.
 *
 * The alternative, finishing in the registers of an own kernel, measured the same end to end.
 *
 * Threads: packed layers are constant; scratch belongs to a lane.
 */
#include "backend/cpu/cpu.h"

#include <string.h>

#include "backend/cpu/cpu_stored.h"
#include "backend/cpu/tile_xsmm.h"
#include "base/alloc.h"

#define BLOCK WGI_CPU_BLOCK_ROWS
#define TILE  WGI_CPU_TILE

typedef struct tile_kernels {
    wgi_xsmm_tile blocks[BLOCK / 8 + 1]; /* of 8 i rows */
    wgi_xsmm_tile rests[8];              /* of i rows */
} tile_kernels;

/* Of one tile width: for the first stretch of the depth (or all of it), those between, the last. */
typedef struct stretch_kernels {
    tile_kernels first, more, last;
} stretch_kernels;

struct wgi_linear {
    size_t inputs; /* K */
    size_t panel_count, panel_columns;
    size_t wide_count;  /* tiles of 64 in a panel */
    size_t rest_width;  /* width of the last tile: 0, 32, 48 or 64 */
    size_t panel_width; /* columns of a panel with those that fill the last tile */
    size_t in_stride;   /* that the kernels were made for */
    size_t bytes;
    size_t stretch; /* depth of one stretch: K, or WGI_CPU_CHUNK */
    stretch_kernels wide, rest;
    wgi_cpu_store store;
    bool is_bf16;
    float *bias; /* [panel][panel_width] */
    /* One of the three, by store. */
    float *weights;    /* [panel][tile][K][64 or rest_width] */
    uint16_t *halves;  /* likewise */
    wgi_cpu_row *rows; /* [panel][panel_width] */
};

static size_t rest_width_of(size_t columns)
{
    if (columns == 0) return 0;
    return columns <= 32 ? 32 : columns <= 48 ? 48 : 64;
}

size_t wgi_cpu_linear_scratch_bytes(void)
{
    /* The tile; a widened stretch; rows before they are transposed. */
    return ((size_t)BLOCK * TILE + 2 * (size_t)TILE * WGI_CPU_CHUNK) * sizeof(float);
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
                        float *weights)
{
    const wgi_tensor *tensor = wgi_cpu_stacked(parts, &row);

    if (tensor) wgi_tensor_widen(tensor, row * inputs, inputs, weights);
}

static float stacked_bias(const wgi_cpu_linear_parts *parts, size_t row)
{
    float bias = 0;

    for (size_t i = 0; i < 3 && parts->weights[i]; i++) {
        if (row < parts->weights[i]->shape[0]) {
            if (parts->biases[i]) wgi_tensor_widen(parts->biases[i], row, 1, &bias);
            break;
        }
        row -= (size_t)parts->weights[i]->shape[0];
    }
    return bias;
}

/* Row of the stack behind output column `column` of a tile that begins at `first`. */
static size_t source_of(const wgi_cpu_linear_parts *parts, size_t first, size_t column, size_t have)
{
    if (column >= have) return WGI_CPU_NO_ROW;
    return parts->rows ? parts->rows[first + column] : first + column;
}

static void pack_tile(const wgi_cpu_linear_parts *parts, size_t inputs, size_t first, size_t have,
                      size_t width, float *row, float *weights)
{
    for (size_t column = 0; column < width; column++) {
        size_t source = source_of(parts, first, column, have);

        for (size_t k = 0; k < inputs && source == WGI_CPU_NO_ROW; k++)
            weights[k * width + column] = 0;
        if (source == WGI_CPU_NO_ROW) continue;
        stacked_row(parts, source, inputs, row);
        for (size_t k = 0; k < inputs; k++)
            weights[k * width + column] = row[k];
    }
}

static void find_kernels(tile_kernels *kernels, const wgi_linear *linear, size_t width,
                         size_t depth, bool adds)
{
    for (size_t i = 1; i <= BLOCK / 8; i++)
        kernels->blocks[i] = wgi_xsmm_find(width, 8 * i, depth, linear->in_stride, TILE, adds);
    for (size_t i = 1; i < 8; i++)
        kernels->rests[i] = wgi_xsmm_find(width, i, depth, linear->in_stride, TILE, adds);
}

static void find_stretches(stretch_kernels *kernels, const wgi_linear *linear, size_t width)
{
    size_t stretch = linear->stretch, last = linear->inputs % stretch;

    if (width == 0) return;
    find_kernels(&kernels->first, linear, width,
                 linear->inputs < stretch ? linear->inputs : stretch, false);
    if (linear->inputs < 2 * stretch && last == 0) return;
    if (linear->inputs >= 2 * stretch) find_kernels(&kernels->more, linear, width, stretch, true);
    if (linear->inputs > stretch && last) find_kernels(&kernels->last, linear, width, last, true);
}

/* Where the parts of the one block stand; everything is aligned. */
typedef struct layout {
    size_t bias, weights, rows, total;
} layout;

static bool add_part(size_t *at, size_t *begin, size_t count, size_t item_bytes)
{
    size_t bytes;

    *begin = *at;
    return wgi_mul(count, item_bytes, &bytes) && wgi_add(bytes, WGI_BYTE_ALIGN - 1, &bytes) &&
           wgi_add(*at, bytes / WGI_BYTE_ALIGN * WGI_BYTE_ALIGN, at);
}

/* False when it does not fit. */
static bool lay_out(const wgi_linear *shape, size_t row_bytes, layout *l)
{
    size_t columns, head;

    *l = (layout){0};
    if (shape->store == WGI_CPU_STORE_F32 && !wgi_mul(shape->inputs, sizeof(float), &row_bytes))
        return false;
    if (shape->store == WGI_CPU_STORE_HALVES &&
        !wgi_mul(shape->inputs, sizeof(uint16_t), &row_bytes))
        return false;
    return wgi_mul(shape->panel_count, shape->panel_width, &columns) &&
           add_part(&l->total, &head, 1, sizeof(*shape)) &&
           add_part(&l->total, &l->bias, columns, sizeof(float)) &&
           add_part(&l->total, &l->weights, columns, row_bytes) &&
           add_part(&l->total, &l->rows, shape->store == WGI_CPU_STORE_ROWS ? columns : 0,
                    sizeof(wgi_cpu_row));
}

/* Sizes and tiles of a layer, without its memory. */
static wgi_linear shape_of(const wgi_cpu_linear_parts *parts)
{
    wgi_linear shape = {.inputs = (size_t)parts->weights[0]->shape[1],
                        .panel_count = parts->panel_count,
                        .panel_columns = parts->panel_columns,
                        .store = wgi_cpu_store_of(parts),
                        .is_bf16 = parts->weights[0]->dtype == WGI_DTYPE_BF16};

    shape.wide_count = shape.panel_columns / TILE;
    shape.rest_width = rest_width_of(shape.panel_columns % TILE);
    shape.panel_width = shape.wide_count * TILE + shape.rest_width;
    shape.in_stride = wgi_view_stride(shape.inputs);
    shape.stretch = shape.store == WGI_CPU_STORE_F32 ? shape.inputs : WGI_CPU_CHUNK;
    return shape;
}

static void pack_panel(wgi_linear *linear, const wgi_cpu_linear_parts *parts, size_t panel,
                       size_t row_bytes, char *bytes, float *row)
{
    for (size_t at = 0; at < linear->panel_width; at += TILE) {
        size_t have = linear->panel_columns - at, width = linear->rest_width;
        size_t first = panel * linear->panel_columns + at;
        size_t base = panel * linear->panel_width + at; /* column among those that are kept */

        if (have >= TILE) have = width = TILE;
        for (size_t column = 0; column < width; column++) {
            size_t source = source_of(parts, first, column, have);
            linear->bias[base + column] =
                source == WGI_CPU_NO_ROW ? 0 : stacked_bias(parts, source);
        }
        if (linear->store == WGI_CPU_STORE_F32)
            pack_tile(parts, linear->inputs, first, have, width, row,
                      linear->weights + base * linear->inputs);
        else if (linear->store == WGI_CPU_STORE_HALVES)
            wgi_cpu_store_halves(parts, first, have, width, linear->halves + base * linear->inputs);
        else
            wgi_cpu_store_rows(parts, first, have, width, row_bytes, bytes + base * row_bytes,
                               linear->rows + base);
    }
}

wg_status wgi_cpu_linear_make(const wgi_backend *self, wgi_linear **out,
                              const wgi_cpu_linear_parts *parts, wg_error *err)
{
    wg_status status = WG_OK;
    size_t row_bytes = wgi_cpu_row_bytes(parts);
    float *row = NULL;
    wgi_linear *linear = NULL, shape = shape_of(parts);
    layout parts_at;
    char *bytes;

    *out = NULL;
    if (!shape.inputs || !shape.panel_count || !shape.panel_columns) {
        status = wgi_fail(err, WG_ERR_ARGUMENT, "tensor '%s': a layer without rows or columns",
                          parts->weights[0]->name);
        goto cleanup;
    }
    if (!lay_out(&shape, row_bytes, &parts_at)) {
        status =
            wgi_fail(err, WG_ERR_LIMIT, "tensor '%s': too large to pack", parts->weights[0]->name);
        goto cleanup;
    }
    shape.bytes = parts_at.total;
    linear = wgi_malloc_aligned(WGI_BYTE_ALIGN, parts_at.total);
    row = wgi_malloc(shape.inputs * sizeof(float));
    if (!linear || !row) {
        status =
            wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for the packed weights of '%s' (%zu bytes)",
                     parts->weights[0]->name, parts_at.total);
        goto cleanup;
    }
    *linear = shape;
    bytes = (char *)linear;
    linear->bias = (float *)(void *)(bytes + parts_at.bias);
    linear->weights = (float *)(void *)(bytes + parts_at.weights);
    linear->halves = (uint16_t *)(void *)(bytes + parts_at.weights);
    linear->rows = (wgi_cpu_row *)(void *)(bytes + parts_at.rows);
    for (size_t panel = 0; panel < shape.panel_count; panel++)
        pack_panel(linear, parts, panel, row_bytes, bytes + parts_at.weights, row);
    if (wgi_cpu_of(self)->has_xsmm) {
        find_stretches(&linear->wide, linear, shape.wide_count ? TILE : 0);
        find_stretches(&linear->rest, linear, shape.rest_width);
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

wg_status wgi_cpu_linear_pack_stored(const wgi_backend *self, wgi_linear **out,
                                     const wgi_tensor *weight, const wgi_tensor *bias,
                                     wg_error *err)
{
    wgi_cpu_linear_parts parts = {.weights = {weight},
                                  .biases = {bias},
                                  .panel_count = 1,
                                  .panel_columns = (size_t)weight->shape[0],
                                  .keep_stored = true};

    return wgi_cpu_linear_make(self, out, &parts, err);
}

/* ------------------------------------------------------------------------------------ run */

typedef struct linear_call {
    const wgi_cpu_kernels *kernels;
    const wgi_linear *linear;
    wgi_view in, out, residual;
    size_t panel_stride;
    wgi_activation activation;
    bool is_product;
    float *tile;    /* [BLOCK][TILE] */
    float *widened; /* [CHUNK][TILE] */
    float *room;    /* [TILE][CHUNK] */
} linear_call;

/* tile (+)= in W for `rows` rows and one stretch of the depth, with what kernels there are. */
static void multiply(const linear_call *call, const tile_kernels *tiles, const wgi_gemm *stretch)
{
    size_t whole = stretch->rows & ~(size_t)7, rest = stretch->rows & 7;
    bool fits = call->in.stride == call->linear->in_stride;
    wgi_xsmm_tile block = fits ? tiles->blocks[whole / 8] : NULL;
    wgi_xsmm_tile last = fits ? tiles->rests[rest] : NULL;
    wgi_gemm own = *stretch;

    own.rows = whole;
    if (whole && block)
        block(own.a, own.b, own.c);
    else if (whole)
        call->kernels->gemm(&own);
    if (rest == 0) return;
    own.b += whole * own.b_stride;
    own.c += whole * TILE;
    own.rows = rest;
    if (last)
        last(own.a, own.b, own.c);
    else
        call->kernels->gemm(&own);
}

/* The weights of columns [base, base + width) of depth [k, k + depth), as floats. */
static const float *weights_of(const linear_call *call, size_t base, size_t width, size_t k,
                               size_t depth)
{
    const wgi_linear *linear = call->linear;

    if (linear->store == WGI_CPU_STORE_F32) return linear->weights + base * linear->inputs;
    if (linear->store == WGI_CPU_STORE_HALVES)
        call->kernels->widen_halves(linear->halves + base * linear->inputs + k * width,
                                    depth * width, linear->is_bf16, call->widened);
    else
        wgi_cpu_widen_rows(call->kernels, linear->rows + base, width, k, depth, call->room,
                           call->widened);
    return call->widened;
}

/* tile = in W for columns [base, base + width). */
static void compute_tile(const linear_call *call, size_t base, size_t width, bool is_wide,
                         const float *in, size_t rows)
{
    const wgi_linear *linear = call->linear;
    const stretch_kernels *kernels = is_wide ? &linear->wide : &linear->rest;

    for (size_t k = 0; k < linear->inputs; k += linear->stretch) {
        size_t left = linear->inputs - k, depth = left < linear->stretch ? left : linear->stretch;
        wgi_gemm gemm = {.a = weights_of(call, base, width, k, depth),
                         .a_stride = width,
                         .b = in + k,
                         .b_stride = call->in.stride,
                         .c = call->tile,
                         .c_stride = TILE,
                         .rows = rows,
                         .columns = width,
                         .depth = depth,
                         .adds = k > 0};

        multiply(call,
                 k == 0                    ? &kernels->first
                 : depth < linear->stretch ? &kernels->last
                                           : &kernels->more,
                 &gemm);
    }
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
                              .activation = call->activation,
                              .is_product = call->is_product};

            compute_tile(call, base + at, width, is_wide, in, rows);
            call->kernels->finish(&end);
        }
    }
}

static void run(linear_call *call, size_t rows)
{
    call->widened = call->tile + BLOCK * TILE;
    call->room = call->widened + TILE * WGI_CPU_CHUNK;
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

void wgi_cpu_linear_product(const wgi_backend *self, const wgi_linear *linear, wgi_view in,
                            wgi_view inout, size_t rows, void *scratch)
{
    linear_call call = {.kernels = wgi_cpu_of(self)->kernels,
                        .linear = linear,
                        .in = in,
                        .out = inout,
                        .residual = inout,
                        .is_product = true,
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
