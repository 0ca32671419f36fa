/*
 * test_linear.c - linear layers of every instruction set: right (against the reference, in double),
 * independent of the rows computed together (the same bytes), deaf to what stands beside their
 * rows, exact in what they touch (rows that end at a page nobody may read), and the same bytes from
 * libxsmm and from our own kernels.
 * LABELS: quick numeric
 */
#include <math.h>
#include <sys/mman.h>

#include "backend/cpu/cpu.h"
#include "each_isa.h"

#define ROWS_MAX 300

typedef struct shape {
    size_t inputs, outputs;
} shape;

static const shape shapes[] = {{384, 384}, {36, 20}, {20, 36},   {1, 1},    {24, 40},
                               {80, 136},  {64, 64}, {33, 47},   {128, 49}, {17, 97},
                               {100, 48},  {7, 129}, {1536, 64}, {40, 113}, {72, 32}};

typedef struct layer {
    shape shape;
    float *weights, *biases;
    wgi_tensor weight, bias;
    wgi_view in, residual;
    wgi_linear *packed, *reference;
} layer;

static void *scratch;

static layer make_layer(const wgi_backend *backend, shape s, int has_bias)
{
    const wgi_backend *reference = NULL;
    layer l = {
        .shape = s, .weights = wgt_floats(s.inputs * s.outputs), .biases = wgt_floats(s.outputs)};
    wg_error err;

    EXPECT_OK(wgi_backend_find(&reference, "reference", WG_ISA_AUTO, &err));
    l.weight = wgt_tensor(l.weights, s.outputs, s.inputs);
    l.bias = wgt_tensor(l.biases, s.outputs, 0);
    l.in.stride = wgi_view_stride(s.inputs);
    l.residual.stride = wgi_view_stride(s.outputs);
    l.in.data = wgt_floats(ROWS_MAX * l.in.stride);
    l.residual.data = wgt_floats(ROWS_MAX * l.residual.stride);
    EXPECT_OK(backend->linear_pack(backend, &l.packed, &l.weight, has_bias ? &l.bias : NULL, &err));
    EXPECT_OK(reference->linear_pack(reference, &l.reference, &l.weight, has_bias ? &l.bias : NULL,
                                     &err));
    return l;
}

static void free_layer(const wgi_backend *backend, layer *l)
{
    const wgi_backend *reference = NULL;
    wg_error err;

    EXPECT_OK(wgi_backend_find(&reference, "reference", WG_ISA_AUTO, &err));
    backend->linear_free(l->packed);
    reference->linear_free(l->reference);
    free(l->weights);
    free(l->biases);
    free(l->in.data);
    free(l->residual.data);
}

/* The sum of absolute products that an output is made of: what its rounding is measured by. */
static double magnitude(const layer *l, size_t row, size_t column)
{
    double sum = 1;

    for (size_t k = 0; k < l->shape.inputs; k++)
        sum += fabs((double)l->in.data[row * l->in.stride + k] *
                    (double)l->weights[column * l->shape.inputs + k]);
    return sum;
}

static void check_right(const wgi_backend *backend, const layer *l, size_t rows,
                        wgi_activation activation, int has_residual)
{
    const wgi_backend *reference = NULL;
    size_t stride = l->residual.stride;
    wgi_view got = {wgt_floats(rows * stride), stride}, want = {wgt_floats(rows * stride), stride};
    wgi_view residual = has_residual ? l->residual : (wgi_view){NULL, 0};
    double worst = 0;
    wg_error err;

    EXPECT_OK(wgi_backend_find(&reference, "reference", WG_ISA_AUTO, &err));
    backend->linear(backend, l->packed, l->in, got, residual, activation, rows, scratch);
    reference->linear(reference, l->reference, l->in, want, residual, activation, rows, NULL);
    for (size_t row = 0; row < rows; row++)
        for (size_t j = 0; j < l->shape.outputs; j++) {
            double error =
                fabs((double)got.data[row * stride + j] - (double)want.data[row * stride + j]);
            /* Eight half units of rounding on the magnitude, and what an activation may add. */
            double allowed = 8 * 0x1p-24 * magnitude(l, row, j) + 1.5e-6;
            if (!(error <= allowed) || !(worst <= 1)) worst = 2;
        }
    EXPECT(worst <= 1);
    if (worst > 1)
        fprintf(stderr, "  %s %zu -> %zu, %zu rows, activation %d, residual %d\n", backend->isa,
                l->shape.inputs, l->shape.outputs, rows, (int)activation, has_residual);
    free(got.data);
    free(want.data);
}

/* Rows [first, first + rows) computed on their own, at another place, among poison. */
static void check_alone(const wgi_backend *backend, const layer *l, wgi_view all, size_t first,
                        size_t rows, wgi_activation activation)
{
    size_t in_stride = l->in.stride, out_stride = l->residual.stride;
    float *in = wgt_floats((rows + 16) * in_stride), *out = wgt_floats((rows + 16) * out_stride);
    wgi_view residual = {l->residual.data + first * out_stride, out_stride};
    int is_same = 1, is_exact = 1;

    for (size_t i = 0; i < (rows + 16) * in_stride; i++)
        in[i] = i % 3 ? NAN : INFINITY;
    for (size_t i = 0; i < (rows + 16) * out_stride; i++)
        out[i] = 77;
    for (size_t row = 0; row < rows; row++)
        memcpy(in + (row + 8) * in_stride, l->in.data + (first + row) * in_stride,
               l->shape.inputs * sizeof(float));
    backend->linear(backend, l->packed, (wgi_view){in + 8 * in_stride, in_stride},
                    (wgi_view){out + 8 * out_stride, out_stride}, residual, activation, rows,
                    scratch);
    for (size_t row = 0; row < rows + 16; row++)
        for (size_t j = 0; j < out_stride; j++) {
            const float *got = out + row * out_stride + j;
            if (row >= 8 && row < rows + 8 && j < l->shape.outputs)
                is_same &=
                    memcmp(got, all.data + (first + row - 8) * all.stride + j, sizeof(*got)) == 0;
            else
                is_exact &= *got == 77;
        }
    EXPECT(is_same);
    EXPECT(is_exact); /* nothing was written beside the rows and columns asked for */
    if (!is_same || !is_exact)
        fprintf(stderr, "  %s %zu -> %zu: rows %zu + %zu\n", backend->isa, l->shape.inputs,
                l->shape.outputs, first, rows);
    free(in);
    free(out);
}

static void check_law(const wgi_backend *backend, const layer *l)
{
    static const size_t counts[] = {1,  2,  3,  5,  6,  7,  8,  9,   11, 12,
                                    13, 16, 23, 40, 95, 96, 97, 191, 299};
    wgi_activation activation = (wgi_activation)wgt_below(6);
    wgi_view all = {wgt_floats(ROWS_MAX * l->residual.stride), l->residual.stride};

    backend->linear(backend, l->packed, l->in, all, l->residual, activation, ROWS_MAX, scratch);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        check_alone(backend, l, all, wgt_below(ROWS_MAX - counts[i] + 1), counts[i], activation);
    free(all.data);
}

/* The packed form made without libxsmm, and views of odd strides, give the same bytes. */
static void check_own(const wgi_backend *backend, const layer *l)
{
    wgi_cpu own = *wgi_cpu_of(backend);
    size_t rows = 1 + wgt_below(ROWS_MAX), stride = l->residual.stride, odd = l->in.stride + 1;
    float *in = wgt_floats(rows * odd), *a = wgt_floats(rows * stride),
          *b = wgt_floats(rows * stride);
    wgi_view nothing = {NULL, 0};
    wgi_linear *packed = NULL;
    wg_error err;

    memcpy(b, a, rows * stride * sizeof(float));
    backend->linear(backend, l->packed, l->in, (wgi_view){a, stride}, nothing, WGI_ACTIVATION_GELU,
                    rows, scratch);
    own.has_xsmm = false;
    EXPECT_OK(own.base.linear_pack(&own.base, &packed, &l->weight, &l->bias, &err));
    own.base.linear(&own.base, packed, l->in, (wgi_view){b, stride}, nothing, WGI_ACTIVATION_GELU,
                    rows, scratch);
    EXPECT(memcmp(a, b, rows * stride * sizeof(float)) == 0);
    for (size_t row = 0; row < rows; row++)
        memcpy(in + row * odd, l->in.data + row * l->in.stride, l->shape.inputs * sizeof(float));
    backend->linear(backend, l->packed, (wgi_view){in, odd}, (wgi_view){b, stride}, nothing,
                    WGI_ACTIVATION_GELU, rows, scratch);
    EXPECT(memcmp(a, b, rows * stride * sizeof(float)) == 0);
    own.base.linear_free(packed);
    free(in);
    free(a);
    free(b);
}

/* Room for `count` floats that end where a page begins that nobody may touch. */
typedef struct guarded {
    char *pages;
    size_t bytes; /* of pages, the last one forbidden */
    float *floats;
} guarded;

static guarded make_guarded(size_t count)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), need = count * sizeof(float);
    guarded g = {.bytes = (need + page - 1) / page * page + page};

    g.pages = mmap(NULL, g.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.pages == MAP_FAILED || mprotect(g.pages + g.bytes - page, page, PROT_NONE)) exit(1);
    g.floats = (float *)(void *)(g.pages + g.bytes - page - need);
    return g;
}

/* The last input and the last output float are the last of a page: one more would end the test. */
static void check_exact(const wgi_backend *backend, const layer *l)
{
    for (size_t rows = 1; rows <= 27; rows++) {
        size_t in_count = (rows - 1) * l->in.stride + l->shape.inputs;
        size_t out_count = (rows - 1) * l->residual.stride + l->shape.outputs;
        guarded in = make_guarded(in_count), out = make_guarded(out_count);
        wgi_view view = {out.floats, l->residual.stride};

        memcpy(in.floats, l->in.data, in_count * sizeof(float));
        backend->linear(backend, l->packed, (wgi_view){in.floats, l->in.stride}, view, view,
                        WGI_ACTIVATION_GELU, rows, scratch);
        EXPECT(isfinite(out.floats[out_count - 1]));
        (void)munmap(in.pages, in.bytes);
        (void)munmap(out.pages, out.bytes);
    }
}

static void body(const wgi_backend *backend)
{
    scratch = aligned_alloc(64, backend->scratch_bytes(backend, NULL));
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        layer l = make_layer(backend, shapes[i], i % 4 != 3);

        for (int activation = 0; activation < 6; activation++)
            check_right(backend, &l, 1 + wgt_below(i ? ROWS_MAX : 40), (wgi_activation)activation,
                        wgt_below(2) != 0);
        check_law(backend, &l);
        check_exact(backend, &l);
        if (i % 4 != 3) check_own(backend, &l);
        EXPECT(backend->linear_bytes(l.packed) >= shapes[i].inputs * shapes[i].outputs * 4);
        free_layer(backend, &l);
    }
    free(scratch);
}

int main(void)
{
    wgt_seed_set(0x11EA);
    wgt_each_isa(body);
    return wgt_result();
}
