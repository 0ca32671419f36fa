/*
 * post_processor.c - reads TemplateProcessing, BertProcessing, RobertaProcessing and ByteLevel into
 * templates.
 *
 * The idea: every processor is a template; those of BERT and RoBERTa are written out, ByteLevel
 * (which moves offsets that nobody asks for) is none, and a Sequence holds at most one other. A
 * template that names an undefined token, leaves its text out or puts it in twice is refused here,
 * since a text would be lost or the limit on tokens broken.
 *
 * Threads: read-only once loaded; then any thread.
 */
#include "tokenizer/post_processor.h"

#include "base/alloc.h"
#include "tokenizer/show.h"

#define SEQUENCE_DEPTH_MAX 8
#define ADDED_MAX          1024 /* special tokens of one template; real ones have three */

static wg_status push_item(wgi_template *template, wgi_template_item item, wg_error *err)
{
    wg_status status = wgi_grow(&template->items, &template->capacity, template->count + 1,
                                sizeof(*template->items), err);

    if (status != WG_OK) return status;
    template->items[template->count++] = item;
    if (item.kind == WGI_TEMPLATE_SPECIAL) template->added += item.count;
    if (template->added > ADDED_MAX)
        return wgi_fail(err, WG_ERR_LIMIT, "post_processor: a template adds more than %d tokens",
                        ADDED_MAX);
    return WG_OK;
}

/* ------------------------------------------------------------------- TemplateProcessing */

/* The file's "special_tokens": name -> index of a run of ids. */
typedef struct special_tokens {
    wgi_piece_table names;
    wgi_template_item *runs;
    size_t count, capacity;
} special_tokens;

static wg_status read_ids(wgi_slice list, wgi_slice name, wgi_ids *ids, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_json json;

    wgi_json_init(&json, list.data, list.count);
    WGI_TRY(wgi_json_array_begin(&json, err));
    while (wgi_json_array_next(&json)) {
        int32_t id = 0;
        WGI_TRY(wgi_token_id(&json, "post_processor", name, &id, err));
        WGI_TRY(wgi_ids_push(ids, id, err));
    }
    WGI_TRY(wgi_json_finish(&json, err));

cleanup:
    wgi_json_fini(&json);
    return status;
}

static wg_status read_special(special_tokens *specials, wgi_slice name, wgi_slice value,
                              wgi_ids *ids, wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice list = {"[]", 2};
    size_t first = ids->count;
    wgi_field fields[] = {
        {.name = "id", .kind = WGI_FIELD_UNREAD},
        {.name = "tokens", .kind = WGI_FIELD_UNREAD},
        {.name = "ids", .kind = WGI_FIELD_RAW, .out = &list},
    };

    WGI_TRY(wgi_fields_read(value, "post_processor special_tokens", fields, 3, refusals, err));
    WGI_TRY(read_ids(list, name, ids, err));
    WGI_TRY(wgi_grow(&specials->runs, &specials->capacity, specials->count + 1,
                     sizeof(*specials->runs), err));
    specials->runs[specials->count] =
        (wgi_template_item){WGI_TEMPLATE_SPECIAL, 0, first, ids->count - first};
    WGI_TRY(wgi_piece_table_put(&specials->names, name, (int32_t)specials->count, err));
    specials->count++;

cleanup:
    return status;
}

static wg_status read_specials(special_tokens *specials, wgi_slice map, wgi_ids *ids,
                               wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_json json;
    wgi_slice key, value;

    wgi_json_init(&json, map.data, map.count);
    WGI_TRY(wgi_json_object_begin(&json, err));
    while (wgi_json_object_next(&json, &key)) {
        WGI_TRY(wgi_json_raw(&json, &value, err));
        WGI_TRY(read_special(specials, key, value, ids, refusals, err));
    }
    WGI_TRY(wgi_json_finish(&json, err));

cleanup:
    wgi_json_fini(&json);
    return status;
}

/* {"id": ..., "type_id": ...} of one item. */
static wg_status read_item_fields(wgi_slice value, wgi_buf *id, int32_t *type_id,
                                  wgi_refusals *refusals, wg_error *err)
{
    uint64_t type = 0;
    wgi_field fields[] = {
        {.name = "id", .kind = WGI_FIELD_TEXT, .out = id},
        {.name = "type_id", .kind = WGI_FIELD_UINT, .out = &type},
    };
    wg_status status = wgi_fields_read(value, "post_processor template", fields, 2, refusals, err);

    if (status != WG_OK) return status;
    if (type > INT32_MAX)
        return wgi_fail(err, WG_ERR_FORMAT, "post_processor: type_id %llu is too large",
                        (unsigned long long)type);
    *type_id = (int32_t)type;
    return WG_OK;
}

static wg_status read_special_item(wgi_slice value, const special_tokens *specials, wgi_buf *id,
                                   wgi_template *template, wgi_refusals *refusals, wg_error *err)
{
    int32_t type_id = 0;
    wg_status status = read_item_fields(value, id, &type_id, refusals, err);

    if (status != WG_OK) return status;
    wgi_slice name = {id->data, id->count};
    int32_t run = wgi_piece_table_find(&specials->names, name);
    if (run < 0)
        return wgi_fail(
            err, WG_ERR_FORMAT,
            "post_processor: the template's token \"%.*s\" is not in its special_tokens",
            WGI_SHOW(name));
    wgi_template_item item = specials->runs[run];
    item.type_id = type_id;
    return push_item(template, item, err);
}

static wg_status read_sequence_item(wgi_slice value, wgi_buf *id, wgi_template *template,
                                    wgi_refusals *refusals, wg_error *err)
{
    wgi_template_item item = {.kind = WGI_TEMPLATE_A};
    wg_status status = read_item_fields(value, id, &item.type_id, refusals, err);

    if (status != WG_OK) return status;
    wgi_slice name = {id->data, id->count};
    if (wgi_slice_is(name, "B")) {
        item.kind = WGI_TEMPLATE_B;
    } else if (!wgi_slice_is(name, "A")) {
        return wgi_fail(err, WG_ERR_FORMAT, "post_processor: a template has a sequence \"%.*s\"",
                        WGI_SHOW(name));
    }
    return push_item(template, item, err);
}

/* {"SpecialToken": {...}} or {"Sequence": {...}}. */
static wg_status read_item(wgi_slice object, const special_tokens *specials, wgi_template *template,
                           wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice special = {"", 0}, sequence = {"", 0};
    wgi_buf id = {0};
    wgi_field fields[] = {
        {.name = "SpecialToken", .kind = WGI_FIELD_RAW, .out = &special, .is_optional = true},
        {.name = "Sequence", .kind = WGI_FIELD_RAW, .out = &sequence, .is_optional = true},
    };

    WGI_TRY(wgi_fields_read(object, "post_processor template", fields, 2, refusals, err));
    if (fields[0].is_set == fields[1].is_set) {
        status = wgi_fail(err, WG_ERR_FORMAT,
                          "post_processor: an item of a template is neither a SpecialToken nor a "
                          "Sequence");
    } else if (fields[0].is_set) {
        status = read_special_item(special, specials, &id, template, refusals, err);
    } else {
        status = read_sequence_item(sequence, &id, template, refusals, err);
    }

cleanup:
    wgi_buf_fini(&id);
    return status;
}

static wg_status read_template(wgi_slice list, const special_tokens *specials,
                               wgi_template *template, wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_json json;
    wgi_slice item;

    wgi_json_init(&json, list.data, list.count);
    WGI_TRY(wgi_json_array_begin(&json, err));
    while (wgi_json_array_next(&json)) {
        WGI_TRY(wgi_json_raw(&json, &item, err));
        WGI_TRY(read_item(item, specials, template, refusals, err));
    }
    WGI_TRY(wgi_json_finish(&json, err));

cleanup:
    wgi_json_fini(&json);
    return status;
}

static wg_status load_template_processing(wgi_post_processor *processor, wgi_slice part,
                                          wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    special_tokens specials = {0};
    wgi_slice single = {"", 0}, pair = {"", 0}, map = {"", 0};
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "single", .kind = WGI_FIELD_RAW, .out = &single},
        {.name = "pair", .kind = WGI_FIELD_RAW, .out = &pair},
        {.name = "special_tokens", .kind = WGI_FIELD_RAW, .out = &map},
    };

    WGI_TRY(wgi_fields_read(part, "post_processor TemplateProcessing", fields, 4, refusals, err));
    WGI_TRY(read_specials(&specials, map, &processor->ids, refusals, err));
    WGI_TRY(read_template(single, &specials, &processor->single, refusals, err));
    WGI_TRY(read_template(pair, &specials, &processor->pair, refusals, err));

cleanup:
    wgi_piece_table_fini(&specials.names);
    wgi_free(specials.runs);
    return status;
}

/* ----------------------------------------------------------------------- BertProcessing */

/* ["[SEP]", 102] */
static wg_status read_token_pair(wgi_slice list, wgi_post_processor *processor,
                                 wgi_template_item *item, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_json json;
    wgi_buf name = {0};
    int32_t id = 0;
    size_t count = 0;

    wgi_json_init(&json, list.data, list.count);
    WGI_TRY(wgi_json_array_begin(&json, err));
    for (; wgi_json_array_next(&json); count++) {
        if (count == 0) {
            WGI_TRY(wgi_json_string(&json, &name, err));
        } else if (count == 1) {
            WGI_TRY(wgi_token_id(&json, "post_processor", (wgi_slice){name.data, name.count}, &id,
                                 err));
        } else {
            WGI_TRY(wgi_json_skip(&json, err));
        }
    }
    WGI_TRY(wgi_json_finish(&json, err));
    if (count != 2) {
        status = wgi_fail(err, WG_ERR_FORMAT, "post_processor: expected [token, id]");
        goto cleanup;
    }
    *item = (wgi_template_item){WGI_TEMPLATE_SPECIAL, 0, processor->ids.count, 1};
    WGI_TRY(wgi_ids_push(&processor->ids, id, err));

cleanup:
    wgi_json_fini(&json);
    wgi_buf_fini(&name);
    return status;
}

static wg_status load_bert_processing(wgi_post_processor *processor, wgi_slice part,
                                      wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice sep = {"", 0}, cls = {"", 0};
    wgi_template_item begin, end, last;
    const wgi_template_item a = {.kind = WGI_TEMPLATE_A},
                            b = {.kind = WGI_TEMPLATE_B, .type_id = 1};
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "sep", .kind = WGI_FIELD_RAW, .out = &sep},
        {.name = "cls", .kind = WGI_FIELD_RAW, .out = &cls},
    };

    WGI_TRY(wgi_fields_read(part, "post_processor BertProcessing", fields, 3, refusals, err));
    WGI_TRY(read_token_pair(cls, processor, &begin, err));
    WGI_TRY(read_token_pair(sep, processor, &end, err));
    last = end;
    last.type_id = 1;
    WGI_TRY(push_item(&processor->single, begin, err));
    WGI_TRY(push_item(&processor->single, a, err));
    WGI_TRY(push_item(&processor->single, end, err));
    WGI_TRY(push_item(&processor->pair, begin, err));
    WGI_TRY(push_item(&processor->pair, a, err));
    WGI_TRY(push_item(&processor->pair, end, err));
    WGI_TRY(push_item(&processor->pair, b, err));
    WGI_TRY(push_item(&processor->pair, last, err));

cleanup:
    return status;
}

/* RoBERTa puts two separators between texts, and knows one type alone. */
static wg_status load_roberta_processing(wgi_post_processor *processor, wgi_slice part,
                                         wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice sep = {"", 0}, cls = {"", 0};
    wgi_template_item begin, end;
    const wgi_template_item a = {.kind = WGI_TEMPLATE_A}, b = {.kind = WGI_TEMPLATE_B};
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "trim_offsets", .kind = WGI_FIELD_UNREAD},
        {.name = "add_prefix_space", .kind = WGI_FIELD_UNREAD},
        {.name = "sep", .kind = WGI_FIELD_RAW, .out = &sep},
        {.name = "cls", .kind = WGI_FIELD_RAW, .out = &cls},
    };

    WGI_TRY(wgi_fields_read(part, "post_processor RobertaProcessing", fields, 5, refusals, err));
    WGI_TRY(read_token_pair(cls, processor, &begin, err));
    WGI_TRY(read_token_pair(sep, processor, &end, err));
    const wgi_template_item pair[] = {begin, a, end, end, b, end};
    for (size_t i = 0; i < 3; i++)
        WGI_TRY(push_item(&processor->single, pair[i], err));
    for (size_t i = 0; i < sizeof(pair) / sizeof(pair[0]); i++)
        WGI_TRY(push_item(&processor->pair, pair[i], err));

cleanup:
    return status;
}

/* ------------------------------------------------------------------------------- loading */

static wg_status load_none(wgi_post_processor *processor, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(push_item(&processor->single, (wgi_template_item){.kind = WGI_TEMPLATE_A}, err));
    WGI_TRY(push_item(&processor->pair, (wgi_template_item){.kind = WGI_TEMPLATE_A}, err));
    WGI_TRY(push_item(&processor->pair, (wgi_template_item){.kind = WGI_TEMPLATE_B, .type_id = 1},
                      err));

cleanup:
    return status;
}

static size_t count_kind(const wgi_template *template, wgi_template_kind kind)
{
    size_t count = 0;

    for (size_t i = 0; i < template->count; i++)
        count += template->items[i].kind == kind;
    return count;
}

static wg_status check_templates(wgi_post_processor *processor, wg_error *err)
{
    size_t a = count_kind(&processor->pair, WGI_TEMPLATE_A);
    size_t b = count_kind(&processor->pair, WGI_TEMPLATE_B);

    if (count_kind(&processor->single, WGI_TEMPLATE_A) != 1 ||
        count_kind(&processor->single, WGI_TEMPLATE_B) != 0)
        return wgi_fail(err, WG_ERR_FORMAT,
                        "post_processor: the template for one text does not hold it once");
    if (a > 1 || b > 1)
        return wgi_fail(err, WG_ERR_FORMAT,
                        "post_processor: the template for two texts holds one twice");
    processor->has_pair = a == 1 && b == 1;
    return WG_OK;
}

static wg_status load_byte_level(wgi_slice part, wgi_refusals *refusals, wg_error *err)
{
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "add_prefix_space", .kind = WGI_FIELD_UNREAD},
        {.name = "trim_offsets", .kind = WGI_FIELD_UNREAD},
        {.name = "use_regex", .kind = WGI_FIELD_UNREAD},
    };

    return wgi_fields_read(part, "post_processor ByteLevel", fields, 4, refusals, err);
}

static wg_status load_part(wgi_post_processor *processor, wgi_slice part, int depth,
                           wgi_refusals *refusals, wg_error *err);

static wg_status load_sequence(wgi_post_processor *processor, wgi_slice part, int depth,
                               wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice list = {"[]", 2}, item;
    wgi_json json;
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_UNREAD},
        {.name = "processors", .kind = WGI_FIELD_RAW, .out = &list},
    };

    wgi_json_init(&json, "", 0);
    if (depth == SEQUENCE_DEPTH_MAX) {
        status = wgi_refuse(refusals, err, "post_processor Sequence nested deeper than %d", depth);
        goto cleanup;
    }
    WGI_TRY(wgi_fields_read(part, "post_processor Sequence", fields, 2, refusals, err));
    wgi_json_init(&json, list.data, list.count);
    WGI_TRY(wgi_json_array_begin(&json, err));
    while (wgi_json_array_next(&json)) {
        WGI_TRY(wgi_json_raw(&json, &item, err));
        WGI_TRY(load_part(processor, item, depth + 1, refusals, err));
    }
    WGI_TRY(wgi_json_finish(&json, err));

cleanup:
    wgi_json_fini(&json);
    return status;
}

typedef struct processor_row {
    const char *type;
    wg_status (*load)(wgi_post_processor *processor, wgi_slice part, wgi_refusals *refusals,
                      wg_error *err);
} processor_row;

static const processor_row rows[] = {
    {"TemplateProcessing", load_template_processing},
    {"BertProcessing", load_bert_processing},
    {"RobertaProcessing", load_roberta_processing},
};

static wg_status load_type(wgi_post_processor *processor, wgi_slice part, wgi_slice type, int depth,
                           wgi_refusals *refusals, wg_error *err)
{
    if (wgi_slice_is(type, "ByteLevel")) return load_byte_level(part, refusals, err);
    if (wgi_slice_is(type, "Sequence")) return load_sequence(processor, part, depth, refusals, err);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!wgi_slice_is(type, rows[i].type)) continue;
        if (processor->is_set)
            return wgi_refuse(refusals, err, "a second post_processor \"%.*s\" in a Sequence",
                              WGI_SHOW(type));
        processor->is_set = true;
        wg_status status = rows[i].load(processor, part, refusals, err);
        return status == WG_OK ? check_templates(processor, err) : status;
    }
    return wgi_refuse(refusals, err, "post_processor type \"%.*s\"", WGI_SHOW(type));
}

static wg_status load_part(wgi_post_processor *processor, wgi_slice part, int depth,
                           wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf name = {0};
    bool has_type = false;

    WGI_TRY(wgi_part_type(part, "post_processor", &name, &has_type, err));
    if (!has_type) {
        status = wgi_fail(err, WG_ERR_FORMAT, "post_processor: \"type\" is missing");
        goto cleanup;
    }
    WGI_TRY(load_type(processor, part, (wgi_slice){name.data, name.count}, depth, refusals, err));

cleanup:
    wgi_buf_fini(&name);
    return status;
}

wg_status wgi_post_processor_load(wgi_post_processor *processor, wgi_slice part,
                                  wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;

    if (!wgi_part_is_null(part)) WGI_TRY(load_part(processor, part, 0, refusals, err));
    if (!processor->is_set) {
        processor->has_pair = true;
        WGI_TRY(load_none(processor, err));
    }

cleanup:
    return status;
}

static wg_status push_special(wgi_post_processor *processor, wgi_template *template, int32_t id,
                              int32_t type_id, wg_error *err)
{
    const wgi_template_item item = {WGI_TEMPLATE_SPECIAL, type_id, processor->ids.count, 1};
    wg_status status = WG_OK;

    if (id < 0) return WG_OK;
    WGI_TRY(wgi_ids_push(&processor->ids, id, err));
    WGI_TRY(push_item(template, item, err));

cleanup:
    return status;
}

wg_status wgi_post_processor_simple(wgi_post_processor *processor, int32_t before, int32_t after,
                                    bool is_bert, wg_error *err)
{
    const wgi_template_item a = {.kind = WGI_TEMPLATE_A},
                            b = {.kind = WGI_TEMPLATE_B, .type_id = 1};
    wgi_template *pair = &processor->pair;
    wg_status status = WG_OK;

    WGI_TRY(push_special(processor, &processor->single, before, 0, err));
    WGI_TRY(push_item(&processor->single, a, err));
    WGI_TRY(push_special(processor, &processor->single, after, 0, err));
    WGI_TRY(push_special(processor, pair, before, 0, err));
    WGI_TRY(push_item(pair, a, err));
    WGI_TRY(push_special(processor, pair, after, 0, err));
    WGI_TRY(push_special(processor, pair, is_bert ? -1 : before, 1, err));
    WGI_TRY(push_item(pair, b, err));
    WGI_TRY(push_special(processor, pair, after, 1, err));
    processor->has_pair = processor->is_set = true;

cleanup:
    return status;
}

void wgi_post_processor_fini(wgi_post_processor *processor)
{
    wgi_free(processor->single.items);
    wgi_free(processor->pair.items);
    wgi_free(processor->ids.items);
    *processor = (wgi_post_processor){0};
}
