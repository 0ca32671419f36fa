/*
 * backend.h - the operations that a forward pass is written over, and who implements them.
 *
 * A backend is a table of operations on row-major views. The forward passes are written once over
 * this table (model/encoder.c); a position-wise stretch is run in row blocks of the height that the
 * backend names, so that a block stays in the cache from one operation to the next.
 *
 * Letters: T tokens of the bin (rows), H hidden, N heads, D head dim, F feed-forward.
 *
 * The law every implementation keeps: a row's bits depend on that row's input only (in
 * attention: on the rows of its own segment), never on how many rows are computed together, at
 * which place, or by which lane. An operation reads and writes exactly the rows and columns that it
 * was given: nothing that stands beside them, finite or not, can reach a result.
 *
 * Threads: a table is constant; every call may run on any lane, each with its own scratch.
 */
#ifndef WGI_BACKEND_H
#define WGI_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/tensor.h"
#include "engine/bin.h"

#define WGI_BYTE_ALIGN 64 /* of scratch, of the Q/K/V buffer, and (for speed) of views' rows */

typedef enum wgi_activation {
    WGI_ACTIVATION_NONE,
    WGI_ACTIVATION_GELU,      /* x/2 (1 + erf(x/sqrt 2)) */
    WGI_ACTIVATION_GELU_TANH, /* the tanh form: gelu_new, gelu_pytorch_tanh, gelu_fast */
    WGI_ACTIVATION_RELU,
    WGI_ACTIVATION_SILU,
    WGI_ACTIVATION_TANH
} wgi_activation;

/* [rows, columns] floats; stride in floats between rows. */
typedef struct wgi_view {
    float *data;
    size_t stride;
} wgi_view;

/* Floats between the rows of a [rows, columns] view whose rows start on WGI_BYTE_ALIGN. */
static inline size_t wgi_view_stride(size_t columns)
{
    return (columns + 15) / 16 * 16;
}

/* The view of the rows from `row` on. */
static inline wgi_view wgi_view_from(wgi_view view, size_t row)
{
    return (wgi_view){view.data + row * view.stride, view.stride};
}

/* A linear layer packed for its backend: out = in W^T + bias. Opaque. */
typedef struct wgi_linear wgi_linear;

/* What attention needs to know of a layer. */
typedef struct wgi_attention_shape {
    uint32_t head_count;     /* N */
    uint32_t key_head_count; /* of keys and values; divides N; N for plain multi-head */
    uint32_t head_dim;       /* D */
    int is_causal;
    float scale;     /* on the scores, 1 / sqrt(D); above 0 */
    uint32_t window; /* a query sees keys fewer than this many rows away; 0: any distance */
} wgi_attention_shape;

/*
 * What is added to the scaled score of query q and key k: values[head][reach + d], where d is k - q
 * held within [-reach, reach].
 */
typedef struct wgi_relative_bias {
    const float *values; /* [N, 2 reach + 1] */
    uint32_t reach;      /* at most WGI_REACH_MAX */
} wgi_relative_bias;

#define WGI_REACH_MAX 4096

/* The fused Q, K, V projection of one layer together with its attention shape. Opaque. */
typedef struct wgi_attention wgi_attention;

/* Weight tensors of an attention's projections; bias pointers may be NULL. [N*D, H] each. */
typedef struct wgi_attention_weights {
    const wgi_tensor *query, *key, *value;
    const wgi_tensor *query_bias, *key_bias, *value_bias;
    wgi_attention_shape shape;
    const wgi_relative_bias *relative; /* NULL: none; a copy is kept */
    int keep_stored;                   /* as linear_pack_stored does */
} wgi_attention_weights;

typedef struct wgi_norm {
    const float *weight, *bias; /* [H]; bias NULL: none. Borrowed from the model */
    size_t count;               /* H */
    float epsilon;
} wgi_norm;

/*
 * Rotary positions of a bin: element j of a head's first `count` floats is paired with element
 * count / 2 + j. Before it, heads may be RMS-normalised.
 */
typedef struct wgi_rotary {
    wgi_view angles; /* of the bin's row 0: [T, count], count / 2 cosines and then as many sines */
    size_t count;    /* even, at most D */
    const wgi_norm *query_norm, *key_norm; /* over D; NULL: none */
} wgi_rotary;

/* Tables of an embedding layer; type and position may be NULL. Read in place, in stored type. */
typedef struct wgi_embedding {
    const wgi_tensor *token;    /* [V, H] */
    const wgi_tensor *position; /* [P, H] or NULL */
    const wgi_tensor *type;     /* [2, H] or NULL */
    size_t hidden_count;
} wgi_embedding;

/*
 * One independent item of attention: query rows [first, first + count) of a segment, for one key
 * head (and the query heads that share it). first is a multiple of the backend's attend_rows and
 * count at most that many, so that scratch does not grow with the length of a text.
 */
typedef struct wgi_attend_item {
    wgi_segment segment;
    uint32_t first, count;
    uint32_t key_head;
} wgi_attend_item;

typedef struct wgi_backend wgi_backend;

struct wgi_backend {
    const char *name;    /* "cpu", "reference" */
    const char *isa;     /* "avx512", ... */
    size_t block_rows;   /* height of a row block; a multiple of 8 */
    size_t row_multiple; /* a bin's rows are computed rounded up to this (1: exactly) */
    size_t bin_tokens;   /* smallest bin at which throughput has stopped growing, as measured */
    size_t attend_rows;  /* most query rows of one attention item */

    /* --- weights. The tensors may be unmapped afterwards. bytes: what the packed form takes. */
    wg_status (*linear_pack)(const wgi_backend *self, wgi_linear **out, const wgi_tensor *weight,
                             const wgi_tensor *bias, wg_error *err);
    /* Kept in the type of the file where that is smaller, and widened when used: the same bits. */
    wg_status (*linear_pack_stored)(const wgi_backend *self, wgi_linear **out,
                                    const wgi_tensor *weight, const wgi_tensor *bias,
                                    wg_error *err);
    void (*linear_free)(wgi_linear *linear);
    size_t (*linear_bytes)(const wgi_linear *linear);
    wg_status (*attention_pack)(const wgi_backend *self, wgi_attention **out,
                                const wgi_attention_weights *weights, wg_error *err);
    void (*attention_free)(wgi_attention *attention);
    size_t (*attention_bytes)(const wgi_attention *attention);

    /*
     * --- room. Scratch of one lane: for every operation when an attention is given, else for all
     * but attend. Bytes of the Q/K/V buffer of a bin of `rows` rows (SIZE_MAX: does not fit).
     */
    size_t (*scratch_bytes)(const wgi_backend *self, const wgi_attention *attention);
    size_t (*qkv_bytes)(const wgi_attention *attention, size_t rows);

    /* --- operations on `rows` rows. `scratch` is this lane's, aligned to WGI_BYTE_ALIGN. */

    /* out[i] = token[ids[i]] + position[positions[i]] + type[types[i]] */
    void (*embed)(const wgi_backend *self, const wgi_embedding *embedding, const int32_t *token_ids,
                  const int32_t *position_ids, const int32_t *type_ids, wgi_view out, size_t rows);

    /* in place: y = (x - mean) / sqrt(var + epsilon) * weight + bias */
    void (*layer_norm)(const wgi_backend *self, const wgi_norm *norm, wgi_view inout, size_t rows);

    /*
     * out = activation(in W^T + bias) + residual; residual.data NULL: none; out may be residual
     * but not in.
     */
    void (*linear)(const wgi_backend *self, const wgi_linear *linear, wgi_view in, wgi_view out,
                   wgi_view residual, wgi_activation activation, size_t rows, void *scratch);

    /* Q, K, V of rows [row, row + rows) of a bin into its buffer; in is the view of row `row`. */
    void (*qkv)(const wgi_backend *self, const wgi_attention *attention, wgi_view in, void *qkv,
                size_t bin_rows, size_t row, size_t rows, void *scratch);

    /* out = in / sqrt(mean in^2 + epsilon) * weight; out may be in. */
    void (*rms_norm)(const wgi_backend *self, const wgi_norm *norm, wgi_view in, wgi_view out,
                     size_t rows);

    /* inout = (in W^T + bias) inout: with an activated gate in inout, a gated layer. */
    void (*linear_product)(const wgi_backend *self, const wgi_linear *linear, wgi_view in,
                           wgi_view inout, size_t rows, void *scratch);

    /* In place in the Q/K/V buffer: norm and rotation of Q and K of rows [row, row + rows). */
    void (*rotate)(const wgi_backend *self, const wgi_attention *attention,
                   const wgi_rotary *rotary, void *qkv, size_t bin_rows, size_t row, size_t rows);

    /* One item; out is the view of the bin's row 0, [T, N*D]. bin_rows as given to qkv. */
    void (*attend)(const wgi_backend *self, const wgi_attention *attention, const void *qkv,
                   size_t bin_rows, const wgi_attend_item *item, wgi_view out, void *scratch);
};

/*
 * The table by name (NULL: "cpu"; "reference" is for tests) and instruction set (WG_ISA_AUTO: the
 * best this CPU has). An instruction set that the CPU lacks is WG_ERR_BACKEND. Static storage;
 * never freed.
 */
wg_status wgi_backend_find(const wgi_backend **out, const char *name, wg_isa isa, wg_error *err);

#endif
