/*
 * test_config_decoder.c - config.json of decoders: defaults of each family, the spellings of rope
 * settings and windows, what is refused and in which words, and each allocation failing in turn.
 *
 * LABELS: quick torture
 */
#include <math.h>

#include "base/alloc.h"
#include "model/model.h"

#include "harness.h"
#include "temporary.h"

#define SIZES                                                               \
    "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4," \
    "\"intermediate_size\":96,\"vocab_size\":300"

static wgt_folder folder;

static wg_status load(wgi_description *out, const char *type, const char *more, wg_error *err)
{
    char json[2048];

    (void)snprintf(json, sizeof(json), "{\"model_type\":\"%s\"," SIZES "%s%s}", type,
                   *more ? "," : "", more);
    wgt_write(&folder, "config.json", json, strlen(json));
    return wgi_description_load(out, folder.path, err);
}

static wgi_description loads(const char *type, const char *more)
{
    wgi_description description;
    wg_error err = {0};

    EXPECT_OK(load(&description, type, more, &err));
    EXPECT(description.is_decoder);
    EXPECT_TEXT(description.architecture, type);
    return description;
}

static void refused(const char *type, const char *more, wg_status wanted, const char *part)
{
    wgi_description description;
    wg_error err = {0};

    EXPECT_EQ(load(&description, type, more, &err), wanted);
    EXPECT_IN(err.message, part);
    EXPECT_IN(err.message, "/config.json: ");
    EXPECT_EQ(description.layer_count, 0);
}

static unsigned local_layers(const wgi_description *d)
{
    return d->decoder.window ? d->decoder.local_layers[0] : 0;
}

static void test_defaults(void)
{
    wgi_description d = loads("llama", "");

    EXPECT_EQ(d.key_head_count, 4);
    EXPECT_EQ(d.head_dim, 16);
    EXPECT_EQ(d.position_count, 2048);
    EXPECT_EQ(d.activation, WGI_ACTIVATION_SILU);
    EXPECT_EQ(d.decoder.rotary_count, 16);
    EXPECT(d.norm_epsilon == 1e-6f && d.decoder.attention_scale == 0.25f);
    EXPECT(d.decoder.rope.base == 10000 && d.decoder.rope.factor == 1);
    EXPECT(d.decoder.embedding_scale == 1 && d.decoder.residual_scale == 1);
    EXPECT_EQ(local_layers(&d), 0);

    d = loads("llama", "\"attention_bias\":true,\"mlp_bias\":true,\"num_key_value_heads\":null");
    EXPECT(d.decoder.has_qkv_bias && d.decoder.has_out_bias && d.decoder.has_mlp_bias);
    d = loads("qwen2", "\"num_key_value_heads\":2,\"attention_bias\":true");
    EXPECT(d.decoder.has_qkv_bias && !d.decoder.has_out_bias);
    d = loads("qwen3", "\"num_key_value_heads\":2");
    EXPECT(d.decoder.has_head_norm && d.head_dim == 128);
    d = loads("gemma3_text", "\"num_key_value_heads\":1");
    EXPECT_EQ(d.head_dim, 256);
    EXPECT_EQ(d.activation, WGI_ACTIVATION_GELU_TANH);
    EXPECT(d.decoder.embedding_scale == 8 && d.decoder.attention_scale == 1 / 16.0f);
    EXPECT(d.decoder.rope.base == 1e6 && d.decoder.rope_local.base == 1e4);
    EXPECT(d.decoder.has_post_norm && d.decoder.is_norm_plus_one);
    d = loads("phi3", "\"partial_rotary_factor\":0.75,\"auto_map\":{\"AutoConfig\":\"a.B\"}");
    EXPECT(d.decoder.is_fused && d.decoder.rotary_count == 12);
    d = loads("granite", "\"embedding_multiplier\":12,\"attention_multiplier\":0.5,"
                         "\"residual_multiplier\":0.25,\"logits_scaling\":8");
    EXPECT(d.decoder.embedding_scale == 12 && d.decoder.residual_scale == 0.25f);
    EXPECT(d.decoder.attention_scale == 0.5f);
}

static void test_rope(void)
{
    static const char llama3[] =
        "{\"%s\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
        "\"original_max_position_embeddings\":512,\"rope_theta\":5000}";
    char text[400], more[500];
    wgi_description d;

    for (int i = 0; i < 4; i++) {
        (void)snprintf(text, sizeof(text), llama3, i % 2 ? "type" : "rope_type");
        (void)snprintf(more, sizeof(more), "\"%s\":%s,\"rope_theta\":10000",
                       i < 2 ? "rope_scaling" : "rope_parameters", text);
        d = loads("llama", more);
        EXPECT(d.decoder.rope.is_llama3 && d.decoder.rope.factor == 8);
        EXPECT(d.decoder.rope.low == 1 && d.decoder.rope.high == 4);
        EXPECT(d.decoder.rope.original == 512 && d.decoder.rope.base == 5000);
    }
    d = loads("llama", "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}");
    EXPECT(!d.decoder.rope.is_llama3 && d.decoder.rope.factor == 2.5);
    d = loads("llama", "\"rope_scaling\":null,\"rope_theta\":7");
    EXPECT(d.decoder.rope.factor == 1 && d.decoder.rope.base == 7);
    d = loads("gemma3_text", "\"num_key_value_heads\":1,\"rope_parameters\":{\"sliding_attention\":"
                             "{\"rope_theta\":5},\"full_attention\":{\"rope_type\":\"linear\","
                             "\"factor\":4,\"rope_theta\":9}}");
    EXPECT(d.decoder.rope.base == 9 && d.decoder.rope.factor == 4);
    EXPECT(d.decoder.rope_local.base == 5 && d.decoder.rope_local.factor == 1);
    d = loads("gemma3_text", "\"num_key_value_heads\":1,\"rope_local_base_freq\":33,"
                             "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}");
    EXPECT(d.decoder.rope.factor == 8 && d.decoder.rope_local.factor == 1);
    EXPECT(d.decoder.rope_local.base == 33);

    refused("llama", "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2}", WG_ERR_UNSUPPORTED,
            "rope_type \"yarn\"");
    refused("phi3", "\"rope_scaling\":{\"type\":\"longrope\"}", WG_ERR_UNSUPPORTED, "longrope");
    refused("llama", "\"rope_scaling\":{\"type\":\"linear\"}", WG_ERR_FORMAT, "a factor");
    refused("llama", "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2}", WG_ERR_FORMAT,
            "low_freq_factor");
    refused("llama", "\"rope_scaling\":[]", WG_ERR_FORMAT, "key rope_scaling");
    refused("llama", "\"rope_theta\":0", WG_ERR_FORMAT, "key rope_theta: 0 is out of range");
    refused("llama", "\"rope_parameters\":{\"full_attention\":{}}", WG_ERR_UNSUPPORTED,
            "by layer type in a llama");
    refused("llama", "\"partial_rotary_factor\":0.5", WG_ERR_UNSUPPORTED, "partial_rotary_factor");
}

static void test_windows(void)
{
    static const char heads[] = "\"num_key_value_heads\":2";
    static const char types[] =
        "\"layer_types\":[\"full_attention\",\"sliding_attention\",\"full_attention\","
        "\"sliding_attention\"]";
    char more[500];
    wgi_description d = loads("mistral", heads);

    EXPECT_EQ(d.decoder.window, 4096);
    EXPECT_EQ(local_layers(&d), 15);
    (void)snprintf(more, sizeof(more), "%s,\"sliding_window\":null", heads);
    d = loads("mistral", more);
    EXPECT_EQ(d.decoder.window, 0);
    (void)snprintf(more, sizeof(more), "%s,\"sliding_window\":7,\"max_window_layers\":2", heads);
    d = loads("qwen2", more);
    EXPECT_EQ(d.decoder.window, 0);
    (void)snprintf(more, sizeof(more),
                   "%s,\"sliding_window\":7,\"max_window_layers\":2,\"use_sliding_window\":true",
                   heads);
    d = loads("qwen2", more);
    EXPECT_EQ(d.decoder.window, 7);
    EXPECT_EQ(local_layers(&d), 12);
    d = loads("qwen3", more);
    EXPECT_EQ(local_layers(&d), 12);
    (void)snprintf(more, sizeof(more), "%s,\"use_sliding_window\":true,%s", heads, types);
    d = loads("qwen2", more);
    EXPECT_EQ(local_layers(&d), 10);
    (void)snprintf(more, sizeof(more), "%s,%s", heads, types);
    d = loads("gemma3_text", more);
    EXPECT_EQ(local_layers(&d), 10);
    (void)snprintf(more, sizeof(more), "%s,\"sliding_window_pattern\":3", heads);
    d = loads("gemma3_text", more);
    EXPECT_EQ(local_layers(&d), 11);

    refused("llama", types, WG_ERR_UNSUPPORTED, "layer_types that mix kinds in a llama");
    refused("qwen2", "\"num_key_value_heads\":2,\"layer_types\":[\"full_attention\"]",
            WG_ERR_FORMAT, "layer_types has 1 items");
    refused("qwen3", "\"num_key_value_heads\":2,\"layer_types\":[\"linear_attention\"]",
            WG_ERR_UNSUPPORTED, "layer_types \"linear_attention\"");
}

static void test_refused(void)
{
    wgi_description description;
    wg_error err = {0};

    refused("llama", "\"vocab_size\":0", WG_ERR_FORMAT, "key vocab_size: 0 is out of range");
    refused("llama", "\"num_key_value_heads\":3", WG_ERR_FORMAT, "num_key_value_heads 3");
    refused("llama", "\"hidden_size\":66", WG_ERR_FORMAT, "does not divide hidden_size 66");
    refused("llama", "\"head_dim\":5", WG_ERR_UNSUPPORTED, "no pairs");
    refused("llama", "\"hidden_act\":\"mish\"", WG_ERR_UNSUPPORTED, "hidden_act \"mish\"");
    refused("llama", "\"quantization_config\":{\"bits\":4}", WG_ERR_UNSUPPORTED,
            "quantization_config");
    refused("qwen2", "\"num_key_value_heads\":2,\"auto_map\":{\"AutoModel\":\"m.N\"}",
            WG_ERR_UNSUPPORTED, "auto_map");
    refused("qwen2", "\"num_key_value_heads\":2,\"is_causal\":false", WG_ERR_UNSUPPORTED,
            "is_causal false");
    refused("gemma3_text", "\"use_bidirectional_attention\":true", WG_ERR_UNSUPPORTED,
            "use_bidirectional_attention");
    refused("gemma3_text", "\"attn_logit_softcapping\":50.0", WG_ERR_UNSUPPORTED,
            "attn_logit_softcapping");
    refused("mamba", "", WG_ERR_UNSUPPORTED, "model_type \"mamba\"");

    static const char bare[] = "{\"model_type\":\"llama\",\"hidden_size\":64}";
    wgt_write(&folder, "config.json", bare, strlen(bare));
    EXPECT_EQ(wgi_description_load(&description, folder.path, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "num_hidden_layers: is missing");
}

static void test_no_memory(void)
{
    wgi_description description;
    wg_error err;

    for (long nth = 1; nth < 100; nth++) {
        (void)loads("gemma3_text", "\"num_key_value_heads\":1,\"layer_types\":null");
        wgi_alloc_fail_at(nth);
        wg_status status = wgi_description_load(&description, folder.path, &err);
        wgi_alloc_fail_at(0);
        if (status == WG_OK) {
            EXPECT(nth > 2);
            return;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
    }
    EXPECT(0);
}

int main(void)
{
    folder = wgt_folder_open();
    test_defaults();
    test_rope();
    test_windows();
    test_refused();
    test_no_memory();
    wgt_folder_close(&folder);
    return wgt_result();
}
