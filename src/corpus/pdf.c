/*
 * pdf.c - pdftotext children; see pdf.h.
 *
 *     reader ──starts ahead──▶ [child] [child] [child]      each: one file, limits, two pipes
 *        ◀──in input order───── text   text    text
 *
 * A PDF parser meets hostile input, so it runs elsewhere: with a limit on address space and CPU
 * time set by the kernel, on wall time and on output kept here. No threads: pipes are polled. A
 * child that is ahead of its turn is not read once AHEAD_BYTES_MAX of text lie waiting; it stands
 * still on its full pipe, and that time is not counted against it. Wall time counts only while the
 * reader waits, so a slow consumer never makes a PDF fail.
 *
 * Text that would need a file (unpacked from gzip, or come through a pipe) lies in memory under
 * /proc/self/fd/0 of the child: no temporary files. The password of wg_reader_options stands in the
 * child's arguments, where other users of the machine can see it in a process list: pdftotext
 * has no other way.
 *
 * Refused: linking poppler (its C++ interface is not stable, and its crashes would be ours).
 *
 * Threads: the reader's own.
 */
#include "corpus/pdf.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os_clock.h"
#include "base/os_read.h"

#define AHEAD_BYTES_MAX      ((size_t)64 * 1024 * 1024)
#define COMPLAINTS_BYTES_MAX 4096
#define READ_BYTES           65536
#define DRAIN_TURNS_MAX      64 /* then the other children have their turn */
#define POLL_MILLISECONDS    50
#define FD_COUNT_MAX         900

struct wgi_pdf_pool {
    wgi_reading *reading;
    wgi_pdf *first; /* in the order of their starts */
    size_t running;
    int fds[FD_COUNT_MAX]; /* to poll */
};

wg_status wgi_pdf_pool_open(wgi_pdf_pool **out, wgi_reading *reading, wg_error *err)
{
    *out = wgi_calloc(1, sizeof(**out));
    if (!*out) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for PDF children");
    (*out)->reading = reading;
    return WG_OK;
}

void wgi_pdf_pool_close(wgi_pdf_pool *pool)
{
    if (!pool) return;
    while (pool->first)
        wgi_pdf_close(pool, pool->first);
    wgi_free(pool);
}

static size_t waiting_bytes(const wgi_pdf_pool *pool)
{
    size_t total = 0;

    for (const wgi_pdf *pdf = pool->first; pdf; pdf = pdf->next)
        total += pdf->text.count;
    return total;
}

bool wgi_pdf_has_room(const wgi_pdf_pool *pool)
{
    return pool->running < pool->reading->options.pdf_process_count &&
           waiting_bytes(pool) < AHEAD_BYTES_MAX;
}

static void done(wgi_pdf_pool *pool, wgi_pdf *pdf)
{
    if (!pdf->is_done) pool->running--;
    pdf->is_done = true;
    wgi_process_kill(&pdf->process);
    wgi_read_close(pdf->input_fd);
    pdf->input_fd = -1;
}

/* "-- path" ends the options; "./" keeps a relative name from being taken for a URL. */
static wg_status launch(wgi_pdf_pool *pool, wgi_pdf *pdf, const char *path, wg_error *err)
{
    wg_status status = WG_OK;
    const wg_reader_options *options = &pool->reading->options;
    const char *argv[10];
    size_t count = 0;
    wgi_buf name = {0};
    wg_error why;

    if (pdf->input_fd >= 0)
        WGI_TRY(wgi_buf_text(&name, "/proc/self/fd/0", err));
    else {
        if (path[0] != '/') WGI_TRY(wgi_buf_text(&name, "./", err));
        WGI_TRY(wgi_buf_text(&name, path, err));
    }
    argv[count++] = "pdftotext";
    argv[count++] = "-enc";
    argv[count++] = "UTF-8";
    if (options->pdf_password) {
        argv[count++] = "-upw";
        argv[count++] = options->pdf_password;
    }
    argv[count++] = "--";
    argv[count++] = name.data;
    argv[count++] = "-";
    argv[count] = NULL;

    wgi_process_options limits = {.argv = argv,
                                  .stdin_fd = pdf->input_fd,
                                  .memory_bytes = options->pdf_memory_bytes,
                                  .cpu_seconds = options->pdf_seconds};
    status = wgi_process_start(&pdf->process, &limits, &why);
    if (status == WG_OK) {
        pool->running++;
        goto cleanup;
    }
    if (status == WG_ERR_NO_MEMORY) {
        (void)wgi_fail(err, status, "%s", why.message);
        goto cleanup;
    }
    if (status == WG_ERR_UNSUPPORTED)
        wgi_pdf_fail(pdf, WG_FAILURE_IO,
                     "pdftotext was not found in PATH: install the package poppler-utils");
    else
        wgi_pdf_fail(pdf, WG_FAILURE_IO, "%s", why.message);
    pdf->is_done = true;
    status = WG_OK;

cleanup:
    wgi_buf_fini(&name);
    return status;
}

wg_status wgi_pdf_start(wgi_pdf_pool *pool, wgi_pdf **out, const char *path, int input_fd,
                        wg_error *err)
{
    wg_status status = WG_OK;
    wgi_pdf *pdf = wgi_calloc(1, sizeof(*pdf));

    *out = NULL;
    if (!pdf) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a PDF");
        goto cleanup;
    }
    pdf->process = (wgi_process){.out_fd = -1, .err_fd = -1};
    pdf->input_fd = input_fd;
    WGI_TRY(launch(pool, pdf, path, err));

    wgi_pdf **last = &pool->first;
    while (*last)
        last = &(*last)->next;
    *last = pdf;
    *out = pdf; /* ownership leaves here, only here */
    pdf = NULL;

cleanup:
    wgi_free(pdf);
    return status;
}

/* Reads what a pipe holds, closing it at its end. Beyond `keep` bytes nothing is kept. */
static wg_status drain(wgi_pdf *pdf, int *fd, wgi_buf *into, uint64_t keep, wg_error *err)
{
    char thrown_away[4096];
    wg_error why;
    size_t got;
    bool is_end = false;

    for (int turn = 0; *fd >= 0 && turn < DRAIN_TURNS_MAX; turn++) {
        bool is_full = into->count >= keep;
        size_t room = is_full ? sizeof(thrown_away) : READ_BYTES;
        wg_status status = is_full ? WG_OK : wgi_buf_reserve(into, room, err);
        if (status != WG_OK) return status;
        if (wgi_read_now(*fd, is_full ? thrown_away : into->data + into->count, room, &got, &is_end,
                         &why) != WG_OK) {
            wgi_pdf_fail(pdf, WG_FAILURE_IO, "pdftotext's answer could not be read: %s",
                         why.message);
            break;
        }
        if (is_end) {
            wgi_read_close(*fd);
            *fd = -1;
        } else if (got == 0) {
            break;
        } else if (!is_full) {
            into->count += got;
            into->data[into->count] = 0;
        }
    }
    return WG_OK;
}

/* Takes what one child has to say now. */
static wg_status pump_one(wgi_pdf_pool *pool, wgi_pdf *pdf, wg_error *err)
{
    wg_status status = WG_OK;
    uint64_t most = pool->reading->text_bytes_max;
    wgi_process_end end;

    WGI_TRY(drain(pdf, &pdf->process.err_fd, &pdf->complaints, COMPLAINTS_BYTES_MAX, err));
    WGI_TRY(drain(pdf, &pdf->process.out_fd, &pdf->text, most + 1, err));
    if (pdf->failure == WG_FAILURE_NONE && pdf->text.count > most)
        wgi_pdf_fail(pdf, WG_FAILURE_TOO_LONG, "its text has more than %llu bytes",
                     (unsigned long long)most);
    if (pdf->failure != WG_FAILURE_NONE) {
        done(pool, pdf);
    } else if (pdf->process.out_fd < 0 && pdf->process.err_fd < 0 &&
               wgi_process_ended(&pdf->process, &end)) {
        wgi_pdf_judge(pdf, &end);
        done(pool, pdf);
    }

cleanup:
    return status;
}

/* The same for all; a child ahead of its turn rests while too much text lies waiting. */
static wg_status pump_all(wgi_pdf_pool *pool, const wgi_pdf *head, wg_error *err)
{
    wg_status status = WG_OK;

    for (wgi_pdf *pdf = pool->first; pdf; pdf = pdf->next) {
        if (pdf->is_done || (pdf != head && waiting_bytes(pool) >= AHEAD_BYTES_MAX)) continue;
        WGI_TRY(pump_one(pool, pdf, err));
    }

cleanup:
    return status;
}

wg_status wgi_pdf_pump(wgi_pdf_pool *pool, wg_error *err)
{
    return pool->running > 0 ? pump_all(pool, NULL, err) : WG_OK;
}

/* Descriptors of all children that are being listened to. */
static size_t gather_fds(wgi_pdf_pool *pool, const wgi_pdf *head)
{
    bool is_crowded = waiting_bytes(pool) >= AHEAD_BYTES_MAX;
    size_t count = 0;

    for (const wgi_pdf *pdf = pool->first; pdf && count + 2 <= FD_COUNT_MAX; pdf = pdf->next) {
        if (pdf->is_done || (is_crowded && pdf != head)) continue;
        pool->fds[count++] = pdf->process.out_fd;
        pool->fds[count++] = pdf->process.err_fd;
    }
    return count;
}

/* One wait for whatever comes first, its time charged to the children that were listened to. */
static wg_status wait_step(wgi_pdf_pool *pool, wgi_pdf *head, wg_error *err)
{
    wg_status status = WG_OK;
    bool is_closing = head->process.out_fd < 0 && head->process.err_fd < 0;
    bool is_crowded = waiting_bytes(pool) >= AHEAD_BYTES_MAX;
    uint64_t before = wgi_clock_ns();

    /* Both pipes closed: the child is about to end, which no descriptor shows. */
    WGI_TRY(wgi_process_wait(pool->fds, gather_fds(pool, head), pool->reading->stop_fd,
                             is_closing ? 1 : POLL_MILLISECONDS, err));
    WGI_TRY(pump_all(pool, head, err));
    uint64_t waited = wgi_clock_ns() - before;
    for (wgi_pdf *pdf = pool->first; pdf; pdf = pdf->next) {
        if (pdf->is_done || (is_crowded && pdf != head)) continue;
        pdf->waited_ns += waited;
        if (pdf->waited_ns / 1000000000u < pool->reading->options.pdf_seconds) continue;
        wgi_pdf_fail(pdf, WG_FAILURE_DAMAGED,
                     "pdftotext had not finished after %llu seconds and was ended",
                     (unsigned long long)pool->reading->options.pdf_seconds);
        done(pool, pdf);
    }

cleanup:
    return status;
}

wg_status wgi_pdf_finish(wgi_pdf_pool *pool, wgi_pdf *pdf, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(pump_all(pool, pdf, err));
    while (!pdf->is_done)
        WGI_TRY(wait_step(pool, pdf, err));

cleanup:
    return status;
}

void wgi_pdf_close(wgi_pdf_pool *pool, wgi_pdf *pdf)
{
    if (!pdf) return;
    wgi_pdf **link = &pool->first;
    while (*link && *link != pdf)
        link = &(*link)->next;
    if (*link) *link = pdf->next;
    done(pool, pdf);
    wgi_buf_fini(&pdf->text);
    wgi_buf_fini(&pdf->complaints);
    wgi_free(pdf);
}
