/*
 * token_decoder.c - the decoders of Hugging Face tokenizers: ByteLevel, WordPiece, Metaspace,
 * BPEDecoder, Replace, ByteFallback, Fuse, Strip, and sequences of them.
 *
 * The idea: texts of tokens lie end to end, and a step writes a new row of them, so Fuse forgets
 * the ends and the result needs no joining. A decoder has no part in ids: one that is not known is
 * remembered by name and refused when text is asked for, not when the file is opened.
 *
 * Threads: read-only once loaded; scratch belongs to the caller.
 */
#include "tokenizer/token_decoder.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tokenizer/byte_letters.h"
#include "tokenizer/show.h"

#define SEQUENCE_DEPTH_MAX 8

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

/* ----------------------------------------------------------------------------------- texts */

/* What was appended to the text since the last end is a token's. */
static wg_status end_token(wgi_token_texts *texts, wg_error *err)
{
    wg_status status =
        wgi_grow(&texts->ends, &texts->capacity, texts->count + 1, sizeof(*texts->ends), err);

    if (status == WG_OK) texts->ends[texts->count++] = texts->text.count;
    return status;
}

wg_status wgi_token_texts_push(wgi_token_texts *texts, wgi_slice text, wg_error *err)
{
    wg_status status = wgi_buf_append(&texts->text, text.data, text.count, err);

    return status == WG_OK ? end_token(texts, err) : status;
}

static wgi_slice text_at(const wgi_token_texts *texts, size_t i)
{
    size_t begin = i ? texts->ends[i - 1] : 0;

    return (wgi_slice){texts->text.data + begin, texts->ends[i] - begin};
}

/* ----------------------------------------------------------------------------------- steps */

static wg_status fuse(const wgi_decoder_step *step, const wgi_token_texts *in, wgi_token_texts *out,
                      wgi_decoder_scratch *scratch, wg_error *err)
{
    (void)step;
    (void)scratch;
    return wgi_token_texts_push(out, (wgi_slice){in->text.data, in->text.count}, err);
}

/* A token with a character that stands for no byte is its own bytes. */
static wg_status read_bytes(const wgi_decoder_step *step, const wgi_token_texts *in,
                            wgi_token_texts *out, wgi_decoder_scratch *scratch, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf *bytes = &scratch->bytes;

    (void)step;
    bytes->count = 0;
    WGI_TRY(wgi_buf_reserve(bytes, 0, err));
    for (size_t i = 0; i < in->count; i++) {
        wgi_slice text = text_at(in, i);
        bool is_good = false;
        WGI_TRY(wgi_byte_letters_read(bytes, text, &is_good, err));
        if (!is_good) WGI_TRY(wgi_buf_append(bytes, text.data, text.count, err));
    }
    WGI_TRY(wgi_utf8_repair(&out->text, bytes->data, bytes->count, NULL, err));
    WGI_TRY(end_token(out, err));

cleanup:
    return status;
}

/* Appends text with each `from` (not empty) replaced. */
static wg_status replace_all(wgi_buf *out, wgi_slice text, wgi_slice from, wgi_slice to,
                             wg_error *err)
{
    wg_status status = WG_OK;

    while (text.count) {
        const char *found = memmem(text.data, text.count, from.data, from.count);
        size_t kept = found ? (size_t)(found - text.data) : text.count;
        WGI_TRY(wgi_buf_append(out, text.data, kept, err));
        if (!found) break;
        WGI_TRY(wgi_buf_append(out, to.data, to.count, err));
        text.data += kept + from.count;
        text.count -= kept + from.count;
    }

cleanup:
    return status;
}

/* Blanks that English does not have, in this order; each begins with one. */
static const char *const clean_ups[][2] = {
    {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
    {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
    {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
};

/* Of what stands in the text behind `begin`. */
static wg_status clean_up(wgi_buf *text, size_t begin, wgi_buf *spare, wg_error *err)
{
    wg_status status = WG_OK;

    for (size_t i = 0; i < sizeof(clean_ups) / sizeof(clean_ups[0]); i++) {
        const wgi_slice from = {clean_ups[i][0], strlen(clean_ups[i][0])};
        const wgi_slice to = {clean_ups[i][1], strlen(clean_ups[i][1])};
        if (!memmem(text->data + begin, text->count - begin, from.data, from.count)) continue;
        spare->count = 0;
        WGI_TRY(wgi_buf_append(spare, text->data + begin, text->count - begin, err));
        text->count = begin;
        WGI_TRY(replace_all(text, (wgi_slice){spare->data, spare->count}, from, to, err));
    }

cleanup:
    return status;
}

static wg_status join_words(const wgi_decoder_step *step, const wgi_token_texts *in,
                            wgi_token_texts *out, wgi_decoder_scratch *scratch, wg_error *err)
{
    wg_status status = WG_OK;

    for (size_t i = 0; i < in->count; i++) {
        wgi_slice text = text_at(in, i);
        size_t begin = out->text.count;
        if (i > 0) {
            if (text.count >= step->content_bytes &&
                memcmp(text.data, step->content, step->content_bytes) == 0) {
                text.data += step->content_bytes;
                text.count -= step->content_bytes;
            } else {
                WGI_TRY(wgi_buf_append(&out->text, " ", 1, err));
            }
        }
        WGI_TRY(wgi_buf_append(&out->text, text.data, text.count, err));
        if (step->cleans_up) WGI_TRY(clean_up(&out->text, begin, &scratch->spare, err));
        WGI_TRY(end_token(out, err));
    }

cleanup:
    return status;
}

/* Marks become blanks, those of the first token nothing where the encoder put one in front. */
static wg_status read_marks(const wgi_decoder_step *step, const wgi_token_texts *in,
                            wgi_token_texts *out, wgi_decoder_scratch *scratch, wg_error *err)
{
    wg_status status = WG_OK;
    const wgi_slice mark = {step->content, step->content_bytes};

    (void)scratch;
    for (size_t i = 0; i < in->count; i++) {
        const wgi_slice blank = {" ", i == 0 && step->drops_first ? 0 : 1};
        WGI_TRY(replace_all(&out->text, text_at(in, i), mark, blank, err));
        WGI_TRY(end_token(out, err));
    }

cleanup:
    return status;
}

static wg_status read_suffixes(const wgi_decoder_step *step, const wgi_token_texts *in,
                               wgi_token_texts *out, wgi_decoder_scratch *scratch, wg_error *err)
{
    wg_status status = WG_OK;
    const wgi_slice suffix = {step->content, step->content_bytes};

    (void)scratch;
    for (size_t i = 0; i < in->count; i++) {
        const wgi_slice blank = {" ", i + 1 < in->count ? 1 : 0};
        WGI_TRY(replace_all(&out->text, text_at(in, i), suffix, blank, err));
        WGI_TRY(end_token(out, err));
    }

cleanup:
    return status;
}

static wg_status replace_pattern(const wgi_decoder_step *step, const wgi_token_texts *in,
                                 wgi_token_texts *out, wgi_decoder_scratch *scratch, wg_error *err)
{
    wg_status status = WG_OK;

    for (size_t i = 0; i < in->count; i++) {
        wgi_slice text;
        WGI_TRY(wgi_normalize(step->replace, wgi_char_table_shared(), text_at(in, i), true,
                              &scratch->normalizer, &text, err));
        WGI_TRY(wgi_token_texts_push(out, text, err));
    }

cleanup:
    return status;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The byte that "<0x41>" names, or -1. The original reads a plus sign as a number's, too. */
static int named_byte(wgi_slice text)
{
    if (text.count != 6 || memcmp(text.data, "<0x", 3) != 0 || text.data[5] != '>') return -1;
    int high = text.data[3] == '+' ? 0 : hex_digit(text.data[3]), low = hex_digit(text.data[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* Bytes in a row are one token, or, when they are not UTF-8, a replacement character each. */
static wg_status end_bytes(wgi_token_texts *out, wgi_buf *bytes, wg_error *err)
{
    wg_status status = WG_OK;

    if (bytes->count == 0) return WG_OK;
    if (wgi_utf8_check(bytes->data, bytes->count) == bytes->count) {
        WGI_TRY(wgi_token_texts_push(out, (wgi_slice){bytes->data, bytes->count}, err));
    } else {
        for (size_t i = 0; i < bytes->count; i++)
            WGI_TRY(
                wgi_token_texts_push(out, (wgi_slice){replacement, sizeof(replacement) - 1}, err));
    }
    bytes->count = 0;

cleanup:
    return status;
}

static wg_status read_named_bytes(const wgi_decoder_step *step, const wgi_token_texts *in,
                                  wgi_token_texts *out, wgi_decoder_scratch *scratch, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf *bytes = &scratch->bytes;

    (void)step;
    bytes->count = 0;
    for (size_t i = 0; i < in->count; i++) {
        wgi_slice text = text_at(in, i);
        int named = named_byte(text);
        if (named >= 0) {
            const char byte = (char)named;
            WGI_TRY(wgi_buf_append(bytes, &byte, 1, err));
        } else {
            WGI_TRY(end_bytes(out, bytes, err));
            WGI_TRY(wgi_token_texts_push(out, text, err));
        }
    }
    WGI_TRY(end_bytes(out, bytes, err));

cleanup:
    return status;
}

/* At most `start` of the character in front and `stop` of it behind; they may meet. */
static wgi_slice strip_text(const wgi_decoder_step *step, wgi_slice text)
{
    size_t bytes = step->content_bytes;
    size_t begin = 0, end = text.count;

    for (uint64_t i = 0; i < step->start && end - begin >= bytes; i++, begin += bytes)
        if (memcmp(text.data + begin, step->content, bytes) != 0) break;
    for (uint64_t i = 0; i < step->stop && end - begin >= bytes; i++, end -= bytes)
        if (memcmp(text.data + end - bytes, step->content, bytes) != 0) break;
    return (wgi_slice){text.data + begin, end - begin};
}

static wg_status strip(const wgi_decoder_step *step, const wgi_token_texts *in,
                       wgi_token_texts *out, wgi_decoder_scratch *scratch, wg_error *err)
{
    wg_status status = WG_OK;

    (void)scratch;
    for (size_t i = 0; i < in->count; i++)
        WGI_TRY(wgi_token_texts_push(out, strip_text(step, text_at(in, i)), err));

cleanup:
    return status;
}

/* --------------------------------------------------------------------------------- loading */

static void step_fini(wgi_decoder_step *step)
{
    wgi_free(step->content);
    if (step->replace) wgi_normalizer_fini(step->replace);
    wgi_free(step->replace);
    *step = (wgi_decoder_step){0};
}

static wg_status load_part(wgi_token_decoder *decoder, wgi_slice part, int depth, wg_error *err);

static wg_status set_content(wgi_decoder_step *step, const wgi_buf *text, wg_error *err)
{
    step->content = wgi_memdup(text->data ? text->data : "", text->count);
    step->content_bytes = text->count;
    return step->content ? WG_OK : wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a decoder");
}

static wg_status check_character(const wgi_buf *text, const char *where, wg_error *err)
{
    size_t at = 0;

    if (text->count) (void)wgi_char_next(text->data, &at);
    if (text->count && at == text->count) return WG_OK;
    return wgi_fail(err, WG_ERR_FORMAT, "%s: \"%.*s\" is not one character", where,
                    WGI_SHOW(((wgi_slice){text->data ? text->data : "", text->count})));
}

/* Options of the kinds; fields that they do not have are passed over, as in the original. */

static wg_status load_word_piece(wgi_decoder_step *step, wgi_slice part, wgi_refusals *refusals,
                                 wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf prefix = {0};
    wgi_field fields[] = {
        {.name = "prefix", .kind = WGI_FIELD_TEXT, .out = &prefix},
        {.name = "cleanup", .kind = WGI_FIELD_BOOL, .out = &step->cleans_up},
    };

    (void)refusals;
    WGI_TRY(wgi_fields_read(part, "decoder WordPiece", fields, 2, NULL, err));
    WGI_TRY(set_content(step, &prefix, err));

cleanup:
    wgi_buf_fini(&prefix);
    return status;
}

static wg_status load_metaspace(wgi_decoder_step *step, wgi_slice part, wgi_refusals *refusals,
                                wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf mark = {0}, scheme = {0};
    bool has_prefix = true;
    wgi_field fields[] = {
        {.name = "replacement", .kind = WGI_FIELD_TEXT, .out = &mark},
        {.name = "add_prefix_space",
         .kind = WGI_FIELD_BOOL,
         .out = &has_prefix,
         .is_optional = true},
        {.name = "prepend_scheme", .kind = WGI_FIELD_TEXT, .out = &scheme, .is_optional = true},
    };

    WGI_TRY(wgi_fields_read(part, "decoder Metaspace", fields, 3, NULL, err));
    WGI_TRY(check_character(&mark, "decoder Metaspace, \"replacement\"", err));
    const wgi_slice name = {scheme.count ? scheme.data : "always",
                            scheme.count ? scheme.count : strlen("always")};
    step->drops_first = !wgi_slice_is(name, "never");
    if (step->drops_first && !wgi_slice_is(name, "always") && !wgi_slice_is(name, "first"))
        WGI_TRY(wgi_refuse(refusals, err, "decoder Metaspace with prepend_scheme \"%.*s\"",
                           WGI_SHOW(name)));
    if (!has_prefix && step->drops_first) {
        status = wgi_fail(err, WG_ERR_FORMAT,
                          "decoder Metaspace: add_prefix_space false and prepend_scheme do not "
                          "agree");
        goto cleanup;
    }
    WGI_TRY(set_content(step, &mark, err));

cleanup:
    wgi_buf_fini(&mark);
    wgi_buf_fini(&scheme);
    return status;
}

static wg_status load_suffix(wgi_decoder_step *step, wgi_slice part, wgi_refusals *refusals,
                             wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf suffix = {0};
    wgi_field fields[] = {{.name = "suffix", .kind = WGI_FIELD_TEXT, .out = &suffix}};

    WGI_TRY(wgi_fields_read(part, "decoder BPEDecoder", fields, 1, NULL, err));
    if (suffix.count == 0)
        WGI_TRY(wgi_refuse(refusals, err, "decoder BPEDecoder with an empty suffix"));
    WGI_TRY(set_content(step, &suffix, err));

cleanup:
    wgi_buf_fini(&suffix);
    return status;
}

static wg_status load_replace(wgi_decoder_step *step, wgi_slice part, wgi_refusals *refusals,
                              wg_error *err)
{
    wg_status status = WG_OK;
    wgi_refusals own = {0};

    step->replace = wgi_calloc(1, sizeof(*step->replace));
    if (!step->replace) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a decoder");
    WGI_TRY(wgi_normalizer_load(step->replace, part, &own, err));
    if (own.count) WGI_TRY(wgi_refuse(refusals, err, "decoder Replace (%s)", own.names.data));

cleanup:
    wgi_buf_fini(&own.names);
    return status;
}

static wg_status load_strip(wgi_decoder_step *step, wgi_slice part, wgi_refusals *refusals,
                            wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf content = {0};
    wgi_field fields[] = {
        {.name = "content", .kind = WGI_FIELD_TEXT, .out = &content},
        {.name = "start", .kind = WGI_FIELD_UINT, .out = &step->start},
        {.name = "stop", .kind = WGI_FIELD_UINT, .out = &step->stop},
    };

    (void)refusals;
    WGI_TRY(wgi_fields_read(part, "decoder Strip", fields, 3, NULL, err));
    WGI_TRY(check_character(&content, "decoder Strip, \"content\"", err));
    WGI_TRY(set_content(step, &content, err));

cleanup:
    wgi_buf_fini(&content);
    return status;
}

typedef struct decoder_row {
    const char *type;
    wgi_decoder_run *run;
    /* Reads the options; NULL: there are none. */
    wg_status (*load)(wgi_decoder_step *step, wgi_slice part, wgi_refusals *refusals,
                      wg_error *err);
} decoder_row;

static const decoder_row rows[] = {
    {"ByteLevel", read_bytes, NULL}, /* its options are those of the encoder */
    {"ByteFallback", read_named_bytes, NULL},
    {"Fuse", fuse, NULL},
    {"WordPiece", join_words, load_word_piece},
    {"Metaspace", read_marks, load_metaspace},
    {"BPEDecoder", read_suffixes, load_suffix},
    {"Replace", replace_pattern, load_replace},
    {"Strip", strip, load_strip},
};

static wg_status load_step(wgi_token_decoder *decoder, const decoder_row *row, wgi_slice part,
                           wg_error *err)
{
    if (decoder->step_count == WGI_DECODER_STEPS_MAX)
        return decoder->refusals.count ? WG_OK
                                       : wgi_refuse(&decoder->refusals, err,
                                                    "more than %d decoders", WGI_DECODER_STEPS_MAX);
    wgi_decoder_step *step = &decoder->steps[decoder->step_count++];
    step->run = row->run;
    return row->load ? row->load(step, part, &decoder->refusals, err) : WG_OK;
}

static wg_status load_sequence(wgi_token_decoder *decoder, wgi_slice part, int depth, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice list = {"[]", 2}, item;
    wgi_json json;
    wgi_field fields[] = {{.name = "decoders", .kind = WGI_FIELD_RAW, .out = &list}};

    wgi_json_init(&json, "", 0);
    if (depth == SEQUENCE_DEPTH_MAX) {
        status =
            wgi_refuse(&decoder->refusals, err, "decoder Sequence nested deeper than %d", depth);
        goto cleanup;
    }
    WGI_TRY(wgi_fields_read(part, "decoder Sequence", fields, 1, NULL, err));
    wgi_json_init(&json, list.data, list.count);
    WGI_TRY(wgi_json_array_begin(&json, err));
    while (wgi_json_array_next(&json)) {
        WGI_TRY(wgi_json_raw(&json, &item, err));
        WGI_TRY(load_part(decoder, item, depth + 1, err));
    }
    WGI_TRY(wgi_json_finish(&json, err));

cleanup:
    wgi_json_fini(&json);
    return status;
}

static wg_status load_part(wgi_token_decoder *decoder, wgi_slice part, int depth, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf name = {0};
    bool has_type = false, is_known = false;

    WGI_TRY(wgi_part_type(part, "decoder", &name, &has_type, err));
    const wgi_slice type = {name.data ? name.data : "", name.count};
    if (wgi_slice_is(type, "Sequence")) {
        is_known = true;
        WGI_TRY(load_sequence(decoder, part, depth, err));
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!wgi_slice_is(type, rows[i].type)) continue;
        is_known = true;
        WGI_TRY(load_step(decoder, &rows[i], part, err));
    }
    if (!has_type) {
        WGI_TRY(wgi_refuse(&decoder->refusals, err, "a decoder without a type"));
    } else if (!is_known) {
        WGI_TRY(wgi_refuse(&decoder->refusals, err, "decoder type \"%.*s\"", WGI_SHOW(type)));
    }

cleanup:
    wgi_buf_fini(&name);
    return status;
}

wg_status wgi_token_decoder_load(wgi_token_decoder *decoder, wgi_slice part, wg_error *err)
{
    decoder->is_missing = wgi_part_is_null(part);
    return decoder->is_missing ? WG_OK : load_part(decoder, part, 0, err);
}

void wgi_token_decoder_fini(wgi_token_decoder *decoder)
{
    for (size_t i = 0; i < decoder->step_count; i++)
        step_fini(&decoder->steps[i]);
    wgi_buf_fini(&decoder->refusals.names);
    *decoder = (wgi_token_decoder){0};
}

/* --------------------------------------------------------------------------------- running */

wg_status wgi_token_decoder_run(const wgi_token_decoder *decoder, wgi_decoder_scratch *scratch,
                                const wgi_buf **out, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_token_texts *texts = &scratch->texts[0];

    /* Stages may look a few bytes beyond a text's end. */
    WGI_TRY(wgi_buf_reserve(&texts->text, WGI_TEXT_SLACK, err));
    for (size_t i = 0; i < decoder->step_count; i++) {
        const wgi_decoder_step *step = &decoder->steps[i];
        wgi_token_texts *next = &scratch->texts[(i + 1) % 2];
        next->count = next->text.count = 0;
        WGI_TRY(step->run(step, texts, next, scratch, err));
        WGI_TRY(wgi_buf_reserve(&next->text, WGI_TEXT_SLACK, err));
        texts = next;
    }
    *out = &texts->text;

cleanup:
    return status;
}

void wgi_decoder_scratch_fini(wgi_decoder_scratch *scratch)
{
    for (int i = 0; i < 2; i++) {
        wgi_buf_fini(&scratch->texts[i].text);
        wgi_free(scratch->texts[i].ends);
    }
    wgi_buf_fini(&scratch->bytes);
    wgi_buf_fini(&scratch->spare);
    wgi_normalizer_scratch_fini(&scratch->normalizer);
    *scratch = (wgi_decoder_scratch){0};
}
