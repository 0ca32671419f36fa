/*
 * embed.h - the embedding head: hidden states of a segment -> one vector (or one a token).
 *
 *   rows ---pooling---> [H] ---dense layers---> [width] ---normalise---> cut ---normalise again--->
 *
 * As sentence-transformers 6 does it: the modules of the model directory make the whole vector (its
 * Normalize module too), truncate_dim cuts it, and only a caller who asks for normalisation gets
 * the cut vector normalised again. With WG_POOLING_NONE the rows are the hidden states themselves:
 * modules that are made for sentences have no part in it, options that the caller gives have.
 * Sums run in a fixed order over the segment's own rows, so the bits do not depend on the bin.
 */
#ifndef WGI_EMBED_H
#define WGI_EMBED_H

#include <stdbool.h>

#include "backend/backend.h"
#include "model/model.h"

typedef struct wgi_embed_head {
    const wgi_modules *modules;
    const wgi_backend *backend;
    wgi_linear *dense[WGI_DENSE_MAX]; /* packed */
    wg_pooling pooling;               /* never WG_POOLING_MODEL */
    bool normalize;                   /* vectors leave normalised, before or after the cut */
    bool normalize_whole;             /* before truncate_dim cuts */
    bool normalize_cut;               /* after it */
    uint32_t dense_count;             /* layers in `dense` */
    size_t hidden_count;              /* H */
    size_t width;                     /* floats before the cut */
    size_t dim;                       /* floats a row, after truncate_dim */
} wgi_embed_head;

/*
 * Settles pooling, normalisation and dim from options and modules, and packs the dense layers. A
 * truncate_dim above the model's dimension is WG_ERR_ARGUMENT. Modules and backend must outlive the
 * head.
 */
wg_status wgi_embed_head_init(wgi_embed_head *head, const wg_embed_options *options,
                              const wgi_modules *modules, const wgi_description *description,
                              const wgi_backend *backend, wg_error *err);
void wgi_embed_head_fini(wgi_embed_head *head);
size_t wgi_embed_head_scratch_bytes(const wgi_embed_head *head); /* aligned to WGI_BYTE_ALIGN */

/*
 * hidden: view of the segment's first row, `rows` rows. Rows [0, skip) (a prompt that the model
 * leaves out of pooling) do not take part, unless nothing would be left; the weights of the
 * weighted mean still count from the text's first row. out: [dim], or [rows, dim] with all rows for
 * WG_POOLING_NONE. Returns false when a value is not finite.
 */
bool wgi_embed_pool(const wgi_embed_head *head, wgi_view hidden, size_t rows, size_t skip,
                    float *out, void *scratch);

#endif
