/*
 * fuzz_json.c - any bytes through the JSON scanner. Properties: two scans tell the same; skipping a
 * value and reading it in full agree on whether it is valid and where it ends; what was read and
 * written again reads back as the same.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

static void require(bool holds)
{
    if (!holds) abort();
}

/* Reads a string, and sees that its quoted form gives the same string. */
static bool check_string(wgi_json *json)
{
    wgi_buf text = {0}, quoted = {0}, again = {0};
    wgi_json second;

    bool is_ok = wgi_json_string(json, &text, NULL) == WG_OK;
    if (is_ok) {
        require(wgi_utf8_check(text.data, text.count) == text.count);
        require(wgi_json_quote(&quoted, text.data, text.count, NULL) == WG_OK);
        wgi_json_init(&second, quoted.data, quoted.count);
        require(wgi_json_string(&second, &again, NULL) == WG_OK);
        require(wgi_json_finish(&second, NULL) == WG_OK && second.repaired == 0);
        require(again.count == text.count);
        require(text.count == 0 || memcmp(again.data, text.data, text.count) == 0);
        wgi_json_fini(&second);
    }
    wgi_buf_fini(&text);
    wgi_buf_fini(&quoted);
    wgi_buf_fini(&again);
    return is_ok;
}

/*
 * Reads a number as a double where it is one, and sees that it survives being written. The number
 * is taken raw from `json`, because a valid number may be too big for a double.
 */
static bool check_number(wgi_json *json)
{
    wgi_slice raw;
    wgi_json second;
    double value, again;

    if (wgi_json_raw(json, &raw, NULL) != WG_OK) return false;
    wgi_json_init(&second, raw.data, raw.count);
    if (wgi_json_double(&second, &value, NULL) == WG_OK) {
        wgi_buf out = {0};
        wgi_json third;
        require(isfinite(value));
        require(wgi_json_put_double(&out, value, NULL) == WG_OK);
        wgi_json_init(&third, out.data, out.count);
        require(wgi_json_double(&third, &again, NULL) == WG_OK);
        require(memcmp(&value, &again, sizeof(value)) == 0);
        if (isfinite((float)value)) {
            float narrow = (float)value;
            out.count = 0;
            require(wgi_json_put_float(&out, narrow, NULL) == WG_OK);
            require(strtof(out.data, NULL) == narrow);
        }
        wgi_json_fini(&third);
        wgi_buf_fini(&out);
    }
    wgi_json_fini(&second);
    return true;
}

/* Reads one value of any kind in full; recursion is bounded by the scanner's own limit. */
static bool read_value(wgi_json *json)
{
    wgi_slice key;
    bool flag;

    switch (wgi_json_peek(json)) {
    case WGI_JSON_OBJECT:
        if (wgi_json_object_begin(json, NULL) != WG_OK) return false;
        while (wgi_json_object_next(json, &key)) {
            require(wgi_utf8_check(key.data, key.count) == key.count);
            if (!read_value(json)) return false;
        }
        return wgi_json_status(json, NULL) == WG_OK;
    case WGI_JSON_ARRAY:
        if (wgi_json_array_begin(json, NULL) != WG_OK) return false;
        while (wgi_json_array_next(json)) {
            if (!read_value(json)) return false;
        }
        return wgi_json_status(json, NULL) == WG_OK;
    case WGI_JSON_STRING:
        return check_string(json);
    case WGI_JSON_NUMBER:
        return check_number(json);
    case WGI_JSON_TRUE:
    case WGI_JSON_FALSE:
        return wgi_json_bool(json, &flag, NULL) == WG_OK;
    case WGI_JSON_NULL:
        return wgi_json_null(json, NULL) == WG_OK;
    default:
        return wgi_json_skip(json, NULL) == WG_OK;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    wgi_json skipped, again, read;

    wgi_json_init(&skipped, (const char *)data, count);
    wgi_json_init(&again, (const char *)data, count);
    wgi_json_init(&read, (const char *)data, count);

    (void)wgi_json_skip(&skipped, NULL);
    (void)wgi_json_skip(&again, NULL);
    wg_status status = wgi_json_finish(&skipped, NULL);
    require(wgi_json_finish(&again, NULL) == status && again.at == skipped.at);
    require(strcmp(again.message, skipped.message) == 0);

    (void)read_value(&read);
    require(wgi_json_finish(&read, NULL) == status);
    require(read.at == skipped.at && read.error_offset == skipped.error_offset);

    wgi_json_fini(&skipped);
    wgi_json_fini(&again);
    wgi_json_fini(&read);
    return 0;
}
