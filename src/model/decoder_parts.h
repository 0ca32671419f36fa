/*
 * decoder_parts.h - what decoder.c (the pass) and decoder_open.c (its weights) share.
 */
#ifndef WGI_DECODER_PARTS_H
#define WGI_DECODER_PARTS_H

#include "model/decoder.h"

typedef struct wgi_decoder_layer {
    wgi_attention *attention;
    wgi_linear *out, *gate, *up, *down;
    wgi_norm attention_norm, feed_forward_norm; /* before */
    wgi_norm attention_post, feed_forward_post; /* behind; only with has_post_norm */
    wgi_norm query_norm, key_norm;              /* only with has_head_norm */
    bool is_local;
} wgi_decoder_layer;

/* [0] of layers that see everything, [1] of local ones, when these turn otherwise. */
#define WGI_ROPES 2

struct wgi_decoder {
    const wgi_backend *backend;
    wgi_description description;
    wgi_embedding embedding;
    wgi_norm final_norm;
    size_t norms_bytes;             /* weights of all norms, widened */
    double *frequencies[WGI_ROPES]; /* [rotary_count / 2]; [1] NULL: as [0] */
    wgi_decoder_layer layers[];
};

#endif
