/*
 * vector_avx2.h - the vector words of kernels_body.h in AVX2 and FMA: 8 floats.
 *
 * Threads: no state.
 */
#ifndef WGI_VECTOR_AVX2_H
#define WGI_VECTOR_AVX2_H

#include <immintrin.h>
#include <stddef.h>

#define VF_WIDTH 8
#define VF_ROWS  6 /* 6 x 2 accumulators + 2 weights + 1 activation of 16 registers */

typedef __m256 vf;

/* clang-format off: one word a line reads as the table it is. */
static inline __m256i vf_mask(size_t count)
{
    int most = count >= 8 ? 8 : (int)count;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(most), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vf vf_set(float x)
{
    return _mm256_set1_ps(x);
}
static inline vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
static inline void vf_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x);
}
/* The first `count` floats (any count), zeros behind. */
static inline vf vf_load_part(const float *p, size_t count)
{
    return _mm256_maskload_ps(p, vf_mask(count));
}
static inline void vf_store_part(float *p, vf x, size_t count)
{
    _mm256_maskstore_ps(p, vf_mask(count), x);
}
/* Lane i of a where i < count, else of b. */
static inline vf vf_pick(vf a, vf b, size_t count)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(vf_mask(count)));
}
static inline vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}
static inline vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}
static inline vf vf_sqrt(vf a)
{
    return _mm256_sqrt_ps(a);
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
/* b when either is NaN. */
static inline vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}
static inline vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}
/* Nearest integer, |x| < 2^22. */
static inline vf vf_round(vf x)
{
    return _mm256_round_ps(x, 8);
}
/* x 2^n for integral n in [-126, 127]. */
static inline vf vf_scale(vf x, vf n)
{
    __m256i power = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(power, 23)));
}
static inline float vf_first(vf x)
{
    return _mm256_cvtss_f32(x);
}
static inline float vf_sum(vf x)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}
static inline float vf_most(vf x)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}

/* to[i * to_stride + j] = from[j * from_stride + i] for i < 8, j < 8. */
static inline void vf_transpose(const float *from, size_t from_stride, float *to, size_t to_stride)
{
    __m256 a[8], b[8];

    for (size_t j = 0; j < 4; j++) {
        __m256 even = _mm256_loadu_ps(from + 2 * j * from_stride);
        __m256 odd = _mm256_loadu_ps(from + (2 * j + 1) * from_stride);
        a[2 * j] = _mm256_unpacklo_ps(even, odd);
        a[2 * j + 1] = _mm256_unpackhi_ps(even, odd);
    }
    for (size_t j = 0; j < 2; j++) { /* b[4j + c]: column 4l + c of rows 4j.. in 128-bit lane l */
        for (size_t h = 0; h < 2; h++) {
            __m256d low = _mm256_castps_pd(a[4 * j + h]), high = _mm256_castps_pd(a[4 * j + 2 + h]);
            b[4 * j + 2 * h] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
            b[4 * j + 2 * h + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
        }
    }
    for (size_t c = 0; c < 4; c++) {
        _mm256_storeu_ps(to + c * to_stride, _mm256_permute2f128_ps(b[c], b[4 + c], 0x20));
        _mm256_storeu_ps(to + (4 + c) * to_stride, _mm256_permute2f128_ps(b[c], b[4 + c], 0x31));
    }
}

/* clang-format on */

#endif
