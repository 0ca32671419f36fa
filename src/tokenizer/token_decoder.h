/*
 * token_decoder.h - the stage that makes text of tokens: a list of steps, each from a row of texts
 * to a row of texts. A decoder of the file is a row of a table in token_decoder.c.
 */
#ifndef WGI_TOKEN_DECODER_H
#define WGI_TOKEN_DECODER_H

#include "tokenizer/file_part.h"
#include "tokenizer/normalizer.h"

#define WGI_DECODER_STEPS_MAX 16

/* The texts of tokens, end to end, so that the whole of them is their sum. Zero it to begin. */
typedef struct wgi_token_texts {
    wgi_buf text;
    size_t *ends; /* [count] of each, in text */
    size_t count, capacity;
} wgi_token_texts;

/* Buffers of one decoding at a time; zero to begin. */
typedef struct wgi_decoder_scratch {
    wgi_token_texts texts[2];
    wgi_buf bytes, spare;
    wgi_normalizer_scratch normalizer;
} wgi_decoder_scratch;

typedef struct wgi_decoder_step wgi_decoder_step;

/* Appends the texts that `in` becomes to out, which is empty. */
typedef wg_status wgi_decoder_run(const wgi_decoder_step *step, const wgi_token_texts *in,
                                  wgi_token_texts *out, wgi_decoder_scratch *scratch,
                                  wg_error *err);

struct wgi_decoder_step {
    wgi_decoder_run *run;
    char *content; /* WordPiece: prefix; BPEDecoder: suffix; Metaspace, Strip: character; owned */
    size_t content_bytes;
    bool cleans_up;          /* WordPiece */
    bool drops_first;        /* Metaspace: what would begin the text with a blank */
    uint64_t start, stop;    /* Strip: most characters */
    wgi_normalizer *replace; /* Replace, which is a normaliser too; owned */
};

typedef struct wgi_token_decoder {
    wgi_decoder_step steps[WGI_DECODER_STEPS_MAX];
    size_t step_count;
    bool is_missing;       /* null: tokens stand with a blank between them */
    wgi_refusals refusals; /* ids do not need a decoder, so a file that asks for another opens */
} wgi_token_decoder;

/* part: the file's "decoder", null allowed. */
wg_status wgi_token_decoder_load(wgi_token_decoder *decoder, wgi_slice part, wg_error *err);
void wgi_token_decoder_fini(wgi_token_decoder *decoder);

/* Puts a token's text behind the others of texts[0]. */
wg_status wgi_token_texts_push(wgi_token_texts *texts, wgi_slice text, wg_error *err);
/* From scratch->texts[0] on; *out lies in scratch until the next call. */
wg_status wgi_token_decoder_run(const wgi_token_decoder *decoder, wgi_decoder_scratch *scratch,
                                const wgi_buf **out, wg_error *err);
void wgi_decoder_scratch_fini(wgi_decoder_scratch *scratch);

#endif
