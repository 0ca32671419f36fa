/*
 * os_processor.h - what processor this is, and how much of it is ours.
 */
#ifndef WGI_OS_PROCESSOR_H
#define WGI_OS_PROCESSOR_H

#include <stddef.h>
#include <stdint.h>

/* Cores of the affinity mask (at least 1). */
uint32_t wgi_core_count(void);

/* The processor's own name for itself, NUL-terminated; "unknown processor" where it has none. */
void wgi_processor_name(char *out, size_t bytes);

#endif
