/*
 * wordpiece.c - the longest piece from the left, again and again (Wu et al. 2016, "Google's Neural
 * Machine Translation System"); a word with a rest that no piece begins is one unknown token.
 *
 *   "unaffable" ─▶ un ─▶ ##aff ─▶ ##able
 *
 * The idea: the hash of a prefix is the hash of the one before and a byte more, so one pass over
 * what is left of a word, no further than the longest piece, gives all hashes, and pieces are tried
 * from the longest down. Pieces behind the first stand in a table of their own, without their
 * prefix. Refused: building "##" + rest for each try, as the original does.
 *
 * Threads: read-only once loaded; scratch belongs to the caller.
 */
#include <string.h>

#include "base/alloc.h"
#include "tokenizer/show.h"
#include "tokenizer/token_model.h"

static bool is_boundary(wgi_slice word, size_t at)
{
    return at == word.count || ((unsigned char)word.data[at] & 0xC0) != 0x80;
}

/* Bytes of the longest piece that word begins with at `begin`, and its id; 0: there is none. */
static size_t longest(const wgi_piece_table *table, wgi_slice word, size_t begin, uint64_t *hashes,
                      int32_t *id)
{
    size_t left = word.count - begin;
    size_t most = left < table->longest ? left : table->longest;
    uint64_t hash = WGI_PIECE_HASH;

    for (size_t i = 0; i < most; i++)
        hashes[i] = hash = wgi_piece_hash_byte(hash, word.data[begin + i]);
    for (size_t count = most; count > 0; count--) {
        if (!is_boundary(word, begin + count)) continue; /* no piece ends there: a probe saved */
        *id = wgi_piece_table_probe(table, hashes[count - 1], word.data + begin, count);
        if (*id >= 0) return count;
    }
    return 0;
}

static bool has_more_chars(wgi_slice word, uint64_t most)
{
    uint64_t chars = 0;

    if (word.count <= most) return false;
    for (size_t i = 0; i < word.count; i++)
        chars += is_boundary(word, i);
    return chars > most;
}

static wg_status encode(const wgi_token_model *model, wgi_slice word, wgi_ids *ids,
                        wgi_word_scratch *scratch, wg_error *err)
{
    wg_status status = WG_OK;
    size_t before = ids->count, at = 0;

    if (has_more_chars(word, model->word_chars_max))
        return wgi_ids_push(ids, model->unknown_id, err);
    while (at < word.count) {
        int32_t id;
        const wgi_piece_table *table = at == 0 ? &model->vocabulary : &model->continuations;
        if (scratch->hash_capacity < table->longest)
            WGI_TRY(wgi_grow(&scratch->hashes, &scratch->hash_capacity, table->longest,
                             sizeof(*scratch->hashes), err));
        size_t count = longest(table, word, at, scratch->hashes, &id);
        if (count == 0) {
            ids->count = before;
            return wgi_ids_push(ids, model->unknown_id, err);
        }
        WGI_TRY(wgi_ids_push(ids, id, err));
        at += count;
    }

cleanup:
    return status;
}

wg_status wgi_wordpiece_settle(wgi_token_model *model, wgi_slice prefix, wg_error *err)
{
    wg_status status = WG_OK;
    const wgi_piece_table *from = &model->vocabulary;

    model->encode = encode;
    for (size_t i = 0; i < from->count && status == WG_OK; i++) {
        wgi_slice piece = {from->pool.data + from->pieces[i].offset, from->pieces[i].bytes};
        if (piece.count <= prefix.count) continue; /* what is left of a word is never empty */
        if (prefix.count && memcmp(piece.data, prefix.data, prefix.count) != 0) continue;
        piece.data += prefix.count;
        piece.count -= prefix.count;
        status = wgi_piece_table_put(&model->continuations, piece, from->pieces[i].id, err);
    }
    return status;
}

wg_status wgi_wordpiece_load(wgi_token_model *model, wgi_slice part, wgi_refusals *refusals,
                             wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf unknown = {0}, prefix = {0};
    wgi_slice vocabulary = {"", 0};
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "unk_token", .kind = WGI_FIELD_TEXT, .out = &unknown},
        {.name = "continuing_subword_prefix", .kind = WGI_FIELD_TEXT, .out = &prefix},
        {.name = "max_input_chars_per_word", .kind = WGI_FIELD_UINT, .out = &model->word_chars_max},
        {.name = "vocab", .kind = WGI_FIELD_RAW, .out = &vocabulary},
    };

    WGI_TRY(wgi_fields_read(part, "model WordPiece", fields, sizeof(fields) / sizeof(fields[0]),
                            refusals, err));
    WGI_TRY(wgi_vocabulary_load(&model->vocabulary, vocabulary, err));
    wgi_slice name = {unknown.data, unknown.count};
    model->unknown_id = wgi_piece_table_find(&model->vocabulary, name);
    if (model->unknown_id < 0) {
        status = wgi_fail(err, WG_ERR_FORMAT, "model WordPiece: unk_token \"%.*s\" is not in vocab",
                          WGI_SHOW(name));
        goto cleanup;
    }
    WGI_TRY(wgi_wordpiece_settle(model, (wgi_slice){prefix.data, prefix.count}, err));

cleanup:
    wgi_buf_fini(&unknown);
    wgi_buf_fini(&prefix);
    return status;
}
