/*
 * cpu_attention.c - the fused Q/K/V projection, and attention over segments of any length.
 *
 *   Q/K/V buffer   [panel][bin rows][panel columns]   a panel holds as many whole heads as fit into
 *                  64 columns (or one head); query panels, then key panels, then value panels
 *
 * An item is a stretch of query rows of one segment and one key head. For each tile of 512 keys,
 * counted from the segment's own start, the keys are packed transposed and the values behind one
 * another; then blocks of 12 query rows go through
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
 * The alternative, libxsmm tiles here too, wants a kernel for every pair of row and key counts.
 *
 * Threads: packed projections are constant; scratch belongs to a lane; items are independent.
 */
#include "backend/cpu/cpu.h"

#include "base/alloc.h"

#define QUERY_ROWS   12
#define KEYS         WGI_CPU_KEYS
#define SCORE_STRIDE (KEYS + 16) /* not a power of two, so that rows do not fight for L1 sets */

struct wgi_attention {
    wgi_attention_shape shape;
    size_t heads_per_panel, panel_columns, panel_stride; /* stride in floats between rows */
    size_t query_panels, key_panels;
    wgi_linear *projection;
    float *bias;        /* [N][2 bias_center + 1] by distance, over the scale; NULL: none */
    size_t bias_center; /* of distance 0 */
    size_t bias_reach;  /* distances beyond are alike */
};

static size_t round_up(size_t value, size_t to)
{
    return (value + to - 1) / to * to;
}

/* ----------------------------------------------------------------------------------- pack */

/* Where each output column of the projection comes from in the stack of query, key, value. */
static void map_rows(const wgi_attention *attention, size_t *rows)
{
    const wgi_attention_shape *shape = &attention->shape;
    size_t query_rows = (size_t)shape->head_count * shape->head_dim;
    size_t key_rows = (size_t)shape->key_head_count * shape->head_dim;
    const struct {
        size_t panels, rows, first;
    } kinds[3] = {{attention->query_panels, query_rows, 0},
                  {attention->key_panels, key_rows, query_rows},
                  {attention->key_panels, key_rows, query_rows + key_rows}};

    for (size_t kind = 0; kind < 3; kind++)
        for (size_t i = 0; i < kinds[kind].panels * attention->panel_columns; i++)
            *rows++ = i < kinds[kind].rows ? kinds[kind].first + i : WGI_CPU_NO_ROW;
}

/* How many heads a panel takes, and how many panels there are. */
static void lay_out(wgi_attention *attention, const wgi_attention_shape *shape)
{
    size_t heads = shape->head_dim <= WGI_CPU_TILE ? WGI_CPU_TILE / shape->head_dim : 1;

    if (heads > shape->key_head_count) heads = shape->key_head_count;
    attention->shape = *shape;
    attention->heads_per_panel = heads;
    attention->panel_columns = heads * shape->head_dim;
    attention->panel_stride = wgi_view_stride(attention->panel_columns);
    attention->query_panels = (shape->head_count + heads - 1) / heads;
    attention->key_panels = (shape->key_head_count + heads - 1) / heads;
}

/*
 * The bias by distance, with so many copies of its ends on both sides that a block of queries and a
 * tile of keys, however far apart, find theirs in a row. Divided by the scale, because the softmax
 * multiplies scores by it.
 */
static wg_status keep_bias(wgi_attention *attention, const wgi_relative_bias *relative,
                           wg_error *err)
{
    size_t reach = relative->reach, center = reach + KEYS + QUERY_ROWS + 16;
    size_t heads = attention->shape.head_count;

    if (reach > WGI_REACH_MAX)
        return wgi_fail(err, WG_ERR_ARGUMENT, "a relative bias reaches %zu, at most %d", reach,
                        WGI_REACH_MAX);
    attention->bias_reach = reach;
    attention->bias_center = center;
    attention->bias = wgi_calloc(heads, (2 * center + 1) * sizeof(float));
    if (!attention->bias)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for an attention layer's bias");
    for (size_t head = 0; head < heads; head++) {
        const float *from = relative->values + head * (2 * reach + 1);
        float *to = attention->bias + head * (2 * center + 1);

        for (size_t i = 0; i <= 2 * center; i++) {
            size_t at = i < center - reach ? 0 : i - (center - reach);
            to[i] = from[at > 2 * reach ? 2 * reach : at] / attention->shape.scale;
        }
    }
    return WG_OK;
}

wg_status wgi_cpu_attention_pack(const wgi_backend *self, wgi_attention **out,
                                 const wgi_attention_weights *weights, wg_error *err)
{
    wg_status status = WG_OK;
    const wgi_attention_shape *shape = &weights->shape;
    size_t *rows = NULL;
    wgi_attention *attention = NULL;
    wgi_cpu_linear_parts parts = {
        .weights = {weights->query, weights->key, weights->value},
        .biases = {weights->query_bias, weights->key_bias, weights->value_bias}};

    *out = NULL;
    if (!shape->head_dim || !shape->key_head_count || shape->head_count % shape->key_head_count) {
        status =
            wgi_fail(err, WG_ERR_ARGUMENT, "%u heads over %u key heads of %u make no attention",
                     shape->head_count, shape->key_head_count, shape->head_dim);
        goto cleanup;
    }
    attention = wgi_calloc(1, sizeof(*attention));
    if (!attention) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for an attention layer");
        goto cleanup;
    }
    lay_out(attention, shape);
    if (weights->relative) WGI_TRY(keep_bias(attention, weights->relative, err));
    parts.panel_count = attention->query_panels + 2 * attention->key_panels;
    parts.panel_columns = attention->panel_columns;
    rows = wgi_calloc(parts.panel_count * parts.panel_columns, sizeof(*rows));
    if (!rows) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for an attention layer");
        goto cleanup;
    }
    map_rows(attention, rows);
    parts.rows = rows;
    parts.keep_stored = weights->keep_stored != 0;
    WGI_TRY(wgi_cpu_linear_make(self, &attention->projection, &parts, err));
    *out = attention;
    attention = NULL;

cleanup:
    wgi_free(rows);
    wgi_cpu_attention_free(attention);
    return status;
}

void wgi_cpu_attention_free(wgi_attention *attention)
{
    if (!attention) return;
    wgi_cpu_linear_free(attention->projection);
    wgi_free(attention->bias);
    wgi_free(attention);
}

size_t wgi_cpu_attention_bytes(const wgi_attention *attention)
{
    size_t bias =
        attention->bias ? attention->shape.head_count * (2 * attention->bias_center + 1) : 0;

    return sizeof(*attention) + wgi_cpu_linear_bytes(attention->projection) + bias * sizeof(float);
}

/* ------------------------------------------------------------------------------------ qkv */

size_t wgi_cpu_qkv_bytes(const wgi_attention *attention, size_t rows)
{
    size_t panels = attention->query_panels + 2 * attention->key_panels, bytes;

    if (!wgi_mul(panels * attention->panel_stride * sizeof(float), rows, &bytes)) return SIZE_MAX;
    return bytes;
}

void wgi_cpu_qkv(const wgi_backend *self, const wgi_attention *attention, wgi_view in, void *qkv,
                 size_t bin_rows, size_t row, size_t rows, void *scratch)
{
    wgi_view out = {(float *)qkv + row * attention->panel_stride, attention->panel_stride};

    wgi_cpu_linear_panels(self, attention->projection, in, out, bin_rows * attention->panel_stride,
                          rows, scratch);
}

/* --------------------------------------------------------------------------------- rotate */

void wgi_cpu_rotate(const wgi_backend *self, const wgi_attention *attention,
                    const wgi_rotary *rotary, void *qkv, size_t bin_rows, size_t row, size_t rows)
{
    const wgi_cpu_kernels *kernels = wgi_cpu_of(self)->kernels;
    const wgi_attention_shape *shape = &attention->shape;
    wgi_view angles = wgi_view_from(rotary->angles, row);
    size_t heads = (size_t)shape->head_count + shape->key_head_count;

    for (size_t i = 0; i < heads; i++) {
        bool is_key = i >= shape->head_count;
        size_t head = is_key ? i - shape->head_count : i;
        size_t panel = (is_key ? attention->query_panels : 0) + head / attention->heads_per_panel;
        const wgi_norm *norm = is_key ? rotary->key_norm : rotary->query_norm;
        wgi_view view = {(float *)qkv + (panel * bin_rows + row) * attention->panel_stride +
                             head % attention->heads_per_panel * shape->head_dim,
                         attention->panel_stride};

        if (norm) kernels->rms_norm(norm, view, view, rows);
        kernels->rotate(view.data, view.stride, angles, rotary->count / 2, rows);
    }
}

/* --------------------------------------------------------------------------------- attend */

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

static size_t carve(const wgi_attention *attention, char *base, attend_scratch *scratch)
{
    size_t dim = attention->shape.head_dim, out_stride = round_up(dim, 16), at = 0;
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

size_t wgi_cpu_attention_scratch_bytes(const wgi_attention *attention)
{
    attend_scratch unused;

    return carve(attention, NULL, &unused);
}

typedef struct attend_call {
    const wgi_cpu_kernels *kernels;
    const wgi_attention *attention;
    const wgi_attend_item *item;
    size_t head;                      /* of the query */
    const float *query, *key, *value; /* row 0 of the segment, this head */
    const float *bias;                /* of distance 0, this head; NULL: none */
    size_t stride;
    wgi_view out; /* row 0 of the segment, this head */
    attend_scratch scratch;
} attend_call;

/* Row `row` of a bin, head `head` of the kind whose panels start at `panel`. */
static const float *head_at(const wgi_attention *attention, const float *qkv, size_t bin_rows,
                            size_t panel, size_t head, size_t row)
{
    panel += head / attention->heads_per_panel;
    return qkv + (panel * bin_rows + row) * attention->panel_stride +
           head % attention->heads_per_panel * attention->shape.head_dim;
}

/* The tile where the keys begin that segment row `row` sees, and those behind it. */
static size_t first_tile(const wgi_attention_shape *shape, size_t row)
{
    if (!shape->window || row < shape->window) return 0;
    return (row + 1 - shape->window) / KEYS * KEYS;
}

/* How many keys from the segment's start a query row may see, its own and those behind it. */
static size_t ahead(const wgi_attention_shape *shape, size_t segment_count)
{
    return shape->is_causal ? 1 : shape->window ? shape->window : segment_count;
}

/* The end of the keys that rows below row_end see. */
static size_t keys_end(const attend_call *call, size_t row_end)
{
    size_t count = call->item->segment.count;
    size_t end = row_end - 1 + ahead(&call->attention->shape, count);

    return end < count ? end : count;
}

/* Adds the bias of queries from `row` on and keys from `key` on. */
static void add_bias(const attend_call *call, float *scores, size_t row, size_t rows, size_t key,
                     size_t keys)
{
    ptrdiff_t reach = (ptrdiff_t)call->attention->bias_reach;
    ptrdiff_t distance = (ptrdiff_t)key - (ptrdiff_t)row;

    if (distance < -reach - KEYS) distance = -reach - KEYS;
    if (distance > reach + QUERY_ROWS) distance = reach + QUERY_ROWS;
    call->kernels->lean(scores, SCORE_STRIDE, call->bias + distance, rows, keys);
}

/* Query rows [at, at + rows) of the item against keys [first, first + keys) of the segment. */
static void attend_block(const attend_call *call, size_t at, size_t rows, size_t first, size_t keys,
                         bool is_last)
{
    const wgi_attention_shape *shape = &call->attention->shape;
    const attend_scratch *s = &call->scratch;
    size_t dim = shape->head_dim, out_stride = round_up(dim, 16), row = call->item->first + at;
    bool is_first = first == first_tile(shape, row);
    /* Whole panels of the tile that lie before the window of every row. */
    size_t skip = shape->window && row + 1 > first + shape->window
                      ? (row + 1 - first - shape->window) / WGI_PANEL_COLUMNS * WGI_PANEL_COLUMNS
                      : 0;
    size_t sees = ahead(shape, call->item->segment.count);
    float *out = s->out + at * out_stride, *part = is_first ? out : s->part;
    wgi_gemm qk = {.b = call->query + row * call->stride,
                   .b_stride = call->stride,
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
        call->kernels->gemm(&qk);
    }
    if (call->bias) add_bias(call, s->scores + skip, row, rows, first + skip, keys - skip);
    call->kernels->softmax(&softmax);
    call->kernels->gemm(&pv);
    if (!is_first) call->kernels->merge(out, part, out_stride, s->fade, rows);
    if (is_last)
        call->kernels->divide(out, out_stride, s->sum + at, call->out.data + row * call->out.stride,
                              call->out.stride, rows, dim);
}

static void attend_head(const attend_call *call, bool is_packed)
{
    const wgi_attend_item *item = call->item;
    const attend_scratch *s = &call->scratch;
    size_t dim = call->attention->shape.head_dim, stride = call->stride;
    size_t end = keys_end(call, (size_t)item->first + item->count);

    for (size_t first = first_tile(&call->attention->shape, item->first); first < end;
         first += KEYS) {
        size_t keys = end - first < KEYS ? end - first : KEYS;

        if (!is_packed) {
            call->kernels->pack_keys(call->key + first * stride, stride, keys, dim, s->keys);
            call->kernels->pack_values(call->value + first * stride, stride, keys, dim, s->values,
                                       round_up(dim, 16));
        }
        for (size_t at = 0; at < item->count; at += QUERY_ROWS) {
            size_t rows = item->count - at < QUERY_ROWS ? item->count - at : QUERY_ROWS;
            size_t seen = keys_end(call, item->first + at + rows); /* by the last row */

            if (seen <= first) continue;
            if (first < first_tile(&call->attention->shape, item->first + at)) continue;
            attend_block(call, at, rows, first, seen - first < keys ? seen - first : keys,
                         seen <= first + KEYS);
        }
    }
}

void wgi_cpu_attend(const wgi_backend *self, const wgi_attention *attention, const void *qkv,
                    size_t bin_rows, const wgi_attend_item *item, wgi_view out, void *scratch)
{
    const wgi_attention_shape *shape = &attention->shape;
    size_t group = shape->head_count / shape->key_head_count, row = item->segment.row;
    attend_call call = {.kernels = wgi_cpu_of(self)->kernels,
                        .attention = attention,
                        .item = item,
                        .stride = attention->panel_stride};

    (void)carve(attention, scratch, &call.scratch);
    call.key = head_at(attention, qkv, bin_rows, attention->query_panels, item->key_head, row);
    call.value = head_at(attention, qkv, bin_rows, attention->query_panels + attention->key_panels,
                         item->key_head, row);
    for (size_t i = 0; i < group; i++) {
        size_t head = item->key_head * group + i;

        call.query = head_at(attention, qkv, bin_rows, 0, head, row);
        call.out = wgi_view_from(out, row);
        call.out.data += head * shape->head_dim;
        if (attention->bias)
            call.bias =
                attention->bias + head * (2 * attention->bias_center + 1) + attention->bias_center;
        /* Heads that share keys share the packed ones, when these are one tile. */
        attend_head(&call, i > 0 && item->segment.count <= KEYS);
    }
}
