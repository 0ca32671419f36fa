/*
 * cpu_stored.h - weights of a linear layer kept as the file has them, widened when used.
 */
#ifndef WGI_CPU_STORED_H
#define WGI_CPU_STORED_H

#include "backend/cpu/cpu.h"

typedef enum wgi_cpu_store {
    WGI_CPU_STORE_F32,    /* tiles [K][columns] of floats */
    WGI_CPU_STORE_HALVES, /* the same of BF16 or F16 */
    WGI_CPU_STORE_ROWS    /* quantised rows, one an output column */
} wgi_cpu_store;

/* Depth that is widened at once; whole blocks of every quantised type. */
#define WGI_CPU_CHUNK 512

/* A quantised row; data NULL: zeros. */
typedef struct wgi_cpu_row {
    const char *data;
    wgi_dtype dtype;
} wgi_cpu_row;

/* Where row `row` of the stack stands: its tensor, and *row within it. NULL: nowhere. */
const wgi_tensor *wgi_cpu_stacked(const wgi_cpu_linear_parts *parts, size_t *row);

/* How the stack is kept; F32 unless parts->keep_stored and the types allow another way. */
wgi_cpu_store wgi_cpu_store_of(const wgi_cpu_linear_parts *parts);

/* Bytes of one stored row of the stack's longest type, K elements. */
size_t wgi_cpu_row_bytes(const wgi_cpu_linear_parts *parts);

/* Columns [first, first + have) of the outputs as one tile [K][width], zeros behind them. */
void wgi_cpu_store_halves(const wgi_cpu_linear_parts *parts, size_t first, size_t have,
                          size_t width, uint16_t *tile);
/* The same as rows: copies into `bytes`, row_bytes apart, and says where. */
void wgi_cpu_store_rows(const wgi_cpu_linear_parts *parts, size_t first, size_t have, size_t width,
                        size_t row_bytes, char *bytes, wgi_cpu_row *rows);

/* Elements [k, k + depth) of `width` rows as [depth][width] floats; `rows_room`: [64][CHUNK]. */
void wgi_cpu_widen_rows(const wgi_cpu_kernels *kernels, const wgi_cpu_row *rows, size_t width,
                        size_t k, size_t depth, float *rows_room, float *to);

#endif
