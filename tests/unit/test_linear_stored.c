/*
 * test_linear_stored.c - weights kept in the type of the file give the bytes of weights widened to
 * f32 when packed: every type, depths with and without a rest, any number of rows, with libxsmm and
 * with our own kernels; and they are smaller.
 * LABELS: quick numeric
 */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "base/quant.h"
#include "each_isa.h"

#define ROWS_MAX 130

/* Where a block's scales (f16) stand. */
static const struct kind {
    wgi_dtype dtype;
    size_t scale_at, scale_bytes;
} kinds[] = {{WGI_DTYPE_F16, 0, 0},   {WGI_DTYPE_BF16, 0, 0}, {WGI_DTYPE_Q4_0, 0, 2},
             {WGI_DTYPE_Q4_1, 0, 4},  {WGI_DTYPE_Q5_0, 0, 2}, {WGI_DTYPE_Q5_1, 0, 4},
             {WGI_DTYPE_Q8_0, 0, 2},  {WGI_DTYPE_Q4_K, 0, 4}, {WGI_DTYPE_Q5_K, 0, 4},
             {WGI_DTYPE_Q6_K, 208, 2}};

static const struct shape {
    size_t inputs, outputs;
} shapes[] = {{256, 64},  {512, 40}, {768, 130}, {1024, 97}, {1536, 1},
              {1792, 48}, {300, 70}, {1100, 64}, {32, 20},   {544, 33}};

static uint16_t small_half(void)
{
    return (uint16_t)(0x2000 + wgt_below(0x0C00)); /* 2^-7 to 2^-4 */
}

static uint16_t small_bf16(void)
{
    float value = wgt_float();
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

static char *make_bytes(const struct kind *kind, size_t blocks, size_t block_bytes)
{
    char *bytes = malloc(blocks * block_bytes);

    for (size_t i = 0; i < blocks * block_bytes; i++)
        bytes[i] = (char)wgt_below(256);
    for (size_t block = 0; block < blocks; block++)
        for (size_t i = 0; i < (kind->scale_bytes ? kind->scale_bytes : 2); i += 2) {
            uint16_t half = kind->dtype == WGI_DTYPE_BF16 ? small_bf16() : small_half();
            memcpy(bytes + block * block_bytes + kind->scale_at + i, &half, 2);
        }
    return bytes;
}

static void run(const wgi_backend *backend, const wgi_linear *linear, wgi_view in, size_t rows,
                size_t outputs, float *out, void *scratch)
{
    wgi_view to = {out, wgi_view_stride(outputs)};

    memset(out, 0, ROWS_MAX * to.stride * sizeof(float));
    backend->linear(backend, linear, in, to, (wgi_view){NULL, 0}, WGI_ACTIVATION_SILU, rows,
                    scratch);
}

static void check(const wgi_backend *backend, const struct kind *kind, size_t inputs,
                  size_t outputs)
{
    const wgi_dtype_layout *layout = wgi_dtype_stored(kind->dtype);
    size_t blocks = inputs / layout->block_count * outputs, stride = wgi_view_stride(inputs);
    size_t out_count = ROWS_MAX * wgi_view_stride(outputs);
    char *bytes = make_bytes(kind, blocks, layout->block_bytes);
    float *biases = wgt_floats(outputs), *in = wgt_floats(ROWS_MAX * stride);
    float *want = wgt_floats(out_count), *got = wgt_floats(out_count);
    wgi_tensor weight = {.name = "a tensor",
                         .dtype = kind->dtype,
                         .rank = 2,
                         .shape = {outputs, inputs},
                         .data = bytes,
                         .bytes = blocks * layout->block_bytes};
    wgi_tensor bias = wgt_tensor(biases, outputs, 0);
    wgi_linear *wide = NULL, *stored = NULL, *plain = NULL;
    wgi_cpu own = *wgi_cpu_of(backend);
    size_t room = (backend->scratch_bytes(backend, NULL) + 63) / 64 * 64;
    void *scratch = aligned_alloc(64, room);
    wg_error err;
    int is_same = 1;

    own.has_xsmm = false;
    EXPECT_OK(backend->linear_pack(backend, &wide, &weight, &bias, &err));
    EXPECT_OK(backend->linear_pack_stored(backend, &stored, &weight, &bias, &err));
    EXPECT_OK(own.base.linear_pack_stored(&own.base, &plain, &weight, &bias, &err));
    EXPECT(inputs < 64 || backend->linear_bytes(stored) < backend->linear_bytes(wide));
    for (size_t rows = 1; rows <= ROWS_MAX; rows += 1 + wgt_below(30)) {
        wgi_view view = {in, stride};

        memset(scratch, 0xFF, room);
        run(backend, wide, view, rows, outputs, want, scratch);
        memset(scratch, 0xFF, room);
        run(backend, stored, view, rows, outputs, got, scratch);
        is_same &= memcmp(want, got, out_count * sizeof(float)) == 0;
        run(&own.base, plain, view, rows, outputs, got, scratch);
        is_same &= memcmp(want, got, out_count * sizeof(float)) == 0;
        is_same &= isfinite(want[0]);
    }
    EXPECT(is_same);
    if (!is_same)
        fprintf(stderr, "  %s %s %zu -> %zu\n", backend->isa, layout->name, inputs, outputs);
    backend->linear_free(wide);
    backend->linear_free(stored);
    backend->linear_free(plain);
    free(scratch);
    free(bytes);
    free(biases);
    free(in);
    free(want);
    free(got);
}

static void body(const wgi_backend *backend)
{
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
            if (shapes[i].inputs % wgi_dtype_stored(kinds[k].dtype)->block_count == 0)
                check(backend, &kinds[k], shapes[i].inputs, shapes[i].outputs);
}

int main(void)
{
    wgt_seed_set(0x5703);
    wgt_each_isa(body);
    return wgt_result();
}
