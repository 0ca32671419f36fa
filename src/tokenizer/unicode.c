/*
 * unicode.c - flags, lower case, decomposition and composition of code points; see unicode.h.
 *
 * The idea: 3,000 measured ranges are laid flat once a process (512 KiB) for the code points that
 * texts are made of; the rest (rare ideographs, tags) is found by binary search. Refused: flags of
 * utf8proc itself, whose Unicode version is not the one of any of the four libraries that the
 * right answers come from; and a table of pages, which is a load more for every code point.
 *
 * Threads: the flat table is filled under pthread_once and read-only from then on; any thread.
 */
#include "tokenizer/unicode.h"

#include <pthread.h>

#include <utf8proc.h>

static wgi_char_table shared;

static void fill(void)
{
    for (size_t i = 0; i < wgi_char_range_count; i++) {
        const wgi_char_range *range = &wgi_char_ranges[i];
        for (uint32_t c = range->first; c <= range->last && c < WGI_CHAR_FLAT; c++)
            shared.flags[c] = range->flags;
    }
}

const wgi_char_table *wgi_char_table_shared(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, fill); /* cannot fail: neither argument is NULL */
    return &shared;
}

uint32_t wgi_char_search(uint32_t code_point)
{
    size_t low = 0, high = wgi_char_range_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (wgi_char_ranges[middle].last < code_point) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == wgi_char_range_count || wgi_char_ranges[low].first > code_point) return 0;
    return wgi_char_ranges[low].flags;
}

size_t wgi_char_lower(uint32_t code_point, uint32_t out[2])
{
    size_t low = 0, high = wgi_lower_run_count;

    out[0] = code_point;
    if (code_point == 0x130) { /* the one whose lower case is two code points */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (wgi_lower_runs[middle].last < code_point) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == wgi_lower_run_count) return 1;
    const wgi_lower_run *run = &wgi_lower_runs[low];
    if (run->first <= code_point && (code_point - run->first) % run->stride == 0)
        out[0] = (uint32_t)((int32_t)code_point + run->delta);
    return 1;
}

size_t wgi_char_decompose(uint32_t code_point, bool is_compat, uint32_t out[WGI_DECOMPOSED_MAX])
{
    utf8proc_int32_t parts[WGI_DECOMPOSED_MAX];
    utf8proc_option_t options =
        is_compat ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT : UTF8PROC_DECOMPOSE;
    utf8proc_ssize_t count = utf8proc_decompose_char((utf8proc_int32_t)code_point, parts,
                                                     WGI_DECOMPOSED_MAX, options, NULL);

    if (count <= 0 || count > WGI_DECOMPOSED_MAX) {
        out[0] = code_point;
        return 1;
    }
    for (utf8proc_ssize_t i = 0; i < count; i++)
        out[i] = (uint32_t)parts[i];
    return (size_t)count;
}

unsigned wgi_char_combining_class(uint32_t code_point)
{
    int class = utf8proc_get_property((utf8proc_int32_t)code_point)->combining_class;

    return class > 0 && class < 255 ? (unsigned)class : 0;
}

uint32_t wgi_char_compose(const wgi_char_table *table, uint32_t first, uint32_t second)
{
    utf8proc_int32_t pair[3] = {(utf8proc_int32_t)first, (utf8proc_int32_t)second, 0};
    utf8proc_ssize_t count = utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE);

    /* A composition that the measured tables do not know is not made. */
    if (count != 1 || !(wgi_char_flags(table, (uint32_t)pair[0]) & WGI_CHAR_CANONICAL)) return 0;
    return (uint32_t)pair[0];
}
