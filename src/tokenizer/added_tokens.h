/*
 * added_tokens.h - tokens that are cut out of a text before anything else looks at it.
 *
 * Two sets: one matched on the text as it came, one on the normalised text. Both match leftmost,
 * then longest, as in Hugging Face tokenizers; lstrip, rstrip and single_word likewise.
 */
#ifndef WGI_ADDED_TOKENS_H
#define WGI_ADDED_TOKENS_H

#include <stdbool.h>

#include "base/json.h"
#include "tokenizer/file_part.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/piece_table.h"

typedef struct wgi_added_token {
    char *content; /* what is matched; owned */
    size_t content_bytes;
    char *name; /* as the file writes it; owned */
    size_t name_bytes;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
    bool reads_special; /* its content is the name of a special token: most often its own */
} wgi_added_token;

typedef struct wgi_added_ref {
    const wgi_added_token *token;
} wgi_added_ref;

/* Sorted by content; found by its first byte. */
typedef struct wgi_added_set {
    wgi_added_ref *refs;
    size_t count;
    uint8_t begins[256]; /* is it the first byte of any? */
    char only_byte;      /* when one byte begins them all, memchr finds it */
    bool has_only_byte;
} wgi_added_set;

typedef struct wgi_added_tokens {
    wgi_added_token *tokens;
    size_t count, capacity;
    wgi_added_set raw, normalized;
    wgi_added_ref *by_id; /* [count] */
    int64_t id_end;       /* one past the largest id given */
} wgi_added_tokens;

/* A stretch of text, or a token in it (id >= 0). */
typedef struct wgi_section {
    size_t begin, end;
    int32_t id;
} wgi_section;

typedef struct wgi_sections {
    wgi_section *items;
    size_t count, capacity;
} wgi_sections;

/* Cuts a text into sections, in order. Zero it, set the first four. */
typedef struct wgi_added_scan {
    const wgi_added_set *set;
    const wgi_char_table *chars;
    wgi_slice text;
    bool plain_specials; /* special tokens are not cut out */
    size_t at;           /* where matching goes on */
    size_t begin;        /* first byte that is in no section yet */
    wgi_section token;   /* to be handed out after the text before it */
    bool has_token;
} wgi_added_scan;

/* What the tokens are added to. */
typedef struct wgi_added_base {
    const wgi_piece_table *vocabulary;
    size_t size; /* of the vocabulary; new ids go on from there */
    const wgi_normalizer *normalizer;
    const wgi_char_table *chars;
} wgi_added_base;

/* part: the file's "added_tokens", null allowed. */
wg_status wgi_added_tokens_load(wgi_added_tokens *added, wgi_slice part, wgi_added_base base,
                                wgi_refusals *refusals, wg_error *err);
/* One by one instead: a token matched on the text as it came, in the order of ids; then finish. */
wg_status wgi_added_tokens_put(wgi_added_tokens *added, wgi_slice content, int32_t id,
                               bool is_special, wg_error *err);
wg_status wgi_added_tokens_finish(wgi_added_tokens *added, wg_error *err);
void wgi_added_tokens_fini(wgi_added_tokens *added);
/* The token of an id, or NULL. */
const wgi_added_token *wgi_added_tokens_find(const wgi_added_tokens *added, int32_t id);

bool wgi_added_next(wgi_added_scan *scan, wgi_section *section);
/* All of them, appended. */
wg_status wgi_added_sections(wgi_added_scan *scan, wgi_sections *sections, wg_error *err);

#endif
