/*
 * normalizer.h - the stage that rewrites text before it is split: a list of steps, each from
 * UTF-8 to UTF-8. A normaliser of the file is a row of a table in normalizer.c.
 */
#ifndef WGI_NORMALIZER_H
#define WGI_NORMALIZER_H

#include "base/buf.h"
#include "base/json.h"
#include "tokenizer/file_part.h"
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

#define WGI_NORMALIZER_STEPS_MAX 32

/* A code point with its combining class above it, so that one comparison sorts. */
typedef uint32_t wgi_mark;
#define WGI_MARK_CLASS(mark) ((mark) >> 24)
#define WGI_MARK_CHAR(mark)  ((mark)&0x1FFFFFu)

typedef struct wgi_marks {
    wgi_mark *items;
    size_t count, capacity;
    wgi_mark *spare; /* for sorting long runs */
    size_t spare_capacity;
} wgi_marks;

/* Buffers of one text at a time; zero to begin. */
typedef struct wgi_normalizer_scratch {
    wgi_buf texts[2];
    wgi_marks marks;
    wgi_pattern_stack stack;
} wgi_normalizer_scratch;

/* The character map of Precompiled; see charsmap.h. */
typedef struct wgi_charsmap wgi_charsmap;

typedef struct wgi_normalizer_step wgi_normalizer_step;

/* Appends the rewritten text to out; nothing but the texts of scratch is free for it to use. */
typedef wg_status wgi_normalizer_run(const wgi_normalizer_step *step, const wgi_char_table *chars,
                                     wgi_slice text, wgi_buf *out, wgi_normalizer_scratch *scratch,
                                     wg_error *err);

struct wgi_normalizer_step {
    wgi_normalizer_run *run;
    bool is_compat, is_composed;                              /* of the normal forms */
    bool clean_text, chinese_chars, strip_accents, lowercase; /* of BertNormalizer */
    unsigned char ascii[128]; /* BertNormalizer: what an ASCII byte becomes; 0x80: dropped */
    bool strip_left, strip_right;
    wgi_pattern *pattern; /* Replace: what is replaced is this or `literal`; owned, like the rest */
    char *literal, *content;
    size_t literal_bytes, content_bytes; /* Prepend has a content alone */
    wgi_charsmap *charsmap;
};

typedef struct wgi_normalizer {
    wgi_normalizer_step steps[WGI_NORMALIZER_STEPS_MAX];
    size_t step_count;
    bool isolates_chinese; /* every Chinese character comes out between blanks */
    bool keeps_blanks;     /* what becomes of a text does not depend on what is beyond a blank */
    bool keeps_begin;      /* something of the first character stays, and stays first */
} wgi_normalizer;

/* Readable bytes behind every text that goes from stage to stage. */
#define WGI_TEXT_SLACK 16

/* part: the file's "normalizer", null allowed. */
wg_status wgi_normalizer_load(wgi_normalizer *normalizer, wgi_slice part, wgi_refusals *refusals,
                              wg_error *err);
void wgi_normalizer_fini(wgi_normalizer *normalizer);
/*
 * What becomes of a blank behind a letter, digit or sign, when texts cut before such blanks give
 * the same as whole ones; else empty. Borrowed from the normaliser. *may_end_blank: what is before
 * the cut may end with a blank by then, or be gone.
 */
wgi_slice wgi_normalizer_blank(const wgi_normalizer *normalizer, bool *may_end_blank);
/*
 * *out lies in scratch until the next call. text is well-formed UTF-8; is_begin: nothing of it was
 * cut off in front.
 */
wg_status wgi_normalize(const wgi_normalizer *normalizer, const wgi_char_table *chars,
                        wgi_slice text, bool is_begin, wgi_normalizer_scratch *scratch,
                        wgi_slice *out, wg_error *err);
void wgi_normalizer_scratch_fini(wgi_normalizer_scratch *scratch);

/* The steps, each in its file. */
wgi_normalizer_run wgi_bert_normalize;
wgi_normalizer_run wgi_normal_form;
wgi_normalizer_run wgi_lowercase;
wgi_normalizer_run wgi_strip_accents;
wgi_normalizer_run wgi_replace; /* replace.c */
wgi_normalizer_run wgi_prepend;
wgi_normalizer_run wgi_strip;
wgi_normalizer_run wgi_nmt;
wgi_normalizer_run wgi_letters_of_bytes;
wgi_normalizer_run wgi_precompiled; /* charsmap.c */
void wgi_bert_normalizer_prepare(wgi_normalizer_step *step);

/* Puts runs of marks (items whose class is not 0) in canonical order. */
wg_status wgi_marks_sort(wgi_marks *marks, wg_error *err);
wg_status wgi_marks_push(wgi_marks *marks, uint32_t code_point, unsigned class, wg_error *err);

#endif
