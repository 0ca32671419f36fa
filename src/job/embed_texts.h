/*
 * embed_texts.h - texts in the caller's arrays to vectors in the caller's array.
 */
#ifndef WGI_EMBED_TEXTS_H
#define WGI_EMBED_TEXTS_H

#include "job/handles.h"

/* Borrowed. */
typedef struct wgi_texts {
    const char *const *texts; /* [count] UTF-8 */
    const size_t *bytes;      /* [count], or NULL for NUL-terminated texts */
    size_t count;
} wgi_texts;

/* wg_model_embed, with batches padded instead of packed where padded_batch is not 0. */
wg_status wgi_embed_texts(const wg_model *model, const wgi_texts *texts, float *vectors,
                          size_t vectors_bytes, const wg_embed_options *options,
                          uint32_t padded_batch, wg_error *err);

#endif
