/*
 * open_network.h - a model's description, weights and network, opened together and again after the
 * description was changed. The files are a test's own or the program's: without them it ends.
 */
#ifndef WGT_OPEN_NETWORK_H
#define WGT_OPEN_NETWORK_H

#include "harness.h"
#include "model/network.h"

typedef struct wgt_network {
    const wgi_backend *backend;
    wgi_description description;
    wgi_weights *weights;
    wgi_network *network;
} wgt_network;

/* As the description says now. */
static inline void wgt_network_again(wgt_network *m)
{
    wg_error err = {0};

    wgi_network_close(m->network);
    m->network = NULL;
    EXPECT_OK(wgi_network_open(&m->network, &m->description, m->weights, m->backend, &err));
    if (!m->network) exit(1);
}

static inline wgt_network wgt_network_open(const wgi_backend *backend, const char *path)
{
    wgt_network m = {.backend = backend};
    wg_error err = {0};

    EXPECT_OK(wgi_description_load(&m.description, path, &err));
    EXPECT_OK(wgi_weights_open(&m.weights, path, &err));
    if (!m.weights) exit(1);
    wgt_network_again(&m);
    return m;
}

static inline void wgt_network_close(wgt_network *m)
{
    wgi_network_close(m->network);
    wgi_weights_close(m->weights);
}

#endif
