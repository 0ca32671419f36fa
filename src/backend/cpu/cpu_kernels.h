/*
 * cpu_kernels.h - the inner loops of the CPU backend: one table an instruction set.
 *
 * All tables are made from one text, kernels_body.h, over the few vector words of vector_*.h; so a
 * kernel exists once, and what differs between instruction sets is the width and whether a
 * product is rounded before it is added.
 *
 * The law: every output float of gemm is one chain acc = fma(a, b, acc) over the depth in rising
 * order from 0, whatever rows stand beside it. The other kernels
 * compute a row from that row alone.
 *
 * Threads: constant tables; kernels have no state.
 */
#ifndef WGI_CPU_KERNELS_H
#define WGI_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/backend.h"

#define WGI_PANEL_COLUMNS 32 /* keys of one packed panel [depth][32] */

/*
 * c[r][j] = sum over k of b[r][k] a[k][j]. columns: a multiple of 16. Row-major, strides in floats.
 */
typedef struct wgi_gemm {
    const float *a; /* [depth, columns], weights */
    const float *b; /* [rows, depth], activations */
    float *c;       /* [rows, columns] */
    size_t a_stride, b_stride, c_stride;
    size_t rows, columns, depth;
    bool adds; /* the chains go on from what c holds */
} wgi_gemm;

/* out = activation(tile + bias) + residual, or (tile + bias) residual when is_product, on [rows,
 * columns], any columns. */
typedef struct wgi_finish {
    const float *tile; /* [rows, tile_stride] */
    const float *bias; /* readable, as the tile is, up to a multiple of 16 columns */
    float *out;
    const float *residual; /* NULL: none; may be out */
    size_t tile_stride, out_stride, residual_stride;
    size_t rows, columns;
    wgi_activation activation;
    bool is_product; /* with a residual and without activation */
} wgi_finish;

/*
 * One step of online softmax (Milakov and Gimelshein 2018) over a tile of keys: scores become
 * exp(scale (score - most)); `most` and `sum` of the row move on, and `fade` is what the row has
 * gathered so far must be multiplied by. Without is_first, most and sum hold the state of earlier
 * tiles. A row that sees no key of the tile keeps its state; its fade is WGI_FADE_NONE.
 */
#define WGI_FADE_NONE (-1.0f)
typedef struct wgi_softmax {
    float *scores;            /* [rows, stride]; a row's unseen keys become 0, up to `keys` */
    float *most, *sum, *fade; /* [rows]; fade is not written for the first tile */
    size_t stride, rows, keys;
    ptrdiff_t keys_first; /* when bounded, row r sees keys_first + r keys of this tile (0: none) */
    size_t window;        /* when bounded, a row sees the last `window` of those keys; 0: all */
    bool is_bounded, is_first;
    float scale_log2; /* scale on the scores times log2 e */
} wgi_softmax;

typedef struct wgi_cpu_kernels {
    const char *isa;
    void (*gemm)(const wgi_gemm *gemm);
    void (*finish)(const wgi_finish *finish);
    void (*softmax)(const wgi_softmax *softmax);
    /* scores[r][k] += bias[k - r]; bias is readable up to a multiple of 16 keys. */
    void (*lean)(float *scores, size_t stride, const float *bias, size_t rows, size_t keys);
    /* out[r][j] = fade[r] out[r][j] + part[r][j], columns a multiple of 16, one stride for both. */
    void (*merge)(float *out, const float *part, size_t stride, const float *fade, size_t rows);
    /* out[r][j] = in[r][j] / sum[r] */
    void (*divide)(const float *in, size_t in_stride, const float *sum, float *out,
                   size_t out_stride, size_t rows, size_t columns);
    /* Keys [count, depth] into panels [count / 32, rounded up][depth][32]; behind them anything. */
    void (*pack_keys)(const float *keys, size_t stride, size_t count, size_t depth, float *panels);
    /* Rows of `columns` floats behind one another at a pitch of to_stride, zeros between. */
    void (*pack_values)(const float *from, size_t stride, size_t count, size_t columns, float *to,
                        size_t to_stride);
    void (*layer_norm)(const wgi_norm *norm, wgi_view inout, size_t rows);
    void (*rms_norm)(const wgi_norm *norm, wgi_view in, wgi_view out, size_t rows); /* out: or in */
    /* One head of each row: pairs (j, half + j) turned by the row's angles, [half] cosines, sines.
     */
    void (*rotate)(float *heads, size_t stride, wgi_view angles, size_t half, size_t rows);
    void (*widen_halves)(const uint16_t *from, size_t count, bool is_bf16, float *to);
    /* to[k][j] = from[j][k] for j < count, a multiple of 16, and k < depth. */
    void (*transpose)(const float *from, size_t stride, size_t count, size_t depth, float *to);
} wgi_cpu_kernels;

extern const wgi_cpu_kernels wgi_cpu_kernels_plain;
extern const wgi_cpu_kernels wgi_cpu_kernels_avx2;   /* x86-64 only */
extern const wgi_cpu_kernels wgi_cpu_kernels_avx512; /* x86-64 only */

#endif
