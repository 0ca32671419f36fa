/*
 * test_tokenizer_tables.c - the table of pieces against an array that tells the truth, and the
 * tables of code points against each other and against a few facts.
 *
 * LIBRARIES: wgi_tokenizer wgi_base
 * LABELS: quick
 */
#include "harness.h"
#include "tokenizer/piece_table.h"
#include "tokenizer/unicode.h"

static wg_error err;

static wgi_slice name_of(char room[32], unsigned number)
{
    int count = snprintf(room, 32, "%x-%u", number % 97, number);

    return (wgi_slice){room, (size_t)count};
}

static void test_pieces(void)
{
    enum { COUNT = 20000 };
    static int32_t truth[COUNT];
    wgi_piece_table table = {0};
    char room[32];

    wgt_seed_set(3);
    memset(truth, -1, sizeof(truth));
    EXPECT_EQ(wgi_piece_table_find(&table, (wgi_slice){"x", 1}), -1);
    for (int i = 0; i < 3 * COUNT; i++) {
        unsigned number = (unsigned)wgt_below(COUNT);
        truth[number] = i;
        EXPECT_OK(wgi_piece_table_put(&table, name_of(room, number), i, &err));
    }
    size_t distinct = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        distinct += truth[i] >= 0;
        EXPECT_EQ(wgi_piece_table_find(&table, name_of(room, i)), truth[i]);
    }
    EXPECT_EQ(table.count, distinct);
    EXPECT_OK(wgi_piece_table_check_ids(&table, &err));
    EXPECT_OK(wgi_piece_table_put(&table, (wgi_slice){"", 0}, 3 * COUNT, &err));
    EXPECT_EQ(wgi_piece_table_find(&table, (wgi_slice){"", 0}), 3 * COUNT);
    EXPECT_OK(wgi_piece_table_put(&table, (wgi_slice){"again", 5}, 3 * COUNT, &err));
    EXPECT_EQ(wgi_piece_table_check_ids(&table, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "id 60000");
    EXPECT_IN(err.message, "again");
    wgi_piece_table_fini(&table);
}

static void test_flags(void)
{
    const wgi_char_table *table = wgi_char_table_shared();
    size_t wrong = 0;

    for (uint32_t c = 0; c < WGI_CHAR_FLAT; c++)
        wrong += wgi_char_flags(table, c) != wgi_char_search(c);
    EXPECT_EQ(wrong, 0);
    for (size_t i = 1; i < wgi_char_range_count; i++)
        wrong += wgi_char_ranges[i].first <= wgi_char_ranges[i - 1].last;
    for (size_t i = 1; i < wgi_lower_run_count; i++)
        wrong += wgi_lower_runs[i].first <= wgi_lower_runs[i - 1].last;
    EXPECT_EQ(wrong, 0);
    EXPECT(wgi_char_flags(table, 0xA0) & WGI_CHAR_SPACE);
    EXPECT(!(wgi_char_flags(table, 0x200B) & WGI_CHAR_SPACE));
    EXPECT(wgi_char_flags(table, 0x200B) & WGI_CHAR_CLEANED);
    EXPECT(wgi_char_flags(table, 0x301) & WGI_CHAR_NONSPACING);
    EXPECT(wgi_char_flags(table, '$') & WGI_CHAR_PUNCTUATION); /* as ASCII */
    EXPECT(!(wgi_char_flags(table, 0xA3) & WGI_CHAR_PUNCTUATION));
    EXPECT(wgi_char_flags(table, 0x20000) & WGI_CHAR_CHINESE);
    EXPECT(wgi_char_flags(table, 0xE0100) & WGI_CHAR_MARK);
    EXPECT_EQ(wgi_char_flags(table, 0x10FFFF) & WGI_CHAR_WORD, 0);
    EXPECT(wgi_char_flags(table, 0) & WGI_CHAR_CONTROL);
    EXPECT(wgi_char_flags(table, 0x1D173) & WGI_CHAR_CONTROL); /* four bytes of UTF-8 */
    EXPECT(!(wgi_char_flags(table, 0x200D) & WGI_CHAR_CONTROL));
}

/* Every code point that the flags call decomposable is more than itself, and pairs compose back. */
static void test_decompositions(void)
{
    const wgi_char_table *table = wgi_char_table_shared();
    size_t same = 0, composed = 0, no_class = 0;

    for (uint32_t c = 0; c < 0x110000; c++) {
        uint32_t parts[WGI_DECOMPOSED_MAX];
        unsigned flags = wgi_char_flags(table, c);
        if ((flags & WGI_CHAR_NONSTARTER) && wgi_char_combining_class(c) == 0) no_class++;
        if (!(flags & WGI_CHAR_CANONICAL)) continue;
        size_t count = wgi_char_decompose(c, false, parts);
        if (count == 1 && parts[0] == c) same++;
        if (count == 2 && wgi_char_compose(table, parts[0], parts[1]) == c) composed++;
    }
    EXPECT_EQ(same, 0);
    EXPECT_EQ(no_class, 0);
    EXPECT(composed > 900); /* 399 Hangul syllables of two letters, and the letters with one mark */
    EXPECT_EQ(wgi_char_compose(table, 'e', 0x301), 0xE9);
    EXPECT_EQ(wgi_char_compose(table, 'q', 0x301), 0);
    EXPECT_EQ(wgi_char_compose(table, 0x915, 0x93C), 0);     /* a composition exclusion */
    EXPECT_EQ(wgi_char_compose(table, 0x11935, 0x11930), 0); /* newer than the measured tables */
}

static void test_lower(void)
{
    static const uint32_t pairs[][2] = {
        {'A', 'a'},    {'a', 'a'},         {0xC9, 0xE9},   {0x3A3, 0x3C3}, {0x1E9E, 0xDF},
        {0x212A, 'k'}, {0x10400, 0x10428}, {0x100, 0x101}, {0x101, 0x101}, {0x13A0, 0xAB70}};
    uint32_t out[2];

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        EXPECT_EQ(wgi_char_lower(pairs[i][0], out), 1);
        EXPECT_EQ(out[0], pairs[i][1]);
    }
    EXPECT_EQ(wgi_char_lower(0x130, out), 2);
    EXPECT(out[0] == 'i' && out[1] == 0x307);
}

int main(void)
{
    test_pieces();
    test_flags();
    test_decompositions();
    test_lower();
    return wgt_result();
}
