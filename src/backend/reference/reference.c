/*
 * reference.c - every operation as its definition reads, in double, for tests.
 *
 * Nothing here is fast, blocked or shared with the other backends, so that a mistake is made once
 * only. Storage between operations is float, as theirs. Q/K/V buffer: [rows][(N + 2 Nk) D].
 *
 * Threads: no state.
 */
#include "backend/reference/reference.h"

#include <math.h>

#include "base/alloc.h"

struct wgi_linear {
    size_t inputs, outputs;
    float *weight, *bias; /* [outputs, inputs], [outputs] */
};

struct wgi_attention {
    wgi_attention_shape shape;
    float *bias; /* [N, 2 reach + 1] by distance; NULL: none */
    size_t reach;
    wgi_linear *parts[3];
};

/* -------------------------------------------------------------------------------- weights */

static void linear_free(wgi_linear *linear)
{
    if (!linear) return;
    wgi_free(linear->weight);
    wgi_free(linear->bias);
    wgi_free(linear);
}

static wg_status linear_pack(const wgi_backend *self, wgi_linear **out, const wgi_tensor *weight,
                             const wgi_tensor *bias, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_linear *linear = wgi_calloc(1, sizeof(*linear));

    (void)self;
    *out = NULL;
    if (linear) {
        linear->outputs = (size_t)weight->shape[0];
        linear->inputs = (size_t)weight->shape[1];
        linear->weight = wgi_calloc((size_t)wgi_tensor_count(weight), sizeof(float));
        linear->bias = wgi_calloc(linear->outputs, sizeof(float));
    }
    if (!linear || !linear->weight || !linear->bias) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for the weights of '%s'", weight->name);
        goto cleanup;
    }
    wgi_tensor_widen(weight, 0, linear->inputs * linear->outputs, linear->weight);
    if (bias) wgi_tensor_widen(bias, 0, linear->outputs, linear->bias);
    *out = linear;
    linear = NULL;

cleanup:
    linear_free(linear);
    return status;
}

static size_t linear_bytes(const wgi_linear *linear)
{
    return sizeof(*linear) + (linear->inputs + 1) * linear->outputs * sizeof(float);
}

static void attention_free(wgi_attention *attention)
{
    if (!attention) return;
    for (int i = 0; i < 3; i++)
        linear_free(attention->parts[i]);
    wgi_free(attention->bias);
    wgi_free(attention);
}

static wg_status attention_pack(const wgi_backend *self, wgi_attention **out,
                                const wgi_attention_weights *weights, wg_error *err)
{
    wg_status status = WG_OK;
    const wgi_tensor *tensors[3] = {weights->query, weights->key, weights->value};
    const wgi_tensor *biases[3] = {weights->query_bias, weights->key_bias, weights->value_bias};
    wgi_attention *attention = wgi_calloc(1, sizeof(*attention));

    *out = NULL;
    if (!attention) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for an attention layer");
        goto cleanup;
    }
    attention->shape = weights->shape;
    if (weights->relative) {
        size_t count = 2 * (size_t)weights->relative->reach + 1;
        attention->reach = weights->relative->reach;
        attention->bias = wgi_calloc(attention->shape.head_count, count * sizeof(float));
        if (!attention->bias) {
            status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for an attention layer's bias");
            goto cleanup;
        }
        for (size_t i = 0; i < attention->shape.head_count * count; i++)
            attention->bias[i] = weights->relative->values[i];
    }
    for (int i = 0; i < 3; i++)
        WGI_TRY(linear_pack(self, &attention->parts[i], tensors[i], biases[i], err));
    *out = attention;
    attention = NULL;

cleanup:
    attention_free(attention);
    return status;
}

static size_t attention_bytes(const wgi_attention *attention)
{
    size_t bytes = sizeof(*attention);

    for (int i = 0; i < 3; i++)
        bytes += linear_bytes(attention->parts[i]);
    return bytes;
}

/* ----------------------------------------------------------------------------------- room */

static size_t scratch_bytes(const wgi_backend *self, const wgi_attention *attention)
{
    (void)self;
    return attention ? attention->shape.head_dim * sizeof(double) : WGI_BYTE_ALIGN;
}

static size_t qkv_stride(const wgi_attention *attention)
{
    return ((size_t)attention->shape.head_count + 2 * (size_t)attention->shape.key_head_count) *
           attention->shape.head_dim;
}

static size_t qkv_bytes(const wgi_attention *attention, size_t rows)
{
    size_t bytes;

    return wgi_mul(rows, qkv_stride(attention) * sizeof(float), &bytes) ? bytes : SIZE_MAX;
}

/* ----------------------------------------------------------------------------- operations */

static void embed(const wgi_backend *self, const wgi_embedding *embedding, const int32_t *token_ids,
                  const int32_t *position_ids, const int32_t *type_ids, wgi_view out, size_t rows)
{
    size_t count = embedding->hidden_count;

    (void)self;
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < count; i++) {
            float part;
            double sum;

            wgi_tensor_widen(embedding->token, (size_t)token_ids[row] * count + i, 1, &part);
            sum = (double)part;
            if (embedding->position) {
                wgi_tensor_widen(embedding->position, (size_t)position_ids[row] * count + i, 1,
                                 &part);
                sum += (double)part;
            }
            if (embedding->type) {
                wgi_tensor_widen(embedding->type, (size_t)type_ids[row] * count + i, 1, &part);
                sum += (double)part;
            }
            out.data[row * out.stride + i] = (float)sum;
        }
}

static void layer_norm(const wgi_backend *self, const wgi_norm *norm, wgi_view inout, size_t rows)
{
    (void)self;
    for (size_t row = 0; row < rows; row++) {
        float *x = inout.data + row * inout.stride;
        double mean = 0, variance = 0;

        for (size_t i = 0; i < norm->count; i++)
            mean += (double)x[i];
        mean /= (double)norm->count;
        for (size_t i = 0; i < norm->count; i++)
            variance += ((double)x[i] - mean) * ((double)x[i] - mean);
        variance /= (double)norm->count;
        for (size_t i = 0; i < norm->count; i++) {
            double y = ((double)x[i] - mean) / sqrt(variance + (double)norm->epsilon);
            y *= (double)norm->weight[i];
            x[i] = (float)(y + (norm->bias ? (double)norm->bias[i] : 0));
        }
    }
}

static double activate(double x, wgi_activation activation)
{
    switch (activation) {
    case WGI_ACTIVATION_GELU:
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    case WGI_ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case WGI_ACTIVATION_RELU:
        return x < 0 ? 0 : x;
    case WGI_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case WGI_ACTIVATION_TANH:
        return tanh(x);
    case WGI_ACTIVATION_NONE:
    default:
        return x;
    }
}

static void linear(const wgi_backend *self, const wgi_linear *weights, wgi_view in, wgi_view out,
                   wgi_view residual, wgi_activation activation, size_t rows, void *scratch)
{
    (void)self, (void)scratch;
    for (size_t row = 0; row < rows; row++)
        for (size_t j = 0; j < weights->outputs; j++) {
            double sum = (double)weights->bias[j];

            for (size_t k = 0; k < weights->inputs; k++)
                sum += (double)in.data[row * in.stride + k] *
                       (double)weights->weight[j * weights->inputs + k];
            sum = activate(sum, activation);
            if (residual.data) sum += (double)residual.data[row * residual.stride + j];
            out.data[row * out.stride + j] = (float)sum;
        }
}

static void qkv(const wgi_backend *self, const wgi_attention *attention, wgi_view in, void *buffer,
                size_t bin_rows, size_t row, size_t rows, void *scratch)
{
    size_t stride = qkv_stride(attention), column = 0;

    (void)bin_rows;
    for (int i = 0; i < 3; i++) {
        wgi_view out = {(float *)buffer + row * stride + column, stride};

        linear(self, attention->parts[i], in, out, (wgi_view){NULL, 0}, WGI_ACTIVATION_NONE, rows,
               scratch);
        column += attention->parts[i]->outputs;
    }
}

static void rms_norm(const wgi_backend *self, const wgi_norm *norm, wgi_view in, wgi_view out,
                     size_t rows)
{
    (void)self;
    for (size_t row = 0; row < rows; row++) {
        const float *x = in.data + row * in.stride;
        double squares = 0;

        for (size_t i = 0; i < norm->count; i++)
            squares += (double)x[i] * (double)x[i];
        squares = squares / (double)norm->count + (double)norm->epsilon;
        for (size_t i = 0; i < norm->count; i++)
            out.data[row * out.stride + i] =
                (float)((double)x[i] / sqrt(squares) * (double)norm->weight[i]);
    }
}

static void linear_product(const wgi_backend *self, const wgi_linear *weights, wgi_view in,
                           wgi_view inout, size_t rows, void *scratch)
{
    (void)self, (void)scratch;
    for (size_t row = 0; row < rows; row++)
        for (size_t j = 0; j < weights->outputs; j++) {
            float *to = inout.data + row * inout.stride + j;
            double sum = (double)weights->bias[j];

            for (size_t k = 0; k < weights->inputs; k++)
                sum += (double)in.data[row * in.stride + k] *
                       (double)weights->weight[j * weights->inputs + k];
            *to = (float)(sum * (double)*to);
        }
}

static void rotate(const wgi_backend *self, const wgi_attention *attention,
                   const wgi_rotary *rotary, void *buffer, size_t bin_rows, size_t row, size_t rows)
{
    const wgi_attention_shape *shape = &attention->shape;
    size_t stride = qkv_stride(attention), half = rotary->count / 2;

    (void)bin_rows;
    for (size_t r = row; r < row + rows; r++)
        for (size_t head = 0; head < (size_t)shape->head_count + shape->key_head_count; head++) {
            const wgi_norm *norm = head < shape->head_count ? rotary->query_norm : rotary->key_norm;
            const float *angles = rotary->angles.data + r * rotary->angles.stride;
            wgi_view x = {(float *)buffer + r * stride + head * shape->head_dim, stride};

            if (norm) rms_norm(self, norm, x, x, 1);
            for (size_t j = 0; j < half; j++) {
                double a = (double)x.data[j], b = (double)x.data[half + j];
                double c = (double)angles[j], s = (double)angles[half + j];

                x.data[j] = (float)(a * c - b * s);
                x.data[half + j] = (float)(b * c + a * s);
            }
        }
}

static double dot(const float *a, const float *b, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* One query row of one head; key and value are of the segment's row 0. */
typedef struct attend_call {
    const wgi_attention *attention;
    const float *query, *key, *value;
    size_t stride, row, head, begin, end; /* the row sees keys [begin, end) */
} attend_call;

static double score(const attend_call *call, size_t key)
{
    const wgi_attention *attention = call->attention;
    size_t reach = attention->reach, at = key + reach < call->row ? 0 : key + reach - call->row;
    double sum = (double)attention->shape.scale *
                 dot(call->query, call->key + key * call->stride, attention->shape.head_dim);

    if (!attention->bias) return sum;
    return sum +
           (double)
               attention->bias[call->head * (2 * reach + 1) + (at < 2 * reach ? at : 2 * reach)];
}

/* Scores are computed twice instead of kept. */
static void attend_row(const attend_call *call, float *out, double *sums)
{
    size_t dim = call->attention->shape.head_dim;
    double most = -INFINITY, total = 0;

    for (size_t i = call->begin; i < call->end; i++)
        most = fmax(most, score(call, i));
    for (size_t d = 0; d < dim; d++)
        sums[d] = 0;
    for (size_t i = call->begin; i < call->end; i++) {
        double p = exp(score(call, i) - most);

        total += p;
        for (size_t d = 0; d < dim; d++)
            sums[d] += p * (double)call->value[i * call->stride + d];
    }
    for (size_t d = 0; d < dim; d++)
        out[d] = (float)(sums[d] / total);
}

static void attend(const wgi_backend *self, const wgi_attention *attention, const void *buffer,
                   size_t bin_rows, const wgi_attend_item *item, wgi_view out, void *scratch)
{
    const wgi_attention_shape *shape = &attention->shape;
    size_t dim = shape->head_dim, group = shape->head_count / shape->key_head_count;
    size_t count = item->segment.count, window = shape->window ? shape->window : count;
    attend_call call = {.attention = attention, .stride = qkv_stride(attention)};
    const float *segment = (const float *)buffer + item->segment.row * call.stride;

    (void)self, (void)bin_rows;
    call.key = segment + ((size_t)shape->head_count + item->key_head) * dim;
    call.value = call.key + (size_t)shape->key_head_count * dim;
    for (call.row = item->first; call.row < (size_t)item->first + item->count; call.row++) {
        call.begin = call.row < window ? 0 : call.row + 1 - window;
        call.end = shape->is_causal ? call.row + 1 : call.row + window;
        if (call.end > count) call.end = count;
        for (call.head = item->key_head * group; call.head < (item->key_head + 1) * group;
             call.head++) {
            call.query = segment + call.row * call.stride + call.head * dim;
            attend_row(&call,
                       out.data + (item->segment.row + call.row) * out.stride + call.head * dim,
                       scratch);
        }
    }
}

const wgi_backend *wgi_reference_backend(void)
{
    static const wgi_backend table = {.name = "reference",
                                      .isa = "plain",
                                      .block_rows = 64,
                                      .attend_rows = 128,
                                      .row_multiple = 1,
                                      .bin_tokens = 1024,
                                      .linear_pack = linear_pack,
                                      .linear_pack_stored = linear_pack,
                                      .linear_free = linear_free,
                                      .linear_bytes = linear_bytes,
                                      .attention_pack = attention_pack,
                                      .attention_free = attention_free,
                                      .attention_bytes = attention_bytes,
                                      .scratch_bytes = scratch_bytes,
                                      .qkv_bytes = qkv_bytes,
                                      .embed = embed,
                                      .layer_norm = layer_norm,
                                      .linear = linear,
                                      .qkv = qkv,
                                      .rms_norm = rms_norm,
                                      .linear_product = linear_product,
                                      .rotate = rotate,
                                      .attend = attend};
    return &table;
}
