/*
 * test_config.c - config.json: what the descriptions of the test models hold, what is refused and
 * in which words, what does not matter, and each allocation failing in turn.
 *
 * LABELS: quick torture
 */
#include "base/alloc.h"
#include "model/model.h"

#include "harness.h"
#include "temporary.h"

#define BASE "\"model_type\":\"bert\",\"hidden_size\":32,\"num_attention_heads\":4"

static wgt_folder folder;

static wg_status load(wgi_description *out, const char *json, wg_error *err)
{
    wgt_write(&folder, "config.json", json, strlen(json));
    return wgi_description_load(out, folder.path, err);
}

/* `more` follows the keys of BASE; a later key of the same name wins. */
static void expect_refused(const char *more, wg_status wanted, const char *part)
{
    wgi_description description;
    wg_error err = {0};
    char json[1024];

    (void)snprintf(json, sizeof(json), "{" BASE "%s%s}", *more ? "," : "", more);
    EXPECT_EQ(load(&description, json, &err), wanted);
    EXPECT_IN(err.message, part);
    EXPECT_IN(err.message, "/config.json: ");
    EXPECT_EQ(description.layer_count, 0);
}

static wgi_description expect_loads(const char *more)
{
    wgi_description description;
    wg_error err = {0};
    char json[1024];

    (void)snprintf(json, sizeof(json), "{" BASE "%s%s}", *more ? "," : "", more);
    EXPECT_OK(load(&description, json, &err));
    return description;
}

static void test_defaults(void)
{
    wgi_description d = expect_loads("");

    EXPECT_TEXT(d.architecture, "bert");
    EXPECT_EQ(d.layer_count, 12);
    EXPECT_EQ(d.hidden_count, 32);
    EXPECT_EQ(d.head_count, 4);
    EXPECT_EQ(d.key_head_count, 4);
    EXPECT_EQ(d.head_dim, 8);
    EXPECT_EQ(d.feed_forward_count, 3072);
    EXPECT_EQ(d.vocabulary_count, 30522);
    EXPECT_EQ(d.position_count, 512);
    EXPECT_EQ(d.position_offset, 0);
    EXPECT_EQ(d.type_count, 2);
    EXPECT_EQ(d.activation, WGI_ACTIVATION_GELU);
    EXPECT(d.norm_epsilon == 1e-12f);
}

/* The committed models; the numbers stand in their config.json. */
static void test_models(void)
{
    static const struct {
        const char *folder;
        uint32_t layers, hidden, heads, head_dim, feed_forward, positions, types, vocabulary;
        wgi_activation activation;
        float epsilon;
    } rows[] = {
        {"cases/tiny-bert", 2, 32, 4, 8, 64, 64, 2, 106, WGI_ACTIVATION_GELU, 1e-12f},
        {"tiny-bert-h128-d64-f16-mean", 1, 128, 2, 64, 36, 64, 2, 105, WGI_ACTIVATION_GELU, 1e-5f},
        {"tiny-bert-h24-d8-sqrt-len", 1, 24, 3, 8, 40, 64, 1, 105, WGI_ACTIVATION_RELU, 1e-12f},
        {"tiny-bert-h32-d8-mean", 2, 32, 4, 8, 72, 64, 2, 105, WGI_ACTIVATION_GELU, 1e-12f},
        {"tiny-bert-h32-pos512-lasttoken", 1, 32, 4, 8, 72, 512, 2, 105, WGI_ACTIVATION_GELU_TANH,
         1e-12f},
        {"tiny-bert-h40-d20-bf16-shards-max", 3, 40, 2, 20, 88, 64, 2, 105, WGI_ACTIVATION_GELU,
         1e-12f},
        {"tiny-bert-h48-d24-cls-dense", 1, 48, 2, 24, 100, 64, 2, 105, WGI_ACTIVATION_RELU, 1e-12f},
        {"tiny-bert-h80-d16-f16-weightedmean", 1, 80, 5, 16, 136, 64, 1, 105,
         WGI_ACTIVATION_GELU_TANH, 1e-12f},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        wgi_description d;
        wgi_weights *weights = NULL;
        const wgi_tensor *tensor = NULL;
        wg_error err = {0};
        char path[512];

        (void)snprintf(path, sizeof(path), WGT_DATA "/%s", rows[i].folder);
        EXPECT_OK(wgi_description_load(&d, path, &err));
        EXPECT_EQ(d.layer_count, rows[i].layers);
        EXPECT_EQ(d.hidden_count, rows[i].hidden);
        EXPECT_EQ(d.head_count, rows[i].heads);
        EXPECT_EQ(d.head_dim, rows[i].head_dim);
        EXPECT_EQ(d.feed_forward_count, rows[i].feed_forward);
        EXPECT_EQ(d.position_count, rows[i].positions);
        EXPECT_EQ(d.type_count, rows[i].types);
        EXPECT_EQ(d.vocabulary_count, rows[i].vocabulary);
        EXPECT_EQ(d.activation, rows[i].activation);
        EXPECT(d.norm_epsilon == rows[i].epsilon);
        EXPECT_OK(wgi_weights_open(&weights, path, &err));
        if (!weights) continue;
        wgi_tensor_need need = {.name = "embeddings.word_embeddings.weight",
                                .rank = 2,
                                .shape = {d.vocabulary_count, d.hidden_count},
                                .keys = {"vocab_size", "hidden_size"}};
        EXPECT_OK(wgi_weights_need(weights, &need, &tensor, &err));
        wgi_weights_close(weights);
    }
}

/* cases/cfg-*: what the configuration alone can tell; the tensors tell the rest. */
static void test_contradictions(void)
{
    wgi_description d;
    wg_error err = {0};
    wgi_weights *weights = NULL;
    const wgi_tensor *tensor = NULL;
    char *text = wgt_slurp(WGT_DATA "/cases/cfg-heads5.json", NULL);

    EXPECT_EQ(load(&d, text, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "num_attention_heads 5 does not divide hidden_size 32");
    free(text);

    EXPECT_OK(wgi_weights_open(&weights, WGT_DATA "/cases/tiny-bert", &err));
    text = wgt_slurp(WGT_DATA "/cases/cfg-hidden64.json", NULL);
    EXPECT_OK(load(&d, text, &err));
    free(text);
    wgi_tensor_need need = {.name = "embeddings.word_embeddings.weight",
                            .rank = 2,
                            .shape = {d.vocabulary_count, d.hidden_count},
                            .keys = {"vocab_size", "hidden_size"}};
    EXPECT_EQ(wgi_weights_need(weights, &need, &tensor, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "tensor 'embeddings.word_embeddings.weight' has shape [106, 32]");
    EXPECT_IN(err.message, "hidden_size 64");

    text = wgt_slurp(WGT_DATA "/cases/cfg-layers3.json", NULL);
    EXPECT_OK(load(&d, text, &err));
    EXPECT_EQ(d.layer_count, 3);
    free(text);
    wgi_weights_close(weights);
}

/* ------------------------------------------------------------------------- other families */

static wgi_description load_text(const char *json)
{
    wgi_description description;
    wg_error err = {0};

    EXPECT_OK(load(&description, json, &err));
    return description;
}

static void refuse_text(const char *json, wg_status wanted, const char *part)
{
    wgi_description description;
    wg_error err = {0};

    EXPECT_EQ(load(&description, json, &err), wanted);
    EXPECT_IN(err.message, part);
    EXPECT_EQ(description.layer_count, 0);
}

/* The committed models of the other families; the numbers stand in their config.json. */
static void test_family_models(void)
{
    static const struct {
        const char *folder, *architecture;
        uint32_t layers, hidden, heads, feed_forward, positions, offset, types;
        float epsilon;
    } rows[] = {
        {"tiny-roberta-h32-d8-mean", "roberta", 2, 32, 4, 72, 66, 2, 1, 1e-3f},
        {"tiny-xlm-roberta-h40-d20-f16-cls", "xlm-roberta", 2, 40, 2, 88, 66, 2, 1, 1e-5f},
        {"tiny-distilbert-h32-d8-mean", "distilbert", 2, 32, 4, 72, 64, 0, 0, 1e-12f},
        {"tiny-mpnet-h32-d8-mean", "mpnet", 2, 32, 4, 72, 146, 2, 0, 1e-3f},
        {"tiny-modernbert-h32-d16-local8-mean", "modernbert", 3, 32, 2, 72, 128, 0, 0, 1e-5f},
        {"tiny-modernbert-h40-d20-f16-local9-cls", "modernbert", 3, 40, 2, 56, 128, 0, 0, 1e-3f},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        wgi_description d;
        wg_error err = {0};
        char path[512];

        (void)snprintf(path, sizeof(path), WGT_DATA "/%s", rows[i].folder);
        EXPECT_OK(wgi_description_load(&d, path, &err));
        EXPECT_TEXT(d.architecture, rows[i].architecture);
        EXPECT_EQ(d.layer_count, rows[i].layers);
        EXPECT_EQ(d.hidden_count, rows[i].hidden);
        EXPECT_EQ(d.head_count, rows[i].heads);
        EXPECT_EQ(d.head_dim, rows[i].hidden / rows[i].heads);
        EXPECT_EQ(d.feed_forward_count, rows[i].feed_forward);
        EXPECT_EQ(d.position_count, rows[i].positions);
        EXPECT_EQ(d.position_offset, rows[i].offset);
        EXPECT_EQ(d.type_count, rows[i].types);
        EXPECT_EQ(d.activation, WGI_ACTIVATION_GELU);
        EXPECT_EQ(d.is_decoder, false);
        EXPECT(d.norm_epsilon == rows[i].epsilon);
    }
}

static void test_defaults_of_families(void)
{
    wgi_description d = load_text("{\"model_type\":\"roberta\"}");

    EXPECT_EQ(d.vocabulary_count, 50265);
    EXPECT_EQ(d.position_offset, 2);
    EXPECT_EQ(d.type_count, 2);
    EXPECT(d.norm_epsilon == 1e-12f);
    d = load_text("{\"model_type\":\"xlm-roberta\",\"max_position_embeddings\":514}");
    EXPECT_EQ(d.position_count - d.position_offset, 512);
    d = load_text("{\"model_type\":\"mpnet\",\"pad_token_id\":7}"); /* not a key of MPNet's */
    EXPECT_EQ(d.vocabulary_count, 30527);
    EXPECT_EQ(d.position_offset, 2);
    EXPECT_EQ(d.type_count, 0);
    d = load_text("{\"model_type\":\"distilbert\",\"hidden_size\":32,\"layer_norm_eps\":1}");
    EXPECT_EQ(d.hidden_count, 768);
    EXPECT_EQ(d.layer_count, 6);
    EXPECT_EQ(d.feed_forward_count, 3072);
    EXPECT(d.norm_epsilon == 1e-12f);
    d = load_text("{\"model_type\":\"modernbert\"}");
    EXPECT_EQ(d.layer_count, 22);
    EXPECT_EQ(d.vocabulary_count, 50368);
    EXPECT_EQ(d.position_count, 8192);
    EXPECT(d.norm_epsilon == 1e-5f);
    EXPECT_EQ(d.encoder.window, 65);
    EXPECT_EQ(d.encoder.rotary_count, 64);
    EXPECT(d.encoder.rotary_base == 160000 && d.encoder.rotary_base_local == 10000);
    EXPECT_EQ(d.encoder.local_layers[0], 0xB6); /* all but 0, 3, 6 */
    EXPECT(d.encoder.lacks_norm_bias && d.encoder.lacks_attention_bias &&
           d.encoder.lacks_feed_forward_bias);
}

static void test_padding_id(void)
{
    EXPECT_EQ(load_text("{\"model_type\":\"roberta\",\"pad_token_id\":0}").position_offset, 1);
    EXPECT_EQ(load_text("{\"model_type\":\"roberta\",\"pad_token_id\":10}").position_offset, 11);
    refuse_text("{\"model_type\":\"roberta\",\"pad_token_id\":-1}", WG_ERR_FORMAT,
                "key pad_token_id: -1 is not an id");
    refuse_text("{\"model_type\":\"roberta\",\"pad_token_id\":1.5}", WG_ERR_FORMAT,
                "key pad_token_id: 1.5 is not an id");
    refuse_text("{\"model_type\":\"roberta\",\"pad_token_id\":null}", WG_ERR_FORMAT,
                "key pad_token_id: ");
    refuse_text("{\"model_type\":\"xlm-roberta\",\"max_position_embeddings\":2}", WG_ERR_FORMAT,
                "max_position_embeddings 2 leaves no position");
    refuse_text("{\"model_type\":\"roberta\",\"position_embedding_type\":\"relative_key\"}",
                WG_ERR_UNSUPPORTED, "position_embedding_type \"relative_key\"");
    refuse_text("{\"model_type\":\"mpnet\",\"relative_attention_num_buckets\":64}",
                WG_ERR_UNSUPPORTED, "relative_attention_num_buckets 64 (supported: 32)");
    refuse_text("{\"model_type\":\"distilbert\",\"n_heads\":5}", WG_ERR_FORMAT,
                "n_heads 5 does not divide dim 768");
    refuse_text("{\"model_type\":\"distilbert\",\"activation\":\"mish\"}", WG_ERR_UNSUPPORTED,
                "activation \"mish\"");
}

#define MODERN "{\"model_type\":\"modernbert\",\"num_hidden_layers\":4,"

static void test_pattern(void)
{
    wgi_description d = load_text(MODERN "\"global_attn_every_n_layers\":2,\"local_attention\":9}");

    EXPECT_EQ(d.encoder.local_layers[0], 0xA);
    EXPECT_EQ(d.encoder.window, 5);
    EXPECT_EQ(load_text(MODERN "\"local_attention\":1}").encoder.window, 1);
    d = load_text(MODERN "\"layer_types\":[\"sliding_attention\",\"full_attention\","
                         "\"full_attention\",\"sliding_attention\"],\"global_rope_theta\":5e4,"
                         "\"local_rope_theta\":70.5,\"mlp_bias\":true,\"norm_bias\":true}");
    EXPECT_EQ(d.encoder.local_layers[0], 0x9);
    EXPECT(d.encoder.rotary_base == 5e4 && d.encoder.rotary_base_local == 70.5);
    EXPECT(d.encoder.lacks_attention_bias && !d.encoder.lacks_feed_forward_bias &&
           !d.encoder.lacks_norm_bias);
    d = load_text(MODERN "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\","
                         "\"rope_theta\":8},\"sliding_attention\":{\"rope_theta\":9}},"
                         "\"global_rope_theta\":5,\"local_rope_theta\":null}");
    EXPECT(d.encoder.rotary_base == 8 && d.encoder.rotary_base_local == 9);

    refuse_text(MODERN "\"layer_types\":[\"full_attention\"]}", WG_ERR_FORMAT,
                "key layer_types: names 1 layers, num_hidden_layers is 4");
    refuse_text(MODERN "\"layer_types\":[]}", WG_ERR_FORMAT, "key layer_types: the list is empty");
    refuse_text(MODERN "\"layer_types\":[\"linear_attention\"]}", WG_ERR_UNSUPPORTED,
                "layer_types \"linear_attention\"");
    refuse_text(MODERN "\"layer_types\":7}", WG_ERR_FORMAT, "key layer_types");
    refuse_text(MODERN "\"local_attention\":-1}", WG_ERR_FORMAT,
                "key local_attention: -1 is out of range");
    refuse_text(MODERN "\"global_attn_every_n_layers\":0}", WG_ERR_FORMAT,
                "key global_attn_every_n_layers: 0 is out of range");
    refuse_text(MODERN "\"global_rope_theta\":0}", WG_ERR_FORMAT,
                "key global_rope_theta: 0 is out of range");
    refuse_text(MODERN "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"yarn\"}}}",
                WG_ERR_UNSUPPORTED, "rope_parameters.rope_type \"yarn\"");
    refuse_text(MODERN "\"rope_parameters\":{\"full_attention\":{\"factor\":2}}}",
                WG_ERR_UNSUPPORTED, "rope_parameters.factor");
    refuse_text(MODERN "\"rope_parameters\":{\"rope_theta\":2}}", WG_ERR_UNSUPPORTED,
                "rope_parameters.rope_theta");
    refuse_text(MODERN "\"hidden_size\":36}", WG_ERR_FORMAT,
                "rotary positions need an even number");
}

/* A list longer than any model has layers. */
static void test_long_list(void)
{
    static char json[WGI_LAYER_MAX * 24];
    size_t at = (size_t)snprintf(json, sizeof(json), MODERN "\"layer_types\":[");

    for (int i = 0; i <= WGI_LAYER_MAX; i++)
        at += (size_t)snprintf(json + at, sizeof(json) - at, "%s\"full_attention\"", i ? "," : "");
    (void)snprintf(json + at, sizeof(json) - at, "]}");
    refuse_text(json, WG_ERR_FORMAT, "key layer_types: more than 4096 layers");
}

static void test_refused(void)
{
    expect_refused("\"model_type\":\"deberta-v2\"", WG_ERR_UNSUPPORTED,
                   "not supported yet: model_type \"deberta-v2\"");
    expect_refused("\"model_type\":\"nomic_bert\"", WG_ERR_UNSUPPORTED,
                   "model_type \"nomic_bert\" (supported: bert, roberta, xlm-roberta, ");
    expect_refused("\"rope_scaling\":{\"type\":\"yarn\"}", WG_ERR_UNSUPPORTED, "rope_scaling");
    expect_refused("\"model_type\":\"\"", WG_ERR_UNSUPPORTED, "model_type \"\"");
    expect_refused("\"model_type\":null", WG_ERR_FORMAT, "expected a string, found null");
    /* The family is said first, whatever its keys hold. */
    expect_refused("\"model_type\":\"gpt2\",\"hidden_size\":\"x\"", WG_ERR_UNSUPPORTED,
                   "model_type \"gpt2\"");
    expect_refused("\"position_embedding_type\":\"relative_key\"", WG_ERR_UNSUPPORTED,
                   "position_embedding_type \"relative_key\"");
    expect_refused("\"is_decoder\":true", WG_ERR_UNSUPPORTED, "is_decoder true");
    expect_refused("\"add_cross_attention\":true", WG_ERR_UNSUPPORTED, "add_cross_attention true");
    expect_refused("\"is_encoder_decoder\":true", WG_ERR_UNSUPPORTED, "is_encoder_decoder true");
    expect_refused("\"is_decoder\":1", WG_ERR_FORMAT,
                   "key is_decoder: expected true or false, found a number");
    expect_refused("\"hidden_act\":\"quick_gelu\"", WG_ERR_UNSUPPORTED,
                   "hidden_act \"quick_gelu\"");
    expect_refused("\"hidden_act\":{}", WG_ERR_FORMAT, "expected a string, found an object");
    expect_refused("\"pruned_heads\":{\"1\":[2]}", WG_ERR_UNSUPPORTED, "pruned_heads");
    expect_refused("\"quantization_config\":{\"bits\":4}", WG_ERR_UNSUPPORTED,
                   "quantization_config");
    expect_refused("\"auto_map\":{\"AutoModel\":\"x.Y\"}", WG_ERR_UNSUPPORTED, "auto_map");
    expect_refused("\"num_attention_heads\":5", WG_ERR_FORMAT,
                   "num_attention_heads 5 does not divide hidden_size 32");
    expect_refused("\"num_attention_heads\":\"4\"", WG_ERR_FORMAT,
                   "key num_attention_heads: expected an integer, found a string");
    expect_refused("\"num_attention_heads\":4.0", WG_ERR_FORMAT, "expected an integer, found 4.0");
    expect_refused("\"num_attention_heads\":0", WG_ERR_FORMAT,
                   "key num_attention_heads: 0 is out of");
    expect_refused("\"num_hidden_layers\":-1", WG_ERR_FORMAT, "-1 is out of range (1 to 4096)");
    expect_refused("\"hidden_size\":65568", WG_ERR_FORMAT, "65568 is out of range");
    expect_refused("\"vocab_size\":2147483648", WG_ERR_FORMAT, "2147483648 is out of range");
    expect_refused("\"vocab_size\":18446744073709551617", WG_ERR_FORMAT, "is out of range");
    expect_refused("\"max_position_embeddings\":null", WG_ERR_FORMAT, "found null");
    expect_refused("\"layer_norm_eps\":-1", WG_ERR_FORMAT,
                   "key layer_norm_eps: -1 is out of range");
    expect_refused("\"layer_norm_eps\":\"1\"", WG_ERR_FORMAT, "expected a number, found a string");
    expect_refused("\"layer_norm_eps\":NaN", WG_ERR_FORMAT, "key layer_norm_eps");
    expect_refused("\"x\":[1,", WG_ERR_FORMAT, "config.json");
}

static void test_files(void)
{
    wgi_description d;
    wg_error err = {0};

    EXPECT_EQ(load(&d, "[]", &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "expected an object");
    EXPECT_EQ(load(&d, "", &err), WG_ERR_FORMAT);
    EXPECT_EQ(load(&d, "{\"hidden_size\":4}", &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "key model_type: is missing");
    EXPECT_EQ(load(&d, "{" BASE "} x", &err), WG_ERR_FORMAT);
    EXPECT_EQ(load(&d, "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", &err),
              WG_ERR_FORMAT);
    EXPECT_IN(err.message, "Git LFS pointer");
    EXPECT_EQ(wgi_description_load(&d, WGT_DATA "/cases", &err), WG_ERR_IO);
    EXPECT_IN(err.message, "cases/config.json");
}

static void test_passed_over(void)
{
    static const struct {
        const char *name;
        wgi_activation activation;
    } names[] = {
        {"gelu", WGI_ACTIVATION_GELU},
        {"gelu_new", WGI_ACTIVATION_GELU_TANH},
        {"gelu_pytorch_tanh", WGI_ACTIVATION_GELU_TANH},
        {"gelu_fast", WGI_ACTIVATION_GELU_TANH},
        {"relu", WGI_ACTIVATION_RELU},
        {"silu", WGI_ACTIVATION_SILU},
        {"swish", WGI_ACTIVATION_SILU},
        {"tanh", WGI_ACTIVATION_TANH},
        {"linear", WGI_ACTIVATION_NONE},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char more[64];
        (void)snprintf(more, sizeof(more), "\"hidden_act\":\"%s\"", names[i].name);
        EXPECT_EQ(expect_loads(more).activation, names[i].activation);
    }
    (void)expect_loads(
        "\"is_decoder\":false,\"pruned_heads\":{ },\"auto_map\":{},"
        "\"position_embedding_type\":null,\"quantization_config\":null,"
        "\"architectures\":[\"BertForMaskedLM\"],\"id2label\":{\"0\":[{}]},"
        "\"pad_token_id\":null,\"hidden_dropout_prob\":0.5,\"torch_dtype\":\"float16\"");
    EXPECT_EQ(expect_loads("\"num_hidden_layers\":1,\"num_hidden_layers\":2").layer_count, 2);
}

static void torture(const char *model)
{
    for (long nth = 1;; nth++) {
        wgi_description d;
        wg_error err;

        wgi_alloc_fail_at(nth);
        wg_status status = wgi_description_load(&d, model, &err);
        wgi_alloc_fail_at(0);
        if (status == WG_OK) {
            EXPECT(nth > 3);
            return;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
        if (status != WG_ERR_NO_MEMORY) return;
    }
}

int main(void)
{
    folder = wgt_folder_open();
    test_defaults();
    test_models();
    test_contradictions();
    test_family_models();
    test_defaults_of_families();
    test_padding_id();
    test_pattern();
    test_long_list();
    test_refused();
    test_files();
    test_passed_over();
    torture(WGT_DATA "/cases/tiny-bert");
    torture(WGT_DATA "/tiny-modernbert-h40-d20-f16-local9-cls");
    wgt_folder_close(&folder);
    return wgt_result();
}
