/*
 * embed.c - pooling, dense layers, normalisation, cut; see embed.h.
 *
 * Column sums run row by row in double, in strips of columns that stay in the L1 cache: the order
 * of additions is that of the rows, whatever the compiler makes of the columns, and thousands of
 * rows lose nothing. Pooling is one pass over hidden states that are still in the cache, less than
 * a hundredth of a forward pass, so it is plain C for every instruction set.
 *
 * Threads: any lane, each with its own scratch; the head is read-only once made.
 */
#include "task/embed.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

#define STRIP 128

/* ------------------------------------------------------------------------------- set up */

/* The widest vector on the way. */
static size_t widest(const wgi_embed_head *head)
{
    size_t most = head->hidden_count;

    for (uint32_t i = 0; i < head->dense_count; i++) {
        size_t width = (size_t)head->modules->dense[i].weight->shape[0];
        if (width > most) most = width;
    }
    return most;
}

/* Packs the dense layers one after another; each must take what the one before gives. */
static wg_status pack_dense(wgi_embed_head *head, wg_error *err)
{
    for (uint32_t i = 0; i < head->modules->dense_count; i++) {
        const wgi_dense *dense = &head->modules->dense[i];
        const wgi_tensor *weight = dense->weight, *bias = dense->bias;

        if (weight->rank != 2 || weight->shape[1] != head->width || weight->shape[0] == 0)
            return wgi_fail(err, WG_ERR_FORMAT,
                            "dense layer %u: tensor '%s' does not take a vector of %zu floats",
                            i + 1, weight->name, head->width);
        if (bias && (bias->rank != 1 || bias->shape[0] != weight->shape[0]))
            return wgi_fail(err, WG_ERR_FORMAT, "dense layer %u: tensor '%s' does not fit '%s'",
                            i + 1, bias->name, weight->name);
        wg_status status =
            head->backend->linear_pack(head->backend, &head->dense[i], weight, bias, err);
        if (status != WG_OK) return status;
        head->dense_count = i + 1;
        head->width = (size_t)weight->shape[0];
    }
    return WG_OK;
}

wg_status wgi_embed_head_init(wgi_embed_head *head, const wg_embed_options *options,
                              const wgi_modules *modules, const wgi_description *description,
                              const wgi_backend *backend, wg_error *err)
{
    wg_status status = WG_OK;
    wg_pooling pooling = options->pooling != WG_POOLING_MODEL ? options->pooling : modules->pooling;

    *head = (wgi_embed_head){
        .modules = modules,
        .backend = backend,
        .pooling = pooling != WG_POOLING_MODEL ? pooling : WG_POOLING_MEAN,
        .normalize_cut = options->normalize > 0,
        .hidden_count = description->hidden_count,
        .width = description->hidden_count,
    };
    if (head->pooling != WG_POOLING_NONE) {
        head->normalize_whole = modules->normalize && options->normalize >= 0;
        WGI_TRY(pack_dense(head, err));
    }
    if (options->truncate_dim > head->width) {
        status = wgi_fail(err, WG_ERR_ARGUMENT,
                          "vectors cannot be cut to %u floats: this model's vectors have %zu",
                          options->truncate_dim, head->width);
        goto cleanup;
    }
    head->dim = options->truncate_dim ? options->truncate_dim : head->width;
    /* A vector that is whole and normalised is not divided by a length of 1.0000001 again. */
    if (head->normalize_whole && head->dim == head->width) head->normalize_cut = false;
    head->normalize = head->normalize_whole || head->normalize_cut;

cleanup:
    if (status != WG_OK) wgi_embed_head_fini(head);
    return status;
}

void wgi_embed_head_fini(wgi_embed_head *head)
{
    for (uint32_t i = 0; i < head->dense_count; i++)
        head->backend->linear_free(head->dense[i]);
    *head = (wgi_embed_head){0};
}

/* One of the two vectors that the dense layers go between. */
static size_t buffer_bytes(const wgi_embed_head *head)
{
    return wgi_view_stride(widest(head)) * sizeof(float);
}

size_t wgi_embed_head_scratch_bytes(const wgi_embed_head *head)
{
    size_t bytes = buffer_bytes(head);

    if (head->dense_count) bytes = 2 * bytes + head->backend->scratch_bytes(head->backend, NULL);
    return bytes;
}

/* ------------------------------------------------------------------------------ pooling */

/* out[c] = scale * sum over rows r of weight(r) * in[r][c]; weight(r) is r + 1 or 1. */
static void pool_sum(wgi_view in, size_t first, size_t rows, size_t columns, bool is_weighted,
                     double scale, float *out)
{
    for (size_t begin = 0; begin < columns; begin += STRIP) {
        size_t count = columns - begin < STRIP ? columns - begin : STRIP;
        double sums[STRIP] = {0};

        for (size_t r = first; r < rows; r++) {
            const float *row = in.data + r * in.stride + begin;
            double weight = is_weighted ? (double)(r + 1) : 1;
            for (size_t c = 0; c < count; c++)
                sums[c] += weight * (double)row[c];
        }
        for (size_t c = 0; c < count; c++)
            out[begin + c] = (float)(sums[c] * scale);
    }
}

/* The largest value of each column; a NaN stays, so that it is found. */
static void pool_max(wgi_view in, size_t first, size_t rows, size_t columns, float *out)
{
    memcpy(out, in.data + first * in.stride, columns * sizeof(float));
    for (size_t r = first + 1; r < rows; r++) {
        const float *row = in.data + r * in.stride;
        for (size_t c = 0; c < columns; c++) {
            if (row[c] > out[c] || row[c] != row[c]) out[c] = row[c];
        }
    }
}

/* Rows [first, rows) to one vector of H floats. */
static void pool(const wgi_embed_head *head, wgi_view in, size_t first, size_t rows, float *out)
{
    size_t columns = head->hidden_count;
    double count = (double)(rows - first);
    double weights = ((double)first + 1 + (double)rows) * count / 2; /* first + 1, ..., rows */

    switch (head->pooling) {
    case WG_POOLING_CLS:
        memcpy(out, in.data + first * in.stride, columns * sizeof(float));
        break;
    case WG_POOLING_LAST:
        memcpy(out, in.data + (rows - 1) * in.stride, columns * sizeof(float));
        break;
    case WG_POOLING_MAX:
        pool_max(in, first, rows, columns, out);
        break;
    case WG_POOLING_WEIGHTED_MEAN:
        pool_sum(in, first, rows, columns, true, 1 / weights, out);
        break;
    case WG_POOLING_SQRT_LENGTH_MEAN:
        pool_sum(in, first, rows, columns, false, 1 / sqrt(count), out);
        break;
    default:
        pool_sum(in, first, rows, columns, false, 1 / count, out);
        break;
    }
}

/* To length 1; a vector of zeros stays one (PyTorch's F.normalize: the length is at least 1e-12).
 */
static void normalize(float *vector, size_t count)
{
    double squares = 0;

    for (size_t i = 0; i < count; i++)
        squares += (double)vector[i] * (double)vector[i];
    double length = sqrt(squares);
    double scale = 1 / (length < 1e-12 ? 1e-12 : length); /* no number stays no number */
    for (size_t i = 0; i < count; i++)
        vector[i] = (float)((double)vector[i] * scale);
}

static bool is_finite(const float *vector, size_t count)
{
    bool is_good = true;

    for (size_t i = 0; i < count; i++)
        is_good = is_good && isfinite(vector[i]);
    return is_good;
}

/* Runs the dense layers between two buffers; returns the one that holds the result. */
static float *run_dense(const wgi_embed_head *head, char *scratch)
{
    const wgi_backend *backend = head->backend;
    size_t bytes = buffer_bytes(head), stride = wgi_view_stride(widest(head));
    wgi_view in = {.data = (float *)(void *)scratch, .stride = stride};
    wgi_view out = {.data = (float *)(void *)(scratch + bytes), .stride = stride};

    for (uint32_t i = 0; i < head->dense_count; i++) {
        backend->linear(backend, head->dense[i], in, out, (wgi_view){0},
                        head->modules->dense[i].activation, 1, scratch + 2 * bytes);
        wgi_view swap = in;
        in = out;
        out = swap;
    }
    return in.data;
}

static bool copy_tokens(const wgi_embed_head *head, wgi_view hidden, size_t rows, float *out)
{
    bool is_good = true;

    for (size_t r = 0; r < rows; r++, out += head->dim) {
        memcpy(out, hidden.data + r * hidden.stride, head->dim * sizeof(float));
        if (head->normalize_cut) normalize(out, head->dim);
        is_good = is_finite(out, head->dim) && is_good;
    }
    return is_good;
}

bool wgi_embed_pool(const wgi_embed_head *head, wgi_view hidden, size_t rows, size_t skip,
                    float *out, void *scratch)
{
    float *vector = scratch;

    if (rows == 0) return false;
    if (head->pooling == WG_POOLING_NONE) return copy_tokens(head, hidden, rows, out);
    pool(head, hidden, skip < rows ? skip : 0, rows, vector);
    if (head->dense_count) vector = run_dense(head, scratch);
    if (head->normalize_whole) normalize(vector, head->width);
    memcpy(out, vector, head->dim * sizeof(float));
    if (head->normalize_cut) normalize(out, head->dim);
    return is_finite(out, head->dim);
}
