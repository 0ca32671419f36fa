/*
 * normalizer.c - reads the file's normaliser into a list of steps and runs them.
 *
 * The idea: a Sequence is flattened, and each step goes from one of two buffers to the other; the
 * last one stands where the splitter reads. Refused: alignments back to the original text, which
 * nobody asks for and which are most of the cost of the usual implementation.
 *
 * Threads: steps are read-only once loaded; buffers belong to the caller.
 */
#include "tokenizer/normalizer.h"

#include <string.h>

#include "base/alloc.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/show.h"

#define SEQUENCE_DEPTH_MAX 8

typedef struct normalizer_row {
    const char *type;
    wgi_normalizer_run *run;
    bool is_compat, is_composed;
} normalizer_row;

/* Without options of their own; the others have a function each below. */
static const normalizer_row rows[] = {
    {"NFC", wgi_normal_form, false, true},
    {"NFD", wgi_normal_form, false, false},
    {"NFKC", wgi_normal_form, true, true},
    {"NFKD", wgi_normal_form, true, false},
    {"Lowercase", wgi_lowercase, false, false},
    {"StripAccents", wgi_strip_accents, false, false},
    {"Nmt", wgi_nmt, false, false},
    {"ByteLevel", wgi_letters_of_bytes, false, false},
};

static wg_status load_part(wgi_normalizer *normalizer, wgi_slice part, int depth,
                           wgi_refusals *refusals, wg_error *err);

static void step_fini(wgi_normalizer_step *step)
{
    wgi_pattern_close(step->pattern);
    wgi_free(step->literal);
    wgi_free(step->content);
    wgi_charsmap_close(step->charsmap);
    *step = (wgi_normalizer_step){0};
}

/* Takes over what the step owns, also on failure. */
static wg_status add_step(wgi_normalizer *normalizer, wgi_normalizer_step *step,
                          wgi_refusals *refusals, wg_error *err)
{
    if (normalizer->step_count == WGI_NORMALIZER_STEPS_MAX) {
        step_fini(step);
        return wgi_refuse(refusals, err, "more than %d normalizers", WGI_NORMALIZER_STEPS_MAX);
    }
    normalizer->steps[normalizer->step_count++] = *step;
    return WG_OK;
}

static wg_status load_bert(wgi_normalizer *normalizer, wgi_slice part, wgi_refusals *refusals,
                           wg_error *err)
{
    wgi_normalizer_step step = {.run = wgi_bert_normalize};
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "clean_text", .kind = WGI_FIELD_BOOL, .out = &step.clean_text},
        {.name = "handle_chinese_chars", .kind = WGI_FIELD_BOOL, .out = &step.chinese_chars},
        {.name = "lowercase", .kind = WGI_FIELD_BOOL, .out = &step.lowercase},
        {.name = "strip_accents",
         .kind = WGI_FIELD_BOOL,
         .out = &step.strip_accents,
         .is_optional = true},
    };
    wg_status status = wgi_fields_read(part, "normalizer BertNormalizer", fields,
                                       sizeof(fields) / sizeof(fields[0]), refusals, err);

    if (status != WG_OK) return status;
    if (!fields[4].is_set) step.strip_accents = step.lowercase;
    wgi_bert_normalizer_prepare(&step);
    return add_step(normalizer, &step, refusals, err);
}

static wg_status load_strip(wgi_normalizer *normalizer, wgi_slice part, wgi_refusals *refusals,
                            wg_error *err)
{
    wgi_normalizer_step step = {.run = wgi_strip};
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "strip_left", .kind = WGI_FIELD_BOOL, .out = &step.strip_left},
        {.name = "strip_right", .kind = WGI_FIELD_BOOL, .out = &step.strip_right},
    };
    wg_status status = wgi_fields_read(part, "normalizer Strip", fields, 3, refusals, err);

    return status == WG_OK ? add_step(normalizer, &step, refusals, err) : status;
}

static wg_status copy_text(char **out, size_t *count, const wgi_buf *text, wg_error *err)
{
    *out = wgi_memdup(text->data ? text->data : "", text->count);
    *count = text->count;
    return *out ? WG_OK : wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a normalizer");
}

static wg_status load_prepend(wgi_normalizer *normalizer, wgi_slice part, wgi_refusals *refusals,
                              wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf content = {0};
    wgi_normalizer_step step = {.run = wgi_prepend};
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "prepend", .kind = WGI_FIELD_TEXT, .out = &content},
    };

    WGI_TRY(wgi_fields_read(part, "normalizer Prepend", fields, 2, refusals, err));
    WGI_TRY(copy_text(&step.content, &step.content_bytes, &content, err));
    WGI_TRY(add_step(normalizer, &step, refusals, err));

cleanup:
    wgi_buf_fini(&content);
    return status;
}

/* {"String": "..."} or {"Regex": "..."} */
static wg_status read_pattern(wgi_normalizer_step *step, wgi_slice part, wgi_refusals *refusals,
                              wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf literal = {0}, regex = {0};
    const char *reason = NULL;
    wgi_field fields[] = {
        {.name = "String", .kind = WGI_FIELD_TEXT, .out = &literal, .is_optional = true},
        {.name = "Regex", .kind = WGI_FIELD_TEXT, .out = &regex, .is_optional = true},
    };

    WGI_TRY(wgi_fields_read(part, "normalizer pattern", fields, 2, refusals, err));
    if (fields[0].is_set == fields[1].is_set) {
        status = wgi_fail(err, WG_ERR_FORMAT,
                          "normalizer Replace: the pattern is neither a String nor a Regex");
    } else if (fields[0].is_set && literal.count == 0) {
        status = wgi_refuse(refusals, err, "normalizer Replace of an empty string");
    } else if (fields[0].is_set) {
        status = copy_text(&step->literal, &step->literal_bytes, &literal, err);
    } else {
        wgi_slice source = {regex.data ? regex.data : "", regex.count};
        WGI_TRY(wgi_pattern_open(&step->pattern, source, &reason, err));
        if (!step->pattern)
            status = wgi_refuse(refusals, err, "the regex \"%.*s\" (%s)", WGI_SHOW(source), reason);
    }

cleanup:
    wgi_buf_fini(&literal);
    wgi_buf_fini(&regex);
    return status;
}

static wg_status load_replace(wgi_normalizer *normalizer, wgi_slice part, wgi_refusals *refusals,
                              wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf content = {0};
    wgi_slice pattern = {"", 0};
    wgi_normalizer_step step = {.run = wgi_replace};
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "pattern", .kind = WGI_FIELD_RAW, .out = &pattern},
        {.name = "content", .kind = WGI_FIELD_TEXT, .out = &content},
    };

    WGI_TRY(wgi_fields_read(part, "normalizer Replace", fields, 3, refusals, err));
    WGI_TRY(read_pattern(&step, pattern, refusals, err));
    WGI_TRY(copy_text(&step.content, &step.content_bytes, &content, err));
    if (step.pattern || step.literal) WGI_TRY(add_step(normalizer, &step, refusals, err));

cleanup:
    if (status != WG_OK || (!step.pattern && !step.literal)) step_fini(&step);
    wgi_buf_fini(&content);
    return status;
}

static wg_status load_precompiled(wgi_normalizer *normalizer, wgi_slice part,
                                  wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf map = {0};
    wgi_normalizer_step step = {.run = wgi_precompiled};
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "precompiled_charsmap", .kind = WGI_FIELD_TEXT, .out = &map},
    };

    WGI_TRY(wgi_fields_read(part, "normalizer Precompiled", fields, 2, refusals, err));
    WGI_TRY(
        wgi_charsmap_open(&step.charsmap, (wgi_slice){map.data ? map.data : "", map.count}, err));
    WGI_TRY(add_step(normalizer, &step, refusals, err));

cleanup:
    wgi_buf_fini(&map);
    return status;
}

static wg_status load_sequence(wgi_normalizer *normalizer, wgi_slice part, int depth,
                               wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice list = {"[]", 2}, item;
    wgi_json json;
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "normalizers", .kind = WGI_FIELD_RAW, .out = &list},
    };

    wgi_json_init(&json, "", 0);
    if (depth == SEQUENCE_DEPTH_MAX) {
        status = wgi_refuse(refusals, err, "normalizer Sequence nested deeper than %d", depth);
        goto cleanup;
    }
    WGI_TRY(wgi_fields_read(part, "normalizer Sequence", fields, 2, refusals, err));
    wgi_json_init(&json, list.data, list.count);
    WGI_TRY(wgi_json_array_begin(&json, err));
    while (wgi_json_array_next(&json)) {
        WGI_TRY(wgi_json_raw(&json, &item, err));
        WGI_TRY(load_part(normalizer, item, depth + 1, refusals, err));
    }
    WGI_TRY(wgi_json_finish(&json, err));

cleanup:
    wgi_json_fini(&json);
    return status;
}

static wg_status load_plain(wgi_normalizer *normalizer, wgi_slice part, wgi_slice type,
                            wgi_refusals *refusals, wg_error *err)
{
    wgi_field fields[] = {{.name = "type", .kind = WGI_FIELD_UNREAD}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!wgi_slice_is(type, rows[i].type)) continue;
        wg_status status = wgi_fields_read(part, rows[i].type, fields, 1, refusals, err);
        if (status != WG_OK) return status;
        wgi_normalizer_step step = {
            .run = rows[i].run, .is_compat = rows[i].is_compat, .is_composed = rows[i].is_composed};
        return add_step(normalizer, &step, refusals, err);
    }
    return wgi_refuse(refusals, err, "normalizer type \"%.*s\"", WGI_SHOW(type));
}

static wg_status load_part(wgi_normalizer *normalizer, wgi_slice part, int depth,
                           wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf name = {0};
    bool has_type = false;

    WGI_TRY(wgi_part_type(part, "normalizer", &name, &has_type, err));
    if (!has_type) {
        status = wgi_fail(err, WG_ERR_FORMAT, "normalizer: \"type\" is missing");
        goto cleanup;
    }
    wgi_slice type = {name.data, name.count};
    if (wgi_slice_is(type, "BertNormalizer")) {
        WGI_TRY(load_bert(normalizer, part, refusals, err));
    } else if (wgi_slice_is(type, "Strip")) {
        WGI_TRY(load_strip(normalizer, part, refusals, err));
    } else if (wgi_slice_is(type, "Prepend")) {
        WGI_TRY(load_prepend(normalizer, part, refusals, err));
    } else if (wgi_slice_is(type, "Replace")) {
        WGI_TRY(load_replace(normalizer, part, refusals, err));
    } else if (wgi_slice_is(type, "Precompiled")) {
        WGI_TRY(load_precompiled(normalizer, part, refusals, err));
    } else if (wgi_slice_is(type, "Sequence")) {
        WGI_TRY(load_sequence(normalizer, part, depth, refusals, err));
    } else {
        WGI_TRY(load_plain(normalizer, part, type, refusals, err));
    }

cleanup:
    wgi_buf_fini(&name);
    return status;
}

/* BertNormalizer, the normal forms, Lowercase and StripAccents: a blank stays what it is. */
static bool keeps_blank(const wgi_normalizer_step *step)
{
    return step->run == wgi_bert_normalize || step->run == wgi_normal_form ||
           step->run == wgi_lowercase || step->run == wgi_strip_accents;
}

/* The original gives what replaces several characters the place of the last of them. */
static bool keeps_begin(const wgi_normalizer_step *step)
{
    size_t at = 0;

    if (step->run == wgi_replace && step->literal && step->content_bytes) {
        (void)wgi_char_next(step->literal, &at);
        return at == step->literal_bytes;
    }
    return step->run == wgi_normal_form || step->run == wgi_lowercase || step->run == wgi_prepend ||
           step->run == wgi_letters_of_bytes;
}

wg_status wgi_normalizer_load(wgi_normalizer *normalizer, wgi_slice part, wgi_refusals *refusals,
                              wg_error *err)
{
    wg_status status = WG_OK;

    if (!wgi_part_is_null(part)) status = load_part(normalizer, part, 0, refusals, err);
    normalizer->isolates_chinese =
        normalizer->step_count == 1 && normalizer->steps[0].chinese_chars;
    normalizer->keeps_blanks = normalizer->keeps_begin = true;
    for (size_t i = 0; i < normalizer->step_count; i++) {
        normalizer->keeps_blanks &= keeps_blank(&normalizer->steps[i]);
        normalizer->keeps_begin &= keeps_begin(&normalizer->steps[i]);
    }
    return status;
}

void wgi_normalizer_fini(wgi_normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->step_count; i++)
        step_fini(&normalizer->steps[i]);
    *normalizer = (wgi_normalizer){0};
}

wgi_slice wgi_normalizer_blank(const wgi_normalizer *normalizer, bool *may_end_blank)
{
    wgi_slice blank = {" ", 1};

    for (size_t i = 0; i < normalizer->step_count; i++) {
        const wgi_normalizer_step *step = &normalizer->steps[i];
        size_t at = 0;
        wgi_slice to;
        if (step->run == wgi_precompiled && !wgi_charsmap_find(step->charsmap, blank, &to)) {
            *may_end_blank = true;
            continue;
        }
        if (step->run == wgi_normal_form || step->run == wgi_lowercase ||
            step->run == wgi_strip_accents || (step->run == wgi_prepend && i == 0))
            continue;
        if (step->run == wgi_replace && step->literal && wgi_slice_is(blank, " ") &&
            wgi_slice_is(blank, step->literal) && step->content_bytes) {
            (void)wgi_char_next(step->content, &at);
            blank = (wgi_slice){step->content, step->content_bytes};
            if (at == step->content_bytes) continue;
        }
        return (wgi_slice){"", 0};
    }
    return blank;
}

wg_status wgi_normalize(const wgi_normalizer *normalizer, const wgi_char_table *chars,
                        wgi_slice text, bool is_begin, wgi_normalizer_scratch *scratch,
                        wgi_slice *out, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf *to = &scratch->texts[0];
    size_t written = 0;

    for (size_t i = 0; i < normalizer->step_count; i++) {
        const wgi_normalizer_step *step = &normalizer->steps[i];
        if (step->run == wgi_prepend && !is_begin) continue;
        to = &scratch->texts[written++ % 2];
        to->count = 0;
        WGI_TRY(step->run(step, chars, text, to, scratch, err));
        text = (wgi_slice){to->data ? to->data : "", to->count};
    }
    if (written == 0) {
        to->count = 0;
        WGI_TRY(wgi_buf_append(to, text.data, text.count, err));
    }
    WGI_TRY(wgi_buf_reserve(to, WGI_TEXT_SLACK, err));
    *out = (wgi_slice){to->data, to->count};

cleanup:
    return status;
}

void wgi_normalizer_scratch_fini(wgi_normalizer_scratch *scratch)
{
    wgi_buf_fini(&scratch->texts[0]);
    wgi_buf_fini(&scratch->texts[1]);
    wgi_free(scratch->marks.items);
    wgi_free(scratch->marks.spare);
    wgi_free(scratch->stack.frames);
    *scratch = (wgi_normalizer_scratch){0};
}
