/*
 * text_file.c - documents of a text file: the whole file, or one a line.
 *
 * Text is UTF-8 or, with a mark, UTF-16. In a file that is text by its name, bytes that are not
 * become U+FFFD with a warning that names the first byte offset; a file of unknown kind fails
 * instead, and so does anything that holds NUL bytes the way only binary data does. A NUL in text
 * is a character. Refused: guessing an encoding, which turns wrong text into silently wrong
 * vectors.
 *
 * Threads: the reader's own.
 */
#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "corpus/file.h"

/* Why these bytes are not text, or NULL. `good`: how many of the first are UTF-8. */
static const char *objection(const wgi_input *file, const char *data, size_t count, size_t good)
{
    size_t nuls = 0;

    for (const char *at = data; (at = memchr(at, 0, (size_t)(data + count - at))); at++)
        nuls++;
    if (nuls > 0 && good < count) return "binary data, not text (NUL bytes, and it is not UTF-8)";
    if (nuls * 5 > count * 2) /* ASCII as UTF-16 is half NUL; text holds a NUL now and then */
        return "binary data, or UTF-16 without a byte-order mark: convert it to UTF-8";
    if (file->is_strict && good < count)
        return "not UTF-8, and the kind of this file is not known: convert it to UTF-8, or give "
               "--format text to have bad bytes replaced";
    return NULL;
}

/* Checks data and makes it the text of the document; place: of data's first byte in the file. */
static wg_status text_document(wgi_input *file, wg_document *document, const char *data,
                               size_t count, wg_place kind, uint64_t place, wg_error *err)
{
    wg_status status = WG_OK;
    size_t good = wgi_utf8_check(data, count);
    const char *why_not = objection(file, data, count, good);
    uint64_t replaced = 0;
    uint64_t bad_place = kind == WG_PLACE_OFFSET ? place + good : place;

    if (why_not) {
        wgi_input_fail(file, document, WG_FAILURE_BAD_ENCODING, kind, bad_place, "%s", why_not);
        goto cleanup;
    }
    document->text = data;
    document->text_bytes = count;
    document->place_kind = kind == WG_PLACE_LINE ? kind : WG_PLACE_NONE;
    document->place = kind == WG_PLACE_LINE ? place : 0;
    if (good == count) goto cleanup;

    file->repaired.count = 0;
    WGI_TRY(wgi_utf8_repair(&file->repaired, data, count, &replaced, err));
    wgi_reading_warn(file->reading, &file->source_name, kind, bad_place,
                     "not UTF-8: ill-formed bytes became U+FFFD (%" PRIu64 " times), here first",
                     replaced);
    document->text = file->repaired.data;
    document->text_bytes = file->repaired.count;

cleanup:
    return status;
}

/* Half pairs in UTF-16, said once a file. */
static void warn_decode(wgi_input *file)
{
    if (file->decode.replaced > 0)
        wgi_reading_warn(
            file->reading, &file->source_name, WG_PLACE_OFFSET, file->decode.first_replaced,
            "UTF-16 units without a partner became U+FFFD (%" PRIu64 " times), here first",
            file->decode.replaced);
}

static wg_status whole_file(wgi_input *file, wg_document *document, bool *has_document,
                            wg_error *err)
{
    wg_status status = WG_OK;
    uint64_t most = file->reading->text_bytes_max;
    wg_error why;
    bool is_end = false;

    file->text.count = 0;
    WGI_TRY(wgi_buf_reserve(&file->text, 0, err)); /* the text of an empty file is not NULL */
    file->is_over = *has_document = true;
    while (!is_end && file->text.count <= most) {
        status = wgi_decode_append(&file->decode, &file->text, &is_end, &why);
        if (status != WG_OK) {
            status = wgi_input_fault(file, document, has_document, &why, WG_PLACE_OFFSET,
                                     file->gunzip.taken, err);
            goto cleanup;
        }
    }
    WGI_TRY(wgi_input_id(file, 0, err));
    if (file->text.count > most) {
        wgi_input_fail(file, document, WG_FAILURE_TOO_LONG, WG_PLACE_NONE, 0,
                       "the text has more than %" PRIu64
                       " bytes: split it, or read it line by line with --lines",
                       most);
        goto cleanup;
    }
    warn_decode(file);
    WGI_TRY(text_document(file, document, file->text.data, file->text.count, WG_PLACE_OFFSET,
                          file->decode.mark_bytes, err));

cleanup:
    return status;
}

static wg_status line_of_file(wgi_input *file, wg_document *document, bool *has_document,
                              wg_error *err)
{
    wg_status status = WG_OK;
    wgi_line line;
    wg_error why;

    status = wgi_lines_next(&file->lines, &line, has_document, &why);
    if (status != WG_OK) {
        status = wgi_input_fault(file, document, has_document, &why, WG_PLACE_LINE,
                                 file->lines.number + 1, err);
        goto cleanup;
    }
    if (!*has_document) {
        warn_decode(file);
        goto cleanup;
    }
    WGI_TRY(wgi_input_id(file, file->lines.number, err));
    if (line.is_too_long)
        wgi_input_fail(file, document, WG_FAILURE_TOO_LONG, WG_PLACE_LINE, file->lines.number,
                       "the line has more than %" PRIu64 " bytes", file->lines.bytes_max);
    else
        WGI_TRY(text_document(file, document, line.data, line.count, WG_PLACE_LINE,
                              file->lines.number, err));

cleanup:
    return status;
}

wg_status wgi_text_next(wgi_input *file, wg_document *document, bool *has_document, wg_error *err)
{
    return file->reading->options.lines ? line_of_file(file, document, has_document, err)
                                        : whole_file(file, document, has_document, err);
}
