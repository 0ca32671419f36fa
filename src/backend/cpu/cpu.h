/*
 * cpu.h - what the files of the CPU backend share.
 *
 *   cpu.c            the table, embedding lookup, norm
 *   cpu_linear.c     linear layers: tiles of 64 output columns, each finished while it is in L1
 *   cpu_attention.c  Q/K/V projection of a layer, and attention over its buffer
 *   cpu_attend.c     varlen attention on plain pointers
 *   kernels_*.c      inner loops, one table an instruction set
 *   tile_xsmm.c      GEMM tiles from libxsmm
 */
#ifndef WGI_CPU_H
#define WGI_CPU_H

#include <stdbool.h>

#include "backend/backend.h"
#include "backend/cpu/cpu_kernels.h"

#ifndef WGI_CPU_BLOCK_ROWS
#define WGI_CPU_BLOCK_ROWS 96 /* measured, see docs/decisions.md; a multiple of 8 and of 12 */
#endif
#define WGI_CPU_BIN_TOKENS  1024 /* measured, likewise */
#define WGI_CPU_TILE        64   /* output columns of one weight tile */
#define WGI_CPU_ATTEND_ROWS 512  /* query rows of one attention item */
#define WGI_CPU_KEYS        512 /* keys of one tile of online softmax, counted from a segment's start */

typedef struct wgi_cpu {
    wgi_backend base; /* first, so that a wgi_backend * is a wgi_cpu * */
    wg_isa isa;
    const wgi_cpu_kernels *kernels;
    bool has_xsmm;
} wgi_cpu;

static inline const wgi_cpu *wgi_cpu_of(const wgi_backend *self)
{
    return (const wgi_cpu *)self;
}

/* The table of an instruction set that this processor has; its strings live for ever. */
const wgi_backend *wgi_cpu_backend(wg_isa isa);

/*
 * A linear layer whose outputs lie in panels: output column c of panel p is row rows[p *
 * panel_columns + c] of the weights, a stack of tensors; WGI_CPU_NO_ROW gives zeros. Ordinary
 * layers have one panel and the rows in order (rows NULL).
 */
#define WGI_CPU_NO_ROW SIZE_MAX
typedef struct wgi_cpu_linear_parts {
    const wgi_tensor *weights[3], *biases[3]; /* weights that are NULL end the stack */
    size_t panel_count, panel_columns;
    const size_t *rows;
    bool keep_stored; /* in the type of the file where that is smaller than f32 */
} wgi_cpu_linear_parts;

wg_status wgi_cpu_linear_make(const wgi_backend *self, wgi_linear **out,
                              const wgi_cpu_linear_parts *parts, wg_error *err);
wg_status wgi_cpu_linear_pack(const wgi_backend *self, wgi_linear **out, const wgi_tensor *weight,
                              const wgi_tensor *bias, wg_error *err);
wg_status wgi_cpu_linear_pack_stored(const wgi_backend *self, wgi_linear **out,
                                     const wgi_tensor *weight, const wgi_tensor *bias,
                                     wg_error *err);
void wgi_cpu_linear_free(wgi_linear *linear);
size_t wgi_cpu_linear_bytes(const wgi_linear *linear);
void wgi_cpu_linear(const wgi_backend *self, const wgi_linear *linear, wgi_view in, wgi_view out,
                    wgi_view residual, wgi_activation activation, size_t rows, void *scratch);
void wgi_cpu_linear_product(const wgi_backend *self, const wgi_linear *linear, wgi_view in,
                            wgi_view inout, size_t rows, void *scratch);
/* Panel p starts at out.data + p * panel_stride. */
void wgi_cpu_linear_panels(const wgi_backend *self, const wgi_linear *linear, wgi_view in,
                           wgi_view out, size_t panel_stride, size_t rows, void *scratch);
size_t wgi_cpu_linear_scratch_bytes(void);

wg_status wgi_cpu_attention_pack(const wgi_backend *self, wgi_attention **out,
                                 const wgi_attention_weights *weights, wg_error *err);
void wgi_cpu_attention_free(wgi_attention *attention);
size_t wgi_cpu_attention_bytes(const wgi_attention *attention);
size_t wgi_cpu_attention_scratch_bytes(const wgi_attention *attention);
size_t wgi_cpu_qkv_bytes(const wgi_attention *attention, size_t rows);
void wgi_cpu_qkv(const wgi_backend *self, const wgi_attention *attention, wgi_view in, void *qkv,
                 size_t bin_rows, size_t row, size_t rows, void *scratch);
void wgi_cpu_rotate(const wgi_backend *self, const wgi_attention *attention,
                    const wgi_rotary *rotary, void *qkv, size_t bin_rows, size_t row, size_t rows);
void wgi_cpu_attend(const wgi_backend *self, const wgi_attention *attention, const void *qkv,
                    size_t bin_rows, const wgi_attend_item *item, wgi_view out, void *scratch);

#endif
