/*
 * test_json_number.c - decimal <-> binary floats: known values, round trips of random bit patterns,
 * shortness against a plain search, and the same under a locale with a decimal comma.
 */
#include "base/json.h"

#include <float.h>
#include <locale.h>
#include <math.h>

#include "harness.h"

static wg_error err;

static double number(const char *text)
{
    wgi_json json;
    double value = NAN;

    wgi_json_init(&json, text, strlen(text));
    EXPECT_OK(wgi_json_double(&json, &value, &err));
    EXPECT_OK(wgi_json_finish(&json, &err));
    wgi_json_fini(&json);
    return value;
}

static void test_read(void)
{
    static const char *const same_as_strtod[] = {
        "0",
        "-0",
        "1",
        "-1.5",
        "0.1",
        "1e-8",
        "123456789012345",
        "1234567890123456789",
        "1e22",
        "1e23",
        "9007199254740993",
        "9007199254740993.00000000000000000000000000000000001",
        "2.2250738585072011e-308",
        "4.9e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "1.7976931348623157e308",
        "179769313486231580793e288",
        "0.000000000000000000000000000001e30",
        "100000000000000000000000000000000000000000000000e-46",
        "1E+2",
        "1e-400",
        "-1e-99999999999999999999",
        "0e99999999999999999999",
        "3.14159265358979323846264338327950288419716939937510"};

    for (size_t i = 0; i < sizeof(same_as_strtod) / sizeof(same_as_strtod[0]); i++) {
        double got = number(same_as_strtod[i]), want = strtod(same_as_strtod[i], NULL);
        if (memcmp(&got, &want, sizeof(got)) != 0) {
            fprintf(stderr, "%s: %.17g, expected %.17g\n", same_as_strtod[i], got, want);
            EXPECT(got == want);
        }
    }
}

/* The midpoint of 1 and its successor, written out, rounds to even; a 1 at digit 2,000 lifts it. */
static void test_read_long(void)
{
    char text[2100];
    int count =
        snprintf(text, sizeof(text), "1.00000000000000011102230246251565404236316680908203125");

    EXPECT(number(text) == 1);
    memset(text + count, '0', 2000 - (size_t)count);
    text[2000] = 0;
    EXPECT(number(text) == 1);
    text[1999] = '1';
    EXPECT(number(text) == 1 + DBL_EPSILON);
    memset(text, '0', sizeof(text));
    memcpy(text, "0.", 2);
    memcpy(text + 2000, "5e1999", 7);
    EXPECT(number(text) == 5);
}

static void test_read_refused(void)
{
    static const char *const texts[] = {"1e999", "-1e309", "NaN", "Infinity", "-Infinity"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        wgi_json json;
        double value = 7;
        wgi_json_init(&json, texts[i], strlen(texts[i]));
        EXPECT_EQ(wgi_json_double(&json, &value, &err), WG_ERR_FORMAT);
        EXPECT_IN(err.message, "not a finite number");
        EXPECT_IN(err.message, texts[i]);
        wgi_json_fini(&json);
    }
}

static void expect_float(float value, const char *want)
{
    wgi_buf buf = {0};

    EXPECT_OK(wgi_json_put_float(&buf, value, &err));
    EXPECT_TEXT(buf.data, want);
    wgi_buf_fini(&buf);
}

static void expect_double(double value, const char *want)
{
    wgi_buf buf = {0};

    EXPECT_OK(wgi_json_put_double(&buf, value, &err));
    EXPECT_TEXT(buf.data, want);
    wgi_buf_fini(&buf);
}

static void test_write(void)
{
    wgi_buf buf = {0};

    expect_float(0.1f, "0.1");
    expect_float(1e-8f, "1e-08");
    expect_float(-0.0f, "-0.0");
    expect_float(0, "0.0");
    expect_float(1, "1.0");
    expect_float(-1234567, "-1234567.0");
    expect_float(16777216, "16777216.0");
    expect_float(0.0001f, "0.0001");
    expect_float(0.00001f, "1e-05");
    expect_float(0.015625f, "0.015625");
    expect_float(1.0f / 3, "0.33333334");
    expect_float(0.3f, "0.3");
    expect_float(0.999999f, "0.999999");
    expect_float(9.9999999f, "10.0");
    expect_float(FLT_MAX, "3.4028235e+38");
    expect_float(FLT_MIN, "1.1754944e-38");
    expect_float(FLT_TRUE_MIN, "1e-45");
    expect_float(8589934592.f, "8589935000.0"); /* a power of two */
    expect_double(0.1, "0.1");
    expect_double(1.0 / 3, "0.3333333333333333");
    expect_double(1e15, "1000000000000000.0");
    expect_double(1e16, "1e+16");
    expect_double(1.7976931348623157e308, "1.7976931348623157e+308");
    expect_double(5e-324, "5e-324");
    expect_double(9007199254740992, "9007199254740992.0");
    expect_double(-123.456, "-123.456");
    expect_double(9.5367431640625e-07, "9.5367431640625e-07");
    EXPECT_EQ(wgi_json_put_float(&buf, NAN, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wgi_json_put_float(&buf, INFINITY, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wgi_json_put_double(&buf, -INFINITY, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(buf.count, 0);
    wgi_buf_fini(&buf);
}

/* Digits of a written number, leading and trailing zeros and the exponent left out. */
static int significant(const char *text)
{
    int count = 0, zeros = 0;

    for (; *text && *text != 'e'; text++) {
        if (*text < '0' || *text > '9' || (*text == '0' && count == 0)) continue;
        zeros = *text == '0' ? zeros + 1 : 0;
        count++;
    }
    return count - zeros;
}

/* Fewest digits with which printf's nearest decimal reads back (the C locale holds here). */
static int fewest(float value)
{
    char text[64];

    for (int count = 1;; count++) {
        (void)snprintf(text, sizeof(text), "%.*e", count - 1, (double)value);
        if (strtof(text, NULL) == value) return significant(text);
    }
}

static void test_random_floats(void)
{
    wgi_buf buf = {0};

    wgt_seed_set(2);
    for (int round = 0; round < 100000; round++) {
        uint32_t bits = (uint32_t)wgt_random();
        if (round % 2) bits = (bits & 0x807FFFFF) | (uint32_t)(100 + wgt_below(50)) << 23;
        float value;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value)) continue;
        buf.count = 0;
        EXPECT_OK(wgi_json_put_float(&buf, value, &err));
        float back = strtof(buf.data, NULL), back_double = (float)number(buf.data);
        if (memcmp(&back, &value, 4) != 0 || back_double != value ||
            significant(buf.data) > fewest(value)) {
            fprintf(stderr, "%.9g written as %s\n", (double)value, buf.data);
            EXPECT(back == value);
            EXPECT_EQ(significant(buf.data), fewest(value));
        }
    }
    wgi_buf_fini(&buf);
}

/*
 * A power of two has its lower neighbours nearer, so the nearest decimal of some length may fail
 * where the next one above still reads back.
 */
static void test_powers_of_two(void)
{
    for (int power = -149; power < 128; power++) {
        float value = ldexpf(1, power);
        wgi_buf buf = {0};
        char text[64];

        EXPECT_OK(wgi_json_put_float(&buf, value, &err));
        EXPECT(strtof(buf.data, NULL) == value);
        for (int count = 1; count < significant(buf.data); count++) {
            (void)snprintf(text, sizeof(text), "%.*e", count - 1, (double)value);
            int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
            double above = strtod(text, NULL) + pow(10, exponent - count + 1);
            (void)snprintf(text, sizeof(text), "%.*e", count - 1, above);
            if (strtof(text, NULL) == value) fprintf(stderr, "%s, not %s\n", text, buf.data);
            EXPECT(strtof(text, NULL) != value);
        }
        wgi_buf_fini(&buf);
    }
}

static void test_random_doubles(void)
{
    wgi_buf buf = {0};

    wgt_seed_set(3);
    for (int round = 0; round < 100000; round++) {
        uint64_t bits = wgt_random();
        double value, read;
        char text[40];

        memcpy(&value, &bits, sizeof(value));
        if (round % 2) value = (double)(int64_t)bits / (double)((uint64_t)1 << wgt_below(60));
        if (!isfinite(value)) continue;
        buf.count = 0;
        EXPECT_OK(wgi_json_put_double(&buf, value, &err));
        read = number(buf.data);
        if (memcmp(&read, &value, 8) != 0) {
            fprintf(stderr, "%.17g written as %s\n", value, buf.data);
            EXPECT(read == value);
        }
        (void)snprintf(text, sizeof(text), "%.*g", (int)(1 + wgt_below(20)), value);
        if (isfinite(strtod(text, NULL))) EXPECT(number(text) == strtod(text, NULL));
    }
    wgi_buf_fini(&buf);
}

int main(void)
{
    test_read();
    test_read_long();
    test_read_refused();
    test_write();
    test_random_floats();
    test_powers_of_two();
    test_random_doubles();
    /* Where such a locale is installed, its decimal comma must not show. */
    if (setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "de_DE") ||
        setlocale(LC_ALL, "fr_FR.UTF-8"))
        test_write();
    return wgt_result();
}
