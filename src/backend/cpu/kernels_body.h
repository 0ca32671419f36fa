/*
 * kernels_body.h - the text of the kernels, included once by each kernels_<isa>.c.
 *
 * Before it stands a vector_<isa>.h, which gives `vf` (VF_WIDTH floats), its operations, and
 * VF_ROWS, the height of the register tile. The includer defines WGI_KERNELS, the name of the
 * table. Not a normal header, so it has no guard.
 *
 * Sources: exp2 and erf are fitted here (minimax by Lawson's iteration, relative to 1 and to
 * max(1, |x| / 2)); online softmax is Milakov and Gimelshein 2018.
 *
 * Threads: no state.
 */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/quant.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* ------------------------------------------------------------------------------ functions */

/* 2^x, x <= 127; below -126 the answer is 2^-126 or so, never a subnormal. NaN stays NaN. */
ALWAYS_INLINE vf vf_exp2(vf x)
{
    x = vf_max(vf_set(-126), x);
    vf n = vf_round(x), f = vf_sub(x, n);
    vf p = vf_set(1.326472727e-03f);
    p = vf_fma(p, f, vf_set(9.671512865e-03f));
    p = vf_fma(p, f, vf_set(5.550733745e-02f));
    p = vf_fma(p, f, vf_set(2.402224208e-01f));
    p = vf_fma(p, f, vf_set(6.931469776e-01f));
    p = vf_fma(p, f, vf_set(1));
    return vf_scale(p, n);
}

/* x/2 (1 + erf(x / sqrt 2)), erf as x P(x^2) / Q(x^2); absolute error at most 1.5e-6 at |x| = 5. */
ALWAYS_INLINE vf vf_gelu(vf x)
{
    vf z = vf_min(vf_set(5.4f), vf_max(vf_set(-5.4f), x)), y = vf_mul(z, z);
    vf p = vf_set(2.275638198e-10f);
    p = vf_fma(p, y, vf_set(-4.494774109e-08f));
    p = vf_fma(p, y, vf_set(6.629837227e-06f));
    p = vf_fma(p, y, vf_set(3.493753783e-04f));
    p = vf_fma(p, y, vf_set(9.069081937e-03f));
    p = vf_fma(p, y, vf_set(7.254955801e-02f));
    p = vf_fma(p, y, vf_set(7.978842323e-01f));
    vf q = vf_set(6.400700359e-05f);
    q = vf_fma(q, y, vf_set(1.854012828e-03f));
    q = vf_fma(q, y, vf_set(2.930319340e-02f));
    q = vf_fma(q, y, vf_set(2.575914058e-01f));
    q = vf_fma(q, y, vf_set(1));
    vf e = vf_max(vf_set(-1), vf_div(vf_mul(p, z), q)); /* exactly -1 below -5.4: no rest is left */
    vf half = vf_mul(x, vf_set(0.5f));
    return vf_fma(half, e, half);
}

/* 1 / (1 + e^-x) */
ALWAYS_INLINE vf vf_sigmoid(vf x)
{
    vf t = vf_min(vf_set(126), vf_mul(x, vf_set(-1.442695041f)));
    return vf_div(vf_set(1), vf_add(vf_set(1), vf_exp2(t)));
}

/* tanh x = 2 sigmoid(2x) - 1: right to an absolute 1e-7, which is what a layer needs. */
ALWAYS_INLINE vf vf_tanh(vf x)
{
    return vf_fma(vf_set(2), vf_sigmoid(vf_add(x, x)), vf_set(-1));
}

ALWAYS_INLINE vf vf_activate(vf x, const wgi_activation activation)
{
    switch (activation) {
    case WGI_ACTIVATION_GELU:
        return vf_gelu(x);
    case WGI_ACTIVATION_GELU_TANH: { /* x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)) */
        vf y = vf_mul(x, x);
        vf inner = vf_mul(x, vf_fma(y, vf_set(0.0713548163f), vf_set(1.59576912f)));
        return vf_mul(x, vf_sigmoid(inner));
    }
    case WGI_ACTIVATION_RELU:
        return vf_max(vf_set(0), x);
    case WGI_ACTIVATION_SILU:
        return vf_mul(x, vf_sigmoid(x));
    case WGI_ACTIVATION_TANH:
        return vf_tanh(x);
    case WGI_ACTIVATION_NONE:
    default:
        return x;
    }
}

/* ----------------------------------------------------------------------------------- gemm */

/* A register tile: rows x (vectors * VF_WIDTH), both known to the compiler. */
ALWAYS_INLINE void gemm_tile(const wgi_gemm *g, const float *a, const float *b, float *c,
                             const int rows, const int vectors)
{
    vf sum[VF_ROWS][2];

    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++) sum[i][j] =
        g->adds ? vf_load(c + (size_t)i * g->c_stride + j * VF_WIDTH) : vf_set(0);
    for (size_t k = 0; k < g->depth; k++) {
        vf w[2];
        UNROLL for (int j = 0; j < vectors; j++) w[j] = vf_load(a + k * g->a_stride + j * VF_WIDTH);
        UNROLL for (int i = 0; i < rows; i++)
        {
            vf x = vf_set(b[(size_t)i * g->b_stride + k]);
            UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = vf_fma(x, w[j], sum[i][j]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++)
        vf_store(c + (size_t)i * g->c_stride + j * VF_WIDTH, sum[i][j]);
}

/* All rows of one strip of columns, a register tile at a time. */
ALWAYS_INLINE void gemm_strip(const wgi_gemm *g, size_t column, const int vectors)
{
    const float *a = g->a + column;

    for (size_t row = 0; row < g->rows; row += VF_ROWS) {
        const float *b = g->b + row * g->b_stride;
        float *c = g->c + row * g->c_stride + column;

/* clang-format off */
#define TILE(n) case n: gemm_tile(g, a, b, c, n, vectors); break;
        switch (g->rows - row) {
#if VF_ROWS == 12
        TILE(11) TILE(10) TILE(9) TILE(8) TILE(7) TILE(6)
#endif
#if VF_ROWS >= 6
        TILE(5) TILE(4)
#endif
        TILE(3) TILE(2) TILE(1)
        default: gemm_tile(g, a, b, c, VF_ROWS, vectors);
        }
#undef TILE
        /* clang-format on */
    }
}

static void gemm(const wgi_gemm *g)
{
    size_t column = 0;

    for (; column + 2 * VF_WIDTH <= g->columns; column += 2 * VF_WIDTH)
        gemm_strip(g, column, 2);
    for (; column < g->columns; column += VF_WIDTH)
        gemm_strip(g, column, 1);
}

/* --------------------------------------------------------------------------------- finish */

/* What is done with `residual`, known to the compiler. */
enum finish_with { FINISH_ALONE, FINISH_ADD, FINISH_MULTIPLY };

ALWAYS_INLINE vf finish_one(vf y, vf residual, const enum finish_with with)
{
    return with == FINISH_ADD ? vf_add(y, residual) : vf_mul(y, residual);
}

ALWAYS_INLINE void finish_as(const wgi_finish *f, const wgi_activation activation,
                             const enum finish_with with)
{
    const bool has_residual = with != FINISH_ALONE;

    for (size_t column = 0; column < f->columns; column += VF_WIDTH) {
        size_t left = f->columns - column;
        vf bias = vf_load(f->bias + column);
        const float *tile = f->tile + column;
        float *out = f->out + column;
        const float *residual = has_residual ? f->residual + column : NULL;

        if (left >= VF_WIDTH) {
            for (size_t row = 0; row < f->rows; row++) {
                vf y = vf_activate(vf_add(vf_load(tile + row * f->tile_stride), bias), activation);
                if (has_residual)
                    y = finish_one(y, vf_load(residual + row * f->residual_stride), with);
                vf_store(out + row * f->out_stride, y);
            }
            continue;
        }
        for (size_t row = 0; row < f->rows; row++) {
            vf y = vf_activate(vf_add(vf_load(tile + row * f->tile_stride), bias), activation);
            if (has_residual)
                y = finish_one(y, vf_load_part(residual + row * f->residual_stride, left), with);
            vf_store_part(out + row * f->out_stride, y, left);
        }
    }
}

static void finish(const wgi_finish *f)
{
    if (f->is_product) {
        finish_as(f, WGI_ACTIVATION_NONE, FINISH_MULTIPLY);
        return;
    }
    switch (f->activation) {
#define CASE(name)                                             \
    case WGI_ACTIVATION_##name:                                \
        if (f->residual)                                       \
            finish_as(f, WGI_ACTIVATION_##name, FINISH_ADD);   \
        else                                                   \
            finish_as(f, WGI_ACTIVATION_##name, FINISH_ALONE); \
        break;
        CASE(GELU)
        CASE(GELU_TANH)
        CASE(RELU)
        CASE(SILU)
        CASE(TANH)
        CASE(NONE)
#undef CASE
    }
}

/* ------------------------------------------------------------------------------ attention */

ALWAYS_INLINE float row_most(const float *scores, size_t count)
{
    vf a = vf_set(-INFINITY), b = a;
    size_t key = 0;

    for (; key + 2 * VF_WIDTH <= count; key += 2 * VF_WIDTH) {
        a = vf_max(a, vf_load(scores + key));
        b = vf_max(b, vf_load(scores + key + VF_WIDTH));
    }
    for (; key < count; key += VF_WIDTH)
        a = vf_max(a, vf_pick(vf_load(scores + key), vf_set(-INFINITY), count - key));
    return vf_most(vf_max(a, b));
}

/* scores = 2^(scale score - shift), zeros from count to keys; returns the sum. */
ALWAYS_INLINE float row_exp(float *scores, size_t count, size_t keys, float scale, float shift)
{
    vf by = vf_set(scale), less = vf_set(-shift), a = vf_set(0), b = a;
    size_t key = 0;

    for (; key + 2 * VF_WIDTH <= count; key += 2 * VF_WIDTH) {
        vf x = vf_exp2(vf_fma(vf_load(scores + key), by, less));
        vf y = vf_exp2(vf_fma(vf_load(scores + key + VF_WIDTH), by, less));
        vf_store(scores + key, x);
        vf_store(scores + key + VF_WIDTH, y);
        a = vf_add(a, x);
        b = vf_add(b, y);
    }
    for (; key < keys; key += VF_WIDTH) {
        size_t left = count > key ? count - key : 0;
        vf x = vf_exp2(vf_fma(vf_load(scores + key), by, less));
        x = vf_pick(x, vf_set(0), left);
        vf_store(scores + key, x);
        a = vf_add(a, x);
    }
    return vf_sum(vf_add(a, b));
}

static void lean(float *scores, size_t stride, const float *bias, size_t rows, size_t keys)
{
    for (size_t row = 0; row < rows; row++)
        for (size_t key = 0; key < keys; key += VF_WIDTH) {
            float *at = scores + row * stride + key;
            vf_store(at, vf_add(vf_load(at), vf_load(bias - row + key)));
        }
}

static void softmax(const wgi_softmax *s)
{
    for (size_t row = 0; row < s->rows; row++) {
        float *scores = s->scores + row * s->stride;
        size_t count = s->keys, from = 0;

        if (s->is_bounded) {
            ptrdiff_t seen = s->keys_first + (ptrdiff_t)row;
            if (s->window && seen > (ptrdiff_t)s->window) from = (size_t)seen - s->window;
            if (seen < (ptrdiff_t)count) count = seen < 0 ? 0 : (size_t)seen;
        }
        if (from >= count) { /* as if the tile were not there, to the bit */
            memset(scores, 0, s->keys * sizeof(float));
            s->fade[row] = WGI_FADE_NONE;
            if (s->is_first) {
                s->most[row] = -INFINITY;
                s->sum[row] = 0;
            }
            continue;
        }
        size_t skip = from / VF_WIDTH * VF_WIDTH; /* keys before the window, in whole vectors */
        for (size_t key = skip; key < from; key++)
            scores[key] = -INFINITY;
        float *seen_scores = scores + skip;
        float most = row_most(seen_scores, count - skip),
              before = s->is_first ? most : s->most[row];
        if (before > most) most = before;
        float shift = most * s->scale_log2;
        float sum = row_exp(seen_scores, count - skip, s->keys - skip, s->scale_log2, shift);
        memset(scores, 0, from * sizeof(float));
        s->most[row] = most;
        if (s->is_first) {
            s->sum[row] = sum;
            continue;
        }
        s->fade[row] = vf_first(vf_exp2(vf_set(before * s->scale_log2 - shift)));
        s->sum[row] = s->sum[row] * s->fade[row] + sum;
    }
}

static void merge(float *out, const float *part, size_t stride, const float *fade, size_t rows)
{
    for (size_t row = 0; row < rows; row++) {
        vf by = vf_set(fade[row]);

        if (fade[row] == WGI_FADE_NONE) continue;
        for (size_t j = row * stride; j < (row + 1) * stride; j += VF_WIDTH)
            vf_store(out + j, vf_fma(vf_load(out + j), by, vf_load(part + j)));
    }
}

static void divide(const float *in, size_t in_stride, const float *sum, float *out,
                   size_t out_stride, size_t rows, size_t columns)
{
    for (size_t row = 0; row < rows; row++) {
        const float *from = in + row * in_stride;
        float *to = out + row * out_stride;
        vf by = vf_set(1 / sum[row]);

        for (size_t j = 0; j < columns; j += VF_WIDTH)
            vf_store_part(to + j, vf_mul(vf_load(from + j), by), columns - j);
    }
}

static void pack_keys(const float *keys, size_t stride, size_t count, size_t depth, float *panels)
{
    for (size_t first = 0; first < count; first += VF_WIDTH) {
        float *panel = panels + first / WGI_PANEL_COLUMNS * WGI_PANEL_COLUMNS * depth +
                       first % WGI_PANEL_COLUMNS;
        const float *from = keys + first * stride;
        size_t whole = count - first >= VF_WIDTH ? depth / VF_WIDTH * VF_WIDTH : 0;
        size_t have = count - first < VF_WIDTH ? count - first : VF_WIDTH;

        for (size_t k = 0; k < whole; k += VF_WIDTH)
            vf_transpose(from + k, stride, panel + k * WGI_PANEL_COLUMNS, WGI_PANEL_COLUMNS);
        for (size_t k = whole; k < depth; k++) {
            float *to = panel + k * WGI_PANEL_COLUMNS;
            for (size_t j = 0; j < VF_WIDTH; j++)
                to[j] = j < have ? from[j * stride + k] : 0;
        }
    }
}

static void pack_values(const float *from, size_t stride, size_t count, size_t columns, float *to,
                        size_t to_stride)
{
    for (size_t row = 0; row < count; row++)
        for (size_t j = 0; j < to_stride; j += VF_WIDTH) {
            size_t left = columns > j ? columns - j : 0;
            vf_store(to + row * to_stride + j, vf_load_part(from + row * stride + j, left));
        }
}

/* ----------------------------------------------------------------------------------- norm */

static void layer_norm(const wgi_norm *norm, wgi_view inout, size_t rows)
{
    size_t count = norm->count, whole = count / VF_WIDTH * VF_WIDTH, left = count - whole;

    for (size_t row = 0; row < rows; row++) {
        float *x = inout.data + row * inout.stride;
        vf sum = vf_set(0), squares = sum;

        for (size_t j = 0; j < whole; j += VF_WIDTH)
            sum = vf_add(sum, vf_load(x + j));
        if (left) sum = vf_add(sum, vf_load_part(x + whole, left));
        vf mean = vf_set(vf_sum(sum) / (float)count);

        for (size_t j = 0; j < whole; j += VF_WIDTH) {
            vf d = vf_sub(vf_load(x + j), mean);
            squares = vf_fma(d, d, squares);
        }
        if (left) {
            vf d = vf_pick(vf_sub(vf_load_part(x + whole, left), mean), vf_set(0), left);
            squares = vf_fma(d, d, squares);
        }
        vf by = vf_set(1 / sqrtf(vf_sum(squares) / (float)count + norm->epsilon));

        for (size_t j = 0; j < count; j += VF_WIDTH) {
            size_t have = count - j;
            vf d = vf_mul(vf_sub(vf_load_part(x + j, have), mean), by);
            vf bias = norm->bias ? vf_load_part(norm->bias + j, have) : vf_set(0);
            vf_store_part(x + j, vf_fma(d, vf_load_part(norm->weight + j, have), bias), have);
        }
    }
}

#include "backend/cpu/kernels_decoder.h"

const wgi_cpu_kernels WGI_KERNELS = {
    .isa = WGI_KERNELS_ISA,
    .gemm = gemm,
    .finish = finish,
    .softmax = softmax,
    .lean = lean,
    .merge = merge,
    .divide = divide,
    .pack_keys = pack_keys,
    .pack_values = pack_values,
    .layer_norm = layer_norm,
    .rms_norm = rms_norm,
    .rotate = rotate,
    .widen_halves = widen_halves,
    .transpose = transpose,
};
