/*
 * json.h - one pull scanner for every JSON text: configurations, tokenizers, tensor headers,
 * records of a corpus. It copies nothing that nobody asked for, so a 100 MB tokenizer file and
 * a million short records cost what they must.
 *
 *     wgi_json json;
 *     wgi_slice key;
 *     wgi_json_init(&json, bytes, count);
 *     WGI_TRY(wgi_json_object_begin(&json, err));
 *     while (wgi_json_object_next(&json, &key)) {
 *         if (wgi_slice_is(key, "hidden_size")) WGI_TRY(wgi_json_uint(&json, &hidden, err));
 *         else WGI_TRY(wgi_json_skip(&json, err));
 *     }
 *     WGI_TRY(wgi_json_finish(&json, err));
 *
 * Rules (RFC 8259 and Python's json): numbers can be had raw, digit for digit; a lone surrogate
 * escape and bytes that are not UTF-8 become U+FFFD (counted in json->repaired); NaN, Infinity
 * and -Infinity are accepted as values that nobody reads; nesting is limited to
 * WGI_JSON_DEPTH_MAX; duplicate keys are handed out each in turn, so that the last one wins where
 * a caller assigns. Errors stick: once a call failed, `_next` calls return false and
 * wgi_json_finish returns the first error, with line and column (or byte offset) in its message.
 */
#ifndef WGI_JSON_H
#define WGI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"

#define WGI_JSON_DEPTH_MAX 512

/* Borrowed bytes. */
typedef struct wgi_slice {
    const char *data;
    size_t count;
} wgi_slice;

bool wgi_slice_is(wgi_slice slice, const char *text);

typedef enum wgi_json_kind {
    WGI_JSON_NONE, /* end of text, or an error */
    WGI_JSON_OBJECT,
    WGI_JSON_ARRAY,
    WGI_JSON_STRING,
    WGI_JSON_NUMBER,
    WGI_JSON_TRUE,
    WGI_JSON_FALSE,
    WGI_JSON_NULL
} wgi_json_kind;

typedef struct wgi_json {
    const char *begin, *at, *end;
    int depth;
    bool has_item;  /* in the innermost container an item was handed out already */
    bool value_due; /* exactly one value is to be taken before the next `_next` or finish */
    bool failed;
    wg_status status;  /* of the first error */
    uint64_t repaired; /* U+FFFD put in so far */
    wgi_buf key;       /* the current key, decoded */
    char message[160]; /* the first error */
    size_t error_offset;
    uint8_t stack[WGI_JSON_DEPTH_MAX / 8 + 1]; /* a bit per level: object or array */
} wgi_json;

/* The text is borrowed until wgi_json_fini. */
void wgi_json_init(wgi_json *json, const char *bytes, size_t count);
void wgi_json_fini(wgi_json *json);

/* What stands next, without taking it. */
wgi_json_kind wgi_json_peek(wgi_json *json);

wg_status wgi_json_object_begin(wgi_json *json, wg_error *err);
/* Next key (decoded, borrowed until the next call on json) or, at the closing brace or after an
 * error, false. After true exactly one value must be taken. */
bool wgi_json_object_next(wgi_json *json, wgi_slice *key);
wg_status wgi_json_array_begin(wgi_json *json, wg_error *err);
bool wgi_json_array_next(wgi_json *json);

/* Values. A value of another kind is WG_ERR_FORMAT ("expected a string, found a number"). */
wg_status wgi_json_string(wgi_json *json, wgi_buf *out,
                          wg_error *err);                            /* appends, decoded, UTF-8 */
wg_status wgi_json_int(wgi_json *json, int64_t *out, wg_error *err); /* 3, not 3.0 nor 1e2 */
wg_status wgi_json_uint(wgi_json *json, uint64_t *out, wg_error *err);
wg_status wgi_json_double(wgi_json *json, double *out, wg_error *err); /* locale-independent */
wg_status wgi_json_bool(wgi_json *json, bool *out, wg_error *err);
wg_status wgi_json_null(wgi_json *json, wg_error *err);
/* Any value as it stands in the text, white space round it left out. */
wg_status wgi_json_raw(wgi_json *json, wgi_slice *out, wg_error *err);
wg_status wgi_json_skip(wgi_json *json, wg_error *err);

/* WG_OK when no call failed and nothing but white space is left. */
wg_status wgi_json_finish(wgi_json *json, wg_error *err);
/* WG_OK when no call failed so far (for a caller that reads only a part). */
wg_status wgi_json_status(const wgi_json *json, wg_error *err);

/* Writing: appends text as a quoted JSON string; bytes that are not UTF-8 become U+FFFD. */
wg_status wgi_json_quote(wgi_buf *out, const char *text, size_t count, wg_error *err);
/* The shortest decimal that gives the same float32 / double back; never NaN (WG_ERR_ARGUMENT). */
wg_status wgi_json_put_float(wgi_buf *out, float value, wg_error *err);
wg_status wgi_json_put_double(wgi_buf *out, double value, wg_error *err);

#endif
