/*
 * test_decoder_smollm2.c - the real SmolLM2-135M-Instruct.Q4_1.gguf: the first values of the last
 * token's unit vector against a computation on the dequantised weights
 * (data/cases/smollm2-score.jsonl), within 1e-3. The file is looked for as test_gguf_smollm2.c
 * does. LABELS: model
 */
#include "model/network.h"

#include "decoder_cases.h"

int main(void)
{
    const char *cache = getenv("WARPGROUP_CACHE"), *home = getenv("HOME");
    char path[512];
    wgt_decoder m;

    (void)snprintf(path, sizeof(path), "%s%s/models/SmolLM2-135M-Instruct.Q4_1.gguf",
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
    EXPECT(wgt_decoder_check(&m, WGT_DATA "/cases/smollm2-score.jsonl", 1e-3) >= 4 * 16);
    size_t packed = wgi_network_bytes(m.network);

    /* The same with the weights as they are stored: Q4_1. */
    const wgi_backend *backend = NULL;
    wg_error err;
    wgi_network_close(m.network);
    m.network = NULL;
    m.description.decoder.keep_stored = true;
    EXPECT_OK(wgi_backend_find(&backend, "cpu", WG_ISA_AUTO, &err));
    EXPECT_OK(wgi_network_open(&m.network, &m.description, m.weights, backend, &err));
    EXPECT(wgi_network_bytes(m.network) < packed / 5);
    EXPECT(wgt_decoder_check(&m, WGT_DATA "/cases/smollm2-score.jsonl", 1e-3) >= 4 * 16);
    wgt_decoder_close(&m);
    return wgt_result();
}
