/*
 * vocabulary_unigram.h - a "t5" vocabulary as the parts of a tokenizer.json.
 */
#ifndef WGI_VOCABULARY_UNIGRAM_H
#define WGI_VOCABULARY_UNIGRAM_H

#include "base/buf.h"
#include "tokenizer/vocabulary.h"

/* Written to the end of `out`; an empty normalizer is none. */
wg_status wgi_unigram_normalizer(wgi_buf *out, const wgi_vocabulary *from, wg_error *err);
wg_status wgi_unigram_model(wgi_buf *out, const wgi_vocabulary *from, wg_error *err);
/* Borrowed for good. */
const char *wgi_unigram_pre_tokenizer(const wgi_vocabulary *from);
const char *wgi_unigram_decoder(const wgi_vocabulary *from);

#endif
