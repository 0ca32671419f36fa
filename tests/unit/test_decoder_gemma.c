/*
 * test_decoder_gemma.c - the real gemma-3-270m-q4_k_m.gguf: the first values of the last token's
 * hidden state, and the largest of all, against transformers in float64 on the dequantised weights
 * (gemma3-270m-embed.jsonl, made by make_gemma_reference.py), within 1e-4 of that largest value.
 * The longest sequences do not fit the window. The file is looked for as test_gguf_smollm2.c does.
 * LABELS: model
 */
#include "model/network.h"

#include "decoder_cases.h"

#define IDS_MOST  1024
#define LINE_MOST (1 << 16)

typedef struct reference {
    double ids[IDS_MOST], last[WGT_DIM_MAX], largest;
    size_t count, shown;
} reference;

static void read_reference(reference *out, const char *line)
{
    wgi_json json;
    wgi_slice key;

    *out = (reference){.count = 0};
    wgi_json_init(&json, line, strlen(line));
    EXPECT_EQ(wgi_json_object_begin(&json, NULL), WG_OK);
    while (wgi_json_object_next(&json, &key)) {
        if (wgi_slice_is(key, "ids"))
            out->count = wgt_read_numbers(&json, out->ids, IDS_MOST);
        else if (wgi_slice_is(key, "last"))
            out->shown = wgt_read_numbers(&json, out->last, WGT_DIM_MAX);
        else if (wgi_slice_is(key, "largest"))
            EXPECT_EQ(wgi_json_double(&json, &out->largest, NULL), WG_OK);
        else
            EXPECT_EQ(wgi_json_skip(&json, NULL), WG_OK);
    }
    wgi_json_fini(&json);
}

/* The larger one; infinity where one is no number. */
static double larger(double a, double b)
{
    return isnan(a) || isnan(b) ? INFINITY : fmax(a, b);
}

/* Largest difference of a line, as a part of the largest value. */
static double measure(const wgt_decoder *m, const reference *want)
{
    static wgt_vectors got;
    int32_t tokens[IDS_MOST];
    double worst = 0, largest = 0;

    for (size_t i = 0; i < want->count; i++)
        tokens[i] = (int32_t)want->ids[i];
    wgt_decoder_run(m, tokens, want->count, &got);
    for (size_t j = 0; j < m->description.hidden_count; j++)
        largest = larger(largest, fabs(got.last[j]));
    worst = fabs(largest - want->largest);
    for (size_t j = 0; j < want->shown; j++)
        worst = larger(worst, fabs(want->last[j] - got.last[j]));
    return worst / want->largest;
}

static void check(const wgt_decoder *m)
{
    static char line[LINE_MOST];
    static reference want;
    size_t lines = 0, longest = 0;
    FILE *file = fopen(WGT_DATA "/gemma3-270m-embed.jsonl", "rb");

    EXPECT(file != NULL);
    while (file && fgets(line, sizeof(line), file)) {
        read_reference(&want, line);
        EXPECT(want.count >= 2 && want.shown == 16 && want.largest > 0);
        double error = measure(m, &want);
        EXPECT(error <= 1e-4);
        printf("%zu tokens: largest error %.3g of the largest value\n", want.count, error);
        if (want.count > longest) longest = want.count;
        lines++;
    }
    if (file) (void)fclose(file);
    EXPECT(lines >= 4 && longest > m->description.decoder.window);
}

int main(void)
{
    const char *cache = getenv("WARPGROUP_CACHE"), *home = getenv("HOME");
    char path[512];
    wgt_decoder m;

    (void)snprintf(path, sizeof(path), "%s%s/models/gemma-3-270m-q4_k_m.gguf",
                   cache  ? cache
                   : home ? home
                          : "",
                   cache ? "" : "/.cache/warpgroup");
    FILE *file = fopen(path, "rb");
    if (!file) {
        printf("skipped: no %s\n", path);
        return 77;
    }
    (void)fclose(file);
    wgt_decoder_open(&m, path);
    EXPECT_EQ(m.description.decoder.window, 512);
    check(&m);
    size_t packed = wgi_network_bytes(m.network);

    /* The same with the weights as they are stored. */
    const wgi_backend *backend = NULL;
    wg_error err;
    wgi_network_close(m.network);
    m.network = NULL;
    m.description.decoder.keep_stored = true;
    EXPECT_OK(wgi_backend_find(&backend, "cpu", WG_ISA_AUTO, &err));
    EXPECT_OK(wgi_network_open(&m.network, &m.description, m.weights, backend, &err));
    EXPECT(wgi_network_bytes(m.network) < packed / 4);
    check(&m);
    wgt_decoder_close(&m);
    return wgt_result();
}
