/*
 * file.h - one input file and the documents in it.
 */
#ifndef WGI_FILE_H
#define WGI_FILE_H

#include <stdbool.h>

#include "corpus/decode.h"
#include "corpus/format.h"
#include "corpus/gunzip.h"
#include "corpus/lines.h"
#include "corpus/pdf.h"
#include "corpus/reading.h"
#include "corpus/record.h"
#include "corpus/source.h"
#include "corpus/walk.h"

/* Zero it, set reading and pool. Buffers are kept from file to file; wgi_input_fini ends it. */
typedef struct wgi_input {
    wgi_reading *reading; /* borrowed */
    wgi_pdf_pool *pool;   /* borrowed */
    wgi_entry entry;      /* owned while open */
    wgi_pdf *pdf;         /* owned while open */
    bool is_open;
    bool is_over; /* nothing more will come */
    bool is_strict;
    wg_format format; /* AUTO: refused, see refusal and reason */
    wg_failure refusal;
    uint64_t bytes_counted;

    /* The road: bytes, unpacked bytes, UTF-8, lines, fields. */
    wgi_source source;
    wgi_gunzip gunzip;
    wgi_decode decode;
    wgi_lines lines;
    wgi_record record;
    bool has_records; /* a line that was not blank was seen */

    wgi_buf source_name; /* path as JSON text */
    wgi_buf id;          /* of the document at hand */
    wgi_buf text, repaired;
    char reason[600]; /* of the failed document at hand, or of the refusal */
} wgi_input;

/*
 * Opens an entry and takes it over, with the PDF child that was started for it (or NULL). What
 * cannot be read becomes a failed document.
 */
wg_status wgi_input_open(wgi_input *file, wgi_entry *entry, wgi_pdf *pdf, wg_error *err);
/* Fills all of the document but its ordinal; *has_document is false at the end of the file. */
wg_status wgi_input_next(wgi_input *file, wg_document *document, bool *has_document, wg_error *err);
void wgi_input_close(wgi_input *file);
void wgi_input_fini(wgi_input *file);

/* Does this path hold a PDF that lies there plainly, so that a child can open it by itself? */
bool wgi_input_is_plain_pdf(const wgi_reading *reading, const wgi_entry *entry);

/* For the readers of a format, which are files of their own. A long reason is cut. */
void wgi_input_fail(wgi_input *file, wg_document *document, wg_failure failure, wg_place kind,
                    uint64_t place, const char *format, ...) __attribute__((format(printf, 6, 7)));
/* A fault of the stream: memory and a stop are statuses, the rest is a failed document. */
wg_status wgi_input_fault(wgi_input *file, wg_document *document, bool *has_document,
                          const wg_error *why, wg_place kind, uint64_t place, wg_error *err);
/* The default id, path or path:line, into file->id. */
wg_status wgi_input_id(wgi_input *file, uint64_t line, wg_error *err);

wg_status wgi_text_next(wgi_input *file, wg_document *document, bool *has_document, wg_error *err);
wg_status wgi_jsonl_next(wgi_input *file, wg_document *document, bool *has_document, wg_error *err);

#endif
