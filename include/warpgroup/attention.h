/*
 * attention.h - variable-length attention over packed sequences, for programs with a model of their
 * own.
 *
 * The caller has queries, keys and values of T rows, sequences end to end, and cu_seqlens [S + 1]
 * that says where each begins and ends; rows attend only within their own sequence.
 *
 *     wg_varlen call = {
 *         .query = {query, 12 * 32, 32}, .key = {key, 12 * 32, 32}, .value = {value, 12 * 32, 32},
 *         .out = out, .out_row_stride = 12 * 32, .out_head_stride = 32,
 *         .cu_seqlens = (int32_t[]){0, 5, 12}, .sequence_count = 2,
 *         .head_count = 12, .key_head_count = 12, .head_dim = 32};
 *
 *     if (wg_attention_varlen(&call, &err) != WG_OK) fprintf(stderr, "%s\n", err.message);
 *
 * A row's bits depend on its own sequence only: not on its neighbours, its place, the strides, or
 * the number of threads. Scores are reduced in tiles with an online softmax (Milakov and Gimelshein
 * 2018; Dao et al. 2022), so memory does not grow with the length of a sequence. Exactly the floats
 * of the rows that cu_seqlens covers are read and written, whatever lies between or behind them.
 *
 * Threads: any; calls do not meet, but their helpers are shared: threads of the process that are
 * started when first wanted, work only inside calls, and are started anew in a forked child.
 */
#ifndef WARPGROUP_ATTENTION_H
#define WARPGROUP_ATTENTION_H

#include "warpgroup/warpgroup.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Floats [rows, heads, dim]: the dim floats of a head stand side by side, in any alignment of a
 * float; strides count floats and may be 0.
 */
typedef struct wg_heads {
    const float *data;
    size_t row_stride, head_stride;
} wg_heads;

typedef struct wg_varlen {
    wg_heads query;      /* [T, head_count, head_dim] */
    wg_heads key, value; /* [T, key_head_count, head_dim] */
    float *out;          /* [T, head_count, head_dim]; not where query, key or value are */
    size_t out_row_stride, out_head_stride; /* rows inside heads or heads inside rows, disjoint */
    const int32_t *cu_seqlens; /* [sequence_count + 1], from 0, not falling; the last one is T */
    uint32_t sequence_count;
    uint32_t head_count;
    uint32_t key_head_count; /* divides head_count; query head i goes with key head
                                i / (head_count / key_head_count) */
    uint32_t head_dim;       /* 1 to 512 */
    float scale;             /* on the scores, above 0; 0: 1 / sqrt(head_dim) */
    int is_causal;
    uint32_t window;       /* a query sees keys fewer than this many rows away; 0: any distance */
    uint32_t thread_count; /* most, the calling one included; 0: cores of the affinity mask */
    wg_isa isa;            /* forced instruction set; an error where the CPU lacks it */
} wg_varlen;

/*
 * Errors: WG_ERR_ARGUMENT naming what is wrong, WG_ERR_BACKEND for an instruction set that the CPU
 * lacks, WG_ERR_NO_MEMORY; nothing was written then.
 */
WG_API WG_CHECKED wg_status wg_attention_varlen(const wg_varlen *options, wg_error *err);

#ifdef __cplusplus
}
#endif
#endif
