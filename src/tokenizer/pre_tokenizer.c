/*
 * pre_tokenizer.c - reads the file's pre-tokeniser into a list of steps and runs them.
 *
 * The idea: a type of the file that does several things (ByteLevel puts a blank in front, splits
 * and writes bytes as letters) is several steps, so each thing is written once. Spans of a step lie
 * in the text it was given or, if it rewrites, in one of two buffers.
 *
 * Threads: read-only once loaded; spans and buffers belong to the caller.
 */
#include "tokenizer/pre_tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/show.h"

#define SEQUENCE_DEPTH_MAX 8

/* The file's part being read. */
typedef struct pre_load {
    wgi_pre_tokenizer *to;
    wgi_refusals *refusals;
    wg_error *err;
} pre_load;

wg_status wgi_span_push(wgi_spans *out, size_t begin, size_t end, wg_error *err)
{
    if (out->count == out->capacity) {
        wg_status status =
            wgi_grow(&out->items, &out->capacity, out->count + 1, sizeof(*out->items), err);
        if (status != WG_OK) return status;
    }
    out->items[out->count++] = (wgi_span){(uint32_t)begin, (uint32_t)end};
    return WG_OK;
}

/* ---------------------------------------------------------------------------------- rows */

/* Takes over what the step owns, also on failure. */
static wg_status add_step(pre_load *load, wgi_pre_step step)
{
    if (load->to->step_count == WGI_PRE_TOKENIZER_STEPS_MAX) {
        wgi_pattern_close(step.pattern);
        wgi_free(step.literal);
        return wgi_refuse(load->refusals, load->err, "more than %d steps in pre_tokenizer",
                          WGI_PRE_TOKENIZER_STEPS_MAX);
    }
    load->to->steps[load->to->step_count++] = step;
    return WG_OK;
}

static wg_status read_fields(pre_load *load, wgi_slice part, const char *type, wgi_field *fields,
                             size_t count)
{
    char where[64];

    (void)snprintf(where, sizeof(where), "pre_tokenizer %s", type);
    return wgi_fields_read(part, where, fields, count, load->refusals, load->err);
}

static wg_status load_bert(pre_load *load, wgi_slice part)
{
    wgi_field fields[] = {{.name = "type", .kind = WGI_FIELD_UNREAD}};
    wg_status status = read_fields(load, part, "BertPreTokenizer", fields, 1);

    if (status != WG_OK) return status;
    return add_step(load, (wgi_pre_step){.run = wgi_split_bert, .drops_blanks = true});
}

static wg_status load_whitespace(pre_load *load, wgi_slice part)
{
    wgi_field fields[] = {{.name = "type", .kind = WGI_FIELD_UNREAD}};
    wg_status status = read_fields(load, part, "Whitespace", fields, 1);

    if (status != WG_OK) return status;
    return add_step(load, (wgi_pre_step){.run = wgi_split_whitespace, .drops_blanks = true});
}

static wg_status load_whitespace_split(pre_load *load, wgi_slice part)
{
    wgi_field fields[] = {{.name = "type", .kind = WGI_FIELD_UNREAD}};
    wg_status status = read_fields(load, part, "WhitespaceSplit", fields, 1);

    if (status != WG_OK) return status;
    return add_step(load, (wgi_pre_step){.run = wgi_split_whitespace_split, .drops_blanks = true});
}

static wg_status load_digits(pre_load *load, wgi_slice part)
{
    bool is_individual = false;
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "individual_digits", .kind = WGI_FIELD_BOOL, .out = &is_individual},
    };
    wg_status status = read_fields(load, part, "Digits", fields, 2);

    if (status != WG_OK) return status;
    return add_step(load, (wgi_pre_step){.run = wgi_split,
                                         .flag = WGI_CHAR_NUMERIC,
                                         .behavior = is_individual ? WGI_BEHAVIOR_ISOLATED
                                                                   : WGI_BEHAVIOR_CONTIGUOUS});
}

static wg_status read_behavior(pre_load *load, const wgi_buf *text, wgi_behavior *out)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    wgi_slice name = {text->data, text->count};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!wgi_slice_is(name, names[i])) continue;
        *out = (wgi_behavior)i;
        return WG_OK;
    }
    return wgi_refuse(load->refusals, load->err, "pre_tokenizer behavior \"%.*s\"", WGI_SHOW(name));
}

static wg_status load_punctuation(pre_load *load, wgi_slice part)
{
    wg_status status = WG_OK;
    wgi_buf name = {0};
    wgi_pre_step step = {
        .run = wgi_split, .flag = WGI_CHAR_PUNCTUATION, .behavior = WGI_BEHAVIOR_ISOLATED};
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "behavior", .kind = WGI_FIELD_TEXT, .out = &name, .is_optional = true},
    };

    WGI_TRY(read_fields(load, part, "Punctuation", fields, 2));
    if (fields[1].is_set) WGI_TRY(read_behavior(load, &name, &step.behavior));
    WGI_TRY(add_step(load, step));

cleanup:
    wgi_buf_fini(&name);
    return status;
}

/* ------------------------------------------------------------------------------- patterns */

static wg_status set_literal(wgi_pre_step *step, wgi_slice literal, wg_error *err)
{
    step->literal = wgi_memdup(literal.data, literal.count);
    if (!step->literal) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a pre_tokenizer");
    step->literal_bytes = literal.count;
    return WG_OK;
}

static wg_status set_regex(pre_load *load, wgi_pre_step *step, wgi_slice regex)
{
    const char *reason = NULL;

    /* A scanner isolates every word, and gives no place to what does not match. */
    if (step->behavior == WGI_BEHAVIOR_ISOLATED) step->scan = wgi_split_scan_find(regex);
    if (step->scan) return WG_OK;
    wg_status status = wgi_pattern_open(&step->pattern, regex, &reason, load->err);
    if (status != WG_OK || step->pattern) return status;
    return wgi_refuse(load->refusals, load->err, "the regex \"%.*s\" (%s)", WGI_SHOW(regex),
                      reason);
}

/* {"String": "..."} or {"Regex": "..."} */
static wg_status read_pattern(pre_load *load, wgi_slice part, wgi_pre_step *step)
{
    wg_status status = WG_OK;
    wgi_buf literal = {0}, regex = {0};
    wgi_field fields[] = {
        {.name = "String", .kind = WGI_FIELD_TEXT, .out = &literal, .is_optional = true},
        {.name = "Regex", .kind = WGI_FIELD_TEXT, .out = &regex, .is_optional = true},
    };

    WGI_TRY(wgi_fields_read(part, "pre_tokenizer pattern", fields, 2, load->refusals, load->err));
    if (fields[0].is_set == fields[1].is_set) {
        status = wgi_fail(load->err, WG_ERR_FORMAT,
                          "pre_tokenizer Split: the pattern is neither a String nor a Regex");
    } else if (fields[1].is_set) {
        status = set_regex(load, step, (wgi_slice){regex.data ? regex.data : "", regex.count});
    } else if (literal.count == 0) {
        status = wgi_refuse(load->refusals, load->err, "pre_tokenizer Split with an empty string");
    } else {
        status = set_literal(step, (wgi_slice){literal.data, literal.count}, load->err);
    }

cleanup:
    wgi_buf_fini(&literal);
    wgi_buf_fini(&regex);
    return status;
}

static wg_status load_split(pre_load *load, wgi_slice part)
{
    wg_status status = WG_OK;
    wgi_buf behavior = {0};
    wgi_slice pattern = {"", 0};
    wgi_pre_step step = {.run = wgi_split};
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "pattern", .kind = WGI_FIELD_RAW, .out = &pattern},
        {.name = "behavior", .kind = WGI_FIELD_TEXT, .out = &behavior},
        {.name = "invert", .kind = WGI_FIELD_BOOL, .out = &step.is_inverted},
    };

    WGI_TRY(read_fields(load, part, "Split", fields, 4));
    WGI_TRY(read_behavior(load, &behavior, &step.behavior));
    WGI_TRY(read_pattern(load, pattern, &step));
    WGI_TRY(add_step(load, step));
    step = (wgi_pre_step){0};

cleanup:
    wgi_pattern_close(step.pattern);
    wgi_free(step.literal);
    wgi_buf_fini(&behavior);
    return status;
}

/* --------------------------------------------------------------- Metaspace and ByteLevel */

static wg_status read_prepend(pre_load *load, const wgi_buf *text, wgi_prepend_scheme *out)
{
    static const char *const names[] = {"always", "first", "never"};
    wgi_slice name = {text->data, text->count};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!wgi_slice_is(name, names[i])) continue;
        *out = (wgi_prepend_scheme)(WGI_PREPEND_ALWAYS + i);
        return WG_OK;
    }
    return wgi_refuse(load->refusals, load->err, "Metaspace prepend_scheme \"%.*s\"",
                      WGI_SHOW(name));
}

static wg_status add_metaspace(pre_load *load, wgi_slice mark, wgi_prepend_scheme prepend,
                               bool splits)
{
    wg_status status = WG_OK;
    wgi_pre_step write = {.run = wgi_write_metaspace, .rewrites = true, .prepend = prepend};
    wgi_pre_step split = {.run = wgi_split, .behavior = WGI_BEHAVIOR_MERGED_WITH_NEXT};
    size_t at = 0;

    if (mark.count) (void)wgi_char_next(mark.data, &at);
    if (mark.count == 0 || at != mark.count)
        return wgi_fail(load->err, WG_ERR_FORMAT,
                        "pre_tokenizer Metaspace: the replacement \"%.*s\" is not one character",
                        WGI_SHOW(mark));
    for (size_t i = 0; i < load->to->step_count && prepend == WGI_PREPEND_FIRST; i++) {
        if (!load->to->steps[i].rewrites) continue;
        return wgi_refuse(load->refusals, load->err,
                          "Metaspace prepend_scheme \"first\" behind a step that rewrites");
    }
    load->to->has_first |= prepend == WGI_PREPEND_FIRST;
    WGI_TRY(set_literal(&write, mark, load->err));
    WGI_TRY(add_step(load, write));
    if (!splits) goto cleanup;
    WGI_TRY(set_literal(&split, mark, load->err));
    WGI_TRY(add_step(load, split));

cleanup:
    return status;
}

static wg_status load_metaspace(pre_load *load, wgi_slice part)
{
    wg_status status = WG_OK;
    wgi_buf mark = {0}, scheme = {0};
    bool has_prefix = true, splits = true;
    wgi_prepend_scheme prepend = WGI_PREPEND_ALWAYS;
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "replacement", .kind = WGI_FIELD_TEXT, .out = &mark},
        {.name = "str_rep", .kind = WGI_FIELD_UNREAD},
        {.name = "add_prefix_space",
         .kind = WGI_FIELD_BOOL,
         .out = &has_prefix,
         .is_optional = true},
        {.name = "prepend_scheme", .kind = WGI_FIELD_TEXT, .out = &scheme, .is_optional = true},
        {.name = "split", .kind = WGI_FIELD_BOOL, .out = &splits, .is_optional = true},
    };

    WGI_TRY(read_fields(load, part, "Metaspace", fields, sizeof(fields) / sizeof(fields[0])));
    if (fields[4].is_set) WGI_TRY(read_prepend(load, &scheme, &prepend));
    if (!has_prefix && prepend != WGI_PREPEND_NEVER) {
        status = wgi_fail(load->err, WG_ERR_FORMAT,
                          "pre_tokenizer Metaspace: add_prefix_space false and prepend_scheme do "
                          "not agree");
        goto cleanup;
    }
    WGI_TRY(add_metaspace(load, (wgi_slice){mark.data, mark.count}, prepend, splits));

cleanup:
    wgi_buf_fini(&mark);
    wgi_buf_fini(&scheme);
    return status;
}

static wg_status load_byte_level(pre_load *load, wgi_slice part)
{
    wg_status status = WG_OK;
    bool has_prefix = false, splits = true;
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "add_prefix_space", .kind = WGI_FIELD_BOOL, .out = &has_prefix},
        {.name = "trim_offsets", .kind = WGI_FIELD_UNREAD},
        {.name = "use_regex", .kind = WGI_FIELD_BOOL, .out = &splits, .is_optional = true},
    };

    WGI_TRY(read_fields(load, part, "ByteLevel", fields, 4));
    if (has_prefix)
        WGI_TRY(add_step(load, (wgi_pre_step){.run = wgi_write_prefix_space, .rewrites = true}));
    if (splits)
        WGI_TRY(add_step(load, (wgi_pre_step){.run = wgi_split,
                                              .scan = wgi_scan_gpt2,
                                              .behavior = WGI_BEHAVIOR_ISOLATED}));
    WGI_TRY(add_step(load, (wgi_pre_step){.run = wgi_write_bytes, .rewrites = true}));

cleanup:
    return status;
}

/* ------------------------------------------------------------------------------- loading */

typedef struct pre_tokenizer_row {
    const char *type;
    wg_status (*load)(pre_load *load, wgi_slice part);
} pre_tokenizer_row;

static const pre_tokenizer_row rows[] = {
    {"BertPreTokenizer", load_bert},   {"ByteLevel", load_byte_level},
    {"Digits", load_digits},           {"Metaspace", load_metaspace},
    {"Punctuation", load_punctuation}, {"Split", load_split},
    {"Whitespace", load_whitespace},   {"WhitespaceSplit", load_whitespace_split},
};

static wg_status load_part(pre_load *load, wgi_slice part, int depth);

static wg_status load_sequence(pre_load *load, wgi_slice part, int depth)
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
        status = wgi_refuse(load->refusals, load->err,
                            "pre_tokenizer Sequence nested deeper than %d", depth);
        goto cleanup;
    }
    WGI_TRY(read_fields(load, part, "Sequence", fields, 2));
    wgi_json_init(&json, list.data, list.count);
    WGI_TRY(wgi_json_array_begin(&json, load->err));
    while (wgi_json_array_next(&json)) {
        WGI_TRY(wgi_json_raw(&json, &item, load->err));
        WGI_TRY(load_part(load, item, depth + 1));
    }
    WGI_TRY(wgi_json_finish(&json, load->err));

cleanup:
    wgi_json_fini(&json);
    return status;
}

static wg_status load_part(pre_load *load, wgi_slice part, int depth)
{
    wg_status status = WG_OK;
    wgi_buf name = {0};
    bool has_type = false;

    WGI_TRY(wgi_part_type(part, "pre_tokenizer", &name, &has_type, load->err));
    if (!has_type) {
        status = wgi_fail(load->err, WG_ERR_FORMAT, "pre_tokenizer: \"type\" is missing");
        goto cleanup;
    }
    wgi_slice type = {name.data, name.count};
    if (wgi_slice_is(type, "Sequence")) {
        status = load_sequence(load, part, depth);
        goto cleanup;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!wgi_slice_is(type, rows[i].type)) continue;
        status = rows[i].load(load, part);
        goto cleanup;
    }
    status = wgi_refuse(load->refusals, load->err, "pre_tokenizer type \"%.*s\"", WGI_SHOW(type));

cleanup:
    wgi_buf_fini(&name);
    return status;
}

wg_status wgi_pre_tokenizer_load(wgi_pre_tokenizer *pre_tokenizer, wgi_slice part,
                                 wgi_refusals *refusals, wg_error *err)
{
    pre_load load = {pre_tokenizer, refusals, err};

    return wgi_part_is_null(part) ? WG_OK : load_part(&load, part, 0);
}

void wgi_pre_tokenizer_fini(wgi_pre_tokenizer *pre_tokenizer)
{
    for (size_t i = 0; i < pre_tokenizer->step_count; i++) {
        wgi_pattern_close(pre_tokenizer->steps[i].pattern);
        wgi_free(pre_tokenizer->steps[i].literal);
    }
    *pre_tokenizer = (wgi_pre_tokenizer){0};
}

/* ------------------------------------------------------------------------------ settling */

bool wgi_pre_tokenizer_maps_bytes(const wgi_pre_tokenizer *pre_tokenizer)
{
    size_t count = pre_tokenizer->step_count;
    size_t maps = 0;

    for (size_t i = 0; i < count; i++)
        maps += pre_tokenizer->steps[i].run == wgi_write_bytes;
    return maps == 1 && pre_tokenizer->steps[count - 1].run == wgi_write_bytes;
}

void wgi_pre_tokenizer_keep_bytes(wgi_pre_tokenizer *pre_tokenizer)
{
    pre_tokenizer->step_count--;
}

wg_status wgi_pre_tokenizer_split_runs(wgi_pre_tokenizer *pre_tokenizer, wgi_slice literal,
                                       wg_error *err)
{
    wgi_pre_step step = {.run = wgi_split_before_runs};

    if (pre_tokenizer->step_count == WGI_PRE_TOKENIZER_STEPS_MAX) return WG_OK;
    wg_status status = set_literal(&step, literal, err);
    if (status == WG_OK) pre_tokenizer->steps[pre_tokenizer->step_count++] = step;
    return status;
}

/*
 * What a step does to a text that is cut before a blank behind a letter, digit or sign, given that
 * the blank is `blank` by now: gives the same words but perhaps for the cut itself, and cuts there
 * itself (*splits).
 */
static bool keeps_cut(const wgi_pre_step *step, wgi_slice *blank, bool *splits)
{
    bool is_blank = step->literal && wgi_slice_is(*blank, step->literal);

    if (step->drops_blanks) {
        *splits = true;
        return wgi_slice_is(*blank, " ");
    }
    if (step->run == wgi_split_before_runs) {
        *splits |= is_blank;
        return true;
    }
    if (step->run == wgi_write_prefix_space) return wgi_slice_is(*blank, " ");
    if (step->run == wgi_write_metaspace) {
        if (!wgi_slice_is(*blank, " ")) return false;
        *blank = (wgi_slice){step->literal, step->literal_bytes};
        return true;
    }
    if (step->run == wgi_write_bytes) {
        *blank = (wgi_slice){"", 0}; /* nothing that comes behind looks for it */
        return true;
    }
    if (step->scan) {
        *splits = true;
        return wgi_slice_is(*blank, " ");
    }
    if (step->flag) return step->behavior != WGI_BEHAVIOR_MERGED_WITH_NEXT && !step->is_inverted;
    if (!step->literal || step->is_inverted || blank->count == 0) return false;
    if (is_blank) {
        *splits = true;
        return step->behavior != WGI_BEHAVIOR_MERGED_WITH_PREVIOUS &&
               step->behavior != WGI_BEHAVIOR_CONTIGUOUS;
    }
    /* Without a blank in it, no match goes over the cut. */
    return step->behavior != WGI_BEHAVIOR_MERGED_WITH_NEXT &&
           !memmem(step->literal, step->literal_bytes, blank->data, blank->count);
}

void wgi_pre_tokenizer_settle(wgi_pre_tokenizer *pre_tokenizer, wgi_slice blank, bool may_end_blank)
{
    bool drops = pre_tokenizer->step_count > 0, keeps = blank.count > 0, splits = false;

    if (may_end_blank && (!drops || !pre_tokenizer->steps[0].drops_blanks)) keeps = false;
    for (size_t i = 0; i < pre_tokenizer->step_count; i++) {
        const wgi_pre_step *step = &pre_tokenizer->steps[i];
        drops &= step->drops_blanks;
        keeps = keeps && keeps_cut(step, &blank, &splits);
    }
    pre_tokenizer->splits_at_space = drops;
    pre_tokenizer->cuts_at_space = keeps && splits;
}

/* ------------------------------------------------------------------------------- running */

static wg_status run_step(const wgi_pre_step *step, wgi_pre_run *run, wgi_pre_scratch *scratch,
                          wg_error *err)
{
    wg_status status = WG_OK;
    wgi_spans pieces = scratch->words;

    scratch->words = scratch->spare;
    scratch->spare = pieces;
    scratch->words.count = 0;
    for (size_t i = 0; i < pieces.count; i++)
        WGI_TRY(step->run(step, run, pieces.items[i], err));

cleanup:
    return status;
}

wg_status wgi_pre_tokenize(const wgi_pre_tokenizer *pre_tokenizer, const wgi_char_table *chars,
                           wgi_slice text, bool is_first, wgi_pre_scratch *scratch, wgi_slice *out,
                           wg_error *err)
{
    wg_status status = WG_OK;
    wgi_pre_run run = {.chars = chars,
                       .text = text.data,
                       .out = &scratch->words,
                       .stack = &scratch->stack,
                       .is_first = is_first};
    size_t written = 0;

    *out = text;
    if (text.count > UINT32_MAX)
        return wgi_fail(err, WG_ERR_LIMIT, "%zu bytes of text without a place to cut it",
                        text.count);
    scratch->words.count = 0;
    if (text.count) WGI_TRY(wgi_span_push(&scratch->words, 0, text.count, err));
    for (size_t i = 0; i < pre_tokenizer->step_count; i++) {
        const wgi_pre_step *step = &pre_tokenizer->steps[i];
        if (step->rewrites) {
            run.rewritten = &scratch->texts[written++ % 2];
            run.rewritten->count = 0;
            WGI_TRY(wgi_buf_reserve(run.rewritten, text.count, err));
        }
        WGI_TRY(run_step(step, &run, scratch, err));
        if (step->rewrites) {
            WGI_TRY(wgi_buf_reserve(run.rewritten, WGI_TEXT_SLACK, err));
            run.text = run.rewritten->data;
            *out = (wgi_slice){run.rewritten->data, run.rewritten->count};
        }
    }

cleanup:
    return status;
}

void wgi_pre_scratch_fini(wgi_pre_scratch *scratch)
{
    wgi_free(scratch->words.items);
    wgi_free(scratch->spare.items);
    wgi_buf_fini(&scratch->texts[0]);
    wgi_buf_fini(&scratch->texts[1]);
    wgi_free(scratch->stack.frames);
    *scratch = (wgi_pre_scratch){0};
}
