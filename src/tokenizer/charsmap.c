/*
 * charsmap.c - Precompiled: reads the map and rewrites a text by it.
 *
 *   u32 bytes of units | units (u32 each) | replacements, NUL behind each
 *
 * The idea: the double array is walked as it lies in the file, each step checked (J. Aoe 1989; the
 * unit is that of darts-clone: label 8 bits, leaf bit 8, offset from bit 10, shifted 8 more by bit
 * 9). Texts are cut into grapheme clusters (Unicode Standard, annex 29), since the original looks
 * up a whole cluster of less than 6 bytes first, and takes the shortest key that begins it for all
 * of it. Clusters of 6 bytes and more are looked up character by character. So only what can decide
 * about short clusters is kept of the rules: Hangul syllables and flags are always long.
 *
 * Threads: see normalizer.c.
 */
#include "tokenizer/charsmap.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

#define CLUSTER_BYTES 6 /* clusters of less are looked up whole */

struct wgi_charsmap {
    wgi_buf bytes;
    uint32_t *units;
    size_t unit_count;
    wgi_slice texts;
    bool begins[256]; /* some key begins with the byte */
};

/* -------------------------------------------------------------------------------- reading */

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

static wg_status decode(wgi_buf *out, wgi_slice base64, wg_error *err)
{
    wg_status status = wgi_buf_reserve(out, base64.count, err);
    uint32_t bits = 0;
    size_t count = base64.count;

    if (status != WG_OK) return status;
    if (count % 4 == 0 && count > 0)
        for (int i = 0; i < 2 && base64.data[count - 1] == '='; i++)
            count--;
    for (size_t i = 0; i < count; i++) {
        int digit = digit_of(base64.data[i]);
        if (digit < 0 || base64.count % 4 != 0)
            return wgi_fail(err, WG_ERR_FORMAT,
                            "normalizer Precompiled: precompiled_charsmap is not base64");
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4 != 0) out->data[out->count++] = (char)(bits >> (6 - 2 * (i % 4)) & 0xFF);
    }
    return WG_OK;
}

static uint32_t u32_at(const char *bytes)
{
    const unsigned char *p = (const unsigned char *)bytes;

    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

static wg_status take_apart(wgi_charsmap *map, wg_error *err)
{
    const char *data = map->bytes.data;
    size_t count = map->bytes.count, units = count >= 4 ? u32_at(data) / 4 : 0;

    if (count < 4 || units == 0 || units > (count - 4) / 4)
        return wgi_fail(err, WG_ERR_FORMAT, "normalizer Precompiled: the charsmap is cut");
    map->units = wgi_calloc(units, sizeof(*map->units));
    if (!map->units) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a charsmap");
    map->unit_count = units;
    for (size_t i = 0; i < units; i++)
        map->units[i] = u32_at(data + 4 + 4 * i);
    map->texts = (wgi_slice){data + 4 + 4 * units, count - 4 - 4 * units};
    if (wgi_utf8_check(map->texts.data, map->texts.count) < map->texts.count)
        return wgi_fail(err, WG_ERR_FORMAT,
                        "normalizer Precompiled: the texts of the charsmap are not UTF-8");
    for (size_t byte = 1; byte < 256; byte++) {
        size_t at = offset_of(map->units[0]) ^ byte;
        map->begins[byte] = at < units && (map->units[at] & (1u << 31 | 0xFF)) == byte;
    }
    return WG_OK;
}

wg_status wgi_charsmap_open(wgi_charsmap **out, wgi_slice base64, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_charsmap *map = wgi_calloc(1, sizeof(*map));

    *out = NULL;
    if (!map) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a charsmap");
    WGI_TRY(decode(&map->bytes, base64, err));
    WGI_TRY(take_apart(map, err));
    *out = map;
    map = NULL;

cleanup:
    wgi_charsmap_close(map);
    return status;
}

void wgi_charsmap_close(wgi_charsmap *map)
{
    if (!map) return;
    wgi_buf_fini(&map->bytes);
    wgi_free(map->units);
    wgi_free(map);
}

bool wgi_charsmap_find(const wgi_charsmap *map, wgi_slice text, wgi_slice *to)
{
    size_t at = offset_of(map->units[0]);

    for (size_t i = 0; i < text.count; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        at ^= byte;
        if (byte == 0 || at >= map->unit_count) return false;
        uint32_t unit = map->units[at];
        if ((unit & (1u << 31 | 0xFF)) != byte) return false;
        at ^= offset_of(unit);
        if (!(unit >> 8 & 1)) continue;
        if (at >= map->unit_count) return false;
        size_t begin = map->units[at] & 0x7FFFFFFF;
        if (begin > map->texts.count) begin = map->texts.count;
        const char *text_begin = map->texts.data + begin;
        *to = (wgi_slice){text_begin, strnlen(text_begin, map->texts.count - begin)};
        return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------- clusters */

/* What was before the place in a cluster. */
typedef struct cluster {
    uint32_t flags;      /* of the code point before */
    uint32_t code_point; /* itself */
    bool is_pictograph;  /* a pictograph and what joins it, then a joiner */
    bool is_conjunct;    /* a consonant, linkers and what joins */
    bool has_linker;
} cluster;

enum { HANGUL_NONE, HANGUL_L, HANGUL_V, HANGUL_T, HANGUL_LV, HANGUL_LVT };

static int hangul_of(uint32_t c)
{
    if (c < 0x1100) return HANGUL_NONE;
    if (c <= 0x115F || (c >= 0xA960 && c <= 0xA97C)) return HANGUL_L;
    if (c <= 0x11A7 || (c >= 0xD7B0 && c <= 0xD7C6)) return HANGUL_V;
    if (c <= 0x11FF || (c >= 0xD7CB && c <= 0xD7FB)) return HANGUL_T;
    if (c < 0xAC00 || c > 0xD7A3) return HANGUL_NONE;
    return (c - 0xAC00) % 28 == 0 ? HANGUL_LV : HANGUL_LVT;
}

static bool is_syllable(int before, int after)
{
    if (before == HANGUL_L)
        return after == HANGUL_L || after == HANGUL_V || after == HANGUL_LV || after == HANGUL_LVT;
    if (before == HANGUL_V || before == HANGUL_LV) return after == HANGUL_V || after == HANGUL_T;
    return (before == HANGUL_T || before == HANGUL_LVT) && after == HANGUL_T;
}

/* Does the code point go with the cluster? Rules GB3 to GB11. */
static bool is_joined(const cluster *before, uint32_t code_point, uint32_t flags)
{
    if (before->code_point == '\r' && code_point == '\n') return true;
    if ((before->flags | flags) & WGI_CHAR_CONTROL) return false;
    if (is_syllable(hangul_of(before->code_point), hangul_of(code_point))) return true;
    if (flags & WGI_CHAR_JOINS || before->flags & WGI_CHAR_PREPENDS) return true;
    if (before->is_conjunct && before->has_linker && flags & WGI_CHAR_CONSONANT) return true;
    return before->is_pictograph && before->code_point == 0x200D && flags & WGI_CHAR_PICTOGRAPH;
}

static void go_on(cluster *state, uint32_t code_point, uint32_t flags)
{
    if (flags & WGI_CHAR_CONSONANT) {
        state->is_conjunct = true;
        state->has_linker = false;
    } else if (flags & WGI_CHAR_LINKER) {
        state->has_linker = true;
    } else if (!(flags & WGI_CHAR_CONJUNCT)) {
        state->is_conjunct = false;
    }
    /* Extend* ZWJ behind a pictograph; spacing marks are taken along, as they are too long. */
    if (flags & WGI_CHAR_PICTOGRAPH) {
        state->is_pictograph = true;
    } else if (!(flags & WGI_CHAR_JOINS)) {
        state->is_pictograph = false;
    }
    state->code_point = code_point;
    state->flags = flags;
}

static size_t cluster_end(const wgi_char_table *chars, wgi_slice text, size_t at)
{
    cluster state = {0};
    uint32_t code_point = wgi_char_next(text.data, &at);

    go_on(&state, code_point, wgi_char_flags(chars, code_point));
    while (at < text.count) {
        size_t behind = at;
        code_point = wgi_char_next(text.data, &behind);
        uint32_t flags = wgi_char_flags(chars, code_point);
        if (!is_joined(&state, code_point, flags)) break;
        go_on(&state, code_point, flags);
        at = behind;
    }
    return at;
}

/* -------------------------------------------------------------------------------- running */

static wg_status put_cluster(const wgi_charsmap *map, wgi_slice text, wgi_buf *out, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice to;

    if (text.count < CLUSTER_BYTES && wgi_charsmap_find(map, text, &to))
        return wgi_buf_append(out, to.data, to.count, err);
    for (size_t at = 0; at < text.count;) {
        size_t begin = at;
        (void)wgi_char_next(text.data, &at);
        to = (wgi_slice){text.data + begin, at - begin};
        (void)wgi_charsmap_find(map, to, &to);
        WGI_TRY(wgi_buf_append(out, to.data, to.count, err));
    }

cleanup:
    return status;
}

/* ASCII that is followed by ASCII, stays as it is and is a cluster of its own. */
static size_t plain_end(const wgi_charsmap *map, wgi_slice text, size_t at)
{
    while (at + 1 < text.count) {
        unsigned char byte = (unsigned char)text.data[at];
        if (byte >= 0x80 || (unsigned char)text.data[at + 1] >= 0x80 || byte == '\r') break;
        wgi_slice to, one = {text.data + at, 1};
        if (map->begins[byte] && wgi_charsmap_find(map, one, &to)) break;
        at++;
    }
    return at;
}

wg_status wgi_precompiled(const wgi_normalizer_step *step, const wgi_char_table *chars,
                          wgi_slice text, wgi_buf *out, wgi_normalizer_scratch *scratch,
                          wg_error *err)
{
    wg_status status = WG_OK;

    (void)scratch;
    WGI_TRY(wgi_buf_reserve(out, text.count, err));
    for (size_t at = 0; at < text.count;) {
        size_t end = plain_end(step->charsmap, text, at);
        WGI_TRY(wgi_buf_append(out, text.data + at, end - at, err));
        if (end == text.count) break;
        at = cluster_end(chars, text, end);
        WGI_TRY(put_cluster(step->charsmap, (wgi_slice){text.data + end, at - end}, out, err));
    }

cleanup:
    return status;
}
