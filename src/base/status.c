/*
 * status.c - texts of statuses and failures, and the one place where messages are made.
 */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *wg_status_text(wg_status status)
{
    switch (status) {
#define STATUS_CASE(name, value, text) \
    case WG_##name:                    \
        return text;
        WG_STATUS_MAP(STATUS_CASE)
#undef STATUS_CASE
    default:
        return "unknown status";
    }
}

const char *wg_failure_code(wg_failure failure)
{
    switch (failure) {
#define FAILURE_CASE(name, code) \
    case WG_FAILURE_##name:      \
        return code;
        WG_FAILURE_MAP(FAILURE_CASE)
#undef FAILURE_CASE
    default:
        return "unknown";
    }
}

const char *wg_version(void)
{
    return WG_VERSION;
}

wg_status wgi_fail(wg_error *err, wg_status status, const char *format, ...)
{
    if (err) {
        va_list arguments;

        err->status = status;
        va_start(arguments, format);
        (void)vsnprintf(err->message, sizeof(err->message), format, arguments);
        va_end(arguments);
    }
    return status;
}

wg_status wgi_fail_prefix(wg_error *err, wg_status status, const char *prefix)
{
    if (err) {
        size_t room = sizeof(err->message) - 1;
        size_t before = strlen(prefix) < room / 2 ? strlen(prefix) : room / 2;
        size_t after = strlen(err->message);

        /* A message that becomes too long loses its end. */
        if (before + 2 + after > room) after = room - before - 2;
        memmove(err->message + before + 2, err->message, after);
        memcpy(err->message, prefix, before);
        memcpy(err->message + before, ": ", 2);
        err->message[before + 2 + after] = 0;
        err->status = status;
    }
    return status;
}
