/*
 * buf.c - the growable run of bytes; see buf.h.
 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

wg_status wgi_buf_reserve(wgi_buf *buf, size_t more, wg_error *err)
{
    size_t need;

    if (!wgi_add(buf->count, more, &need) || !wgi_add(need, 1, &need))
        return wgi_fail(err, WG_ERR_NO_MEMORY, "a buffer of %zu more bytes does not fit", more);
    wg_status status = wgi_grow(&buf->data, &buf->capacity, need, 1, err);
    if (status == WG_OK) buf->data[buf->count] = 0;
    return status;
}

wg_status wgi_buf_append(wgi_buf *buf, const void *bytes, size_t count, wg_error *err)
{
    wg_status status = wgi_buf_reserve(buf, count, err);

    if (status != WG_OK) return status;
    if (count) memcpy(buf->data + buf->count, bytes, count);
    buf->count += count;
    buf->data[buf->count] = 0;
    return WG_OK;
}

wg_status wgi_buf_text(wgi_buf *buf, const char *text, wg_error *err)
{
    return wgi_buf_append(buf, text, strlen(text), err);
}

wg_status wgi_buf_printf(wgi_buf *buf, wg_error *err, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) return wgi_fail(err, WG_ERR_ARGUMENT, "a text could not be formatted");

    wg_status status = wgi_buf_reserve(buf, (size_t)length, err);
    if (status != WG_OK) return status;
    va_start(arguments, format);
    (void)vsnprintf(buf->data + buf->count, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buf->count += (size_t)length;
    return WG_OK;
}

void wgi_buf_fini(wgi_buf *buf)
{
    wgi_free(buf->data);
    *buf = (wgi_buf){0};
}
