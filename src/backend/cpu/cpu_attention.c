/*
 * cpu_attention.c - the fused Q/K/V projection of a layer, and attention over what it wrote.
 *
 *   Q/K/V buffer   [panel][bin rows][panel columns]   a panel holds as many whole heads as fit into
 *                  64 columns (or one head); query panels, then key panels, then value panels
 *
 * A panel is what a tile of the projection writes. The arithmetic of attention, which knows nothing
 * of panels, is in cpu_attend.c.
 *
 * Threads: packed projections are constant; scratch belongs to a lane; items are independent.
 */
#include "backend/cpu/cpu.h"

#include "backend/cpu/cpu_attend.h"
#include "base/alloc.h"

struct wgi_attention {
    wgi_attention_shape shape;
    size_t heads_per_panel, panel_columns, panel_stride; /* stride in floats between rows */
    size_t query_panels, key_panels;
    wgi_linear *projection;
    float *bias;        /* [N][2 bias_center + 1] by distance, over the scale; NULL: none */
    size_t bias_center; /* of distance 0 */
    size_t bias_reach;  /* distances beyond are alike */
};

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
    size_t reach = relative->reach, center = reach + WGI_CPU_BIAS_MARGIN;
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

size_t wgi_cpu_attention_scratch_bytes(const wgi_attention *attention)
{
    return wgi_cpu_attend_bytes(attention->shape.head_dim);
}

/* Row `row` of a bin, head `head` of the kind whose panels start at `panel`. */
static wgi_cpu_rows head_at(const wgi_attention *attention, const float *qkv, size_t bin_rows,
                            size_t panel, size_t head, size_t row)
{
    panel += head / attention->heads_per_panel;
    return (wgi_cpu_rows){qkv + (panel * bin_rows + row) * attention->panel_stride +
                              head % attention->heads_per_panel * attention->shape.head_dim,
                          attention->panel_stride};
}

void wgi_cpu_attend(const wgi_backend *self, const wgi_attention *attention, const void *qkv,
                    size_t bin_rows, const wgi_attend_item *item, wgi_view out, void *scratch)
{
    const wgi_attention_shape *shape = &attention->shape;
    size_t group = shape->head_count / shape->key_head_count, row = item->segment.row;
    wgi_cpu_attend_task task = {.kernels = wgi_cpu_of(self)->kernels,
                                .shape = shape,
                                .row_count = item->segment.count,
                                .first = item->first,
                                .count = item->count,
                                .bias_reach = attention->bias_reach};

    task.key = head_at(attention, qkv, bin_rows, attention->query_panels, item->key_head, row);
    task.value = head_at(attention, qkv, bin_rows, attention->query_panels + attention->key_panels,
                         item->key_head, row);
    for (size_t i = 0; i < group; i++) {
        size_t head = item->key_head * group + i;

        task.query = head_at(attention, qkv, bin_rows, 0, head, row);
        task.out = wgi_view_from(out, row);
        task.out.data += head * shape->head_dim;
        if (attention->bias)
            task.bias =
                attention->bias + head * (2 * attention->bias_center + 1) + attention->bias_center;
        wgi_cpu_attend_head(&task, i > 0, scratch);
    }
}
