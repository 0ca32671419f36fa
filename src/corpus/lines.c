/*
 * lines.c - lines of any length out of chunks; see lines.h.
 *
 * LF ends a line and a CR before it is dropped; nothing else does (a lone CR, form feed, vertical
 * tab, U+0085, U+2028 and U+2029 are data). The buffer holds one line, at most bytes_max and a
 * chunk; the rest of a longer one is read past without being kept, up to its line feed, and the
 * next line is a line again. No byte is searched twice.
 *
 * Threads: the reader's own.
 */
#include "corpus/lines.h"

#include <string.h>

/* Keeps the unfinished line only, and reads on behind it. */
static wg_status fill(wgi_lines *lines, wg_error *err)
{
    if (lines->begin > 0) {
        memmove(lines->data.data, lines->data.data + lines->begin,
                lines->data.count - lines->begin);
        lines->data.count -= lines->begin;
        lines->searched -= lines->begin;
        lines->begin = 0;
    }
    return wgi_decode_append(lines->from, &lines->data, &lines->is_end, err);
}

/* What is known of the line is more than it may have; a CR at the end may yet be that of CR LF. */
static bool is_over(const wgi_lines *lines)
{
    size_t count = lines->data.count - lines->begin;

    if (count > 0 && lines->data.data[lines->data.count - 1] == '\r') count--;
    return count > lines->bytes_max;
}

/* Where the line feed is, reading on until there is one; NULL at the end or once it is too long. */
static wg_status find_end(wgi_lines *lines, const char **end, wg_error *err)
{
    *end = NULL;
    for (;;) {
        size_t left = lines->data.count - lines->searched;
        if (left > 0) *end = memchr(lines->data.data + lines->searched, '\n', left);
        if (*end) return WG_OK;
        lines->searched = lines->data.count;
        if (lines->is_end || is_over(lines)) return WG_OK;
        wg_status status = fill(lines, err);
        if (status != WG_OK) return status;
    }
}

/* Reads past the rest of a line that is too long; its beginning stays at [0, kept). */
static wg_status pass_over(wgi_lines *lines, size_t kept, wg_error *err)
{
    while (!lines->is_end) {
        lines->data.count = lines->begin + kept;
        lines->searched = lines->data.count;
        wg_status status = fill(lines, err);
        if (status != WG_OK) return status;
        const char *end =
            memchr(lines->data.data + lines->searched, '\n', lines->data.count - lines->searched);
        if (end) {
            lines->begin = lines->searched = (size_t)(end - lines->data.data) + 1;
            return WG_OK;
        }
    }
    lines->begin = lines->searched = lines->data.count;
    return WG_OK;
}

wg_status wgi_lines_next(wgi_lines *lines, wgi_line *line, bool *has_line, wg_error *err)
{
    wg_status status = WG_OK;
    const char *end;

    *has_line = false;
    WGI_TRY(find_end(lines, &end, err));
    size_t begin = lines->begin;
    size_t stop = end ? (size_t)(end - lines->data.data) : lines->data.count;
    if (!end && lines->is_end && stop == begin) goto cleanup;

    lines->number++;
    *has_line = true;
    size_t count = stop - begin;
    if (count > 0 && lines->data.data[stop - 1] == '\r') count--;
    *line = (wgi_line){.count = count, .is_too_long = count > lines->bytes_max};
    if (end || lines->is_end) {
        lines->begin = lines->searched = end ? stop + 1 : stop;
    } else { /* too long, and its end was not seen yet */
        line->is_too_long = true;
        line->count = 64;
        if (line->count > lines->bytes_max) line->count = (size_t)lines->bytes_max;
        status = pass_over(lines, line->count, err);
        if (status != WG_OK) lines->number--; /* the fault breaks this very line */
        begin = 0;
    }
    line->data = lines->data.data + begin;

cleanup:
    if (status != WG_OK) *has_line = false;
    return status;
}

void wgi_lines_fini(wgi_lines *lines)
{
    wgi_buf_fini(&lines->data);
}
