/*
 * tokenizer.h - the stages of a tokenizer and what the rest of the product may ask of it beyond
 * the public calls.
 *
 *   text ─▶ added tokens ─▶ normaliser ─▶ pre-tokeniser ─▶ model ─▶ truncation ─▶ post-processor ─▶
 * ids; and back: ids ─▶ names of tokens ─▶ decoder ─▶ text
 *
 * Each stage is a file with a table of the types it knows; a type more is a row and a function.
 */
#ifndef WGI_TOKENIZER_H
#define WGI_TOKENIZER_H

#include "tokenizer/added_tokens.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_decoder.h"
#include "tokenizer/token_model.h"
#include "tokenizer/unicode.h"
#include "warpgroup/warpgroup.h"

struct wg_tokenizer {
    uint64_t serial; /* no two tokenizers of a process share it */
    const wgi_char_table *chars;
    wgi_added_tokens added;
    wgi_normalizer normalizer;
    wgi_pre_tokenizer pre_tokenizer;
    wgi_token_model model;
    wgi_post_processor post_processor;
    wgi_token_decoder decoder;
    int64_t id_end;
};

/* Every id that can come out is below it. */
int64_t wgi_tokenizer_id_end(const wg_tokenizer *tokenizer);
/* A model directory that holds tokenizer.json, or that file. */
wg_status wgi_tokenizer_open_json(wg_tokenizer **out, const char *path, wg_error *err);
/* For makers of tokenizers: one without stages, and what is to be done once it has them. */
wg_status wgi_tokenizer_new(wg_tokenizer **out, wg_error *err);
wg_status wgi_tokenizer_settle(wg_tokenizer *tokenizer, wg_error *err);
/* From the text of a tokenizer.json; nothing of it is kept. */
wg_status wgi_tokenizer_parse(wg_tokenizer **out, wgi_slice text, wg_error *err);

#endif
