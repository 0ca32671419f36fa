/*
 * vector_plain.h - the vector words of kernels_body.h without intrinsics: 4 floats.
 *
 * The vector type of GCC and Clang becomes whatever the target has (SSE2, NEON, or scalars), so
 * this is the version for every processor. No fused multiply-add: with -ffp-contract=off every
 * compiler gives the same bits.
 *
 * Threads: no state.
 */
#ifndef WGI_VECTOR_PLAIN_H
#define WGI_VECTOR_PLAIN_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VF_WIDTH 4
#define VF_ROWS  4 /* 4 x 2 accumulators, weights, products and one activation of 16 registers */

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));

/* clang-format off: one word a line reads as the table it is. */
static inline vf vf_set(float x)
{
    return (vf){x, x, x, x};
}
static inline vf vf_load(const float *p)
{
    vf x;
    memcpy(&x, p, sizeof(x));
    return x;
}
static inline void vf_store(float *p, vf x)
{
    memcpy(p, &x, sizeof(x));
}
/* The first `count` floats (any count), zeros behind. */
static inline vf vf_load_part(const float *p, size_t count)
{
    vf x = vf_set(0);
    memcpy(&x, p, (count < 4 ? count : 4) * sizeof(float));
    return x;
}
static inline void vf_store_part(float *p, vf x, size_t count)
{
    memcpy(p, &x, (count < 4 ? count : 4) * sizeof(float));
}
static inline vf vf_choose(vi mask, vf a, vf b)
{
    return (vf)(((vi)a & mask) | ((vi)b & ~mask));
}
/* Lane i of a where i < count, else of b. */
static inline vf vf_pick(vf a, vf b, size_t count)
{
    int32_t most = count < 4 ? (int32_t)count : 4;
    return vf_choose((vi){0, 1, 2, 3} < (vi){most, most, most, most}, a, b);
}
static inline vf vf_add(vf a, vf b)
{
    return a + b;
}
static inline vf vf_sub(vf a, vf b)
{
    return a - b;
}
static inline vf vf_mul(vf a, vf b)
{
    return a * b;
}
static inline vf vf_div(vf a, vf b)
{
    return a / b;
}
static inline vf vf_sqrt(vf a)
{
    return (vf){sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])};
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return a * b + c;
}
/* b when either is NaN. */
static inline vf vf_max(vf a, vf b)
{
    return vf_choose(a > b, a, b);
}
static inline vf vf_min(vf a, vf b)
{
    return vf_choose(a < b, a, b);
}
/* Nearest integer, |x| < 2^22: the sum with 1.5 2^23 has no bits left for a fraction. */
static inline vf vf_round(vf x)
{
    vf magic = vf_set(0x1.8p23f);
    return (x + magic) - magic;
}
/* x 2^n for integral n in [-126, 127]. */
static inline vf vf_scale(vf x, vf n)
{
    vi power = (vi)(n + vf_set(0x1.8p23f)) - (vi)vf_set(0x1.8p23f) + 127;
    return x * (vf)(power << 23);
}
static inline float vf_first(vf x)
{
    return x[0];
}
static inline float vf_sum(vf x)
{
    return (x[0] + x[2]) + (x[1] + x[3]);
}
static inline float vf_most(vf x)
{
    float a = x[0] > x[2] ? x[0] : x[2], b = x[1] > x[3] ? x[1] : x[3];
    return a > b ? a : b;
}

/* to[i * to_stride + j] = from[j * from_stride + i] for i < 4, j < 4. */
static inline void vf_transpose(const float *from, size_t from_stride, float *to, size_t to_stride)
{
    for (size_t j = 0; j < 4; j++)
        for (size_t i = 0; i < 4; i++)
            to[i * to_stride + j] = from[j * from_stride + i];
}

/* clang-format on */

#endif
