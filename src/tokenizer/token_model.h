/*
 * token_model.h - the stage that turns one word into token ids. A model of the file is a row of
 * the table in token_model.c: how to load it, and how to encode a word.
 */
#ifndef WGI_TOKEN_MODEL_H
#define WGI_TOKEN_MODEL_H

#include "base/json.h"
#include "tokenizer/file_part.h"
#include "tokenizer/piece_table.h"

typedef struct wgi_ids {
    int32_t *items;
    size_t count, capacity;
} wgi_ids;

wg_status wgi_ids_push(wgi_ids *ids, int32_t id, wg_error *err);

/* One place of a long word while its pairs are merged. */
typedef struct wgi_link {
    uint32_t before, behind;
} wgi_link;

/* A pair that may be merged, and the next one of its run: the same rank, further behind. */
typedef struct wgi_candidate {
    uint32_t at, next;
} wgi_candidate;

/* What is left of a run of candidates; the one whose first comes first is the next. */
typedef struct wgi_run {
    uint32_t rank, at, first;
} wgi_run;

/* The best way to the end of a piece. */
typedef struct wgi_path {
    double score;
    uint32_t begin; /* of the piece; UINT32_MAX: no way leads here */
    int32_t id;
} wgi_path;

/* Buffers of one text at a time; zero to begin. */
typedef struct wgi_word_scratch {
    uint64_t *hashes; /* of the prefixes of what is left of a word */
    size_t hash_capacity;
    wgi_link *links;
    size_t link_capacity;
    wgi_candidate *candidates;
    size_t candidate_capacity;
    wgi_run *heap;
    size_t heap_capacity;
    uint32_t *tails; /* by rank: the last candidate of the run that grows; NONE between words */
    size_t tail_count, tail_capacity;
    wgi_path *paths;
    size_t path_capacity;
    wgi_buf text;
} wgi_word_scratch;

void wgi_word_scratch_fini(wgi_word_scratch *scratch);
size_t wgi_word_scratch_bytes(const wgi_word_scratch *scratch);

typedef struct wgi_token_model wgi_token_model;

/* Appends the ids of a word (never empty). */
typedef wg_status wgi_word_encode(const wgi_token_model *model, wgi_slice word, wgi_ids *ids,
                                  wgi_word_scratch *scratch, wg_error *err);

typedef struct wgi_bpe wgi_bpe;         /* bpe.h */
typedef struct wgi_unigram wgi_unigram; /* unigram.c */

struct wgi_token_model {
    wgi_word_encode *encode;
    wgi_piece_table vocabulary;
    size_t size; /* tokens, those of the same name each */
    wgi_bpe *bpe;
    wgi_unigram *unigram;
    /* WordPiece */
    wgi_piece_table continuations; /* what stands behind the prefix ("##") */
    int32_t unknown_id;
    uint64_t word_chars_max;
};

/* part: the file's "model". Fills the vocabulary also when the model itself is refused. */
wg_status wgi_token_model_load(wgi_token_model *model, wgi_slice part, wgi_refusals *refusals,
                               wg_error *err);
void wgi_token_model_fini(wgi_token_model *model);

/* Reads {"token": id, ...}; ids are checked. */
wg_status wgi_vocabulary_load(wgi_piece_table *vocabulary, wgi_slice part, wg_error *err);

/* The rows, each in its file. */
wg_status wgi_wordpiece_load(wgi_token_model *model, wgi_slice part, wgi_refusals *refusals,
                             wg_error *err);
/* The rest, once vocabulary, unknown_id and word_chars_max are set. */
wg_status wgi_wordpiece_settle(wgi_token_model *model, wgi_slice prefix, wg_error *err);
wg_status wgi_bpe_load(wgi_token_model *model, wgi_slice part, wgi_refusals *refusals,
                       wg_error *err);
void wgi_bpe_close(wgi_bpe *bpe);
wg_status wgi_unigram_load(wgi_token_model *model, wgi_slice part, wgi_refusals *refusals,
                           wg_error *err);
void wgi_unigram_close(wgi_unigram *unigram);

#endif
