/*
 * test_tensor.c - widening of 16-bit floats: the edge values by their bits, and all 65,536 halves
 * against the definition (sign * fraction * 2^exponent) in double arithmetic, one by one and all in
 * one call. Quantised types have a test of their own, test_quant.c.
 */
#include "base/tensor.h"

#include <math.h>

#include "harness.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static void test_edges(void)
{
    static const uint16_t halves[] = {0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0x7BFF,
                                      0x7C00, 0xFC00, 0x7E00, 0x0000, 0x8000, 0x3555};
    static const uint32_t wide[] = {0x33800000, 0xB3800000, 0x387FC000, 0x38800000,
                                    0x3F800000, 0x477FE000, 0x7F800000, 0xFF800000,
                                    0x7FC00000, 0x00000000, 0x80000000, 0x3EAAA000};
    char odd[sizeof(halves) + 1]; /* no alignment is promised */
    float out[12];
    wgi_tensor tensor = {.dtype = WGI_DTYPE_F16,
                         .rank = 2,
                         .shape = {3, 4},
                         .data = odd + 1,
                         .bytes = sizeof(halves)};

    memcpy(odd + 1, halves, sizeof(halves));
    EXPECT_EQ(wgi_tensor_count(&tensor), 12);
    wgi_tensor_widen(&tensor, 0, 12, out);
    for (size_t i = 0; i < 12; i++)
        EXPECT_EQ(bits_of(out[i]), wide[i]);
    wgi_tensor_widen(&tensor, 3, 2, out);
    EXPECT_EQ(bits_of(out[0]), wide[3]);
    EXPECT_EQ(bits_of(out[1]), wide[4]);
}

static void test_every_half(void)
{
    for (uint32_t half = 0; half < 0x10000; half++) {
        uint16_t stored = (uint16_t)half;
        float out;
        wgi_tensor tensor = {.dtype = WGI_DTYPE_F16, .rank = 1, .shape = {1}, .data = &stored};
        int exponent = (int)(half >> 10 & 31);
        double fraction = half & 1023;
        double want = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);

        wgi_tensor_widen(&tensor, 0, 1, &out);
        EXPECT_EQ(signbit(out) != 0, half >> 15);
        if (exponent == 31) {
            EXPECT(fraction > 0 ? isnan(out) : isinf(out));
        } else {
            EXPECT((double)out == (half >> 15 ? -want : want));
        }
    }
}

/* A long run takes the compiler's vector path; it gives what single values give. */
static void test_long_runs(void)
{
    static const wgi_dtype dtypes[] = {WGI_DTYPE_F16, WGI_DTYPE_BF16};
    static uint16_t stored[0x10000];
    static float out[0x10000];

    for (uint32_t i = 0; i < 0x10000; i++)
        stored[i] = (uint16_t)i;
    for (size_t k = 0; k < 2; k++) {
        wgi_tensor tensor = {.dtype = dtypes[k], .rank = 1, .shape = {0x10000}, .data = stored};
        wgi_tensor_widen(&tensor, 0, 0x10000, out);
        for (uint32_t i = 0; i < 0x10000; i++) {
            float one;
            wgi_tensor_widen(&tensor, i, 1, &one);
            EXPECT_EQ(bits_of(out[i]), bits_of(one));
        }
        wgi_tensor_widen(&tensor, 0x8001, 1003, out);
        EXPECT_EQ(bits_of(out[1002]) >> 31, 1);
    }
}

static void test_bf16_and_f32(void)
{
    static const uint16_t brains[] = {0x3F80, 0xC000, 0x0001, 0x7F80, 0x7FC0, 0x8000};
    static const float floats[] = {1.5f, -0.0f, 1e-45f, 3e38f};
    float out[6];
    wgi_tensor tensor = {.dtype = WGI_DTYPE_BF16, .rank = 1, .shape = {6}, .data = brains};

    wgi_tensor_widen(&tensor, 0, 6, out);
    for (size_t i = 0; i < 6; i++)
        EXPECT_EQ(bits_of(out[i]), (uint32_t)brains[i] << 16);

    tensor = (wgi_tensor){.dtype = WGI_DTYPE_F32, .rank = 1, .shape = {4}, .data = floats};
    wgi_tensor_widen(&tensor, 1, 3, out);
    EXPECT(memcmp(out, floats + 1, sizeof(float[3])) == 0);

    tensor = (wgi_tensor){.rank = 0};
    EXPECT_EQ(wgi_tensor_count(&tensor), 1);
    tensor = (wgi_tensor){.rank = 2, .shape = {0, 4}};
    EXPECT_EQ(wgi_tensor_count(&tensor), 0);
}

int main(void)
{
    test_edges();
    test_every_half();
    test_long_runs();
    test_bf16_and_f32();
    return wgt_result();
}
