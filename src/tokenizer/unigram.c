/*
 * unigram.c - the way through a word whose pieces have the greatest sum of scores (Kudo 2018).
 *
 *   ▁ t h e        score of the best way to each place, and where its last piece begins
 *   0 1 2 3 4  ─▶  pieces read off from the end
 *
 * The idea: one pass over the places; from each, all pieces that begin there are looked up, the
 * shortest first, by the hashes of the prefixes, and a way is replaced only by a better one, so of
 * equal ones the first found stays, as in the original. A bit a hash says whether any piece begins
 * so, which ends the search after the longest piece and a character rather than after the word:
 * half the time, with 250,000 pieces. A character without a piece of its own is unknown, at 10
 * below the least score; unknown ones in a row are one token. Refused: correctly rounded scores:
 * the original's reader of numbers rounds twice, and a tie may hang on the last bit.
 *
 * Threads: read-only once loaded; scratch belongs to the caller.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tokenizer/show.h"
#include "tokenizer/token_model.h"
#include "tokenizer/unicode.h"

#define UNKNOWN_PENALTY 10.0
#define NO_PLACE        UINT32_MAX

struct wgi_unigram {
    double *scores; /* [size], by id */
    size_t score_capacity;
    uint64_t *prefixes;    /* the bit of a hash is set if a piece begins with what has that hash */
    unsigned prefix_shift; /* hash to bit */
    double unknown_score;
    int32_t unknown_id; /* -1: none */
    int32_t bytes[256]; /* ids of "<0x00>" to "<0xFF>", -1: none */
    bool falls_back_to_bytes;
};

void wgi_unigram_close(wgi_unigram *unigram)
{
    if (!unigram) return;
    wgi_free(unigram->scores);
    wgi_free(unigram->prefixes);
    wgi_free(unigram);
}

static size_t prefix_bit(const wgi_unigram *unigram, uint64_t hash)
{
    return (size_t)((hash ^ hash >> 32) * 0x9E3779B97F4A7C15u >> unigram->prefix_shift);
}

/* ------------------------------------------------------------------------------- encoding */

static wg_status fail_unknown(wg_error *err)
{
    return wgi_fail(err, WG_ERR_FORMAT,
                    "the text has a character without a token, and the tokenizer has no unk_id");
}

static void improve(wgi_path *path, double score, size_t begin, int32_t id)
{
    if (path->begin != NO_PLACE && !(score > path->score)) return;
    *path = (wgi_path){score, (uint32_t)begin, id};
}

/* Offers every piece that begins at `begin` to the place where it ends. */
static wg_status offer_pieces(const wgi_token_model *model, wgi_slice word, size_t begin,
                              size_t char_end, wgi_path *paths, wg_error *err)
{
    const wgi_piece_table *table = &model->vocabulary;
    const wgi_unigram *unigram = model->unigram;
    size_t end = word.count - begin < table->longest ? word.count : begin + table->longest;
    uint64_t hash = WGI_PIECE_HASH;
    bool has_single = false;

    for (size_t at = begin; at < end;) {
        hash = wgi_piece_hash_byte(hash, word.data[at++]);
        if (at < word.count && ((unsigned char)word.data[at] & 0xC0) == 0x80) continue;
        size_t bit = prefix_bit(unigram, hash);
        if (!(unigram->prefixes[bit / 64] >> bit % 64 & 1)) break;
        int32_t id = wgi_piece_table_probe(table, hash, word.data + begin, at - begin);
        if (id < 0) continue;
        improve(&paths[at], unigram->scores[id] + paths[begin].score, begin, id);
        has_single |= at == char_end;
    }
    if (has_single) return WG_OK;
    double score = unigram->unknown_score + paths[begin].score;
    wgi_path *path = &paths[char_end];
    if (path->begin != NO_PLACE && !(score > path->score)) return WG_OK;
    if (unigram->unknown_id < 0) return fail_unknown(err);
    *path = (wgi_path){score, (uint32_t)begin, unigram->unknown_id};
    return WG_OK;
}

/* A stretch of unknown characters. */
static wg_status put_unknown(const wgi_token_model *model, wgi_slice text, wgi_ids *ids,
                             wg_error *err)
{
    const wgi_unigram *unigram = model->unigram;
    int32_t id = wgi_piece_table_find(&model->vocabulary, text);
    wg_status status = WG_OK;
    size_t known = 0;

    if (id >= 0) return wgi_ids_push(ids, id, err);
    while (unigram->falls_back_to_bytes && known < text.count &&
           unigram->bytes[(unsigned char)text.data[known]] >= 0)
        known++;
    if (!unigram->falls_back_to_bytes || known < text.count)
        return wgi_ids_push(ids, unigram->unknown_id, err);
    for (size_t i = 0; i < text.count && status == WG_OK; i++)
        status = wgi_ids_push(ids, unigram->bytes[(unsigned char)text.data[i]], err);
    return status;
}

/* Turns the links of the best way round: paths[begin].begin is where the piece ends then. */
static void turn_round(wgi_path *paths, size_t count)
{
    uint32_t behind = NO_PLACE, here = (uint32_t)count;
    int32_t id = 0;

    while (here != NO_PLACE) {
        uint32_t before = here ? paths[here].begin : NO_PLACE;
        int32_t piece = paths[here].id;
        paths[here].begin = behind;
        paths[here].id = id;
        behind = here;
        id = piece;
        here = before;
    }
}

static wg_status encode(const wgi_token_model *model, wgi_slice word, wgi_ids *ids,
                        wgi_word_scratch *scratch, wg_error *err)
{
    wg_status status = WG_OK;
    size_t at = 0;

    if (word.count >= NO_PLACE)
        return wgi_fail(err, WG_ERR_LIMIT, "a word of %zu bytes is too long", word.count);
    WGI_TRY(wgi_grow(&scratch->paths, &scratch->path_capacity, word.count + 1,
                     sizeof(*scratch->paths), err));
    wgi_path *paths = scratch->paths;
    for (size_t i = 0; i <= word.count; i++)
        paths[i] = (wgi_path){0, NO_PLACE, 0};
    while (at < word.count) {
        size_t begin = at;
        (void)wgi_char_next(word.data, &at);
        WGI_TRY(offer_pieces(model, word, begin, at, paths, err));
    }
    turn_round(paths, word.count);
    for (at = 0; at < word.count;) {
        size_t begin = at;
        int32_t id = paths[at].id;
        at = paths[at].begin;
        if (id != model->unigram->unknown_id) {
            WGI_TRY(wgi_ids_push(ids, id, err));
            continue;
        }
        while (at < word.count && paths[at].id == id)
            at = paths[at].begin;
        WGI_TRY(put_unknown(model, (wgi_slice){word.data + begin, at - begin}, ids, err));
    }

cleanup:
    return status;
}

/* -------------------------------------------------------------------------------- loading */

/* 10 to the 0th to 308th. */
static double ten_to(long power)
{
    char text[8];
    double value = 1;
    wgi_json json;

    (void)snprintf(text, sizeof(text), "1e%ld", power);
    wgi_json_init(&json, text, strlen(text));
    (void)wgi_json_double(&json, &value, NULL);
    wgi_json_fini(&json);
    return value;
}

/*
 * A number as the original's reader makes it: all digits that fit 64 bits as one number, times or
 * over a power of ten.
 */
static double number_of(wgi_slice digits)
{
    const char *at = digits.data, *end = digits.data + digits.count;
    bool is_negative = at < end && *at == '-', is_fraction = false, is_full = false;
    uint64_t value = 0;
    long exponent = 0, written = 0;
    double number;

    for (at += is_negative; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            is_fraction = true;
            continue;
        }
        uint64_t digit = (uint64_t)(*at - '0');
        is_full = is_full || value > (UINT64_MAX - digit) / 10;
        if (!is_full) value = 10 * value + digit;
        exponent += is_full ? !is_fraction : -(long)is_fraction;
    }
    if (at < end) {
        at++;
        bool is_small = at < end && *at == '-';
        for (at += at < end && (*at == '-' || *at == '+'); at < end && written < 10000; at++)
            written = 10 * written + (*at - '0');
        exponent += is_small ? -written : written;
    }
    number = (double)value;
    while (exponent != 0 && number != 0) {
        long size = exponent < 0 ? -exponent : exponent, step = size < 308 ? size : 308;
        number = exponent < 0 ? number / ten_to(step) : number * ten_to(step);
        exponent += exponent < 0 ? step : -step;
    }
    return is_negative ? -number : number;
}

/* ["piece", score] */
static wg_status read_piece(wgi_json *json, size_t number, wgi_buf *name, double *score,
                            wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice digits = {"", 0};
    wgi_json value;
    size_t count = 0;

    wgi_json_init(&value, "", 0);
    WGI_TRY(wgi_json_array_begin(json, err));
    for (; wgi_json_array_next(json); count++) {
        if (count == 0) {
            name->count = 0;
            WGI_TRY(wgi_json_string(json, name, err));
        } else if (count == 1) {
            WGI_TRY(wgi_json_raw(json, &digits, err));
        } else {
            WGI_TRY(wgi_json_skip(json, err));
        }
    }
    WGI_TRY(wgi_json_status(json, err));
    if (count != 2) {
        status = wgi_fail(err, WG_ERR_FORMAT,
                          "model Unigram: token %zu of vocab is not [piece, score]", number);
        goto cleanup;
    }
    wgi_json_init(&value, digits.data, digits.count);
    WGI_TRY(wgi_json_double(&value, score, err)); /* a number, and a finite one */
    *score = number_of(digits);

cleanup:
    wgi_json_fini(&value);
    return status;
}

static wg_status load_pieces(wgi_token_model *model, wgi_slice part, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_unigram *unigram = model->unigram;
    wgi_buf name = {0};
    wgi_json json;
    double least = 1e300;

    wgi_json_init(&json, part.data, part.count);
    WGI_TRY(wgi_json_array_begin(&json, err));
    while (wgi_json_array_next(&json)) {
        double score = 0;
        WGI_TRY(read_piece(&json, model->size, &name, &score, err));
        if (model->size >= INT32_MAX) {
            status = wgi_fail(err, WG_ERR_LIMIT, "model Unigram: more than 2147483647 tokens");
            goto cleanup;
        }
        WGI_TRY(wgi_grow(&unigram->scores, &unigram->score_capacity, model->size + 1,
                         sizeof(*unigram->scores), err));
        unigram->scores[model->size] = score;
        if (score < least) least = score;
        wgi_slice piece = {name.data ? name.data : "", name.count};
        WGI_TRY(wgi_piece_table_put_next(&model->vocabulary, piece, (int32_t)model->size, err));
        model->size++;
    }
    WGI_TRY(wgi_json_finish(&json, err));
    unigram->unknown_score = least - UNKNOWN_PENALTY;

cleanup:
    wgi_json_fini(&json);
    wgi_buf_fini(&name);
    return status;
}

/* 16 bits a piece or more: most pieces begin as some other, so a bit in ten is set. */
static wg_status fill_prefixes(wgi_token_model *model, wg_error *err)
{
    const wgi_piece_table *table = &model->vocabulary;
    wgi_unigram *unigram = model->unigram;
    unsigned bits_log = 10;

    while (bits_log < 40 && (size_t)1 << bits_log < 16 * table->count)
        bits_log++;
    unigram->prefix_shift = 64 - bits_log;
    unigram->prefixes = wgi_calloc((size_t)1 << (bits_log - 6), sizeof(*unigram->prefixes));
    if (!unigram->prefixes) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a Unigram model");
    for (size_t i = 0; i < table->count; i++) {
        const wgi_piece *piece = &table->pieces[i];
        const char *bytes = table->pool.data + piece->offset;
        uint64_t hash = WGI_PIECE_HASH;
        for (size_t at = 0; at < piece->bytes; at++) {
            hash = wgi_piece_hash_byte(hash, bytes[at]);
            size_t bit = prefix_bit(unigram, hash);
            unigram->prefixes[bit / 64] |= UINT64_C(1) << bit % 64;
        }
    }
    return WG_OK;
}

static void fill_bytes(wgi_token_model *model)
{
    static const char digits[] = "0123456789ABCDEF";

    for (int i = 0; i < 256; i++) {
        const char name[] = {'<', '0', 'x', digits[i >> 4], digits[i & 15], '>'};
        model->unigram->bytes[i] =
            wgi_piece_table_find(&model->vocabulary, (wgi_slice){name, sizeof(name)});
    }
}

wg_status wgi_unigram_load(wgi_token_model *model, wgi_slice part, wgi_refusals *refusals,
                           wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice vocabulary = {"", 0};
    uint64_t unknown = 0;
    wgi_unigram *unigram = wgi_calloc(1, sizeof(*unigram));

    model->unigram = unigram;
    if (!unigram) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a Unigram model");
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "unk_id", .kind = WGI_FIELD_UINT, .out = &unknown, .is_optional = true},
        {.name = "byte_fallback",
         .kind = WGI_FIELD_BOOL,
         .out = &unigram->falls_back_to_bytes,
         .is_optional = true},
        {.name = "vocab", .kind = WGI_FIELD_RAW, .out = &vocabulary},
    };

    WGI_TRY(wgi_fields_read(part, "model Unigram", fields, 4, refusals, err));
    WGI_TRY(load_pieces(model, vocabulary, err));
    WGI_TRY(fill_prefixes(model, err));
    if (fields[1].is_set && unknown >= model->size) {
        status =
            wgi_fail(err, WG_ERR_FORMAT, "model Unigram: unk_id %llu, but vocab has %zu tokens",
                     (unsigned long long)unknown, model->size);
        goto cleanup;
    }
    unigram->unknown_id = fields[1].is_set ? (int32_t)unknown : -1;
    fill_bytes(model);
    model->encode = encode;

cleanup:
    return status;
}
