/*
 * test_backend.c - embedding lookup, layer norm and activations of every instruction set against
 * the reference, their independence of neighbours, and the ends of the activations.
 * LABELS: quick numeric
 */
#include <math.h>

#include "backend/backend.h"
#include "each_isa.h"

static const wgi_backend *reference_backend;

/* Largest |a - b| over [rows, columns], NaN counting as infinite. */
static double distance(wgi_view a, wgi_view b, size_t rows, size_t columns)
{
    double worst = 0;

    for (size_t row = 0; row < rows; row++)
        for (size_t j = 0; j < columns; j++) {
            double d =
                fabs((double)a.data[row * a.stride + j] - (double)b.data[row * b.stride + j]);
            if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
        }
    return worst;
}

static void check_norm(const wgi_backend *backend, size_t count, size_t rows)
{
    size_t stride = wgi_view_stride(count) + 16;
    wgi_view a = {wgt_floats(rows * stride), stride}, b = {wgt_floats(rows * stride), stride};
    wgi_view c = {wgt_floats(rows * stride), stride};
    float *weight = wgt_floats(count), *bias = wgt_floats(count);
    wgi_norm norm = {weight, wgt_below(2) ? bias : NULL, count, 1e-12f};
    size_t one = wgt_below(rows);

    if (count == 1) norm.epsilon = 1e-5f;
    for (size_t i = 0; i < rows * stride; i++)
        a.data[i] = a.data[i] * 3 + 5;
    memcpy(b.data, a.data, rows * stride * sizeof(float));
    memcpy(c.data, a.data, rows * stride * sizeof(float));
    backend->layer_norm(backend, &norm, a, rows);
    reference_backend->layer_norm(reference_backend, &norm, b, rows);
    /* Values around 5 with a spread of 2: 2^-24 of 8 over the spread, a few times. */
    EXPECT(distance(a, b, rows, count) <= 4e-6);
    int is_untouched = 1;
    for (size_t row = 0; row < rows; row++)
        for (size_t j = count; j < stride; j++)
            is_untouched &= a.data[row * stride + j] == c.data[row * stride + j];
    EXPECT(is_untouched);
    /* The law: one row alone. */
    backend->layer_norm(backend, &norm, (wgi_view){c.data + one * stride, stride}, 1);
    EXPECT(memcmp(c.data + one * stride, a.data + one * stride, count * sizeof(float)) == 0);
    free(a.data);
    free(b.data);
    free(c.data);
    free(weight);
    free(bias);
}

static void check_embed(const wgi_backend *backend, size_t count, wgi_dtype dtype)
{
    enum { VOCABULARY = 50, POSITIONS = 20, ROWS = 33 };
    size_t stride = wgi_view_stride(count);
    float *tables = wgt_floats((VOCABULARY + POSITIONS + 2) * count + 1);
    /* An odd offset of one or two bytes: alignment is not promised. */
    const char *base = (const char *)tables + (dtype == WGI_DTYPE_F32 ? 2 : 1);
    size_t item = dtype == WGI_DTYPE_F32 ? 4 : 2;
    wgi_tensor token = {.dtype = dtype, .rank = 2, .shape = {VOCABULARY, count}, .data = base};
    wgi_tensor position = {.dtype = dtype,
                           .rank = 2,
                           .shape = {POSITIONS, count},
                           .data = base + VOCABULARY * count * item};
    wgi_tensor type = {.dtype = dtype,
                       .rank = 2,
                       .shape = {2, count},
                       .data = base + (VOCABULARY + POSITIONS) * count * item};
    wgi_embedding embedding = {&token, wgt_below(4) ? &position : NULL, wgt_below(4) ? &type : NULL,
                               count};
    int32_t ids[ROWS], positions[ROWS], types[ROWS];
    wgi_view a = {wgt_floats(ROWS * stride), stride}, b = {wgt_floats(ROWS * stride), stride};
    double most = 0;

    /* Numbers that are finite in the table's own type, seen through the odd offset. */
    for (size_t i = 0; i < (VOCABULARY + POSITIONS + 2) * count; i++) {
        float value = wgt_float();
        uint16_t half =
            (uint16_t)(0x2000 + (wgt_random() & 0x9FFF) % 0x1C00 + (i % 2 ? 0x8000 : 0));
        if (dtype == WGI_DTYPE_F32)
            memcpy((char *)tables + 2 + i * 4, &value, 4);
        else
            memcpy((char *)tables + 1 + i * 2, &half, 2);
    }
    for (size_t i = 0; i < ROWS; i++) {
        ids[i] = (int32_t)wgt_below(VOCABULARY);
        positions[i] = (int32_t)wgt_below(POSITIONS);
        types[i] = (int32_t)wgt_below(2);
    }
    backend->embed(backend, &embedding, ids, positions, types, a, ROWS);
    reference_backend->embed(reference_backend, &embedding, ids, positions, types, b, ROWS);
    for (size_t i = 0; i < ROWS * stride; i++)
        if (i % stride < count && (double)fabsf(b.data[i]) > most) most = (double)fabsf(b.data[i]);
    EXPECT(most > 0);
    EXPECT(distance(a, b, ROWS, count) <= 3e-7 * most);
    free(tables);
    free(a.data);
    free(b.data);
}

/* A layer of one input with weight 1: the activation itself, over a fine grid and far out. */
static void check_activation(const wgi_backend *backend, wgi_activation activation, double allowed)
{
    enum { ROWS = 24000 };
    static float x[ROWS * 16], got[ROWS * 16], want[ROWS * 16];
    static const float far[] = {0,   -0.0f, 5.4f, -5.4f, 6,     -6,     20,     -20,
                                100, -100,  1e4f, -1e4f, 1e18f, -1e18f, 1e-30f, -1e-30f};
    float one = 1;
    wgi_tensor weight = wgt_tensor(&one, 1, 1);
    wgi_linear *a = NULL, *b = NULL;
    void *scratch = aligned_alloc(64, backend->scratch_bytes(backend, NULL));
    wgi_view in = {x, 16}, nothing = {NULL, 0};
    double worst = 0, at = 0;
    wg_error err;

    for (size_t i = 0; i < ROWS; i++)
        x[i * 16] = ((float)i - ROWS / 2) * 0x1p-10f;
    memcpy(&x[0], &far[0], sizeof(float));
    for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++)
        x[i * 16] = far[i];
    EXPECT_OK(backend->linear_pack(backend, &a, &weight, NULL, &err));
    EXPECT_OK(reference_backend->linear_pack(reference_backend, &b, &weight, NULL, &err));
    backend->linear(backend, a, in, (wgi_view){got, 16}, nothing, activation, ROWS, scratch);
    reference_backend->linear(reference_backend, b, in, (wgi_view){want, 16}, nothing, activation,
                              ROWS, NULL);
    for (size_t i = 0; i < ROWS; i++) {
        /* Absolute near 0, relative (2^-22) far out. */
        double error = fabs((double)got[i * 16] - (double)want[i * 16]);
        error -= fabs((double)want[i * 16]) * 0x1p-22;
        if (!(error <= worst)) worst = error, at = (double)x[i * 16];
    }
    EXPECT(worst <= allowed);
    if (!(worst <= allowed))
        fprintf(stderr, "  %s activation %d: %g at %g\n", backend->isa, (int)activation, worst, at);

    x[0] = NAN, x[16] = INFINITY;
    backend->linear(backend, a, in, (wgi_view){got, 16}, nothing, activation, 2, scratch);
    EXPECT(isnan(got[0])); /* a fault upstream is never smoothed over */
    EXPECT(activation == WGI_ACTIVATION_TANH ? got[16] == 1 : !isfinite(got[16]));
    backend->linear_free(a);
    reference_backend->linear_free(b);
    free(scratch);
}

static void body(const wgi_backend *backend)
{
    static const size_t counts[] = {1, 3, 16, 20, 24, 32, 40, 47, 80, 384, 400, 1030};
    wg_error err;

    EXPECT_OK(wgi_backend_find(&reference_backend, "reference", WG_ISA_AUTO, &err));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        check_norm(backend, counts[i], 1 + wgt_below(200));
        check_embed(backend, counts[i], WGI_DTYPE_F32);
        check_embed(backend, counts[i], WGI_DTYPE_F16);
        check_embed(backend, counts[i], WGI_DTYPE_BF16);
    }
    check_activation(backend, WGI_ACTIVATION_NONE, 0);
    check_activation(backend, WGI_ACTIVATION_RELU, 0);
    check_activation(backend, WGI_ACTIVATION_GELU, 1.5e-6);
    check_activation(backend, WGI_ACTIVATION_GELU_TANH, 1e-6);
    check_activation(backend, WGI_ACTIVATION_SILU, 1e-6);
    check_activation(backend, WGI_ACTIVATION_TANH, 5e-7);
    EXPECT_EQ(backend->block_rows % 8, 0);
    EXPECT(backend->block_rows > 0 && backend->attend_rows > 0);
}

int main(void)
{
    wgt_seed_set(0xBAC);
    wgt_each_isa(body);
    return wgt_result();
}
