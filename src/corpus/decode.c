/*
 * decode.c - byte-order marks and UTF-16; see decode.h (RFC 3629, RFC 2781).
 *
 * Only a mark at the very start of a file means something; U+FEFF elsewhere is a character. UTF-8
 * passes without a look: the JSON scanner and the text reader repair and report it, each with the
 * place that its user understands. UTF-16 is recoded here, once, so nobody later has to know.
 * Refused: guessing UTF-16 without a mark.
 *
 * Threads: the reader's own.
 */
#include "corpus/decode.h"

#include "base/utf8.h"

static wg_status start(wgi_decode *decode, wg_error *err)
{
    wg_status status = wgi_gunzip_peek(decode->from, 4, err);
    const unsigned char *first = (const unsigned char *)decode->from->out;
    size_t count = decode->from->count;

    if (status != WG_OK) return status;
    decode->encoding = WGI_ENCODING_UTF8;
    if (count >= 4 && ((first[0] == 0xFF && first[1] == 0xFE && !first[2] && !first[3]) ||
                       (!first[0] && !first[1] && first[2] == 0xFE && first[3] == 0xFF)))
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "is UTF-32, which is not read: convert it to UTF-8 first");
    if (count >= 3 && first[0] == 0xEF && first[1] == 0xBB && first[2] == 0xBF) {
        decode->mark_bytes = 3;
    } else if (count >= 2 && first[0] == 0xFF && first[1] == 0xFE) {
        decode->encoding = WGI_ENCODING_UTF16_LITTLE;
        decode->mark_bytes = 2;
    } else if (count >= 2 && first[0] == 0xFE && first[1] == 0xFF) {
        decode->encoding = WGI_ENCODING_UTF16_BIG;
        decode->mark_bytes = 2;
    }
    return WG_OK;
}

/* The half before was never completed: one U+FFFD. `back`: units between it and here. */
static size_t put_bad(wgi_decode *decode, uint64_t back, char *out)
{
    if (decode->replaced++ == 0)
        decode->first_replaced = decode->mark_bytes + 2 * (decode->units - back);
    return wgi_utf8_put(WGI_UTF8_REPLACEMENT, out);
}

/* One UTF-16 unit; up to 6 bytes come out. */
static size_t put_unit(wgi_decode *decode, uint16_t unit, char *out)
{
    size_t count = 0;
    bool is_low = unit >= 0xDC00 && unit <= 0xDFFF;

    if (decode->high && is_low) {
        uint32_t code_point = 0x10000u + ((decode->high - 0xD800u) << 10) + (unit - 0xDC00u);
        decode->high = 0;
        count = wgi_utf8_put(code_point, out);
        decode->units++;
        return count;
    }
    if (decode->high) count = put_bad(decode, 1, out);
    decode->high = 0;
    if (unit >= 0xD800 && unit <= 0xDBFF)
        decode->high = unit;
    else if (is_low)
        count += put_bad(decode, 0, out + count);
    else
        count += wgi_utf8_put(unit, out + count);
    decode->units++;
    return count;
}

static wg_status recode(wgi_decode *decode, const unsigned char *bytes, size_t count, wgi_buf *out,
                        wg_error *err)
{
    /* A unit gives at most 3 bytes, and a pending half or odd byte a few more. */
    wg_status status = wgi_buf_reserve(out, count / 2 * 3 + 16, err);

    if (status != WG_OK) return status;
    for (size_t i = 0; i < count; i++) {
        if (!decode->has_odd) {
            decode->odd = bytes[i];
            decode->has_odd = true;
            continue;
        }
        decode->has_odd = false;
        unsigned low = decode->encoding == WGI_ENCODING_UTF16_LITTLE ? decode->odd : bytes[i];
        unsigned high = decode->encoding == WGI_ENCODING_UTF16_LITTLE ? bytes[i] : decode->odd;
        uint16_t unit = (uint16_t)(high << 8 | low);
        out->count += put_unit(decode, unit, out->data + out->count);
    }
    out->data[out->count] = 0;
    return WG_OK;
}

/* What is left at the end of UTF-16: half a pair, half a unit. */
static wg_status finish(wgi_decode *decode, wgi_buf *out, wg_error *err)
{
    char bad[8];
    size_t count = 0;

    if (decode->high) count += put_bad(decode, 1, bad);
    if (decode->has_odd) count += put_bad(decode, 0, bad + count);
    decode->high = 0;
    decode->has_odd = false;
    return wgi_buf_append(out, bad, count, err);
}

wg_status wgi_decode_append(wgi_decode *decode, wgi_buf *out, bool *is_end, wg_error *err)
{
    wg_status status = WG_OK;
    size_t before = out->count;

    *is_end = false;
    while (out->count == before && !decode->is_end) {
        const char *bytes;
        size_t count;
        uint64_t skipped = 0;

        if (decode->encoding == WGI_ENCODING_START) {
            WGI_TRY(start(decode, err));
            skipped = decode->mark_bytes;
        }
        WGI_TRY(wgi_gunzip_take(decode->from, &bytes, &count, err));
        if (count == 0) {
            decode->is_end = true;
            WGI_TRY(finish(decode, out, err));
            break;
        }
        bytes += skipped;
        count -= (size_t)skipped;
        if (decode->encoding == WGI_ENCODING_UTF8)
            WGI_TRY(wgi_buf_append(out, bytes, count, err));
        else
            WGI_TRY(recode(decode, (const unsigned char *)bytes, count, out, err));
    }
    *is_end = decode->is_end && out->count == before;

cleanup:
    return status;
}
