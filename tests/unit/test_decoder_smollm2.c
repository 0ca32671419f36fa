/*
 * test_decoder_smollm2.c - the real SmolLM2-135M-Instruct.Q4_1.gguf: the first values of the last
 * token's unit vector against a computation on the dequantised weights
 * (data/cases/smollm2-score.jsonl), within 1e-3. The file is looked for as cached_model.h says.
 * LABELS: model
 */
#include "model/network.h"

#include "cached_model.h"
#include "decoder_cases.h"

int main(void)
{
    char path[512];
    wgt_decoder m;

    if (!wgt_cached_model(path, "SmolLM2-135M-Instruct.Q4_1.gguf")) return WGT_SKIP;
    wgt_decoder_open(&m, path);
    EXPECT(wgt_decoder_check(&m, WGT_DATA "/cases/smollm2-score.jsonl", 1e-3) >= 4 * 16);
    wgt_decoder_keep_stored(&m, 5);
    EXPECT(wgt_decoder_check(&m, WGT_DATA "/cases/smollm2-score.jsonl", 1e-3) >= 4 * 16);
    wgt_decoder_close(&m);
    return wgt_result();
}
