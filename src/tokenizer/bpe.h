/*
 * bpe.h - a byte-pair model: what its loaders fill and its encoder reads.
 */
#ifndef WGI_BPE_H
#define WGI_BPE_H

#include <stdbool.h>

#include "tokenizer/token_model.h"

/* A pair of ids and what it is merged into. */
typedef struct wgi_merge {
    uint64_t pair; /* left << 32 | right */
    uint32_t rank; /* UINT32_MAX: the slot is empty */
    int32_t id;
} wgi_merge;

struct wgi_bpe {
    wgi_merge *merges; /* [mask + 1] */
    size_t mask, merge_count;
    uint32_t rank_end; /* above every rank */
    bool has_unknown, fuses_unknown, falls_back_to_bytes, ignores_merges;
    int32_t unknown_id;     /* -1: named, but not in the vocabulary */
    wgi_buf prefix, suffix; /* continuing_subword_prefix, end_of_word_suffix */
    bool is_byte_level;     /* words are bytes, not the letters that stand for them */
    bool joins_marks;       /* a merge goes over the begin of a run of U+2581 */
    int32_t ascii[128];     /* ids of one character, -1: none */
    int32_t letters[256];   /* ids of the letters of bytes, -1: none */
    int32_t bytes[256];     /* ids of "<0x00>" to "<0xFF>", -1: none */
    wgi_piece_table raw;    /* is_byte_level and ignores_merges: whole words, as bytes */
};

#define WGI_MARK_TEXT                                                          \
    "\xE2\x96\x81" /* U+2581, which stands for a blank in SentencePiece models \
                    */

wg_status wgi_bpe_open(wgi_bpe **out, wg_error *err);
/* left and right go into id; a pair that is there already takes the later rank, as in the original.
 */
wg_status wgi_bpe_put(wgi_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id,
                      wg_error *err);
/* The same, with the piece that comes out. */
wg_status wgi_bpe_put_ids(wgi_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id,
                          wgi_slice whole, wg_error *err);
/*
 * A merge by its pieces, which must be in the vocabulary, as must the whole; `number` names it in
 * messages.
 */
wg_status wgi_bpe_put_pieces(wgi_bpe *bpe, const wgi_piece_table *vocabulary, wgi_slice left,
                             wgi_slice right, size_t number, wg_error *err);
/* Looks up the ids of characters; once all else is set. */
wg_status wgi_bpe_settle(wgi_bpe *bpe, const wgi_piece_table *vocabulary, bool is_byte_level,
                         wg_error *err);
/* May a text be cut before every run of U+2581 without other ids coming out? */
bool wgi_bpe_splits_at_marks(const wgi_bpe *bpe, const wgi_piece_table *vocabulary);

wgi_word_encode wgi_bpe_encode;

#endif
