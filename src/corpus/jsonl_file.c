/*
 * jsonl_file.c - documents of a JSON lines file: one a line that is not blank.
 *
 * A bad record is a failed document with its line, and the next line is a record again. The one
 * exception is a file that is a JSON array: it gives one failure, not one a line.
 *
 * Threads: the reader's own.
 */
#include <inttypes.h>

#include "corpus/file.h"

static size_t skip_blanks(const char *data, size_t count, size_t at)
{
    while (at < count &&
           (data[at] == ' ' || data[at] == '\t' || data[at] == '\r' || data[at] == '\n'))
        at++;
    return at;
}

/* '[' and behind it, on this line, an object or nothing: the start of an array of records. */
static bool begins_array(const wgi_line *line)
{
    size_t at = skip_blanks(line->data, line->count, 0);

    if (at == line->count || line->data[at] != '[') return false;
    at = skip_blanks(line->data, line->count, at + 1);
    return at == line->count || line->data[at] == '{' || line->data[at] == ']';
}

/* The record on a line that is neither blank nor too long. */
static wg_status record_document(wgi_input *file, const wgi_line *line, wg_document *document,
                                 wg_error *err)
{
    wg_status status = WG_OK;
    wgi_record *record = &file->record;
    const wg_reader_options *options = &file->reading->options;
    wgi_record_fields fields = {options->text_field, options->id_field, options->ids_field};
    uint64_t number = file->lines.number;

    WGI_TRY(wgi_record_read(record, &fields, line->data, line->count, err));
    if (record->id.count > 0) {
        document->id = record->id.data;
        document->id_bytes = record->id.count;
    } else {
        WGI_TRY(wgi_input_id(file, number, err));
    }
    if (record->failure != WG_FAILURE_NONE) {
        wgi_input_fail(file, document, record->failure, WG_PLACE_LINE, number, "%s",
                       record->reason.data);
        goto cleanup;
    }
    if (record->repaired > 0)
        wgi_reading_warn(file->reading, &file->source_name, WG_PLACE_LINE, number,
                         "ill-formed Unicode became U+FFFD (%" PRIu64 " times)", record->repaired);
    document->place_kind = WG_PLACE_LINE;
    document->place = number;
    if (options->ids_field) {
        document->token_ids = record->ids;
        document->token_count = record->id_count;
    } else {
        document->text = record->text.data;
        document->text_bytes = record->text.count;
    }

cleanup:
    return status;
}

/* UTF-16 that was not well formed is said once a file. */
static void warn_decode(wgi_input *file)
{
    if (file->decode.replaced > 0)
        wgi_reading_warn(
            file->reading, &file->source_name, WG_PLACE_OFFSET, file->decode.first_replaced,
            "UTF-16 units without a partner became U+FFFD (%" PRIu64 " times), here first",
            file->decode.replaced);
}

wg_status wgi_jsonl_next(wgi_input *file, wg_document *document, bool *has_document, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_line line;
    wg_error why;

    for (;;) {
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
        if (line.is_too_long || skip_blanks(line.data, line.count, 0) < line.count) break;
    }
    if (line.is_too_long) {
        WGI_TRY(wgi_input_id(file, file->lines.number, err));
        wgi_input_fail(file, document, WG_FAILURE_TOO_LONG, WG_PLACE_LINE, file->lines.number,
                       "the record has more than %" PRIu64 " bytes", file->lines.bytes_max);
    } else if (!file->has_records && begins_array(&line)) {
        file->is_over = true;
        WGI_TRY(wgi_input_id(file, 0, err));
        wgi_input_fail(file, document, WG_FAILURE_BAD_JSON, WG_PLACE_LINE, file->lines.number,
                       "the file is a JSON array, not JSON lines: write one record a line "
                       "(jq -c '.[]')");
    } else {
        WGI_TRY(record_document(file, &line, document, err));
    }
    file->has_records = true;

cleanup:
    return status;
}
