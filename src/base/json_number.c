/*
 * json_number.c - decimal digits <-> binary floats, in any locale; see json.h.
 *
 * Reading: a number of at most 15 digits with a power of ten up to 10^22 is one exact integer and
 * one rounded operation (Clinger, "How to Read Floating Point Numbers Accurately", 1990). Any other
 * goes to strtod as integer digits and an exponent: without a decimal point there is nothing in it
 * that a locale could read differently.
 *
 * Writing: the fewest digits whose nearest float is the value, tried from 6 (15 for doubles)
 * upwards; six digits always survive, so a shorter number shows as trailing zeros, which are cut. A
 * float32 has room to spare in double arithmetic: value * 10^n and the way back are one rounded
 * operation each, and the two cases in which that rounding could decide (a digit at the half, a way
 * back that lands on the midpoint of two floats) are sent to the slow path, printf and strtof. So
 * are numbers beyond the exact powers of ten and subnormals. Full Ryu was refused: its tables buy
 * nothing for rows of a few hundred floats.
 *
 * Threads: no state; any thread.
 */
#include "base/json_number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A midpoint of two doubles has at most 768 significant digits, so digits behind these only tell
 * whether the number lies above one. */
#define DIGITS_MAX 800

#define POWER_MAX 22
static const double powers[POWER_MAX + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                             1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                             1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* ------------------------------------------------------------------------------ reading */

/* Significant digits: value = digits * 10^exponent. */
typedef struct decimal {
    char digits[DIGITS_MAX + 24]; /* and room for "e-123" */
    size_t count;
    int64_t exponent;
} decimal;

/* The exponent behind 'e', held within +-10^15: beyond any use, and no sum can overflow. */
static int64_t read_exponent(const char *text, size_t count)
{
    const int64_t most = 1000000000000000;
    bool is_negative = text[0] == '-';
    int64_t value = 0;

    for (size_t i = is_negative || text[0] == '+'; i < count; i++) {
        if (value < most) value = 10 * value + (text[i] - '0');
    }
    if (value > most) value = most;
    return is_negative ? -value : value;
}

static void read_decimal(wgi_slice text, decimal *out)
{
    bool is_fraction = false, is_more = false;
    size_t i = text.data[0] == '-';

    out->count = 0;
    out->exponent = 0;
    for (; i < text.count && text.data[i] != 'e' && text.data[i] != 'E'; i++) {
        char c = text.data[i];
        if (c == '.') {
            is_fraction = true;
        } else if (out->count == 0 && c == '0') {
            out->exponent -= is_fraction;
        } else if (out->count < DIGITS_MAX) {
            out->digits[out->count++] = c;
            out->exponent -= is_fraction;
        } else {
            out->exponent += !is_fraction;
            is_more = is_more || c != '0';
        }
    }
    if (is_more && out->digits[DIGITS_MAX - 1] == '0') out->digits[DIGITS_MAX - 1] = '1';
    if (i < text.count) out->exponent += read_exponent(text.data + i + 1, text.count - i - 1);
}

bool wgi_json_number_value(wgi_slice text, double *out)
{
    decimal number;
    double value;

    read_decimal(text, &number);
    int64_t top = number.exponent + (int64_t)number.count; /* value < 10^top */
    if (number.count == 0 || top < -400) {
        value = 0;
    } else if (top > 400) {
        return false;
    } else if (FLT_EVAL_METHOD == 0 && number.count <= 15 && number.exponent >= -POWER_MAX &&
               number.exponent <= POWER_MAX) {
        uint64_t digits = 0;
        for (size_t i = 0; i < number.count; i++)
            digits = 10 * digits + (uint64_t)(number.digits[i] - '0');
        value = number.exponent < 0 ? (double)digits / powers[-number.exponent]
                                    : (double)digits * powers[number.exponent];
    } else {
        (void)snprintf(number.digits + number.count, sizeof(number.digits) - number.count, "e%d",
                       (int)number.exponent);
        value = strtod(number.digits, NULL);
        if (isinf(value)) return false;
    }
    *out = text.data[0] == '-' ? -value : value;
    return true;
}

/* ------------------------------------------------------------------------------ writing */

/* d.ddde+XX; the first of the digits stands for 10^top. */
static size_t layout_exponent(char *out, const char *digits, int count, int top)
{
    size_t at = 0;
    unsigned power = (unsigned)(top < 0 ? -top : top);

    out[at++] = digits[0];
    if (count > 1) out[at++] = '.';
    for (int i = 1; i < count; i++)
        out[at++] = digits[i];
    out[at++] = 'e';
    out[at++] = top < 0 ? '-' : '+';
    if (power >= 100) out[at++] = (char)('0' + power / 100);
    out[at++] = (char)('0' + power / 10 % 10);
    out[at++] = (char)('0' + power % 10);
    return at;
}

/* digits * 10^exponent, as Python's repr lays it out: 12.5, 100000.0, 1e-05, 1.5e+16. */
static size_t layout(char *out, bool is_negative, uint64_t digits, int exponent)
{
    char text[24];
    int count = 0;
    size_t at = 0;

    while (digits && digits % 10 == 0) {
        digits /= 10;
        exponent++;
    }
    if (digits == 0) exponent = 0;
    do {
        text[sizeof(text) - (size_t)++count] = (char)('0' + digits % 10);
        digits /= 10;
    } while (digits);
    const char *first = text + sizeof(text) - count;
    int top = exponent + count - 1;

    if (is_negative) out[at++] = '-';
    if (top < -4 || top >= 16) return at + layout_exponent(out + at, first, count, top);
    for (int place = top < 0 ? 0 : top; place >= exponent || place >= -1; place--) {
        if (place == -1) out[at++] = '.';
        if (place > top || place < exponent) {
            out[at++] = '0';
        } else {
            out[at++] = first[top - place];
        }
    }
    return at;
}

/* Does digits * 10^exponent round to the value? */
static bool reads_back(uint64_t digits, int exponent, double value, bool is_float)
{
    char text[40];

    (void)snprintf(text, sizeof(text), "%llue%d", (unsigned long long)digits, exponent);
    return is_float ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value;
}

/*
 * The shortest digits of any finite value > 0. Above a power of two the floats are twice as far
 * apart as below it, so when the nearest decimal, below the value, is out of reach the next one
 * above may still do: that is the second try.
 */
static void shortest(double value, bool is_float, uint64_t *digits, int *exponent)
{
    bool is_normal = is_float ? value >= (double)FLT_MIN : value >= DBL_MIN;
    int most = is_float ? FLT_DECIMAL_DIG : DBL_DECIMAL_DIG;

    for (int count = is_normal ? (is_float ? FLT_DIG : DBL_DIG) : 1; count <= most; count++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "%.*e", count - 1, value);
        const char *at = text;
        *digits = 0;
        for (; *at != 'e'; at++) { /* whatever stands for the decimal point is stepped over */
            if (*at >= '0' && *at <= '9') *digits = 10 * *digits + (uint64_t)(*at - '0');
        }
        *exponent = (int)strtol(at + 1, NULL, 10) - (count - 1);
        if (reads_back(*digits, *exponent, value, is_float)) return;
        if (reads_back(*digits + 1, *exponent, value, is_float)) {
            *digits += 1;
            return;
        }
    }
}

/* The same for a float in the range of exact powers, or false: see the file head. */
static bool shortest_fast(float value, uint64_t *digits, int *exponent)
{
    double x = (double)value;
    int top = 0;

    if (FLT_EVAL_METHOD != 0 || !(x >= 1e-13 && x < 1e15)) return false;
    while (top > -POWER_MAX && top <= 0 && x * powers[-top] < 1)
        top--;
    while (top >= 0 && x >= powers[top + 1])
        top++;

    for (int count = FLT_DIG; count <= FLT_DECIMAL_DIG; count++) {
        int n = count - 1 - top;
        if (n > POWER_MAX || n < -POWER_MAX) return false;
        double scaled = n >= 0 ? x * powers[n] : x / powers[-n];
        *digits = (uint64_t)scaled;
        double rest = scaled - (double)*digits;
        if (fabs(rest - 0.5) < 1e-5) return false;
        *digits += rest > 0.5;
        *exponent = -n;

        double back = n >= 0 ? (double)*digits / powers[n] : (double)*digits * powers[-n];
        uint64_t bits;
        memcpy(&bits, &back, sizeof(bits));
        if ((bits & 0x1FFFFFFF) == 0x10000000) return false;
        if ((float)back == value) return true;
    }
    return false;
}

static wg_status put(wgi_buf *out, double value, bool is_float, wg_error *err)
{
    double positive = fabs(value);
    uint64_t digits = 0;
    int exponent = 0;

    if (!isfinite(value))
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "a value that is not finite cannot be written as JSON");
    wg_status status = wgi_buf_reserve(out, 40, err);
    if (status != WG_OK) return status;
    if (positive > 0 && !(is_float && shortest_fast((float)positive, &digits, &exponent)))
        shortest(positive, is_float, &digits, &exponent);
    out->count += layout(out->data + out->count, signbit(value), digits, exponent);
    out->data[out->count] = 0;
    return WG_OK;
}

wg_status wgi_json_put_float(wgi_buf *out, float value, wg_error *err)
{
    return put(out, (double)value, true, err);
}

wg_status wgi_json_put_double(wgi_buf *out, double value, wg_error *err)
{
    return put(out, value, false, err);
}
