/*
 * gguf_names.h - what GGUF calls things: tensors by their Hugging Face names, and the metadata that
 * describes a model, for the architectures that are known.
 *
 * What a converter changed in the tensors themselves is said by flags:
 *
 *   WGI_GGUF_PERMUTED_Q, _K  rows of Q (head_count heads) or K (key_head_count heads) are reordered
 *                            for interleaved rotation: row r of the Hugging Face matrix, or entry r
 *                            of the bias, is row wgi_gguf_unpermute_row(r, heads, head_dim) here
 *   WGI_GGUF_PLUS_ONE        a norm weight is stored as 1 + w (Gemma): use it as it is
 *
 * Further differences from a Hugging Face directory: RoBERTa's position table comes without its
 * first padding_idx + 1 rows, so that positions begin at 0; llama3 rope scaling is a tensor,
 * rope_freqs.weight [head_dim / 2], whose factors divide the frequencies; tied heads have no
 * output.weight.
 */
#ifndef WGI_GGUF_NAMES_H
#define WGI_GGUF_NAMES_H

#include "model/gguf.h"

typedef enum wgi_gguf_architecture {
    WGI_GGUF_LLAMA, /* Llama, Mistral, SmolLM2 */
    WGI_GGUF_QWEN2,
    WGI_GGUF_QWEN3,
    WGI_GGUF_GEMMA3,
    WGI_GGUF_BERT, /* BERT, RoBERTa, XLM-RoBERTa */
    WGI_GGUF_ARCHITECTURE_COUNT
} wgi_gguf_architecture;

enum { WGI_GGUF_PERMUTED_Q = 1, WGI_GGUF_PERMUTED_K = 2, WGI_GGUF_PLUS_ONE = 4 };

#define WGI_GGUF_NAME_BYTES 128

/* "llama", ... */
const char *wgi_gguf_architecture_name(wgi_gguf_architecture architecture);

/*
 * "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight", and back. false: no tensor of
 * that architecture has the name. *flags may be NULL. rope_freqs.weight keeps its name.
 */
bool wgi_gguf_name_to_hf(wgi_gguf_architecture architecture, const char *name,
                         char out[WGI_GGUF_NAME_BYTES], unsigned *flags);
bool wgi_gguf_name_from_hf(wgi_gguf_architecture architecture, const char *name,
                           char out[WGI_GGUF_NAME_BYTES], unsigned *flags);

/*
 * Where row `row` of a Hugging Face Q or K matrix stands in a permuted GGUF tensor of heads x
 * head_dim rows (head_dim even); rows behind the heads stay.
 */
uint64_t wgi_gguf_unpermute_row(uint64_t row, uint64_t heads, uint64_t head_dim);

/* What the metadata says of the model. A float or count that has no key and no default is 0. */
typedef struct wgi_gguf_fields {
    wgi_gguf_architecture architecture;
    uint64_t layer_count, hidden_count, feed_forward_count;
    uint64_t head_count, key_head_count;
    uint64_t head_dim;         /* key_length, else hidden_count / head_count */
    uint64_t rotary_count;     /* rope.dimension_count, else head_dim; BERT: 0 */
    uint64_t position_count;   /* context_length */
    uint64_t vocabulary_count; /* rows of token_embd.weight */
    uint64_t token_count;      /* tokenizer.ggml.tokens; 0: no tokenizer in the file */
    uint64_t type_count;       /* token types (BERT); 0: none */
    double norm_epsilon;
    double rope_base;         /* 10000 unless said */
    double rope_base_local;   /* of layers with a window (gemma3); 10000 unless said */
    double rope_factor;       /* linear scaling: positions are divided by it; 1: none. Layers with a
                                 window (gemma3) are not scaled */
    bool has_rope_factors;    /* rope_freqs.weight is there */
    bool has_output;          /* output.weight is there; else the head is tied */
    uint64_t sliding_window;  /* 0: none */
    uint64_t sliding_pattern; /* every n-th layer sees everything (gemma3: 6); 0: all alike */
    double attention_scale;   /* 0: 1 / sqrt(head_dim) */
    double attention_softcap, final_softcap; /* 0: none */
    bool is_causal;
    int64_t pooling_type; /* 0 none, 1 mean, 2 cls, 3 last, 4 rank; -1: not said */
} wgi_gguf_fields;

/*
 * Reads them. WG_ERR_FORMAT: a key is missing, of another type, or out of range;
 * WG_ERR_UNSUPPORTED: an architecture or a setting that is not implemented, by name.
 */
wg_status wgi_gguf_fields_read(wgi_gguf_fields *out, const wgi_gguf *gguf, wg_error *err);

#endif
