/*
 * test_json.c - the pull scanner: values, grammar, the rules for odd records that corpora hold,
 * error places, depth, and every out-of-memory path. LABELS: quick torture
 */
#include "base/json.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "harness.h"

static wg_error err;

/* The member `name` of a one-line record as a decoded string (last one wins), or the error. */
static wg_status read_member(const char *text, size_t count, const char *name, wgi_buf *out,
                             uint64_t *repaired)
{
    wg_status status = WG_OK;
    wgi_json json;
    wgi_slice key;

    wgi_json_init(&json, text, count);
    WGI_TRY(wgi_json_object_begin(&json, &err));
    while (wgi_json_object_next(&json, &key)) {
        if (wgi_slice_is(key, name)) {
            out->count = 0;
            WGI_TRY(wgi_json_string(&json, out, &err));
        } else {
            WGI_TRY(wgi_json_skip(&json, &err));
        }
    }
    WGI_TRY(wgi_json_finish(&json, &err));

cleanup:
    if (repaired) *repaired = json.repaired;
    wgi_json_fini(&json);
    return status;
}

static void expect_text(const char *record, const char *want, size_t want_count, uint64_t repairs)
{
    wgi_buf out = {0};
    uint64_t repaired = 0;

    EXPECT_OK(read_member(record, strlen(record), "text", &out, &repaired));
    EXPECT_EQ(out.count, want_count);
    EXPECT(out.count == want_count && memcmp(out.data, want, want_count) == 0);
    EXPECT_EQ(repaired, repairs);
    wgi_buf_fini(&out);
}
#define TEXT(record, want, repairs) expect_text(record, want, sizeof(want) - 1, repairs)

#define R "\xEF\xBF\xBD"

static void test_strings(void)
{
    TEXT("\t{\"text\":\"a\"}  \r", "a", 0);
    TEXT("{\"text\":\"\"}", "", 0);
    TEXT("{\"text\":\"a\\ud800b\"}", "a" R "b", 1);
    TEXT("{\"text\":\"smile \\ud83d\\ude00 ok\"}", "smile \xF0\x9F\x98\x80 ok", 0);
    TEXT("{\"text\":\"end\\ud83d\"}", "end" R, 1);
    TEXT("{\"text\":\"\\ude00\\ud83d\"}", R R, 2);
    TEXT("{\"text\":\"\\ude00\\ude00\"}", R R, 2);
    TEXT("{\"text\":\"\\ud83d\\ud83d\\ude00\"}", R "\xF0\x9F\x98\x80", 1);
    TEXT("{\"text\":\"\\ud83d\\u0041\"}", R "A", 1);
    TEXT("{\"text\":\"\\ud83d\\n\"}", R "\n", 1);
    TEXT("{\"text\":\"ab\\u0000cd\"}", "ab\0cd", 0);
    TEXT("{\"te\\u0078t\":\"key by escape\"}", "key by escape", 0);
    TEXT("{\"text\":\"first\",\"text\":\"last\"}", "last", 0);
    TEXT("{\"text\":\"ba\xFF"
         "d\"}",
         "ba" R "d", 1);
    TEXT("{\"k\xFF\":1,\"text\":\"after a bad key\"}", "after a bad key", 1);
    TEXT("{\"text\":\"cut \xE2\x82\\u00e9 \xE2\"}", "cut " R "\xC3\xA9 " R, 2);
    TEXT("{\"text\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00E9\\uffff\"}",
         "\"\\/\b\f\n\r\t\xC3\xA9\xEF\xBF\xBF", 0);
    TEXT("{\"score\":NaN,\"text\":\"a\"}", "a", 0);
    TEXT("{\"x\":-Infinity,\"y\":[Infinity , NaN],\"text\":\"b\"}", "b", 0);
    TEXT("{\"a\":{\"text\":\"not this\"},\"b\":[{\"text\":\"nor this\"}],\"text\":\"7f: \x7F\"}",
         "7f: \x7F", 0);
}

/* A record that must fail, with the word that its message holds; skipping agrees with reading. */
static void expect_bad(const char *text, const char *word)
{
    wgi_buf out = {0};
    wgi_json json;

    EXPECT_EQ(read_member(text, strlen(text), "text", &out, NULL), WG_ERR_FORMAT);
    EXPECT_IN(err.message, word);
    wgi_buf_fini(&out);

    wgi_json_init(&json, text, strlen(text));
    (void)wgi_json_skip(&json, NULL);
    EXPECT_EQ(wgi_json_finish(&json, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, word);
    wgi_json_fini(&json);
}

static void test_bad(void)
{
    expect_bad("", "expected");
    expect_bad("   ", "the end of the text");
    expect_bad("\xEF\xBB\xBF{}", "byte 0xEF");
    expect_bad("{\"text\":oops}", "found 'o'");
    expect_bad("{\"k\":NaN.1,\"text\":\"c\"}", "'NaN.");
    expect_bad("{\"k\":-NaN}", "'N'");
    expect_bad("{\"k\":Inf}", "expected a value");
    expect_bad("{\"k\":nulls}", "malformed");
    expect_bad("{\"k\":01}", "malformed");
    expect_bad("{\"k\":1.}", "digit");
    expect_bad("{\"k\":.5}", "expected a value");
    expect_bad("{\"k\":+1}", "expected a value");
    expect_bad("{\"k\":-}", "digit");
    expect_bad("{\"k\":1e}", "digit");
    expect_bad("{\"k\":1.2.3}", "malformed");
    expect_bad("{\"k\":0x10}", "malformed");
    expect_bad("{\"text\":\"a\"} {\"text\":\"b\"}", "more text after the end");
    expect_bad("{\"text\":\"torn in the mid", "ends inside the string");
    expect_bad("{\"text\":\"torn \\", "ends inside the string");
    expect_bad("{\"text\":\"torn \\u12", "ends inside the string");
    expect_bad("{\"text\"", "':'");
    expect_bad("{\"text\":", "expected a");
    expect_bad("{\"text\":\"a\"", "',' or '}'");
    expect_bad("{\"text\":\"a\",}", "key in quotes");
    expect_bad("{,}", "key in quotes");
    expect_bad("{text:1}", "key in quotes");
    expect_bad("{\"k\":[1,]}", "expected a value");
    expect_bad("{\"k\":[1 2]}", "',' or ']'");
    expect_bad("{\"k\":[1}", "',' or ']'");
    expect_bad("{\"k\":[}", "expected a value");
    expect_bad("{\"k\":\"\\x41\"}", "unknown escape");
    expect_bad("{\"k\":\"\\u12G4\"}", "hexadecimal");
    expect_bad("{\"k\":\"a\tb\"}", "control byte 0x09");
    expect_bad("{\"k\":\"line\nbreak\"}", "control byte 0x0A");
}

static void test_embedded_nul(void)
{
    static const char raw[] = "{\"k\":\"a\0b\"}", escape[] = "{\"k\":\"\\\0\"}", outside[] = "{}\0";
    wgi_buf out = {0};

    EXPECT_EQ(read_member(raw, sizeof(raw) - 1, "k", &out, NULL), WG_ERR_FORMAT);
    EXPECT_EQ(read_member(escape, sizeof(escape) - 1, "k", &out, NULL), WG_ERR_FORMAT);
    EXPECT_EQ(read_member(outside, sizeof(outside) - 1, "k", &out, NULL), WG_ERR_FORMAT);
    wgi_buf_fini(&out);
}

/* Errors say where: the byte in a one-line text, else line and column. */
static void test_places(void)
{
    wgi_buf out = {0};
    static const char lines[] = "{\n \"a\": 1,\n  \"b\" 2\n}";

    EXPECT_EQ(read_member("{\"a\":1 2}", 9, "text", &out, NULL), WG_ERR_FORMAT);
    EXPECT_TEXT(err.message, "byte 7: expected ',' or '}', found '2'");
    EXPECT_EQ(read_member(lines, sizeof(lines) - 1, "text", &out, NULL), WG_ERR_FORMAT);
    EXPECT_TEXT(err.message, "line 3, column 7: expected ':', found '2'");
    wgi_buf_fini(&out);
}

static void expect_raw(const char *text, const char *want)
{
    wgi_json json;
    wgi_slice raw = {0};

    wgi_json_init(&json, text, strlen(text));
    EXPECT_OK(wgi_json_raw(&json, &raw, &err));
    EXPECT_OK(wgi_json_finish(&json, &err));
    EXPECT(wgi_slice_is(raw, want));
    wgi_json_fini(&json);
}

static void test_raw(void)
{
    expect_raw(" 9007199254740993 ", "9007199254740993");
    expect_raw("18446744073709551617", "18446744073709551617");
    expect_raw("1.10", "1.10");
    expect_raw("1e999", "1e999");
    expect_raw("-0\n", "-0");
    expect_raw("NaN", "NaN");
    expect_raw("\"q\\\"uo\\nte\\u0000\"", "\"q\\\"uo\\nte\\u0000\"");
    expect_raw(" {\"k\":[1, {}]} ", "{\"k\":[1, {}]}");
}

static wg_status read_int(const char *text, int64_t *out)
{
    wgi_json json;

    wgi_json_init(&json, text, strlen(text));
    wg_status status = wgi_json_int(&json, out, &err);
    if (status == WG_OK) status = wgi_json_finish(&json, &err);
    wgi_json_fini(&json);
    return status;
}

static wg_status read_uint(const char *text, uint64_t *out)
{
    wgi_json json;

    wgi_json_init(&json, text, strlen(text));
    wg_status status = wgi_json_uint(&json, out, &err);
    if (status == WG_OK) status = wgi_json_finish(&json, &err);
    wgi_json_fini(&json);
    return status;
}

static void test_integers(void)
{
    int64_t value = 7;
    uint64_t unsigned_value = 7;

    EXPECT_OK(read_int("-9223372036854775808", &value));
    EXPECT(value == INT64_MIN);
    EXPECT_OK(read_int("9223372036854775807", &value));
    EXPECT(value == INT64_MAX);
    EXPECT_OK(read_int("-0", &value));
    EXPECT_EQ(value, 0);
    EXPECT_OK(read_int("-42", &value));
    EXPECT_EQ(value, -42);
    EXPECT_EQ(read_int("9223372036854775808", &value), WG_ERR_FORMAT);
    EXPECT_EQ(read_int("-9223372036854775809", &value), WG_ERR_FORMAT);
    EXPECT_EQ(read_int("18446744073709551616", &value), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "out of range");
    EXPECT_EQ(read_int("3.0", &value), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "expected an integer, found 3.0");
    EXPECT_EQ(read_int("1e2", &value), WG_ERR_FORMAT);
    EXPECT_EQ(read_int("\"3\"", &value), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "expected a number, found a string");
    EXPECT_EQ(read_int("NaN", &value), WG_ERR_FORMAT);
    EXPECT_EQ(value, -42);
    EXPECT_OK(read_uint("18446744073709551615", &unsigned_value));
    EXPECT(unsigned_value == UINT64_MAX);
    EXPECT_EQ(read_uint("18446744073709551616", &unsigned_value), WG_ERR_FORMAT);
    EXPECT_EQ(read_uint("-1", &unsigned_value), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "not negative");
    EXPECT_OK(read_uint("-0", &unsigned_value));
    EXPECT_EQ(unsigned_value, 0);
}

/* The kinds, in turn, through peek and their own calls. */
static void test_walk(void)
{
    static const char text[] =
        "{ \"o\" : {} , \"a\":[ ], \"s\":\"x\",\"n\":-1.5,\"t\":true,\"f\":false,\"z\":null}";
    static const wgi_json_kind kinds[] = {WGI_JSON_OBJECT, WGI_JSON_ARRAY, WGI_JSON_STRING,
                                          WGI_JSON_NUMBER, WGI_JSON_TRUE,  WGI_JSON_FALSE,
                                          WGI_JSON_NULL};
    wgi_json json;
    wgi_slice key;
    wgi_buf out = {0};
    double number = 0;
    bool flag = false, last = true;
    size_t i = 0;

    wgi_json_init(&json, text, sizeof(text) - 1);
    EXPECT_OK(wgi_json_object_begin(&json, &err));
    while (wgi_json_object_next(&json, &key)) {
        EXPECT_EQ(key.count, 1);
        EXPECT_EQ(key.data[0], "oasntfz"[i]);
        EXPECT_EQ(wgi_json_peek(&json), kinds[i]);
        if (i == 0) {
            EXPECT_OK(wgi_json_object_begin(&json, &err));
            EXPECT(!wgi_json_object_next(&json, &key));
        } else if (i == 1) {
            EXPECT_OK(wgi_json_array_begin(&json, &err));
            EXPECT(!wgi_json_array_next(&json));
        } else if (i == 2) {
            EXPECT_OK(wgi_json_string(&json, &out, &err));
        } else if (i == 3) {
            EXPECT_OK(wgi_json_double(&json, &number, &err));
        } else if (i == 6) {
            EXPECT_OK(wgi_json_null(&json, &err));
        } else {
            EXPECT_OK(wgi_json_bool(&json, i == 4 ? &flag : &last, &err));
        }
        i++;
    }
    EXPECT_OK(wgi_json_finish(&json, &err));
    EXPECT_EQ(wgi_json_peek(&json), WGI_JSON_NONE);
    EXPECT_EQ(i, 7);
    EXPECT_TEXT(out.data, "x");
    EXPECT(number == -1.5 && flag && !last);
    wgi_buf_fini(&out);
    wgi_json_fini(&json);
}

/* The first error sticks, and a caller that takes two values or none is told. */
static void test_sticky_and_misuse(void)
{
    wgi_json json;
    wgi_slice key;
    bool flag;
    int64_t value;

    wgi_json_init(&json, "[1, 2]", 6);
    EXPECT_EQ(wgi_json_object_begin(&json, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "expected an object, found an array");
    EXPECT_EQ(wgi_json_array_begin(&json, &err), WG_ERR_FORMAT);
    EXPECT(!wgi_json_array_next(&json));
    EXPECT(!wgi_json_object_next(&json, &key));
    EXPECT_EQ(wgi_json_skip(&json, &err), WG_ERR_FORMAT);
    EXPECT_EQ(wgi_json_finish(&json, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "expected an object, found an array");
    wgi_json_fini(&json);

    wgi_json_init(&json, "[1, 2]", 6);
    EXPECT_OK(wgi_json_array_begin(&json, &err));
    EXPECT(wgi_json_array_next(&json));
    EXPECT(!wgi_json_array_next(&json));
    EXPECT_EQ(wgi_json_status(&json, &err), WG_ERR_ARGUMENT);
    wgi_json_fini(&json);

    wgi_json_init(&json, "[1 2]", 5);
    EXPECT_OK(wgi_json_array_begin(&json, &err));
    EXPECT(wgi_json_array_next(&json));
    EXPECT_OK(wgi_json_int(&json, &value, &err));
    EXPECT_EQ(wgi_json_int(&json, &value, &err), WG_ERR_FORMAT);
    wgi_json_fini(&json);

    wgi_json_init(&json, "true true", 9);
    EXPECT_OK(wgi_json_bool(&json, &flag, &err));
    EXPECT_EQ(wgi_json_bool(&json, &flag, &err), WG_ERR_FORMAT);
    wgi_json_fini(&json);

    wgi_json_init(&json, "[]", 2);
    EXPECT_OK(wgi_json_array_begin(&json, &err));
    EXPECT_EQ(wgi_json_finish(&json, &err), WG_ERR_ARGUMENT);
    wgi_json_fini(&json);

    wgi_json_init(&json, NULL, 0);
    EXPECT_EQ(wgi_json_peek(&json), WGI_JSON_NONE);
    EXPECT_OK(wgi_json_status(&json, &err));
    EXPECT_EQ(wgi_json_finish(&json, &err), WG_ERR_FORMAT);
    wgi_json_fini(&json);
}

static void test_depth(void)
{
    enum { MANY = 20000 };
    char *text = wgi_malloc(2 * MANY);
    wgi_json json;

    memset(text, '[', MANY);
    memset(text + MANY, ']', MANY);
    wgi_json_init(&json, text, 2 * MANY);
    EXPECT_EQ(wgi_json_skip(&json, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "deeper than 512");
    EXPECT_EQ(json.error_offset, WGI_JSON_DEPTH_MAX);
    wgi_json_fini(&json);

    wgi_json_init(&json, text + MANY - WGI_JSON_DEPTH_MAX, 2 * WGI_JSON_DEPTH_MAX);
    EXPECT_OK(wgi_json_skip(&json, &err));
    EXPECT_OK(wgi_json_finish(&json, &err));
    wgi_json_fini(&json);

    /* Objects and arrays in turn: each level knows its own kind on the way out. */
    wgi_buf nest = {0};
    for (int i = 0; i < 200; i++)
        EXPECT_OK(wgi_buf_text(&nest, "{\"k\":[0,", &err));
    EXPECT_OK(wgi_buf_text(&nest, "null", &err));
    for (int i = 0; i < 200; i++)
        EXPECT_OK(wgi_buf_text(&nest, "],\"j\":1}", &err));
    wgi_json_init(&json, nest.data, nest.count);
    EXPECT_OK(wgi_json_skip(&json, &err));
    EXPECT_OK(wgi_json_finish(&json, &err));
    wgi_json_fini(&json);
    wgi_buf_fini(&nest);
    wgi_free(text);
}

/* A quote, an escape or a bad byte is seen at every place of a word of eight. */
static void test_every_alignment(void)
{
    char text[64];

    for (size_t pad = 0; pad < 20; pad++) {
        static const char *const specials[] = {"\\n", "\xFF", "\xC3\xA9", "\\\"", ""};
        static const char *const plain[] = {"\n", R, "\xC3\xA9", "\"", ""};
        for (size_t i = 0; i < 5; i++) {
            char want[64];
            wgi_buf out = {0};
            (void)snprintf(text, sizeof(text), "{\"k\":\"%.*s%sz\"}", (int)pad,
                           "aaaaaaaaaaaaaaaaaaaaaaaa", specials[i]);
            (void)snprintf(want, sizeof(want), "%.*s%sz", (int)pad, "aaaaaaaaaaaaaaaaaaaaaaaa",
                           plain[i]);
            EXPECT_OK(read_member(text, strlen(text), "k", &out, NULL));
            EXPECT_TEXT(out.data, want);
            wgi_buf_fini(&out);
        }
        (void)snprintf(text, sizeof(text), "{\"k\":\"%.*s\x1F\"}", (int)pad,
                       "aaaaaaaaaaaaaaaaaaaaaaaa");
        expect_bad(text, "control byte 0x1F");
    }
}

static void expect_quoted(const char *text, size_t count, const char *want)
{
    wgi_buf out = {0};

    EXPECT_OK(wgi_json_quote(&out, text, count, &err));
    EXPECT_TEXT(out.data, want);
    wgi_buf_fini(&out);
}

static void test_quote(void)
{
    expect_quoted("", 0, "\"\"");
    expect_quoted(NULL, 0, "\"\"");
    expect_quoted("plain, longer than eight bytes", 30, "\"plain, longer than eight bytes\"");
    expect_quoted("a\"b\\c/\b\f\n\r\t\x01\x1F\x7F", 14,
                  "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\\u001f\x7F\"");
    expect_quoted("a\0b", 3, "\"a\\u0000b\"");
    expect_quoted("\xC3\xA9\xFF\xF0\x9F\x98\x80", 7, "\"\xC3\xA9" R "\xF0\x9F\x98\x80\"");
    expect_quoted("\xE2\x82", 2, "\"" R "\"");
}

/* Random texts: decode(quote(text)) is the repaired text. */
static void test_round_trip(void)
{
    wgt_seed_set(4);
    for (int round = 0; round < 5000; round++) {
        char text[48];
        size_t count = wgt_below(sizeof(text) + 1);
        wgi_buf quoted = {0}, back = {0}, repaired = {0};
        wgi_json json;

        for (size_t i = 0; i < count; i++)
            text[i] = (char)(wgt_below(3) ? 'a' + (int)wgt_below(20) : (int)wgt_below(256));
        EXPECT_OK(wgi_json_quote(&quoted, text, count, &err));
        EXPECT_OK(wgi_utf8_repair(&repaired, text, count, NULL, &err));
        wgi_json_init(&json, quoted.data, quoted.count);
        EXPECT_OK(wgi_json_string(&json, &back, &err));
        EXPECT_OK(wgi_json_finish(&json, &err));
        EXPECT_EQ(json.repaired, 0);
        EXPECT(back.count == repaired.count &&
               (back.count == 0 || memcmp(back.data, repaired.data, back.count) == 0));
        wgi_json_fini(&json);
        wgi_buf_fini(&quoted);
        wgi_buf_fini(&back);
        wgi_buf_fini(&repaired);
    }
}

static void test_no_memory(void)
{
    static const char text[] =
        "{\"\\u006bey of more than sixteen bytes\":0,\"text\":\"\\u0041 text\"}";

    for (long nth = 1;; nth++) {
        wgi_buf out = {0};
        wgi_alloc_fail_at(nth);
        wg_status status = read_member(text, sizeof(text) - 1, "text", &out, NULL);
        wgi_alloc_fail_at(0);
        if (status == WG_OK) EXPECT_TEXT(out.data, "A text");
        wgi_buf_fini(&out);
        if (status == WG_OK) {
            EXPECT(nth > 2);
            return;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
        EXPECT_IN(err.message, "no memory");
    }
}

int main(void)
{
    test_strings();
    test_bad();
    test_embedded_nul();
    test_places();
    test_raw();
    test_integers();
    test_walk();
    test_sticky_and_misuse();
    test_depth();
    test_every_alignment();
    test_quote();
    test_round_trip();
    test_no_memory();
    return wgt_result();
}
