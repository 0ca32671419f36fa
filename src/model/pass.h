/*
 * pass.h - what the two forward passes (encoder.c, decoder.c) have in common: their order of loops,
 * memory of a bin cut into parts, segments cut into stretches, angles of rotary positions, ids that
 * index tables.
 */
#ifndef WGI_PASS_H
#define WGI_PASS_H

#include "model/model.h"

/* Query rows [first, first + count) of segment `segment`: what attention takes at once. */
typedef struct wgi_stretch {
    uint32_t segment, first, count;
} wgi_stretch;

/* The next part of `base` (NULL: only counting); *at stays SIZE_MAX once anything overflows. */
void *wgi_carve(char *base, size_t *at, size_t count, size_t item_bytes);
/* Rows of `columns` floats. */
wgi_view wgi_carve_view(char *base, size_t *at, size_t rows, size_t columns);

/* A bin on its way through a network. */
typedef struct wgi_pass {
    const wgi_description *description;
    const wgi_backend *backend;
    const wgi_bin *bin;
    const wgi_forward *forward;
    /* In the bin's memory: */
    wgi_view hidden, context; /* [T, H], [T, N*D] */
    void *qkv;                /* of the layer whose attention is next */
    wgi_stretch *stretches;
    /* Layers, by number: */
    uint32_t layer; /* whose loop is running */
    uint32_t next;  /* whose Q/K/V a block makes; layer_count: there is none */
} wgi_pass;

/* Carves the parts that every pass has. attention: of any layer; NULL when there is none. */
void wgi_pass_carve(wgi_pass *pass, const wgi_attention *attention, size_t tokens, char *base,
                    size_t *at);

/* Rows [row, row + rows) of the bin, which stay in L2 from one operation to the next. */
typedef struct wgi_block {
    size_t row, rows;
    wgi_view hidden, context;
} wgi_block;
wgi_block wgi_pass_block(const wgi_pass *pass, size_t index);

/* Item `index` of the loop over (stretch, key head). */
void wgi_pass_attend(const wgi_pass *pass, const wgi_attention *attention, size_t index,
                     void *scratch);

typedef struct wgi_pass_loops {
    wgi_loop_body *embed, *layer; /* over blocks */
    wgi_loop_body *attend;        /* over (stretch, key head) */
    wgi_loop_body *last;          /* over blocks; NULL: nothing is left to do */
} wgi_pass_loops;
/* Runs them over the bin, the layers in turn, each loop with `context`. */
void wgi_pass_run(wgi_pass *pass, const wgi_pass_loops *loops, void *context);

/* Cosines, then sines, of the position times each frequency: `half` of either. */
void wgi_angles_turn(const double *frequencies, size_t half, int32_t position, float *out);

/* Ids index tables, so they are looked at whatever the caller promised. */
wg_status wgi_bin_ids_check(const wgi_description *description, const wgi_bin *bin, wg_error *err);

#endif
