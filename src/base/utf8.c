/*
 * utf8.c - UTF-8 in and out; see utf8.h.
 *
 * The idea: one decoder follows table 3-7 of the Unicode Standard ("Well-Formed UTF-8 Byte
 * Sequences"). The range of the second byte depends on the first, all later bytes are 80..BF; the
 * first byte that does not fit ends the ill-formed run and is looked at again as a first byte. That
 * is the "maximal subpart" rule, so a cut sequence gives one U+FFFD and a stray byte gives one
 * each. Everything else here is built on that decoder; only runs of ASCII are crossed eight bytes
 * at a time. A table-driven automaton was refused: it is no faster on text that is mostly ASCII.
 *
 * Threads: no state; any thread.
 */
#include "base/utf8.h"

#include <string.h>

/* What the first byte promises: bytes in all (0: never a first byte), and the second byte's range.
 */
typedef struct lead {
    unsigned bytes;
    uint8_t low, high;
} lead;

static lead lead_of(uint8_t byte)
{
    if (byte < 0x80) return (lead){1, 0, 0};
    if (byte < 0xC2) return (lead){0, 0, 0};
    if (byte < 0xE0) return (lead){2, 0x80, 0xBF};
    if (byte < 0xF0) return (lead){3, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF};
    if (byte < 0xF5) return (lead){4, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF};
    return (lead){0, 0, 0};
}

uint32_t wgi_utf8_next(const char *text, size_t count, size_t *at, bool *is_bad)
{
    const uint8_t *bytes = (const uint8_t *)text + *at;
    size_t left = count - *at;
    lead first = lead_of(bytes[0]);

    if (is_bad) *is_bad = false;
    if (first.bytes == 1) {
        *at += 1;
        return bytes[0];
    }

    uint32_t code_point = first.bytes ? bytes[0] & (0x7Fu >> first.bytes) : 0;
    size_t taken = 1;
    while (taken < first.bytes && taken < left && bytes[taken] >= first.low &&
           bytes[taken] <= first.high) {
        code_point = code_point << 6 | (bytes[taken] & 0x3Fu);
        first.low = 0x80;
        first.high = 0xBF;
        taken++;
    }
    *at += taken;
    if (taken == first.bytes) return code_point;
    if (is_bad) *is_bad = true;
    return WGI_UTF8_REPLACEMENT;
}

size_t wgi_utf8_put(uint32_t code_point, char out[4])
{
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF))
        code_point = WGI_UTF8_REPLACEMENT;
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        out[0] = (char)(0xC0 | code_point >> 6);
        out[1] = (char)(0x80 | (code_point & 0x3F));
        return 2;
    }
    if (code_point < 0x10000) {
        out[0] = (char)(0xE0 | code_point >> 12);
        out[1] = (char)(0x80 | (code_point >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code_point & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code_point >> 18);
    out[1] = (char)(0x80 | (code_point >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code_point >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code_point & 0x3F));
    return 4;
}

/* First offset from `at` on that is not ASCII, or count. */
static size_t ascii_end(const char *text, size_t count, size_t at)
{
    while (count - at >= 8) {
        uint64_t eight;
        memcpy(&eight, text + at, 8);
        if (eight & 0x8080808080808080u) break;
        at += 8;
    }
    while (at < count && (uint8_t)text[at] < 0x80)
        at++;
    return at;
}

size_t wgi_utf8_check(const char *text, size_t count)
{
    size_t at = 0;

    while ((at = ascii_end(text, count, at)) < count) {
        size_t begin = at;
        bool is_bad;
        (void)wgi_utf8_next(text, count, &at, &is_bad);
        if (is_bad) return begin;
    }
    return count;
}

wg_status wgi_utf8_repair(wgi_buf *out, const char *text, size_t count, uint64_t *replaced,
                          wg_error *err)
{
    wg_status status = WG_OK;
    size_t at = 0;
    uint64_t bad = 0;

    WGI_TRY(wgi_buf_reserve(out, count, err));
    while (at < count) {
        size_t good = wgi_utf8_check(text + at, count - at);
        WGI_TRY(wgi_buf_append(out, text + at, good, err));
        at += good;
        if (at == count) break;
        (void)wgi_utf8_next(text, count, &at, NULL);
        WGI_TRY(wgi_buf_append(out, "\xEF\xBF\xBD", 3, err));
        bad++;
    }

cleanup:
    if (replaced) *replaced = bad;
    return status;
}
