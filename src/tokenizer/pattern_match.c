/*
 * pattern_match.c - runs a compiled pattern over a text.
 *
 * The idea: a backtracking matcher (as Perl's and Oniguruma's are, so that alternatives are taken
 * in the same order) with its ways back on a stack of its own, so neither a long text nor a nested
 * pattern can use up the thread's. A repetition of one class, which is nearly all that split
 * patterns are made of, is a single entry of that stack however long its run. Refused: an automaton
 * without ways back (it finds the longest match, not the first), and PCRE2 (its tables are of
 * another Unicode version than the library's whose answers are wanted).
 *
 * Threads: patterns are read-only; the stack belongs to the caller.
 */
#include "tokenizer/pattern.h"

#include "base/alloc.h"
#include "tokenizer/pattern_parts.h"

#define STEPS_MAX 10000000 /* ways back in one search; the original gives up at as many */

typedef struct match_run {
    const wgi_pattern *pattern;
    const wgi_char_table *chars;
    const char *text;
    size_t end;
    wgi_pattern_stack *stack;
    wg_error *err;
} match_run;

enum { FRAME_SPLIT, FRAME_GREEDY, FRAME_LAZY };

bool wgi_pattern_set_has(const wgi_pattern *pattern, const wgi_pattern_set *set,
                         uint32_t code_point, uint32_t flags)
{
    bool is_in = set->categories >> WGI_CHAR_CATEGORY(flags) & 1;

    if (flags & set->with || ~flags & set->without) is_in = true;
    for (uint32_t i = 0; i < set->ranges && !is_in; i++) {
        const wgi_pattern_range *range = &pattern->ranges[set->first_range + i];
        is_in = range->first <= code_point && code_point <= range->last;
    }
    return is_in != set->is_negated;
}

/* Takes one code point of the set at *at. */
static bool take(const match_run *run, const wgi_pattern_set *set, size_t *at)
{
    size_t next = *at;

    if (next >= run->end) return false;
    unsigned char byte = (unsigned char)run->text[next];
    if (byte < 0x80) {
        if (!(set->ascii[byte >> 5] >> (byte & 31) & 1)) return false;
        *at = next + 1;
        return true;
    }
    uint32_t code_point = wgi_char_next(run->text, &next);
    if (!wgi_pattern_set_has(run->pattern, set, code_point, wgi_char_flags(run->chars, code_point)))
        return false;
    *at = next;
    return true;
}

static wg_status push(match_run *run, uint32_t kind, size_t code, size_t at, size_t most)
{
    wgi_pattern_stack *stack = run->stack;
    wg_status status = WG_OK;

    if (stack->count == stack->capacity)
        status = wgi_grow(&stack->frames, &stack->capacity, stack->count + 1,
                          sizeof(*stack->frames), run->err);
    if (status == WG_OK)
        stack->frames[stack->count++] =
            (wgi_pattern_frame){(uint32_t)code, (uint32_t)at, (uint32_t)most, kind};
    return status;
}

/* A repetition; false when it is too short. */
static wg_status repeat(match_run *run, size_t pc, size_t *at, bool *is_good)
{
    const wgi_pattern_code *code = &run->pattern->code[pc];
    const wgi_pattern_set *set = &run->pattern->sets[code->a];
    size_t here = *at, count = 0, shortest;
    wg_status status = WG_OK;

    while (count < code->min && take(run, set, &here))
        count++;
    *is_good = count == code->min;
    if (!*is_good) return WG_OK;
    shortest = here;
    if (code->mode == WGI_PATTERN_LAZY) {
        size_t longest = here;
        while (count < code->max && take(run, set, &longest))
            count++;
        if (longest > here) status = push(run, FRAME_LAZY, pc + 1, here, longest);
    } else {
        while (count < code->max && take(run, set, &here))
            count++;
        if (code->mode == WGI_PATTERN_GREEDY && here > shortest)
            status = push(run, FRAME_GREEDY, pc + 1, here, shortest);
    }
    *at = here;
    return status;
}

/* The last way back, if there is one above `base`. */
static bool turn_back(match_run *run, size_t base, size_t *pc, size_t *at)
{
    wgi_pattern_stack *stack = run->stack;

    if (stack->count == base) return false;
    wgi_pattern_frame *frame = &stack->frames[stack->count - 1];
    size_t here = frame->at;
    stack->steps++;
    *pc = frame->code;
    if (frame->kind == FRAME_GREEDY) {
        (void)wgi_char_before(run->text, &here);
    } else if (frame->kind == FRAME_LAZY) {
        (void)wgi_char_next(run->text, &here);
    }
    frame->at = (uint32_t)here;
    if (frame->kind == FRAME_SPLIT || here == frame->most) stack->count--;
    *at = here;
    return true;
}

/* Matches from code pc on at *at; *at is the end then. Recursion is as deep as LOOKs are nested. */
static wg_status match(match_run *run, size_t pc, size_t *at, bool *is_match)
{
    const size_t base = run->stack->count;
    wg_status status = WG_OK;
    size_t here = *at, ahead;
    bool is_good = true;

    for (;;) {
        const wgi_pattern_code *code = &run->pattern->code[pc];
        is_good = true;
        switch (code->op) {
        case WGI_PATTERN_SET:
            is_good = take(run, &run->pattern->sets[code->a], &here);
            pc++;
            break;
        case WGI_PATTERN_REPEAT:
            WGI_TRY(repeat(run, pc, &here, &is_good));
            pc++;
            break;
        case WGI_PATTERN_SPLIT:
            WGI_TRY(push(run, FRAME_SPLIT, code->b, here, here));
            pc = code->a;
            break;
        case WGI_PATTERN_JUMP:
            pc = code->a;
            break;
        case WGI_PATTERN_LOOK:
            ahead = here;
            WGI_TRY(match(run, pc + 1, &ahead, &is_good));
            is_good = is_good != code->is_negative;
            pc = code->a;
            break;
        case WGI_PATTERN_MATCH:
            *at = here;
            *is_match = true;
            goto cleanup;
        }
        if (is_good) continue;
        if (!turn_back(run, base, &pc, &here)) break;
        if (run->stack->steps > STEPS_MAX) {
            status = wgi_fail(run->err, WG_ERR_LIMIT,
                              "a pattern of the tokenizer turns back more than %d times in a text",
                              STEPS_MAX);
            goto cleanup;
        }
    }
    *is_match = false;

cleanup:
    run->stack->count = base;
    return status;
}

wg_status wgi_pattern_next(const wgi_pattern *pattern, const wgi_char_table *chars,
                           const char *text, size_t at, size_t end, wgi_pattern_stack *stack,
                           wgi_span *found, wg_error *err)
{
    match_run run = {pattern, chars, text, end, stack, err};

    stack->count = 0;
    stack->steps = 0;
    while (at < end) {
        bool is_match = false;
        size_t behind = at;
        wg_status status = match(&run, 0, &behind, &is_match);
        if (status != WG_OK) return status;
        if (is_match) {
            *found = (wgi_span){(uint32_t)at, (uint32_t)behind};
            return WG_OK;
        }
        (void)wgi_char_next(text, &at);
    }
    *found = (wgi_span){(uint32_t)end, (uint32_t)end};
    return WG_OK;
}
