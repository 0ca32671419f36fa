/*
 * file.c - one input file; see file.h.
 *
 *     source ──▶ gunzip ──▶ decode ──▶ text_file   a document a file, or a line
 *    (bytes)   (unpacked)   (UTF-8)    jsonl_file   a document a record
 *                  └─────────────────▶ pdf          a document a file, from a child
 *
 * Opening looks at the first unpacked bytes and chooses the end of the road. Everything that is
 * wrong with a file becomes one failed document that takes its place in the order; what was read
 * before the fault counts. Only memory that runs out, and a stop, end the reader.
 *
 * Threads: the reader's own.
 */
#include "corpus/file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/os_read.h"
#include "base/utf8.h"

wg_status wgi_input_id(wgi_input *file, uint64_t line, wg_error *err)
{
    file->id.count = 0;
    if (line == 0) return wgi_buf_printf(&file->id, err, "\"%s\"", file->source_name.data);
    return wgi_buf_printf(&file->id, err, "\"%s:%" PRIu64 "\"", file->source_name.data, line);
}

void wgi_input_fail(wgi_input *file, wg_document *document, wg_failure failure, wg_place kind,
                    uint64_t place, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(file->reason, sizeof(file->reason), format, arguments);
    va_end(arguments);
    document->failure = failure;
    document->place_kind = kind;
    document->place = place;
    document->text = NULL;
    document->token_ids = NULL;
    document->text_bytes = document->token_count = 0;
}

wg_status wgi_input_fault(wgi_input *file, wg_document *document, bool *has_document,
                          const wg_error *why, wg_place kind, uint64_t place, wg_error *err)
{
    wg_status status = WG_OK;
    wg_failure failure = why->status == WG_ERR_IO            ? WG_FAILURE_IO
                         : why->status == WG_ERR_UNSUPPORTED ? WG_FAILURE_BAD_ENCODING
                                                             : WG_FAILURE_DAMAGED;

    file->is_over = true;
    if (why->status == WG_ERR_NO_MEMORY || why->status == WG_ERR_INTERRUPTED)
        return wgi_fail(err, why->status, "%s", why->message);
    WGI_TRY(wgi_input_id(file, 0, err));
    wgi_input_fail(file, document, failure, kind, place, "%s", why->message);
    *has_document = true;

cleanup:
    return status;
}

/* How many unpacked bytes decide what a file is. */
static size_t peek_bytes(const wgi_reading *reading, const wgi_entry *entry)
{
    bool can_be_pdf = reading->options.format == WG_FORMAT_PDF ||
                      wgi_format_suffix(entry->path, NULL) == WGI_SUFFIX_PDF;

    /* A slow pipe must not wait for more than it takes. */
    return can_be_pdf ? WGI_FORMAT_PEEK_BYTES : 8;
}

bool wgi_input_is_plain_pdf(const wgi_reading *reading, const wgi_entry *entry)
{
    wgi_source source = {0};
    wgi_gunzip gunzip = {.source = &source};
    bool is_gz = true, is_pdf = false;

    if (!entry->is_regular || entry->is_fault) return false;
    if (reading->options.format != WG_FORMAT_PDF &&
        (reading->options.format != WG_FORMAT_AUTO ||
         wgi_format_suffix(entry->path, &is_gz) != WGI_SUFFIX_PDF))
        return false;
    /* Whatever goes wrong here goes wrong again, and is said, when the file has its turn. */
    if (wgi_source_open(&source, entry->path, false, reading->stop_fd, NULL) == WG_OK &&
        wgi_gunzip_peek(&gunzip, WGI_FORMAT_PEEK_BYTES, NULL) == WG_OK && !gunzip.has_stream)
        is_pdf =
            wgi_format_choose(reading->options.format, entry, gunzip.out, gunzip.count).format ==
            WG_FORMAT_PDF;
    wgi_gunzip_fini(&gunzip);
    wgi_source_close(&source);
    return is_pdf;
}

/* Unpacks a PDF that has no plain file into memory, where a child can open it. */
static wg_status pdf_copy(wgi_input *file, int *fd, wg_error *err)
{
    wg_status status = WG_OK;
    uint64_t most = file->reading->text_bytes_max;
    const char *bytes;
    size_t count;

    WGI_TRY(wgi_memory_file_open(fd, err));
    for (;;) {
        WGI_TRY(wgi_gunzip_take(&file->gunzip, &bytes, &count, err));
        if (count == 0) break;
        if (file->gunzip.taken > most) {
            status = wgi_fail(
                err, WG_ERR_LIMIT,
                "the unpacked PDF has more than %" PRIu64 " bytes: unpack it to a file", most);
            goto cleanup;
        }
        WGI_TRY(wgi_memory_file_write(*fd, bytes, count, err));
    }

cleanup:
    if (status != WG_OK) {
        wgi_read_close(*fd);
        *fd = -1;
    }
    return status;
}

/* A PDF that was not started ahead. */
static wg_status pdf_open(wgi_input *file, wg_error *why)
{
    wg_status status = WG_OK;
    int fd = -1;

    if (!file->entry.is_regular || file->gunzip.has_stream) WGI_TRY(pdf_copy(file, &fd, why));
    WGI_TRY(wgi_pdf_start(file->pool, &file->pdf, file->entry.path, fd, why));
    fd = -1;

cleanup:
    wgi_read_close(fd);
    return status;
}

/* The document in the place of a file that cannot be opened is made by the first _next. */
static void refuse(wgi_input *file, wg_failure failure, const char *reason)
{
    file->format = WG_FORMAT_AUTO;
    file->refusal = failure;
    (void)snprintf(file->reason, sizeof(file->reason), "%s", reason);
}

static wg_status road_open(wgi_input *file, wg_error *why)
{
    wg_status status = WG_OK;

    WGI_TRY(wgi_source_open(&file->source, file->entry.path, file->entry.is_stdin,
                            file->reading->stop_fd, why));
    file->gunzip =
        (wgi_gunzip){.source = &file->source, .out = file->gunzip.out, .in = file->gunzip.in};
    file->decode = (wgi_decode){.from = &file->gunzip};
    file->lines.from = &file->decode;
    file->lines.bytes_max = file->reading->record_bytes_max;
    WGI_TRY(wgi_gunzip_peek(&file->gunzip, peek_bytes(file->reading, &file->entry), why));

    wgi_format_choice choice = wgi_format_choose(file->reading->options.format, &file->entry,
                                                 file->gunzip.out, file->gunzip.count);
    file->format = choice.format;
    file->is_strict = choice.is_strict;
    if (choice.format == WG_FORMAT_AUTO) refuse(file, choice.failure, choice.reason);
    if (choice.format == WG_FORMAT_PDF) WGI_TRY(pdf_open(file, why));

cleanup:
    return status;
}

wg_status wgi_input_open(wgi_input *file, wgi_entry *entry, wgi_pdf *pdf, wg_error *err)
{
    wg_status status = WG_OK;
    wg_error why = {0};

    file->entry = *entry;
    *entry = (wgi_entry){0};
    file->pdf = pdf;
    file->is_open = true;
    file->is_over = file->has_records = false;
    file->format = WG_FORMAT_AUTO;
    file->bytes_counted = 0;
    file->lines = (wgi_lines){.data = file->lines.data};
    file->lines.data.count = 0;
    file->source_name.count = 0;
    WGI_TRY(wgi_path_quote(&file->source_name, file->entry.path, err));
    if (file->entry.is_fault) {
        refuse(file, WG_FAILURE_IO, file->entry.reason);
        goto cleanup;
    }
    file->reading->counts.files++;
    if (pdf) {
        file->format = WG_FORMAT_PDF;
        goto cleanup;
    }
    status = road_open(file, &why);
    if (status == WG_ERR_NO_MEMORY || status == WG_ERR_INTERRUPTED) {
        (void)wgi_fail(err, status, "%s", why.message);
    } else if (status != WG_OK) {
        refuse(file, status == WG_ERR_IO ? WG_FAILURE_IO : WG_FAILURE_DAMAGED, why.message);
        status = WG_OK;
    }

cleanup:
    return status;
}

static wg_status pdf_next(wgi_input *file, wg_document *document, bool *has_document, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_pdf *pdf = file->pdf;
    uint64_t replaced;

    file->is_over = *has_document = true;
    WGI_TRY(wgi_pdf_finish(file->pool, pdf, err));
    file->reading->counts.bytes += file->entry.is_regular ? file->entry.bytes : file->gunzip.taken;
    WGI_TRY(wgi_input_id(file, 0, err));
    if (pdf->failure != WG_FAILURE_NONE) {
        wgi_input_fail(file, document, pdf->failure, WG_PLACE_NONE, 0, "%s", pdf->reason);
        goto cleanup;
    }
    if (pdf->warning[0])
        wgi_reading_warn(file->reading, &file->source_name, WG_PLACE_NONE, 0, "%s", pdf->warning);
    document->text = pdf->text.data; /* stays until the file is closed */
    document->text_bytes = pdf->text.count;
    if (wgi_utf8_check(pdf->text.data, pdf->text.count) == pdf->text.count) goto cleanup;

    file->repaired.count = 0;
    WGI_TRY(wgi_utf8_repair(&file->repaired, pdf->text.data, pdf->text.count, &replaced, err));
    wgi_reading_warn(file->reading, &file->source_name, WG_PLACE_NONE, 0,
                     "its text is not UTF-8: ill-formed bytes became U+FFFD (%" PRIu64 " times)",
                     replaced);
    document->text = file->repaired.data;
    document->text_bytes = file->repaired.count;

cleanup:
    return status;
}

/* Garbage behind gzip is said once, when the end was reached. */
static void file_end(wgi_input *file)
{
    if (file->gunzip.has_trailing_garbage)
        wgi_reading_warn(file->reading, &file->source_name, WG_PLACE_NONE, 0,
                         "trailing garbage behind the gzip data was ignored");
    file->gunzip.has_trailing_garbage = false;
}

wg_status wgi_input_next(wgi_input *file, wg_document *document, bool *has_document, wg_error *err)
{
    wg_status status = WG_OK;

    *document = (wg_document){0};
    *has_document = false;
    if (file->is_over) {
        file_end(file);
        goto cleanup;
    }
    switch (file->format) {
    case WG_FORMAT_AUTO:
        file->is_over = *has_document = true;
        document->failure = file->refusal;
        WGI_TRY(wgi_input_id(file, 0, err));
        break;
    case WG_FORMAT_TEXT:
        WGI_TRY(wgi_text_next(file, document, has_document, err));
        break;
    case WG_FORMAT_JSONL:
        WGI_TRY(wgi_jsonl_next(file, document, has_document, err));
        break;
    case WG_FORMAT_PDF:
        WGI_TRY(pdf_next(file, document, has_document, err));
        break;
    }
    if (file->format != WG_FORMAT_PDF) {
        file->reading->counts.bytes += file->gunzip.taken - file->bytes_counted;
        file->bytes_counted = file->gunzip.taken;
    }
    if (!*has_document) {
        file->is_over = true;
        file_end(file);
        goto cleanup;
    }
    if (!document->id) {
        document->id = file->id.data;
        document->id_bytes = file->id.count;
    }
    document->source = file->source_name.data;
    document->source_bytes = file->source_name.count;
    document->reason = document->failure == WG_FAILURE_NONE ? "" : file->reason;

cleanup:
    return status;
}

void wgi_input_close(wgi_input *file)
{
    wgi_pdf_close(file->pool, file->pdf);
    file->pdf = NULL;
    wgi_source_close(&file->source);
    wgi_gunzip_reset(&file->gunzip);
    wgi_entry_fini(&file->entry);
    file->is_open = false;
}

void wgi_input_fini(wgi_input *file)
{
    wgi_input_close(file);
    wgi_gunzip_fini(&file->gunzip);
    wgi_lines_fini(&file->lines);
    wgi_record_fini(&file->record);
    wgi_buf_fini(&file->source_name);
    wgi_buf_fini(&file->id);
    wgi_buf_fini(&file->text);
    wgi_buf_fini(&file->repaired);
}
