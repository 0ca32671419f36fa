/*
 * quant.c - the block formats of GGUF files, widened to f32; see quant.h.
 *
 * A block holds its elements as small integers and one or two scales. In the 32-element formats
 *
 *     Q4_0  [f16 d]          [16 bytes q]                d * (q - 8)      q: 4 bits
 *     Q4_1  [f16 d][f16 m]   [16 bytes q]                d * q + m
 *     Q5_0  [f16 d]          [u32 high bits][16 bytes q] d * (q - 16)     q: 4 + 1 bits
 *     Q5_1  [f16 d][f16 m]   [u32 high bits][16 bytes q] d * q + m
 *     Q8_0  [f16 d]          [32 bytes q]                d * q            q: signed
 *
 * byte i of q holds element i in its low half and element i + 16 in its high half. The 256-element
 * formats have eight or sixteen groups with small integer scales of their own:
 *
 *     Q4_K  [f16 d][f16 m][12 bytes: 8 x 6-bit s, 8 x 6-bit t][128 bytes q]   d*s*q - m*t
 *     Q5_K  [f16 d][f16 m][12 bytes, the same][32 bytes high][128 bytes q]    d*s*q - m*t
 *     Q6_K  [128 bytes low][64 bytes high][16 signed bytes s][f16 d]          d*s*(q - 32)
 *
 * Exactness: d has 11 significant bits, s at most 7 and q at most 5 to 8, so that d*s*q fits the 24
 * bits of a float: products are exact in any order, and d*q + m is rounded once, fused or not. The
 * values are therefore those of every other implementation that computes in f32, bit for bit.
 *
 * The inner loops run over 16 or 32 neighbours with one scale and no branch, in a shape that
 * compilers vectorise on any machine: 4 to 30 GB/s of floats a core at -O3 with SSE2 alone.
 * Refused: intrinsics for each instruction set. Widening is spread over the rows of a bin, and the
 * matrix product that follows takes far longer.
 *
 * Threads: no state; any thread.
 */
#include "base/quant.h"

#include <string.h>

static float half_at(const uint8_t *bytes)
{
    return wgi_f16_widen((uint16_t)(bytes[0] | bytes[1] << 8));
}

/* --------------------------------------------------------------------- 32 elements, one scale */

static void widen_q4_0(const uint8_t *block, float *out)
{
    float d = half_at(block);
    const uint8_t *q = block + 2;

    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((q[i] & 15) - 8);
        out[i + 16] = d * (float)((q[i] >> 4) - 8);
    }
}

static void widen_q4_1(const uint8_t *block, float *out)
{
    float d = half_at(block), m = half_at(block + 2);
    const uint8_t *q = block + 4;

    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(q[i] & 15) + m;
        out[i + 16] = d * (float)(q[i] >> 4) + m;
    }
}

/* The 32 fifth bits as bytes of 0 or 16: a byte times a mask each, since lanes cannot be shifted
 * by different counts everywhere. */
static void spread_high(const uint8_t bits[4], uint8_t high[32])
{
    static const uint8_t mask[8] = {1, 2, 4, 8, 16, 32, 64, 128};

    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 8; i++)
            high[8 * k + i] = bits[k] & mask[i] ? 16 : 0;
}

static void widen_q5_0(const uint8_t *block, float *out)
{
    float d = half_at(block);
    const uint8_t *q = block + 6;
    uint8_t high[32];

    spread_high(block + 2, high);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(((q[i] & 15) | high[i]) - 16);
        out[i + 16] = d * (float)((q[i] >> 4 | high[i + 16]) - 16);
    }
}

static void widen_q5_1(const uint8_t *block, float *out)
{
    float d = half_at(block), m = half_at(block + 2);
    const uint8_t *q = block + 8;
    uint8_t high[32];

    spread_high(block + 4, high);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((q[i] & 15) | high[i]) + m;
        out[i + 16] = d * (float)(q[i] >> 4 | high[i + 16]) + m;
    }
}

static void widen_q8_0(const uint8_t *block, float *out)
{
    float d = half_at(block);
    int8_t q[32];

    memcpy(q, block + 2, sizeof(q));
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)q[i];
}

/* ---------------------------------------------------------------- 256 elements, grouped scales */

/*
 * Eight 6-bit scales and eight 6-bit minima in 12 bytes: the first four of each are the low six
 * bits of bytes 0..3 and 4..7; the others have their low four bits in bytes 8..11 (scale below,
 * minimum above) and their top two in the top of bytes 0..3 and 4..7.
 */
static void unpack_scales(const uint8_t *packed, float d, float m, float scale[8], float low[8])
{
    for (int i = 0; i < 4; i++) {
        scale[i] = d * (float)(packed[i] & 63);
        low[i] = m * (float)(packed[i + 4] & 63);
        scale[i + 4] = d * (float)((packed[i + 8] & 15) | packed[i] >> 6 << 4);
        low[i + 4] = m * (float)(packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4);
    }
}

static void widen_q4_k(const uint8_t *block, float *out)
{
    const uint8_t *q = block + 16;
    float scale[8], low[8];

    unpack_scales(block + 4, half_at(block), half_at(block + 2), scale, low);
    for (int group = 0; group < 8; group += 2, q += 32, out += 64) {
        for (int i = 0; i < 32; i++)
            out[i] = scale[group] * (float)(q[i] & 15) - low[group];
        for (int i = 0; i < 32; i++)
            out[i + 32] = scale[group + 1] * (float)(q[i] >> 4) - low[group + 1];
    }
}

static void widen_q5_k(const uint8_t *block, float *out)
{
    const uint8_t *high = block + 16, *q = block + 48;
    float scale[8], low[8];

    unpack_scales(block + 4, half_at(block), half_at(block + 2), scale, low);
    for (int group = 0; group < 8; group += 2, q += 32, out += 64) {
        for (int i = 0; i < 32; i++)
            out[i] = scale[group] * (float)((q[i] & 15) | (high[i] >> group & 1) << 4) - low[group];
        for (int i = 0; i < 32; i++)
            out[i + 32] =
                scale[group + 1] * (float)(q[i] >> 4 | (high[i] >> (group + 1) & 1) << 4) -
                low[group + 1];
    }
}

/* 32 elements: four bits of q at `shift`, two of `high` at high_shift, a scale for each half. */
static void widen_q6_part(const uint8_t *q, int shift, const uint8_t *high, int high_shift,
                          const float scale[2], float *out)
{
    for (int k = 0; k < 2; k++)
        for (int i = 16 * k; i < 16 * k + 16; i++)
            out[i] =
                scale[k] * (float)(((q[i] >> shift & 15) | (high[i] >> high_shift & 3) << 4) - 32);
}

static void widen_q6_k(const uint8_t *block, float *out)
{
    const uint8_t *q = block, *high = block + 128;
    float d = half_at(block + 208), scale[16];
    int8_t small[16];

    memcpy(small, block + 192, sizeof(small));
    for (int i = 0; i < 16; i++)
        scale[i] = d * (float)small[i];
    for (int half = 0; half < 2; half++, q += 64, high += 32, out += 128) {
        const float *of = scale + (ptrdiff_t)8 * half;
        widen_q6_part(q, 0, high, 0, of, out);
        widen_q6_part(q + 32, 0, high, 2, of + 2, out + 32);
        widen_q6_part(q, 4, high, 4, of + 4, out + 64);
        widen_q6_part(q + 32, 4, high, 6, of + 6, out + 96);
    }
}

/* ------------------------------------------------------------------------------------ the door */

typedef void widen_block(const uint8_t *block, float *out);

static widen_block *block_widener(wgi_dtype dtype)
{
    switch (dtype) {
    case WGI_DTYPE_Q4_0:
        return widen_q4_0;
    case WGI_DTYPE_Q4_1:
        return widen_q4_1;
    case WGI_DTYPE_Q5_0:
        return widen_q5_0;
    case WGI_DTYPE_Q5_1:
        return widen_q5_1;
    case WGI_DTYPE_Q8_0:
        return widen_q8_0;
    case WGI_DTYPE_Q4_K:
        return widen_q4_k;
    case WGI_DTYPE_Q5_K:
        return widen_q5_k;
    case WGI_DTYPE_Q6_K:
        return widen_q6_k;
    case WGI_DTYPE_F32:
    case WGI_DTYPE_F16:
    case WGI_DTYPE_BF16:
    case WGI_DTYPE_OTHER:
        break;
    }
    return NULL;
}

void wgi_quant_widen(wgi_dtype dtype, const void *blocks, size_t block_count, float *out)
{
    const wgi_dtype_layout *layout = wgi_dtype_stored(dtype);
    widen_block *widen = block_widener(dtype);
    const uint8_t *block = blocks;

    if (!widen) return;
    for (size_t i = 0; i < block_count; i++, block += layout->block_bytes)
        widen(block, out + i * layout->block_count);
}
