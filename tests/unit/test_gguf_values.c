/*
 * test_gguf_values.c - a value of every type through every getter, arrays, and what is refused.
 */
#include "model/gguf.h"

#include <math.h>

#include "harness.h"

#include "gguf_maker.h"

/* One key of each kind: key "k0" is an u8, "k1" an i8, ... */
static void make_kinds(wgi_buf *file, uint64_t version)
{
    static const struct {
        uint64_t kind, value, bytes;
    } rows[] = {
        {WGI_GGUF_U8, 0xFF, 1},        {WGI_GGUF_I8, 0xFF, 1},      {WGI_GGUF_U16, 0xFFFE, 2},
        {WGI_GGUF_I16, 0x8000, 2},     {WGI_GGUF_U32, 1u << 31, 4}, {WGI_GGUF_I32, 1u << 31, 4},
        {WGI_GGUF_F32, 0x3FC00000, 4},
    };

    wgt_gguf_begin(file, version, 0, 13);
    for (size_t i = 0; i < 7; i++) {
        char key[8];
        (void)snprintf(key, sizeof(key), "k%zu", i);
        wgt_gguf_key(file, key, rows[i].kind);
        wgt_gguf_number(file, rows[i].value, (size_t)rows[i].bytes);
    }
    wgt_gguf_key(file, "k7", WGI_GGUF_BOOL);
    wgt_gguf_number(file, 1, 1);
    wgt_gguf_text(file, "k8", "text");
    wgt_gguf_array(file, "k9", WGI_GGUF_U8, 0);
    wgt_gguf_key(file, "k10", WGI_GGUF_U64);
    wgt_gguf_number(file, UINT64_MAX, 8);
    wgt_gguf_key(file, "k11", WGI_GGUF_I64);
    wgt_gguf_number(file, (uint64_t)INT64_MIN, 8);
    wgt_gguf_key(file, "k12", WGI_GGUF_F64);
    wgt_gguf_number(file, 0xC004000000000000u, 8);
}

static void test_kinds(uint64_t version)
{
    static const int64_t wanted[13] = {255, -1, 65534, -32768, 2147483648, INT32_MIN, 0,
                                       0,   0,  0,     0,      INT64_MIN,  0};
    static const char *const found[13] = {
        "an integer", "an integer", "an integer", "an integer", "an integer",
        "an integer", "a float",    "a bool",     "a string",   "an array of integers",
        "an integer", "an integer", "a float"};
    wgi_gguf *gguf = NULL;
    wgi_buf file = {0};
    wgi_map map;
    wg_error err;

    make_kinds(&file, version);
    EXPECT_OK(wgt_gguf_read(&gguf, &map, &file, &err));
    EXPECT_EQ(gguf ? wgi_gguf_key_count(gguf) : 0, 13);
    for (size_t i = 0; gguf && i < 13; i++) {
        wgi_gguf_kind kind;
        char key[8], message[64];
        uint64_t positive = 0;
        int64_t value = 0;
        double real = 0;
        bool truth = false;
        wgi_slice text;

        (void)snprintf(key, sizeof(key), "k%zu", i);
        EXPECT(wgi_slice_is(wgi_gguf_key_at(gguf, i, &kind), key));
        EXPECT_EQ(kind, i);
        bool is_integer = i < 6 || i == 10 || i == 11;
        wg_status status = wgi_gguf_int(gguf, key, &value, &err);
        EXPECT_EQ(status, is_integer && i != 10 ? WG_OK : WG_ERR_FORMAT);
        if (status == WG_OK) EXPECT_EQ(value, wanted[i]);
        if (!is_integer) {
            (void)snprintf(message, sizeof(message), "key %s: expected an integer, found %s", key,
                           found[i]);
            EXPECT_IN(err.message, message);
        }
        status = wgi_gguf_uint(gguf, key, &positive, &err);
        EXPECT_EQ(status, is_integer && wanted[i] >= 0 ? WG_OK : WG_ERR_FORMAT);
        if (is_integer && wanted[i] < 0) EXPECT_IN(err.message, "expected an integer from 0 on");
        status = wgi_gguf_float(gguf, key, &real, &err);
        EXPECT_EQ(status, i == 6 || i == 12 ? WG_OK : WG_ERR_FORMAT);
        if (status == WG_OK) EXPECT(real == (i == 6 ? 1.5 : -2.5));
        status = wgi_gguf_bool(gguf, key, &truth, &err);
        EXPECT_EQ(status, i == 7 ? WG_OK : WG_ERR_FORMAT);
        EXPECT_EQ(truth, i == 7);
        status = wgi_gguf_string(gguf, key, &text, &err);
        EXPECT_EQ(status, i == 8 ? WG_OK : WG_ERR_FORMAT);
        if (status == WG_OK) EXPECT(wgi_slice_is(text, "text"));
    }
    if (gguf) {
        uint64_t big = 0;
        int64_t small = 0;
        EXPECT_OK(wgi_gguf_uint(gguf, "k10", &big, &err));
        EXPECT(big == UINT64_MAX);
        EXPECT_EQ(wgi_gguf_int(gguf, "k10", &small, &err), WG_ERR_FORMAT);
        EXPECT_IN(err.message, "made.gguf: key k10: 18446744073709551615 does not fit");
        EXPECT_EQ(wgi_gguf_uint(gguf, "k", &big, &err), WG_ERR_FORMAT);
        EXPECT_IN(err.message, "made.gguf: key k: is missing");
    }
    wgt_gguf_done(gguf, &map);
    wgi_buf_fini(&file);
}

static void test_arrays(void)
{
    static const char *const words[] = {"", "one", "\xFF\xFE", "four"};
    wgi_gguf_array array = {0};
    wgi_gguf *gguf = NULL;
    wgi_buf file = {0};
    wgi_slice text;
    wgi_map map;
    wg_error err;

    wgt_gguf_begin(&file, 3, 0, 6);
    wgt_gguf_array(&file, "strings", WGI_GGUF_STRING, 4);
    for (size_t i = 0; i < 4; i++)
        wgt_gguf_string(&file, words[i]);
    wgt_gguf_array(&file, "i16", WGI_GGUF_I16, 3);
    for (uint64_t i = 0; i < 3; i++)
        wgt_gguf_number(&file, 0xFFFF + i, 2);
    wgt_gguf_array(&file, "f32", WGI_GGUF_F32, 2);
    wgt_gguf_number(&file, 0x3F800000, 4);
    wgt_gguf_number(&file, 0xC0000000, 4);
    wgt_gguf_array(&file, "bools", WGI_GGUF_BOOL, 2);
    wgt_gguf_number(&file, 0x0100, 2);
    wgt_gguf_array(&file, "f64", WGI_GGUF_F64, 1);
    wgt_gguf_number(&file, 0x3FE0000000000000u, 8);
    wgt_gguf_array(&file, "nested", WGI_GGUF_ARRAY, 1);
    wgt_gguf_number(&file, WGI_GGUF_STRING, 4);
    wgt_gguf_number(&file, 1, 8);
    wgt_gguf_string(&file, "inner");
    EXPECT_OK(wgt_gguf_read(&gguf, &map, &file, &err));
    if (!gguf) return;

    EXPECT_OK(wgi_gguf_strings(gguf, "strings", &array, &err));
    EXPECT_EQ(array.count, 4);
    for (size_t i = 0; i < 4; i++) {
        EXPECT(wgi_gguf_string_next(&array, &text));
        EXPECT(wgi_slice_is(text, words[i]));
    }
    EXPECT(!wgi_gguf_string_next(&array, &text));
    EXPECT_OK(wgi_gguf_ints(gguf, "i16", &array, &err));
    EXPECT_EQ(array.count, 3);
    for (uint64_t i = 0; i < 3; i++)
        EXPECT_EQ(wgi_gguf_int_at(&array, i), (int64_t)i - 1);
    EXPECT_OK(wgi_gguf_floats(gguf, "f32", &array, &err));
    EXPECT(wgi_gguf_float_at(&array, 0) == 1 && wgi_gguf_float_at(&array, 1) == -2);
    EXPECT_OK(wgi_gguf_floats(gguf, "f64", &array, &err));
    EXPECT(wgi_gguf_float_at(&array, 0) == 0.5);
    EXPECT_OK(wgi_gguf_bools(gguf, "bools", &array, &err));
    EXPECT(wgi_gguf_int_at(&array, 0) == 0 && wgi_gguf_int_at(&array, 1) == 1);

    EXPECT_EQ(wgi_gguf_strings(gguf, "i16", &array, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "key i16: expected an array of strings, found an array of integers");
    EXPECT_EQ(wgi_gguf_ints(gguf, "strings", &array, &err), WG_ERR_FORMAT);
    EXPECT_EQ(wgi_gguf_ints(gguf, "f32", &array, &err), WG_ERR_FORMAT);
    EXPECT_EQ(wgi_gguf_ints(gguf, "bools", &array, &err), WG_ERR_FORMAT);
    EXPECT_EQ(wgi_gguf_floats(gguf, "i16", &array, &err), WG_ERR_FORMAT);
    EXPECT_EQ(wgi_gguf_bools(gguf, "i16", &array, &err), WG_ERR_FORMAT);
    EXPECT_EQ(wgi_gguf_strings(gguf, "nested", &array, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "found an array of arrays");
    EXPECT_EQ(wgi_gguf_strings(gguf, "none", &array, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "key none: is missing");
    wgt_gguf_done(gguf, &map);
    wgi_buf_fini(&file);
}

static void nest(wgi_buf *file, int depth)
{
    wgt_gguf_begin(file, 3, 0, 1);
    wgt_gguf_key(file, "n", WGI_GGUF_ARRAY);
    for (int i = 1; i < depth; i++) {
        wgt_gguf_number(file, WGI_GGUF_ARRAY, 4);
        wgt_gguf_number(file, 1, 8);
    }
    wgt_gguf_number(file, WGI_GGUF_U8, 4);
    wgt_gguf_number(file, 1, 8);
    wgt_gguf_number(file, 7, 1);
}

static void test_refused(void)
{
    wgi_buf file = {0};

    nest(&file, 4);
    wgt_gguf_expect(&file, NULL);
    nest(&file, 5);
    wgt_gguf_expect(&file, "key n: arrays nested more than 4 deep");
    wgt_gguf_begin(&file, 3, 0, 1);
    wgt_gguf_key(&file, "a", 13);
    wgt_gguf_zeros(&file, 8);
    wgt_gguf_expect(&file, "key a: value type 13 unknown");
    wgt_gguf_begin(&file, 3, 0, 1);
    wgt_gguf_array(&file, "a", 13, 1);
    wgt_gguf_zeros(&file, 8);
    wgt_gguf_expect(&file, "key a: an array of values of unknown type 13");
    wgt_gguf_begin(&file, 3, 0, 1);
    wgt_gguf_key(&file, "b", WGI_GGUF_BOOL);
    wgt_gguf_number(&file, 2, 1);
    wgt_gguf_expect(&file, "key b: a bool is 0 or 1, found 2");
    wgt_gguf_begin(&file, 3, 0, 1);
    wgt_gguf_array(&file, "b", WGI_GGUF_BOOL, 3);
    wgt_gguf_number(&file, 0xFF0001, 3);
    wgt_gguf_expect(&file, "key b: a bool is 0 or 1, found 255");
    wgt_gguf_begin(&file, 3, 0, 1);
    wgt_gguf_count(&file, "", 1);
    wgt_gguf_expect(&file, "key 0: a name of 0 bytes");
    wgt_gguf_begin(&file, 3, 0, 1);
    wgt_gguf_number(&file, 65536, 8);
    wgt_gguf_zeros(&file, 65536 + 5);
    wgt_gguf_expect(&file, "key 0: a name of 65536 bytes");
    /* Ends exactly, and one byte short. */
    wgt_gguf_begin(&file, 3, 0, 1);
    wgt_gguf_array(&file, "a", WGI_GGUF_U64, 2);
    wgt_gguf_zeros(&file, 16);
    wgt_gguf_expect(&file, NULL);
    wgt_gguf_begin(&file, 3, 0, 1);
    wgt_gguf_array(&file, "a", WGI_GGUF_U64, 2);
    wgt_gguf_zeros(&file, 15);
    wgt_gguf_expect(&file, "key a: an array of 2 integers exceeds the 15 bytes left");
    wgt_gguf_begin(&file, 3, 0, 1);
    wgt_gguf_array(&file, "s", WGI_GGUF_STRING, 2);
    wgt_gguf_string(&file, "12345678");
    wgt_gguf_expect(&file, "it ends in key s");
    wgt_gguf_begin(&file, 3, 0, 1);
    wgt_gguf_array(&file, "s", WGI_GGUF_STRING, 1);
    wgt_gguf_number(&file, 1, 8);
    wgt_gguf_expect(&file, "key s: string length 1 exceeds the 0 bytes left");
    /* A key made for a terminal does not get there. */
    wgt_gguf_begin(&file, 3, 0, 1);
    wgt_gguf_key(&file, "\x1B[31m", 99);
    wgt_gguf_expect(&file, "key ?[31m: value type 99");
    wgi_buf_fini(&file);
}

static void test_not_finite(void)
{
    wgi_gguf *gguf = NULL;
    wgi_buf file = {0};
    double value = 0;
    wgi_map map;
    wg_error err;

    wgt_gguf_begin(&file, 3, 0, 1);
    wgt_gguf_float(&file, "f", INFINITY);
    EXPECT_OK(wgt_gguf_read(&gguf, &map, &file, &err));
    if (gguf) EXPECT_EQ(wgi_gguf_float(gguf, "f", &value, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "key f: the float is not finite");
    wgt_gguf_done(gguf, &map);
    wgi_buf_fini(&file);
}

int main(void)
{
    test_kinds(2);
    test_kinds(3);
    test_arrays();
    test_refused();
    test_not_finite();
    return wgt_result();
}
