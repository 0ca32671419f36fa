/*
 * unicode.h - what a code point is, as Hugging Face tokenizers sees it.
 *
 * That package takes its classes from four libraries of four Unicode versions, so the flags are
 * measured (tools/make_unicode_tables.py) and not taken from one version of the standard.
 * Decompositions, compositions and combining classes come from utf8proc, which never changes them
 * for a code point that has them; the flags say which code points have them here, so a newer
 * utf8proc gives the same ids.
 */
#ifndef WGI_UNICODE_H
#define WGI_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The order is that of FLAGS in tools/make_unicode_tables.py. */
enum {
    WGI_CHAR_CLEANED = 1 << 0,     /* BertNormalizer's clean_text drops it */
    WGI_CHAR_NONSPACING = 1 << 1,  /* BertNormalizer's strip_accents drops it */
    WGI_CHAR_MARK = 1 << 2,        /* StripAccents drops it */
    WGI_CHAR_PUNCTUATION = 1 << 3, /* BertPreTokenizer isolates it */
    WGI_CHAR_WORD = 1 << 4,        /* \w */
    WGI_CHAR_SPACE = 1 << 5,       /* \s */
    WGI_CHAR_LOWER = 1 << 6,       /* has another lower case */
    WGI_CHAR_CANONICAL = 1 << 7,   /* has a canonical decomposition */
    WGI_CHAR_COMPAT = 1 << 8,      /* NFKD differs from NFD */
    WGI_CHAR_NONSTARTER = 1 << 9,  /* its combining class is not 0 */
    WGI_CHAR_CHINESE = 1 << 10,    /* BertNormalizer's handle_chinese_chars puts blanks round it */
    WGI_CHAR_NUMERIC = 1 << 11,    /* Digits isolates it */
    WGI_CHAR_PATTERN_WORD = 1 << 12, /* \w of a pattern in the file, which is another one */
    /* Grapheme clusters, as Precompiled sees them: */
    WGI_CHAR_JOINS = 1 << 13,      /* goes with what is before it: Extend, SpacingMark, ZWJ */
    WGI_CHAR_PREPENDS = 1 << 14,   /* goes with what is behind it */
    WGI_CHAR_CONTROL = 1 << 15,    /* goes with nothing */
    WGI_CHAR_PICTOGRAPH = 1 << 16, /* Extended_Pictographic */
    WGI_CHAR_CONSONANT = 1 << 17,  /* Indic_Conjunct_Break */
    WGI_CHAR_LINKER = 1 << 18,
    WGI_CHAR_CONJUNCT = 1 << 19,  /* ... Extend, and linkers */
    WGI_CHAR_CLASS_WORD = 1 << 20 /* \w of a pattern between brackets, which is yet another */
};

/* General categories, as patterns see them; the order is that of CATEGORIES in the same script. */
typedef enum wgi_category {
    WGI_CATEGORY_CN,
    WGI_CATEGORY_LU,
    WGI_CATEGORY_LL,
    WGI_CATEGORY_LT,
    WGI_CATEGORY_LM,
    WGI_CATEGORY_LO,
    WGI_CATEGORY_MN,
    WGI_CATEGORY_MC,
    WGI_CATEGORY_ME,
    WGI_CATEGORY_ND,
    WGI_CATEGORY_NL,
    WGI_CATEGORY_NO,
    WGI_CATEGORY_PC,
    WGI_CATEGORY_PD,
    WGI_CATEGORY_PS,
    WGI_CATEGORY_PE,
    WGI_CATEGORY_PI,
    WGI_CATEGORY_PF,
    WGI_CATEGORY_PO,
    WGI_CATEGORY_SM,
    WGI_CATEGORY_SC,
    WGI_CATEGORY_SK,
    WGI_CATEGORY_SO,
    WGI_CATEGORY_ZS,
    WGI_CATEGORY_ZL,
    WGI_CATEGORY_ZP,
    WGI_CATEGORY_CC,
    WGI_CATEGORY_CF,
    WGI_CATEGORY_CO
} wgi_category;

#define WGI_CHAR_CATEGORY(flags) ((flags) >> 24)

/* Is the category of these flags LU to LO, ND to NO? */
static inline bool wgi_char_is_letter(uint32_t flags)
{
    return WGI_CHAR_CATEGORY(flags) - WGI_CATEGORY_LU <= WGI_CATEGORY_LO - WGI_CATEGORY_LU;
}
static inline bool wgi_char_is_number(uint32_t flags)
{
    return WGI_CHAR_CATEGORY(flags) - WGI_CATEGORY_ND <= WGI_CATEGORY_NO - WGI_CATEGORY_ND;
}

typedef struct wgi_char_range {
    uint32_t first, last;
    uint32_t flags;
} wgi_char_range;

/* first, first + stride, ... last have lower case at + delta. */
typedef struct wgi_lower_run {
    uint32_t first, last;
    uint8_t stride;
    int32_t delta;
} wgi_lower_run;

extern const wgi_char_range wgi_char_ranges[];
extern const size_t wgi_char_range_count;
extern const wgi_lower_run wgi_lower_runs[];
extern const size_t wgi_lower_run_count;

#define WGI_CHAR_FLAT 0x20000u /* below it flags are one load, above it a search */

/* The ranges laid flat; one a process. */
typedef struct wgi_char_table {
    uint32_t flags[WGI_CHAR_FLAT];
} wgi_char_table;

/* Filled by the first call; any thread. */
const wgi_char_table *wgi_char_table_shared(void);
uint32_t wgi_char_search(uint32_t code_point);

static inline uint32_t wgi_char_flags(const wgi_char_table *table, uint32_t code_point)
{
    return code_point < WGI_CHAR_FLAT ? table->flags[code_point] : wgi_char_search(code_point);
}

/* Writes the lower case, one or two code points, and returns how many. */
size_t wgi_char_lower(uint32_t code_point, uint32_t out[2]);

#define WGI_DECOMPOSED_MAX 18 /* U+FDFA */

/* For a code point that has one: its full decomposition; returns how many were written. */
size_t wgi_char_decompose(uint32_t code_point, bool is_compat, uint32_t out[WGI_DECOMPOSED_MAX]);
/* For a code point that is no starter: its canonical combining class, 1 to 254. */
unsigned wgi_char_combining_class(uint32_t code_point);
/* What the pair composes to canonically, or 0. */
uint32_t wgi_char_compose(const wgi_char_table *table, uint32_t first, uint32_t second);

/* Decodes one code point of well-formed UTF-8 at *at, moves *at behind it. */
static inline uint32_t wgi_char_next(const char *text, size_t *at)
{
    const unsigned char *p = (const unsigned char *)text + *at;

    if (p[0] < 0x80) {
        *at += 1;
        return p[0];
    }
    if (p[0] < 0xE0) {
        *at += 2;
        return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
    }
    if (p[0] < 0xF0) {
        *at += 3;
        return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    }
    *at += 4;
    return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

/* The code point that ends at *at (> 0), and moves *at before it. */
static inline uint32_t wgi_char_before(const char *text, size_t *at)
{
    size_t begin = *at - 1;

    while (((unsigned char)text[begin] & 0xC0) == 0x80)
        begin--;
    *at = begin;
    return wgi_char_next(text, &begin);
}

#endif
