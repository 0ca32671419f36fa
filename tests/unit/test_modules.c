/*
 * test_modules.c - modules.json and what it names: the committed models, every pooling mode in both
 * spellings, module types old and new, limits and prompts, what is refused and in which words, and
 * each allocation failing in turn.
 *
 * LABELS: quick torture
 */
#include "base/alloc.h"
#include "base/log.h"
#include "model/model.h"

#include "harness.h"
#include "temporary.h"

#define OLD "sentence_transformers.models."

static const char transformer[] = "{\"path\":\"\",\"type\":\"" OLD "Transformer\"}";
static const char pooling[] = "{\"path\":\"1_Pooling\",\"type\":\"" OLD "Pooling\"}";
static const char dense[] = "{\"path\":\"2_Dense\",\"type\":\"" OLD "Dense\"}";
static const char normalize[] = "{\"path\":\"3_Normalize\",\"type\":\"" OLD "Normalize\"}";

static const wgi_description description = {.hidden_count = 48, .position_count = 64};
static wgt_folder folder;

static void put(const char *name, const char *text)
{
    wgt_write(&folder, name, text, strlen(text));
}

/* A directory with these modules, mean pooling of 48, and the dense layer of a committed model. */
static void begin(const char *modules)
{
    size_t count;
    char *weights =
        wgt_slurp(WGT_DATA "/tiny-bert-h48-d24-cls-dense/2_Dense/model.safetensors", &count);

    wgt_folder_close(&folder);
    folder = wgt_folder_open();
    if (modules) put("modules.json", modules);
    put("1_Pooling/config.json", "{\"word_embedding_dimension\":48}");
    put("2_Dense/config.json", "{\"in_features\":48,\"out_features\":36}");
    wgt_write(&folder, "2_Dense/model.safetensors", weights, count);
    free(weights);
}

static const char *list(const char *a, const char *b, const char *c, const char *d)
{
    static char text[1024];

    (void)snprintf(text, sizeof(text), "[%s%s%s%s%s%s%s]", a, *b ? "," : "", b, *c ? "," : "", c,
                   *d ? "," : "", d);
    return text;
}

static void expect_refused(wg_status wanted, const char *part)
{
    wgi_modules modules;
    wg_error err = {0};

    EXPECT_EQ(wgi_modules_load(&modules, folder.path, &description, &err), wanted);
    EXPECT_IN(err.message, part);
    EXPECT_IN(err.message, folder.path);
    wgi_modules_fini(&modules); /* already empty */
}

static wgi_modules expect_loads(void)
{
    wgi_modules modules;
    wg_error err = {0};

    EXPECT_OK(wgi_modules_load(&modules, folder.path, &description, &err));
    return modules;
}

/* ----------------------------------------------------------------------------- committed models */

static void test_models(void)
{
    static const struct {
        const char *folder;
        wg_pooling pooling;
        bool normalize;
        uint32_t dense, tokens;
        const char *length_rule;
    } rows[] = {
        {"cases/tiny-bert", WG_POOLING_MEAN, true, 0, 48, "sentence_bert_config.json"},
        {"tiny-bert-h128-d64-f16-mean", WG_POOLING_MEAN, true, 0, 64, "sentence_bert_config.json"},
        {"tiny-bert-h24-d8-sqrt-len", WG_POOLING_SQRT_LENGTH_MEAN, true, 0, 64,
         "tokenizer_config.json"},
        {"tiny-bert-h32-d8-mean", WG_POOLING_MEAN, true, 0, 64, "sentence_bert_config.json"},
        {"tiny-bert-h32-pos512-lasttoken", WG_POOLING_LAST, false, 0, 512,
         "sentence_bert_config.json"},
        {"tiny-bert-h40-d20-bf16-shards-max", WG_POOLING_MAX, true, 0, 64,
         "sentence_bert_config.json"},
        {"tiny-bert-h48-d24-cls-dense", WG_POOLING_CLS, true, 1, 64, "sentence_bert_config.json"},
        {"tiny-bert-h80-d16-f16-weightedmean", WG_POOLING_WEIGHTED_MEAN, true, 0, 64,
         "sentence_bert_config.json"},
        {"tiny-roberta-h32-d8-mean", WG_POOLING_MEAN, true, 0, 64, "sentence_bert_config.json"},
        {"tiny-xlm-roberta-h40-d20-f16-cls", WG_POOLING_CLS, true, 0, 64,
         "sentence_bert_config.json"},
        {"tiny-mpnet-h32-d8-mean", WG_POOLING_MEAN, true, 0, 144, "sentence_bert_config.json"},
        {"tiny-modernbert-h32-d16-local8-mean", WG_POOLING_MEAN, true, 0, 128,
         "sentence_bert_config.json"},
        {"tiny-distilbert-h32-d8-mean", WG_POOLING_MEAN, true, 0, 64, "sentence_bert_config.json"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        wgi_description model;
        wgi_modules modules;
        wg_error err = {0};
        char path[512];

        (void)snprintf(path, sizeof(path), WGT_DATA "/%s", rows[i].folder);
        EXPECT_OK(wgi_description_load(&model, path, &err));
        EXPECT_OK(wgi_modules_load(&modules, path, &model, &err));
        EXPECT_EQ(modules.pooling, rows[i].pooling);
        EXPECT_EQ(modules.normalize, rows[i].normalize);
        EXPECT_EQ(modules.include_prompt, true);
        EXPECT_EQ(modules.dense_count, rows[i].dense);
        EXPECT_EQ(modules.token_count_default, rows[i].tokens);
        EXPECT_TEXT(modules.pooling_rule, "1_Pooling/config.json");
        EXPECT_TEXT(modules.normalize_rule, "modules.json");
        EXPECT_TEXT(modules.length_rule, rows[i].length_rule);
        EXPECT_EQ(modules.lower_case, false);
        EXPECT_EQ(modules.prompt_count, 0);
        if (modules.dense_count == 1) {
            const wgi_dense *layer = &modules.dense[0];
            EXPECT_EQ(layer->activation, WGI_ACTIVATION_TANH);
            EXPECT_EQ(layer->weight->shape[0], 36);
            EXPECT_EQ(layer->weight->shape[1], 48);
            EXPECT(layer->bias && layer->bias->shape[0] == 36);
        }
        wgi_modules_fini(&modules);
    }
}

/* ------------------------------------------------------------------------------------ the list */

static void test_architecture(void)
{
    begin(NULL);
    /* Not read without modules.json. */
    put("sentence_bert_config.json", "{\"max_seq_length\":5,\"do_lower_case\":true}");
    wgi_modules modules = expect_loads();
    EXPECT_EQ(modules.pooling, WG_POOLING_MEAN);
    EXPECT_EQ(modules.normalize, true);
    EXPECT_EQ(modules.include_prompt, true);
    EXPECT_EQ(modules.token_count_default, 64);
    EXPECT_TEXT(modules.pooling_rule, "architecture");
    EXPECT_TEXT(modules.normalize_rule, "architecture");
    EXPECT_TEXT(modules.length_rule, "config.json");
    EXPECT_EQ(modules.lower_case, false);
    wgi_modules_fini(&modules);
    put("tokenizer_config.json", "{\"model_max_length\":30}");
    modules = expect_loads();
    EXPECT_EQ(modules.token_count_default, 30);
    wgi_modules_fini(&modules);
}

static void test_types(void)
{
    static const char *const roots[] = {
        OLD, "sentence_transformers.models.pooling.", "sentence_transformers.base.modules.pooling.",
        "sentence_transformers.sentence_transformer.modules.pooling."};

    for (size_t i = 0; i < 4; i++) {
        char module[200];
        (void)snprintf(module, sizeof(module), "{\"path\":\"1_Pooling\",\"type\":\"%sPooling\"}",
                       roots[i]);
        begin(list(transformer, module, "", ""));
        wgi_modules modules = expect_loads();
        EXPECT_EQ(modules.normalize, false);
        EXPECT_TEXT(modules.normalize_rule, "modules.json");
        wgi_modules_fini(&modules);
    }
    begin(list(transformer, pooling,
               "{\"path\":\"9\",\"type\":\"sentence_transformers.models.Dropout\"}", ""));
    wgi_modules modules = expect_loads();
    wgi_modules_fini(&modules);
}

static void test_list_refused(void)
{
    static const struct {
        const char *b, *c, *d, *part;
    } rows[] = {
        {"", "", "", "there is no Pooling module"},
        {dense, "", "", "module 1 (" OLD "Dense): not supported yet"},
        {normalize, pooling, "", "module 1 (" OLD "Normalize): there is no Pooling before it"},
        {pooling, pooling, "", "module 2 (" OLD "Pooling): there is a Pooling before it"},
        {pooling, normalize, dense, "module 3 (" OLD "Dense): not supported yet"},
        {pooling, "{\"path\":\"x\",\"type\":\"my.Dense\"}", "",
         "module 2 (my.Dense): not supported"},
        {pooling, "{\"path\":\"x\",\"type\":\"" OLD "LSTM\"}", "", "(" OLD "LSTM): not supported"},
        {pooling, "{\"path\":\"x\",\"type\":\"" OLD "LayerNorm\"}", "",
         "LayerNorm): not supported"},
        {pooling, "{\"path\":\"../x\",\"type\":\"" OLD "Normalize\"}", "",
         "its path is outside the model folder"},
        {"{\"path\":\"/etc\",\"type\":\"" OLD "Pooling\"}", "", "",
         "its path is outside the model folder"},
        {pooling, "{\"path\":\"a\\\\..\\\\b\",\"type\":\"" OLD "Normalize\"}", "",
         "its path is outside the model folder"},
        {transformer, "", "", "module 1 (" OLD "Transformer): not supported yet"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(list(transformer, rows[i].b, rows[i].c, rows[i].d));
        expect_refused(WG_ERR_UNSUPPORTED, rows[i].part);
    }
    begin(list(pooling, "", "", ""));
    expect_refused(WG_ERR_UNSUPPORTED,
                   "module 0 (" OLD "Pooling): the first module must be a Trans");
    begin(list("{\"path\":\"0_Transformer\",\"type\":\"" OLD "Transformer\"}", pooling, "", ""));
    expect_refused(WG_ERR_UNSUPPORTED, "a transformer in its own folder");
    begin("{}");
    expect_refused(WG_ERR_FORMAT, "modules.json: ");
    begin("[3]");
    expect_refused(WG_ERR_FORMAT, "modules.json: ");
    begin("[{\"type\":\"x\"}]");
    expect_refused(WG_ERR_FORMAT, "module 0 has no path");
    begin("[{\"path\":\"x\"}]");
    expect_refused(WG_ERR_FORMAT, "module 0 has no type");
    begin("[{\"path\":3,\"type\":\"x\"}]");
    expect_refused(WG_ERR_FORMAT, "key path: expected a string, found a number");
    begin("[]");
    expect_refused(WG_ERR_UNSUPPORTED, "there is no Pooling module");
    begin(list(transformer, "{\"path\":\"7_Pooling\",\"type\":\"" OLD "Pooling\"}", "", ""));
    expect_refused(WG_ERR_IO, "7_Pooling/config.json");
}

/* ------------------------------------------------------------------------------------- pooling */

static void expect_pooling(const char *more, wg_pooling wanted)
{
    char json[512];

    (void)snprintf(json, sizeof(json), "{\"word_embedding_dimension\":48%s%s}", *more ? "," : "",
                   more);
    put("1_Pooling/config.json", json);
    wgi_modules modules = expect_loads();
    EXPECT_EQ(modules.pooling, wanted);
    wgi_modules_fini(&modules);
}

static void refuse_pooling(const char *json, wg_status wanted, const char *part)
{
    put("1_Pooling/config.json", json);
    expect_refused(wanted, part);
}

static void test_pooling(void)
{
    begin(list(transformer, pooling, "", ""));
    expect_pooling("", WG_POOLING_MEAN);
    expect_pooling("\"pooling_mode_mean_tokens\":false", WG_POOLING_MEAN);
    expect_pooling("\"pooling_mode_cls_token\":true,\"pooling_mode_mean_tokens\":false",
                   WG_POOLING_CLS);
    expect_pooling("\"pooling_mode_mean_tokens\":true", WG_POOLING_MEAN);
    expect_pooling("\"pooling_mode_max_tokens\":true", WG_POOLING_MAX);
    expect_pooling("\"pooling_mode_mean_sqrt_len_tokens\":true", WG_POOLING_SQRT_LENGTH_MEAN);
    expect_pooling("\"pooling_mode_weightedmean_tokens\":true", WG_POOLING_WEIGHTED_MEAN);
    expect_pooling("\"pooling_mode_lasttoken\":true", WG_POOLING_LAST);
    expect_pooling("\"pooling_mode\":\"cls\"", WG_POOLING_CLS);
    expect_pooling("\"pooling_mode\":\"mean\"", WG_POOLING_MEAN);
    expect_pooling("\"pooling_mode\":\"max\"", WG_POOLING_MAX);
    expect_pooling("\"pooling_mode\":\"mean_sqrt_len_tokens\"", WG_POOLING_SQRT_LENGTH_MEAN);
    expect_pooling("\"pooling_mode\":\"weightedmean\"", WG_POOLING_WEIGHTED_MEAN);
    expect_pooling("\"pooling_mode\":[\"lasttoken\"]", WG_POOLING_LAST);
    /* The newer key wins. */
    expect_pooling("\"pooling_mode\":\"max\",\"pooling_mode_cls_token\":true", WG_POOLING_MAX);
    expect_pooling("\"pooling_mode_future\":false", WG_POOLING_MEAN);

    put("1_Pooling/config.json", "{\"embedding_dimension\":48,\"include_prompt\":false}");
    wgi_modules modules = expect_loads();
    EXPECT_EQ(modules.include_prompt, false);
    wgi_modules_fini(&modules);

    refuse_pooling("{\"word_embedding_dimension\":48,\"pooling_mode_cls_token\":true,"
                   "\"pooling_mode_mean_tokens\":true}",
                   WG_ERR_UNSUPPORTED, "pooling modes cls and mean at once");
    refuse_pooling("{\"word_embedding_dimension\":48,\"pooling_mode\":[\"mean\",\"max\"]}",
                   WG_ERR_UNSUPPORTED, "pooling modes max and mean at once");
    refuse_pooling("{\"word_embedding_dimension\":48,\"pooling_mode\":\"attention\"}",
                   WG_ERR_UNSUPPORTED, "pooling_mode \"attention\"");
    refuse_pooling("{\"word_embedding_dimension\":48,\"pooling_mode_future\":true}",
                   WG_ERR_UNSUPPORTED, "pooling_mode_future");
    refuse_pooling("{\"word_embedding_dimension\":32}", WG_ERR_FORMAT,
                   "key word_embedding_dimension: 32, but hidden_size of config.json is 48");
    refuse_pooling("{}", WG_ERR_FORMAT, "key word_embedding_dimension: is missing");
    refuse_pooling("{\"word_embedding_dimension\":48,\"pooling_mode_cls_token\":\"yes\"}",
                   WG_ERR_FORMAT, "expected true or false, found a string");
}

/* ------------------------------------------------------------------------------ dense, normalise
 */

static void refuse_dense(const char *json, wg_status wanted, const char *part)
{
    put("2_Dense/config.json", json);
    expect_refused(wanted, part);
}

static void test_dense(void)
{
    static const struct {
        const char *name;
        wgi_activation activation;
    } names[] = {
        {"torch.nn.modules.linear.Identity", WGI_ACTIVATION_NONE},
        {"torch.nn.modules.activation.Tanh", WGI_ACTIVATION_TANH},
        {"torch.nn.modules.activation.ReLU", WGI_ACTIVATION_RELU},
        {"torch.nn.modules.activation.GELU", WGI_ACTIVATION_GELU},
        {"torch.nn.Identity", WGI_ACTIVATION_NONE},
    };

    begin(list(transformer, pooling, dense, normalize));
    wgi_modules modules = expect_loads();
    EXPECT_EQ(modules.dense_count, 1);
    EXPECT_EQ(modules.dense[0].activation, WGI_ACTIVATION_TANH); /* the default */
    EXPECT_EQ(modules.normalize, true);
    wgi_modules_fini(&modules);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char json[256];
        (void)snprintf(
            json, sizeof(json),
            "{\"in_features\":48,\"out_features\":36,\"bias\":true,\"use_residual\":false,"
            "\"module_input_name\":\"sentence_embedding\",\"activation_function\":\"%s\"}",
            names[i].name);
        put("2_Dense/config.json", json);
        modules = expect_loads();
        EXPECT_EQ(modules.dense[0].activation, names[i].activation);
        wgi_modules_fini(&modules);
    }
    refuse_dense("{\"in_features\":32,\"out_features\":36}", WG_ERR_FORMAT,
                 "key in_features: 32, but the module before it gives 48 floats");
    refuse_dense("{\"out_features\":36}", WG_ERR_FORMAT, "key in_features: is missing");
    refuse_dense("{\"in_features\":48}", WG_ERR_FORMAT, "key out_features: is missing");
    refuse_dense("{\"in_features\":48,\"out_features\":12}", WG_ERR_FORMAT,
                 "tensor 'linear.weight' has shape [36, 48]");
    refuse_dense("{\"in_features\":48,\"out_features\":36,\"bias\":false}", WG_ERR_UNSUPPORTED,
                 "2 tensors in 2_Dense, expected 1");
    refuse_dense("{\"in_features\":48,\"out_features\":36,\"use_residual\":true}",
                 WG_ERR_UNSUPPORTED, "use_residual true");
    refuse_dense("{\"in_features\":48,\"out_features\":36,\"activation_function\":"
                 "\"torch.nn.modules.activation.Softplus\"}",
                 WG_ERR_UNSUPPORTED,
                 "activation_function \"torch.nn.modules.activation.Softplus\"");
    refuse_dense(
        "{\"in_features\":48,\"out_features\":36,\"module_input_name\":\"token_embeddings\"}",
        WG_ERR_UNSUPPORTED, "module_input_name \"token_embeddings\"");
    /* A second layer takes what the first gives, not the hidden size. */
    begin(list(transformer, pooling, dense, dense));
    expect_refused(WG_ERR_FORMAT, "key in_features: 48, but the module before it gives 36 floats");

    begin(list(transformer, pooling, normalize, ""));
    put("3_Normalize/config.json", "{\"module_input_name\":\"sentence_embedding\"}");
    modules = expect_loads();
    EXPECT_EQ(modules.normalize, true);
    wgi_modules_fini(&modules);
    put("3_Normalize/config.json", "{\"module_input_name\":\"token_embeddings\"}");
    expect_refused(WG_ERR_UNSUPPORTED, "module_input_name \"token_embeddings\"");
}

/* --------------------------------------------------------------------------------------- limit */

static char logged[512];

static void keep_log(void *context, wg_log_level level, const char *message)
{
    (void)context;
    (void)level;
    (void)snprintf(logged, sizeof(logged), "%s", message);
}

static void expect_limit(const char *sentence, const char *tokenizer, uint32_t tokens,
                         const char *rule)
{
    put("sentence_bert_config.json", sentence);
    put("tokenizer_config.json", tokenizer);
    logged[0] = 0;
    wgi_modules modules = expect_loads();
    EXPECT_EQ(modules.token_count_default, tokens);
    EXPECT_TEXT(modules.length_rule, rule);
    wgi_modules_fini(&modules);
}

static void refuse_limit(const char *sentence, wg_status wanted, const char *part)
{
    put("sentence_bert_config.json", sentence);
    expect_refused(wanted, part);
}

static void test_limit(void)
{
    static const char unlimited[] = "{\"model_max_length\":1000000000000000019884624838656}";

    wg_log_set(keep_log, NULL, WG_LOG_INFO);
    begin(list(transformer, pooling, "", ""));
    expect_limit("{\"max_seq_length\":48}", "{\"model_max_length\":20}", 48,
                 "sentence_bert_config.json");
    EXPECT_TEXT(logged, "");
    expect_limit("{\"max_seq_length\":64}", "{}", 64, "sentence_bert_config.json");
    expect_limit("{\"max_seq_length\":null}", "{\"model_max_length\":20}", 20,
                 "tokenizer_config.json");
    expect_limit("{}", "{\"max_len\":21}", 21, "tokenizer_config.json");
    expect_limit("{}", "{\"max_len\":21,\"model_max_length\":22}", 22, "tokenizer_config.json");
    expect_limit("{}", unlimited, 64, "config.json");
    EXPECT_TEXT(logged, "");
    expect_limit("{}", "{\"model_max_length\":4294967296}", 64, "config.json");
    EXPECT_TEXT(logged, "");
    expect_limit("{}", "{\"model_max_length\":null}", 64, "config.json");
    /* Above the positions: cut to them, and said. */
    expect_limit("{\"max_seq_length\":65}", "{}", 64, "config.json");
    EXPECT_IN(logged, "sentence_bert_config.json allows 65 tokens");
    EXPECT_IN(logged, "limit 64");
    expect_limit("{}", "{\"model_max_length\":512}", 64, "config.json");
    EXPECT_IN(logged, "tokenizer_config.json allows 512 tokens");
    expect_limit("{\"model_args\":{\"torch_dtype\":\"float16\"},\"tokenizer_args\":null,"
                 "\"processing_kwargs\":{},\"modality_config\":{\"text\":{\"method\":\"forward\","
                 "\"method_output_name\":\"last_hidden_state\"}},\"unpad_inputs\":true,"
                 "\"transformer_task\":\"feature-extraction\",\"query_length\":3}",
                 "{}", 64, "config.json");
    wg_log_set(NULL, NULL, WG_LOG_ERROR);

    put("sentence_bert_config.json", "{\"do_lower_case\":true}");
    wgi_modules modules = expect_loads();
    EXPECT_EQ(modules.lower_case, true);
    wgi_modules_fini(&modules);

    refuse_limit("{\"max_seq_length\":0}", WG_ERR_FORMAT, "key max_seq_length: 0 is out of range");
    refuse_limit("{\"max_seq_length\":\"48\"}", WG_ERR_FORMAT,
                 "expected an integer, found a string");
    refuse_limit("{\"do_lower_case\":0}", WG_ERR_FORMAT, "key do_lower_case");
    refuse_limit("{\"transformer_task\":\"fill-mask\"}", WG_ERR_UNSUPPORTED,
                 "transformer_task \"fill-mask\"");
    refuse_limit("{\"module_output_name\":\"scores\"}", WG_ERR_UNSUPPORTED,
                 "module_output_name \"scores\"");
    refuse_limit("{\"processing_kwargs\":{\"text\":{\"padding\":1}}}", WG_ERR_UNSUPPORTED,
                 "key processing_kwargs");
    refuse_limit("{\"query_expansion\":{\"length\":3}}", WG_ERR_UNSUPPORTED, "key query_expansion");
    refuse_limit("{\"tokenizer_name_or_path\":\"x\"}", WG_ERR_UNSUPPORTED,
                 "tokenizer_name_or_path");
    refuse_limit("{\"tokenizer_args\":{\"model_max_length\":3}}", WG_ERR_UNSUPPORTED,
                 "key tokenizer_args: not supported yet: model_max_length");
    refuse_limit("{\"modality_config\":{\"image\":{}}}", WG_ERR_UNSUPPORTED, "modality_config");
    refuse_limit("{\"modality_config\":{\"text\":{\"method\":\"get_text_features\"}}}",
                 WG_ERR_UNSUPPORTED, "method \"get_text_features\"");
    put("sentence_bert_config.json", "{}");
    put("tokenizer_config.json", "{\"model_max_length\":0}");
    expect_refused(WG_ERR_FORMAT, "key model_max_length: 0 is out of range");
    put("tokenizer_config.json", "{\"model_max_length\":\"x\"}");
    expect_refused(WG_ERR_FORMAT, "key model_max_length: expected a number, found a string");
}

/* The older names of sentence_bert_config.json. */
static void test_limit_old_name(void)
{
    begin(list(transformer, pooling, "", ""));
    put("sentence_distilbert_config.json", "{\"max_seq_length\":9}");
    wgi_modules modules = expect_loads();
    EXPECT_EQ(modules.token_count_default, 9);
    wgi_modules_fini(&modules);
}

/* ------------------------------------------------------------------------------------- prompts */

#define PROMPTS "config_sentence_transformers.json"

static void test_prompts(void)
{
    begin(list(transformer, pooling, "", ""));
    put(PROMPTS,
        "{\"prompts\":{\"query\":\"query: \",\"document\":\"\",\"n\":null,\"\\u00e9\":\"x\\n\","
        "\"query\":\"q: \"},\"default_prompt_name\":\"query\",\"similarity_fn_name\":\"dot\","
        "\"model_type\":\"SentenceTransformer\",\"truncate_dim\":null,\"__version__\":{}}");
    wgi_modules modules = expect_loads();
    EXPECT_EQ(modules.prompt_count, 4);
    if (modules.prompt_count == 4) {
        EXPECT_TEXT(modules.prompt_names[0], "query");
        EXPECT_TEXT(modules.prompts[0], "q: ");
        EXPECT_TEXT(modules.prompt_names[1], "document");
        EXPECT_TEXT(modules.prompts[1], "");
        EXPECT_TEXT(modules.prompts[2], "");
        EXPECT_TEXT(modules.prompt_names[3], "\xC3\xA9");
        EXPECT_TEXT(modules.prompts[3], "x\n");
    }
    EXPECT_TEXT(modules.default_prompt_name, "query");
    wgi_modules_fini(&modules);

    put(PROMPTS, "{\"default_prompt_name\":null,\"prompts\":null}");
    modules = expect_loads();
    EXPECT(modules.default_prompt_name == NULL && modules.prompt_count == 0);
    wgi_modules_fini(&modules);

    put(PROMPTS, "{\"default_prompt_name\":\"document\"}");
    modules = expect_loads();
    EXPECT_EQ(modules.prompt_count, 1);
    if (modules.prompt_count == 1) EXPECT_TEXT(modules.prompts[0], "");
    wgi_modules_fini(&modules);

    put(PROMPTS, "{\"default_prompt_name\":\"passage\"}");
    expect_refused(WG_ERR_FORMAT, "key default_prompt_name: there is no prompt \"passage\"");
    put(PROMPTS, "{\"prompts\":{\"a\":3}}");
    expect_refused(WG_ERR_FORMAT, "key prompts: expected a string, found a number");
    put(PROMPTS, "{\"prompts\":{\"a\":\"x\\u0000y\"}}");
    expect_refused(WG_ERR_FORMAT, "NUL");
    put(PROMPTS, "{\"truncate_dim\":128}");
    expect_refused(WG_ERR_UNSUPPORTED, "key truncate_dim");
    put(PROMPTS, "{\"model_type\":\"SparseEncoder\"}");
    expect_refused(WG_ERR_UNSUPPORTED, "model_type \"SparseEncoder\"");
}

/* ------------------------------------------------------------------------------------- torture */

static void torture(void)
{
    begin(list(transformer, pooling, dense, normalize));
    put(PROMPTS,
        "{\"prompts\":{\"a\":\"b\",\"c\":\"d\",\"a\":\"e\"},\"default_prompt_name\":\"query\"}");
    put("tokenizer_config.json", "{\"model_max_length\":20}");
    for (long nth = 1;; nth++) {
        wgi_modules modules;
        wg_error err;

        wgi_alloc_fail_at(nth);
        wg_status status = wgi_modules_load(&modules, folder.path, &description, &err);
        wgi_alloc_fail_at(0);
        EXPECT_EQ(status == WG_OK, modules.dense_count == 1);
        if (status == WG_OK) {
            EXPECT(nth > 20);
            wgi_modules_fini(&modules);
            return;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
        if (status != WG_ERR_NO_MEMORY) return;
    }
}

int main(void)
{
    folder = wgt_folder_open();
    test_models();
    test_architecture();
    test_types();
    test_list_refused();
    test_pooling();
    test_dense();
    test_limit();
    test_limit_old_name();
    test_prompts();
    torture();
    wgt_folder_close(&folder);
    return wgt_result();
}
