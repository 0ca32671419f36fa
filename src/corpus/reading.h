/*
 * reading.h - what every stop inside the reader shares: settings, counts, the stop flag, and the
 * way warnings are said.
 */
#ifndef WGI_READING_H
#define WGI_READING_H

#include "base/buf.h"
#include "base/status.h"

typedef struct wgi_reading {
    wg_reader_options options; /* defaults filled in, except record_bytes_max */
    uint64_t record_bytes_max; /* a JSONL record or a line */
    uint64_t text_bytes_max;   /* a whole text file, the text of a PDF */
    wg_reader_counts counts;
    int stop_fd;
} wgi_reading;

/* Counts and logs "source:place: text". source: JSON text without quotes. */
void wgi_reading_warn(wgi_reading *reading, const wgi_buf *source, wg_place kind, uint64_t place,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));

/*
 * Appends a path as JSON text without quotes: a byte that is not UTF-8 becomes \udcXX, as
 * Python's surrogateescape has it, so that the path can be had back from the output.
 */
wg_status wgi_path_quote(wgi_buf *out, const char *path, wg_error *err);

#endif
