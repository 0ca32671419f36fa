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
#include "tokenizer/show.h"

#define SEQUENCE_DEPTH_MAX 8

typedef struct normalizer_row {
    const char *type;
    wgi_normalizer_run *run;
    bool is_compat, is_composed;
} normalizer_row;

/* Without options of their own; BertNormalizer and Sequence have a function each below. */
static const normalizer_row rows[] = {
    {"NFC", wgi_normal_form, false, true},      {"NFD", wgi_normal_form, false, false},
    {"NFKC", wgi_normal_form, true, true},      {"NFKD", wgi_normal_form, true, false},
    {"Lowercase", wgi_lowercase, false, false}, {"StripAccents", wgi_strip_accents, false, false},
};

static wg_status load_part(wgi_normalizer *normalizer, wgi_slice part, int depth,
                           wgi_refusals *refusals, wg_error *err);

static wg_status add_step(wgi_normalizer *normalizer, const wgi_normalizer_step *step,
                          wgi_refusals *refusals, wg_error *err)
{
    if (normalizer->step_count == WGI_NORMALIZER_STEPS_MAX)
        return wgi_refuse(refusals, err, "more than %d normalizers", WGI_NORMALIZER_STEPS_MAX);
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
    } else if (wgi_slice_is(type, "Sequence")) {
        WGI_TRY(load_sequence(normalizer, part, depth, refusals, err));
    } else {
        WGI_TRY(load_plain(normalizer, part, type, refusals, err));
    }

cleanup:
    wgi_buf_fini(&name);
    return status;
}

wg_status wgi_normalizer_load(wgi_normalizer *normalizer, wgi_slice part, wgi_refusals *refusals,
                              wg_error *err)
{
    if (wgi_part_is_null(part)) return WG_OK;
    wg_status status = load_part(normalizer, part, 0, refusals, err);
    normalizer->isolates_chinese =
        normalizer->step_count == 1 && normalizer->steps[0].chinese_chars;
    return status;
}

wg_status wgi_normalize(const wgi_normalizer *normalizer, const wgi_char_table *chars,
                        wgi_slice text, wgi_normalizer_scratch *scratch, wgi_slice *out,
                        wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf *to = &scratch->texts[0];

    to->count = 0;
    if (normalizer->step_count == 0) WGI_TRY(wgi_buf_append(to, text.data, text.count, err));
    for (size_t i = 0; i < normalizer->step_count; i++) {
        const wgi_normalizer_step *step = &normalizer->steps[i];
        to = &scratch->texts[i % 2];
        to->count = 0;
        WGI_TRY(step->run(step, chars, text, to, &scratch->marks, err));
        text = (wgi_slice){to->data, to->count};
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
    *scratch = (wgi_normalizer_scratch){0};
}
