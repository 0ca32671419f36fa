/*
 * lines.h - a stream cut at line feeds, whatever the length of a line.
 */
#ifndef WGI_LINES_H
#define WGI_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "corpus/decode.h"

/* Zero it, set `from` and bytes_max, fini it. */
typedef struct wgi_lines {
    wgi_decode *from;   /* borrowed */
    uint64_t bytes_max; /* a longer line is passed over, and said to be too long */
    wgi_buf data;       /* from `begin` on not yet handed out */
    size_t begin;
    size_t searched; /* no line feed between begin and here */
    uint64_t number; /* of the line handed out last, 1-based */
    bool is_end;
} wgi_lines;

typedef struct wgi_line {
    const char *data; /* without LF or CR LF; borrowed until the next call */
    size_t count;
    bool is_too_long; /* data is its beginning */
} wgi_line;

/* *has_line is false at the end. The last line needs no line feed. After a fault of the stream
 * the line that it broke is not handed out. */
wg_status wgi_lines_next(wgi_lines *lines, wgi_line *line, bool *has_line, wg_error *err);
void wgi_lines_fini(wgi_lines *lines);

#endif
