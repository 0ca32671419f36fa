/*
 * os_memory.h - how much memory the process may still take, and how much it has taken.
 */
#ifndef WGI_OS_MEMORY_H
#define WGI_OS_MEMORY_H

#include <stdint.h>

/* Peak resident set of this process so far, in bytes (0: not known). */
uint64_t wgi_memory_peak_rss(void);
/* Resident set now, in bytes (0: not known). */
uint64_t wgi_memory_rss(void);

/*
 * Bytes that can still be taken: the least of MemAvailable, what every ancestor cgroup (v1 and v2)
 * leaves, and what RLIMIT_AS and RLIMIT_DATA leave. `root` is put before /proc and /sys (NULL or
 * "" outside tests).
 */
uint64_t wgi_memory_available(const char *root);

#endif
