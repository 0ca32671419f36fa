/*
 * vocabulary.h - a tokenizer from the arrays of a GGUF file, which says less than a tokenizer.json:
 * the kind of its model and a name for how texts are split. What else belongs to the family is
 * written down in vocabulary.c.
 */
#ifndef WGI_VOCABULARY_H
#define WGI_VOCABULARY_H

#include <stdbool.h>

#include "base/json.h"
#include "warpgroup/warpgroup.h"

/* Types of tokens, numbered as in the file. */
typedef enum wgi_token_type {
    WGI_TOKEN_NORMAL = 1,
    WGI_TOKEN_UNKNOWN = 2,
    WGI_TOKEN_CONTROL = 3,
    WGI_TOKEN_USER_DEFINED = 4,
    WGI_TOKEN_UNUSED = 5,
    WGI_TOKEN_BYTE = 6
} wgi_token_type;

#define WGI_NO_TOKEN INT64_C(-1)

/* A switch of the file: not there, off, on. */
typedef enum wgi_switch { WGI_SWITCH_MISSING, WGI_SWITCH_OFF, WGI_SWITCH_ON } wgi_switch;

/* Everything is borrowed, and needed only while the tokenizer is made. */
typedef struct wgi_vocabulary {
    wgi_slice model; /* "gpt2", "llama", "bert" or "t5" */
    wgi_slice pre;   /* "smollm", "llama-bpe", ...; empty: not said */
    size_t token_count;
    const wgi_slice *tokens; /* [token_count] */
    const double *scores;    /* [token_count] or NULL; needed by "llama", "t5" */
    const int32_t *types;    /* [token_count] or NULL: all normal */
    size_t merge_count;
    const wgi_slice *merges;                   /* [merge_count]: "a b"; needed by "gpt2" */
    int64_t bos, eos, unknown, cls, separator; /* ids or WGI_NO_TOKEN */
    wgi_switch adds_bos, adds_eos, adds_space_prefix;
    wgi_slice charsmap; /* of "t5": SentencePiece's character map; empty: none */
    wgi_switch lowers_case, strips_accents; /* of "bert"; missing: told from the pieces */
} wgi_vocabulary;

/* A model or pre that is not known is WG_ERR_UNSUPPORTED by name. */
wg_status wgi_tokenizer_from_vocabulary(wg_tokenizer **out, const wgi_vocabulary *vocabulary,
                                        wg_error *err);

#endif
