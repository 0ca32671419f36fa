/*
 * encode.c - the road of one text through the stages, and the word cache.
 *
 *   text ─▶ sections (text | added token) ─▶ chunks of a few KiB ─▶ normalise ─▶ split ─▶ words ─▶
 * ids
 *
 * The idea: a chunk ends before a blank, where the stages forget what was before (if they do: some
 * splitters and normalisers do not, and then the whole text is one chunk); so its buffers stay in
 * the first-level cache, and work stops once enough tokens are there: forward when
 * the first are kept, backward from the end when the last are. Words of up to 16 bytes that give up
 * to 3 ids are remembered in a table that belongs to the encoding (one place a word, the later one
 * stays), so a common word costs two loads and a comparison. Refused: a cache shared by threads (a
 * lock a word), and offsets of tokens in the text (nobody asks).
 *
 * Where the two directions or the chunks could differ from one pass over the whole, the whole text
 * is one chunk.
 *
 * Threads: the tokenizer is read-only; everything else hangs on the caller's encoding.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/truncate.h"

#ifndef WGI_CHUNK_BYTES /* fuzzing cuts texts more often */
#define WGI_CHUNK_BYTES 4096
#endif
#define CACHE_WORDS      4096 /* a power of two; 128 KiB */
#define CACHE_WORD_BYTES 16
#define CACHE_IDS        3
#define KEPT_BYTES       (4u << 20) /* larger buffers are given back after the text */

typedef struct cached_word {
    uint64_t low, high; /* the bytes, zero behind */
    int32_t ids[CACHE_IDS];
    uint8_t bytes, count;
} cached_word;

typedef struct encode_scratch {
    uint64_t serial; /* whose words the cache holds */
    cached_word *cache;
    wgi_normalizer_scratch normalizer;
    wgi_pre_scratch pre;
    wgi_word_scratch word;
    wgi_sections sections, inner;
    wgi_buf repaired;
    wgi_ids ids[2]; /* of text and pair, before the template */
} encode_scratch;

/* One text being encoded. */
typedef struct encode_run {
    const wg_tokenizer *tokenizer;
    encode_scratch *scratch;
    wgi_ids *ids;
    wgi_want want;
} encode_run;

static bool is_enough(const encode_run *run)
{
    return run->ids->count >= run->want.stop;
}

/* --------------------------------------------------------------------------------- words */

/* Up to 16 bytes as two numbers; WGI_TEXT_SLACK bytes behind the text are readable. */
static void load_word(wgi_slice word, uint64_t *low, uint64_t *high)
{
    memcpy(low, word.data, 8);
    memcpy(high, word.data + 8, 8);
    if (word.count <= 8) {
        *high = 0;
        if (word.count < 8) *low &= (UINT64_C(1) << (8 * word.count)) - 1;
    } else if (word.count < 16) {
        *high &= (UINT64_C(1) << (8 * (word.count - 8))) - 1;
    }
}

static wg_status append(wgi_ids *ids, const cached_word *word, wg_error *err)
{
    if (ids->capacity - ids->count < CACHE_IDS) {
        wg_status status =
            wgi_grow(&ids->items, &ids->capacity, ids->count + CACHE_IDS, sizeof(*ids->items), err);
        if (status != WG_OK) return status;
    }
    memcpy(ids->items + ids->count, word->ids, sizeof(word->ids));
    ids->count += word->count;
    return WG_OK;
}

static wg_status encode_word(encode_run *run, wgi_slice word, wg_error *err)
{
    const wgi_token_model *model = &run->tokenizer->model;
    wgi_ids *ids = run->ids;
    uint64_t low, high;

    if (word.count > CACHE_WORD_BYTES)
        return model->encode(model, word, ids, &run->scratch->word, err);
    load_word(word, &low, &high);
    uint64_t hash = (low ^ (high * 0x9E3779B97F4A7C15u) ^ word.count) * 0xD6E8FEB86659FD93u;
    cached_word *cached = &run->scratch->cache[(hash ^ hash >> 32) % CACHE_WORDS];
    if (cached->low == low && cached->high == high && cached->bytes == word.count)
        return append(ids, cached, err);

    size_t before = ids->count;
    wg_status status = model->encode(model, word, ids, &run->scratch->word, err);
    size_t count = ids->count - before;
    if (status == WG_OK && count > 0 && count <= CACHE_IDS) {
        *cached = (cached_word){.low = low, .high = high};
        cached->bytes = (uint8_t)word.count;
        cached->count = (uint8_t)count;
        memcpy(cached->ids, ids->items + before, count * sizeof(*cached->ids));
    }
    return status;
}

/* Backward runs keep ids in reverse until the end. */
static void reverse(int32_t *items, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        int32_t item = items[i];
        items[i] = items[count - 1 - i];
        items[count - 1 - i] = item;
    }
}

static wg_status encode_words(encode_run *run, wgi_slice text, wg_error *err)
{
    const wgi_spans *words = &run->scratch->pre.words;
    wg_status status = WG_OK;

    for (size_t i = 0; i < words->count && !is_enough(run); i++) {
        size_t index = run->want.backward ? words->count - 1 - i : i;
        size_t before = run->ids->count;
        wgi_span span = words->items[index];
        WGI_TRY(encode_word(run, (wgi_slice){text.data + span.begin, span.end - span.begin}, err));
        if (run->want.backward && run->ids->count > before)
            reverse(run->ids->items + before, run->ids->count - before);
    }

cleanup:
    return status;
}

static wg_status encode_normalized(encode_run *run, wgi_slice text, bool is_first, wg_error *err)
{
    wg_status status = wgi_pre_tokenize(&run->tokenizer->pre_tokenizer, run->tokenizer->chars, text,
                                        is_first, &run->scratch->pre, &text, err);

    return status == WG_OK ? encode_words(run, text, err) : status;
}

/* -------------------------------------------------------------------------------- chunks */

/* May the text end before `at` (> 0)? */
static bool is_cut(const wg_tokenizer *tokenizer, wgi_slice text, size_t at)
{
    unsigned char byte = (unsigned char)text.data[at];

    if (!tokenizer->pre_tokenizer.splits_at_space) {
        if (byte != ' ') return false;
        uint32_t flags = wgi_char_flags(tokenizer->chars, wgi_char_before(text.data, &at));
        if (flags & WGI_CHAR_PREPENDS) return false;
        return wgi_char_is_letter(flags) || wgi_char_is_number(flags) ||
               ((unsigned char)text.data[at] < 0x80 && flags & WGI_CHAR_PUNCTUATION);
    }
    if (byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r') return true;
    /* U+4E00 to U+9FFF between blanks, if the normaliser puts them there. */
    if (!tokenizer->normalizer.isolates_chinese) return false;
    return (byte >= 0xE5 && byte <= 0xE9) ||
           (byte == 0xE4 && (unsigned char)text.data[at + 1] >= 0xB8);
}

static size_t cut_after(const wg_tokenizer *tokenizer, wgi_slice text, size_t at)
{
    if (text.count - at <= WGI_CHUNK_BYTES) return text.count;
    for (at += WGI_CHUNK_BYTES; at < text.count; at++)
        if (is_cut(tokenizer, text, at)) break;
    return at;
}

static size_t cut_before(const wg_tokenizer *tokenizer, wgi_slice text, size_t end)
{
    if (end <= WGI_CHUNK_BYTES) return 0;
    for (end -= WGI_CHUNK_BYTES; end > 0; end--)
        if (is_cut(tokenizer, text, end)) break;
    return end;
}

/* is_begin: the chunk is the first of its section; is_first: and that of its document. */
static wg_status encode_chunk(encode_run *run, wgi_slice text, bool is_begin, bool is_first,
                              wg_error *err)
{
    wgi_slice normalized;
    wg_status status = wgi_normalize(&run->tokenizer->normalizer, run->tokenizer->chars, text,
                                     is_begin, &run->scratch->normalizer, &normalized, err);

    return status == WG_OK ? encode_normalized(run, normalized, is_begin && is_first, err) : status;
}

static wg_status encode_chunks(encode_run *run, wgi_slice text, bool is_first, wg_error *err)
{
    const wgi_pre_tokenizer *pre_tokenizer = &run->tokenizer->pre_tokenizer;
    wg_status status = WG_OK;
    size_t at = run->want.backward ? text.count : 0;

    if (!pre_tokenizer->splits_at_space && !pre_tokenizer->cuts_at_space)
        return encode_chunk(run, text, true, is_first, err);
    while (!is_enough(run) && at != (run->want.backward ? 0 : text.count)) {
        size_t to = run->want.backward ? cut_before(run->tokenizer, text, at)
                                       : cut_after(run->tokenizer, text, at);
        size_t begin = at < to ? at : to, end = at < to ? to : at;
        wgi_slice chunk = {text.data + begin, end - begin};
        WGI_TRY(encode_chunk(run, chunk, begin == 0, is_first, err));
        at = to;
    }

cleanup:
    return status;
}

/* ------------------------------------------------------------------------------ sections */

typedef wg_status encode_section(encode_run *run, wgi_slice text, bool is_first, wg_error *err);

/*
 * Sections of a scan in the direction of the run: tokens as they are, texts through `encode`.
 * is_first: the scanned text is the begin of the document.
 */
static wg_status encode_sections(encode_run *run, wgi_added_scan *scan, wgi_sections *sections,
                                 encode_section *encode, bool is_first, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_section section;

    sections->count = 0;
    if (run->want.backward) WGI_TRY(wgi_added_sections(scan, sections, err));
    while (!is_enough(run)) {
        if (run->want.backward) {
            if (sections->count == 0) break;
            section = sections->items[--sections->count];
        } else if (!wgi_added_next(scan, &section)) {
            break;
        }
        if (section.id >= 0) {
            WGI_TRY(wgi_ids_push(run->ids, section.id, err));
        } else {
            wgi_slice text = {scan->text.data + section.begin, section.end - section.begin};
            WGI_TRY(encode(run, text, is_first && section.begin == 0, err));
        }
    }

cleanup:
    return status;
}

static wgi_added_scan scan_of(const encode_run *run, const wgi_added_set *set, wgi_slice text)
{
    return (wgi_added_scan){.set = set,
                            .chars = run->tokenizer->chars,
                            .text = text,
                            .plain_specials = run->want.plain_specials};
}

/* A text without added tokens of the first set. */
static wg_status encode_text(encode_run *run, wgi_slice text, bool is_first, wg_error *err)
{
    const wg_tokenizer *tokenizer = run->tokenizer;
    wgi_slice normalized;

    if (tokenizer->added.normalized.count == 0) return encode_chunks(run, text, is_first, err);
    wg_status status = wgi_normalize(&tokenizer->normalizer, tokenizer->chars, text, true,
                                     &run->scratch->normalizer, &normalized, err);
    if (status != WG_OK) return status;
    wgi_added_scan scan = scan_of(run, &tokenizer->added.normalized, normalized);
    return encode_sections(run, &scan, &run->scratch->inner, encode_normalized, is_first, err);
}

static wg_status encode_one(encode_run *run, wgi_slice text, wgi_buf *repaired, wg_error *err)
{
    wg_status status = WG_OK;

    run->ids->count = 0;
    if (wgi_utf8_check(text.data, text.count) < text.count) {
        repaired->count = 0;
        WGI_TRY(wgi_utf8_repair(repaired, text.data, text.count, NULL, err));
        text = (wgi_slice){repaired->data, repaired->count};
    }
    wgi_added_scan scan = scan_of(run, &run->tokenizer->added.raw, text);
    WGI_TRY(encode_sections(run, &scan, &run->scratch->sections, encode_text, true, err));
    if (run->want.backward) reverse(run->ids->items, run->ids->count);

cleanup:
    return status;
}

/* ------------------------------------------------------------------------------- scratch */

static void scratch_close(encode_scratch *scratch)
{
    if (!scratch) return;
    wgi_free(scratch->cache);
    wgi_normalizer_scratch_fini(&scratch->normalizer);
    wgi_pre_scratch_fini(&scratch->pre);
    wgi_word_scratch_fini(&scratch->word);
    wgi_free(scratch->sections.items);
    wgi_free(scratch->inner.items);
    wgi_buf_fini(&scratch->repaired);
    wgi_free(scratch->ids[0].items);
    wgi_free(scratch->ids[1].items);
    wgi_free(scratch);
}

/* NULL when memory runs out; err is filled. */
static encode_scratch *scratch_open(const wg_tokenizer *tokenizer, wg_encoding *encoding,
                                    wg_error *err)
{
    encode_scratch *scratch = encoding->scratch;

    if (!scratch) {
        scratch = wgi_calloc(1, sizeof(*scratch));
        if (scratch) scratch->cache = wgi_calloc(CACHE_WORDS, sizeof(*scratch->cache));
        if (!scratch || !scratch->cache) {
            wgi_free(scratch);
            (void)wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for the buffers of an encoding");
            return NULL;
        }
        encoding->scratch = scratch;
    }
    if (scratch->serial != tokenizer->serial) {
        memset(scratch->cache, 0, CACHE_WORDS * sizeof(*scratch->cache));
        scratch->serial = tokenizer->serial;
    }
    return scratch;
}

/* One giant text does not leave giant buffers behind. */
static void scratch_trim(wg_encoding *encoding)
{
    encode_scratch *scratch = encoding->scratch;
    size_t bytes = scratch->normalizer.texts[0].capacity + scratch->normalizer.texts[1].capacity +
                   (scratch->normalizer.marks.capacity + scratch->normalizer.marks.spare_capacity) *
                       sizeof(wgi_mark) +
                   (scratch->pre.words.capacity + scratch->pre.spare.capacity) * sizeof(wgi_span) +
                   scratch->pre.texts[0].capacity + scratch->pre.texts[1].capacity +
                   (scratch->pre.stack.capacity + scratch->normalizer.stack.capacity) *
                       sizeof(wgi_pattern_frame) +
                   wgi_word_scratch_bytes(&scratch->word) +
                   (scratch->sections.capacity + scratch->inner.capacity) * sizeof(wgi_section) +
                   scratch->repaired.capacity +
                   (scratch->ids[0].capacity + scratch->ids[1].capacity) * sizeof(int32_t);

    if (bytes <= KEPT_BYTES) return;
    scratch_close(scratch);
    encoding->scratch = NULL;
}

/* -------------------------------------------------------------------------------- public */

static wg_status encode_texts(const wg_tokenizer *tokenizer, encode_scratch *scratch,
                              const wgi_slice texts[2], const wgi_plan *plan, wg_error *err)
{
    wg_status status = WG_OK;

    for (int i = 0; i < (plan->has_pair ? 2 : 1) && status == WG_OK; i++) {
        encode_run run = {tokenizer, scratch, &scratch->ids[i], plan->want};
        status = encode_one(&run, texts[i], &scratch->repaired, err);
    }
    return status;
}

wg_status wg_tokenizer_encode(const wg_tokenizer *tokenizer, const char *text, size_t text_bytes,
                              const char *pair, size_t pair_bytes, const wg_encode_options *options,
                              wg_encoding *encoding, wg_error *err)
{
    wg_status status = WG_OK;
    const wg_encode_options defaults = {0};
    encode_scratch *scratch = NULL;
    wgi_plan plan;

    if (!tokenizer || !encoding || (!text && text_bytes) || (!pair && pair_bytes))
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "a text to encode or a place for its tokens is missing");
    encoding->token_count = encoding->content_begin = encoding->content_end = 0;
    encoding->is_truncated = 0;
    if (!options) options = &defaults;
    WGI_TRY(wgi_plan_make(&plan, &tokenizer->post_processor, options, pair != NULL, err));
    scratch = scratch_open(tokenizer, encoding, err);
    if (!scratch) {
        status = WG_ERR_NO_MEMORY;
        goto cleanup;
    }
    const wgi_slice texts[2] = {{text ? text : "", text_bytes}, {pair, pair_bytes}};
    WGI_TRY(encode_texts(tokenizer, scratch, texts, &plan, err));
    if (wgi_plan_needs_all(&plan, scratch->ids)) {
        plan.want.stop = SIZE_MAX;
        WGI_TRY(encode_texts(tokenizer, scratch, texts, &plan, err));
    }
    WGI_TRY(wgi_plan_finish(&plan, &tokenizer->post_processor, scratch->ids, encoding, err));

cleanup:
    if (encoding->scratch) scratch_trim(encoding);
    return status;
}

void wg_encoding_fini(wg_encoding *encoding)
{
    if (!encoding) return;
    wgi_free(encoding->token_ids);
    wgi_free(encoding->type_ids);
    scratch_close(encoding->scratch);
    *encoding = (wg_encoding){0};
}
