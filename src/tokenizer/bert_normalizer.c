/*
 * bert_normalizer.c - BertNormalizer in one pass: clean, blanks round Chinese characters, NFD
 * without non-spacing marks, lower case.
 *
 *   bytes ─▶ clean ─▶ blanks ─▶ decompose ─▶ [pending marks, sorted] ─▶ drop marks ─▶ lower ─▶ out
 *
 * The idea: every part works on one code point at a time, but for canonical order, which moves
 * marks only inside their run; so marks wait in a small list until a starter comes. ASCII never
 * leaves the first loop, which is a table of 128 bytes. Refused: one pass a part, as the original
 * has it (five times over the memory).
 *
 * Threads: see normalizer.c.
 */
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/normalizer.h"

/* Room for the longest thing that one code point becomes: a blank, 18 code points, a blank. */
#define ROOM_MIN (WGI_DECOMPOSED_MAX * 8 + 2)

typedef struct bert_run {
    const wgi_normalizer_step *step;
    const wgi_char_table *chars;
    wgi_marks *marks;
    char *out;
} bert_run;

void wgi_bert_normalizer_prepare(wgi_normalizer_step *step)
{
    for (int c = 0; c < 128; c++) {
        bool is_white = c == '\t' || c == '\n' || c == '\r';
        int to = c;
        if (step->clean_text && is_white) to = ' ';
        if (step->clean_text && !is_white && (c < 0x20 || c == 0x7F)) to = 0x80;
        if (step->lowercase && c >= 'A' && c <= 'Z') to = c + 'a' - 'A';
        step->ascii[c] = (unsigned char)to;
    }
}

/* Drops a mark or writes the code point in lower case. */
static void emit(bert_run *run, uint32_t code_point, unsigned flags)
{
    uint32_t lower[2] = {code_point};
    size_t count = 1;

    if (run->step->strip_accents && (flags & WGI_CHAR_NONSPACING)) return;
    if (run->step->lowercase && (flags & WGI_CHAR_LOWER)) count = wgi_char_lower(code_point, lower);
    for (size_t i = 0; i < count; i++)
        run->out += wgi_utf8_put(lower[i], run->out);
}

static wg_status flush(bert_run *run, wgi_buf *out, size_t input_left, wg_error *err)
{
    wg_status status = wgi_marks_sort(run->marks, err);

    if (status != WG_OK) return status;
    /* A run of marks has no bound, so the room is asked for anew. */
    out->count = (size_t)(run->out - out->data);
    status = wgi_buf_reserve(out, run->marks->count * 8 + input_left + ROOM_MIN, err);
    if (status != WG_OK) return status;
    run->out = out->data + out->count;
    for (size_t i = 0; i < run->marks->count; i++) {
        uint32_t mark = WGI_MARK_CHAR(run->marks->items[i]);
        emit(run, mark, wgi_char_flags(run->chars, mark));
    }
    run->marks->count = 0;
    return WG_OK;
}

/* A code point of the decomposed text. */
static wg_status put(bert_run *run, uint32_t code_point, unsigned flags, wgi_buf *out,
                     size_t input_left, wg_error *err)
{
    wg_status status = WG_OK;

    if (run->step->strip_accents && (flags & WGI_CHAR_NONSTARTER)) {
        /* Dropping a mark early does not move the others of its run. */
        if (flags & WGI_CHAR_NONSPACING) return WG_OK;
        return wgi_marks_push(run->marks, code_point, wgi_char_combining_class(code_point), err);
    }
    if (run->marks->count) status = flush(run, out, input_left, err);
    if (status == WG_OK) emit(run, code_point, flags);
    return status;
}

static wg_status put_decomposed(bert_run *run, uint32_t code_point, wgi_buf *out, size_t input_left,
                                wg_error *err)
{
    uint32_t parts[WGI_DECOMPOSED_MAX];
    size_t count = wgi_char_decompose(code_point, false, parts);
    wg_status status = WG_OK;

    for (size_t i = 0; i < count && status == WG_OK; i++)
        status = put(run, parts[i], wgi_char_flags(run->chars, parts[i]), out, input_left, err);
    return status;
}

static wg_status put_char(bert_run *run, uint32_t code_point, wgi_buf *out, size_t input_left,
                          wg_error *err)
{
    const wgi_normalizer_step *step = run->step;
    unsigned flags = wgi_char_flags(run->chars, code_point);
    bool is_blank = step->chinese_chars && (flags & WGI_CHAR_CHINESE);
    wg_status status = WG_OK;

    if (step->clean_text) {
        if (flags & WGI_CHAR_CLEANED) return WG_OK;
        if (flags & WGI_CHAR_SPACE) return put(run, ' ', WGI_CHAR_SPACE, out, input_left, err);
    }
    if (is_blank) WGI_TRY(put(run, ' ', WGI_CHAR_SPACE, out, input_left, err));
    if (step->strip_accents && (flags & WGI_CHAR_CANONICAL)) {
        WGI_TRY(put_decomposed(run, code_point, out, input_left, err));
    } else {
        WGI_TRY(put(run, code_point, flags, out, input_left, err));
    }
    if (is_blank) WGI_TRY(put(run, ' ', WGI_CHAR_SPACE, out, input_left, err));

cleanup:
    return status;
}

/* Crosses ASCII; there is room for all of it. */
static size_t put_ascii(bert_run *run, const char *text, size_t count)
{
    const unsigned char *table = run->step->ascii;
    char *out = run->out;
    size_t at = 0;

    /* Written always, kept when it is not 0x80: no branch on what the text holds. */
    for (; at < count && (unsigned char)text[at] < 0x80; at++) {
        unsigned char to = table[(unsigned char)text[at]];
        *out = (char)to;
        out += to < 0x80;
    }
    run->out = out;
    return at;
}

wg_status wgi_bert_normalize(const wgi_normalizer_step *step, const wgi_char_table *chars,
                             wgi_slice text, wgi_buf *out, wgi_normalizer_scratch *scratch,
                             wg_error *err)
{
    wg_status status = WG_OK;
    wgi_marks *marks = &scratch->marks;
    bert_run run = {step, chars, marks, NULL};
    size_t at = 0;

    marks->count = 0;
    WGI_TRY(wgi_buf_reserve(out, text.count + ROOM_MIN, err));
    run.out = out->data + out->count;
    while (at < text.count) {
        unsigned char byte = (unsigned char)text.data[at];
        if (byte < 0x80) {
            if (step->ascii[byte] == 0x80) { /* dropped, so it does not end a run of marks */
                at++;
                continue;
            }
            if (marks->count) WGI_TRY(flush(&run, out, text.count - at, err));
            at += put_ascii(&run, text.data + at, text.count - at);
            continue;
        }
        uint32_t code_point = wgi_char_next(text.data, &at);
        out->count = (size_t)(run.out - out->data);
        if (out->capacity - out->count <= text.count - at + ROOM_MIN) {
            WGI_TRY(wgi_buf_reserve(out, text.count - at + ROOM_MIN, err));
            run.out = out->data + out->count;
        }
        WGI_TRY(put_char(&run, code_point, out, text.count - at, err));
    }
    if (marks->count) WGI_TRY(flush(&run, out, 0, err));
    out->count = (size_t)(run.out - out->data);
    out->data[out->count] = 0;

cleanup:
    return status;
}
