/*
 * reader_harness.h - reads inputs to the end and keeps copies of all documents and of the log, for
 * tests of the reader.
 */
#ifndef WGT_READER_HARNESS_H
#define WGT_READER_HARNESS_H

#include "harness.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "warpgroup/warpgroup.h"

typedef struct wgt_reading {
    wg_document *documents;
    size_t count, capacity;
    wg_reader_counts counts;
    wg_status status;
    wg_error err;
    wgi_buf log; /* "0 message\n": level and text of each message */
} wgt_reading;

static inline void wgt_log_keep(void *context, wg_log_level level, const char *message)
{
    wgi_buf *log = context;
    char digit[3] = {(char)('0' + (int)level), ' ', 0};
    size_t kept = strlen(message);

    /* Plain realloc: a test that makes allocations fail still gets its log. */
    char *grown = realloc(log->data, log->count + kept + 4);
    if (!grown) return;
    log->data = grown;
    memcpy(log->data + log->count, digit, 2);
    memcpy(log->data + log->count + 2, message, kept);
    log->count += kept + 3;
    log->data[log->count - 1] = '\n';
    log->data[log->count] = 0;
}

static inline void *wgt_copy(const void *bytes, size_t count)
{
    char *copy = malloc(count + 1);

    if (!copy) abort();
    if (count) memcpy(copy, bytes, count);
    copy[count] = 0;
    return copy;
}

static inline void wgt_keep(wgt_reading *reading, const wg_document *document)
{
    if (reading->count == reading->capacity) {
        reading->capacity = reading->capacity ? 2 * reading->capacity : 64;
        reading->documents =
            realloc(reading->documents, reading->capacity * sizeof(*reading->documents));
        if (!reading->documents) abort();
    }
    wg_document kept = *document;
    kept.id = wgt_copy(document->id, document->id_bytes);
    kept.source = wgt_copy(document->source, document->source_bytes);
    kept.reason = wgt_copy(document->reason, strlen(document->reason));
    if (document->text) kept.text = wgt_copy(document->text, document->text_bytes);
    if (document->token_ids)
        kept.token_ids = wgt_copy(document->token_ids, document->token_count * sizeof(int32_t));
    reading->documents[reading->count++] = kept;
}

/* To the end of the input, or to the first status that is not WG_OK. */
static inline wgt_reading wgt_read(const wg_reader_options *options)
{
    wgt_reading reading = {0};
    wg_reader *reader = NULL;
    wg_document document;
    int has_document = 1;

    wg_log_set(wgt_log_keep, &reading.log, WG_LOG_DEBUG);
    reading.status = wg_reader_open(&reader, options, &reading.err);
    while (reading.status == WG_OK && has_document) {
        reading.status = wg_reader_next(reader, &document, &has_document, &reading.err);
        if (reading.status == WG_OK && has_document) wgt_keep(&reading, &document);
    }
    if (reader) reading.counts = wg_reader_counted(reader);
    wg_reader_close(reader);
    wg_log_set(NULL, NULL, WG_LOG_ERROR);
    return reading;
}

static inline wgt_reading wgt_read_path(const char *path)
{
    return wgt_read(&(wg_reader_options){.inputs = &path, .input_count = 1});
}

static inline void wgt_reading_fini(wgt_reading *reading)
{
    for (size_t i = 0; i < reading->count; i++) {
        const wg_document *d = &reading->documents[i];
        free((void *)(uintptr_t)d->id);
        free((void *)(uintptr_t)d->source);
        free((void *)(uintptr_t)d->reason);
        free((void *)(uintptr_t)d->text);
        free((void *)(uintptr_t)d->token_ids);
    }
    free(reading->documents);
    free(reading->log.data);
    *reading = (wgt_reading){0};
}

#endif
