/*
 * vocabulary.c - makes the stages that a GGUF file leaves out; see vocabulary.h.
 *
 * The idea: a kind of vocabulary is a row: the parts as the family's tokenizer.json has them, read
 * by the same loaders, so that ids are those of the original files. Merges of "llama" vocabularies
 * are made from scores, as the converter of Hugging Face transformers makes them: every way to put
 * a piece together from two others, better pieces first, of one score the longer left half first.
 * Pieces of "bert" vocabularies get their "##" back.
 *
 * Older files do not say whether a "bert" vocabulary is one of lower case. Its pieces do: what the
 * normaliser changes in every text is in none of them. So one piece that lower case would change
 * means that case is kept, and one with an accent that accents are.
 *
 * Threads: a tokenizer belongs to its maker until it is open.
 */
#include "tokenizer/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/utf8.h"
#include "tokenizer/bpe.h"
#include "tokenizer/show.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary_unigram.h"

/* ----------------------------------------------------------------------------------- rows */

#define BYTES(regex)                                                                  \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_" \
    "regex\":" regex "}"
#define SPLIT(pattern)                                                                       \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\"," \
    "\"invert\":false}"
#define LIST(items) "{\"type\":\"Sequence\",\"pretokenizers\":[" items "]}"

#define LLAMA_SPLIT(digits)                                                        \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" digits \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

static const char gpt2_split[] = BYTES("true");
static const char digits_split[] =
    LIST("{\"type\":\"Digits\",\"individual_digits\":true}," BYTES("true"));
static const char llama3_split[] = LIST(SPLIT(LLAMA_SPLIT("\\\\p{N}{1,3}")) "," BYTES("false"));
static const char qwen2_split[] = LIST(SPLIT(LLAMA_SPLIT("\\\\p{N}")) "," BYTES("false"));
/* What llama.cpp does with a file that does not say. */
static const char default_split[] = LIST(SPLIT("[\\\\p{P}\\\\$\\\\+<=>\\\\^~\\\\|]+") "," SPLIT(
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!"
    "\\\\S)") "," SPLIT("\\\\p{N}+") "," SPLIT("[0-9][0-9][0-9]") "," BYTES("false"));

/* Byte-level vocabularies by "tokenizer.ggml.pre". */
typedef struct pre_row {
    const char *pre;
    const char *pre_tokenizer;
    const char *normalizer;
    bool ignores_merges, adds_bos;
} pre_row;

static const pre_row pre_rows[] = {
    {"gpt-2", gpt2_split, "", false, false},
    {"roberta-bpe", gpt2_split, "", false, true},
    {"smollm", digits_split, "", false, false},
    {"llama-bpe", llama3_split, "", true, true},
    {"llama3", llama3_split, "", true, true},
    {"llama-v3", llama3_split, "", true, true},
    {"qwen2", qwen2_split, "{\"type\":\"NFC\"}", false, false},
    {"default", default_split, "", false, false},
};

#define MARK_REPLACE \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" WGI_MARK_TEXT "\"}"
static const char llama_normalizer[] =
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" WGI_MARK_TEXT
    "\"}," MARK_REPLACE "]}";
static const char gemma_normalizer[] = MARK_REPLACE;

static const char byte_decoder[] = "{\"type\":\"ByteLevel\"}";
#define MARK_DECODER(more)                                                                \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":" \
    "\"" WGI_MARK_TEXT                                                                    \
    "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}" more "]}"
static const char llama_decoder[] =
    MARK_DECODER(",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
static const char gemma_decoder[] = MARK_DECODER("");
static const char bert_decoder[] = "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}";

#define BERT_NORMALIZER(strips, lowers)                                                       \
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_" \
    "accents\":" strips ",\"lowercase\":" lowers "}"
static const char *const bert_normalizers[2][2] = {
    /* [strips accents][lowers] */
    {BERT_NORMALIZER("false", "false"), BERT_NORMALIZER("false", "true")},
    {BERT_NORMALIZER("true", "false"), BERT_NORMALIZER("true", "true")},
};

/* --------------------------------------------------------------------------------- helpers */

typedef struct build {
    const wgi_vocabulary *from;
    wg_tokenizer *to;
    wgi_refusals refusals;
    wgi_buf room;
    wg_error *err;
} build;

static wgi_slice slice_of(const char *text)
{
    return (wgi_slice){text, strlen(text)};
}

static wgi_token_type type_of(const build *b, size_t id)
{
    return b->from->types ? (wgi_token_type)b->from->types[id] : WGI_TOKEN_NORMAL;
}

static wg_status load_stages(build *b, const char *normalizer, const char *pre_tokenizer,
                             const char *decoder)
{
    wg_status status = WG_OK;

    WGI_TRY(wgi_normalizer_load(&b->to->normalizer, slice_of(normalizer), &b->refusals, b->err));
    WGI_TRY(wgi_pre_tokenizer_load(&b->to->pre_tokenizer, slice_of(pre_tokenizer), &b->refusals,
                                   b->err));
    WGI_TRY(wgi_token_decoder_load(&b->to->decoder, slice_of(decoder), b->err));
    WGI_TRY(wgi_refusals_check(&b->refusals, b->err));

cleanup:
    return status;
}

static wg_status check_tokens(build *b)
{
    const wgi_vocabulary *from = b->from;

    if (from->token_count == 0 || from->token_count > INT32_MAX)
        return wgi_fail(b->err, WG_ERR_FORMAT, "the vocabulary has %zu tokens", from->token_count);
    for (size_t i = 0; i < from->token_count; i++)
        if (wgi_utf8_check(from->tokens[i].data, from->tokens[i].count) < from->tokens[i].count)
            return wgi_fail(b->err, WG_ERR_FORMAT, "token %zu of the vocabulary is not UTF-8", i);
    const int64_t ids[] = {from->bos, from->eos, from->unknown, from->cls, from->separator};
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        if (ids[i] != WGI_NO_TOKEN && (ids[i] < 0 || (uint64_t)ids[i] >= from->token_count))
            return wgi_fail(b->err, WG_ERR_FORMAT,
                            "a special token has id %lld, but the vocabulary has %zu tokens",
                            (long long)ids[i], from->token_count);
    return WG_OK;
}

/* Control, unknown and user-defined tokens are cut out of texts; the model may not know them. */
static wg_status add_tokens(build *b)
{
    wg_status status = WG_OK;

    for (size_t i = 0; i < b->from->token_count; i++) {
        wgi_token_type type = type_of(b, i);
        if (type != WGI_TOKEN_UNKNOWN && type != WGI_TOKEN_CONTROL &&
            type != WGI_TOKEN_USER_DEFINED)
            continue;
        if (b->from->tokens[i].count == 0) continue;
        if (wgi_piece_table_find(&b->to->model.vocabulary, b->from->tokens[i]) < 0)
            b->to->model.size--;
        WGI_TRY(wgi_added_tokens_put(&b->to->added, b->from->tokens[i], (int32_t)i,
                                     type != WGI_TOKEN_USER_DEFINED, b->err));
    }
    WGI_TRY(wgi_added_tokens_finish(&b->to->added, b->err));

cleanup:
    return status;
}

/* ------------------------------------------------------------------------------------ gpt2 */

static wg_status put_gpt2_merges(build *b)
{
    wg_status status = WG_OK;

    for (size_t i = 0; i < b->from->merge_count; i++) {
        wgi_slice merge = b->from->merges[i];
        const char *blank = merge.count > 1 ? memchr(merge.data + 1, ' ', merge.count - 1) : NULL;
        if (!blank) {
            status = wgi_fail(b->err, WG_ERR_FORMAT, "merge %zu, \"%.*s\", is not two pieces", i,
                              WGI_SHOW(merge));
            goto cleanup;
        }
        size_t left = (size_t)(blank - merge.data);
        WGI_TRY(wgi_bpe_put_pieces(b->to->model.bpe, &b->to->model.vocabulary,
                                   (wgi_slice){merge.data, left},
                                   (wgi_slice){blank + 1, merge.count - left - 1}, i, b->err));
    }

cleanup:
    return status;
}

static const pre_row *find_pre(build *b)
{
    wgi_slice pre = b->from->pre;

    if (pre.count == 0) {
        wgi_log(WG_LOG_WARNING,
                "tokenizer.ggml.pre is missing: texts are split by the rules named \"default\"");
        pre = slice_of("default");
    }
    for (size_t i = 0; i < sizeof(pre_rows) / sizeof(pre_rows[0]); i++)
        if (wgi_slice_is(pre, pre_rows[i].pre)) return &pre_rows[i];
    return NULL;
}

static wg_status build_gpt2(build *b, bool *adds_bos)
{
    wgi_token_model *model = &b->to->model;
    const pre_row *row = find_pre(b);
    wg_status status = WG_OK;

    if (!row)
        return wgi_fail(b->err, WG_ERR_UNSUPPORTED, "tokenizer.ggml.pre \"%.*s\" is not supported",
                        WGI_SHOW(b->from->pre));
    WGI_TRY(load_stages(b, row->normalizer, row->pre_tokenizer, byte_decoder));
    WGI_TRY(wgi_bpe_open(&model->bpe, b->err));
    for (size_t i = 0; i < b->from->token_count; i++)
        if (type_of(b, i) == WGI_TOKEN_NORMAL || type_of(b, i) == WGI_TOKEN_BYTE)
            WGI_TRY(
                wgi_piece_table_put(&model->vocabulary, b->from->tokens[i], (int32_t)i, b->err));
    WGI_TRY(put_gpt2_merges(b));
    model->bpe->ignores_merges = row->ignores_merges;
    model->encode = wgi_bpe_encode;
    *adds_bos = row->adds_bos;

cleanup:
    return status;
}

/* ----------------------------------------------------------------------------------- llama */

/* A way to put a piece together from two. */
typedef struct made_merge {
    double score; /* of the whole */
    uint32_t left_chars, right_chars;
    int32_t left, right, whole;
    uint32_t order; /* in which they were found */
} made_merge;

static int by_rank(const void *a, const void *b)
{
    const made_merge *x = a, *y = b;

    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->left_chars != y->left_chars) return x->left_chars > y->left_chars ? -1 : 1;
    if (x->right_chars != y->right_chars) return x->right_chars > y->right_chars ? -1 : 1;
    /* Stable; the converter looks at tokens in the order of ids. */
    return x->order < y->order ? -1 : 1;
}

typedef struct made_merges {
    made_merge *items;
    size_t count, capacity;
} made_merges;

static wg_status find_merges(build *b, size_t id, made_merges *merges)
{
    const wgi_piece_table *table = &b->to->model.vocabulary;
    wgi_slice piece = b->from->tokens[id];
    uint32_t chars = 0, before = 0;
    wg_status status = WG_OK;

    for (size_t at = 0; at < piece.count; chars++)
        (void)wgi_char_next(piece.data, &at);
    for (size_t at = 0; at < piece.count;) {
        (void)wgi_char_next(piece.data, &at);
        before++;
        if (at == piece.count) break;
        int32_t left = wgi_piece_table_find(table, (wgi_slice){piece.data, at});
        if (left < 0) continue;
        int32_t right = wgi_piece_table_find(table, (wgi_slice){piece.data + at, piece.count - at});
        if (right < 0) continue;
        WGI_TRY(wgi_grow(&merges->items, &merges->capacity, merges->count + 1,
                         sizeof(*merges->items), b->err));
        merges->items[merges->count] =
            (made_merge){b->from->scores[id],    before, chars - before, left, right, (int32_t)id,
                         (uint32_t)merges->count};
        merges->count++;
        if (merges->count == UINT32_MAX) {
            status = wgi_fail(b->err, WG_ERR_LIMIT, "the vocabulary gives too many merges");
            goto cleanup;
        }
    }

cleanup:
    return status;
}

static wg_status put_llama_merges(build *b)
{
    wgi_token_model *model = &b->to->model;
    made_merges merges = {0};
    wg_status status = WG_OK;

    for (size_t i = 0; i < b->from->token_count; i++)
        if (type_of(b, i) == WGI_TOKEN_NORMAL || type_of(b, i) == WGI_TOKEN_USER_DEFINED)
            WGI_TRY(find_merges(b, i, &merges));
    if (merges.count) qsort(merges.items, merges.count, sizeof(*merges.items), by_rank);
    for (size_t i = 0; i < merges.count; i++) {
        const made_merge *merge = &merges.items[i];
        WGI_TRY(wgi_bpe_put_ids(model->bpe, merge->left, merge->right, (uint32_t)i, merge->whole,
                                b->from->tokens[merge->whole], b->err));
    }

cleanup:
    wgi_free(merges.items);
    return status;
}

static wg_status build_llama(build *b, bool *adds_bos)
{
    wgi_token_model *model = &b->to->model;
    bool has_prefix = b->from->adds_space_prefix != WGI_SWITCH_OFF;
    wg_status status = WG_OK;

    if (!b->from->scores)
        return wgi_fail(b->err, WG_ERR_FORMAT, "tokenizer.ggml.scores is missing");
    WGI_TRY(has_prefix ? load_stages(b, llama_normalizer, "", llama_decoder)
                       : load_stages(b, gemma_normalizer, "", gemma_decoder));
    WGI_TRY(wgi_bpe_open(&model->bpe, b->err));
    for (size_t i = 0; i < b->from->token_count; i++)
        if (type_of(b, i) != WGI_TOKEN_UNUSED)
            WGI_TRY(
                wgi_piece_table_put(&model->vocabulary, b->from->tokens[i], (int32_t)i, b->err));
    WGI_TRY(put_llama_merges(b));
    model->bpe->falls_back_to_bytes = model->bpe->fuses_unknown = true;
    model->bpe->has_unknown = b->from->unknown != WGI_NO_TOKEN;
    model->bpe->unknown_id = (int32_t)b->from->unknown;
    model->encode = wgi_bpe_encode;
    *adds_bos = true;

cleanup:
    return status;
}

/* ------------------------------------------------------------------------------------ bert */

/* What the pieces have that a normaliser would have changed. */
typedef struct bert_traces {
    bool has_case, has_accents;
} bert_traces;

static void find_traces(wgi_slice piece, bert_traces *traces)
{
    const wgi_char_table *chars = wgi_char_table_shared();

    /* Names of special tokens, "[CLS]" or "[unused7]", are no words. */
    if (piece.count > 1 && piece.data[0] == '[' && piece.data[piece.count - 1] == ']') return;
    for (size_t at = 0; at < piece.count;) {
        uint32_t parts[WGI_DECOMPOSED_MAX], c = wgi_char_next(piece.data, &at);
        uint32_t flags = wgi_char_flags(chars, c);
        size_t count = 1;
        parts[0] = c;
        if (flags & WGI_CHAR_LOWER) traces->has_case = true;
        if (flags & WGI_CHAR_CANONICAL) count = wgi_char_decompose(c, false, parts);
        for (size_t i = 0; i < count; i++)
            if (wgi_char_flags(chars, parts[i]) & WGI_CHAR_NONSPACING) traces->has_accents = true;
    }
}

/*
 * The piece as vocab.txt has it: without U+2581 where words begin, with "##" elsewhere. U+2581
 * alone is no empty word but the character itself inside one.
 */
static wg_status put_bert_piece(build *b, size_t id, bert_traces *traces)
{
    const size_t mark_bytes = sizeof(WGI_MARK_TEXT) - 1;
    wgi_slice piece = b->from->tokens[id];
    wg_status status = WG_OK;

    b->room.count = 0;
    if (type_of(b, id) == WGI_TOKEN_NORMAL) {
        if (piece.count > mark_bytes && memcmp(piece.data, WGI_MARK_TEXT, mark_bytes) == 0) {
            piece.data += mark_bytes;
            piece.count -= mark_bytes;
        } else {
            WGI_TRY(wgi_buf_append(&b->room, "##", 2, b->err));
        }
        find_traces(piece, traces);
    }
    WGI_TRY(wgi_buf_append(&b->room, piece.data, piece.count, b->err));
    WGI_TRY(wgi_piece_table_put(&b->to->model.vocabulary, (wgi_slice){b->room.data, b->room.count},
                                (int32_t)id, b->err));

cleanup:
    return status;
}

static wg_status load_bert_stages(build *b, const bert_traces *traces)
{
    const wgi_vocabulary *from = b->from;
    bool lowers = !traces->has_case, strips = lowers && !traces->has_accents;

    if (from->lowers_case != WGI_SWITCH_MISSING) {
        lowers = from->lowers_case == WGI_SWITCH_ON;
        strips = lowers; /* strip_accents null, which converters leave out, means that */
    }
    if (from->strips_accents != WGI_SWITCH_MISSING) strips = from->strips_accents == WGI_SWITCH_ON;
    return load_stages(b, bert_normalizers[strips][lowers], "{\"type\":\"BertPreTokenizer\"}",
                       bert_decoder);
}

static wg_status build_bert(build *b, bool *adds_bos)
{
    wgi_token_model *model = &b->to->model;
    wg_status status = WG_OK;
    bert_traces traces = {false, false};

    if (b->from->unknown == WGI_NO_TOKEN)
        return wgi_fail(b->err, WG_ERR_FORMAT, "tokenizer.ggml.unknown_token_id is missing");
    for (size_t i = 0; i < b->from->token_count; i++)
        if (type_of(b, i) != WGI_TOKEN_UNUSED) WGI_TRY(put_bert_piece(b, i, &traces));
    WGI_TRY(load_bert_stages(b, &traces));
    model->unknown_id = (int32_t)b->from->unknown;
    model->word_chars_max = 100;
    WGI_TRY(wgi_wordpiece_settle(model, (wgi_slice){"##", 2}, b->err));
    *adds_bos = true;

cleanup:
    return status;
}

/* -------------------------------------------------------------------------------------- t5 */

static wg_status build_t5(build *b, bool *adds_bos)
{
    wg_status status = WG_OK;

    b->room.count = 0;
    WGI_TRY(wgi_unigram_normalizer(&b->room, b->from, b->err));
    wgi_slice normalizer = {b->room.data, b->room.count};
    WGI_TRY(wgi_normalizer_load(&b->to->normalizer, normalizer, &b->refusals, b->err));
    WGI_TRY(wgi_pre_tokenizer_load(
        &b->to->pre_tokenizer, slice_of(wgi_unigram_pre_tokenizer(b->from)), &b->refusals, b->err));
    WGI_TRY(
        wgi_token_decoder_load(&b->to->decoder, slice_of(wgi_unigram_decoder(b->from)), b->err));
    b->room.count = 0;
    WGI_TRY(wgi_unigram_model(&b->room, b->from, b->err));
    wgi_slice model = {b->room.data, b->room.count};
    WGI_TRY(wgi_unigram_load(&b->to->model, model, &b->refusals, b->err));
    WGI_TRY(wgi_refusals_check(&b->refusals, b->err));
    *adds_bos = false;

cleanup:
    return status;
}

/* -------------------------------------------------------------------------------- specials */

typedef struct model_row {
    const char *model;
    wg_status (*build)(build *b, bool *adds_bos);
} model_row;

static const model_row model_rows[] = {
    {"gpt2", build_gpt2},
    {"llama", build_llama},
    {"bert", build_bert},
    {"t5", build_t5},
};

static wg_status build_templates(build *b, bool is_bert, bool adds_bos, bool adds_eos)
{
    const wgi_vocabulary *from = b->from;
    int64_t before = is_bert && from->cls != WGI_NO_TOKEN ? from->cls : from->bos;
    int64_t after = is_bert ? from->separator : from->eos;

    if (from->adds_bos != WGI_SWITCH_MISSING) adds_bos = from->adds_bos == WGI_SWITCH_ON;
    if (from->adds_eos != WGI_SWITCH_MISSING) adds_eos = from->adds_eos == WGI_SWITCH_ON;
    if (is_bert) adds_bos = adds_eos = true;
    if (adds_bos && before == WGI_NO_TOKEN)
        return wgi_fail(b->err, WG_ERR_FORMAT,
                        "key tokenizer.ggml.bos_token_id is missing: texts begin with that token");
    if (adds_eos && after == WGI_NO_TOKEN)
        return wgi_fail(b->err, WG_ERR_FORMAT,
                        "key tokenizer.ggml.%s is missing: texts end with that token",
                        is_bert ? "seperator_token_id" : "eos_token_id");
    return wgi_post_processor_simple(&b->to->post_processor, adds_bos ? (int32_t)before : -1,
                                     adds_eos ? (int32_t)after : -1, is_bert, b->err);
}

wg_status wgi_tokenizer_from_vocabulary(wg_tokenizer **out, const wgi_vocabulary *vocabulary,
                                        wg_error *err)
{
    wg_status status = WG_OK;
    build b = {.from = vocabulary, .err = err};
    const model_row *row = NULL;
    bool adds_bos = false;

    *out = NULL;
    for (size_t i = 0; i < sizeof(model_rows) / sizeof(model_rows[0]); i++)
        if (wgi_slice_is(vocabulary->model, model_rows[i].model)) row = &model_rows[i];
    if (!row)
        return wgi_fail(err, WG_ERR_UNSUPPORTED, "tokenizer.ggml.model \"%.*s\" is not supported",
                        WGI_SHOW(vocabulary->model));
    WGI_TRY(check_tokens(&b));
    WGI_TRY(wgi_tokenizer_new(&b.to, err));
    WGI_TRY(row->build(&b, &adds_bos));
    b.to->model.size = vocabulary->token_count;
    WGI_TRY(add_tokens(&b));
    bool is_bert = row->build == build_bert, adds_eos = is_bert || row->build == build_t5;
    WGI_TRY(build_templates(&b, is_bert, adds_bos, adds_eos));
    WGI_TRY(wgi_tokenizer_settle(b.to, err));
    *out = b.to;
    b.to = NULL;

cleanup:
    wgi_buf_fini(&b.refusals.names);
    wgi_buf_fini(&b.room);
    wg_tokenizer_close(b.to);
    return status;
}
