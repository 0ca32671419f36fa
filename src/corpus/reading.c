/*
 * reading.c - warnings, and paths as JSON text; see reading.h.
 *
 * A path is quoted once and then stands the same in ids, in the source of a row and in the log, so
 * a newline or a control code in a file name cannot forge a line of the log. Refused: U+FFFD for
 * bytes that are not UTF-8 (two names could become one, and none could be opened again).
 *
 * Threads: the reader's own.
 */
#include "corpus/reading.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"

void wgi_reading_warn(wgi_reading *reading, const wgi_buf *source, wg_place kind, uint64_t place,
                      const char *format, ...)
{
    static const char *const names[] = {"", "line ", "page ", "byte "};
    char text[512], where[40] = "";
    va_list arguments;

    va_start(arguments, format);
    int written = vsnprintf(text, sizeof(text), format, arguments); /* cutting a long one is fine */
    va_end(arguments);
    if (kind != WG_PLACE_NONE)
        written = snprintf(where, sizeof(where), " %s%" PRIu64 ":", names[kind], place);
    (void)written;
    reading->counts.warnings++;
    wgi_log(WG_LOG_WARNING, "%s:%s %s", source->data, where, text);
}

wg_status wgi_path_quote(wgi_buf *out, const char *path, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf quoted = {0};
    size_t count = 0, at = 0;

    while (path[count])
        count++;
    while (at < count) {
        size_t good = wgi_utf8_check(path + at, count - at);
        if (good > 0) {
            quoted.count = 0;
            WGI_TRY(wgi_json_quote(&quoted, path + at, good, err));
            WGI_TRY(wgi_buf_append(out, quoted.data + 1, quoted.count - 2, err)); /* no quotes */
            at += good;
        }
        if (at == count) break;
        size_t end = at;
        (void)wgi_utf8_next(path, count, &end, NULL);
        for (; at < end; at++)
            WGI_TRY(wgi_buf_printf(out, err, "\\udc%02x", (unsigned)(unsigned char)path[at]));
    }
    WGI_TRY(wgi_buf_reserve(out, 0, err));

cleanup:
    wgi_buf_fini(&quoted);
    return status;
}
