/*
 * buf.h - a growable run of bytes, always followed by a NUL that is not counted. Zero it to
 * begin, wgi_buf_fini to end; `count = 0` empties it and keeps the memory.
 */
#ifndef WGI_BUF_H
#define WGI_BUF_H

#include <stddef.h>

#include "base/status.h"

typedef struct wgi_buf {
    char *data; /* NULL until the first append */
    size_t count;
    size_t capacity;
} wgi_buf;

wg_status wgi_buf_reserve(wgi_buf *buf, size_t more,
                          wg_error *err); /* room for `more` behind count */
wg_status wgi_buf_append(wgi_buf *buf, const void *bytes, size_t count, wg_error *err);
wg_status wgi_buf_text(wgi_buf *buf, const char *text, wg_error *err);
wg_status wgi_buf_printf(wgi_buf *buf, wg_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void wgi_buf_fini(wgi_buf *buf);

#endif
