/*
 * normal_forms.c - NFC, NFD, NFKC, NFKD, Lowercase and StripAccents.
 *
 * The idea: ASCII is its own normal form and nothing composes over the front of an ASCII code
 * point, so ASCII is copied, and only a stretch of other code points, with the ASCII one before it
 * that its first mark may compose with, is decomposed, ordered and composed (Unicode Standard,
 * annex 15). Refused: utf8proc_map over the whole text (it allocates, and it knows code points that
 * the measured tables do not).
 *
 * Threads: see normalizer.c.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tokenizer/normalizer.h"

#define SHORT_RUN 24 /* marks; longer runs are counted into place, so no text is quadratic */

wg_status wgi_marks_push(wgi_marks *marks, uint32_t code_point, unsigned class, wg_error *err)
{
    if (marks->count == marks->capacity) {
        wg_status status =
            wgi_grow(&marks->items, &marks->capacity, marks->count + 1, sizeof(*marks->items), err);
        if (status != WG_OK) return status;
    }
    marks->items[marks->count++] = (wgi_mark) class << 24 | code_point;
    return WG_OK;
}

/* Stable, by class: insertion for the short runs of real texts, counting for the others. */
static wg_status sort_run(wgi_marks *marks, size_t begin, size_t end, wg_error *err)
{
    wgi_mark *items = marks->items + begin;
    size_t count = end - begin, places[256] = {0}, place = 0;

    if (count <= SHORT_RUN) {
        for (size_t i = 1; i < count; i++) {
            wgi_mark item = items[i];
            size_t at = i;
            for (; at > 0 && WGI_MARK_CLASS(items[at - 1]) > WGI_MARK_CLASS(item); at--)
                items[at] = items[at - 1];
            items[at] = item;
        }
        return WG_OK;
    }
    wg_status status =
        wgi_grow(&marks->spare, &marks->spare_capacity, count, sizeof(*marks->spare), err);
    if (status != WG_OK) return status;
    memcpy(marks->spare, items, count * sizeof(*items));
    for (size_t i = 0; i < count; i++)
        places[WGI_MARK_CLASS(items[i])]++;
    for (size_t class = 0; class < 256; class ++) {
        size_t of_class = places[class];
        places[class] = place;
        place += of_class;
    }
    for (size_t i = 0; i < count; i++)
        items[places[WGI_MARK_CLASS(marks->spare[i])]++] = marks->spare[i];
    return WG_OK;
}

wg_status wgi_marks_sort(wgi_marks *marks, wg_error *err)
{
    wg_status status = WG_OK;

    for (size_t begin = 0; begin < marks->count && status == WG_OK;) {
        size_t end = begin + 1;
        if (WGI_MARK_CLASS(marks->items[begin]) != 0) {
            while (end < marks->count && WGI_MARK_CLASS(marks->items[end]) != 0)
                end++;
            status = sort_run(marks, begin, end, err);
        }
        begin = end;
    }
    return status;
}

/* Composes in place; the marks are in canonical order. */
static void compose(const wgi_char_table *chars, wgi_marks *marks)
{
    wgi_mark *items = marks->items;
    size_t starter = SIZE_MAX, kept = 0;
    unsigned last_class = 0; /* of what was kept behind the starter */

    for (size_t i = 0; i < marks->count; i++) {
        unsigned class = WGI_MARK_CLASS(items[i]);
        bool is_next = starter != SIZE_MAX && starter + 1 == kept;
        /* Not blocked: nothing between, or only marks of a lower class (a starter would be next).
         */
        if (starter != SIZE_MAX && (is_next || last_class < class)) {
            uint32_t both =
                wgi_char_compose(chars, WGI_MARK_CHAR(items[starter]), WGI_MARK_CHAR(items[i]));
            if (both) {
                items[starter] = both;
                continue;
            }
        }
        if (class == 0) starter = kept;
        last_class = class;
        items[kept++] = items[i];
    }
    marks->count = kept;
}

static wg_status push_char(const wgi_normalizer_step *step, const wgi_char_table *chars,
                           uint32_t code_point, wgi_marks *marks, wg_error *err)
{
    uint32_t parts[WGI_DECOMPOSED_MAX] = {code_point};
    unsigned flags = wgi_char_flags(chars, code_point);
    unsigned wanted = WGI_CHAR_CANONICAL | (step->is_compat ? WGI_CHAR_COMPAT : 0u);
    size_t count = flags & wanted ? wgi_char_decompose(code_point, step->is_compat, parts) : 1;
    wg_status status = WG_OK;

    for (size_t i = 0; i < count && status == WG_OK; i++) {
        bool is_mark = wgi_char_flags(chars, parts[i]) & WGI_CHAR_NONSTARTER;
        status =
            wgi_marks_push(marks, parts[i], is_mark ? wgi_char_combining_class(parts[i]) : 0, err);
    }
    return status;
}

/* One stretch: at most one ASCII code point, then others. */
static wg_status put_stretch(const wgi_normalizer_step *step, const wgi_char_table *chars,
                             wgi_slice text, wgi_buf *out, wgi_marks *marks, wg_error *err)
{
    wg_status status = WG_OK;

    marks->count = 0;
    for (size_t at = 0; at < text.count;)
        WGI_TRY(push_char(step, chars, wgi_char_next(text.data, &at), marks, err));
    WGI_TRY(wgi_marks_sort(marks, err));
    if (step->is_composed) compose(chars, marks);
    WGI_TRY(wgi_buf_reserve(out, marks->count * 4, err));
    for (size_t i = 0; i < marks->count; i++)
        out->count += wgi_utf8_put(WGI_MARK_CHAR(marks->items[i]), out->data + out->count);
    out->data[out->count] = 0;

cleanup:
    return status;
}

wg_status wgi_normal_form(const wgi_normalizer_step *step, const wgi_char_table *chars,
                          wgi_slice text, wgi_buf *out, wgi_normalizer_scratch *scratch,
                          wg_error *err)
{
    wg_status status = WG_OK;
    wgi_marks *marks = &scratch->marks;
    size_t at = 0;

    WGI_TRY(wgi_buf_reserve(out, text.count, err));
    while (at < text.count) {
        size_t begin = at;
        while (at < text.count && (unsigned char)text.data[at] < 0x80)
            at++;
        size_t end = at;
        while (end < text.count && (unsigned char)text.data[end] >= 0x80)
            end++;
        if (end > at && at > begin) at--;
        WGI_TRY(wgi_buf_append(out, text.data + begin, at - begin, err));
        if (end > at) {
            wgi_slice stretch = {text.data + at, end - at};
            WGI_TRY(put_stretch(step, chars, stretch, out, marks, err));
        }
        at = end;
    }

cleanup:
    return status;
}

wg_status wgi_lowercase(const wgi_normalizer_step *step, const wgi_char_table *chars,
                        wgi_slice text, wgi_buf *out, wgi_normalizer_scratch *scratch,
                        wg_error *err)
{
    wg_status status = WG_OK;

    (void)step;
    (void)scratch;
    /* At most 2 bytes become 3 (U+0130, U+023A). */
    WGI_TRY(wgi_buf_reserve(out, text.count + text.count / 2, err));
    for (size_t at = 0; at < text.count;) {
        uint32_t lower[2];
        uint32_t code_point = wgi_char_next(text.data, &at);
        size_t count = 1;
        lower[0] = code_point;
        if (code_point < 0x80) {
            if (code_point >= 'A' && code_point <= 'Z') lower[0] += 'a' - 'A';
        } else if (wgi_char_flags(chars, code_point) & WGI_CHAR_LOWER) {
            count = wgi_char_lower(code_point, lower);
        }
        WGI_TRY(wgi_buf_reserve(out, 8, err));
        for (size_t i = 0; i < count; i++)
            out->count += wgi_utf8_put(lower[i], out->data + out->count);
    }

cleanup:
    return status;
}

wg_status wgi_strip_accents(const wgi_normalizer_step *step, const wgi_char_table *chars,
                            wgi_slice text, wgi_buf *out, wgi_normalizer_scratch *scratch,
                            wg_error *err)
{
    wg_status status = WG_OK;

    (void)step;
    (void)scratch;
    WGI_TRY(wgi_buf_reserve(out, text.count, err));
    for (size_t at = 0; at < text.count;) {
        size_t begin = at;
        if (wgi_char_flags(chars, wgi_char_next(text.data, &at)) & WGI_CHAR_MARK) continue;
        WGI_TRY(wgi_buf_append(out, text.data + begin, at - begin, err));
    }

cleanup:
    return status;
}
