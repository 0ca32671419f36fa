/*
 * test_gguf_fields.c - metadata to the description of a model: every key, its default, its limits,
 * and every setting that is refused by name.
 */
#include "model/gguf_names.h"

#include "harness.h"

#include "gguf_maker.h"

#define CASES WGT_DATA "/cases/"

typedef struct made {
    wgi_buf file;
    uint64_t keys;
} made;

static void text(made *to, const char *key, const char *value)
{
    wgt_gguf_text(&to->file, key, value);
    to->keys++;
}

static void count(made *to, const char *key, uint64_t value)
{
    wgt_gguf_count(&to->file, key, value);
    to->keys++;
}

static void real(made *to, const char *key, float value)
{
    wgt_gguf_float(&to->file, key, value);
    to->keys++;
}

static void truth(made *to, const char *key, bool value)
{
    wgt_gguf_key(&to->file, key, WGI_GGUF_BOOL);
    wgt_gguf_number(&to->file, value, 1);
    to->keys++;
}

static void tokens(made *to, uint64_t many)
{
    wgt_gguf_array(&to->file, "tokenizer.ggml.tokens", WGI_GGUF_STRING, many);
    for (uint64_t i = 0; i < many; i++)
        wgt_gguf_string(&to->file, "t");
    to->keys++;
}

/* What every decoder has; a test adds its own keys. */
static made base(const char *architecture, const char *left_out)
{
    static const struct {
        const char *key;
        uint64_t value;
    } counts[] = {{"block_count", 3},
                  {"embedding_length", 64},
                  {"feed_forward_length", 96},
                  {"attention.head_count", 4},
                  {"context_length", 128}};
    made to = {0};
    char key[96];

    text(&to, "general.architecture", architecture);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        (void)snprintf(key, sizeof(key), "%s.%s", architecture, counts[i].key);
        if (!left_out || strcmp(left_out, counts[i].key) != 0) count(&to, key, counts[i].value);
    }
    bool is_bert = strcmp(architecture, "bert") == 0;
    (void)snprintf(key, sizeof(key), "%s.attention.layer_norm_%sepsilon", architecture,
                   is_bert ? "" : "rms_");
    if (!left_out || strcmp(left_out, "epsilon") != 0) real(&to, key, 0.25f);
    return to;
}

/* Makes the file, reads its fields. part: of the message; NULL: it is right. Ends `to`. */
static wgi_gguf_fields expect(made *to, uint32_t rows, const char *part)
{
    static const char *const extra[] = {"token_embd.weight", "rope_freqs.weight", "output.weight"};
    wgi_gguf_fields fields = {0};
    wgi_gguf *gguf = NULL;
    wgi_buf file = {0};
    wgi_map map;
    wg_error err = {0};
    uint32_t tensors = rows ? (rows > 1000 ? 3 : 1) : 0;

    wgt_gguf_begin(&file, 3, tensors, to->keys);
    if (to->file.count) wgt_gguf_bytes(&file, to->file.data, to->file.count);
    for (uint32_t i = 0; i < tensors; i++)
        wgt_gguf_tensor(&file, extra[i], 2, (uint64_t[]){1, i ? 1 : rows}, 0, i * 65536);
    wgt_gguf_align(&file, 32);
    if (tensors) wgt_gguf_zeros(&file, 65536 * 2 + 4);
    EXPECT_OK(wgt_gguf_read(&gguf, &map, &file, &err));
    if (gguf) {
        wg_status status = wgi_gguf_fields_read(&fields, gguf, &err);
        if (part) {
            EXPECT(status == WG_ERR_FORMAT || status == WG_ERR_UNSUPPORTED);
            EXPECT_IN(err.message, part);
            EXPECT(strncmp(err.message, "made.gguf: ", 11) == 0);
        } else {
            EXPECT_OK(status);
        }
    }
    wgt_gguf_done(gguf, &map);
    wgi_buf_fini(&file);
    wgi_buf_fini(&to->file);
    *to = (made){0};
    return fields;
}

static void test_defaults(void)
{
    made to = base("llama", NULL);
    wgi_gguf_fields got = expect(&to, 0, NULL);

    EXPECT_EQ(got.architecture, WGI_GGUF_LLAMA);
    EXPECT_EQ(got.layer_count, 3);
    EXPECT_EQ(got.hidden_count, 64);
    EXPECT_EQ(got.feed_forward_count, 96);
    EXPECT_EQ(got.head_count, 4);
    EXPECT_EQ(got.key_head_count, 4);
    EXPECT_EQ(got.head_dim, 16);
    EXPECT_EQ(got.rotary_count, 16);
    EXPECT_EQ(got.position_count, 128);
    EXPECT_EQ(got.vocabulary_count, 0);
    EXPECT_EQ(got.token_count, 0);
    EXPECT(got.norm_epsilon == 0.25);
    EXPECT(got.rope_base == 10000 && got.rope_base_local == 10000 && got.rope_factor == 1);
    EXPECT(!got.has_rope_factors && !got.has_output);
    EXPECT_EQ(got.sliding_window, 0);
    EXPECT_EQ(got.sliding_pattern, 0);
    EXPECT(got.attention_scale == 0 && got.attention_softcap == 0 && got.final_softcap == 0);
    EXPECT(got.is_causal);
    EXPECT_EQ(got.pooling_type, -1);

    to = base("bert", NULL);
    got = expect(&to, 7, NULL);
    EXPECT_EQ(got.architecture, WGI_GGUF_BERT);
    EXPECT(got.norm_epsilon == 0.25 && !got.is_causal);
    EXPECT_EQ(got.rotary_count, 0);
    EXPECT_EQ(got.vocabulary_count, 7);
    to = base("gemma3", NULL);
    got = expect(&to, 0, NULL);
    EXPECT_EQ(got.sliding_pattern, 6);
    to = base("qwen2", NULL);
    EXPECT_EQ(expect(&to, 0, NULL).architecture, WGI_GGUF_QWEN2);
    to = base("qwen3", NULL);
    EXPECT_EQ(expect(&to, 0, NULL).architecture, WGI_GGUF_QWEN3);
}

static void test_every_key(void)
{
    made to = base("gemma3", NULL);

    text(&to, "general.type", "model");
    count(&to, "split.count", 1);
    count(&to, "gemma3.attention.head_count_kv", 2);
    count(&to, "gemma3.attention.key_length", 24);
    count(&to, "gemma3.attention.value_length", 24);
    count(&to, "gemma3.rope.dimension_count", 20);
    real(&to, "gemma3.rope.freq_base", 1e6f);
    real(&to, "gemma3.rope.freq_base_swa", 5000);
    text(&to, "gemma3.rope.scaling.type", "linear");
    real(&to, "gemma3.rope.scaling.factor", 8);
    count(&to, "gemma3.attention.sliding_window", 512);
    count(&to, "gemma3.attention.sliding_window_pattern", 4);
    real(&to, "gemma3.attention.scale", 0.125f);
    real(&to, "gemma3.attn_logit_softcapping", 50);
    real(&to, "gemma3.final_logit_softcapping", 30);
    truth(&to, "gemma3.attention.causal", false);
    count(&to, "gemma3.pooling_type", 3);
    count(&to, "gemma3.expert_count", 0);
    count(&to, "tokenizer.ggml.token_type_count", 2);
    tokens(&to, 5);
    wgi_gguf_fields got = expect(&to, 2000, NULL);
    EXPECT_EQ(got.key_head_count, 2);
    EXPECT_EQ(got.head_dim, 24);
    EXPECT_EQ(got.rotary_count, 20);
    EXPECT(got.rope_base == 1e6 && got.rope_base_local == 5000 && got.rope_factor == 8);
    EXPECT_EQ(got.sliding_window, 512);
    EXPECT_EQ(got.sliding_pattern, 4);
    EXPECT(got.attention_scale == 0.125 && got.attention_softcap == 50 && got.final_softcap == 30);
    EXPECT(!got.is_causal && got.has_rope_factors && got.has_output);
    EXPECT_EQ(got.pooling_type, 3);
    EXPECT_EQ(got.token_count, 5);
    EXPECT_EQ(got.vocabulary_count, 2000);
    EXPECT_EQ(got.type_count, 2);
}

static void test_scaling(void)
{
    made to = base("llama", NULL);

    real(&to, "llama.rope.scale_linear", 4);
    EXPECT(expect(&to, 0, NULL).rope_factor == 4);
    to = base("llama", NULL);
    text(&to, "llama.rope.scaling.type", "none");
    real(&to, "llama.rope.scaling.factor", 4);
    EXPECT(expect(&to, 0, NULL).rope_factor == 1);
    to = base("llama", NULL);
    text(&to, "llama.rope.scaling.type", "yarn");
    (void)expect(&to, 0, "key llama.rope.scaling.type: 'yarn' is not supported");
    to = base("llama", NULL);
    real(&to, "llama.rope.scaling.factor", -1);
    (void)expect(&to, 0, "key llama.rope.scaling.factor: the factor is negative");
}

static void test_missing(void)
{
    static const char *const keys[] = {"block_count", "embedding_length", "feed_forward_length",
                                       "attention.head_count", "context_length"};
    made to;
    char part[96];

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        to = base("qwen3", keys[i]);
        (void)snprintf(part, sizeof(part), "key qwen3.%s: is missing", keys[i]);
        (void)expect(&to, 0, part);
    }
    to = base("llama", "epsilon");
    (void)expect(&to, 0, "key llama.attention.layer_norm_rms_epsilon: is missing");
    to = base("bert", "epsilon");
    (void)expect(&to, 0, "key bert.attention.layer_norm_epsilon: is missing");
    to = (made){0};
    (void)expect(&to, 0, "key general.architecture: is missing");
}

static void test_refused(void)
{
    made to = base("mamba", NULL);

    (void)expect(&to, 0, "key general.architecture: 'mamba' is not supported (llama, qwen2,");
    to = base("llama", NULL);
    text(&to, "general.type", "adapter");
    (void)expect(&to, 0, "key general.type: 'adapter' is not supported");
    to = base("llama", NULL);
    count(&to, "split.count", 3);
    (void)expect(&to, 0, "key split.count: one of 3 parts");
    to = base("llama", NULL);
    count(&to, "llama.expert_count", 8);
    (void)expect(&to, 0, "key llama.expert_count: mixtures of experts");
    to = base("llama", NULL);
    count(&to, "llama.attention.value_length", 8);
    (void)expect(&to, 0, "key llama.attention.value_length: values of another size");
    to = base("llama", NULL);
    count(&to, "llama.attention.head_count_kv", 3);
    (void)expect(&to, 0, "key llama.attention.head_count_kv: it does not divide");
    to = base("llama", NULL);
    count(&to, "llama.attention.head_count_kv", 0);
    (void)expect(&to, 0, "key llama.attention.head_count_kv: 0 is not from 1 to 4096");
    to = base("llama", "attention.head_count");
    count(&to, "llama.attention.head_count", 5);
    (void)expect(&to, 0, "key llama.attention.head_count: it does not divide embedding_length");
    to = base("llama", NULL);
    count(&to, "llama.rope.dimension_count", 17);
    (void)expect(&to, 0, "key llama.rope.dimension_count: it is more than a head has");
    to = base("llama", "block_count");
    count(&to, "llama.block_count", 5000);
    (void)expect(&to, 0, "key llama.block_count: 5000 is not from 1 to 4096");
    to = base("llama", NULL);
    real(&to, "llama.rope.freq_base", -1);
    (void)expect(&to, 0, "key llama.rope.freq_base: the float is negative");
    to = base("llama", NULL);
    count(&to, "llama.rope.freq_base", 10000);
    (void)expect(&to, 0, "key llama.rope.freq_base: expected a float, found an integer");
    to = base("llama", NULL);
    tokens(&to, 8);
    (void)expect(&to, 7, "'token_embd.weight' has no row for each of the 8 strings");
}

static void test_tiny_llama(void)
{
    wgi_gguf_fields got;
    wgi_gguf *gguf = NULL;
    wg_error err;

    EXPECT_OK(wgi_gguf_open(&gguf, CASES "tiny-llama.gguf", &err));
    if (!gguf) return;
    EXPECT_OK(wgi_gguf_fields_read(&got, gguf, &err));
    EXPECT_EQ(got.layer_count, 2);
    EXPECT_EQ(got.hidden_count, 32);
    EXPECT_EQ(got.feed_forward_count, 48);
    EXPECT_EQ(got.head_count, 4);
    EXPECT_EQ(got.key_head_count, 2);
    EXPECT_EQ(got.head_dim, 8);
    EXPECT_EQ(got.position_count, 128);
    EXPECT_EQ(got.vocabulary_count, 420);
    EXPECT_EQ(got.token_count, 420);
    EXPECT((float)got.norm_epsilon == 1e-5f);
    EXPECT(!got.has_output && !got.has_rope_factors);
    wgi_gguf_close(gguf);
}

int main(void)
{
    test_defaults();
    test_every_key();
    test_scaling();
    test_missing();
    test_refused();
    test_tiny_llama();
    return wgt_result();
}
