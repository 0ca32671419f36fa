/*
 * os_clock.h - monotonic time.
 */
#ifndef WGI_OS_CLOCK_H
#define WGI_OS_CLOCK_H

#include <stdint.h>
#include <time.h>

uint64_t wgi_clock_ns(void);

/* A moment of wgi_clock_ns(), for pthread_cond_timedwait on CLOCK_MONOTONIC. */
struct timespec wgi_clock_when(uint64_t ns);

/* The moment so many milliseconds from now, likewise. */
struct timespec wgi_clock_after_ms(uint32_t milliseconds);

#endif
