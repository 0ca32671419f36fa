/*
 * cpu_stored.c - weights kept in the type of their file, so that a model costs about one copy.
 *
 *   BF16, F16     the tiles of cpu_linear.c in 16 bits: [tile][K][64], widened a stretch of 512
 *                 deep at a time into scratch that stays in L2
 *   quantised     rows as they are; 64 of them are widened over the same stretch and transposed
 *
 * The idea: widening is exact, and the stretches of a tile are added up in the same chain of
 * multiply-adds, so the bits are those of f32 tiles. Its cost is spread over the rows of a block.
 * Refused: 16 bits made of quantised weights, which are neither exact nor small.
 *
 * Threads: no state.
 */
#include "backend/cpu/cpu_stored.h"

#include <string.h>

#include "base/quant.h"

const wgi_tensor *wgi_cpu_stacked(const wgi_cpu_linear_parts *parts, size_t *row)
{
    for (size_t i = 0; i < 3 && parts->weights[i]; i++) {
        if (*row < parts->weights[i]->shape[0]) return parts->weights[i];
        *row -= (size_t)parts->weights[i]->shape[0];
    }
    return NULL;
}

static bool is_half(wgi_dtype dtype)
{
    return dtype == WGI_DTYPE_BF16 || dtype == WGI_DTYPE_F16;
}

wgi_cpu_store wgi_cpu_store_of(const wgi_cpu_linear_parts *parts)
{
    wgi_dtype first = parts->weights[0]->dtype;
    bool are_halves = is_half(first), are_quantised = true;

    if (!parts->keep_stored) return WGI_CPU_STORE_F32;
    for (size_t i = 0; i < 3 && parts->weights[i]; i++) {
        wgi_dtype dtype = parts->weights[i]->dtype;
        const wgi_dtype_layout *layout = wgi_dtype_stored(dtype);
        if (dtype != first) are_halves = false;
        if (!layout || layout->block_count == 1 ||
            parts->weights[i]->shape[1] % layout->block_count != 0)
            are_quantised = false;
    }
    if (are_halves) return WGI_CPU_STORE_HALVES;
    return are_quantised ? WGI_CPU_STORE_ROWS : WGI_CPU_STORE_F32;
}

size_t wgi_cpu_row_bytes(const wgi_cpu_linear_parts *parts)
{
    size_t most = 0;

    for (size_t i = 0; i < 3 && parts->weights[i]; i++) {
        const wgi_tensor *tensor = parts->weights[i];
        size_t bytes = tensor->shape[0] ? tensor->bytes / (size_t)tensor->shape[0] : 0;
        if (bytes > most) most = bytes;
    }
    return most;
}

/* The row behind output column `column`, or NULL for zeros. */
static const char *row_of(const wgi_cpu_linear_parts *parts, size_t column, wgi_dtype *dtype)
{
    size_t row = parts->rows ? parts->rows[column] : column;

    if (row == WGI_CPU_NO_ROW) return NULL;
    const wgi_tensor *tensor = wgi_cpu_stacked(parts, &row);
    if (!tensor) return NULL;
    *dtype = tensor->dtype;
    return (const char *)tensor->data + row * (tensor->bytes / (size_t)tensor->shape[0]);
}

void wgi_cpu_store_halves(const wgi_cpu_linear_parts *parts, size_t first, size_t have,
                          size_t width, uint16_t *tile)
{
    size_t inputs = (size_t)parts->weights[0]->shape[1];
    const char *rows[WGI_CPU_TILE] = {NULL};
    wgi_dtype dtype;

    for (size_t column = 0; column < have; column++)
        rows[column] = row_of(parts, first + column, &dtype);
    for (size_t begin = 0; begin < inputs; begin += 64) { /* so that both sides stay in L1 */
        size_t end = inputs - begin < 64 ? inputs : begin + 64;
        for (size_t column = 0; column < width; column++)
            for (size_t k = begin; k < end; k++) {
                uint16_t value = 0;
                if (rows[column]) memcpy(&value, rows[column] + 2 * k, sizeof(value));
                tile[k * width + column] = value;
            }
    }
}

void wgi_cpu_store_rows(const wgi_cpu_linear_parts *parts, size_t first, size_t have, size_t width,
                        size_t row_bytes, char *bytes, wgi_cpu_row *rows)
{
    for (size_t column = 0; column < width; column++) {
        wgi_dtype dtype = WGI_DTYPE_F32;
        const char *row = column < have ? row_of(parts, first + column, &dtype) : NULL;

        rows[column] = (wgi_cpu_row){.data = NULL, .dtype = dtype};
        if (!row) continue;
        const wgi_dtype_layout *layout = wgi_dtype_stored(dtype);
        size_t blocks = (size_t)parts->weights[0]->shape[1] / layout->block_count;
        memcpy(bytes + column * row_bytes, row, blocks * layout->block_bytes);
        rows[column].data = bytes + column * row_bytes;
    }
}

void wgi_cpu_widen_rows(const wgi_cpu_kernels *kernels, const wgi_cpu_row *rows, size_t width,
                        size_t k, size_t depth, float *rows_room, float *to)
{
    for (size_t column = 0; column < width; column++) {
        float *row = rows_room + column * WGI_CPU_CHUNK;
        const wgi_dtype_layout *layout = wgi_dtype_stored(rows[column].dtype);

        if (!rows[column].data)
            memset(row, 0, depth * sizeof(float));
        else
            wgi_quant_widen(rows[column].dtype,
                            rows[column].data + k / layout->block_count * layout->block_bytes,
                            depth / layout->block_count, row);
    }
    kernels->transpose(rows_room, WGI_CPU_CHUNK, width, depth, to);
}
