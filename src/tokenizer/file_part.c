/*
 * file_part.c - objects of a tokenizer.json by a table of fields; see file_part.h.
 *
 * The idea: the file is scanned once for its nine parts, kept as slices of its text; each part is
 * then read by the file of its stage, whatever the order of keys. Refused: a tree of the whole
 * file (a vocabulary of a million entries would be in memory twice).
 *
 * Threads: no state; any thread.
 */
#include "tokenizer/file_part.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tokenizer/show.h"

#define REFUSALS_SHOWN 6

wg_status wgi_refuse(wgi_refusals *refusals, wg_error *err, const char *format, ...)
{
    char name[160];
    va_list arguments;

    if (refusals->count++ >= REFUSALS_SHOWN) return WG_OK;
    va_start(arguments, format);
    (void)vsnprintf(name, sizeof(name), format, arguments);
    va_end(arguments);
    return wgi_buf_printf(&refusals->names, err, "%s%s", refusals->count > 1 ? "; " : "", name);
}

wg_status wgi_refusals_check(const wgi_refusals *refusals, wg_error *err)
{
    if (refusals->count == 0) return WG_OK;
    return wgi_fail(err, WG_ERR_UNSUPPORTED, "this tokenizer needs what is not supported: %s%s",
                    refusals->names.data, refusals->count > REFUSALS_SHOWN ? "; and more" : "");
}

static wg_status read_value(wgi_json *json, wgi_field *field, wg_error *err)
{
    if (field->kind == WGI_FIELD_UNREAD) return wgi_json_skip(json, err);
    if (field->is_optional && wgi_json_peek(json) == WGI_JSON_NULL) {
        field->is_set = false;
        return wgi_json_null(json, err);
    }
    field->is_set = true;
    switch (field->kind) {
    case WGI_FIELD_BOOL:
        return wgi_json_bool(json, field->out, err);
    case WGI_FIELD_UINT:
        return wgi_json_uint(json, field->out, err);
    case WGI_FIELD_TEXT:
        ((wgi_buf *)field->out)->count = 0;
        return wgi_json_string(json, field->out, err);
    default:
        return wgi_json_raw(json, field->out, err);
    }
}

static wg_status read_field(wgi_json *json, wgi_slice key, const char *where, wgi_field *fields,
                            size_t count, wgi_refusals *refusals, wg_error *err)
{
    for (size_t i = 0; i < count; i++) {
        char place[160];
        if (!wgi_slice_is(key, fields[i].name)) continue;
        wg_status status = read_value(json, &fields[i], err);
        if (status == WG_OK) return WG_OK;
        (void)snprintf(place, sizeof(place), "%s, \"%s\"", where, fields[i].name);
        return wgi_fail_prefix(err, status, place);
    }
    if (refusals) {
        wg_status status =
            wgi_refuse(refusals, err, "%s with a field \"%.*s\"", where, WGI_SHOW(key));
        if (status != WG_OK) return status;
    }
    return wgi_json_skip(json, err);
}

wg_status wgi_fields_read(wgi_slice object, const char *where, wgi_field *fields, size_t count,
                          wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_json json;
    wgi_slice key;

    wgi_json_init(&json, object.data, object.count);
    for (size_t i = 0; i < count; i++)
        fields[i].is_set = false;
    status = wgi_json_object_begin(&json, err);
    if (status != WG_OK) {
        status = wgi_fail_prefix(err, status, where);
        goto cleanup;
    }
    while (wgi_json_object_next(&json, &key))
        WGI_TRY(read_field(&json, key, where, fields, count, refusals, err));
    WGI_TRY(wgi_json_finish(&json, err));
    for (size_t i = 0; i < count; i++) {
        if (fields[i].is_set || fields[i].is_optional || fields[i].kind == WGI_FIELD_UNREAD)
            continue;
        status = wgi_fail(err, WG_ERR_FORMAT, "%s: \"%s\" is missing", where, fields[i].name);
        goto cleanup;
    }

cleanup:
    wgi_json_fini(&json);
    return status;
}

wg_status wgi_part_type(wgi_slice object, const char *where, wgi_buf *type, bool *has_type,
                        wg_error *err)
{
    wgi_field fields[] = {
        {.name = "type", .kind = WGI_FIELD_TEXT, .out = type, .is_optional = true}};
    wg_status status = wgi_fields_read(object, where, fields, 1, NULL, err);

    *has_type = fields[0].is_set;
    return status;
}

wg_status wgi_token_id(wgi_json *json, const char *where, wgi_slice token, int32_t *id,
                       wg_error *err)
{
    wgi_slice digits;
    wgi_json number;
    int64_t value = -1;
    wg_status status = wgi_json_raw(json, &digits, err);

    if (status != WG_OK) return status;
    wgi_json_init(&number, digits.data, digits.count);
    status = wgi_json_int(&number, &value, NULL);
    wgi_json_fini(&number);
    if (status != WG_OK || value < 0 || value > INT32_MAX)
        return wgi_fail(
            err, WG_ERR_FORMAT,
            "%s: the token \"%.*s\" has %.*s for a token id, which is no number from 0 to "
            "2147483647",
            where, WGI_SHOW(token), WGI_SHOW(digits));
    *id = (int32_t)value;
    return WG_OK;
}
