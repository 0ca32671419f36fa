/*
 * bpe_load.c - reads a byte-pair vocabulary and its merges (Sennrich et al. 2016).
 *
 * The idea: merges come in two spellings, "a b" and ["a", "b"]; both halves and the whole must be
 * in the vocabulary. They are kept by the ids of the halves in a hash with open addressing, 16
 * bytes a slot. Dropout is refused: its ids are random.
 *
 * Threads: a model belongs to its loader until it is open.
 */
#include "tokenizer/bpe.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tokenizer/byte_letters.h"
#include "tokenizer/show.h"
#include "tokenizer/unicode.h"

wg_status wgi_bpe_open(wgi_bpe **out, wg_error *err)
{
    *out = wgi_calloc(1, sizeof(**out));
    if (!*out) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a BPE model");
    return WG_OK;
}

void wgi_bpe_close(wgi_bpe *bpe)
{
    if (!bpe) return;
    wgi_free(bpe->merges);
    wgi_buf_fini(&bpe->prefix);
    wgi_buf_fini(&bpe->suffix);
    wgi_piece_table_fini(&bpe->raw);
    wgi_free(bpe);
}

/* --------------------------------------------------------------------------------- merges */

static wgi_merge *slot_of(wgi_merge *merges, size_t mask, uint64_t pair)
{
    uint64_t hash = pair * 0x9E3779B97F4A7C15u;
    size_t at = (size_t)(hash >> 32) & mask;

    while (merges[at].rank != UINT32_MAX && merges[at].pair != pair)
        at = (at + 1) & mask;
    return &merges[at];
}

/* Keeps at least half of the slots empty. */
static wg_status make_room(wgi_bpe *bpe, wg_error *err)
{
    size_t slots = bpe->merges ? bpe->mask + 1 : 0;

    if (slots / 2 > bpe->merge_count) return WG_OK;
    size_t wanted = slots ? 2 * slots : 64;
    wgi_merge *fresh = wgi_calloc(wanted, sizeof(*fresh));
    if (!fresh) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu merges", wanted);
    for (size_t i = 0; i < wanted; i++)
        fresh[i].rank = UINT32_MAX;
    for (size_t i = 0; i < slots; i++)
        if (bpe->merges[i].rank != UINT32_MAX)
            *slot_of(fresh, wanted - 1, bpe->merges[i].pair) = bpe->merges[i];
    wgi_free(bpe->merges);
    bpe->merges = fresh;
    bpe->mask = wanted - 1;
    return WG_OK;
}

wg_status wgi_bpe_put(wgi_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id,
                      wg_error *err)
{
    wg_status status = make_room(bpe, err);
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;

    if (status != WG_OK) return status;
    wgi_merge *slot = slot_of(bpe->merges, bpe->mask, pair);
    bpe->merge_count += slot->rank == UINT32_MAX;
    *slot = (wgi_merge){pair, rank, id};
    if (rank >= bpe->rank_end) bpe->rank_end = rank + 1;
    return WG_OK;
}

static wg_status find_piece(const wgi_piece_table *vocabulary, wgi_slice piece, size_t number,
                            int32_t *id, wg_error *err)
{
    *id = wgi_piece_table_find(vocabulary, piece);
    if (*id >= 0) return WG_OK;
    return wgi_fail(err, WG_ERR_FORMAT,
                    "model BPE: merge %zu needs \"%.*s\", which is not in vocab", number,
                    WGI_SHOW(piece));
}

/* Has it a U+2581 behind something else? */
static bool joins_marks(wgi_slice piece)
{
    const size_t bytes = sizeof(WGI_MARK_TEXT) - 1;

    while (piece.count >= bytes && memcmp(piece.data, WGI_MARK_TEXT, bytes) == 0) {
        piece.data += bytes;
        piece.count -= bytes;
    }
    return piece.count && memmem(piece.data, piece.count, WGI_MARK_TEXT, bytes);
}

wg_status wgi_bpe_put_ids(wgi_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id,
                          wgi_slice whole, wg_error *err)
{
    bpe->joins_marks |= joins_marks(whole);
    return wgi_bpe_put(bpe, left, right, rank, id, err);
}

wg_status wgi_bpe_put_pieces(wgi_bpe *bpe, const wgi_piece_table *vocabulary, wgi_slice left,
                             wgi_slice right, size_t number, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf whole = {0};
    int32_t ids[3] = {0, 0, 0};

    if (number >= UINT32_MAX)
        return wgi_fail(err, WG_ERR_LIMIT, "model BPE: more than 4294967294 merges");
    WGI_TRY(find_piece(vocabulary, left, number, &ids[0], err));
    WGI_TRY(find_piece(vocabulary, right, number, &ids[1], err));
    if (right.count < bpe->prefix.count) {
        status = wgi_fail(err, WG_ERR_FORMAT,
                          "model BPE: merge %zu: \"%.*s\" is shorter than the prefix of pieces",
                          number, WGI_SHOW(right));
        goto cleanup;
    }
    WGI_TRY(wgi_buf_append(&whole, left.data, left.count, err));
    WGI_TRY(wgi_buf_append(&whole, right.data + bpe->prefix.count, right.count - bpe->prefix.count,
                           err));
    wgi_slice name = {whole.data, whole.count};
    WGI_TRY(find_piece(vocabulary, name, number, &ids[2], err));
    WGI_TRY(wgi_bpe_put_ids(bpe, ids[0], ids[1], (uint32_t)number, ids[2], name, err));

cleanup:
    wgi_buf_fini(&whole);
    return status;
}

/* The pair of one merge, in either spelling; a comment gives halves = 0. */
static wg_status read_pair(wgi_json *json, wgi_buf pair[2], size_t *halves, wg_error *err)
{
    wg_status status = WG_OK;
    size_t count = 0;

    pair[0].count = pair[1].count = 0;
    if (wgi_json_peek(json) == WGI_JSON_ARRAY) {
        WGI_TRY(wgi_json_array_begin(json, err));
        while (wgi_json_array_next(json)) {
            pair[count % 2].count = 0;
            WGI_TRY(wgi_json_string(json, &pair[count++ % 2], err));
        }
        WGI_TRY(wgi_json_status(json, err));
        *halves = count == 2 ? 2 : 1;
        goto cleanup;
    }
    WGI_TRY(wgi_json_string(json, &pair[0], err));
    *halves = 1;
    if (pair[0].count >= 8 && memcmp(pair[0].data, "#version", 8) == 0) {
        *halves = 0;
        goto cleanup;
    }
    char *blank = pair[0].count ? memchr(pair[0].data, ' ', pair[0].count) : NULL;
    if (!blank) goto cleanup;
    size_t left = (size_t)(blank - pair[0].data);
    WGI_TRY(wgi_buf_append(&pair[1], blank + 1, pair[0].count - left - 1, err));
    pair[0].count = left;
    if (!memchr(pair[1].data, ' ', pair[1].count)) *halves = 2;

cleanup:
    return status;
}

static wg_status load_merges(wgi_bpe *bpe, const wgi_piece_table *vocabulary, wgi_slice merges,
                             wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf pair[2] = {{0}, {0}};
    size_t number = 0, halves = 0;
    wgi_json json;

    wgi_json_init(&json, merges.data, merges.count);
    WGI_TRY(wgi_json_array_begin(&json, err));
    while (wgi_json_array_next(&json)) {
        WGI_TRY(read_pair(&json, pair, &halves, err));
        if (halves == 0) continue;
        if (halves != 2) {
            status = wgi_fail(err, WG_ERR_FORMAT, "model BPE: merge %zu is not two pieces", number);
            goto cleanup;
        }
        wgi_slice left = {pair[0].data ? pair[0].data : "", pair[0].count};
        wgi_slice right = {pair[1].data ? pair[1].data : "", pair[1].count};
        WGI_TRY(wgi_bpe_put_pieces(bpe, vocabulary, left, right, number++, err));
    }
    WGI_TRY(wgi_json_finish(&json, err));

cleanup:
    wgi_json_fini(&json);
    wgi_buf_fini(&pair[0]);
    wgi_buf_fini(&pair[1]);
    return status;
}

/* -------------------------------------------------------------------------------- loading */

/* Null or a number that is 0. */
static wg_status check_dropout(wgi_slice dropout, wgi_refusals *refusals, wg_error *err)
{
    wgi_json json;
    double share = 0;

    wgi_json_init(&json, dropout.data, dropout.count);
    wg_status status = wgi_json_double(&json, &share, err);
    wgi_json_fini(&json);
    if (status == WG_OK && share != 0) status = wgi_refuse(refusals, err, "model BPE with dropout");
    return status;
}

wg_status wgi_bpe_load(wgi_token_model *model, wgi_slice part, wgi_refusals *refusals,
                       wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf unknown = {0};
    wgi_slice vocabulary = {"", 0}, merges = {"", 0}, dropout = {"", 0};
    wgi_bpe *bpe = NULL;

    WGI_TRY(wgi_bpe_open(&bpe, err));
    model->bpe = bpe;
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "dropout", .kind = WGI_FIELD_RAW, .out = &dropout, .is_optional = true},
        {.name = "unk_token", .kind = WGI_FIELD_TEXT, .out = &unknown, .is_optional = true},
        {.name = "continuing_subword_prefix",
         .kind = WGI_FIELD_TEXT,
         .out = &bpe->prefix,
         .is_optional = true},
        {.name = "end_of_word_suffix",
         .kind = WGI_FIELD_TEXT,
         .out = &bpe->suffix,
         .is_optional = true},
        {.name = "fuse_unk",
         .kind = WGI_FIELD_BOOL,
         .out = &bpe->fuses_unknown,
         .is_optional = true},
        {.name = "byte_fallback",
         .kind = WGI_FIELD_BOOL,
         .out = &bpe->falls_back_to_bytes,
         .is_optional = true},
        {.name = "ignore_merges",
         .kind = WGI_FIELD_BOOL,
         .out = &bpe->ignores_merges,
         .is_optional = true},
        {.name = "vocab", .kind = WGI_FIELD_RAW, .out = &vocabulary},
        {.name = "merges", .kind = WGI_FIELD_RAW, .out = &merges},
    };
    WGI_TRY(wgi_fields_read(part, "model BPE", fields, sizeof(fields) / sizeof(fields[0]), refusals,
                            err));
    if (fields[1].is_set) WGI_TRY(check_dropout(dropout, refusals, err));
    WGI_TRY(wgi_vocabulary_load(&model->vocabulary, vocabulary, err));
    WGI_TRY(load_merges(bpe, &model->vocabulary, merges, err));
    bpe->has_unknown = fields[2].is_set;
    wgi_slice name = {unknown.data ? unknown.data : "", unknown.count};
    bpe->unknown_id = wgi_piece_table_find(&model->vocabulary, name);
    model->encode = wgi_bpe_encode;

cleanup:
    wgi_buf_fini(&unknown);
    return status;
}

/* ------------------------------------------------------------------------------- settling */

/* Words as bytes, for those that are pieces as they are. */
static wg_status fill_raw(wgi_bpe *bpe, const wgi_piece_table *vocabulary, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf raw = {0};

    for (size_t i = 0; i < vocabulary->count; i++) {
        const wgi_piece *piece = &vocabulary->pieces[i];
        wgi_slice letters = {vocabulary->pool.data + piece->offset, piece->bytes};
        bool is_good = false;
        raw.count = 0;
        WGI_TRY(wgi_byte_letters_read(&raw, letters, &is_good, err));
        if (is_good && raw.count)
            WGI_TRY(
                wgi_piece_table_put(&bpe->raw, (wgi_slice){raw.data, raw.count}, piece->id, err));
    }

cleanup:
    wgi_buf_fini(&raw);
    return status;
}

wg_status wgi_bpe_settle(wgi_bpe *bpe, const wgi_piece_table *vocabulary, bool is_byte_level,
                         wg_error *err)
{
    wgi_buf letter = {0};
    wg_status status = WG_OK;

    bpe->is_byte_level = is_byte_level;
    for (int i = 0; i < 256; i++) {
        char byte = (char)i, name[8];
        if (i < 128) bpe->ascii[i] = wgi_piece_table_find(vocabulary, (wgi_slice){&byte, 1});
        (void)snprintf(name, sizeof(name), "<0x%02X>", (unsigned)i);
        bpe->bytes[i] = wgi_piece_table_find(vocabulary, (wgi_slice){name, 6});
        letter.count = 0;
        WGI_TRY(wgi_byte_letters_put(&letter, &byte, 1, err));
        bpe->letters[i] = wgi_piece_table_find(vocabulary, (wgi_slice){letter.data, letter.count});
    }
    if (is_byte_level && bpe->ignores_merges) WGI_TRY(fill_raw(bpe, vocabulary, err));

cleanup:
    wgi_buf_fini(&letter);
    return status;
}

bool wgi_bpe_splits_at_marks(const wgi_bpe *bpe, const wgi_piece_table *vocabulary)
{
    wgi_slice mark = {WGI_MARK_TEXT, sizeof(WGI_MARK_TEXT) - 1};

    /* A character that gives no token at all would bring two runs together. */
    if (!bpe->has_unknown) return false;
    return !bpe->is_byte_level && !bpe->joins_marks && !bpe->ignores_merges &&
           bpe->prefix.count == 0 && bpe->suffix.count == 0 &&
           wgi_piece_table_find(vocabulary, mark) >= 0;
}
