/*
 * os_clock.c - monotonic time.
 */
#include "base/os_clock.h"

uint64_t wgi_clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct timespec wgi_clock_when(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}

struct timespec wgi_clock_after_ms(uint32_t milliseconds)
{
    return wgi_clock_when(wgi_clock_ns() + (uint64_t)milliseconds * 1000000u);
}
