/*
 * encoder_parts.h - what encoder.c (the pass) and encoder_open.c (its weights) share.
 */
#ifndef WGI_ENCODER_PARTS_H
#define WGI_ENCODER_PARTS_H

#include "model/encoder_family.h"

typedef struct wgi_encoder_layer {
    wgi_attention *attention;
    wgi_linear *out, *up, *down;
    wgi_linear *gate;                     /* NULL: not gated */
    wgi_norm attention_norm, output_norm; /* weight NULL: none */
    bool is_local;
} wgi_encoder_layer;

/* [0] of layers that see everything, [1] of local ones. */
#define WGI_ENCODER_ROPES 2

struct wgi_encoder {
    const wgi_backend *backend;
    const wgi_encoder_family *family;
    wgi_description description;
    wgi_embedding embedding;
    wgi_norm embedding_norm, final_norm; /* final: weight NULL: none */
    float *norms; /* [2 (2 + 2 layers), H] weights and biases of all norms, widened */
    size_t norms_bytes;
    double *frequencies[WGI_ENCODER_ROPES]; /* [rotary_count / 2]; NULL: no rotary positions */
    wgi_encoder_layer layers[];
};

#endif
