/*
 * gguf_names.c - tensor names of GGUF and of Hugging Face, one table for all architectures.
 *
 * The idea: a name is a prefix with a layer number, a part, and "weight" or "bias". Only the part
 * has to be looked up; a row of the table says what it is called on either side, and which
 * architectures have it. Where two architectures mean different things by one name (ffn_norm), each
 * has its row. A new architecture is a bit in the rows that fit and rows for what is its own.
 *
 * The names are those of the GGUF specification and of the model classes in transformers.
 *
 * Refused: a list of whole names made for each model. It would be as long as the model is deep.
 *
 * Threads: no state.
 */
#include "model/gguf_names.h"

#include <stdio.h>
#include <string.h>

#define LLAMA    (1u << WGI_GGUF_LLAMA)
#define QWEN2    (1u << WGI_GGUF_QWEN2)
#define QWEN3    (1u << WGI_GGUF_QWEN3)
#define GEMMA3   (1u << WGI_GGUF_GEMMA3)
#define BERT     (1u << WGI_GGUF_BERT)
#define QWENS    (QWEN2 | QWEN3)
#define DECODERS (LLAMA | QWENS | GEMMA3)

static const struct architecture_row {
    const char *name;
    const char *hf_layers; /* before the layer's number */
} architectures[WGI_GGUF_ARCHITECTURE_COUNT] = {
    [WGI_GGUF_LLAMA] = {"llama", "model.layers."}, [WGI_GGUF_QWEN2] = {"qwen2", "model.layers."},
    [WGI_GGUF_QWEN3] = {"qwen3", "model.layers."}, [WGI_GGUF_GEMMA3] = {"gemma3", "model.layers."},
    [WGI_GGUF_BERT] = {"bert", "encoder.layer."},
};

typedef struct name_row {
    const char *gguf, *hf;
    unsigned architectures; /* bits */
    unsigned flags;
} name_row;

static const name_row model_rows[] = {
    {"token_embd", "model.embed_tokens", DECODERS, 0},
    {"output_norm", "model.norm", LLAMA | QWENS, 0},
    {"output_norm", "model.norm", GEMMA3, WGI_GGUF_PLUS_ONE},
    {"output", "lm_head", DECODERS, 0},
    {"rope_freqs", "rope_freqs", LLAMA | QWENS, 0},
    {"token_embd", "embeddings.word_embeddings", BERT, 0},
    {"token_types", "embeddings.token_type_embeddings", BERT, 0},
    {"position_embd", "embeddings.position_embeddings", BERT, 0},
    {"token_embd_norm", "embeddings.LayerNorm", BERT, 0},
    {"cls", "classifier.dense", BERT, 0},
    {"cls.output", "classifier.out_proj", BERT, 0},
};

static const name_row layer_rows[] = {
    {"attn_norm", "input_layernorm", LLAMA | QWENS, 0},
    {"attn_norm", "input_layernorm", GEMMA3, WGI_GGUF_PLUS_ONE},
    {"attn_q", "self_attn.q_proj", LLAMA, WGI_GGUF_PERMUTED_Q},
    {"attn_k", "self_attn.k_proj", LLAMA, WGI_GGUF_PERMUTED_K},
    {"attn_q", "self_attn.q_proj", QWENS | GEMMA3, 0},
    {"attn_k", "self_attn.k_proj", QWENS | GEMMA3, 0},
    {"attn_v", "self_attn.v_proj", DECODERS, 0},
    {"attn_output", "self_attn.o_proj", DECODERS, 0},
    {"attn_q_norm", "self_attn.q_norm", QWEN3, 0},
    {"attn_k_norm", "self_attn.k_norm", QWEN3, 0},
    {"attn_q_norm", "self_attn.q_norm", GEMMA3, WGI_GGUF_PLUS_ONE},
    {"attn_k_norm", "self_attn.k_norm", GEMMA3, WGI_GGUF_PLUS_ONE},
    {"ffn_norm", "post_attention_layernorm", LLAMA | QWENS, 0},
    {"post_attention_norm", "post_attention_layernorm", GEMMA3, WGI_GGUF_PLUS_ONE},
    {"ffn_norm", "pre_feedforward_layernorm", GEMMA3, WGI_GGUF_PLUS_ONE},
    {"post_ffw_norm", "post_feedforward_layernorm", GEMMA3, WGI_GGUF_PLUS_ONE},
    {"ffn_gate", "mlp.gate_proj", DECODERS, 0},
    {"ffn_up", "mlp.up_proj", DECODERS, 0},
    {"ffn_down", "mlp.down_proj", DECODERS, 0},
    {"attn_q", "attention.self.query", BERT, 0},
    {"attn_k", "attention.self.key", BERT, 0},
    {"attn_v", "attention.self.value", BERT, 0},
    {"attn_output", "attention.output.dense", BERT, 0},
    {"attn_output_norm", "attention.output.LayerNorm", BERT, 0},
    {"ffn_up", "intermediate.dense", BERT, 0},
    {"ffn_down", "output.dense", BERT, 0},
    {"layer_output_norm", "output.LayerNorm", BERT, 0},
};

const char *wgi_gguf_architecture_name(wgi_gguf_architecture architecture)
{
    return architectures[architecture].name;
}

/* A name taken apart: [prefix N.] part . suffix */
typedef struct name_parts {
    const char *layer; /* digits, or NULL where the tensor is not of a layer */
    size_t layer_bytes;
    const char *part;
    size_t part_bytes;
    const char *suffix; /* "weight", "bias" */
} name_parts;

static bool split_name(const char *name, const char *layers, name_parts *out)
{
    size_t prefix_bytes = strlen(layers);

    *out = (name_parts){.part = name};
    if (strncmp(name, layers, prefix_bytes) == 0) {
        out->layer = name + prefix_bytes;
        out->layer_bytes = strspn(out->layer, "0123456789");
        if (out->layer_bytes == 0 || out->layer_bytes > 9 || out->layer[out->layer_bytes] != '.')
            return false;
        if (out->layer[0] == '0' && out->layer_bytes > 1) return false;
        out->part = out->layer + out->layer_bytes + 1;
    }
    const char *dot = strrchr(out->part, '.');
    if (!dot) return false;
    out->part_bytes = (size_t)(dot - out->part);
    out->suffix = dot + 1;
    return strcmp(out->suffix, "weight") == 0 || strcmp(out->suffix, "bias") == 0;
}

/* The architecture's row whose name on the one side is that of the part; NULL: none. */
static const name_row *row_find(wgi_gguf_architecture architecture, const name_parts *parts,
                                bool is_gguf)
{
    const name_row *rows = parts->layer ? layer_rows : model_rows;
    size_t count = parts->layer ? sizeof(layer_rows) / sizeof(layer_rows[0])
                                : sizeof(model_rows) / sizeof(model_rows[0]);

    for (size_t i = 0; i < count; i++) {
        const char *name = is_gguf ? rows[i].gguf : rows[i].hf;
        if (!(rows[i].architectures >> architecture & 1)) continue;
        if (strlen(name) == parts->part_bytes && memcmp(name, parts->part, parts->part_bytes) == 0)
            return &rows[i];
    }
    return NULL;
}

static bool translate(wgi_gguf_architecture architecture, const char *name, bool to_hf,
                      char out[WGI_GGUF_NAME_BYTES], unsigned *flags)
{
    const char *hf_layers = architectures[architecture].hf_layers;
    const name_row *row = NULL;
    name_parts parts;

    out[0] = 0;
    if (flags) *flags = 0;
    if (split_name(name, to_hf ? "blk." : hf_layers, &parts))
        row = row_find(architecture, &parts, to_hf);
    if (!row) return false;
    const char *part = to_hf ? row->hf : row->gguf;
    if (parts.layer)
        (void)snprintf(out, WGI_GGUF_NAME_BYTES, "%s%.*s.%s.%s", to_hf ? hf_layers : "blk.",
                       (int)parts.layer_bytes, parts.layer, part, parts.suffix);
    else
        (void)snprintf(out, WGI_GGUF_NAME_BYTES, "%s.%s", part, parts.suffix);
    if (flags) *flags = row->flags;
    return true;
}

bool wgi_gguf_name_to_hf(wgi_gguf_architecture architecture, const char *name,
                         char out[WGI_GGUF_NAME_BYTES], unsigned *flags)
{
    return translate(architecture, name, true, out, flags);
}

bool wgi_gguf_name_from_hf(wgi_gguf_architecture architecture, const char *name,
                           char out[WGI_GGUF_NAME_BYTES], unsigned *flags)
{
    return translate(architecture, name, false, out, flags);
}

/*
 * Rotation pairs element i of a head with element i + D/2 in Hugging Face's order, and element 2i
 * with 2i + 1 in the interleaved one.
 */
uint64_t wgi_gguf_unpermute_row(uint64_t row, uint64_t heads, uint64_t head_dim)
{
    uint64_t half = head_dim / 2;

    if (half == 0 || row / head_dim >= heads) return row;
    uint64_t in_head = row % head_dim;
    return row - in_head + 2 * (in_head % half) + in_head / half;
}
