/*
 * decoder_cases.h - runs a decoder over ready ids and compares vectors with those of a file of
 * cases: {"ids", "last", "mean", "last_normalized", "last_normalized_first16", "largest"} a line,
 * the vectors as far as they are given.
 */
#ifndef WGT_DECODER_CASES_H
#define WGT_DECODER_CASES_H

#include <math.h>

#include "json_lines.h"
#include "open_network.h"

#define WGT_IDS_MAX 1024
#define WGT_DIM_MAX 1024

typedef wgt_network wgt_decoder; /* opened with the best backend of this processor */

static inline void wgt_decoder_open(wgt_decoder *m, const char *path)
{
    const wgi_backend *backend = NULL;
    wg_error err = {0};

    EXPECT_OK(wgi_backend_find(&backend, "cpu", WG_ISA_AUTO, &err));
    *m = wgt_network_open(backend, path);
}

static inline void wgt_decoder_close(wgt_decoder *m)
{
    wgt_network_close(m);
}

/* Again with the weights as they are stored: less than one in `parts` bytes is packed. */
static inline void wgt_decoder_keep_stored(wgt_decoder *m, size_t parts)
{
    size_t packed = wgi_network_bytes(m->network);

    m->description.decoder.keep_stored = true;
    wgt_network_again(m);
    EXPECT(wgi_network_bytes(m->network) < packed / parts);
}

typedef struct wgt_vectors {
    double last[WGT_DIM_MAX], mean[WGT_DIM_MAX], unit[WGT_DIM_MAX];
} wgt_vectors;

static inline void wgt_decoder_run(const wgt_decoder *m, const int32_t *ids, size_t count,
                                   wgt_vectors *out)
{
    size_t dim = m->description.hidden_count;
    wgi_plan plan = wgi_network_plan(m->network, count, count);
    void *lane = aligned_alloc(64, (plan.lane_bytes + 63) / 64 * 64);
    wgi_forward forward = {.bin_memory = aligned_alloc(64, (plan.bin_bytes + 63) / 64 * 64),
                           .lane_memory = &lane};
    double squares = 0;
    wgi_view hidden;
    wgi_bin bin = {0};
    wg_error err;

    EXPECT_OK(wgi_bin_init(&bin, count, 1, &err));
    wgi_bin_append(&bin, 0, ids, NULL, (uint32_t)count, m->description.position_offset);
    EXPECT_OK(wgi_network_run(m->network, &bin, &forward, &hidden, &err));
    for (size_t j = 0; j < dim; j++) {
        out->last[j] = (double)hidden.data[(count - 1) * hidden.stride + j];
        out->mean[j] = 0;
        for (size_t row = 0; row < count; row++)
            out->mean[j] += (double)hidden.data[row * hidden.stride + j] / (double)count;
        squares += out->last[j] * out->last[j];
    }
    for (size_t j = 0; j < dim; j++)
        out->unit[j] = out->last[j] / sqrt(squares);
    wgi_bin_fini(&bin);
    free(forward.bin_memory);
    free(lane);
}

typedef struct wgt_numbers {
    double values[WGT_DIM_MAX];
    size_t count;
} wgt_numbers;

typedef struct wgt_case {
    int32_t ids[WGT_IDS_MAX];
    size_t count;
    wgt_numbers last, mean, unit; /* what they must be */
    double largest;               /* magnitude of all of `last` */
} wgt_case;

static inline wg_status wgt_numbers_read(wgt_numbers *out, wgi_json *json, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(wgi_json_array_begin(json, err));
    while (wgi_json_array_next(json)) {
        double value = 0;
        WGI_TRY(wgi_json_double(json, &value, err));
        if (out->count < WGT_DIM_MAX) out->values[out->count++] = value;
    }

cleanup:
    return status;
}

static inline wg_status wgt_case_member(void *context, wgi_json *json, wgi_slice key, wg_error *err)
{
    wgt_case *one = context;
    wgt_numbers ids = {.count = 0};

    if (wgi_slice_is(key, "last")) return wgt_numbers_read(&one->last, json, err);
    if (wgi_slice_is(key, "mean")) return wgt_numbers_read(&one->mean, json, err);
    if (wgi_slice_is(key, "last_normalized") || wgi_slice_is(key, "last_normalized_first16"))
        return wgt_numbers_read(&one->unit, json, err);
    if (wgi_slice_is(key, "largest")) return wgi_json_double(json, &one->largest, err);
    if (!wgi_slice_is(key, "ids")) return wgi_json_skip(json, err);
    wg_status status = wgt_numbers_read(&ids, json, err);
    for (one->count = 0; one->count < ids.count; one->count++)
        one->ids[one->count] = (int32_t)ids.values[one->count];
    return status;
}

/* The larger one; infinity where one is no number. */
static inline double wgt_larger(double a, double b)
{
    return isnan(a) || isnan(b) ? INFINITY : fmax(a, b);
}

/* Largest difference of what is given. */
static inline double wgt_numbers_error(const wgt_numbers *want, const double *have)
{
    double worst = 0;

    for (size_t j = 0; j < want->count; j++)
        worst = wgt_larger(worst, fabs(want->values[j] - have[j]));
    return worst;
}

/* Every line of the file within `tolerance`, absolute; returns how many values were compared. */
static inline size_t wgt_decoder_check(const wgt_decoder *m, const char *cases, double tolerance)
{
    static wgt_vectors got;
    static wgt_case one;
    size_t compared = 0;
    double worst = 0;
    wgt_lines lines = wgt_lines_open(cases);

    for (; wgt_lines_next(&lines, wgt_case_member, &one); one = (wgt_case){.count = 0}) {
        wgt_decoder_run(m, one.ids, one.count, &got);
        worst = wgt_larger(worst, wgt_numbers_error(&one.last, got.last));
        worst = wgt_larger(worst, wgt_numbers_error(&one.mean, got.mean));
        worst = wgt_larger(worst, wgt_numbers_error(&one.unit, got.unit));
        compared += one.last.count + one.mean.count + one.unit.count;
    }
    (void)wgt_lines_close(&lines);
    EXPECT(worst <= tolerance);
    printf("%s: %zu values, largest error %.3g\n", cases, compared, worst);
    return compared;
}

#endif
