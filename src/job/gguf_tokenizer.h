/*
 * gguf_tokenizer.h - the tokenizer that a GGUF file carries in its metadata.
 */
#ifndef WGI_GGUF_TOKENIZER_H
#define WGI_GGUF_TOKENIZER_H

#include "model/gguf.h"
#include "tokenizer/vocabulary.h"

/* Nothing of the file is kept. Messages begin with its path. */
wg_status wgi_gguf_tokenizer_open(wg_tokenizer **out, const wgi_gguf *gguf, wg_error *err);

#endif
