/*
 * decoder.h - the forward pass of causal decoders: Llama, Mistral, Qwen, Gemma 3, Phi-3, Granite.
 *
 * The calls are those of the encoder (model.h); network.h chooses between the two.
 */
#ifndef WGI_DECODER_H
#define WGI_DECODER_H

#include "model/model.h"

typedef struct wgi_decoder wgi_decoder;

/* Packs the weights for the backend and checks every tensor's shape against the description. */
wg_status wgi_decoder_open(wgi_decoder **out, const wgi_description *description,
                           const wgi_weights *weights, const wgi_backend *backend, wg_error *err);
void wgi_decoder_close(wgi_decoder *decoder);
size_t wgi_decoder_bytes(const wgi_decoder *decoder);        /* packed weights */
size_t wgi_decoder_mapped_bytes(const wgi_decoder *decoder); /* read in place in the mapped file */
wgi_plan wgi_decoder_plan(const wgi_decoder *decoder, size_t tokens_max, size_t longest_max);

/* Runs the bin; *hidden is [T, H] behind the final norm, inside bin_memory. The bin was checked. */
wg_status wgi_decoder_run(const wgi_decoder *decoder, const wgi_bin *bin,
                          const wgi_forward *forward, wgi_view *hidden, wg_error *err);

#endif
