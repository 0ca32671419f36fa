/*
 * tensor.c - element counts, the table of stored types, and widening to f32; see tensor.h.
 *
 * 16-bit floats are widened here (bfloat16 is the upper half of binary32), quantised blocks by
 * quant.c. A range that begins or ends inside a block goes through one block of scratch on the
 * stack, so that callers need not know where blocks end.
 *
 * Threads: no state; any thread.
 */
#include "base/tensor.h"

#include <string.h>

#include "base/quant.h"

static const wgi_dtype_layout layouts[WGI_DTYPE_OTHER] = {
    [WGI_DTYPE_F32] = {"F32", 1, 4},       [WGI_DTYPE_F16] = {"F16", 1, 2},
    [WGI_DTYPE_BF16] = {"BF16", 1, 2},     [WGI_DTYPE_Q4_0] = {"Q4_0", 32, 18},
    [WGI_DTYPE_Q4_1] = {"Q4_1", 32, 20},   [WGI_DTYPE_Q5_0] = {"Q5_0", 32, 22},
    [WGI_DTYPE_Q5_1] = {"Q5_1", 32, 24},   [WGI_DTYPE_Q8_0] = {"Q8_0", 32, 34},
    [WGI_DTYPE_Q4_K] = {"Q4_K", 256, 144}, [WGI_DTYPE_Q5_K] = {"Q5_K", 256, 176},
    [WGI_DTYPE_Q6_K] = {"Q6_K", 256, 210},
};

const wgi_dtype_layout *wgi_dtype_stored(wgi_dtype dtype)
{
    return (unsigned)dtype < WGI_DTYPE_OTHER ? &layouts[dtype] : NULL;
}

uint64_t wgi_tensor_count(const wgi_tensor *tensor)
{
    uint64_t count = 1;

    for (uint32_t i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i];
    return count;
}

static void widen_f16(const uint8_t *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, bytes + i * sizeof(half), sizeof(half));
        out[i] = wgi_f16_widen(half);
    }
}

static void widen_bf16(const uint8_t *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, bytes + i * sizeof(half), sizeof(half));
        uint32_t wide = (uint32_t)half << 16;
        memcpy(out + i, &wide, sizeof(wide));
    }
}

static void widen_blocks(const wgi_tensor *tensor, size_t first, size_t count, float *out)
{
    const wgi_dtype_layout *layout = &layouts[tensor->dtype];
    const uint8_t *block = tensor->data;
    float whole[WGI_QUANT_BLOCK_COUNT_MAX];

    block += first / layout->block_count * layout->block_bytes;
    size_t skip = first % layout->block_count;
    while (count > 0) {
        if (skip == 0 && count >= layout->block_count) {
            size_t blocks = count / layout->block_count;
            wgi_quant_widen(tensor->dtype, block, blocks, out);
            block += blocks * layout->block_bytes;
            out += blocks * layout->block_count;
            count -= blocks * layout->block_count;
            continue;
        }
        size_t part = layout->block_count - skip;
        if (part > count) part = count;
        wgi_quant_widen(tensor->dtype, block, 1, whole);
        memcpy(out, whole + skip, part * sizeof(*out));
        block += layout->block_bytes;
        out += part;
        count -= part;
        skip = 0;
    }
}

void wgi_tensor_widen(const wgi_tensor *tensor, size_t first, size_t count, float *out)
{
    const uint8_t *bytes = tensor->data;

    if (count == 0) return;
    switch (tensor->dtype) {
    case WGI_DTYPE_F32:
        memcpy(out, bytes + first * sizeof(float), count * sizeof(float));
        break;
    case WGI_DTYPE_F16:
        widen_f16(bytes + first * sizeof(uint16_t), count, out);
        break;
    case WGI_DTYPE_BF16:
        widen_bf16(bytes + first * sizeof(uint16_t), count, out);
        break;
    case WGI_DTYPE_Q4_0:
    case WGI_DTYPE_Q4_1:
    case WGI_DTYPE_Q5_0:
    case WGI_DTYPE_Q5_1:
    case WGI_DTYPE_Q8_0:
    case WGI_DTYPE_Q4_K:
    case WGI_DTYPE_Q5_K:
    case WGI_DTYPE_Q6_K:
        widen_blocks(tensor, first, count, out);
        break;
    case WGI_DTYPE_OTHER:
        break;
    }
}
