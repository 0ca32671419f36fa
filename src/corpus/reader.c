/*
 * reader.c - inputs to documents, in order: the loop over files.
 *
 *     inputs ──walk──▶ entries ──▶ [queue of files ahead] ──▶ file at hand ──▶ documents
 *                                   └ PDFs among them have their children running
 *
 * Reading is one thread's work and costs little beside the tokens that come of it, except for
 * PDFs, which take a child process each: so the reader looks a few files ahead and starts those
 * children early, and still hands everything out in input order. What a file is and how it is read
 * is file.c's business.
 *
 * Decided here, once, for users: an empty text file is one empty document; a text file is one
 * document with all its bytes, final newline included; with `lines` each line is one, blank ones
 * too; a lone CR ends no line; a JSON array instead of JSON lines is one failure; in directories
 * the suffix decides what is read; pdftotext joins words that were cut by a hyphen at a line end
 * ("well-" / "known" gives "wellknown").
 *
 * Refused: a thread for reading ahead (the job has one round the reader already).
 *
 * Threads: one caller at a time; wg_reader_stop from any.
 */
#include "warpgroup/warpgroup.h"

#include "base/alloc.h"
#include "base/os_clock.h"
#include "base/os_processor.h"
#include "base/os_read.h"
#include "corpus/file.h"

#define AHEAD_COUNT      64 /* files in the queue */
#define PDF_PROCESS_MAX  256
#define PUMP_NANOSECONDS 1000000u
#define RECORD_BYTES_MAX ((uint64_t)16 * 1024 * 1024)
#define TEXT_BYTES_MAX   ((uint64_t)256 * 1024 * 1024)
#define LIMIT_BYTES_MAX  ((uint64_t)1 << 40) /* so that sums of limits cannot wrap */
#define PDF_SECONDS      120
#define PDF_MEMORY_BYTES ((uint64_t)1024 * 1024 * 1024)

/* A file that has not had its turn. */
typedef struct queued {
    wgi_entry entry;
    wgi_pdf *pdf;   /* its child, once started */
    bool was_tried; /* looked at, and it is not for a child ahead of its turn */
} queued;

struct wg_reader {
    wgi_reading reading;
    wgi_walk *walk;
    bool walk_is_over;
    wgi_pdf_pool *pool;
    queued queue[AHEAD_COUNT]; /* a ring */
    size_t queue_first, queue_count;
    wgi_input file;
    uint64_t pumped_ns;
    bool is_over;
    wg_error fault; /* reading cannot go on: every later call says so again */
};

static queued *queue_at(wg_reader *reader, size_t index)
{
    return &reader->queue[(reader->queue_first + index) % AHEAD_COUNT];
}

static void defaults_fill(wgi_reading *reading, const wg_reader_options *options)
{
    wg_reader_options *o = &reading->options;

    *o = *options;
    if (!o->text_field) o->text_field = "text";
    if (!o->id_field) o->id_field = "id";
    if (o->pdf_process_count == 0) o->pdf_process_count = wgi_core_count();
    if (o->pdf_process_count > PDF_PROCESS_MAX) o->pdf_process_count = PDF_PROCESS_MAX;
    if (o->pdf_seconds == 0) o->pdf_seconds = PDF_SECONDS;
    if (o->pdf_memory_bytes == 0) o->pdf_memory_bytes = PDF_MEMORY_BYTES;
    reading->record_bytes_max = o->record_bytes_max ? o->record_bytes_max : RECORD_BYTES_MAX;
    reading->text_bytes_max = o->record_bytes_max ? o->record_bytes_max : TEXT_BYTES_MAX;
    if (reading->record_bytes_max > LIMIT_BYTES_MAX) reading->record_bytes_max = LIMIT_BYTES_MAX;
    if (reading->text_bytes_max > LIMIT_BYTES_MAX) reading->text_bytes_max = LIMIT_BYTES_MAX;
}

static wg_status options_check(const wg_reader_options *options, wg_error *err)
{
    if (!options) return wgi_fail(err, WG_ERR_ARGUMENT, "wg_reader_open: options are NULL");
    if (options->input_count > 0 && !options->inputs)
        return wgi_fail(err, WG_ERR_ARGUMENT, "wg_reader_open: inputs are NULL");
    for (size_t i = 0; i < options->input_count; i++) {
        if (!options->inputs[i] || !options->inputs[i][0])
            return wgi_fail(err, WG_ERR_ARGUMENT, "input %zu is an empty path", i + 1);
    }
    if ((unsigned)options->format > WG_FORMAT_PDF)
        return wgi_fail(err, WG_ERR_ARGUMENT, "wg_reader_open: unknown format %d",
                        (int)options->format);
    return WG_OK;
}

wg_status wg_reader_open(wg_reader **out, const wg_reader_options *options, wg_error *err)
{
    wg_status status = WG_OK;
    wg_reader *reader = NULL;

    *out = NULL;
    WGI_TRY(options_check(options, err));
    reader = wgi_calloc(1, sizeof(*reader));
    if (!reader) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a reader");
        goto cleanup;
    }
    reader->reading.stop_fd = -1;
    defaults_fill(&reader->reading, options);
    WGI_TRY(wgi_stop_open(&reader->reading.stop_fd, err));
    WGI_TRY(wgi_walk_open(&reader->walk, &reader->reading, err));
    WGI_TRY(wgi_pdf_pool_open(&reader->pool, &reader->reading, err));
    reader->file.reading = &reader->reading;
    reader->file.pool = reader->pool;

    *out = reader; /* ownership leaves here, only here */
    reader = NULL;

cleanup:
    wg_reader_close(reader);
    return status;
}

static wg_status queue_fill(wg_reader *reader, wg_error *err)
{
    wg_status status = WG_OK;

    while (reader->queue_count < AHEAD_COUNT && !reader->walk_is_over) {
        queued *next = queue_at(reader, reader->queue_count);
        bool has_entry;
        *next = (queued){0};
        WGI_TRY(wgi_walk_next(reader->walk, &next->entry, &has_entry, err));
        if (!has_entry)
            reader->walk_is_over = true;
        else
            reader->queue_count++;
    }

cleanup:
    return status;
}

/* Starts children for the next PDFs in the queue while there is room. */
static wg_status pdfs_start(wg_reader *reader, wg_error *err)
{
    wg_status status = WG_OK;

    for (size_t i = 0; i < reader->queue_count && wgi_pdf_has_room(reader->pool); i++) {
        queued *ahead = queue_at(reader, i);
        if (ahead->pdf || ahead->was_tried) continue;
        ahead->was_tried = true;
        if (wgi_input_is_plain_pdf(&reader->reading, &ahead->entry))
            WGI_TRY(wgi_pdf_start(reader->pool, &ahead->pdf, ahead->entry.path, -1, err));
    }

cleanup:
    return status;
}

/* The queue moves on by one file; *has_file is false at the end of all input. */
static wg_status file_advance(wg_reader *reader, bool *has_file, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(queue_fill(reader, err));
    *has_file = reader->queue_count > 0;
    if (!*has_file) goto cleanup;
    WGI_TRY(pdfs_start(reader, err));
    queued *head = queue_at(reader, 0);
    wgi_pdf *pdf = head->pdf;
    head->pdf = NULL;
    reader->queue_first = (reader->queue_first + 1) % AHEAD_COUNT;
    reader->queue_count--;
    WGI_TRY(wgi_input_open(&reader->file, &head->entry, pdf, err));

cleanup:
    return status;
}

/* Keeps the children ahead busy while other files are read. */
static wg_status pump(wg_reader *reader, wg_error *err)
{
    uint64_t now = wgi_clock_ns();

    if (now - reader->pumped_ns < PUMP_NANOSECONDS) return WG_OK;
    reader->pumped_ns = now;
    wg_status status = wgi_pdf_pump(reader->pool, err);
    return status == WG_OK ? pdfs_start(reader, err) : status;
}

wg_status wg_reader_next(wg_reader *reader, wg_document *document, int *has_document, wg_error *err)
{
    wg_status status = WG_OK;
    wg_error why = {0};
    bool has_file, found = false;

    *document = (wg_document){0};
    *has_document = 0;
    if (reader->fault.status != WG_OK)
        return wgi_fail(err, reader->fault.status, "%s", reader->fault.message);
    if (reader->is_over) goto cleanup;
    if (wgi_stop_is_raised(reader->reading.stop_fd)) {
        status = wgi_fail(&why, WG_ERR_INTERRUPTED, "reading was stopped");
        goto cleanup;
    }
    WGI_TRY(pump(reader, &why));
    while (!found) {
        if (!reader->file.is_open) {
            WGI_TRY(file_advance(reader, &has_file, &why));
            if (!has_file) break;
        }
        WGI_TRY(wgi_input_next(&reader->file, document, &found, &why));
        if (!found) wgi_input_close(&reader->file);
    }
    reader->is_over = !found;
    if (!found) goto cleanup;
    document->ordinal = reader->reading.counts.documents++;
    if (document->failure != WG_FAILURE_NONE) reader->reading.counts.failures++;
    *has_document = 1;

cleanup:
    if (status != WG_OK) {
        reader->fault = why;
        reader->fault.status = status;
        (void)wgi_fail(err, status, "%s", why.message);
    }
    return status;
}

wg_reader_counts wg_reader_counted(const wg_reader *reader)
{
    return reader->reading.counts;
}

void wg_reader_stop(const wg_reader *reader)
{
    wgi_stop_raise(reader->reading.stop_fd);
}

void wg_reader_close(wg_reader *reader)
{
    if (!reader) return;
    wgi_input_fini(&reader->file);
    for (size_t i = 0; i < reader->queue_count; i++)
        wgi_entry_fini(&queue_at(reader, i)->entry);
    wgi_pdf_pool_close(reader->pool);
    wgi_walk_close(reader->walk);
    wgi_read_close(reader->reading.stop_fd);
    wgi_free(reader);
}
