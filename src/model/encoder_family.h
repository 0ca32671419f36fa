/*
 * encoder_family.h - one row for each family of encoders: the keys of its config.json, the names of
 * its tensors, and in what its forward pass differs from BERT's.
 *
 * The idea: config.c and encoder.c are written once over these rows, so that a family is data. See
 * docs/add-a-model.md. A member that is zero or NULL means "as in BERT" or "there is none".
 */
#ifndef WGI_ENCODER_FAMILY_H
#define WGI_ENCODER_FAMILY_H

#include "model/model.h"

/* The numbers of config.json that every family has, by whatever name. */
typedef enum wgi_size_name {
    WGI_SIZE_HIDDEN,
    WGI_SIZE_LAYERS,
    WGI_SIZE_HEADS,
    WGI_SIZE_FEED_FORWARD,
    WGI_SIZE_VOCABULARY,
    WGI_SIZE_POSITIONS,
    WGI_SIZE_TYPES
} wgi_size_name;
#define WGI_SIZE_COUNT 7

typedef struct wgi_size_key {
    const char *key;  /* NULL: not in config.json, always `initial` */
    uint64_t initial; /* when the key is not there */
} wgi_size_key;

/*
 * Names of tensors without ".weight" and ".bias". Those from `query` on are a layer's and stand
 * behind "<layers><index>.".
 */
typedef struct wgi_encoder_names {
    const char *prefix; /* before all of them, where the file was written with a head: "roberta." */
    const char *token, *position, *type; /* tables; position, type NULL: none */
    const char *embedding_norm;
    const char *final_norm; /* NULL: none */
    const char *relative;   /* bias by distance [buckets, N], shared by the layers; NULL: none */
    const char *layers;     /* "encoder.layer." */
    const char *query, *key, *value;
    const char *fused_qkv; /* in place of the three: their rows behind one another */
    const char *out;
    const char *up, *down;
    const char *fused_up; /* in place of up, when gated: the gate's rows, then up's */
    const char *attention_norm, *output_norm; /* about attention, about feed-forward */
} wgi_encoder_names;

/* The head of the family's ...ForSequenceClassification; names as above (head.c). */
typedef struct wgi_head_names {
    const char *dense; /* NULL: the family has no such class here */
    const char *norm;  /* behind the activation; NULL: none */
    const char *out;
    wgi_activation activation; /* behind dense */
    bool is_dense_inside; /* dense is a part of the encoder: it has the prefix (BERT's pooler) */
    bool has_keys; /* classifier_pooling, classifier_activation, classifier_bias of config.json */
} wgi_head_names;

typedef struct wgi_encoder_family {
    const char *model_type;
    wgi_size_key sizes[WGI_SIZE_COUNT];
    const char *activation_key; /* its value is gelu where the key is not there */
    const char *epsilon_key;    /* NULL: always `epsilon` */
    double epsilon;
    const char *pad_key;    /* where `has_pad` and the padding id is configurable: "pad_token_id" */
    uint32_t pad_initial;   /* and its value where the key is not there */
    bool has_pad;           /* positions begin behind the padding id */
    bool is_norm_before;    /* norms stand before attention and feed-forward, not behind the sums */
    bool is_first_unnormed; /* when before: layer 0 takes the embeddings as they are */
    bool is_gated;          /* down(activation(gate x) * up x) */
    bool has_pattern;       /* rotary positions and local layers: the keys of config_pattern.c */
    bool has_buckets;       /* relative_attention_num_buckets */
    wgi_encoder_names names;
    wgi_head_names head;
} wgi_encoder_family;

/* The row of a model_type; NULL: not an encoder that is known. */
const wgi_encoder_family *wgi_encoder_family_find(const char *model_type);
/* What stands before the family's names in this file: its prefix where only that finds the tokens.
 */
const char *wgi_encoder_prefix(const wgi_encoder_family *family, const wgi_weights *weights);
/* By place, NULL behind the last; for messages and tests. */
const wgi_encoder_family *wgi_encoder_family_at(size_t index);

#endif
