/*
 * test_decoder_cases.c - vectors of two tiny decoders from ready ids: a Llama as a folder and as
 * GGUF (the same tensors, Q and K in another order), whose hidden states are also alike to the bit;
 * and a Qwen2 in bf16 shards.
 * LABELS: quick numeric
 */
#include "model/network.h"

#include "decoder_cases.h"

static const char *path_of(char out[512], const char *name)
{
    (void)snprintf(out, 512, "%s/cases/%s", WGT_DATA, name);
    return out;
}

static void check(const char *model, const char *cases, double tolerance)
{
    char path[512];
    wgt_decoder m;

    wgt_decoder_open(&m, path_of(path, model));
    EXPECT(m.description.is_decoder);
    EXPECT_EQ(wgt_decoder_check(&m, path_of(path, cases), tolerance), 6 * 3 * 32);
    wgt_decoder_close(&m);
}

/* One order of rows behind the names: the two files are one model. */
static void check_same(void)
{
    static wgt_vectors vectors[2];
    static const int32_t ids[] = {314, 352, 72, 318, 5, 9, 17};
    const char *const names[2] = {"tiny-llama", "tiny-llama.gguf"};
    char path[512], hash[2][33];

    for (int i = 0; i < 2; i++) {
        wgt_decoder m;
        wgt_decoder_open(&m, path_of(path, names[i]));
        wgt_decoder_run(&m, ids, sizeof(ids) / sizeof(ids[0]), &vectors[i]);
        wgi_weights_hash(m.weights, hash[i]);
        wgt_decoder_close(&m);
    }
    EXPECT(memcmp(vectors[0].last, vectors[1].last, 32 * sizeof(double)) == 0);
    EXPECT(memcmp(vectors[0].mean, vectors[1].mean, 32 * sizeof(double)) == 0);
    EXPECT(strcmp(hash[0], hash[1]) != 0);
}

int main(void)
{
    check("tiny-llama", "tiny-llama/expected.jsonl", 1e-5);
    check("tiny-llama.gguf", "tiny-llama/expected.jsonl", 1e-5);
    check("tiny-qwen2", "tiny-qwen2/expected.jsonl", 1e-4);
    check_same();
    return wgt_result();
}
