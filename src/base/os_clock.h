/*
 * os_clock.h - monotonic time.
 */
#ifndef WGI_OS_CLOCK_H
#define WGI_OS_CLOCK_H

#include <stdint.h>

uint64_t wgi_clock_ns(void);

#endif
