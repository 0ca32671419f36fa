/*
 * decoder_cases.h - runs a decoder over ready ids and compares vectors with those of a file of
 * cases: {"ids", "last", "mean", "last_normalized", "last_normalized_first16"} a line.
 */
#ifndef WGT_DECODER_CASES_H
#define WGT_DECODER_CASES_H

#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "harness.h"
#include "model/network.h"

#define WGT_IDS_MAX 512
#define WGT_DIM_MAX 1024

typedef struct wgt_decoder {
    wgi_description description;
    wgi_weights *weights;
    wgi_network *network;
} wgt_decoder;

static inline void wgt_decoder_open(wgt_decoder *m, const char *path)
{
    const wgi_backend *backend = NULL;
    wg_error err = {0};

    *m = (wgt_decoder){.weights = NULL};
    EXPECT_OK(wgi_backend_find(&backend, "cpu", WG_ISA_AUTO, &err));
    EXPECT_OK(wgi_description_load(&m->description, path, &err));
    EXPECT_OK(wgi_weights_open(&m->weights, path, &err));
    if (m->weights)
        EXPECT_OK(wgi_network_open(&m->network, &m->description, m->weights, backend, &err));
    if (!m->network) exit(1);
}

static inline void wgt_decoder_close(wgt_decoder *m)
{
    wgi_network_close(m->network);
    wgi_weights_close(m->weights);
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

static inline size_t wgt_read_numbers(wgi_json *json, double *out, size_t most)
{
    size_t count = 0;

    EXPECT_EQ(wgi_json_array_begin(json, NULL), WG_OK);
    while (wgi_json_array_next(json)) {
        double value = 0;
        EXPECT_EQ(wgi_json_double(json, &value, NULL), WG_OK);
        if (count < most) out[count++] = value;
    }
    return count;
}

/* Largest difference of a list that stands next from `have`. */
static inline double wgt_compare(wgi_json *json, const double *have, size_t *compared)
{
    double want[WGT_DIM_MAX], worst = 0;
    size_t count = wgt_read_numbers(json, want, WGT_DIM_MAX);

    for (size_t j = 0; j < count; j++)
        if (!(fabs(want[j] - have[j]) <= worst)) worst = fabs(want[j] - have[j]);
    *compared += count;
    return worst;
}

/* Every line of the file within `tolerance`, absolute; returns how many values were compared. */
static inline size_t wgt_decoder_check(const wgt_decoder *m, const char *cases, double tolerance)
{
    static wgt_vectors got;
    char line[1 << 16];
    size_t compared = 0;
    double worst = 0;
    FILE *file = fopen(cases, "rb");

    EXPECT(file != NULL);
    while (file && fgets(line, sizeof(line), file)) {
        for (int pass = 0; pass < 2; pass++) { /* ids, then what they must give */
            double ids[WGT_IDS_MAX];
            int32_t tokens[WGT_IDS_MAX];
            wgi_json json;
            wgi_slice key;

            wgi_json_init(&json, line, strlen(line));
            EXPECT_EQ(wgi_json_object_begin(&json, NULL), WG_OK);
            while (wgi_json_object_next(&json, &key)) {
                const double *have = wgi_slice_is(key, "last")                      ? got.last
                                     : wgi_slice_is(key, "mean")                    ? got.mean
                                     : wgi_slice_is(key, "last_normalized")         ? got.unit
                                     : wgi_slice_is(key, "last_normalized_first16") ? got.unit
                                                                                    : NULL;
                if (pass == 0 && wgi_slice_is(key, "ids")) {
                    size_t count = wgt_read_numbers(&json, ids, WGT_IDS_MAX);
                    for (size_t i = 0; i < count; i++)
                        tokens[i] = (int32_t)ids[i];
                    wgt_decoder_run(m, tokens, count, &got);
                } else if (pass == 1 && have) {
                    double error = wgt_compare(&json, have, &compared);
                    if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
                } else {
                    EXPECT_EQ(wgi_json_skip(&json, NULL), WG_OK);
                }
            }
            wgi_json_fini(&json);
        }
    }
    if (file) (void)fclose(file);
    EXPECT(worst <= tolerance);
    printf("%s: %zu values, largest error %.3g\n", cases, compared, worst);
    return compared;
}

#endif
