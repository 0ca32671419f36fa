/*
 * test_attention_varlen.c - wg_attention_varlen of every instruction set: right (against plain
 * loops in double precision), the same bytes packed or alone, on any number of threads and at any
 * strides, deaf to whatever lies between and behind rows (pages that may not be touched stand
 * there), refused arguments by name, and at work in a forked child. LABELS: quick numeric
 */
#include "warpgroup/attention.h"

#include <math.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/helpers.h"
#include "each_isa.h"

typedef struct shape {
    uint32_t heads, key_heads, dim;
    int is_causal;
    uint32_t window;
    float scale;
} shape;

/* Tensors of one case, [T, heads, dim] without gaps. */
typedef struct tensors {
    float *query, *key, *value;
    size_t rows;
} tensors;

static wg_isa isa;

static tensors make(const shape *s, size_t rows)
{
    tensors t = {wgt_floats(rows * s->heads * s->dim), wgt_floats(rows * s->key_heads * s->dim),
                 wgt_floats(rows * s->key_heads * s->dim), rows};
    float steep = 2.0f + (float)wgt_below(4); /* neither flat nor all in one key */

    for (size_t i = 0; i < rows * s->heads * s->dim; i++)
        t.query[i] *= steep;
    return t;
}

static void release(tensors *t)
{
    free(t->query);
    free(t->key);
    free(t->value);
}

/* The call on tensors without gaps. */
static wg_varlen call_of(const shape *s, const tensors *t, const int32_t *cu, uint32_t count,
                         float *out)
{
    size_t row = (size_t)s->heads * s->dim, key_row = (size_t)s->key_heads * s->dim;

    return (wg_varlen){.query = {t->query, row, s->dim},
                       .key = {t->key, key_row, s->dim},
                       .value = {t->value, key_row, s->dim},
                       .out = out,
                       .out_row_stride = row,
                       .out_head_stride = s->dim,
                       .cu_seqlens = cu,
                       .sequence_count = count,
                       .head_count = s->heads,
                       .key_head_count = s->key_heads,
                       .head_dim = s->dim,
                       .scale = s->scale,
                       .is_causal = s->is_causal,
                       .window = s->window,
                       .thread_count = 1,
                       .isa = isa};
}

/* ---------------------------------------------------------------------------------- right */

/* Row `row` of a sequence [begin, begin + count), head `head`, by the textbook. */
static void plain_row(const shape *s, const tensors *t, size_t begin, size_t count, size_t row,
                      size_t head, double *out)
{
    size_t key_head = head / (s->heads / s->key_heads), dim = s->dim;
    const float *q = t->query + ((begin + row) * s->heads + head) * dim;
    double scale = s->scale > 0 ? (double)s->scale : 1 / sqrt((double)dim), sum = 0, most = -1e300;
    double *scores = malloc(count * sizeof(*scores));

    if (!scores) exit(1);
    for (size_t k = 0; k < count; k++) {
        const float *key = t->key + ((begin + k) * s->key_heads + key_head) * dim;
        size_t away = k > row ? k - row : row - k;
        double score = 0;

        for (size_t j = 0; j < dim; j++)
            score += (double)q[j] * (double)key[j];
        scores[k] = score * scale;
        if ((s->is_causal && k > row) || (s->window && away >= s->window)) scores[k] = -INFINITY;
        if (scores[k] > most) most = scores[k];
    }
    for (size_t j = 0; j < dim; j++)
        out[j] = 0;
    for (size_t k = 0; k < count; k++) {
        const float *value = t->value + ((begin + k) * s->key_heads + key_head) * dim;
        double p = exp(scores[k] - most);

        sum += p;
        for (size_t j = 0; j < dim; j++)
            out[j] += p * (double)value[j];
    }
    for (size_t j = 0; j < dim; j++)
        out[j] /= sum;
    free(scores);
}

/* Of long sequences some rows: the ends, the edges of tiles, and a few by chance. */
static int is_looked_at(size_t row, size_t count)
{
    return count <= 64 || row < 2 || row + 2 >= count || row % 512 < 2 || row % 512 > 510 ||
           wgt_below(40) == 0;
}

static void check_right(const shape *s, const int32_t *cu, uint32_t count)
{
    size_t rows = (size_t)cu[count], row_floats = (size_t)s->heads * s->dim;
    tensors t = make(s, rows);
    float *out = wgt_floats(rows * row_floats);
    wg_varlen call = call_of(s, &t, cu, count, out);
    double worst = 0, want[512];
    wg_error err;

    call.thread_count = 1 + (uint32_t)wgt_below(3);
    EXPECT_OK(wg_attention_varlen(&call, &err));
    for (uint32_t i = 0; i < count; i++)
        for (size_t row = 0; row < (size_t)(cu[i + 1] - cu[i]); row++) {
            if (!is_looked_at(row, (size_t)(cu[i + 1] - cu[i]))) continue;
            for (size_t head = 0; head < s->heads; head++) {
                const float *got = out + ((size_t)cu[i] + row) * row_floats + head * s->dim;

                plain_row(s, &t, (size_t)cu[i], (size_t)(cu[i + 1] - cu[i]), row, head, want);
                for (size_t j = 0; j < s->dim; j++) {
                    double error = fabs((double)got[j] - want[j]);
                    if (!(error <= worst)) worst = error;
                }
            }
        }
    /* Values are within 1; scores of up to about 30 carry rounding of 30 2^-23. */
    EXPECT(worst <= 1e-5);
    if (!(worst <= 1e-5))
        fprintf(stderr, "  heads %u/%u dim %u causal %d window %u rows %zu: error %g\n", s->heads,
                s->key_heads, s->dim, s->is_causal, s->window, rows, worst);
    free(out);
    release(&t);
}

static const shape shapes[] = {
    {.heads = 1, .key_heads = 1, .dim = 5},
    {.heads = 2, .key_heads = 1, .dim = 8, .is_causal = 1},
    {.heads = 3, .key_heads = 3, .dim = 16, .window = 7},
    {.heads = 4, .key_heads = 2, .dim = 20, .is_causal = 1, .window = 33},
    {.heads = 12, .key_heads = 12, .dim = 32},
    {.heads = 9, .key_heads = 3, .dim = 64, .is_causal = 1},
    {.heads = 4, .key_heads = 1, .dim = 80, .scale = 0.05f},
    {.heads = 2, .key_heads = 2, .dim = 128, .is_causal = 1, .window = 600},
    {.heads = 4, .key_heads = 1, .dim = 256, .is_causal = 1, .scale = 0.0625f},
    {.heads = 1, .key_heads = 1, .dim = 512, .window = 3},
    {.heads = 1, .key_heads = 1, .dim = 1, .is_causal = 1},
    {.heads = 6, .key_heads = 2, .dim = 37, .window = 1},
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static void check_shapes(void)
{
    static const int32_t few[] = {0, 1, 1, 18, 18, 18, 66, 79}, none[] = {0, 0, 0};
    static const int32_t tiles[] = {0, 511, 1023, 1536, 2049}, longest[] = {0, 1500, 1503};

    for (size_t i = 0; i < SHAPES; i++) {
        check_right(&shapes[i], few, 7);
        check_right(&shapes[i], none, 2);
        check_right(&shapes[i], none, 0);
    }
    check_right(&shapes[0], tiles, 4);
    check_right(&shapes[3], tiles, 4);
    check_right(&shapes[2], longest, 2);
    check_right(&shapes[5], longest, 2);
    check_right(&shapes[7], longest, 2);
    check_right(&(shape){.heads = 2, .key_heads = 1, .dim = 24, .window = 520}, longest, 2);
}

static void check_random(void)
{
    static const uint32_t dims[] = {3, 5, 8, 16, 20, 32, 48, 64, 80};

    for (int round = 0; round < 12; round++) {
        shape s = {.key_heads = 1 + (uint32_t)wgt_below(3), .dim = dims[wgt_below(9)]};
        int32_t cu[10] = {0};
        uint32_t count = 1 + (uint32_t)wgt_below(9);

        s.heads = s.key_heads * (1 + (uint32_t)wgt_below(4));
        s.is_causal = (int)wgt_below(2);
        if (wgt_below(2)) s.window = 1 + (uint32_t)wgt_below(wgt_below(2) ? 20 : 700);
        for (uint32_t i = 0; i < count; i++)
            cu[i + 1] = cu[i] + (int32_t)wgt_below(wgt_below(4) ? 40 : 900);
        check_right(&s, cu, count);
    }
}

/* ----------------------------------------------------------------------------------- alike */

/* Sequences of a batch give the bytes that each gives alone, on any number of threads. */
static void check_alike(const shape *s)
{
    static const int32_t cu[] = {0, 3, 3, 620, 621, 1300, 1383};
    enum { COUNT = 6 };
    size_t rows = (size_t)cu[COUNT], row_floats = (size_t)s->heads * s->dim;
    tensors t = make(s, rows);
    float *out = wgt_floats(rows * row_floats), *other = wgt_floats(rows * row_floats);
    wg_varlen call = call_of(s, &t, cu, COUNT, out);
    wg_error err;

    EXPECT_OK(wg_attention_varlen(&call, &err));
    for (uint32_t threads = 0; threads <= 5; threads++) {
        memset(other, 0xFF, rows * row_floats * sizeof(float));
        call.out = other;
        call.thread_count = threads;
        EXPECT_OK(wg_attention_varlen(&call, &err));
        EXPECT(memcmp(out, other, rows * row_floats * sizeof(float)) == 0);
    }
    for (int i = 0; i < COUNT; i++) {
        size_t begin = (size_t)cu[i], count = (size_t)(cu[i + 1] - cu[i]);
        int32_t alone[] = {0, (int32_t)count};
        tensors part = {t.query + begin * row_floats, t.key + begin * s->key_heads * s->dim,
                        t.value + begin * s->key_heads * s->dim, count};

        memset(other, 0xFF, rows * row_floats * sizeof(float));
        call = call_of(s, &part, alone, 1, other);
        EXPECT_OK(wg_attention_varlen(&call, &err));
        EXPECT(memcmp(out + begin * row_floats, other, count * row_floats * sizeof(float)) == 0);
    }
    free(out);
    free(other);
    release(&t);
}

/* NaN in one sequence stays there. */
static void check_deaf(void)
{
    static const int32_t cu[] = {0, 40, 75, 100};
    const shape *s = &shapes[5];
    size_t row_floats = (size_t)s->heads * s->dim, key_floats = (size_t)s->key_heads * s->dim;
    tensors t = make(s, 100);
    float *clean = wgt_floats(100 * row_floats), *out = wgt_floats(100 * row_floats);
    wg_varlen call = call_of(s, &t, cu, 3, clean);
    wg_error err;

    EXPECT_OK(wg_attention_varlen(&call, &err));
    memset(t.query + 40 * row_floats, 0xFF, 35 * row_floats * sizeof(float));
    memset(t.key + 40 * key_floats, 0xFF, 35 * key_floats * sizeof(float));
    for (size_t i = 40 * key_floats; i < 75 * key_floats; i++)
        t.value[i] = INFINITY;
    call.out = out;
    EXPECT_OK(wg_attention_varlen(&call, &err));
    EXPECT(memcmp(clean, out, 40 * row_floats * sizeof(float)) == 0);
    EXPECT(memcmp(clean + 75 * row_floats, out + 75 * row_floats,
                  25 * row_floats * sizeof(float)) == 0);
    EXPECT(isnan(out[40 * row_floats]));
    free(clean);
    free(out);
    release(&t);
}

/* --------------------------------------------------------------------------------- strides */

/*
 * Floats whose last one ends at a page that may not be touched, and whose first one begins right
 * behind another: at most one of the two can be had, as `is_end` says.
 */
typedef struct guarded {
    char *map;
    size_t bytes;
    float *floats;
} guarded;

static guarded guard(size_t floats, int is_end)
{
    size_t page = 4096, inner = (floats * sizeof(float) + page - 1) / page * page;
    guarded g = {.bytes = inner + 2 * page};

    g.map = mmap(NULL, g.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED || mprotect(g.map + page, inner, PROT_READ | PROT_WRITE) != 0) exit(1);
    g.floats = (float *)(void *)(g.map + page + (is_end ? inner - floats * sizeof(float) : 0));
    return g;
}

/* A copy of [rows, heads, dim] at other strides, NaN between, guards at an end. */
static guarded spread(const float *from, size_t rows, size_t heads, size_t dim, size_t row_stride,
                      size_t head_stride, int is_end)
{
    size_t floats = (rows - 1) * row_stride + (heads - 1) * head_stride + dim;
    guarded g = guard(floats, is_end);

    memset(g.floats, 0xFF, floats * sizeof(float));
    for (size_t row = 0; from && row < rows; row++)
        for (size_t head = 0; head < heads; head++)
            memcpy(g.floats + row * row_stride + head * head_stride,
                   from + (row * heads + head) * dim, dim * sizeof(float));
    return g;
}

/* [T, H, D] with gaps between heads and rows (heads_inside) or [H, T, D] with gaps. */
static void check_strides(const shape *s, int heads_inside, int is_end)
{
    static const int32_t cu[] = {0, 530, 541, 547};
    size_t rows = 547, dim = s->dim, gap = 3, heads[3] = {s->heads, s->key_heads, s->key_heads},
           strides[3][2];
    tensors t = make(s, rows);
    float *want = wgt_floats(rows * s->heads * dim);
    wg_varlen call = call_of(s, &t, cu, 3, want);
    wg_error err;

    EXPECT_OK(wg_attention_varlen(&call, &err));
    for (int i = 0; i < 3; i++, gap++) {
        strides[i][0] = heads_inside ? heads[i] * (dim + 1) + gap : dim + gap;
        strides[i][1] = heads_inside ? dim + 1 : rows * (dim + gap) + 5;
    }
    guarded query = spread(t.query, rows, heads[0], dim, strides[0][0], strides[0][1], is_end);
    guarded key = spread(t.key, rows, heads[1], dim, strides[1][0], strides[1][1], is_end);
    guarded value = spread(t.value, rows, heads[2], dim, strides[2][0], strides[2][1], is_end);
    guarded out = spread(NULL, rows, heads[0], dim, strides[0][0], strides[0][1], is_end);
    call.query = (wg_heads){query.floats, strides[0][0], strides[0][1]};
    call.key = (wg_heads){key.floats, strides[1][0], strides[1][1]};
    call.value = (wg_heads){value.floats, strides[2][0], strides[2][1]};
    call.out = out.floats;
    call.out_row_stride = strides[0][0];
    call.out_head_stride = strides[0][1];
    call.thread_count = 2;
    EXPECT_OK(wg_attention_varlen(&call, &err));

    /* Bit for bit what it was without gaps, and NaN as before between. */
    guarded whole = spread(want, rows, heads[0], dim, strides[0][0], strides[0][1], is_end);
    EXPECT(memcmp(whole.floats, out.floats,
                  ((rows - 1) * strides[0][0] + (heads[0] - 1) * strides[0][1] + dim) *
                      sizeof(float)) == 0);
    const guarded all[] = {query, key, value, out, whole};
    for (size_t i = 0; i < 5; i++)
        EXPECT(munmap(all[i].map, all[i].bytes) == 0);
    free(want);
    release(&t);
}

/* One key and value row for all (strides of 0): every output is that value. */
static void check_broadcast(void)
{
    static const int32_t cu[] = {0, 30};
    shape s = {.heads = 2, .key_heads = 2, .dim = 12};
    tensors t = make(&s, 30);
    float out[30 * 24];
    wg_varlen call = call_of(&s, &t, cu, 1, out);
    double worst = 0;
    wg_error err;

    call.key.row_stride = call.value.row_stride = 0;
    call.key.head_stride = call.value.head_stride = 0;
    EXPECT_OK(wg_attention_varlen(&call, &err));
    for (size_t i = 0; i < 30 * 24; i++) {
        double error = fabs((double)out[i] - (double)t.value[i % 12]);
        if (!(error <= worst)) worst = error;
    }
    EXPECT(worst <= 1e-6);
    release(&t);
}

/* --------------------------------------------------------------------------------- refused */

static void refused(wg_varlen call, wg_status status, const char *part)
{
    wg_error err = {0};

    EXPECT_EQ(wg_attention_varlen(&call, &err), status);
    EXPECT_EQ(err.status, status);
    EXPECT_IN(err.message, part);
}

static void check_refused(void)
{
    static const int32_t cu[] = {0, 4, 9}, late[] = {1, 4, 9}, falling[] = {0, 6, 5},
                         below[] = {0, -1, 9};
    shape s = {.heads = 4, .key_heads = 2, .dim = 8};
    tensors t = make(&s, 9);
    float out[9 * 32];
    const wg_varlen good = call_of(&s, &t, cu, 2, out);
    wg_varlen bad;
    wg_error err;

    memset(out, 0xFF, sizeof(out));
#define REFUSED(part, ...)                   \
    do {                                     \
        bad = good;                          \
        __VA_ARGS__;                         \
        refused(bad, WG_ERR_ARGUMENT, part); \
    } while (0)
    REFUSED("cu_seqlens is NULL", bad.cu_seqlens = NULL);
    REFUSED("cu_seqlens[0] is 1", bad.cu_seqlens = late);
    REFUSED("cu_seqlens[2] is 5, below 6", bad.cu_seqlens = falling);
    REFUSED("cu_seqlens[1] is -1, below 0", bad.cu_seqlens = below);
    REFUSED("head_count is 0", bad.head_count = 0);
    REFUSED("key_head_count 0", bad.key_head_count = 0);
    REFUSED("head_count is 4 and key_head_count 3", bad.key_head_count = 3);
    REFUSED("key_head_count 8", bad.key_head_count = 8);
    REFUSED("head_dim is 0", bad.head_dim = 0);
    REFUSED("head_dim is 513", bad.head_dim = 513);
    REFUSED("scale is -0.5", bad.scale = -0.5f);
    REFUSED("scale is nan", bad.scale = NAN);
    REFUSED("scale is inf", bad.scale = INFINITY);
    REFUSED("query is NULL", bad.query.data = NULL);
    REFUSED("key is NULL", bad.key.data = NULL);
    REFUSED("value is NULL", bad.value.data = NULL);
    REFUSED("out is NULL", bad.out = NULL);
    REFUSED("query: 9 rows", bad.query.row_stride = SIZE_MAX / 8);
    REFUSED("key: 9 rows", bad.key.row_stride = SIZE_MAX / 4 / 9);
    REFUSED("value: 9 rows", bad.value.head_stride = SIZE_MAX);
    REFUSED("out: 9 rows", bad.out_head_stride = SIZE_MAX / 3);
    REFUSED("overlap", bad.out_row_stride = 31);
    REFUSED("overlap", bad.out_head_stride = 7);
    REFUSED("overlap", bad.out_row_stride = 0);
    REFUSED("overlap", bad.out_row_stride = 8; bad.out_head_stride = 71);
    REFUSED("out is where", bad.out = t.query);
    REFUSED("multiple of 4",
            bad.query.data = (const float *)(const void *)((const char *)t.query + 1));
    REFUSED("instruction set", bad.isa = (wg_isa)77);
#undef REFUSED
    EXPECT_EQ(wg_attention_varlen(NULL, &err), WG_ERR_ARGUMENT);
    for (size_t i = 0; i < 9 * 32; i++)
        EXPECT(isnan(out[i])); /* nothing was written */
    bad = good;
    bad.out_row_stride = 8;
    bad.out_head_stride = 72;
    EXPECT_OK(wg_attention_varlen(&bad, &err));
    release(&t);
}

static void check_no_memory(void)
{
    static const int32_t cu[] = {0, 4, 9};
    shape s = {.heads = 4, .key_heads = 2, .dim = 8};
    tensors t = make(&s, 9);
    float out[9 * 32];
    wg_varlen call = call_of(&s, &t, cu, 2, out);
    wg_status status = WG_ERR_NO_MEMORY;
    wg_error err;

    for (long nth = 1; nth <= 10 && status == WG_ERR_NO_MEMORY; nth++) {
        wgi_alloc_fail_at(nth);
        status = wg_attention_varlen(&call, &err);
        wgi_alloc_fail_at(0);
        EXPECT(nth > 2 || status == WG_ERR_NO_MEMORY);
    }
    EXPECT_EQ(status, WG_OK);
    release(&t);
}

/* ------------------------------------------------------------------------------------ fork */

/* In a child of a process whose helpers wait: the same bytes, with helpers of its own. */
static void check_fork(void)
{
    static const int32_t cu[] = {0, 700, 900};
    const shape *s = &shapes[4];
    size_t bytes = 900 * (size_t)s->heads * s->dim * sizeof(float);
    tensors t = make(s, 900);
    float *want = wgt_floats(bytes / sizeof(float)), *got = wgt_floats(bytes / sizeof(float));
    wg_varlen call = call_of(s, &t, cu, 2, want);
    int state = 0;
    wg_error err;

    call.thread_count = 3;
    EXPECT_OK(wg_attention_varlen(&call, &err));
    EXPECT(wgi_helpers_count() >= 2);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(60); /* a child that hangs is killed, and seen */
        call.out = got;
        int is_alike = wgi_helpers_count() == 0 && wg_attention_varlen(&call, &err) == WG_OK &&
                       wgi_helpers_count() == 2 && memcmp(want, got, bytes) == 0;
        if (WGT_HAS_SANITIZER) _exit(is_alike ? 0 : 1); /* it misses the parent's threads here */
        exit(is_alike ? 0 : 1);                         /* with exit handlers: the helpers end */
    }
    EXPECT(child > 0 && waitpid(child, &state, 0) == child);
    EXPECT_EQ(WIFEXITED(state) ? WEXITSTATUS(state) : 1000 + WTERMSIG(state), 0);
    call.out = got; /* and the parent goes on */
    EXPECT_OK(wg_attention_varlen(&call, &err));
    EXPECT(memcmp(want, got, bytes) == 0);
    free(want);
    free(got);
    release(&t);
}

static void body(const wgi_backend *backend)
{
    isa = strcmp(backend->isa, "plain") == 0  ? WG_ISA_PLAIN
          : strcmp(backend->isa, "avx2") == 0 ? WG_ISA_AVX2
                                              : WG_ISA_AVX512;
    check_shapes();
    check_random();
    check_alike(&shapes[3]);
    check_alike(&shapes[4]);
    check_alike(&shapes[7]);
    check_alike(&(shape){.heads = 2, .key_heads = 2, .dim = 20, .window = 100});
    check_deaf();
    for (int way = 0; way < 4; way++) {
        check_strides(&shapes[3], way & 1, way & 2);
        check_strides(&shapes[0], way & 1, way & 2);
        check_strides(&shapes[4], way & 1, way & 2);
    }
    check_broadcast();
    check_refused();
    check_no_memory();
    if (!WGT_HAS_TSAN) check_fork(); /* which ends children that start threads after a fork */
}

int main(void)
{
    wgt_seed_set(0x7A51E5);
    wgt_each_isa(body);
    return wgt_result();
}
