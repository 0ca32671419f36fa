/*
 * vector_avx512.h - the vector words of kernels_body.h in AVX-512 (F, BW, DQ, VL): 16 floats.
 *
 * Threads: no state.
 */
#ifndef WGI_VECTOR_AVX512_H
#define WGI_VECTOR_AVX512_H

#include <immintrin.h>
#include <stddef.h>

#define VF_WIDTH 16
#define VF_ROWS  12 /* 12 x 2 accumulators + 2 weights + 1 activation of 32 registers */

typedef __m512 vf;

/* clang-format off: one word a line reads as the table it is. */
static inline __mmask16 vf_mask(size_t count)
{
    return (__mmask16)(count >= 16 ? 0xFFFFu : (1u << count) - 1u);
}

static inline vf vf_set(float x)
{
    return _mm512_set1_ps(x);
}
static inline vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline void vf_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}
/* The first `count` floats (any count), zeros behind. */
static inline vf vf_load_part(const float *p, size_t count)
{
    return _mm512_maskz_loadu_ps(vf_mask(count), p);
}
static inline void vf_store_part(float *p, vf x, size_t count)
{
    _mm512_mask_storeu_ps(p, vf_mask(count), x);
}
/* Lane i of a where i < count, else of b. */
static inline vf vf_pick(vf a, vf b, size_t count)
{
    return _mm512_mask_blend_ps(vf_mask(count), b, a);
}
static inline vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
static inline vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}
static inline vf vf_sqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
/* b when either is NaN. */
static inline vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
static inline vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}
/* Nearest integer, |x| < 2^22. */
static inline vf vf_round(vf x)
{
    return _mm512_roundscale_ps(x, 8);
}
/* x 2^n for integral n in [-126, 127]. */
static inline vf vf_scale(vf x, vf n)
{
    return _mm512_scalef_ps(x, n);
}
static inline float vf_first(vf x)
{
    return _mm512_cvtss_f32(x);
}
static inline float vf_sum(vf x)
{
    return _mm512_reduce_add_ps(x);
}
static inline float vf_most(vf x)
{
    return _mm512_reduce_max_ps(x);
}

/* to[i * to_stride + j] = from[j * from_stride + i] for i < 16, j < 16. */
static inline void vf_transpose(const float *from, size_t from_stride, float *to, size_t to_stride)
{
    __m512 a[16], b[16];

    for (size_t j = 0; j < 8; j++) {
        __m512 even = _mm512_loadu_ps(from + 2 * j * from_stride);
        __m512 odd = _mm512_loadu_ps(from + (2 * j + 1) * from_stride);
        a[2 * j] = _mm512_unpacklo_ps(even, odd);
        a[2 * j + 1] = _mm512_unpackhi_ps(even, odd);
    }
    for (size_t j = 0; j < 4; j++) { /* b[4j + c]: column 4l + c of rows 4j.. in 128-bit lane l */
        for (size_t h = 0; h < 2; h++) {
            __m512d low = _mm512_castps_pd(a[4 * j + h]), high = _mm512_castps_pd(a[4 * j + 2 + h]);
            b[4 * j + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            b[4 * j + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    }
    for (size_t c = 0; c < 4; c++) {
        __m512 low02 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x88);
        __m512 low13 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xDD);
        __m512 high02 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x88);
        __m512 high13 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xDD);
        _mm512_storeu_ps(to + c * to_stride, _mm512_shuffle_f32x4(low02, high02, 0x88));
        _mm512_storeu_ps(to + (4 + c) * to_stride, _mm512_shuffle_f32x4(low13, high13, 0x88));
        _mm512_storeu_ps(to + (8 + c) * to_stride, _mm512_shuffle_f32x4(low02, high02, 0xDD));
        _mm512_storeu_ps(to + (12 + c) * to_stride, _mm512_shuffle_f32x4(low13, high13, 0xDD));
    }
}

/* clang-format on */

#endif
