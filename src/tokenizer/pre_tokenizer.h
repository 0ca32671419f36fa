/*
 * pre_tokenizer.h - the stage that splits normalised text into words for the model: a list of
 * steps, each of which splits or rewrites every piece of the step before. A pre-tokeniser of the
 * file is a row of the table in pre_tokenizer.c, which writes it down as one step or some.
 *
 *   " a b" ─▶ Metaspace: rewrite " " as "▁", split before "▁" ─▶ "▁a" "▁b"
 */
#ifndef WGI_PRE_TOKENIZER_H
#define WGI_PRE_TOKENIZER_H

#include "base/json.h"
#include "tokenizer/file_part.h"
#include "tokenizer/pattern.h"
#include "tokenizer/split_scan.h"
#include "tokenizer/unicode.h"

#define WGI_PRE_TOKENIZER_STEPS_MAX 32

/* Buffers of one text at a time; zero to begin. */
typedef struct wgi_pre_scratch {
    wgi_spans words, spare;
    wgi_buf texts[2]; /* of rewriting steps, by turns */
    wgi_pattern_stack stack;
} wgi_pre_scratch;

typedef enum wgi_behavior {
    WGI_BEHAVIOR_REMOVED,
    WGI_BEHAVIOR_ISOLATED,
    WGI_BEHAVIOR_MERGED_WITH_PREVIOUS,
    WGI_BEHAVIOR_MERGED_WITH_NEXT,
    WGI_BEHAVIOR_CONTIGUOUS
} wgi_behavior;

typedef enum wgi_prepend_scheme {
    WGI_PREPEND_NONE, /* no Metaspace */
    WGI_PREPEND_ALWAYS,
    WGI_PREPEND_FIRST,
    WGI_PREPEND_NEVER
} wgi_prepend_scheme;

typedef struct wgi_pre_step wgi_pre_step;

/* What a step works on. */
typedef struct wgi_pre_run {
    const wgi_char_table *chars;
    const char *text;
    wgi_spans *out;
    wgi_buf *rewritten; /* of a rewriting step, whose spans lie in it */
    wgi_pattern_stack *stack;
    bool is_first; /* the text is the begin of the document */
} wgi_pre_run;

/* Appends the words of text[piece.begin, piece.end), none of them empty. */
typedef wg_status wgi_pre_tokenizer_run(const wgi_pre_step *step, const wgi_pre_run *run,
                                        wgi_span piece, wg_error *err);

struct wgi_pre_step {
    wgi_pre_tokenizer_run *run;
    bool rewrites;
    bool drops_blanks; /* blanks belong to no word, so a text may be cut before any of them */
    /* Of splits: what matches is found by the first of these that is set. */
    wgi_split_scan *scan;
    wgi_pattern *pattern; /* owned */
    char *literal;        /* owned; also what Metaspace puts for a blank */
    size_t literal_bytes;
    uint32_t flag; /* of code points */
    wgi_behavior behavior;
    bool is_inverted;
    wgi_prepend_scheme prepend;
};

typedef struct wgi_pre_tokenizer {
    wgi_pre_step steps[WGI_PRE_TOKENIZER_STEPS_MAX];
    size_t step_count;
    bool splits_at_space; /* all steps drop blanks */
    bool cuts_at_space;   /* a text may be cut before a blank behind a letter, digit or sign */
    bool has_first;       /* Metaspace asks for the begin of the document */
} wgi_pre_tokenizer;

wg_status wgi_pre_tokenizer_load(wgi_pre_tokenizer *pre_tokenizer, wgi_slice part,
                                 wgi_refusals *refusals, wg_error *err);
void wgi_pre_tokenizer_fini(wgi_pre_tokenizer *pre_tokenizer);

/* Is the last step the one that writes bytes as letters? If so, it can be taken off. */
bool wgi_pre_tokenizer_maps_bytes(const wgi_pre_tokenizer *pre_tokenizer);
void wgi_pre_tokenizer_keep_bytes(wgi_pre_tokenizer *pre_tokenizer);
/* One step more: words end before every run of `literal`. */
wg_status wgi_pre_tokenizer_split_runs(wgi_pre_tokenizer *pre_tokenizer, wgi_slice literal,
                                       wg_error *err);
/*
 * Says how a text may be cut, once all steps are known. `blank` is what the normaliser makes of a
 * blank, empty when nobody knows; may_end_blank: it may put another before that one.
 */
void wgi_pre_tokenizer_settle(wgi_pre_tokenizer *pre_tokenizer, wgi_slice blank,
                              bool may_end_blank);

/*
 * Fills scratch->words; they lie in *out, which is the text itself or lies in scratch, with
 * WGI_TEXT_SLACK readable bytes behind it if the text has them.
 */
wg_status wgi_pre_tokenize(const wgi_pre_tokenizer *pre_tokenizer, const wgi_char_table *chars,
                           wgi_slice text, bool is_first, wgi_pre_scratch *scratch, wgi_slice *out,
                           wg_error *err);
void wgi_pre_scratch_fini(wgi_pre_scratch *scratch);

wg_status wgi_span_push(wgi_spans *out, size_t begin, size_t end, wg_error *err);

/* The steps, each in its file. */
wgi_pre_tokenizer_run wgi_split; /* pre_split.c */
wgi_pre_tokenizer_run wgi_split_before_runs;
wgi_pre_tokenizer_run wgi_split_bert;
wgi_pre_tokenizer_run wgi_split_whitespace;
wgi_pre_tokenizer_run wgi_split_whitespace_split;
wgi_pre_tokenizer_run wgi_write_metaspace; /* pre_write.c */
wgi_pre_tokenizer_run wgi_write_prefix_space;
wgi_pre_tokenizer_run wgi_write_bytes;

#endif
