/*
 * cpu_attend.c - attention over segments of any length, in tiles.
 *
 * For each tile of 512 keys, counted from the segment's own start, the keys are packed transposed
 * and the values behind one another; then blocks of 12 query rows go through
 *
 *     scores = Q K^T  ->  online softmax  ->  out += P V
 *
 * all in scratch that stays in L1 and L2, whatever the length. A segment of up to 512 keys is one
 * tile: the plain case, without rescaling. Only rows of the segment are ever read, so nothing in a
 * neighbour, not even an infinity, comes near. Tiles are summed on their own and then merged, so
 * that rounding grows with the number of tiles and not of keys. A row's bits depend on its own
 * query and the keys that it sees in their order: tiles start at the segment's start, every score
 * and every output is one chain of multiply-adds, and the row's sum runs over its own keys. A
 * window bounds them on both sides, or behind when causal, as a distance from the row.
 *
 * Keys and values are read while they are packed, by the float; queries are read one float at a
 * time, and out is written through masks: so the caller's rows need no padding and no alignment.
 *
 * The alternative, libxsmm tiles here too, wants a kernel for every pair of row and key counts.
 *
 * Threads: scratch belongs to a lane; nothing else is written but out.
 */
#include "backend/cpu/cpu_attend.h"

#include "backend/cpu/cpu.h"

#define QUERY_ROWS   12
#define KEYS         WGI_CPU_KEYS
#define SCORE_STRIDE (KEYS + 16) /* not a power of two, so that rows do not fight for L1 sets */

_Static_assert(WGI_CPU_BIAS_MARGIN >= KEYS + QUERY_ROWS + 16, "a bias is read beyond its ends");

static size_t round_up(size_t value, size_t to)
{
    return (value + to - 1) / to * to;
}

/* Carved from a lane's scratch; counts bytes when base is NULL. */
typedef struct attend_scratch {
    float *keys;       /* [KEYS / 32][D][32] */
    float *values;     /* [KEYS][out_stride] */
    float *scores;     /* [QUERY_ROWS][SCORE_STRIDE] */
    float *part;       /* [QUERY_ROWS][out_stride]: P V of one tile behind the first */
    float *fade;       /* [QUERY_ROWS] */
    float *out;        /* [WGI_CPU_ATTEND_ROWS][out_stride] */
    float *most, *sum; /* [WGI_CPU_ATTEND_ROWS] */
} attend_scratch;

static size_t carve(size_t dim, char *base, attend_scratch *scratch)
{
    size_t out_stride = round_up(dim, 16), at = 0;
    const struct {
        float **part;
        size_t count;
    } parts[] = {{&scratch->keys, KEYS * dim},
                 {&scratch->values, KEYS * out_stride},
                 {&scratch->scores, (size_t)QUERY_ROWS * SCORE_STRIDE},
                 {&scratch->part, QUERY_ROWS * out_stride},
                 {&scratch->fade, QUERY_ROWS},
                 {&scratch->out, WGI_CPU_ATTEND_ROWS * out_stride},
                 {&scratch->most, WGI_CPU_ATTEND_ROWS},
                 {&scratch->sum, WGI_CPU_ATTEND_ROWS}};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (base) *parts[i].part = (float *)(void *)(base + at);
        at += round_up(parts[i].count * sizeof(float), WGI_BYTE_ALIGN);
    }
    return at;
}

size_t wgi_cpu_attend_bytes(size_t head_dim)
{
    attend_scratch unused;

    return carve(head_dim, NULL, &unused);
}

/* The tile where the keys begin that segment row `row` sees, and those behind it. */
static size_t first_tile(const wgi_attention_shape *shape, size_t row)
{
    if (!shape->window || row < shape->window) return 0;
    return (row + 1 - shape->window) / KEYS * KEYS;
}

/* How many keys from its own on a query row may see. */
static size_t ahead(const wgi_cpu_attend_task *task)
{
    const wgi_attention_shape *shape = task->shape;

    return shape->is_causal ? 1 : shape->window ? shape->window : task->row_count;
}

/* The end of the keys that rows below row_end see. */
static size_t keys_end(const wgi_cpu_attend_task *task, size_t row_end)
{
    size_t end = row_end - 1 + ahead(task);

    return end < task->row_count ? end : task->row_count;
}

/* Adds the bias of queries from `row` on and keys from `key` on. */
static void add_bias(const wgi_cpu_attend_task *task, float *scores, size_t row, size_t rows,
                     size_t key, size_t keys)
{
    ptrdiff_t reach = (ptrdiff_t)task->bias_reach;
    ptrdiff_t distance = (ptrdiff_t)key - (ptrdiff_t)row;

    if (distance < -reach - KEYS) distance = -reach - KEYS;
    if (distance > reach + QUERY_ROWS) distance = reach + QUERY_ROWS;
    task->kernels->lean(scores, SCORE_STRIDE, task->bias + distance, rows, keys);
}

/* Query rows [at, at + rows) of the task against keys [first, first + keys) of the segment. */
static void attend_block(const wgi_cpu_attend_task *task, const attend_scratch *s, size_t at,
                         size_t rows, size_t first, size_t keys, bool is_last)
{
    const wgi_attention_shape *shape = task->shape;
    size_t dim = shape->head_dim, out_stride = round_up(dim, 16), row = task->first + at;
    bool is_first = first == first_tile(shape, row);
    /* Whole panels of the tile that lie before the window of every row. */
    size_t skip = shape->window && row + 1 > first + shape->window
                      ? (row + 1 - first - shape->window) / WGI_PANEL_COLUMNS * WGI_PANEL_COLUMNS
                      : 0;
    size_t sees = ahead(task);
    float *out = s->out + at * out_stride, *part = is_first ? out : s->part;
    wgi_gemm qk = {.b = task->query.data + row * task->query.stride,
                   .b_stride = task->query.stride,
                   .a_stride = WGI_PANEL_COLUMNS,
                   .c_stride = SCORE_STRIDE,
                   .rows = rows,
                   .columns = WGI_PANEL_COLUMNS,
                   .depth = dim};
    wgi_softmax softmax = {.scores = s->scores + skip,
                           .stride = SCORE_STRIDE,
                           .most = s->most + at,
                           .sum = s->sum + at,
                           .fade = s->fade,
                           .rows = rows,
                           .keys = keys - skip,
                           .keys_first = (ptrdiff_t)(row + sees) - (ptrdiff_t)(first + skip),
                           .window = shape->window ? shape->window + sees - 1 : 0,
                           .is_bounded = shape->is_causal || shape->window,
                           .is_first = is_first,
                           .scale_log2 = shape->scale * 1.442695041f};
    wgi_gemm pv = {.a = s->values + skip * out_stride,
                   .a_stride = out_stride,
                   .b = s->scores + skip,
                   .b_stride = SCORE_STRIDE,
                   .c = part,
                   .c_stride = out_stride,
                   .rows = rows,
                   .columns = out_stride,
                   .depth = keys - skip};

    for (size_t key = skip; key < keys; key += WGI_PANEL_COLUMNS) {
        qk.a = s->keys + key * dim;
        qk.c = s->scores + key;
        task->kernels->gemm(&qk);
    }
    if (task->bias) add_bias(task, s->scores + skip, row, rows, first + skip, keys - skip);
    task->kernels->softmax(&softmax);
    task->kernels->gemm(&pv);
    if (!is_first) task->kernels->merge(out, part, out_stride, s->fade, rows);
    if (is_last)
        task->kernels->divide(out, out_stride, s->sum + at, task->out.data + row * task->out.stride,
                              task->out.stride, rows, dim);
}

void wgi_cpu_attend_head(const wgi_cpu_attend_task *task, bool shares_keys, void *scratch)
{
    attend_scratch s;
    size_t dim = task->shape->head_dim, end = keys_end(task, task->first + task->count);
    bool is_packed = shares_keys && task->row_count <= KEYS;

    (void)carve(dim, scratch, &s);
    for (size_t first = first_tile(task->shape, task->first); first < end; first += KEYS) {
        size_t keys = end - first < KEYS ? end - first : KEYS;

        if (!is_packed) {
            task->kernels->pack_keys(task->key.data + first * task->key.stride, task->key.stride,
                                     keys, dim, s.keys);
            task->kernels->pack_values(task->value.data + first * task->value.stride,
                                       task->value.stride, keys, dim, s.values, round_up(dim, 16));
        }
        for (size_t at = 0; at < task->count; at += QUERY_ROWS) {
            size_t rows = task->count - at < QUERY_ROWS ? task->count - at : QUERY_ROWS;
            size_t seen = keys_end(task, task->first + at + rows); /* by the last row */

            if (seen <= first) continue;
            if (first < first_tile(task->shape, task->first + at)) continue;
            attend_block(task, &s, at, rows, first, seen - first < keys ? seen - first : keys,
                         seen <= first + KEYS);
        }
    }
}
