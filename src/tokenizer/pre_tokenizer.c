/*
 * pre_tokenizer.c - reads the file's pre-tokeniser into a list of steps and runs them.
 *
 * The idea: all splitters here give each code point one of a few classes and cut where the class
 * changes, so one loop serves them, with a table for ASCII and the measured flags for the rest.
 *
 * Threads: read-only once loaded; spans belong to the caller.
 */
#include "tokenizer/pre_tokenizer.h"

#include <string.h>

#include "base/alloc.h"
#include "tokenizer/show.h"

#define SEQUENCE_DEPTH_MAX 8

enum { CLASS_SPACE, CLASS_WORD, CLASS_OTHER, CLASS_ALONE };

/* The class of a code point out of its flags. */
typedef unsigned classify(unsigned flags);

static unsigned class_bert(unsigned flags)
{
    if (flags & WGI_CHAR_SPACE) return CLASS_SPACE;
    return flags & WGI_CHAR_PUNCTUATION ? CLASS_ALONE : CLASS_WORD;
}

static unsigned class_whitespace(unsigned flags)
{
    if (flags & WGI_CHAR_SPACE) return CLASS_SPACE;
    return flags & WGI_CHAR_WORD ? CLASS_WORD : CLASS_OTHER;
}

static unsigned class_whitespace_split(unsigned flags)
{
    return flags & WGI_CHAR_SPACE ? CLASS_SPACE : CLASS_WORD;
}

static wg_status push_span(wgi_spans *out, size_t begin, size_t end, wg_error *err)
{
    if (out->count == out->capacity) {
        wg_status status =
            wgi_grow(&out->items, &out->capacity, out->count + 1, sizeof(*out->items), err);
        if (status != WG_OK) return status;
    }
    out->items[out->count++] = (wgi_span){(uint32_t)begin, (uint32_t)end};
    return WG_OK;
}

/* Runs of one class are words; blanks are none; CLASS_ALONE is a word each. Inlined a splitter. */
static inline __attribute__((always_inline)) wg_status split(classify *class_of,
                                                             const wgi_char_table *chars,
                                                             const char *text, wgi_span piece,
                                                             wgi_spans *out, wg_error *err)
{
    size_t at = piece.begin, begin = piece.begin;
    unsigned open = CLASS_SPACE; /* class of the run [begin, at) */
    wg_status status = WG_OK;

    while (at < piece.end) {
        size_t here = at;
        unsigned class = class_of(wgi_char_flags(chars, wgi_char_next(text, &at)));
        if (class == open && class != CLASS_ALONE) continue;
        if (open != CLASS_SPACE) {
            status = push_span(out, begin, here, err);
            if (status != WG_OK) return status;
        }
        open = class;
        begin = here;
    }
    return open != CLASS_SPACE ? push_span(out, begin, at, err) : WG_OK;
}

static wg_status split_bert(const wgi_char_table *chars, const char *text, wgi_span piece,
                            wgi_spans *out, wg_error *err)
{
    return split(class_bert, chars, text, piece, out, err);
}

static wg_status split_whitespace(const wgi_char_table *chars, const char *text, wgi_span piece,
                                  wgi_spans *out, wg_error *err)
{
    return split(class_whitespace, chars, text, piece, out, err);
}

static wg_status split_whitespace_split(const wgi_char_table *chars, const char *text,
                                        wgi_span piece, wgi_spans *out, wg_error *err)
{
    return split(class_whitespace_split, chars, text, piece, out, err);
}

typedef struct pre_tokenizer_row {
    const char *type;
    wgi_pre_tokenizer_run *run;
} pre_tokenizer_row;

static const pre_tokenizer_row rows[] = {
    {"BertPreTokenizer", split_bert},
    {"Whitespace", split_whitespace},
    {"WhitespaceSplit", split_whitespace_split},
};

static wg_status load_part(wgi_pre_tokenizer *pre_tokenizer, wgi_slice part, int depth,
                           wgi_refusals *refusals, wg_error *err);

static wg_status load_sequence(wgi_pre_tokenizer *pre_tokenizer, wgi_slice part, int depth,
                               wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice list = {"[]", 2}, item;
    wgi_json json;
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "pretokenizers", .kind = WGI_FIELD_RAW, .out = &list},
    };

    wgi_json_init(&json, "", 0);
    if (depth == SEQUENCE_DEPTH_MAX) {
        status = wgi_refuse(refusals, err, "pre_tokenizer Sequence nested deeper than %d", depth);
        goto cleanup;
    }
    WGI_TRY(wgi_fields_read(part, "pre_tokenizer Sequence", fields, 2, refusals, err));
    wgi_json_init(&json, list.data, list.count);
    WGI_TRY(wgi_json_array_begin(&json, err));
    while (wgi_json_array_next(&json)) {
        WGI_TRY(wgi_json_raw(&json, &item, err));
        WGI_TRY(load_part(pre_tokenizer, item, depth + 1, refusals, err));
    }
    WGI_TRY(wgi_json_finish(&json, err));

cleanup:
    wgi_json_fini(&json);
    return status;
}

static wg_status load_plain(wgi_pre_tokenizer *pre_tokenizer, wgi_slice part, wgi_slice type,
                            wgi_refusals *refusals, wg_error *err)
{
    wgi_field fields[] = {{.name = "type", .kind = WGI_FIELD_UNREAD}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!wgi_slice_is(type, rows[i].type)) continue;
        if (pre_tokenizer->step_count == WGI_PRE_TOKENIZER_STEPS_MAX)
            return wgi_refuse(refusals, err, "more than %d pre_tokenizers",
                              WGI_PRE_TOKENIZER_STEPS_MAX);
        pre_tokenizer->steps[pre_tokenizer->step_count++] = rows[i].run;
        return wgi_fields_read(part, rows[i].type, fields, 1, refusals, err);
    }
    if (wgi_slice_is(type, "Split"))
        return wgi_refuse(refusals, err, "pre_tokenizer type \"Split\" (a regex or a string)");
    return wgi_refuse(refusals, err, "pre_tokenizer type \"%.*s\"", WGI_SHOW(type));
}

static wg_status load_part(wgi_pre_tokenizer *pre_tokenizer, wgi_slice part, int depth,
                           wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf name = {0};
    bool has_type = false;

    WGI_TRY(wgi_part_type(part, "pre_tokenizer", &name, &has_type, err));
    if (!has_type) {
        status = wgi_fail(err, WG_ERR_FORMAT, "pre_tokenizer: \"type\" is missing");
        goto cleanup;
    }
    wgi_slice type = {name.data, name.count};
    if (wgi_slice_is(type, "Sequence")) {
        WGI_TRY(load_sequence(pre_tokenizer, part, depth, refusals, err));
    } else {
        WGI_TRY(load_plain(pre_tokenizer, part, type, refusals, err));
    }

cleanup:
    wgi_buf_fini(&name);
    return status;
}

wg_status wgi_pre_tokenizer_load(wgi_pre_tokenizer *pre_tokenizer, wgi_slice part,
                                 wgi_refusals *refusals, wg_error *err)
{
    if (wgi_part_is_null(part)) return WG_OK;
    wg_status status = load_part(pre_tokenizer, part, 0, refusals, err);
    /* True of every row so far. */
    pre_tokenizer->splits_at_space = pre_tokenizer->step_count > 0;
    return status;
}

wg_status wgi_pre_tokenize(const wgi_pre_tokenizer *pre_tokenizer, const wgi_char_table *chars,
                           wgi_slice text, wgi_spans *words, wgi_spans *spare, wg_error *err)
{
    wg_status status = WG_OK;

    if (text.count > UINT32_MAX)
        return wgi_fail(err, WG_ERR_LIMIT, "%zu bytes of text without a blank", text.count);
    words->count = 0;
    if (text.count) WGI_TRY(push_span(words, 0, text.count, err));
    for (size_t i = 0; i < pre_tokenizer->step_count; i++) {
        wgi_spans pieces = *words;
        *words = *spare;
        *spare = pieces;
        words->count = 0;
        for (size_t k = 0; k < pieces.count; k++)
            WGI_TRY(pre_tokenizer->steps[i](chars, text.data, pieces.items[k], words, err));
    }

cleanup:
    return status;
}
