/*
 * pre_split.c - the steps that split: by classes of code points, by a pattern, by a string.
 *
 * The idea: a splitter of words gives each code point one of a few classes and cuts where the class
 * changes, so one loop serves those. The others give stretches that match and stretches that do
 * not, in turn, and one of five behaviours says which of them become words and which are joined;
 * it looks at one stretch back at most, so stretches are never kept.
 *
 * Threads: read-only once loaded; spans belong to the caller.
 */
#include <string.h>

#include "base/alloc.h"
#include "tokenizer/pre_tokenizer.h"

enum { CLASS_SPACE, CLASS_WORD, CLASS_OTHER, CLASS_ALONE };

/* The class of a code point out of its flags. */
typedef unsigned classify(uint32_t flags);

static unsigned class_bert(uint32_t flags)
{
    if (flags & WGI_CHAR_SPACE) return CLASS_SPACE;
    return flags & WGI_CHAR_PUNCTUATION ? CLASS_ALONE : CLASS_WORD;
}

static unsigned class_whitespace(uint32_t flags)
{
    if (flags & WGI_CHAR_SPACE) return CLASS_SPACE;
    return flags & WGI_CHAR_WORD ? CLASS_WORD : CLASS_OTHER;
}

static unsigned class_whitespace_split(uint32_t flags)
{
    return flags & WGI_CHAR_SPACE ? CLASS_SPACE : CLASS_WORD;
}

/* Runs of one class are words; blanks are none; CLASS_ALONE is a word each. Inlined a splitter. */
static inline __attribute__((always_inline)) wg_status
split_classes(classify *class_of, const wgi_pre_run *run, wgi_span piece, wg_error *err)
{
    size_t at = piece.begin, begin = piece.begin;
    unsigned open = CLASS_SPACE; /* class of the run [begin, at) */
    wg_status status = WG_OK;

    while (at < piece.end) {
        size_t here = at;
        unsigned class = class_of(wgi_char_flags(run->chars, wgi_char_next(run->text, &at)));
        if (class == open && class != CLASS_ALONE) continue;
        if (open != CLASS_SPACE) {
            status = wgi_span_push(run->out, begin, here, err);
            if (status != WG_OK) return status;
        }
        open = class;
        begin = here;
    }
    return open != CLASS_SPACE ? wgi_span_push(run->out, begin, at, err) : WG_OK;
}

wg_status wgi_split_bert(const wgi_pre_step *step, const wgi_pre_run *run, wgi_span piece,
                         wg_error *err)
{
    (void)step;
    return split_classes(class_bert, run, piece, err);
}

wg_status wgi_split_whitespace(const wgi_pre_step *step, const wgi_pre_run *run, wgi_span piece,
                               wg_error *err)
{
    (void)step;
    return split_classes(class_whitespace, run, piece, err);
}

wg_status wgi_split_whitespace_split(const wgi_pre_step *step, const wgi_pre_run *run,
                                     wgi_span piece, wg_error *err)
{
    (void)step;
    return split_classes(class_whitespace_split, run, piece, err);
}

/* ----------------------------------------------------------------------------- behaviours */

/* The stretches of one piece, as they come. */
typedef struct joiner {
    const wgi_pre_step *step;
    wgi_spans *out;
    size_t before;  /* spans of other pieces */
    bool was_match; /* the stretch before */
    bool has_held;  /* MERGED_WITH_NEXT: a match waits for what follows */
    wgi_span held;
} joiner;

static wg_status push(joiner *join, size_t begin, size_t end, wg_error *err)
{
    return begin < end ? wgi_span_push(join->out, begin, end, err) : WG_OK;
}

static wg_status flush(joiner *join, wg_error *err)
{
    wg_status status = WG_OK;

    if (join->has_held) status = push(join, join->held.begin, join->held.end, err);
    join->has_held = false;
    return status;
}

static wg_status put(joiner *join, size_t begin, size_t end, bool is_match, wg_error *err)
{
    wg_status status = WG_OK;
    bool was_match = join->was_match, has_last = join->out->count > join->before;

    if (begin == end) return WG_OK;
    is_match = is_match != join->step->is_inverted;
    join->was_match = is_match;
    switch (join->step->behavior) {
    case WGI_BEHAVIOR_REMOVED:
        return is_match ? WG_OK : push(join, begin, end, err);
    case WGI_BEHAVIOR_ISOLATED:
        return push(join, begin, end, err);
    case WGI_BEHAVIOR_CONTIGUOUS:
        if (is_match != was_match || !has_last) return push(join, begin, end, err);
        break;
    case WGI_BEHAVIOR_MERGED_WITH_PREVIOUS:
        if (!is_match || was_match || !has_last) return push(join, begin, end, err);
        break;
    case WGI_BEHAVIOR_MERGED_WITH_NEXT:
        if (!is_match && join->has_held) {
            join->has_held = false;
            return push(join, join->held.begin, end, err);
        }
        status = flush(join, err);
        if (!is_match || status != WG_OK)
            return status == WG_OK ? push(join, begin, end, err) : status;
        join->held = (wgi_span){(uint32_t)begin, (uint32_t)end};
        join->has_held = true;
        return WG_OK;
    }
    join->out->items[join->out->count - 1].end = (uint32_t)end;
    return WG_OK;
}

/* -------------------------------------------------------------------------------- matches */

/* The next stretch in [at, end) that matches; empty and at the end when there is none. */
static wg_status next_match(const wgi_pre_step *step, const wgi_pre_run *run, size_t at, size_t end,
                            wgi_span *match, wg_error *err)
{
    *match = (wgi_span){(uint32_t)end, (uint32_t)end};
    if (step->pattern)
        return wgi_pattern_next(step->pattern, run->chars, run->text, at, end, run->stack, match,
                                err);
    if (step->literal) {
        const char *found = memmem(run->text + at, end - at, step->literal, step->literal_bytes);
        if (!found) return WG_OK;
        match->begin = (uint32_t)(found - run->text);
        match->end = match->begin + (uint32_t)step->literal_bytes;
        return WG_OK;
    }
    while (at < end) {
        size_t here = at;
        if (!(wgi_char_flags(run->chars, wgi_char_next(run->text, &at)) & step->flag)) continue;
        *match = (wgi_span){(uint32_t)here, (uint32_t)at};
        return WG_OK;
    }
    return WG_OK;
}

static wg_status split_scan(const wgi_pre_step *step, const wgi_pre_run *run, wgi_span piece,
                            wg_error *err)
{
    wgi_spans *out = run->out;

    for (size_t at = piece.begin; at < piece.end;) {
        size_t end = step->scan(run->chars, run->text, at, piece.end);
        if (out->count == out->capacity) {
            wg_status status =
                wgi_grow(&out->items, &out->capacity, out->count + 1, sizeof(*out->items), err);
            if (status != WG_OK) return status;
        }
        out->items[out->count++] = (wgi_span){(uint32_t)at, (uint32_t)end};
        at = end;
    }
    return WG_OK;
}

wg_status wgi_split(const wgi_pre_step *step, const wgi_pre_run *run, wgi_span piece, wg_error *err)
{
    wg_status status = WG_OK;
    joiner join = {.step = step, .out = run->out, .before = run->out->count};

    if (step->scan) return split_scan(step, run, piece, err);
    for (size_t at = piece.begin; at < piece.end;) {
        wgi_span match;
        WGI_TRY(next_match(step, run, at, piece.end, &match, err));
        WGI_TRY(put(&join, at, match.begin, false, err));
        WGI_TRY(put(&join, match.begin, match.end, true, err));
        at = match.end;
    }
    WGI_TRY(flush(&join, err));

cleanup:
    return status;
}

wg_status wgi_split_before_runs(const wgi_pre_step *step, const wgi_pre_run *run, wgi_span piece,
                                wg_error *err)
{
    wg_status status = WG_OK;
    size_t begin = piece.begin, at = piece.begin;

    while (at < piece.end) {
        const char *found =
            memmem(run->text + at, piece.end - at, step->literal, step->literal_bytes);
        if (!found) break;
        size_t here = (size_t)(found - run->text);
        if (here > at) {
            WGI_TRY(wgi_span_push(run->out, begin, here, err));
            begin = here;
        }
        at = here + step->literal_bytes;
    }
    WGI_TRY(wgi_span_push(run->out, begin, piece.end, err));

cleanup:
    return status;
}
