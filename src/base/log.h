/*
 * log.h - messages for people, handed to the callback of wg_log_set; silent by default.
 */
#ifndef WGI_LOG_H
#define WGI_LOG_H

#include "warpgroup/warpgroup.h"

/* Any thread; calls are serialised. Messages longer than about 1,000 bytes are cut. */
void wgi_log(wg_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
