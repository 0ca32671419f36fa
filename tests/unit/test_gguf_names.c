/*
 * test_gguf_names.c - tensor names both ways; and tiny-llama.gguf against the safetensors file of
 * the same weights, tensor by tensor, with the reordering of Q and K undone.
 */
#include "model/gguf_names.h"
#include "model/model.h"

#include "harness.h"

#define CASES WGT_DATA "/cases/"

static const struct {
    wgi_gguf_architecture architecture;
    const char *gguf, *hf;
    unsigned flags;
} rows[] = {
    {WGI_GGUF_LLAMA, "token_embd.weight", "model.embed_tokens.weight", 0},
    {WGI_GGUF_LLAMA, "output_norm.weight", "model.norm.weight", 0},
    {WGI_GGUF_LLAMA, "output.weight", "lm_head.weight", 0},
    {WGI_GGUF_LLAMA, "rope_freqs.weight", "rope_freqs.weight", 0},
    {WGI_GGUF_LLAMA, "blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight",
     WGI_GGUF_PERMUTED_Q},
    {WGI_GGUF_LLAMA, "blk.31.attn_k.bias", "model.layers.31.self_attn.k_proj.bias",
     WGI_GGUF_PERMUTED_K},
    {WGI_GGUF_LLAMA, "blk.7.attn_v.weight", "model.layers.7.self_attn.v_proj.weight", 0},
    {WGI_GGUF_LLAMA, "blk.7.ffn_norm.weight", "model.layers.7.post_attention_layernorm.weight", 0},
    {WGI_GGUF_QWEN2, "blk.10.attn_q.bias", "model.layers.10.self_attn.q_proj.bias", 0},
    {WGI_GGUF_QWEN2, "blk.10.attn_output.weight", "model.layers.10.self_attn.o_proj.weight", 0},
    {WGI_GGUF_QWEN2, "blk.10.ffn_gate.weight", "model.layers.10.mlp.gate_proj.weight", 0},
    {WGI_GGUF_QWEN3, "blk.2.attn_q_norm.weight", "model.layers.2.self_attn.q_norm.weight", 0},
    {WGI_GGUF_QWEN3, "blk.2.attn_k.weight", "model.layers.2.self_attn.k_proj.weight", 0},
    {WGI_GGUF_GEMMA3, "blk.2.attn_k_norm.weight", "model.layers.2.self_attn.k_norm.weight",
     WGI_GGUF_PLUS_ONE},
    {WGI_GGUF_GEMMA3, "blk.2.ffn_norm.weight", "model.layers.2.pre_feedforward_layernorm.weight",
     WGI_GGUF_PLUS_ONE},
    {WGI_GGUF_GEMMA3, "blk.2.post_attention_norm.weight",
     "model.layers.2.post_attention_layernorm.weight", WGI_GGUF_PLUS_ONE},
    {WGI_GGUF_GEMMA3, "blk.2.post_ffw_norm.weight",
     "model.layers.2.post_feedforward_layernorm.weight", WGI_GGUF_PLUS_ONE},
    {WGI_GGUF_GEMMA3, "output_norm.weight", "model.norm.weight", WGI_GGUF_PLUS_ONE},
    {WGI_GGUF_BERT, "token_embd.weight", "embeddings.word_embeddings.weight", 0},
    {WGI_GGUF_BERT, "token_embd_norm.bias", "embeddings.LayerNorm.bias", 0},
    {WGI_GGUF_BERT, "token_types.weight", "embeddings.token_type_embeddings.weight", 0},
    {WGI_GGUF_BERT, "position_embd.weight", "embeddings.position_embeddings.weight", 0},
    {WGI_GGUF_BERT, "blk.5.attn_q.weight", "encoder.layer.5.attention.self.query.weight", 0},
    {WGI_GGUF_BERT, "blk.5.attn_output.bias", "encoder.layer.5.attention.output.dense.bias", 0},
    {WGI_GGUF_BERT, "blk.5.attn_output_norm.weight",
     "encoder.layer.5.attention.output.LayerNorm.weight", 0},
    {WGI_GGUF_BERT, "blk.5.ffn_up.weight", "encoder.layer.5.intermediate.dense.weight", 0},
    {WGI_GGUF_BERT, "blk.5.ffn_down.weight", "encoder.layer.5.output.dense.weight", 0},
    {WGI_GGUF_BERT, "blk.5.layer_output_norm.weight", "encoder.layer.5.output.LayerNorm.weight", 0},
};

static void test_names(void)
{
    char out[WGI_GGUF_NAME_BYTES];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned flags = 99;
        EXPECT(wgi_gguf_name_to_hf(rows[i].architecture, rows[i].gguf, out, &flags));
        EXPECT_TEXT(out, rows[i].hf);
        EXPECT_EQ(flags, rows[i].flags);
        flags = 99;
        EXPECT(wgi_gguf_name_from_hf(rows[i].architecture, rows[i].hf, out, &flags));
        EXPECT_TEXT(out, rows[i].gguf);
        EXPECT_EQ(flags, rows[i].flags);
    }
}

static void test_no_names(void)
{
    static const char *const none[] = {"",
                                       ".",
                                       "token_embd",
                                       "token_embd.scale",
                                       "token_embd.",
                                       ".weight",
                                       "blk.attn_q.weight",
                                       "blk..attn_q.weight",
                                       "blk.01.attn_q.weight",
                                       "blk.-1.attn_q.weight",
                                       "blk.1234567890.attn_q.weight",
                                       "blk.0.attn_q_norm.weight",
                                       "blk.0.attn_qq.weight",
                                       "blk.0.attn_.weight",
                                       "blk.0.token_embd.weight",
                                       "attn_q.weight",
                                       "token_types.weight",
                                       "blk.0.ffn_gate_exps.weight",
                                       "blk.0.weight",
                                       "blk.0",
                                       "model.embed_tokens.weight"};
    char out[WGI_GGUF_NAME_BYTES];
    unsigned flags;

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        flags = 99;
        EXPECT(!wgi_gguf_name_to_hf(WGI_GGUF_LLAMA, none[i], out, &flags));
        EXPECT_TEXT(out, "");
        EXPECT_EQ(flags, 0);
    }
    EXPECT(
        !wgi_gguf_name_from_hf(WGI_GGUF_LLAMA, "encoder.layer.0.output.dense.weight", out, NULL));
    EXPECT(!wgi_gguf_name_from_hf(WGI_GGUF_QWEN2, "model.layers.0.self_attn.q_norm.weight", out,
                                  NULL));
    EXPECT(wgi_gguf_name_to_hf(WGI_GGUF_LLAMA, "blk.999999999.attn_v.weight", out, NULL));
}

/* The definition: a head's rows read as two halves are laid out as pairs. */
static void test_rows(void)
{
    enum { HEADS = 3, DIM = 8 };
    uint64_t row = 0;

    for (uint64_t head = 0; head < HEADS; head++)
        for (uint64_t half = 0; half < 2; half++)
            for (uint64_t i = 0; i < DIM / 2; i++, row++)
                EXPECT_EQ(wgi_gguf_unpermute_row(row, HEADS, DIM), head * DIM + 2 * i + half);
    EXPECT_EQ(wgi_gguf_unpermute_row(25, HEADS, DIM), 25);
    EXPECT_EQ(wgi_gguf_unpermute_row(5, 1, 1), 5);
    EXPECT_EQ(wgi_gguf_unpermute_row(5, 1, 0), 5);
}

static void compare(const wgi_tensor *quoted, const wgi_tensor *plain, uint64_t heads,
                    uint64_t head_dim, unsigned *moved)
{
    uint64_t width = plain->rank == 2 ? plain->shape[1] : plain->shape[0];
    uint64_t height = wgi_tensor_count(plain) / width;
    float got[64], wanted[64];

    EXPECT_EQ(quoted->rank, plain->rank);
    EXPECT_EQ(quoted->shape[0], plain->shape[0]);
    EXPECT_EQ(quoted->rank == 2 ? quoted->shape[1] : 0, plain->rank == 2 ? plain->shape[1] : 0);
    if (quoted->bytes != plain->bytes || width > 64) return;
    for (uint64_t row = 0; row < height; row++) {
        uint64_t from = heads ? wgi_gguf_unpermute_row(row, heads, head_dim) : row;
        *moved += from != row;
        wgi_tensor_widen(quoted, from * width, width, got);
        wgi_tensor_widen(plain, row * width, width, wanted);
        EXPECT(memcmp(got, wanted, width * sizeof(*got)) == 0);
    }
}

static void test_tiny_llama(void)
{
    wgi_weights *weights = NULL;
    wgi_gguf_fields fields = {0};
    wgi_gguf *gguf = NULL;
    unsigned moved = 0;
    wg_error err;

    EXPECT_OK(wgi_gguf_open(&gguf, CASES "tiny-llama.gguf", &err));
    EXPECT_OK(wgi_weights_open(&weights, CASES "tiny-llama/model.safetensors", &err));
    if (gguf && weights) {
        EXPECT_OK(wgi_gguf_fields_read(&fields, gguf, &err));
        EXPECT_EQ(wgi_gguf_count(gguf), wgi_weights_count(weights));
        for (size_t i = 0; i < wgi_gguf_count(gguf); i++) {
            const wgi_tensor *tensor = wgi_gguf_at(gguf, i);
            char name[WGI_GGUF_NAME_BYTES];
            unsigned flags = 0;
            EXPECT(wgi_gguf_name_to_hf(fields.architecture, tensor->name, name, &flags));
            const wgi_tensor *plain = wgi_weights_find(weights, name);
            if (!plain) fprintf(stderr, "%s: no %s\n", tensor->name, name);
            EXPECT(plain != NULL);
            uint64_t heads = flags & WGI_GGUF_PERMUTED_Q   ? fields.head_count
                             : flags & WGI_GGUF_PERMUTED_K ? fields.key_head_count
                                                           : 0;
            if (plain) compare(tensor, plain, heads, fields.head_dim, &moved);
        }
        EXPECT_EQ(moved, 2 * (4 + 2) * 6); /* layers x heads x rows that are not where they were */
    }
    wgi_weights_close(weights);
    wgi_gguf_close(gguf);
}

int main(void)
{
    test_names();
    test_no_names();
    test_rows();
    test_tiny_llama();
    return wgt_result();
}
