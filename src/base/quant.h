/*
 * quant.h - blocks of quantised weights, as GGUF files store them, back to f32.
 */
#ifndef WGI_QUANT_H
#define WGI_QUANT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/tensor.h"

#define WGI_QUANT_BLOCK_COUNT_MAX 256 /* elements of the largest block */

/*
 * Widens block_count whole blocks of a quantised dtype (Q4_0 to Q6_K) to f32; `blocks` may stand at
 * any address, out holds block_count x the block's elements.
 */
void wgi_quant_widen(wgi_dtype dtype, const void *blocks, size_t block_count, float *out);

/*
 * IEEE 754-2008 binary16 to binary32, on the bits: exact, without F16C, and the same whatever the
 * processor's flush-to-zero modes are, because a subnormal is rebuilt as an integer times 2^-24, a
 * normal binary32. Both ways are computed and a mask chooses, so that a loop over it has no branch.
 */
static inline float wgi_f16_widen(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t magnitude = half & 0x7FFF;
    float small = (float)(int32_t)magnitude * 0x1p-24f; /* right where the exponent is 0 */
    uint32_t small_bits, bits;
    float value;

    memcpy(&small_bits, &small, sizeof(small_bits));
    bits = (magnitude << 13) + (112u << 23);
    bits += (0u - (magnitude >= 0x7C00)) & 112u << 23; /* infinities and NaN */
    uint32_t is_small = 0u - (magnitude < 0x0400);
    bits = (small_bits & is_small) | (bits & ~is_small);
    bits |= sign;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

#endif
