/*
 * json.c - the pull scanner; see json.h.
 *
 * The idea: a position in borrowed text, one bit a level (object or array), and no tree. Two
 * layers:
 *
 *   scan_*   cross one lexical thing and check its whole grammar, so a value that is skipped is
 * held to the same rules as one that is read; the public calls take the text that was crossed and
 * make a value of it.
 *
 * Strings are crossed eight bytes at a time up to a quote, a backslash or a control byte; one
 * without escapes and repairs is handed out (keys) or copied (values) in one piece. Skipping walks
 * the same bit stack in a loop, never by recursion: depth costs a bit, not a stack frame.
 *
 * A tree of nodes was refused: it costs several times the text in memory, and a tokenizer file has
 * 100 MB of which most is read once. Ready libraries were refused because they reject lone
 * surrogates, round big integers, or are not packaged (design.md, "JSON, patterns, Unicode").
 *
 * Threads: no shared state; one scanner is for one thread at a time.
 */
#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json_number.h"
#include "base/utf8.h"

/* ------------------------------------------------------------------------------- errors */

bool wgi_slice_is(wgi_slice slice, const char *text)
{
    return strlen(text) == slice.count && memcmp(slice.data, text, slice.count) == 0;
}

/* Keeps the first error with its place: line and column, or the byte when there is one line. */
__attribute__((format(printf, 4, 5))) static bool fail(wgi_json *json, const char *at,
                                                       wg_status status, const char *format, ...)
{
    size_t line = 1, room = sizeof(json->message);
    const char *line_begin = json->begin;
    va_list arguments;
    int written;

    if (json->failed) return false;
    for (const char *p = json->begin; p < at; p++) {
        if (*p != '\n') continue;
        line++;
        line_begin = p + 1;
    }
    json->failed = true;
    json->status = status;
    json->error_offset = (size_t)(at - json->begin);
    if (line > 1) {
        written = snprintf(json->message, room, "line %zu, column %zu: ", line,
                           (size_t)(at - line_begin) + 1);
    } else {
        written = snprintf(json->message, room, "byte %zu: ", json->error_offset);
    }
    if (written < 0 || (size_t)written >= room) written = 0;
    va_start(arguments, format);
    (void)vsnprintf(json->message + written, room - (size_t)written, format, arguments);
    va_end(arguments);
    return false;
}

/* Describes the byte at json->at for a message. */
static const char *found(const wgi_json *json, char out[16])
{
    if (json->at == json->end) return "the end of the text";
    unsigned char byte = (unsigned char)*json->at;
    if (byte > 0x20 && byte < 0x7F) {
        (void)snprintf(out, 16, "'%c'", byte);
    } else {
        (void)snprintf(out, 16, "byte 0x%02X", byte);
    }
    return out;
}

static bool fail_expected(wgi_json *json, const char *what)
{
    char byte[16];

    return fail(json, json->at, WG_ERR_FORMAT, "expected %s, found %s", what, found(json, byte));
}

wg_status wgi_json_status(const wgi_json *json, wg_error *err)
{
    if (!json->failed) return WG_OK;
    return wgi_fail(err, json->status, "%s", json->message);
}

/* ------------------------------------------------------------------------------- scanning */

void wgi_json_init(wgi_json *json, const char *bytes, size_t count)
{
    memset(json, 0, sizeof(*json));
    if (!bytes) bytes = "";
    json->begin = json->at = bytes;
    json->end = bytes + count;
    json->value_due = true;
}

void wgi_json_fini(wgi_json *json)
{
    wgi_buf_fini(&json->key);
}

static void skip_white(wgi_json *json)
{
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\n' || *json->at == '\r' || *json->at == '\t'))
        json->at++;
}

/* Does `c` stand next? Takes it when it does. */
static bool take(wgi_json *json, char c)
{
    if (json->at == json->end || *json->at != c) return false;
    json->at++;
    return true;
}

static bool in_object(const wgi_json *json)
{
    int level = json->depth - 1;

    return level >= 0 && (json->stack[level / 8] >> (level % 8) & 1);
}

static bool push(wgi_json *json, bool is_object)
{
    if (json->depth == WGI_JSON_DEPTH_MAX)
        return fail(json, json->at, WG_ERR_FORMAT, "nested deeper than %d levels",
                    WGI_JSON_DEPTH_MAX);
    uint8_t *byte = &json->stack[json->depth / 8];
    uint8_t bit = (uint8_t)(1u << (json->depth % 8));
    *byte = (uint8_t)(is_object ? *byte | bit : *byte & ~bit);
    json->depth++;
    json->has_item = false;
    json->value_due = false;
    return true;
}

/* The container that ends was an item of the one around it. */
static void pop(wgi_json *json)
{
    json->depth--;
    json->has_item = true;
    json->value_due = false;
}

/* First byte in [at, end) that ends a plain run of a string: quote, backslash, control; or end. */
static const char *plain_end(const char *at, const char *end)
{
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;

    while (end - at >= 8) {
        uint64_t eight;
        memcpy(&eight, at, 8);
        /* (x - ones) & ~x has a high bit set just when some byte of x is zero. */
        uint64_t quote = eight ^ (ones * '"'), backslash = eight ^ (ones * '\\');
        uint64_t hit = ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) |
                       ((eight - ones * 0x20) & ~eight);
        if (hit & highs) break;
        at += 8;
    }
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20)
        at++;
    return at;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Crosses one escape; json->at stands on its backslash. */
static bool scan_escape(wgi_json *json, const char *string_begin)
{
    const char *at = json->at + 1;

    if (at < json->end && *at == 'u') {
        for (int i = 0; i < 4 && ++at < json->end; i++) {
            if (hex_digit(*at) < 0)
                return fail(json, json->at, WG_ERR_FORMAT, "\\u without four hexadecimal digits");
        }
    } else if (at < json->end && (*at == 0 || !strchr("\"\\/bfnrt", *at))) {
        return fail(json, json->at, WG_ERR_FORMAT, "unknown escape in a string");
    }
    if (at >= json->end)
        return fail(json, string_begin, WG_ERR_FORMAT,
                    "the text ends inside the string that begins here");
    json->at = at + 1;
    return true;
}

/* Crosses a string; *content is what stands between the quotes. */
static bool scan_string(wgi_json *json, wgi_slice *content, bool *has_escape)
{
    const char *begin = json->at;

    *has_escape = false;
    if (!take(json, '"')) return fail_expected(json, "a string");
    for (;;) {
        json->at = plain_end(json->at, json->end);
        if (json->at == json->end)
            return fail(json, begin, WG_ERR_FORMAT,
                        "the text ends inside the string that begins here");
        if (*json->at == '"') break;
        if (*json->at != '\\')
            return fail(json, json->at, WG_ERR_FORMAT, "control byte 0x%02X in a string",
                        (unsigned)(unsigned char)*json->at);
        if (!scan_escape(json, begin)) return false;
        *has_escape = true;
    }
    *content = (wgi_slice){begin + 1, (size_t)(json->at - begin - 1)};
    json->at++;
    return true;
}

/* A number or a word must not run on into another one: 01, 1.2.3, NaN.1, nullx. */
static bool scan_boundary(wgi_json *json, const char *begin)
{
    if (json->at < json->end) {
        char c = *json->at;
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            c == '.' || c == '+' || c == '-' || c == '_') {
            size_t shown = (size_t)(json->at - begin) + 1;
            return fail(json, begin, WG_ERR_FORMAT, "malformed value '%.*s...'",
                        (int)(shown > 40 ? 40 : shown), begin);
        }
    }
    return true;
}

static bool scan_word(wgi_json *json, const char *word)
{
    const char *begin = json->at;
    size_t count = strlen(word);

    if ((size_t)(json->end - json->at) < count || memcmp(json->at, word, count) != 0)
        return fail_expected(json, "a value");
    json->at += count;
    return scan_boundary(json, begin);
}

static bool scan_digits(wgi_json *json)
{
    if (json->at == json->end || *json->at < '0' || *json->at > '9')
        return fail_expected(json, "a digit");
    while (json->at < json->end && *json->at >= '0' && *json->at <= '9')
        json->at++;
    return true;
}

/* The digits of a number behind its sign, with fraction and exponent. */
static bool scan_magnitude(wgi_json *json)
{
    if (!take(json, '0') && !scan_digits(json)) return false;
    if (take(json, '.') && !scan_digits(json)) return false;
    if (!take(json, 'e') && !take(json, 'E')) return true;
    if (!take(json, '-')) (void)take(json, '+');
    return scan_digits(json);
}

/* A number of RFC 8259, or one of Python's three words (is_word). */
static bool scan_number(wgi_json *json, wgi_slice *text, bool *is_word)
{
    const char *begin = json->at;

    (void)take(json, '-');
    *is_word = json->at < json->end && (*json->at == 'I' || (*json->at == 'N' && *begin == 'N'));
    if (*is_word) {
        if (!scan_word(json, *json->at == 'N' ? "NaN" : "Infinity")) return false;
    } else if (!scan_magnitude(json) || !scan_boundary(json, begin)) {
        return false;
    }
    *text = (wgi_slice){begin, (size_t)(json->at - begin)};
    return true;
}

wgi_json_kind wgi_json_peek(wgi_json *json)
{
    if (json->failed) return WGI_JSON_NONE;
    skip_white(json);
    if (json->at == json->end) return WGI_JSON_NONE;
    switch (*json->at) {
    case '{':
        return WGI_JSON_OBJECT;
    case '[':
        return WGI_JSON_ARRAY;
    case '"':
        return WGI_JSON_STRING;
    case 't':
        return WGI_JSON_TRUE;
    case 'f':
        return WGI_JSON_FALSE;
    case 'n':
        return WGI_JSON_NULL;
    case '-':
    case 'N':
    case 'I':
        return WGI_JSON_NUMBER;
    default:
        return *json->at >= '0' && *json->at <= '9' ? WGI_JSON_NUMBER : WGI_JSON_NONE;
    }
}

/* A value is about to be taken; false when none is due. */
static bool value_begin(wgi_json *json)
{
    if (json->failed) return false;
    skip_white(json);
    if (!json->value_due) return fail(json, json->at, WG_ERR_FORMAT, "no value is due here");
    return true;
}

static const char *const kind_names[] = {
    [WGI_JSON_NONE] = "no value",   [WGI_JSON_OBJECT] = "an object", [WGI_JSON_ARRAY] = "an array",
    [WGI_JSON_STRING] = "a string", [WGI_JSON_NUMBER] = "a number",  [WGI_JSON_TRUE] = "true",
    [WGI_JSON_FALSE] = "false",     [WGI_JSON_NULL] = "null"};

/* The same, and the value must be of this kind. */
static bool value_begin_as(wgi_json *json, wgi_json_kind kind)
{
    if (!value_begin(json)) return false;
    wgi_json_kind got = wgi_json_peek(json);
    if (got == kind) return true;
    if (got == WGI_JSON_NONE) return fail_expected(json, kind_names[kind]);
    return fail(json, json->at, WG_ERR_FORMAT, "expected %s, found %s", kind_names[kind],
                kind_names[got]);
}

/* --------------------------------------------------------------------------- containers */

wg_status wgi_json_object_begin(wgi_json *json, wg_error *err)
{
    if (value_begin_as(json, WGI_JSON_OBJECT) && push(json, true)) json->at++;
    return wgi_json_status(json, err);
}

wg_status wgi_json_array_begin(wgi_json *json, wg_error *err)
{
    if (value_begin_as(json, WGI_JSON_ARRAY) && push(json, false)) json->at++;
    return wgi_json_status(json, err);
}

/*
 * Moves to the next item of the innermost container. False at its end (taken, and the level is
 * left) or on failure.
 */
static bool item_next(wgi_json *json)
{
    bool is_object = in_object(json);

    skip_white(json);
    if (take(json, is_object ? '}' : ']')) {
        pop(json);
        return false;
    }
    if (json->has_item) {
        if (!take(json, ',')) return fail_expected(json, is_object ? "',' or '}'" : "',' or ']'");
        skip_white(json);
    }
    json->has_item = true;
    json->value_due = true;
    return true;
}

/* Crosses a key and its colon. */
static bool scan_key(wgi_json *json, wgi_slice *key, bool *has_escape)
{
    if (json->at == json->end || *json->at != '"') return fail_expected(json, "a key in quotes");
    if (!scan_string(json, key, has_escape)) return false;
    skip_white(json);
    if (!take(json, ':')) return fail_expected(json, "':'");
    return true;
}

/* Can the next item of this kind of container be asked for? */
static bool next_is_allowed(wgi_json *json, bool is_object)
{
    if (json->failed) return false;
    if (json->depth == 0 || in_object(json) != is_object || json->value_due)
        return fail(json, json->at, WG_ERR_ARGUMENT, "%s was asked for where none can be",
                    is_object ? "a key" : "an array item");
    return true;
}

bool wgi_json_array_next(wgi_json *json)
{
    return next_is_allowed(json, false) && item_next(json);
}

/* ------------------------------------------------------------------------------ strings */

/* Four hexadecimal digits that scan_escape has checked. */
static uint32_t escape_unit(const char *digits)
{
    uint32_t unit = 0;

    for (int i = 0; i < 4; i++)
        unit = unit << 4 | (uint32_t)hex_digit(digits[i]);
    return unit;
}

/*
 * Decodes the escape at text[at] (a backslash): a pair of surrogates gives one code point, a half
 * without its partner U+FFFD. Returns how many bytes it took.
 */
static size_t decode_escape(wgi_json *json, wgi_slice text, size_t at, uint32_t *code_point)
{
    static const char letters[] = "bfnrt", values[] = "\b\f\n\r\t";
    char letter = text.data[at + 1];

    if (letter != 'u') {
        const char *known = strchr(letters, letter);
        *code_point = (uint32_t)(unsigned char)(known ? values[known - letters] : letter);
        return 2;
    }
    uint32_t unit = escape_unit(text.data + at + 2);
    *code_point = unit;
    if (unit < 0xD800 || unit > 0xDFFF) return 6;
    if (unit < 0xDC00 && text.count - at >= 12 && text.data[at + 6] == '\\' &&
        text.data[at + 7] == 'u') {
        uint32_t low = escape_unit(text.data + at + 8);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            *code_point = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
            return 12;
        }
    }
    json->repaired++;
    *code_point = WGI_UTF8_REPLACEMENT;
    return 6;
}

/* Appends the decoded content of a string that was scanned. */
static wg_status decode(wgi_json *json, wgi_slice text, bool has_escape, wgi_buf *out)
{
    wg_status status = WG_OK;
    uint64_t bad = 0;
    size_t at = 0;

    WGI_TRY(wgi_buf_reserve(out, text.count, NULL));
    while (at < text.count) {
        const char *run = text.data + at;
        const char *stop = has_escape ? memchr(run, '\\', text.count - at) : NULL;
        size_t plain = stop ? (size_t)(stop - run) : text.count - at;
        char bytes[4];
        uint32_t code_point;

        if (plain) WGI_TRY(wgi_utf8_repair(out, run, plain, &bad, NULL));
        json->repaired += bad;
        bad = 0;
        at += plain;
        if (!stop) break;
        at += decode_escape(json, text, at, &code_point);
        WGI_TRY(wgi_buf_append(out, bytes, wgi_utf8_put(code_point, bytes), NULL));
    }

cleanup:
    return status;
}

bool wgi_json_object_next(wgi_json *json, wgi_slice *key)
{
    bool has_escape = false;

    *key = (wgi_slice){"", 0};
    if (!next_is_allowed(json, true) || !item_next(json)) return false;
    if (!scan_key(json, key, &has_escape)) return false;
    if (has_escape || wgi_utf8_check(key->data, key->count) < key->count) {
        json->key.count = 0;
        if (decode(json, *key, has_escape, &json->key) != WG_OK)
            return fail(json, json->at, WG_ERR_NO_MEMORY, "no memory for a key of %zu bytes",
                        key->count);
        *key = (wgi_slice){json->key.data, json->key.count};
    }
    return true;
}

wg_status wgi_json_string(wgi_json *json, wgi_buf *out, wg_error *err)
{
    wgi_slice content;
    bool has_escape;

    if (value_begin_as(json, WGI_JSON_STRING) && scan_string(json, &content, &has_escape)) {
        json->value_due = false;
        if (decode(json, content, has_escape, out) != WG_OK)
            (void)fail(json, content.data, WG_ERR_NO_MEMORY, "no memory for a string of %zu bytes",
                       content.count);
    }
    return wgi_json_status(json, err);
}

/* ------------------------------------------------------------------------ other values */

/* An integer's sign and magnitude; false (and failed) for anything else. */
static bool take_integer(wgi_json *json, const char *what, bool *is_negative, uint64_t *magnitude)
{
    wgi_slice text;
    bool is_word;
    size_t i = 0;

    if (!value_begin_as(json, WGI_JSON_NUMBER) || !scan_number(json, &text, &is_word)) return false;
    *is_negative = text.data[0] == '-';
    *magnitude = 0;
    for (i = *is_negative; i < text.count; i++) {
        char c = text.data[i];
        if (c < '0' || c > '9') break;
        if (__builtin_mul_overflow(*magnitude, (uint64_t)10, magnitude) ||
            __builtin_add_overflow(*magnitude, (uint64_t)(c - '0'), magnitude))
            return fail(json, text.data, WG_ERR_FORMAT, "the integer %.*s... is out of range",
                        (int)(text.count > 30 ? 30 : text.count), text.data);
    }
    if (i < text.count)
        return fail(json, text.data, WG_ERR_FORMAT, "expected %s, found %.*s", what,
                    (int)(text.count > 40 ? 40 : text.count), text.data);
    json->value_due = false;
    return true;
}

wg_status wgi_json_int(wgi_json *json, int64_t *out, wg_error *err)
{
    const char *begin = json->at;
    bool is_negative;
    uint64_t magnitude;

    if (take_integer(json, "an integer", &is_negative, &magnitude)) {
        if (magnitude > (uint64_t)INT64_MAX + is_negative) {
            (void)fail(json, begin, WG_ERR_FORMAT, "the integer is out of range");
        } else {
            *out = is_negative && magnitude ? -(int64_t)(magnitude - 1) - 1 : (int64_t)magnitude;
        }
    }
    return wgi_json_status(json, err);
}

wg_status wgi_json_uint(wgi_json *json, uint64_t *out, wg_error *err)
{
    const char *begin = json->at;
    bool is_negative;
    uint64_t magnitude;

    if (take_integer(json, "an integer that is not negative", &is_negative, &magnitude)) {
        if (is_negative && magnitude) {
            (void)fail(json, begin, WG_ERR_FORMAT,
                       "expected an integer that is not negative, found -%llu",
                       (unsigned long long)magnitude);
        } else {
            *out = magnitude;
        }
    }
    return wgi_json_status(json, err);
}

wg_status wgi_json_double(wgi_json *json, double *out, wg_error *err)
{
    wgi_slice text;
    bool is_word;

    if (value_begin_as(json, WGI_JSON_NUMBER) && scan_number(json, &text, &is_word)) {
        json->value_due = false;
        if (is_word || !wgi_json_number_value(text, out))
            (void)fail(json, text.data, WG_ERR_FORMAT, "%.*s is not a finite number",
                       (int)(text.count > 40 ? 40 : text.count), text.data);
    }
    return wgi_json_status(json, err);
}

wg_status wgi_json_bool(wgi_json *json, bool *out, wg_error *err)
{
    if (value_begin(json)) {
        wgi_json_kind kind = wgi_json_peek(json);
        if (kind != WGI_JSON_TRUE && kind != WGI_JSON_FALSE) {
            char byte[16];
            (void)fail(json, json->at, WG_ERR_FORMAT, "expected true or false, found %s",
                       kind == WGI_JSON_NONE ? found(json, byte) : kind_names[kind]);
        } else if (scan_word(json, kind_names[kind])) {
            json->value_due = false;
            *out = kind == WGI_JSON_TRUE;
        }
    }
    return wgi_json_status(json, err);
}

wg_status wgi_json_null(wgi_json *json, wg_error *err)
{
    if (value_begin_as(json, WGI_JSON_NULL) && scan_word(json, "null")) json->value_due = false;
    return wgi_json_status(json, err);
}

/* ---------------------------------------------------------------------------- skipping */

/* Crosses a value that is not a container. */
static bool scan_scalar(wgi_json *json)
{
    wgi_slice text;
    bool flag;

    switch (wgi_json_peek(json)) {
    case WGI_JSON_STRING:
        return scan_string(json, &text, &flag);
    case WGI_JSON_NUMBER:
        return scan_number(json, &text, &flag);
    case WGI_JSON_TRUE:
        return scan_word(json, "true");
    case WGI_JSON_FALSE:
        return scan_word(json, "false");
    case WGI_JSON_NULL:
        return scan_word(json, "null");
    default:
        return fail_expected(json, "a value");
    }
}

wg_status wgi_json_skip(wgi_json *json, wg_error *err)
{
    int outside = json->depth;
    wgi_slice key;
    bool has_escape;

    if (!value_begin(json)) return wgi_json_status(json, err);
    do {
        if (json->value_due) {
            wgi_json_kind kind = wgi_json_peek(json);
            bool is_container = kind == WGI_JSON_OBJECT || kind == WGI_JSON_ARRAY;
            if (is_container ? !push(json, kind == WGI_JSON_OBJECT) : !scan_scalar(json)) break;
            if (is_container) json->at++;
            json->value_due = false;
        } else if (item_next(json)) {
            if (in_object(json) && !scan_key(json, &key, &has_escape)) break;
        }
    } while (!json->failed && (json->depth > outside || json->value_due));
    return wgi_json_status(json, err);
}

wg_status wgi_json_raw(wgi_json *json, wgi_slice *out, wg_error *err)
{
    skip_white(json);
    const char *begin = json->at;
    wg_status status = wgi_json_skip(json, err);
    if (status == WG_OK) *out = (wgi_slice){begin, (size_t)(json->at - begin)};
    return status;
}

wg_status wgi_json_finish(wgi_json *json, wg_error *err)
{
    if (!json->failed) {
        skip_white(json);
        if (json->depth > 0) {
            (void)fail(json, json->at, WG_ERR_ARGUMENT, "a container was not read to its end");
        } else if (json->value_due) {
            (void)fail_expected(json, "a value");
        } else if (json->at < json->end) {
            (void)fail(json, json->at, WG_ERR_FORMAT, "more text after the end of the value");
        }
    }
    return wgi_json_status(json, err);
}

/* ------------------------------------------------------------------------------ writing */

wg_status wgi_json_quote(wgi_buf *out, const char *text, size_t count, wg_error *err)
{
    static const char letters[] = "\"\\bfnrt", values[] = "\"\\\b\f\n\r\t";
    wg_status status = WG_OK;
    size_t at = 0;

    WGI_TRY(wgi_buf_append(out, "\"", 1, err));
    while (at < count) {
        size_t plain = (size_t)(plain_end(text + at, text + count) - (text + at));
        if (plain) WGI_TRY(wgi_utf8_repair(out, text + at, plain, NULL, err));
        at += plain;
        if (at == count) break;
        const char *known = text[at] ? strchr(values, text[at]) : NULL;
        if (known) {
            char escape[2] = {'\\', letters[known - values]};
            WGI_TRY(wgi_buf_append(out, escape, 2, err));
        } else {
            WGI_TRY(wgi_buf_printf(out, err, "\\u%04x", (unsigned)(unsigned char)text[at]));
        }
        at++;
    }
    WGI_TRY(wgi_buf_append(out, "\"", 1, err));

cleanup:
    return status;
}
