/*
 * test_pattern.c - patterns of tokenizer files: what they match, what is refused by name, and the
 * scanners against the patterns that they stand for.
 *
 * LIBRARIES: wgi_tokenizer wgi_base
 * LABELS: quick
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/os_clock.h"
#include "base/utf8.h"
#include "harness.h"
#include "tokenizer/pattern.h"
#include "tokenizer/split_scan.h"

static wg_error err;
static const wgi_char_table *chars;
static wgi_pattern_stack stack;

static wgi_slice slice_of(const char *text)
{
    return (wgi_slice){text, strlen(text)};
}

static wgi_pattern *open_pattern(const char *source)
{
    wgi_pattern *pattern = NULL;
    const char *reason = NULL;

    EXPECT_OK(wgi_pattern_open(&pattern, slice_of(source), &reason, &err));
    if (!pattern) {
        wgt_fail_at(source, 0);
        fprintf(stderr, "refused: %s\n", reason ? reason : "");
    }
    return pattern;
}

/* All matches of a text, each between brackets. */
static void expect_matches(const char *source, const char *text, const char *want)
{
    wgi_pattern *pattern = open_pattern(source);
    wgi_buf got = {0};
    size_t count = strlen(text);

    for (size_t at = 0; pattern && at < count;) {
        wgi_span match = {0, 0};
        EXPECT_OK(wgi_pattern_next(pattern, chars, text, at, count, &stack, &match, &err));
        EXPECT(match.begin >= at && match.end <= count);
        EXPECT_OK(wgi_buf_append(&got, text + at, match.begin - at, &err));
        if (match.begin == match.end) break;
        EXPECT_OK(wgi_buf_printf(&got, &err, "[%.*s]", (int)(match.end - match.begin),
                                 text + match.begin));
        at = match.end;
    }
    if (!got.data || strcmp(got.data, want) != 0) {
        wgt_fail_at(source, 0);
        fprintf(stderr, "is \"%s\", expected \"%s\"\n", got.data ? got.data : "", want);
    }
    wgi_buf_fini(&got);
    wgi_pattern_close(pattern);
}

static void test_matches(void)
{
    expect_matches("a|ab", "abab", "[a]b[a]b"); /* the first alternative, not the longest */
    expect_matches("ab|a", "aba", "[ab][a]");
    expect_matches("a+?b|b", "aabb", "[aab][b]");
    expect_matches("a+", "caab", "c[aa]b");
    expect_matches("a*b", "aaab b a", "[aaab] [b] a");
    expect_matches("a++a|b", "aab", "aa[b]"); /* gives nothing back */
    expect_matches("a+ab", "aaab", "[aaab]");
    expect_matches("a{2}", "aaaaa", "[aa][aa]a");
    expect_matches("a{2,3}", "aaaaa", "[aaa][aa]");
    expect_matches("a{2,}", "a aaaaa", "a [aaaaa]");
    expect_matches("xa{,2}", "xaaa", "[xaa]a");
    expect_matches("(?:ab){2}", "ababab", "[abab]ab");
    expect_matches("(?:ab)+c|a", "ababab", "[a]b[a]b[a]b");
    expect_matches("(?:ab|a){2,3}c", "aabac", "[aabac]");
    expect_matches("(?:ab|a)+?b", "ababb", "[ababb]");
    expect_matches("(a(b|c))d?", "abacd", "[ab][acd]");
    expect_matches("a(?=b)", "abac", "[a]bac");
    expect_matches("a(?!b)", "abac", "ab[a]c");
    expect_matches("\\s+(?!\\S)|\\s+", "a   b  ", "a[  ][ ]b[  ]");
    expect_matches("(?=(?:a+b))a", "aaba", "[a][a]ba");
    expect_matches("[^\\s\\p{L}]+", "a1! b", "a[1!] b");
    expect_matches("[a-c\\-x]+", "ab-xd", "[ab-x]d");
    expect_matches("[\\x{e9}\\u4E2D\\x41]",
                   "\xC3\xA9"
                   "A\xE4\xB8\xADz",
                   "[\xC3\xA9][A][\xE4\xB8\xAD]z");
    expect_matches("\\p{Lu}\\p{Ll}*", "aBcD", "a[Bc][D]");
    expect_matches("\\P{L}", "a1", "a[1]");
    expect_matches("\\d\\D", "12a", "1[2a]");
    expect_matches(".", "a\nb", "[a]\n[b]");
    expect_matches("(?i:'s|k)t", "'St 'St kt KT 's", "['St] ['St] [kt] KT 's");
    expect_matches("(?i:s)", "sS\xC5\xBFz", "[s][S][\xC5\xBF]z");
    expect_matches("\\w", "\xC2\xB2", "[\xC2\xB2]"); /* but not between brackets: as the original */
    expect_matches("[\\w]|b",
                   "\xC2\xB2"
                   "b",
                   "\xC2\xB2[b]");
    expect_matches("\\.\\[\\n", "a.[\n", "a[.[\n]");
}

static void test_refusals(void)
{
    static const struct {
        const char *source, *reason;
    } rows[] = {{"", "nothing"},
                {"a*", "nothing"},
                {"a|", "nothing"},
                {"(?=a)", "nothing"},
                {"(?<=a)b", "behind"},
                {"(?P<n>x)", "option"},
                {"(?i)a", "option"},
                {"(?>a)", "option"},
                {"^a", "anchor"},
                {"a$", "anchor"},
                {"\\ba", "known"},
                {"\\1", "known"},
                {"\\h", "known"},
                {"\\p{Han}", "category"},
                {"\\pL", "braces"},
                {"[a[b]]", "inside"},
                {"[a&&b]", "&&"},
                {"[]a]", "begin of a class"},
                {"[a", "without its end"},
                {"(a", "without its end"},
                {"a)", "without its begin"},
                {"a]", "without its begin"},
                {"a{2}+", "repetition"},
                {"a**", "repetition"},
                {"+a", "nothing"},
                {"a{", "brace"},
                {"a{3,2}", "order"},
                {"a{9999}", "large"},
                {"(?:a|b)++", "possessive"},
                {"(?:a?)+b", "empty"},
                {"(?i:ss)", "ligature"},
                {"(?i:\xC3\xA9)", "ASCII"},
                {"(?i:[a-z])", "class"},
                {"(?i:\\p{Lu})", "case"},
                {"\\xE9", "code point"},
                {"\\x{110000}", "code point"},
                {"a\\", "backslash"},
                {"[b-a]", "range"},
                {"[\\d-a]", "range"},
                {"\xFF", "UTF-8"},
                {"(?:(?:a{1000}){1000}){1000}", "long"},
                {"(((((((((((((((((a)))))))))))))))))", "deep"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        wgi_pattern *pattern = NULL;
        const char *reason = NULL;
        EXPECT_OK(wgi_pattern_open(&pattern, slice_of(rows[i].source), &reason, &err));
        EXPECT(pattern == NULL);
        EXPECT(reason != NULL);
        if (!reason || !strstr(reason, rows[i].reason)) {
            wgt_fail_at(rows[i].source, 0);
            fprintf(stderr, "is \"%s\", expected \"%s\"\n", reason ? reason : "", rows[i].reason);
        }
        wgi_pattern_close(pattern);
    }
}

/* A pattern that turns back without end is stopped; runs of a class are not. */
static void test_limits(void)
{
    enum { COUNT = 1 << 20 };
    wgi_pattern *slow = open_pattern("(?:a|aa)+b"),
                *fast = open_pattern("\\s*[\\r\\n]+|\\s+(?!\\S)|a+");
    char *text = wgi_malloc(COUNT);
    wgi_span match = {0, 0};

    if (text && slow && fast) {
        memset(text, 'a', COUNT);
        EXPECT_EQ(wgi_pattern_next(slow, chars, text, 0, 100, &stack, &match, &err), WG_ERR_LIMIT);
        EXPECT_IN(err.message, "turns back");
        EXPECT_OK(wgi_pattern_next(fast, chars, text, 0, COUNT, &stack, &match, &err));
        EXPECT_EQ(match.end, COUNT);
        memset(text, ' ', COUNT);
        text[COUNT - 1] = 'x';
        uint64_t begin = wgi_clock_ns();
        EXPECT_OK(wgi_pattern_next(fast, chars, text, 0, COUNT, &stack, &match, &err));
        EXPECT_EQ(match.end, COUNT - 2);
        EXPECT((double)(wgi_clock_ns() - begin) * 1e-9 < (WGT_HAS_SANITIZER ? 30 : 2.0));
    }
    wgi_free(text);
    wgi_pattern_close(slow);
    wgi_pattern_close(fast);
}

/* A random text: ASCII that the patterns care about, now and then anything. */
static size_t random_text(char *text, size_t most)
{
    static const char often[] = "aZ09 \n\r\t'sStTrRvVmMlLdDeE.,!-  ";
    static const uint32_t odd[] = {0xE9,   0x17F, 0xA0,    0x3000, 0x85,   0x2167, 0xB2,
                                   0x4E2D, 0x301, 0x1F600, 0x660,  0x2028, 0x378,  0x212A};
    size_t count = 0, parts = 1 + wgt_below(24);

    for (size_t i = 0; i < parts && count + 4 <= most; i++) {
        uint32_t c = (unsigned char)often[wgt_below(sizeof(often) - 1)];
        if (wgt_below(4) == 0) c = odd[wgt_below(sizeof(odd) / sizeof(odd[0]))];
        if (wgt_below(40) == 0) c = (uint32_t)wgt_below(0xD800);
        count += wgi_utf8_put(c, text + count);
    }
    return count;
}

static void test_scanners(void)
{
    const char *source = NULL;
    wgi_split_scan *scan = NULL;
    size_t count = 0;

    wgt_seed_set(11);
    for (; wgi_split_scan_at(count, &source, &scan); count++) {
        wgi_pattern *pattern = open_pattern(source);
        size_t wrong = 0;
        EXPECT(wgi_split_scan_find(slice_of(source)) == scan);
        for (int round = 0; pattern && round < 40000 && wrong < 5; round++) {
            char text[128];
            size_t bytes = random_text(text, sizeof(text));
            for (size_t at = 0; at < bytes;) {
                wgi_span match = {0, 0};
                EXPECT_OK(wgi_pattern_next(pattern, chars, text, at, bytes, &stack, &match, &err));
                size_t end = scan(chars, text, at, bytes);
                if (match.begin != at || match.end != end) {
                    wgt_fail_at(source, round);
                    fprintf(stderr, "\"%.*s\" at %zu: %u to %u, the scanner says %zu\n", (int)bytes,
                            text, at, match.begin, match.end, end);
                    wrong++;
                    break;
                }
                at = end;
            }
        }
        wgi_pattern_close(pattern);
    }
    EXPECT_EQ(count, 4);
    EXPECT(wgi_split_scan_find(slice_of("\\p{L}+")) == NULL);
    if (wgt_failed) fprintf(stderr, "seed %llu\n", (unsigned long long)wgt_seed);
}

static void test_memory(void)
{
    for (long nth = 1;; nth++) {
        wgi_pattern *pattern = NULL;
        const char *reason = NULL;
        wgi_alloc_fail_at(nth);
        wg_status status = wgi_pattern_open(
            &pattern, slice_of("(?i:'s|t)|[^a-c\\s]{2,3}(?:ab|c)+|d(?!e)"), &reason, &err);
        wgi_alloc_fail_at(0);
        EXPECT((status == WG_OK) == (pattern != NULL));
        wgi_pattern_close(pattern);
        if (status == WG_OK) {
            EXPECT(nth > 4);
            return;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
    }
}

int main(void)
{
    chars = wgi_char_table_shared();
    test_matches();
    test_refusals();
    test_limits();
    test_scanners();
    test_memory();
    wgi_free(stack.frames);
    return wgt_result();
}
