/*
 * replace.c - the normalisers that change characters or put some in: Replace, Prepend, Strip, Nmt,
 * ByteLevel.
 *
 * The idea: each is one pass that copies what it does not change in stretches.
 *
 * Threads: see normalizer.c.
 */
#include <string.h>

#include "tokenizer/byte_letters.h"
#include "tokenizer/normalizer.h"

static wg_status next_match(const wgi_normalizer_step *step, const wgi_char_table *chars,
                            wgi_slice text, size_t at, wgi_pattern_stack *stack, wgi_span *match,
                            wg_error *err)
{
    if (step->pattern)
        return wgi_pattern_next(step->pattern, chars, text.data, at, text.count, stack, match, err);
    const char *found = memmem(text.data + at, text.count - at, step->literal, step->literal_bytes);
    match->begin = found ? (uint32_t)(found - text.data) : (uint32_t)text.count;
    match->end = found ? match->begin + (uint32_t)step->literal_bytes : match->begin;
    return WG_OK;
}

wg_status wgi_replace(const wgi_normalizer_step *step, const wgi_char_table *chars, wgi_slice text,
                      wgi_buf *out, wgi_normalizer_scratch *scratch, wg_error *err)
{
    wg_status status = WG_OK;

    if (text.count > UINT32_MAX)
        return wgi_fail(err, WG_ERR_LIMIT, "%zu bytes of text without a place to cut it",
                        text.count);
    WGI_TRY(wgi_buf_reserve(out, text.count, err));
    for (size_t at = 0; at < text.count;) {
        wgi_span match;
        WGI_TRY(next_match(step, chars, text, at, &scratch->stack, &match, err));
        WGI_TRY(wgi_buf_append(out, text.data + at, match.begin - at, err));
        if (match.begin < match.end)
            WGI_TRY(wgi_buf_append(out, step->content, step->content_bytes, err));
        at = match.end;
    }

cleanup:
    return status;
}

wg_status wgi_prepend(const wgi_normalizer_step *step, const wgi_char_table *chars, wgi_slice text,
                      wgi_buf *out, wgi_normalizer_scratch *scratch, wg_error *err)
{
    wg_status status = WG_OK;

    (void)chars;
    (void)scratch;
    if (text.count == 0) return WG_OK;
    WGI_TRY(wgi_buf_append(out, step->content, step->content_bytes, err));
    WGI_TRY(wgi_buf_append(out, text.data, text.count, err));

cleanup:
    return status;
}

wg_status wgi_strip(const wgi_normalizer_step *step, const wgi_char_table *chars, wgi_slice text,
                    wgi_buf *out, wgi_normalizer_scratch *scratch, wg_error *err)
{
    size_t begin = 0, end = text.count;

    (void)scratch;
    while (step->strip_left && begin < end) {
        size_t at = begin;
        if (!(wgi_char_flags(chars, wgi_char_next(text.data, &at)) & WGI_CHAR_SPACE)) break;
        begin = at;
    }
    while (step->strip_right && end > begin) {
        size_t at = end;
        if (!(wgi_char_flags(chars, wgi_char_before(text.data, &at)) & WGI_CHAR_SPACE)) break;
        end = at;
    }
    return wgi_buf_append(out, text.data + begin, end - begin, err);
}

/* What SentencePiece's nmt rule makes of a code point; 0: drops it. */
static uint32_t nmt_char(uint32_t c)
{
    if (c < 0x20) return c == 0 ? c : c == '\t' || c == '\n' || c == '\f' || c == '\r' ? ' ' : 0;
    if (c == 0x7F || c == 0x8F || c == 0x9F) return 0;
    if (c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
        c == 0xFEFF || c == 0xFFFD)
        return ' ';
    return c;
}

wg_status wgi_nmt(const wgi_normalizer_step *step, const wgi_char_table *chars, wgi_slice text,
                  wgi_buf *out, wgi_normalizer_scratch *scratch, wg_error *err)
{
    wg_status status = WG_OK;

    (void)step;
    (void)chars;
    (void)scratch;
    WGI_TRY(wgi_buf_reserve(out, text.count, err));
    for (size_t at = 0; at < text.count;) {
        size_t begin = at;
        uint32_t from = wgi_char_next(text.data, &at), to = nmt_char(from);
        if (to == from) {
            WGI_TRY(wgi_buf_append(out, text.data + begin, at - begin, err));
        } else if (to) {
            WGI_TRY(wgi_buf_append(out, " ", 1, err));
        }
    }

cleanup:
    return status;
}

wg_status wgi_letters_of_bytes(const wgi_normalizer_step *step, const wgi_char_table *chars,
                               wgi_slice text, wgi_buf *out, wgi_normalizer_scratch *scratch,
                               wg_error *err)
{
    (void)step;
    (void)chars;
    (void)scratch;
    return wgi_byte_letters_put(out, text.data, text.count, err);
}
