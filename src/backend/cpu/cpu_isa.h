/*
 * cpu_isa.h - which instruction sets this processor and this operating system allow.
 */
#ifndef WGI_CPU_ISA_H
#define WGI_CPU_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "warpgroup/warpgroup.h"

/* What CPUID and XGETBV say, raw; zeros where there is no such thing. */
typedef struct wgi_cpu_id {
    uint32_t leaf1_ecx, leaf7_ebx;
    uint64_t xcr0;
} wgi_cpu_id;

/* True when the kernels of `isa` may run here. WG_ISA_AUTO and WG_ISA_PLAIN: always. */
bool wgi_cpu_has(wg_isa isa);

/* The best that may run here, never WG_ISA_AUTO. */
wg_isa wgi_cpu_best(void);

/* "plain", "avx2", "avx512"; NULL for a number that is none. */
const char *wgi_isa_name(wg_isa isa);

/* Test hook: answers come from `id` until the next call; NULL: from the processor. One thread. */
void wgi_cpu_fake(const wgi_cpu_id *id);

#endif
