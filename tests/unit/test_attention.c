/*
 * test_attention.c - Q/K/V projection and attention of every instruction set: right (against the
 * reference), the same bytes wherever a segment lies and however its rows are cut into items, and
 * deaf to infinities in its neighbours. Head sizes with tails, grouped heads, causal order, windows
 * on one side and on both, relative bias, texts longer than one key tile.
 * LABELS: quick numeric
 */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "each_isa.h"

#define HIDDEN 40

typedef struct layer {
    wgi_attention_shape shape;
    wgi_attention_weights weights;
    wgi_tensor tensors[6];
    float *values[6];
    wgi_attention *packed, *reference;
    float *bias;
} layer;

static const wgi_backend *reference_backend;

/* `reach` UINT32_MAX: no relative bias. */
static layer make_layer_of(const wgi_backend *backend, wgi_attention_shape shape, uint32_t reach)
{
    layer l = {.shape = shape};
    uint32_t heads = shape.head_count, key_heads = shape.key_head_count, dim = shape.head_dim;
    wgi_relative_bias relative = {.reach = reach};
    wg_error err;

    if (reach != UINT32_MAX) relative.values = l.bias = wgt_floats(heads * (2 * (size_t)reach + 1));

    for (int i = 0; i < 6; i++) {
        uint64_t rows = (uint64_t)(i % 3 ? key_heads : heads) * dim;
        l.values[i] = wgt_floats((size_t)rows * HIDDEN);
        l.tensors[i] = wgt_tensor(l.values[i], rows, i < 3 ? HIDDEN : 0);
    }
    l.weights = (wgi_attention_weights){.query = &l.tensors[0],
                                        .key = &l.tensors[1],
                                        .value = &l.tensors[2],
                                        .query_bias = &l.tensors[3],
                                        .value_bias = &l.tensors[5],
                                        .shape = l.shape,
                                        .relative = l.bias ? &relative : NULL};
    EXPECT_OK(backend->attention_pack(backend, &l.packed, &l.weights, &err));
    EXPECT_OK(reference_backend->attention_pack(reference_backend, &l.reference, &l.weights, &err));
    l.weights.relative = NULL; /* both keep a copy */
    return l;
}

static layer make_layer(const wgi_backend *backend, uint32_t heads, uint32_t key_heads,
                        uint32_t dim, int is_causal)
{
    wgi_attention_shape shape = {.head_count = heads,
                                 .key_head_count = key_heads,
                                 .head_dim = dim,
                                 .is_causal = is_causal,
                                 .scale = 1 / sqrtf((float)dim)};

    return make_layer_of(backend, shape, UINT32_MAX);
}

static void free_layer(const wgi_backend *backend, layer *l)
{
    backend->attention_free(l->packed);
    reference_backend->attention_free(l->reference);
    for (int i = 0; i < 6; i++)
        free(l->values[i]);
    free(l->bias);
}

/* Projection and attention of whole segments; items of at most `rows` query rows. */
static void run(const wgi_backend *backend, const wgi_attention *attention,
                const wgi_attention_shape *shape, const float *in, size_t bin_rows,
                const wgi_segment *segments, size_t count, uint32_t rows, wgi_view out)
{
    void *qkv = aligned_alloc(64, (backend->qkv_bytes(attention, bin_rows) + 63) / 64 * 64);
    void *scratch = aligned_alloc(64, (backend->scratch_bytes(backend, attention) + 63) / 64 * 64);

    memset(qkv, 0xFF,
           backend->qkv_bytes(attention, bin_rows)); /* NaN wherever nothing is written */
    for (size_t row = 0; row < bin_rows; row += 56)  /* in blocks, as the encoder does */
        backend->qkv(backend, attention, (wgi_view){(float *)(uintptr_t)in + row * 48, 48}, qkv,
                     bin_rows, row, bin_rows - row < 56 ? bin_rows - row : 56, scratch);
    for (size_t s = 0; s < count; s++)
        for (uint32_t first = 0; first < segments[s].count; first += rows)
            for (uint32_t head = 0; head < shape->key_head_count; head++) {
                uint32_t left = segments[s].count - first;
                wgi_attend_item item = {segments[s], first, left < rows ? left : rows, head};
                memset(scratch, 0xFF, backend->scratch_bytes(backend, attention));
                backend->attend(backend, attention, qkv, bin_rows, &item, out, scratch);
            }
    free(qkv);
    free(scratch);
}

/* Bins of random texts; inputs are scaled so that scores are neither flat nor all in one key. */
static float *make_in(size_t rows, float scale)
{
    float *in = wgt_floats(rows * 48);

    for (size_t i = 0; i < rows * 48; i++)
        in[i] *= scale;
    return in;
}

static void check_right(const wgi_backend *backend, const layer *l, uint32_t count, float scale)
{
    size_t columns = l->shape.head_count * l->shape.head_dim, stride = wgi_view_stride(columns);
    wgi_segment segments[2] = {{0, 5, 0}, {5, count, 0}};
    size_t rows = 5 + count;
    float *in = make_in(rows, scale);
    wgi_view got = {wgt_floats(rows * stride), stride}, want = {wgt_floats(rows * stride), stride};
    double worst = 0, most = 0;

    run(backend, l->packed, &l->shape, in, rows, segments, 2, (uint32_t)backend->attend_rows, got);
    run(reference_backend, l->reference, &l->shape, in, rows, segments, 2,
        (uint32_t)reference_backend->attend_rows, want);
    for (size_t row = 0; row < rows; row++)
        for (size_t j = 0; j < columns; j++) {
            double a = (double)got.data[row * stride + j], b = (double)want.data[row * stride + j];
            if (!(fabs(a - b) <= worst)) worst = fabs(a - b);
            if (fabs(b) > most) most = fabs(b);
        }
    /* Scores of up to about 60 carry rounding of 60 2^-23, which the exponential hands on. */
    EXPECT(worst <= 1.5e-5 * most);
    if (!(worst <= 1.5e-5 * most))
        fprintf(stderr, "  %s heads %u/%u dim %u causal %d rows %u: error %g of %g\n", backend->isa,
                l->shape.head_count, l->shape.key_head_count, l->shape.head_dim, l->shape.is_causal,
                count, worst, most);
    free(in);
    free(got.data);
    free(want.data);
}

/*
 * All weight in the first of two tiles, by hundreds of powers of two: the second must not become
 * the measure. Scores near 300 carry rounding of 300 2^-23, hence the wider limit.
 */
static void check_steep(const wgi_backend *backend, const layer *l)
{
    enum { COUNT = 600 };
    size_t columns = l->shape.head_count * l->shape.head_dim, stride = wgi_view_stride(columns);
    wgi_segment segment = {0, COUNT, 0};
    float *in = make_in(COUNT, 8);
    wgi_view got = {wgt_floats(COUNT * stride), stride},
             want = {wgt_floats(COUNT * stride), stride};
    double worst = 0, most = 0;

    for (size_t i = (size_t)512 * 48; i < (size_t)COUNT * 48; i++)
        in[i] *= 1e-3f;
    run(backend, l->packed, &l->shape, in, COUNT, &segment, 1, (uint32_t)backend->attend_rows, got);
    run(reference_backend, l->reference, &l->shape, in, COUNT, &segment, 1, 128, want);
    for (size_t row = 0; row < COUNT; row++)
        for (size_t j = 0; j < columns; j++) {
            double a = (double)got.data[row * stride + j], b = (double)want.data[row * stride + j];
            if (!(fabs(a - b) <= worst)) worst = isnan(a) ? INFINITY : fabs(a - b);
            if (fabs(b) > most) most = fabs(b);
        }
    EXPECT(worst <= 5e-4 * most);
    if (!(worst <= 5e-4 * most))
        fprintf(stderr, "  %s: error %g of %g\n", backend->isa, worst, most);
    free(in);
    free(got.data);
    free(want.data);
}

/*
 * A text alone, against the same text between neighbours that hold infinities and NaN, at another
 * row, cut into other items.
 */
static void check_law(const wgi_backend *backend, const layer *l, uint32_t count)
{
    size_t columns = l->shape.head_count * l->shape.head_dim, stride = wgi_view_stride(columns);
    uint32_t before = 1 + (uint32_t)wgt_below(70), after = 1 + (uint32_t)wgt_below(30);
    size_t rows = (size_t)before + count + after;
    wgi_segment alone = {0, count, 0};
    wgi_segment segments[3] = {{0, before, 0}, {before, count, 0}, {before + count, after, 0}};
    float *in = make_in(rows, 1);
    wgi_view a = {wgt_floats(count * stride), stride}, b = {wgt_floats(rows * stride), stride};
    int is_same = 1;

    for (size_t i = 0; i < (size_t)before * 48; i++)
        in[i] = i % 5 ? INFINITY : NAN;
    for (size_t i = (size_t)(before + count) * 48; i < rows * 48; i++)
        in[i] = i % 7 ? -INFINITY : NAN;
    run(backend, l->packed, &l->shape, in + (size_t)before * 48, count, &alone, 1,
        (uint32_t)backend->attend_rows, a);
    run(backend, l->packed, &l->shape, in, rows, segments, 3, 1 + (uint32_t)wgt_below(100), b);
    for (size_t row = 0; row < count; row++)
        is_same &= memcmp(a.data + row * stride, b.data + (before + row) * stride,
                          columns * sizeof(float)) == 0;
    EXPECT(is_same);
    if (!is_same)
        fprintf(stderr, "  %s heads %u/%u dim %u causal %d rows %u\n", backend->isa,
                l->shape.head_count, l->shape.key_head_count, l->shape.head_dim, l->shape.is_causal,
                count);
    free(in);
    free(a.data);
    free(b.data);
}

/* Causal: a prefix of a text has the bytes that its rows have in the whole text. */
static void check_prefix(const wgi_backend *backend, const layer *l, uint32_t count)
{
    size_t columns = l->shape.head_count * l->shape.head_dim, stride = wgi_view_stride(columns);
    uint32_t part = 1 + (uint32_t)wgt_below(count);
    wgi_segment whole = {0, count, 0}, prefix = {0, part, 0};
    float *in = make_in(count, 1);
    wgi_view a = {wgt_floats(count * stride), stride}, b = {wgt_floats(count * stride), stride};
    int is_same = 1;

    run(backend, l->packed, &l->shape, in, count, &whole, 1, (uint32_t)backend->attend_rows, a);
    run(backend, l->packed, &l->shape, in, part, &prefix, 1, (uint32_t)backend->attend_rows, b);
    for (size_t row = 0; row < part; row++)
        is_same &=
            memcmp(a.data + row * stride, b.data + row * stride, columns * sizeof(float)) == 0;
    EXPECT(is_same);
    free(in);
    free(a.data);
    free(b.data);
}

/* An infinity in a text's own row must come out as not finite, so that the text is reported. */
static void check_poison(const wgi_backend *backend, const layer *l)
{
    size_t columns = l->shape.head_count * l->shape.head_dim, stride = wgi_view_stride(columns);
    wgi_segment segment = {0, 20, 0};
    float *in = make_in(20, 1);
    wgi_view out = {wgt_floats(20 * stride), stride};
    int has_poison = 0;

    in[3 * 48 + 1] = INFINITY;
    run(backend, l->packed, &l->shape, in, 20, &segment, 1, (uint32_t)backend->attend_rows, out);
    for (size_t j = 0; j < columns; j++)
        has_poison |= !isfinite(out.data[3 * stride + j]);
    EXPECT(has_poison);
    free(in);
    free(out.data);
}

/* The last rows of a very long text: scratch stays small, offsets stay right. */
static void check_long(const wgi_backend *backend, const layer *l)
{
    enum { COUNT = 190000, ROWS = 20 };
    const wgi_backend *backends[2] = {backend, reference_backend};
    const wgi_attention *packed[2] = {l->packed, l->reference};
    float *in = make_in(COUNT, 1);
    float *outs[2] = {wgt_floats((size_t)COUNT * 16), wgt_floats((size_t)COUNT * 16)};
    uint32_t first = (COUNT - ROWS) / 512 * 512;
    double worst = 0;

    for (int i = 0; i < 2; i++) {
        size_t bytes = backends[i]->qkv_bytes(packed[i], COUNT);
        void *qkv = aligned_alloc(64, (bytes + 63) / 64 * 64);
        void *scratch =
            aligned_alloc(64, (backends[i]->scratch_bytes(backends[i], packed[i]) + 63) / 64 * 64);
        wgi_attend_item item = {{0, COUNT, 0}, first, ROWS, 0};
        wgi_view view = {in, 48}, out = {outs[i], 16};

        backends[i]->qkv(backends[i], packed[i], view, qkv, COUNT, 0, COUNT, scratch);
        backends[i]->attend(backends[i], packed[i], qkv, COUNT, &item, out, scratch);
        free(qkv);
        free(scratch);
    }
    EXPECT(backend->scratch_bytes(backend, l->packed) < 1 << 20);
    for (size_t row = first; row < first + ROWS; row++)
        for (size_t j = 0; j < 8; j++) {
            double error = fabs((double)outs[0][row * 16 + j] - (double)outs[1][row * 16 + j]);
            if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
        }
    EXPECT(worst <= 2e-5);
    if (!(worst <= 2e-5)) fprintf(stderr, "  %s: error %g\n", backend->isa, worst);
    free(in);
    free(outs[0]);
    free(outs[1]);
}

/* Shapes that make no sense are refused, not divided by. */
static void check_refused(const wgi_backend *backend)
{
    static const wgi_attention_shape wrong[] = {
        {3, 2, 8, 0, 1, 0}, {2, 0, 8, 0, 1, 0}, {2, 2, 0, 0, 1, 0}};
    layer l = make_layer(backend, 6, 6, 8, 0);
    wgi_attention *attention = NULL;
    wg_error err = {0};

    for (size_t i = 0; i < 3; i++) {
        l.weights.shape = wrong[i];
        EXPECT_EQ(backend->attention_pack(backend, &attention, &l.weights, &err), WG_ERR_ARGUMENT);
        EXPECT(attention == NULL);
        EXPECT_IN(err.message, "heads");
    }
    l.weights.shape = l.shape;
    l.weights.relative = &(wgi_relative_bias){.values = l.values[0], .reach = WGI_REACH_MAX + 1};
    EXPECT_EQ(backend->attention_pack(backend, &attention, &l.weights, &err), WG_ERR_ARGUMENT);
    EXPECT(attention == NULL);
    EXPECT_IN(err.message, "relative bias");
    free_layer(backend, &l);
}

/*
 * Windows that end inside a panel, at a tile, beyond it and beyond the text; biases that reach less
 * and more than a tile. Each window is seen by queries of every block of a text.
 */
static void check_patterns(const wgi_backend *backend)
{
    static const uint32_t windows[] = {1, 2, 5, 33, 65, 512, 513, 2000, 0};
    static const uint32_t reaches[] = {UINT32_MAX, 0, 3, 91, 600};
    static const uint32_t counts[] = {1, 4, 40, 130, 513, 600, 1100};
    size_t round = 0;

    for (size_t w = 0; w < sizeof(windows) / sizeof(windows[0]); w++)
        for (int is_causal = 0; is_causal < 2; is_causal++) {
            wgi_attention_shape shape = {.head_count = 4,
                                         .key_head_count = 2,
                                         .head_dim = round % 2 ? 20 : 16,
                                         .is_causal = is_causal,
                                         .scale = 0.25f,
                                         .window = windows[w]};
            layer l = make_layer_of(backend, shape, reaches[round++ % 5]);

            check_right(backend, &l, counts[round % 7], 1);
            check_right(backend, &l, 40, 1);
            check_law(backend, &l, counts[(round + 3) % 7]);
            check_law(backend, &l, counts[(round + 5) % 7]);
            if (is_causal) check_prefix(backend, &l, 700);
            free_layer(backend, &l);
        }
}

static void body(const wgi_backend *backend)
{

    static const uint32_t dims[] = {8, 16, 20, 24, 32, 64, 80, 128};
    static const uint32_t counts[] = {1, 2, 7, 12, 13, 31, 32, 33, 65, 130, 300, 512, 513, 700};
    wg_error err;

    EXPECT_OK(wgi_backend_find(&reference_backend, "reference", WG_ISA_AUTO, &err));
    for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++)
        for (int kind = 0; kind < 4; kind++) {
            uint32_t key_heads = kind / 2 ? 2 : 3, heads = kind / 2 ? 6 : 3;
            layer l = make_layer(backend, heads, key_heads, dims[i], kind % 2);
            uint32_t count = counts[(i * 4 + (size_t)kind) % 14];

            check_right(backend, &l, count > 300 && dims[i] > 20 ? 300 : count, 1);
            check_right(backend, &l, counts[wgt_below(10)], 1);
            check_law(backend, &l, count);
            check_law(backend, &l, counts[wgt_below(14)]);
            if (kind % 2) check_prefix(backend, &l, counts[wgt_below(14)]);
            check_poison(backend, &l);
            EXPECT(backend->attention_bytes(l.packed) > (size_t)heads * dims[i] * HIDDEN * 4);
            EXPECT(backend->qkv_bytes(l.packed, SIZE_MAX / 64) == SIZE_MAX);
            free_layer(backend, &l);
        }
    check_refused(backend);
    check_patterns(backend);
    layer small = make_layer(backend, 1, 1, 8, 0);
    check_steep(backend, &small);
    check_long(backend, &small);
    free_layer(backend, &small);
    layer flat = make_layer(backend, 2, 2, 32, 0), steep = make_layer(backend, 2, 1, 32, 1);
    check_right(backend, &flat, 700, 0.01f);
    check_right(backend, &steep, 1030, 1.6f);
    free_layer(backend, &flat);
    free_layer(backend, &steep);
}

int main(void)
{
    wgt_seed_set(0xA77E);
    wgt_each_isa(body);
    return wgt_result();
}
