/*
 * weights_gguf.h - the tensors of a GGUF file under the names that Hugging Face gives them.
 */
#ifndef WGI_WEIGHTS_GGUF_H
#define WGI_WEIGHTS_GGUF_H

#include "model/gguf_names.h"
#include "model/safetensors.h"

/* Appends every tensor; those that no table knows keep the name that they have in the file. */
wg_status wgi_gguf_entries(wgi_entries *entries, const wgi_gguf *gguf,
                           const wgi_gguf_fields *fields, wg_error *err);

/* See wgi_weights_in_order. */
wg_status wgi_gguf_in_order(const wgi_gguf_fields *fields, const wgi_tensor *tensor,
                            wgi_tensor *out, void **copy, wg_error *err);

#endif
