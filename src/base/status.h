/*
 * status.h - how internal calls fail: the function where it went wrong writes the sentence
 * with wgi_fail, everybody above passes the status up with WGI_TRY and one `cleanup:` label.
 */
#ifndef WGI_STATUS_H
#define WGI_STATUS_H

#include "warpgroup/warpgroup.h"

/* Records status and message in err (which may be NULL) and returns status. */
wg_status wgi_fail(wg_error *err, wg_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the message that err holds (file names are added on the way up). */
wg_status wgi_fail_prefix(wg_error *err, wg_status status, const char *prefix);

/* The one macro that hides a jump: needs a local `status` and a label `cleanup`. */
#define WGI_TRY(call)                      \
    do {                                   \
        status = (call);                   \
        if (status != WG_OK) goto cleanup; \
    } while (0)

#endif
