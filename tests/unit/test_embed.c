/*
 * test_embed.c - the embedding head: every pooling against the float64 reference of the tiny
 * models, and against double arithmetic on random rows; dense layers; normalisation and cut; the
 * same bits wherever the rows lie. LABELS: quick torture numeric
 */
#include "task/embed.h"

#include <math.h>

#include "backend/backend.h"
#include "base/alloc.h"
#include "harness.h"

static wg_error err;
static const wgi_backend *backend;

static void *aligned(size_t bytes)
{
    void *memory = NULL;

    if (posix_memalign(&memory, WGI_BYTE_ALIGN, bytes ? bytes : 1) != 0) exit(1);
    return memory;
}

static double uniform(void)
{
    return (double)(wgt_random() >> 11) * 0x1p-52 - 1;
}

/* Pools with a fresh head; returns what wgi_embed_pool does. */
static bool pool(const wg_embed_options *options, const wgi_modules *modules, size_t hidden_count,
                 wgi_view hidden, size_t rows, size_t skip, float *out)
{
    wgi_embed_head head;
    wgi_description description = {.hidden_count = (uint32_t)hidden_count};
    bool is_good = false;

    EXPECT_OK(wgi_embed_head_init(&head, options, modules, &description, backend, &err));
    void *scratch = aligned(wgi_embed_head_scratch_bytes(&head));
    is_good = wgi_embed_pool(&head, hidden, rows, skip, out, scratch);
    free(scratch);
    wgi_embed_head_fini(&head);
    return is_good;
}

/* --------------------------------------------------- the reference of the tiny models */

static const wg_pooling file_order[6] = {WG_POOLING_CLS,           WG_POOLING_MEAN,
                                         WG_POOLING_MAX,           WG_POOLING_SQRT_LENGTH_MEAN,
                                         WG_POOLING_WEIGHTED_MEAN, WG_POOLING_LAST};

static void read_exactly(FILE *file, void *out, size_t bytes)
{
    if (fread(out, 1, bytes, file) != bytes) {
        fprintf(stderr, "reference.bin is cut\n");
        exit(1);
    }
}

/* The six vectors of one text from its last hidden states; errors are held to the largest value. */
static void check_text(FILE *file, uint32_t layers, uint32_t hidden_count)
{
    uint32_t tokens;

    read_exactly(file, &tokens, sizeof(tokens));
    if (fseek(file, (long)(4 * tokens + 8ul * layers * tokens * hidden_count), SEEK_CUR) != 0)
        exit(1);
    size_t stride = wgi_view_stride(hidden_count);
    double *want = malloc(sizeof(double) * hidden_count * (tokens > 6 ? tokens : 6));
    float *rows = aligned(sizeof(float) * tokens * stride),
          *got = malloc(sizeof(float) * hidden_count);
    wgi_modules modules = {.pooling = WG_POOLING_MEAN};

    read_exactly(file, want, sizeof(double) * tokens * hidden_count);
    for (size_t r = 0; r < tokens; r++) {
        for (size_t c = 0; c < hidden_count; c++)
            rows[r * stride + c] = (float)want[r * hidden_count + c];
    }
    read_exactly(file, want, sizeof(double) * 6 * hidden_count);
    for (size_t p = 0; p < 6; p++) {
        double largest = 0, worst = 0;
        wg_embed_options options = {.pooling = file_order[p]};
        EXPECT(pool(&options, &modules, hidden_count, (wgi_view){rows, stride}, tokens, 0, got));
        for (size_t c = 0; c < hidden_count; c++) {
            double value = want[p * hidden_count + c];
            largest = fmax(largest, fabs(value));
            worst = fmax(worst, fabs(value - (double)got[c]));
        }
        if (worst > 1e-6 * largest) {
            fprintf(stderr, "pooling %u of %u tokens: off by %g of %g\n", (unsigned)file_order[p],
                    tokens, worst, largest);
            EXPECT(worst <= 1e-6 * largest);
        }
    }
    free(want);
    free(rows);
    free(got);
}

static void test_reference(void)
{
    static const char *const folders[] = {
        "tiny-bert-h32-d8-mean", "tiny-bert-h48-d24-cls-dense", "tiny-bert-h24-d8-sqrt-len",
        "tiny-bert-h32-pos512-lasttoken", "tiny-bert-h80-d16-f16-weightedmean"};

    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        char path[400], magic[8];
        uint32_t sizes[4]; /* layers, hidden, dim, texts */
        (void)snprintf(path, sizeof(path), "%s/%s/reference.bin", WGT_DATA, folders[i]);
        FILE *file = fopen(path, "rb");
        if (!file) {
            perror(path);
            exit(1);
        }
        read_exactly(file, magic, sizeof(magic));
        EXPECT(memcmp(magic, "WGTBREF1", 8) == 0);
        read_exactly(file, sizes, sizeof(sizes));
        for (uint32_t t = 0; t < sizes[3]; t++) {
            check_text(file, sizes[0], sizes[1]);
            if (fseek(file, (long)(16ul * sizes[2]), SEEK_CUR) != 0) exit(1);
        }
        (void)fclose(file);
    }
}

/* ---------------------------------------------------------------------- small examples */

/* 4 tokens of 3 floats, with stale numbers behind each row. */
static float small[] = {1, -2, 3, 99, 5, 0, -3, 99, 2, 2, 2, 99, 4, 4, -10, 99};
static const wgi_view small_view = {small, 4};

static void expect_vector(const wg_embed_options *options, const wgi_modules *modules, size_t rows,
                          size_t skip, const double *want, size_t count)
{
    float out[16];

    for (size_t i = 0; i < 16; i++)
        out[i] = 77;
    EXPECT(pool(options, modules, 3, small_view, rows, skip, out));
    for (size_t i = 0; i < count; i++) {
        if (fabs((double)out[i] - want[i]) > 1e-6) {
            fprintf(stderr, "float %zu is %.9g, expected %.9g\n", i, (double)out[i], want[i]);
            EXPECT(fabs((double)out[i] - want[i]) <= 1e-6);
        }
    }
    EXPECT(out[count] == 77); /* nothing behind the vector was touched */
}
#define VECTOR(options, modules, rows, skip, ...)                  \
    do {                                                           \
        const double wgt_vector[] = {__VA_ARGS__};                 \
        expect_vector(options, modules, rows, skip, wgt_vector,    \
                      sizeof(wgt_vector) / sizeof(wgt_vector[0])); \
    } while (0)

static void test_poolings(void)
{
    wgi_modules modules = {.pooling = WG_POOLING_CLS};
    wg_embed_options options = {0};

    VECTOR(&options, &modules, 4, 0, 1, -2, 3); /* as the model says */
    VECTOR(&options, &modules, 4, 1, 5, 0, -3);
    options.pooling = WG_POOLING_MEAN;
    VECTOR(&options, &modules, 4, 0, 3, 1, -2);
    VECTOR(&options, &modules, 4, 2, 3, 3, -4);
    VECTOR(&options, &modules, 1, 0, 1, -2, 3);
    VECTOR(&options, &modules, 2, 2, 3, -1, 0); /* all would be left out: none is */
    VECTOR(&options, &modules, 2, 9, 3, -1, 0);
    options.pooling = WG_POOLING_MAX;
    VECTOR(&options, &modules, 4, 0, 5, 4, 3);
    VECTOR(&options, &modules, 4, 1, 5, 4, 2);
    options.pooling = WG_POOLING_LAST;
    VECTOR(&options, &modules, 3, 0, 2, 2, 2);
    options.pooling = WG_POOLING_SQRT_LENGTH_MEAN;
    VECTOR(&options, &modules, 4, 0, 6, 2, -4);
    VECTOR(&options, &modules, 4, 3, 4, 4, -10);
    /* Weights 1, 2, 3, 4; a prompt that is left out does not shift them. */
    options.pooling = WG_POOLING_WEIGHTED_MEAN;
    VECTOR(&options, &modules, 4, 0, 3.3, 2, -3.7);
    VECTOR(&options, &modules, 4, 2, 22.0 / 7, 22.0 / 7, -34.0 / 7);
    options.pooling = WG_POOLING_NONE;
    VECTOR(&options, &modules, 2, 0, 1, -2, 3, 5, 0, -3);
    VECTOR(&options, &modules, 2, 1, 1, -2, 3, 5, 0, -3);
    modules.pooling = WG_POOLING_MODEL;
    options.pooling = WG_POOLING_MODEL;
    VECTOR(&options, &modules, 4, 0, 3, 1, -2);
}

/* Normalise whole, cut, normalise again only when asked: as sentence-transformers. */
static void test_normalize_and_cut(void)
{
    wgi_modules modules = {.pooling = WG_POOLING_MEAN, .normalize = true};
    wg_embed_options options = {0};
    double whole = sqrt(14), cut = sqrt(10); /* lengths of 3, 1, -2 and of 3, 1 */

    VECTOR(&options, &modules, 4, 0, 3 / whole, 1 / whole, -2 / whole);
    options.truncate_dim = 2;
    VECTOR(&options, &modules, 4, 0, 3 / whole, 1 / whole);
    options.normalize = 1;
    VECTOR(&options, &modules, 4, 0, 3 / cut, 1 / cut);
    modules.normalize = false;
    VECTOR(&options, &modules, 4, 0, 3 / cut, 1 / cut);
    options.truncate_dim = 3;
    VECTOR(&options, &modules, 4, 0, 3 / whole, 1 / whole, -2 / whole);
    options.truncate_dim = 0;
    options.normalize = -1;
    modules.normalize = true;
    VECTOR(&options, &modules, 4, 0, 3, 1, -2);

    /* Asking for what the model does already changes no bit. */
    wgt_seed_set(7);
    for (int round = 0; round < 3000; round++) {
        float row[3] = {(float)uniform(), (float)uniform(), (float)uniform()}, once[3], asked[3];
        options = (wg_embed_options){0};
        EXPECT(pool(&options, &modules, 3, (wgi_view){row, 3}, 1, 0, once));
        options.normalize = 1;
        EXPECT(pool(&options, &modules, 3, (wgi_view){row, 3}, 1, 0, asked));
        EXPECT(memcmp(once, asked, sizeof(once)) == 0);
    }

    /* The rows of tokens are the hidden states; only what the caller asks for is done to them. */
    options = (wg_embed_options){.pooling = WG_POOLING_NONE};
    VECTOR(&options, &modules, 1, 0, 1, -2, 3);
    options.truncate_dim = 2;
    options.normalize = 1;
    VECTOR(&options, &modules, 2, 0, 1 / sqrt(5), -2 / sqrt(5), 1, 0);
}

static void test_head_fields(void)
{
    wgi_modules modules = {.pooling = WG_POOLING_LAST, .normalize = true};
    wgi_description description = {.hidden_count = 3};
    wgi_embed_head head;

    EXPECT_OK(wgi_embed_head_init(&head, &(wg_embed_options){.truncate_dim = 2}, &modules,
                                  &description, backend, &err));
    EXPECT_EQ(head.pooling, WG_POOLING_LAST);
    EXPECT(head.normalize && head.dim == 2 && head.hidden_count == 3);
    wgi_embed_head_fini(&head);
    EXPECT_OK(wgi_embed_head_init(&head, &(wg_embed_options){.normalize = -1}, &modules,
                                  &description, backend, &err));
    EXPECT(!head.normalize && head.dim == 3);
    wgi_embed_head_fini(&head);
    EXPECT_EQ(wgi_embed_head_init(&head, &(wg_embed_options){.truncate_dim = 4}, &modules,
                                  &description, backend, &err),
              WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "this model's vectors have 3");
}

static void test_zero_and_not_finite(void)
{
    wgi_modules modules = {.normalize = true};
    float zeros[8] = {0}, broken[8] = {1, 2, 3, 4, NAN, 6, 7, 8}, out[4];
    static const wg_pooling all[] = {WG_POOLING_MEAN,          WG_POOLING_CLS,
                                     WG_POOLING_MAX,           WG_POOLING_NONE,
                                     WG_POOLING_WEIGHTED_MEAN, WG_POOLING_SQRT_LENGTH_MEAN};
    wg_embed_options options = {.normalize = 1};

    EXPECT(pool(&options, &modules, 2, (wgi_view){zeros, 4}, 2, 0, out));
    EXPECT(out[0] == 0 && out[1] == 0);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        float room[16];
        options.pooling = all[i];
        EXPECT_EQ(pool(&options, &modules, 4, (wgi_view){broken, 4}, 2, 0, room),
                  all[i] == WG_POOLING_CLS);
        options.normalize = -1;
        EXPECT_EQ(pool(&options, &modules, 4, (wgi_view){broken, 4}, 2, 0, room),
                  all[i] == WG_POOLING_CLS);
        options.normalize = 1;
    }
    options = (wg_embed_options){0};
    broken[4] = INFINITY;
    EXPECT(!pool(&options, &modules, 4, (wgi_view){broken, 4}, 2, 0, out));
    /* No number in a part that is cut off has made the whole vector none. */
    broken[4] = 5;
    broken[7] = NAN;
    options.truncate_dim = 2;
    EXPECT(!pool(&options, &modules, 4, (wgi_view){broken, 4}, 2, 0, out));
    options.truncate_dim = 0;
    /* Large but finite: squares must not overflow. */
    float large[2] = {3e38f, -3e38f};
    EXPECT(pool(&options, &modules, 2, (wgi_view){large, 2}, 1, 0, out));
    EXPECT(fabsf(out[0] - 0.70710678f) < 1e-6f && fabsf(out[1] + 0.70710678f) < 1e-6f);
}

/* ------------------------------------------------------------ random rows, dense layers */

/* 3,000 rows: every float within 1e-6 of double arithmetic; the same bits at another place. */
static void test_many_rows(void)
{
    enum { ROWS = 3000, COLUMNS = 300, STRIDE = 304 };
    static const wg_pooling all[] = {WG_POOLING_MEAN, WG_POOLING_WEIGHTED_MEAN,
                                     WG_POOLING_SQRT_LENGTH_MEAN, WG_POOLING_MAX};
    float *rows = aligned(sizeof(float) * (ROWS + 7) * STRIDE);
    float *moved = aligned(sizeof(float) * (ROWS + 7) * (COLUMNS + 1));
    wgi_modules modules = {.normalize = false};

    wgt_seed_set(5);
    for (size_t i = 0; i < (size_t)ROWS * STRIDE; i++)
        rows[i] = (float)(uniform() + 0.25);
    for (size_t r = 0; r < ROWS; r++)
        memcpy(moved + (r + 5) * (COLUMNS + 1), rows + r * STRIDE, sizeof(float[COLUMNS]));
    for (size_t p = 0; p < 4; p++) {
        float got[COLUMNS], again[COLUMNS];
        wg_embed_options options = {.pooling = all[p]};
        EXPECT(pool(&options, &modules, COLUMNS, (wgi_view){rows, STRIDE}, ROWS, 0, got));
        EXPECT(pool(&options, &modules, COLUMNS, (wgi_view){moved + 5 * (COLUMNS + 1), COLUMNS + 1},
                    ROWS, 0, again));
        EXPECT(memcmp(got, again, sizeof(got)) == 0);
        for (size_t c = 0; c < COLUMNS; c++) {
            double sum = 0, weighted = 0, most = -INFINITY;
            for (size_t r = 0; r < ROWS; r++) {
                double value = (double)rows[r * STRIDE + c];
                sum += value;
                weighted += (double)(r + 1) * value;
                most = fmax(most, value);
            }
            double want = all[p] == WG_POOLING_MEAN ? sum / ROWS
                          : all[p] == WG_POOLING_WEIGHTED_MEAN
                              ? weighted / (0.5 * ROWS * (ROWS + 1))
                          : all[p] == WG_POOLING_MAX ? most
                                                     : sum / sqrt(ROWS);
            EXPECT(fabs((double)got[c] - want) <= 1e-6 * fmax(1, fabs(want)));
        }
    }
    free(rows);
    free(moved);
}

/* A dense layer's tensors, made up. */
typedef struct made_dense {
    float weight[40 * 40], bias[40];
    wgi_tensor weight_tensor, bias_tensor;
} made_dense;

static void make_dense(made_dense *made, size_t in, size_t out)
{
    for (size_t i = 0; i < in * out; i++)
        made->weight[i] = (float)uniform();
    for (size_t i = 0; i < out; i++)
        made->bias[i] = (float)uniform();
    made->weight_tensor = (wgi_tensor){.name = "linear.weight",
                                       .rank = 2,
                                       .shape = {out, in},
                                       .data = made->weight,
                                       .bytes = sizeof(float) * in * out};
    made->bias_tensor = (wgi_tensor){.name = "linear.bias",
                                     .rank = 1,
                                     .shape = {out},
                                     .data = made->bias,
                                     .bytes = sizeof(float) * out};
}

/* 20 -> 40 (tanh) -> 7 (no activation, no bias), then normalised: against double arithmetic. */
static void test_dense(void)
{
    static made_dense first, second;
    float row[20], got[8] = {0};
    double middle[40], want[7], squares = 0;
    wgi_modules modules = {.pooling = WG_POOLING_CLS, .normalize = true, .dense_count = 2};
    wg_embed_options options = {0};

    wgt_seed_set(6);
    make_dense(&first, 20, 40);
    make_dense(&second, 40, 7);
    modules.dense[0] = (wgi_dense){.weight = &first.weight_tensor,
                                   .bias = &first.bias_tensor,
                                   .activation = WGI_ACTIVATION_TANH};
    modules.dense[1] = (wgi_dense){.weight = &second.weight_tensor};
    for (size_t i = 0; i < 20; i++)
        row[i] = (float)uniform();
    for (size_t o = 0; o < 40; o++) {
        middle[o] = (double)first.bias[o];
        for (size_t i = 0; i < 20; i++)
            middle[o] += (double)first.weight[o * 20 + i] * (double)row[i];
        middle[o] = tanh(middle[o]);
    }
    for (size_t o = 0; o < 7; o++) {
        want[o] = 0;
        for (size_t i = 0; i < 40; i++)
            want[o] += (double)second.weight[o * 40 + i] * middle[i];
        squares += want[o] * want[o];
    }
    EXPECT(pool(&options, &modules, 20, (wgi_view){row, 20}, 1, 0, got));
    for (size_t o = 0; o < 7; o++)
        EXPECT(fabs((double)got[o] - want[o] / sqrt(squares)) < 1e-6);

    options.truncate_dim = 8;
    wgi_embed_head head;
    wgi_description description = {.hidden_count = 20};
    EXPECT_EQ(wgi_embed_head_init(&head, &options, &modules, &description, backend, &err),
              WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "vectors have 7");

    /* Tokens go past the dense layers. */
    options = (wg_embed_options){.pooling = WG_POOLING_NONE};
    EXPECT_OK(wgi_embed_head_init(&head, &options, &modules, &description, backend, &err));
    EXPECT_EQ(head.dim, 20);
    wgi_embed_head_fini(&head);

    /* Layers that do not fit are named, and each allocation that fails is told. */
    options = (wg_embed_options){0};
    second.weight_tensor.shape[1] = 39;
    EXPECT_EQ(wgi_embed_head_init(&head, &options, &modules, &description, backend, &err),
              WG_ERR_FORMAT);
    EXPECT_IN(err.message, "dense layer 2: tensor 'linear.weight'");
    second.weight_tensor.shape[1] = 40;
    first.bias_tensor.shape[0] = 39;
    EXPECT_EQ(wgi_embed_head_init(&head, &options, &modules, &description, backend, &err),
              WG_ERR_FORMAT);
    EXPECT_IN(err.message, "dense layer 1: tensor 'linear.bias'");
    first.bias_tensor.shape[0] = 40;
    for (long nth = 1;; nth++) {
        wgi_alloc_fail_at(nth);
        wg_status status =
            wgi_embed_head_init(&head, &options, &modules, &description, backend, &err);
        wgi_alloc_fail_at(0);
        if (status == WG_OK) {
            EXPECT(nth > 2);
            wgi_embed_head_fini(&head);
            break;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
    }
}

int main(void)
{
    static const char *const names[] = {"reference", "cpu"};

    for (size_t i = 0; i < 2; i++) {
        if (wgi_backend_find(&backend, names[i], WG_ISA_AUTO, &err) != WG_OK) {
            fprintf(stderr, "backend %s: %s\n", names[i], err.message);
            return 1;
        }
        test_dense();
    }
    test_reference();
    test_poolings();
    test_normalize_and_cut();
    test_head_fields();
    test_zero_and_not_finite();
    test_many_rows();
    return wgt_result();
}
