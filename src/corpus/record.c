/*
 * record.c - fields out of one JSON record; see record.h.
 *
 *     {"doc": {"body": "..."}, "doc.body": "..."}     field "doc.body": the second wins
 *
 * One pass over the top level notes where the wanted values stand, as slices of the line; the
 * last of two equal keys wins (as in Python). Then each slice is read. A dotted field goes down by
 * noting the slice of its first part and looking in it for the rest, by the same rule.
 *
 * The id is copied as it stands, digit for digit. Refused: reading numbers into a double or a
 * 64-bit integer, which changes 9007199254740993 and 1.10; a document tree, which costs an
 * allocation a value.
 *
 * Threads: the reader's own.
 */
#include "corpus/record.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

/* A field that is looked for in one object. */
typedef struct want {
    wgi_slice whole;   /* the field as named */
    wgi_slice first;   /* before the first dot; the same as whole without one */
    wgi_slice literal; /* the value of the key that is the whole name; data NULL: none */
    wgi_slice outer;   /* the value of the key that is the first part */
} want;

static wg_status fail(wgi_record *record, wg_failure failure, const char *text, wg_error *err)
{
    record->failure = failure;
    record->reason.count = 0;
    return wgi_buf_text(&record->reason, text, err);
}

static want want_make(const char *field, size_t count)
{
    const char *dot = count ? memchr(field, '.', count) : NULL;

    return (want){.whole = {field, count}, .first = {field, dot ? (size_t)(dot - field) : count}};
}

static bool slice_equals(wgi_slice a, wgi_slice b)
{
    return a.count == b.count && memcmp(a.data, b.data, a.count) == 0;
}

/* Notes in `wants` what the object in text[0, count) has of them. */
static wg_status scan(wgi_record *record, const char *text, size_t count, want *wants,
                      size_t want_count, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_json json;
    wgi_slice key, value;

    wgi_json_init(&json, text, count);
    json.key = record->key;
    WGI_TRY(wgi_json_object_begin(&json, err));
    while (wgi_json_object_next(&json, &key)) {
        unsigned literal = 0, outer = 0; /* a bit a want; the key is gone once the value is taken */
        for (unsigned i = 0; i < want_count; i++) {
            if (slice_equals(key, wants[i].whole))
                literal |= 1u << i;
            else if (slice_equals(key, wants[i].first))
                outer |= 1u << i;
        }
        if (!literal && !outer) {
            WGI_TRY(wgi_json_skip(&json, err));
            continue;
        }
        WGI_TRY(wgi_json_raw(&json, &value, err));
        for (unsigned i = 0; i < want_count; i++) {
            if (literal >> i & 1) wants[i].literal = value;
            if (outer >> i & 1) wants[i].outer = value;
        }
    }
    WGI_TRY(wgi_json_finish(&json, err));

cleanup:
    record->key = json.key; /* its memory serves the next record */
    json.key = (wgi_buf){0};
    wgi_json_fini(&json);
    return status;
}

/* Where the value of a scanned want is, going down its dots; *found is false when it is missing.
 * The slices were scanned once already, so they are well formed. */
static wg_status resolve(wgi_record *record, want wanted, wgi_slice *value, bool *found,
                         wg_error *err)
{
    wg_status status = WG_OK;

    *found = false;
    for (;;) {
        if (wanted.literal.data) {
            *value = wanted.literal;
            *found = true;
            break;
        }
        if (!wanted.outer.data || wanted.outer.data[0] != '{') break;
        wgi_slice inside = wanted.outer;
        size_t used = wanted.first.count + 1;
        wanted = want_make(wanted.whole.data + used, wanted.whole.count - used);
        WGI_TRY(scan(record, inside.data, inside.count, &wanted, 1, err));
    }

cleanup:
    return status;
}

/* NaN and Infinity are let pass where nobody reads them, but an id is written again. */
static bool is_plain_json(wgi_slice value)
{
    bool in_string = false;

    for (size_t i = 0; i < value.count; i++) {
        char c = value.data[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == 'N' || c == 'I'))
            return false;
    }
    return true;
}

static wg_status read_id(wgi_record *record, const want *wanted, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice value;
    bool found;

    WGI_TRY(resolve(record, *wanted, &value, &found, err));
    if (!found || wgi_slice_is(value, "null")) goto cleanup;
    if (!is_plain_json(value)) {
        WGI_TRY(fail(record, WG_FAILURE_BAD_JSON, "the id holds NaN or Infinity, which is not JSON",
                     err));
        goto cleanup;
    }
    WGI_TRY(wgi_utf8_repair(&record->id, value.data, value.count, NULL, err));

cleanup:
    return status;
}

static const char *kind_name(wgi_json_kind kind)
{
    static const char *const names[] = {"nothing",  "an object", "an array", "a string",
                                        "a number", "true",      "false",    "null"};

    return names[kind];
}

static wg_status fail_field(wgi_record *record, const char *field, const char *wanted,
                            const char *found, wg_error *err)
{
    record->failure = WG_FAILURE_NO_TEXT;
    record->reason.count = 0;
    return wgi_buf_printf(&record->reason, err, "the field \"%.100s\" %s %s", field, wanted, found);
}

static wg_status read_text(wgi_record *record, const char *field, const want *wanted, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_json json = {0};
    wgi_slice value;
    bool found;

    WGI_TRY(resolve(record, *wanted, &value, &found, err));
    if (!found) {
        WGI_TRY(fail_field(record, field, "is", "missing", err));
        goto cleanup;
    }
    wgi_json_init(&json, value.data, value.count);
    wgi_json_kind kind = wgi_json_peek(&json);
    if (kind != WGI_JSON_STRING) {
        WGI_TRY(fail_field(record, field, "must be a string, found", kind_name(kind), err));
        goto cleanup;
    }
    WGI_TRY(wgi_buf_reserve(&record->text, value.count, err));
    WGI_TRY(wgi_json_string(&json, &record->text, err));
    record->repaired += json.repaired;

cleanup:
    wgi_json_fini(&json);
    return status;
}

static wg_status read_ids(wgi_record *record, const char *field, const want *wanted, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_json json = {0};
    wgi_slice value;
    bool found;

    WGI_TRY(resolve(record, *wanted, &value, &found, err));
    if (!found) {
        WGI_TRY(fail_field(record, field, "is", "missing", err));
        goto cleanup;
    }
    wgi_json_init(&json, value.data, value.count);
    wgi_json_kind kind = wgi_json_peek(&json);
    if (kind != WGI_JSON_ARRAY) {
        WGI_TRY(fail_field(record, field, "must be an array of token ids, found", kind_name(kind),
                           err));
        goto cleanup;
    }
    WGI_TRY(wgi_grow(&record->ids, &record->id_capacity, 1, sizeof(*record->ids), err));
    WGI_TRY(wgi_json_array_begin(&json, err));
    while (wgi_json_array_next(&json)) {
        int64_t number;
        wg_error why;
        status = wgi_json_int(&json, &number, &why);
        if (status == WG_ERR_NO_MEMORY) goto cleanup;
        if (status != WG_OK || number < 0 || number > INT32_MAX) {
            record->failure = WG_FAILURE_BAD_JSON;
            record->reason.count = 0;
            WGI_TRY(
                wgi_buf_printf(&record->reason, err,
                               "token id %zu of \"%.100s\" is not an integer from 0 to %" PRId32,
                               record->id_count + 1, field, INT32_MAX));
            goto cleanup;
        }
        WGI_TRY(wgi_grow(&record->ids, &record->id_capacity, record->id_count + 1,
                         sizeof(*record->ids), err));
        record->ids[record->id_count++] = (int32_t)number;
    }
    WGI_TRY(wgi_json_finish(&json, err));

cleanup:
    wgi_json_fini(&json);
    return status;
}

wg_status wgi_record_read(wgi_record *record, const wgi_record_fields *fields, const char *line,
                          size_t count, wg_error *err)
{
    wg_status status = WG_OK;
    wg_error why;
    const char *payload = fields->ids ? fields->ids : fields->text;
    want wants[2] = {want_make(payload, strlen(payload)),
                     want_make(fields->id, strlen(fields->id))};

    record->failure = WG_FAILURE_NONE;
    record->text.count = record->id.count = record->reason.count = 0;
    record->id_count = 0;
    record->repaired = 0;

    status = scan(record, line, count, wants, 2, &why);
    if (status == WG_ERR_FORMAT || status == WG_ERR_LIMIT) {
        WGI_TRY(fail(record, WG_FAILURE_BAD_JSON, why.message, err));
        goto cleanup;
    }
    if (status != WG_OK) {
        (void)wgi_fail(err, status, "%s", why.message);
        goto cleanup;
    }
    if (fields->ids)
        WGI_TRY(read_ids(record, fields->ids, &wants[0], err));
    else
        WGI_TRY(read_text(record, fields->text, &wants[0], err));
    WGI_TRY(read_id(record, &wants[1], err));

cleanup:
    return status;
}

void wgi_record_fini(wgi_record *record)
{
    wgi_buf_fini(&record->text);
    wgi_buf_fini(&record->id);
    wgi_buf_fini(&record->reason);
    wgi_buf_fini(&record->key);
    wgi_free(record->ids);
    *record = (wgi_record){0};
}
