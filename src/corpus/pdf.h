/*
 * pdf.h - texts of PDF files, each by a pdftotext child of its own, several at once.
 */
#ifndef WGI_PDF_H
#define WGI_PDF_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/os_process.h"
#include "corpus/reading.h"

/* One PDF on its way. */
typedef struct wgi_pdf {
    wgi_process process;
    wgi_buf text;       /* what came so far; the whole text once it is done */
    wgi_buf complaints; /* the beginning of the child's standard error */
    uint64_t waited_ns; /* how long somebody has waited for it */
    int input_fd;       /* a copy in memory, or -1 */
    bool is_done;
    wg_failure failure; /* once done; reason says why */
    char reason[300];
    char warning[300]; /* "" or something that a reader of the text should know */
    struct wgi_pdf *next;
} wgi_pdf;

typedef struct wgi_pdf_pool wgi_pdf_pool;

wg_status wgi_pdf_pool_open(wgi_pdf_pool **out, wgi_reading *reading, wg_error *err);
void wgi_pdf_pool_close(wgi_pdf_pool *pool); /* ends every child */

/* Can one more be started ahead of its turn? */
bool wgi_pdf_has_room(const wgi_pdf_pool *pool);

/*
 * Starts a child on the file at path, or on input_fd (taken over on success) when that is not -1.
 * When it cannot be started, that is the PDF's failure, not a status.
 */
wg_status wgi_pdf_start(wgi_pdf_pool *pool, wgi_pdf **out, const char *path, int input_fd,
                        wg_error *err);
/* Takes what the children have to say now, without waiting. */
wg_status wgi_pdf_pump(wgi_pdf_pool *pool, wg_error *err);
/* Waits until this one is done. */
wg_status wgi_pdf_finish(wgi_pdf_pool *pool, wgi_pdf *pdf, wg_error *err);
void wgi_pdf_close(wgi_pdf_pool *pool, wgi_pdf *pdf);

/* What an ended child's status, text and complaints mean: fills failure, reason, warning. */
void wgi_pdf_judge(wgi_pdf *pdf, const wgi_process_end *end);
void wgi_pdf_fail(wgi_pdf *pdf, wg_failure failure, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
