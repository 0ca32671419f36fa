/*
 * model.h - what a model directory holds, read once and then shared by every worker.
 *
 *   config.json ----> description (config.c)          which forward pass, with which sizes
 *   *.safetensors --> tensors (safetensors.c)         mapped, validated, borrowed
 *   modules.json ---> sentence modules (modules.c)    pooling, dense layers, normalise, prompts
 *   description + tensors --> encoder (encoder.c)     packed weights and the forward pass
 */
#ifndef WGI_MODEL_H
#define WGI_MODEL_H

#include <stdbool.h>

#include "backend/backend.h"
#include "base/crew.h"
#include "base/status.h"
#include "base/tensor.h"
#include "engine/bin.h"

/* ----------------------------------------------------------- weights (weights.c, safetensors.c) */

typedef struct wgi_weights wgi_weights;

/*
 * Opens model.safetensors, or the shards that model.safetensors.index.json names, in `path`; the
 * path of one .safetensors, index or .gguf file is accepted too (a GGUF file's tensors have their
 * Hugging Face names). Everything is validated here.
 */
wg_status wgi_weights_open(wgi_weights **out, const char *path, wg_error *err);
void wgi_weights_close(wgi_weights *weights);
size_t wgi_weights_count(const wgi_weights *weights);
const wgi_tensor *wgi_weights_at(const wgi_weights *weights, size_t index);
/* NULL when there is none of that name. */
const wgi_tensor *wgi_weights_find(const wgi_weights *weights, const char *name);
uint64_t wgi_weights_bytes(const wgi_weights *weights); /* of the files */
/* For messages: the file, or the index. */
const char *wgi_weights_path(const wgi_weights *weights);
/* Hash over headers and sizes of the files (FNV-1a 64 or better), hex, NUL-terminated. */
void wgi_weights_hash(const wgi_weights *weights, char hex[33]);
/*
 * The tensor with its rows as Hugging Face orders them: *out is a copy of its handle, and *copy the
 * reordered bytes (for wgi_free) where the file has another order, else NULL.
 */
wg_status wgi_weights_in_order(const wgi_weights *weights, const wgi_tensor *tensor,
                               wgi_tensor *out, void **copy, wg_error *err);
/* Mapped pages of a tensor that was copied elsewhere may go. */
void wgi_weights_drop(const wgi_weights *weights, const wgi_tensor *tensor);

/* A tensor that a forward pass needs, and which keys of config.json say so. */
typedef struct wgi_tensor_need {
    const char *name;
    const char *asked_by; /* why there must be one: "num_hidden_layers 3"; NULL: not said */
    uint32_t rank;
    uint64_t shape[WGI_TENSOR_RANK_MAX];
    const char *keys[WGI_TENSOR_RANK_MAX]; /* key whose value shape[i] is: "hidden_size"; or NULL */
} wgi_tensor_need;

/*
 * Finds it and checks its type (F32, F16, BF16) and shape. Errors name file, tensor, its shape or
 * dtype, and the keys with their values: WG_ERR_FORMAT, or WG_ERR_UNSUPPORTED for another dtype.
 */
wg_status wgi_weights_need(const wgi_weights *weights, const wgi_tensor_need *need,
                           const wgi_tensor **tensor, wg_error *err);

/* --------------------------------------------------------------------- description (config.c) */

/* How a position turns the pairs of a head: pair j of n by position * base^(-j / n), scaled. */
typedef struct wgi_rope {
    double base;
    double factor;    /* frequencies are divided by it; 1: no scaling */
    bool is_llama3;   /* only the low ones: by wavelength between original / high and / low */
    double low, high; /* low_freq_factor, high_freq_factor */
    double original;  /* original_max_position_embeddings */
} wgi_rope;

#define WGI_LAYER_MAX 4096

/* What decoders differ in (config_decoder.c, config_gguf.c). */
typedef struct wgi_decoder_traits {
    wgi_rope rope, rope_local; /* local: of layers with a window */
    uint32_t rotary_count;     /* leading floats of a head that are rotated */
    uint32_t window;           /* of local layers: keys that a row sees; 0: no layer is local */
    uint8_t local_layers[WGI_LAYER_MAX / 8];
    float embedding_scale, attention_scale, residual_scale;
    bool has_qkv_bias, has_out_bias, has_mlp_bias;
    bool has_head_norm;    /* RMS norm of every query and key head */
    bool has_post_norm;    /* Gemma: norms behind attention and feed-forward too */
    bool is_fused;         /* Phi-3: Q, K and V are one tensor, gate and up another */
    bool is_norm_plus_one; /* norms multiply by 1 + weight */
    bool keep_stored;      /* weights in the type of the file, however small the model is */
    bool has_rope_factors; /* tensor rope_freqs.weight divides the frequencies (GGUF) */
} wgi_decoder_traits;

static inline bool wgi_layer_is_local(const wgi_decoder_traits *traits, uint32_t layer)
{
    return traits->local_layers[layer / 8] >> layer % 8 & 1;
}

/*
 * What encoders of one family may differ in (config.c); zeros are BERT. What a whole family has in
 * common stands in its row of encoder_family.c.
 */
typedef struct wgi_encoder_traits {
    bool lacks_norm_bias, lacks_attention_bias, lacks_feed_forward_bias;
    uint32_t rotary_count; /* floats of a head that are rotated; 0: none */
    double rotary_base, rotary_base_local;
    uint32_t window; /* of local layers: keys fewer than this many rows away; 0: no layer is */
    uint8_t local_layers[WGI_LAYER_MAX / 8];
} wgi_encoder_traits;

typedef struct wgi_description {
    char architecture[32]; /* model_type: "bert" */
    uint32_t layer_count, hidden_count, head_count, key_head_count, head_dim, feed_forward_count;
    uint64_t vocabulary_count;
    uint32_t position_count;  /* rows of the position table; without one, the model's limit */
    uint32_t position_offset; /* position id of a text's first token (RoBERTa: padding_idx + 1) */
    uint32_t type_count;
    wgi_activation activation;
    float norm_epsilon;
    wgi_encoder_traits encoder;
    bool is_decoder;
    wgi_decoder_traits decoder; /* only then */
    bool has_pooling;           /* the weight file says how (GGUF) */
    wg_pooling pooling;
} wgi_description;

/*
 * Reads config.json. Keys that would change the answer and are not implemented are refused by name
 * (an unknown activation, relative positions, is_decoder true, ...).
 */
wg_status wgi_description_load(wgi_description *out, const char *directory, wg_error *err);
/* The activation that transformers calls so; false: none that backends have. */
bool wgi_activation_find(const char *name, wgi_activation *out);
/* The same of a decoder family (config_decoder.c); which model_types are one. */
bool wgi_model_type_is_decoder(const char *model_type);
/* By place, NULL behind the last. */
const char *wgi_decoder_type_at(size_t index);
wg_status wgi_description_load_decoder(wgi_description *out, const char *directory,
                                       const char *model_type, wg_error *err);
/* Of one GGUF file (config_gguf.c). */
bool wgi_path_is_gguf(const char *path);
wg_status wgi_description_load_gguf(wgi_description *out, const char *path, wg_error *err);

/* ------------------------------------------------- sentence-transformers modules (modules.c) */

#define WGI_DENSE_MAX 4

typedef struct wgi_dense {
    const wgi_tensor *weight, *bias; /* [out, in], [out] or NULL */
    wgi_activation activation;       /* NONE (Identity) or TANH ... as the module says */
    wgi_weights *weights;            /* owns the file */
} wgi_dense;

typedef struct wgi_modules {
    wg_pooling pooling;
    bool normalize;
    bool include_prompt; /* prompt tokens take part in pooling */
    uint32_t dense_count;
    wgi_dense dense[WGI_DENSE_MAX];
    uint32_t token_count_default; /* max_seq_length clamped to the positions; never 0 */
    const char *pooling_rule, *normalize_rule, *length_rule; /* static texts */
    bool lower_case; /* do_lower_case of sentence_bert_config.json */
    uint32_t prompt_count;
    char **prompt_names, **prompts; /* [prompt_count], UTF-8 */
    char *default_prompt_name;      /* NULL: none */
} wgi_modules;

/*
 * Reads modules.json and what it names; without it the architecture's default (mean, then unit
 * length) and config.json's positions hold. What is not implemented is refused by name.
 */
wg_status wgi_modules_load(wgi_modules *out, const char *directory,
                           const wgi_description *description, wg_error *err);
void wgi_modules_fini(wgi_modules *modules);

/* ------------------------------------------------------------------- forward pass (encoder.c) */

typedef struct wgi_encoder wgi_encoder;

/* Packs the weights for the backend and checks every tensor's shape against the description. */
wg_status wgi_encoder_open(wgi_encoder **out, const wgi_description *description,
                           const wgi_weights *weights, const wgi_backend *backend, wg_error *err);
void wgi_encoder_close(wgi_encoder *encoder);
size_t wgi_encoder_bytes(const wgi_encoder *encoder); /* packed weights */
/* Tables that are read in place in the mapped file. */
size_t wgi_encoder_mapped_bytes(const wgi_encoder *encoder);

/* Activation memory of one bin: computed by the same code that carves it (plan.c). */
typedef struct wgi_plan {
    size_t tokens_max;  /* T */
    size_t longest_max; /* most rows of one segment */
    size_t bin_bytes;   /* of one bin in a worker's hands */
    size_t lane_bytes;  /* scratch of one lane */
} wgi_plan;
wgi_plan wgi_encoder_plan(const wgi_encoder *encoder, size_t tokens_max, size_t longest_max);

/*
 * Called after the embedding (layer 0) and after each layer, with [T, H], before any final norm;
 * for tests.
 */
typedef void wgi_layer_probe(void *context, uint32_t layer, wgi_view hidden, size_t rows);

typedef struct wgi_forward {
    void *bin_memory;         /* plan.bin_bytes, aligned to WGI_BYTE_ALIGN */
    void *const *lane_memory; /* [lanes] of plan.lane_bytes each, aligned likewise */
    wgi_crew *crew;           /* NULL: this thread alone, lane 0 */
    size_t lane;
    wgi_layer_probe *probe; /* NULL: none */
    void *probe_context;
} wgi_forward;

/* Runs the bin; *hidden is [T, H] inside bin_memory. The bin was checked. */
wg_status wgi_encoder_run(const wgi_encoder *encoder, const wgi_bin *bin,
                          const wgi_forward *forward, wgi_view *hidden, wg_error *err);

#endif
