/*
 * pattern.h - regular expressions of a tokenizer.json, matched as Hugging Face tokenizers matches
 * them: leftmost, alternatives in their order, repetitions greedy with a way back.
 *
 *     wgi_pattern *pattern = NULL;
 *     const char *reason = NULL;
 *     WGI_TRY(wgi_pattern_open(&pattern, (wgi_slice){" {2,}", 5}, &reason, err));
 *     if (!pattern) ... "not supported: reason"
 *     while (...) WGI_TRY(wgi_pattern_next(pattern, chars, text, at, end, stack, &match, err));
 */
#ifndef WGI_PATTERN_H
#define WGI_PATTERN_H

#include "base/json.h"
#include "tokenizer/unicode.h"

/* Bytes of a text; texts are shorter than 4 GiB. */
typedef struct wgi_span {
    uint32_t begin, end;
} wgi_span;

typedef struct wgi_spans {
    wgi_span *items;
    size_t count, capacity;
} wgi_spans;

/* One way back of a match. */
typedef struct wgi_pattern_frame {
    uint32_t code; /* where to go on */
    uint32_t at;   /* and with what of the text */
    uint32_t most; /* a repetition: the end of its longest run (lazy) or of its shortest (greedy) */
    uint32_t kind;
} wgi_pattern_frame;

/* Zero it to begin; wgi_free(frames) to end. */
typedef struct wgi_pattern_stack {
    wgi_pattern_frame *frames;
    size_t count, capacity;
    size_t steps; /* ways back taken since the search began */
} wgi_pattern_stack;

typedef struct wgi_pattern wgi_pattern;

/*
 * Compiles. What is not supported (and what is no pattern) gives WG_OK, *out NULL and *reason, a
 * few words that stay. Patterns that can match nothing at all are among them.
 */
wg_status wgi_pattern_open(wgi_pattern **out, wgi_slice source, const char **reason, wg_error *err);
void wgi_pattern_close(wgi_pattern *pattern);

/*
 * The first match in text[at, end); match->begin == match->end when there is none. Nothing outside
 * the range is seen. A search that turns back too often is WG_ERR_LIMIT.
 */
wg_status wgi_pattern_next(const wgi_pattern *pattern, const wgi_char_table *chars,
                           const char *text, size_t at, size_t end, wgi_pattern_stack *stack,
                           wgi_span *match, wg_error *err);

#endif
