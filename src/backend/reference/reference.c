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

static double dot(const float *a, const float *b, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* One query row against the `keys` keys it sees; scores are computed twice instead of kept. */
static void attend_row(const wgi_attention_shape *shape, const float *query, const float *key,
                       const float *value, size_t stride, size_t keys, float *out, double *sums)
{
    double most = -INFINITY, total = 0;

    for (size_t i = 0; i < keys; i++)
        most = fmax(most, (double)shape->scale * dot(query, key + i * stride, shape->head_dim));
    for (size_t d = 0; d < shape->head_dim; d++)
        sums[d] = 0;
    for (size_t i = 0; i < keys; i++) {
        double score = (double)shape->scale * dot(query, key + i * stride, shape->head_dim);
        double p = exp(score - most);

        total += p;
        for (size_t d = 0; d < shape->head_dim; d++)
            sums[d] += p * (double)value[i * stride + d];
    }
    for (size_t d = 0; d < shape->head_dim; d++)
        out[d] = (float)(sums[d] / total);
}

static void attend(const wgi_backend *self, const wgi_attention *attention, const void *buffer,
                   size_t bin_rows, const wgi_attend_item *item, wgi_view out, void *scratch)
{
    const wgi_attention_shape *shape = &attention->shape;
    size_t stride = qkv_stride(attention), dim = shape->head_dim;
    size_t group = shape->head_count / shape->key_head_count;
    const float *segment = (const float *)buffer + item->segment.row * stride;
    const float *key = segment + ((size_t)shape->head_count + item->key_head) * dim;
    const float *value = key + (size_t)shape->key_head_count * dim;

    (void)self, (void)bin_rows;
    for (size_t row = item->first; row < (size_t)item->first + item->count; row++)
        for (size_t head = item->key_head * group; head < (item->key_head + 1) * group; head++)
            attend_row(shape, segment + row * stride + head * dim, key, value, stride,
                       shape->is_causal ? row + 1 : item->segment.count,
                       out.data + (item->segment.row + row) * out.stride + head * dim, scratch);
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
                                      .attend = attend};
    return &table;
}
