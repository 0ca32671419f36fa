/*
 * network.c - chooses between the two forward passes; see network.h.
 *
 * Two pointers and a branch, and no table of functions: there will not be a third pass.
 *
 * Threads: as the passes.
 */
#include "model/network.h"

#include "base/alloc.h"
#include "model/decoder.h"

struct wgi_network {
    wgi_encoder *encoder; /* one of the two */
    wgi_decoder *decoder;
};

wg_status wgi_network_open(wgi_network **out, const wgi_description *description,
                           const wgi_weights *weights, const wgi_backend *backend, wg_error *err)
{
    wgi_network *network = wgi_calloc(1, sizeof(*network));
    wg_status status;

    *out = NULL;
    if (!network) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a network");
    if (description->is_decoder)
        status = wgi_decoder_open(&network->decoder, description, weights, backend, err);
    else
        status = wgi_encoder_open(&network->encoder, description, weights, backend, err);
    if (status == WG_OK)
        *out = network;
    else
        wgi_free(network);
    return status;
}

void wgi_network_close(wgi_network *network)
{
    if (!network) return;
    wgi_decoder_close(network->decoder);
    wgi_encoder_close(network->encoder);
    wgi_free(network);
}

size_t wgi_network_bytes(const wgi_network *network)
{
    return network->decoder ? wgi_decoder_bytes(network->decoder)
                            : wgi_encoder_bytes(network->encoder);
}

size_t wgi_network_mapped_bytes(const wgi_network *network)
{
    return network->decoder ? wgi_decoder_mapped_bytes(network->decoder)
                            : wgi_encoder_mapped_bytes(network->encoder);
}

wgi_plan wgi_network_plan(const wgi_network *network, size_t tokens_max, size_t longest_max)
{
    return network->decoder ? wgi_decoder_plan(network->decoder, tokens_max, longest_max)
                            : wgi_encoder_plan(network->encoder, tokens_max, longest_max);
}

wg_status wgi_network_run(const wgi_network *network, const wgi_bin *bin,
                          const wgi_forward *forward, wgi_view *hidden, wg_error *err)
{
    return network->decoder ? wgi_decoder_run(network->decoder, bin, forward, hidden, err)
                            : wgi_encoder_run(network->encoder, bin, forward, hidden, err);
}
