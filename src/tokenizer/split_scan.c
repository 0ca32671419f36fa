/*
 * split_scan.c - the split patterns of GPT-2, Llama-3 and Qwen2 as scanners.
 *
 * The idea: their alternatives are told apart by one or two code points, so a word is found in one
 * pass without a way back. Each scanner is written along the alternatives of its pattern, in their
 * order. A text of their own is no different for a scanner: what it needs to know of a code point
 * are four classes.
 *
 * Threads: no state; any thread.
 */
#include "tokenizer/split_scan.h"

#include <string.h>

typedef enum char_class { LETTER, NUMBER, SPACE, OTHER, END } char_class;

#define L4      LETTER, LETTER, LETTER, LETTER
#define O4      OTHER, OTHER, OTHER, OTHER
#define O7      O4, OTHER, OTHER, OTHER
#define S5      SPACE, SPACE, SPACE, SPACE, SPACE
#define N5      NUMBER, NUMBER, NUMBER, NUMBER, NUMBER
#define LETTERS L4, L4, L4, L4, L4, L4, LETTER, LETTER

static const unsigned char ascii_class[128] = {
    O4,    O4,      OTHER, S5,    O4,
    O4,    O4,      O4,    OTHER, OTHER, /* 00 to 1F: 09 to 0D are white */
    SPACE, O7,      O7,    OTHER,        /* 20 to 2F */
    N5,    N5,      O4,    OTHER, OTHER, /* 30 to 3F */
    OTHER, LETTERS, O4,    OTHER,        /* 40 to 5F */
    OTHER, LETTERS, O4,    OTHER,        /* 60 to 7F */
};

/* The class of the code point at *at, which moves behind it. */
static inline char_class next(const wgi_char_table *chars, const char *text, size_t *at, size_t end)
{
    if (*at >= end) return END;
    unsigned char byte = (unsigned char)text[*at];
    if (byte < 0x80) {
        (*at)++;
        return ascii_class[byte];
    }
    uint32_t flags = wgi_char_flags(chars, wgi_char_next(text, at));
    if (wgi_char_is_letter(flags)) return LETTER;
    if (flags & WGI_CHAR_SPACE) return SPACE;
    return wgi_char_is_number(flags) ? NUMBER : OTHER;
}

/* Where the run of a class that goes on at `at` ends, of at most `most` code points. */
static inline size_t run_end(const wgi_char_table *chars, const char *text, size_t at, size_t end,
                             char_class class, size_t most)
{
    size_t behind = at;

    while (most-- > 0 && next(chars, text, &behind, end) == class)
        at = behind;
    return at;
}

/* \s+(?!\S)|\s+ on the white run [begin, run): all but its last code point, if something follows.
 */
static inline size_t white_end(const char *text, size_t begin, size_t run, size_t end)
{
    size_t last = run;

    if (run == end) return run;
    (void)wgi_char_before(text, &last);
    return last > begin ? last : run;
}

static bool is_newline(const char *text, size_t at, size_t end)
{
    return at < end && (text[at] == '\n' || text[at] == '\r');
}

/* 's|'t|'re|'ve|'m|'ll|'d behind the apostrophe at `at`: bytes behind it, or 0. */
static size_t contraction(const char *text, size_t at, size_t end, bool ignores_case)
{
    char letters[2] = {0, 0};

    for (size_t i = 0; i < 2 && at + 1 + i < end; i++) {
        char c = text[at + 1 + i];
        letters[i] = ignores_case && c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
    }
    if (letters[0] == 's' || letters[0] == 't' || letters[0] == 'm' || letters[0] == 'd') return 1;
    if (letters[0] == 'r' || letters[0] == 'v') return letters[1] == 'e' ? 2 : 0;
    if (letters[0] == 'l') return letters[1] == 'l' ? 2 : 0;
    /* The long s is an s to who ignores case. */
    return ignores_case && letters[0] == '\xC5' && letters[1] == '\xBF' ? 2 : 0;
}

const char wgi_gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

size_t wgi_scan_gpt2(const wgi_char_table *chars, const char *text, size_t at, size_t end)
{
    size_t begin = at, behind;
    char_class class;

    if (text[at] == '\'') {
        size_t count = contraction(text, at, end, false);
        if (count) return at + 1 + count;
    }
    class = next(chars, text, &at, end);
    if (text[begin] == ' ') { /* " ?" of three alternatives */
        behind = at;
        char_class second = next(chars, text, &behind, end);
        if (second != SPACE && second != END) {
            class = second;
            at = behind;
        }
    }
    at = run_end(chars, text, at, end, class, SIZE_MAX);
    return class == SPACE ? white_end(text, begin, at, end) : at;
}

/* Llama-3 and Qwen2 differ in the most digits of a word. */
static inline size_t scan_llama(const wgi_char_table *chars, const char *text, size_t at,
                                size_t end, size_t digits_max)
{
    size_t begin = at, behind;
    char_class class, second;

    if (text[at] == '\'') {
        size_t count = contraction(text, at, end, true);
        if (count) return at + 1 + count;
    }
    class = next(chars, text, &at, end);
    if (class == LETTER) return run_end(chars, text, at, end, LETTER, SIZE_MAX);
    if (class == NUMBER) return run_end(chars, text, at, end, NUMBER, digits_max - 1);
    behind = at;
    second = next(chars, text, &behind, end);
    /* [^\r\n\p{L}\p{N}]?\p{L}+ */
    if (second == LETTER && !is_newline(text, begin, end))
        return run_end(chars, text, behind, end, LETTER, SIZE_MAX);
    /* " ?[^\s\p{L}\p{N}]+[\r\n]*" */
    if (text[begin] == ' ' && second == OTHER) class = OTHER;
    if (class == OTHER) {
        at = run_end(chars, text, at, end, OTHER, SIZE_MAX);
        while (is_newline(text, at, end))
            at++;
        return at;
    }
    /* \s*[\r\n]+ ends behind the last line end of the run. */
    at = run_end(chars, text, at, end, SPACE, SIZE_MAX);
    for (size_t last = at; last > begin; last--)
        if (is_newline(text, last - 1, end)) return last;
    return white_end(text, begin, at, end);
}

static size_t scan_llama3(const wgi_char_table *chars, const char *text, size_t at, size_t end)
{
    return scan_llama(chars, text, at, end, 3);
}

static size_t scan_qwen2(const wgi_char_table *chars, const char *text, size_t at, size_t end)
{
    return scan_llama(chars, text, at, end, 1);
}

typedef struct scan_row {
    const char *pattern;
    wgi_split_scan *scan;
} scan_row;

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define OTHERS       "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const scan_row rows[] = {
    {wgi_gpt2_pattern, wgi_scan_gpt2},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     wgi_scan_gpt2},
    {CONTRACTIONS "\\p{N}{1,3}" OTHERS, scan_llama3},
    {CONTRACTIONS "\\p{N}" OTHERS, scan_qwen2},
};

wgi_split_scan *wgi_split_scan_find(wgi_slice pattern)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (wgi_slice_is(pattern, rows[i].pattern)) return rows[i].scan;
    return NULL;
}

bool wgi_split_scan_at(size_t index, const char **pattern, wgi_split_scan **scan)
{
    if (index >= sizeof(rows) / sizeof(rows[0])) return false;
    *pattern = rows[index].pattern;
    *scan = rows[index].scan;
    return true;
}
