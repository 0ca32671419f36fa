/*
 * test_decoder_gemma.c - the real gemma-3-270m-q4_k_m.gguf: the first values of the last token's
 * hidden state, and the largest of all, against transformers in float64 on the dequantised weights
 * (gemma3-270m-embed.jsonl, made by make_gemma_reference.py), within 1e-4 of that largest value.
 * The longest sequences do not fit the window. The file is looked for as cached_model.h says.
 * LABELS: model
 */
#include "model/network.h"

#include "cached_model.h"
#include "decoder_cases.h"

/* Largest difference of a line, as a part of the largest value. */
static double measure(const wgt_decoder *m, const wgt_case *want)
{
    static wgt_vectors got;
    double largest = 0;

    wgt_decoder_run(m, want->ids, want->count, &got);
    for (size_t j = 0; j < m->description.hidden_count; j++)
        largest = wgt_larger(largest, fabs(got.last[j]));
    return wgt_larger(fabs(largest - want->largest), wgt_numbers_error(&want->last, got.last)) /
           want->largest;
}

static void check(const wgt_decoder *m)
{
    static wgt_case want;
    size_t longest = 0;
    wgt_lines lines = wgt_lines_open(WGT_DATA "/gemma3-270m-embed.jsonl");

    for (; wgt_lines_next(&lines, wgt_case_member, &want); want = (wgt_case){.count = 0}) {
        EXPECT(want.count >= 2 && want.last.count == 16 && want.largest > 0);
        double error = measure(m, &want);
        EXPECT(error <= 1e-4);
        printf("%zu tokens: largest error %.3g of the largest value\n", want.count, error);
        if (want.count > longest) longest = want.count;
    }
    EXPECT(wgt_lines_close(&lines) >= 4 && longest > m->description.decoder.window);
}

int main(void)
{
    char path[512];
    wgt_decoder m;

    if (!wgt_cached_model(path, "gemma-3-270m-q4_k_m.gguf")) return WGT_SKIP;
    wgt_decoder_open(&m, path);
    EXPECT_EQ(m.description.decoder.window, 512);
    check(&m);
    wgt_decoder_keep_stored(&m, 4);
    check(&m);
    wgt_decoder_close(&m);
    return wgt_result();
}
