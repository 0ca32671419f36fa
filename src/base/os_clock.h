/*
 * os_clock.h - monotonic time.
 */
#ifndef WGI_OS_CLOCK_H
#define WGI_OS_CLOCK_H

#include <stdint.h>
#include <time.h>

uint64_t wgi_clock_ns(void);

/* The moment so many milliseconds from now, for pthread_cond_timedwait on CLOCK_MONOTONIC. */
struct timespec wgi_clock_after_ms(uint32_t milliseconds);

#endif
