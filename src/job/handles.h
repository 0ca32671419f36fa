/*
 * handles.h - what is behind the public handle wg_model: every part that a run needs, read-only
 * once open, so that any number of jobs and threads may share it.
 */
#ifndef WGI_HANDLES_H
#define WGI_HANDLES_H

#include "model/head.h"
#include "model/model.h"
#include "model/network.h"

struct wg_model {
    wgi_description description;
    wgi_weights *weights;
    wgi_modules modules;
    wgi_network *network;
    wgi_head head;
    wg_tokenizer *tokenizer;
    const wgi_backend *backend;
    wg_model_info info;
    char *path;
    char hash[33];
};

#endif
