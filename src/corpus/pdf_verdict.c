/*
 * pdf_verdict.c - what the end of a pdftotext child means.
 *
 * Poppler says much on standard error and little in its exit status (0 done, 1 cannot open,
 * 3 no permission, 99 other), so both are read, with the text. The phrases were taken from poppler
 * 22.12; one that changes makes a reason less exact, never a failure a success: a PDF without a
 * visible character is always a failure. Pages are counted by form feeds, which end each page.
 *
 * Threads: the reader's own.
 */
#include "corpus/pdf.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void wgi_pdf_fail(wgi_pdf *pdf, wg_failure failure, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(pdf->reason, sizeof(pdf->reason), format, arguments);
    va_end(arguments);
    pdf->failure = failure;
}

/* The first line of the complaints that holds `word` ("" if none), cut to fit a sentence. */
static void first_line(const wgi_pdf *pdf, const char *word, char out[160])
{
    const char *at = pdf->complaints.count ? pdf->complaints.data : "";
    const char *hit = strstr(at, word);

    out[0] = 0;
    if (!hit) return;
    while (hit > at && hit[-1] != '\n')
        hit--;
    (void)snprintf(out, 160, "%.*s", (int)strcspn(hit, "\n"), hit);
}

static bool complains(const wgi_pdf *pdf, const char *word)
{
    return pdf->complaints.count && strstr(pdf->complaints.data, word);
}

typedef struct page_counts {
    size_t pages, empty, first_empty; /* first_empty is 1-based */
} page_counts;

static page_counts count_pages(const wgi_buf *text)
{
    page_counts counts = {0};
    bool is_empty = true;

    for (size_t i = 0; i < text->count; i++) {
        char c = text->data[i];
        if (c == '\f') {
            counts.pages++;
            if (is_empty && counts.empty++ == 0) counts.first_empty = counts.pages;
            is_empty = true;
        } else if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
            is_empty = false;
        }
    }
    if (!is_empty) counts.pages++; /* a last page without its form feed */
    return counts;
}

static void judge_signal(wgi_pdf *pdf, int signal_number)
{
    if (signal_number == SIGXCPU)
        wgi_pdf_fail(pdf, WG_FAILURE_DAMAGED, "pdftotext used up its processor time and was ended");
    else
        wgi_pdf_fail(pdf, WG_FAILURE_DAMAGED,
                     "pdftotext was ended by signal %d (%s): damaged, or it needs more memory than "
                     "it may have",
                     signal_number, strsignal(signal_number));
}

static void judge_status(wgi_pdf *pdf, int exit_status)
{
    char error[160];

    first_line(pdf, "Error", error);
    if (complains(pdf, "Incorrect password"))
        wgi_pdf_fail(pdf, WG_FAILURE_NEEDS_PASSWORD,
                     "needs a password: give the right one with --pdf-password");
    else if (complains(pdf, "out of memory") || complains(pdf, "Out of memory") ||
             complains(pdf, "bad_alloc"))
        wgi_pdf_fail(pdf, WG_FAILURE_DAMAGED, "pdftotext ran into its memory limit");
    else if (exit_status == 3)
        wgi_pdf_fail(pdf, WG_FAILURE_NEEDS_PASSWORD,
                     "its permissions forbid taking the text: a password is needed");
    else if (exit_status == 127)
        wgi_pdf_fail(pdf, WG_FAILURE_IO,
                     "pdftotext cannot run: reinstall the package "
                     "poppler-utils (%s)",
                     pdf->complaints.count ? pdf->complaints.data : "no reason given");
    else
        wgi_pdf_fail(pdf, WG_FAILURE_DAMAGED, "damaged PDF: %s (pdftotext ended with status %d)",
                     error[0] ? error : "no reason given", exit_status);
}

static void judge_text(wgi_pdf *pdf)
{
    page_counts counts = count_pages(&pdf->text);
    char error[160], pack[160];
    bool is_blank = counts.empty == counts.pages;

    first_line(pdf, "Error", error);
    first_line(pdf, "Missing language pack", pack);
    if (is_blank && pack[0])
        wgi_pdf_fail(pdf, WG_FAILURE_NO_TEXT_LAYER,
                     "its text needs CMap data that are missing: install the package poppler-data "
                     "(%.100s)",
                     pack);
    else if (is_blank && error[0])
        wgi_pdf_fail(pdf, WG_FAILURE_DAMAGED, "damaged PDF: %s", error);
    else if (is_blank)
        wgi_pdf_fail(pdf, WG_FAILURE_NO_TEXT_LAYER,
                     "no text layer: %zu page%s without a character (scanned? run OCR over it)",
                     counts.pages, counts.pages == 1 ? "" : "s");
    else if (pack[0])
        (void)snprintf(pdf->warning, sizeof(pdf->warning),
                       "text is missing, CMap data are not there: install the package "
                       "poppler-data (%.100s)",
                       pack);
    else if (error[0])
        (void)snprintf(pdf->warning, sizeof(pdf->warning), "text may be missing: %s", error);
    else if (counts.empty > 0)
        (void)snprintf(pdf->warning, sizeof(pdf->warning),
                       "%zu of %zu pages have no text, the first is page %zu", counts.empty,
                       counts.pages, counts.first_empty);
}

void wgi_pdf_judge(wgi_pdf *pdf, const wgi_process_end *end)
{
    if (!end->is_known)
        wgi_pdf_fail(pdf, WG_FAILURE_IO,
                     "how pdftotext ended is not known: this program must not "
                     "ignore SIGCHLD");
    else if (end->exit_status < 0)
        judge_signal(pdf, end->signal);
    else if (end->exit_status > 0)
        judge_status(pdf, end->exit_status);
    else
        judge_text(pdf);
}
