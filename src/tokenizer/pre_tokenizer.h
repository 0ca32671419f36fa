/*
 * pre_tokenizer.h - the stage that splits normalised text into words for the model: a list of
 * steps, each of which splits every piece of the step before. A pre-tokeniser of the file is a row
 * of the table in pre_tokenizer.c.
 */
#ifndef WGI_PRE_TOKENIZER_H
#define WGI_PRE_TOKENIZER_H

#include "base/json.h"
#include "tokenizer/file_part.h"
#include "tokenizer/unicode.h"

#define WGI_PRE_TOKENIZER_STEPS_MAX 16

/* Bytes of the normalised text; chunks are shorter than 4 GiB. */
typedef struct wgi_span {
    uint32_t begin, end;
} wgi_span;

typedef struct wgi_spans {
    wgi_span *items;
    size_t count, capacity;
} wgi_spans;

/* Appends the words of text[piece.begin, piece.end), none of them empty. */
typedef wg_status wgi_pre_tokenizer_run(const wgi_char_table *chars, const char *text,
                                        wgi_span piece, wgi_spans *out, wg_error *err);

typedef struct wgi_pre_tokenizer {
    wgi_pre_tokenizer_run *steps[WGI_PRE_TOKENIZER_STEPS_MAX];
    size_t step_count;
    bool splits_at_space; /* blanks belong to no word, so a text may be cut before any of them */
} wgi_pre_tokenizer;

wg_status wgi_pre_tokenizer_load(wgi_pre_tokenizer *pre_tokenizer, wgi_slice part,
                                 wgi_refusals *refusals, wg_error *err);
/* Fills words; spare is for steps in between. */
wg_status wgi_pre_tokenize(const wgi_pre_tokenizer *pre_tokenizer, const wgi_char_table *chars,
                           wgi_slice text, wgi_spans *words, wgi_spans *spare, wg_error *err);

#endif
