/*
 * encoder_family.c - the rows. Values where a key is absent are those of transformers'
 * configuration classes.
 *
 * Threads: constant.
 */
#include "model/encoder_family.h"

#include <stdio.h>
#include <string.h>

/* Parts of initialisers that families of BERT's line share. */
#define BERT_SIZES(vocabulary)                                                               \
    [WGI_SIZE_HIDDEN] = {"hidden_size", 768}, [WGI_SIZE_LAYERS] = {"num_hidden_layers", 12}, \
    [WGI_SIZE_HEADS] = {"num_attention_heads", 12},                                          \
    [WGI_SIZE_FEED_FORWARD] = {"intermediate_size", 3072},                                   \
    [WGI_SIZE_VOCABULARY] = {"vocab_size", vocabulary},                                      \
    [WGI_SIZE_POSITIONS] = {"max_position_embeddings", 512}
#define TYPES [WGI_SIZE_TYPES] = {"type_vocab_size", 2}
#define BERT_LAYER_ENDS \
    .up = "intermediate.dense", .down = "output.dense", .output_norm = "output.LayerNorm"
#define BERT_TABLES                                                                      \
    .token = "embeddings.word_embeddings", .position = "embeddings.position_embeddings", \
    .embedding_norm = "embeddings.LayerNorm"
#define BERT_NAMES                                                                       \
    BERT_TABLES, .type = "embeddings.token_type_embeddings", .layers = "encoder.layer.", \
                 .query = "attention.self.query", .key = "attention.self.key",           \
                 .value = "attention.self.value", .out = "attention.output.dense",       \
                 .attention_norm = "attention.output.LayerNorm", BERT_LAYER_ENDS

#define CLASSIFIER_PAIR \
    .dense = "classifier.dense", .out = "classifier.out_proj", .activation = WGI_ACTIVATION_TANH

static const wgi_encoder_family families[] = {
    {
        .model_type = "bert",
        .sizes = {BERT_SIZES(30522), TYPES},
        .activation_key = "hidden_act",
        .epsilon_key = "layer_norm_eps",
        .epsilon = 1e-12,
        .names = {.prefix = "bert.", BERT_NAMES},
        .head = {.dense = "pooler.dense",
                 .is_dense_inside = true,
                 .out = "classifier",
                 .activation = WGI_ACTIVATION_TANH},
    },
    {
        .model_type = "roberta",
        .sizes = {BERT_SIZES(50265), TYPES},
        .activation_key = "hidden_act",
        .epsilon_key = "layer_norm_eps",
        .epsilon = 1e-12,
        .has_pad = true,
        .pad_key = "pad_token_id",
        .pad_initial = 1,
        .names = {.prefix = "roberta.", BERT_NAMES},
        .head = {CLASSIFIER_PAIR},
    },
    {
        .model_type = "xlm-roberta",
        .sizes = {BERT_SIZES(30522), TYPES},
        .activation_key = "hidden_act",
        .epsilon_key = "layer_norm_eps",
        .epsilon = 1e-12,
        .has_pad = true,
        .pad_key = "pad_token_id",
        .pad_initial = 1,
        .names = {.prefix = "roberta.", BERT_NAMES},
        .head = {CLASSIFIER_PAIR},
    },
    {
        .model_type = "distilbert",
        .sizes = {[WGI_SIZE_HIDDEN] = {"dim", 768},
                  [WGI_SIZE_LAYERS] = {"n_layers", 6},
                  [WGI_SIZE_HEADS] = {"n_heads", 12},
                  [WGI_SIZE_FEED_FORWARD] = {"hidden_dim", 3072},
                  [WGI_SIZE_VOCABULARY] = {"vocab_size", 30522},
                  [WGI_SIZE_POSITIONS] = {"max_position_embeddings", 512}},
        .activation_key = "activation",
        .epsilon = 1e-12,
        .names = {.prefix = "distilbert.",
                  BERT_TABLES,
                  .layers = "transformer.layer.",
                  .query = "attention.q_lin",
                  .key = "attention.k_lin",
                  .value = "attention.v_lin",
                  .out = "attention.out_lin",
                  .up = "ffn.lin1",
                  .down = "ffn.lin2",
                  .attention_norm = "sa_layer_norm",
                  .output_norm = "output_layer_norm"},
        .head = {.dense = "pre_classifier", .out = "classifier", .activation = WGI_ACTIVATION_RELU},
    },
    {
        .model_type = "mpnet",
        .sizes = {BERT_SIZES(30527)},
        .activation_key = "hidden_act",
        .epsilon_key = "layer_norm_eps",
        .epsilon = 1e-12,
        .has_pad = true, /* and no key: the embedding layer's padding id is a constant */
        .pad_initial = 1,
        .has_buckets = true,
        .names = {.prefix = "mpnet.",
                  BERT_TABLES,
                  .relative = "encoder.relative_attention_bias",
                  .layers = "encoder.layer.",
                  .query = "attention.attn.q",
                  .key = "attention.attn.k",
                  .value = "attention.attn.v",
                  .out = "attention.attn.o",
                  .attention_norm = "attention.LayerNorm",
                  BERT_LAYER_ENDS},
        .head = {CLASSIFIER_PAIR},
    },
    {
        .model_type = "modernbert",
        .sizes = {[WGI_SIZE_HIDDEN] = {"hidden_size", 768},
                  [WGI_SIZE_LAYERS] = {"num_hidden_layers", 22},
                  [WGI_SIZE_HEADS] = {"num_attention_heads", 12},
                  [WGI_SIZE_FEED_FORWARD] = {"intermediate_size", 1152},
                  [WGI_SIZE_VOCABULARY] = {"vocab_size", 50368},
                  [WGI_SIZE_POSITIONS] = {"max_position_embeddings", 8192}},
        .activation_key = "hidden_activation",
        .epsilon_key = "norm_eps",
        .epsilon = 1e-5,
        .is_norm_before = true,
        .is_first_unnormed = true,
        .is_gated = true,
        .has_pattern = true,
        .names = {.prefix = "model.",
                  .token = "embeddings.tok_embeddings",
                  .embedding_norm = "embeddings.norm",
                  .final_norm = "final_norm",
                  .layers = "layers.",
                  .fused_qkv = "attn.Wqkv",
                  .out = "attn.Wo",
                  .fused_up = "mlp.Wi",
                  .down = "mlp.Wo",
                  .attention_norm = "attn_norm",
                  .output_norm = "mlp_norm"},
        .head = {.dense = "head.dense",
                 .norm = "head.norm",
                 .out = "classifier",
                 .activation = WGI_ACTIVATION_GELU,
                 .has_keys = true},
    },
};

const wgi_encoder_family *wgi_encoder_family_at(size_t index)
{
    return index < sizeof(families) / sizeof(families[0]) ? &families[index] : NULL;
}

const wgi_encoder_family *wgi_encoder_family_find(const char *model_type)
{
    const wgi_encoder_family *family = NULL;

    for (size_t i = 0; (family = wgi_encoder_family_at(i)); i++)
        if (strcmp(family->model_type, model_type) == 0) break;
    return family;
}

const char *wgi_encoder_prefix(const wgi_encoder_family *family, const wgi_weights *weights)
{
    const wgi_encoder_names *names = &family->names;
    char bare[160], full[160];

    (void)snprintf(bare, sizeof(bare), "%s.weight", names->token);
    (void)snprintf(full, sizeof(full), "%s%s", names->prefix, bare);
    return !wgi_weights_find(weights, bare) && wgi_weights_find(weights, full) ? names->prefix : "";
}
