/*
 * network.h - the forward pass that a description asks for: the encoder's or the decoder's.
 *
 * The calls and their contracts are those of the encoder in model.h.
 */
#ifndef WGI_NETWORK_H
#define WGI_NETWORK_H

#include "model/model.h"

typedef struct wgi_network wgi_network;

wg_status wgi_network_open(wgi_network **out, const wgi_description *description,
                           const wgi_weights *weights, const wgi_backend *backend, wg_error *err);
void wgi_network_close(wgi_network *network);
size_t wgi_network_bytes(const wgi_network *network);        /* packed weights */
size_t wgi_network_mapped_bytes(const wgi_network *network); /* read in place in the mapped file */
wgi_plan wgi_network_plan(const wgi_network *network, size_t tokens_max, size_t longest_max);
wg_status wgi_network_run(const wgi_network *network, const wgi_bin *bin,
                          const wgi_forward *forward, wgi_view *hidden, wg_error *err);

#endif
