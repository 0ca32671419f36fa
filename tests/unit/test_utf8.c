/*
 * test_utf8.c - the decoder against the examples of the Unicode Standard (chapter 3, tables 3-8 to
 * 3-11), every code point there and back, and the fast paths against the decoder.
 */
#include "base/utf8.h"

#include "harness.h"

static wg_error err;

static void expect_repair(const char *text, size_t count, const char *want, uint64_t want_bad)
{
    wgi_buf out = {0};
    uint64_t bad = 99;

    EXPECT_OK(wgi_utf8_repair(&out, text, count, &bad, &err));
    EXPECT_TEXT(out.data, want);
    EXPECT_EQ(bad, want_bad);
    EXPECT_EQ(wgi_utf8_check(out.data, out.count), out.count);
    EXPECT_EQ(wgi_utf8_check(text, count) == count, want_bad == 0);
    wgi_buf_fini(&out);
}

#define R                       "\xEF\xBF\xBD"
#define REPAIR(text, want, bad) expect_repair(text, sizeof(text) - 1, want, bad)

static void test_maximal_subparts(void)
{
    REPAIR("", "", 0);
    REPAIR("plain", "plain", 0);
    REPAIR("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", R R R R R R R R "A", 8);
    REPAIR("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", R R R R R R R R "A", 8);
    REPAIR("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", R R R R R "A" R R "B", 7);
    REPAIR("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", R R R R "A", 4);
    REPAIR("ba\xFF"
           "d",
           "ba" R "d", 1);
    REPAIR("cut \xF0\x9F\x98", "cut " R, 1);
    REPAIR("caf\xC3\xA9 na\xC3\xAFve \xF0\x9F\x98\x80 and more than eight bytes of it \xE2\x82",
           "caf\xC3\xA9 na\xC3\xAFve \xF0\x9F\x98\x80 and more than eight bytes of it " R, 1);
}

static void test_every_code_point(void)
{
    for (uint32_t code_point = 0; code_point <= 0x10FFFF; code_point++) {
        char bytes[4];
        bool is_bad = true, is_surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
        size_t at = 0, count = wgi_utf8_put(code_point, bytes);
        uint32_t back = wgi_utf8_next(bytes, count, &at, &is_bad);
        if (back != (is_surrogate ? WGI_UTF8_REPLACEMENT : code_point) || at != count || is_bad) {
            EXPECT_EQ(back, code_point);
            return;
        }
    }
    char bytes[4];
    EXPECT_EQ(wgi_utf8_put(0x110000, bytes), 3);
}

/* At every length and place of a bad byte the check finds it. */
static void test_check_places(void)
{
    char text[40];

    for (size_t count = 1; count <= sizeof(text); count++) {
        for (size_t bad = 0; bad < count; bad++) {
            memset(text, 'a', sizeof(text));
            text[bad] = (char)0x80;
            EXPECT_EQ(wgi_utf8_check(text, count), bad);
        }
    }
}

/* Repairing what is repaired changes nothing, on random bytes that are often near to UTF-8. */
static void test_random(void)
{
    wgt_seed_set(1);
    for (int round = 0; round < 20000; round++) {
        static const uint8_t pool[] = {'a', 0x80, 0xBF, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0x9F, 0xA0};
        uint8_t text[24];
        wgi_buf once = {0}, twice = {0};
        uint64_t bad;
        size_t count = wgt_below(sizeof(text) + 1);

        for (size_t i = 0; i < count; i++)
            text[i] = wgt_below(8) ? pool[wgt_below(sizeof(pool))] : (uint8_t)wgt_random();
        EXPECT_OK(wgi_utf8_repair(&once, (char *)text, count, &bad, &err));
        EXPECT_EQ(wgi_utf8_check(once.data, once.count), once.count);
        EXPECT_EQ(wgi_utf8_check((char *)text, count) == count, bad == 0);
        EXPECT_OK(wgi_utf8_repair(&twice, once.data, once.count, &bad, &err));
        EXPECT_EQ(bad, 0);
        EXPECT(once.count == twice.count && memcmp(once.data, twice.data, once.count) == 0);
        wgi_buf_fini(&once);
        wgi_buf_fini(&twice);
    }
}

int main(void)
{
    test_maximal_subparts();
    test_every_code_point();
    test_check_places();
    test_random();
    return wgt_result();
}
