/*
 * cpu_isa.c - CPUID once, behind one function, so that a test can play another processor.
 *
 * A feature bit alone is not leave to use it: the operating system must also save the wide
 * registers, which XCR0 tells (Intel SDM volume 1, 13.3 and 15.2; AMD APM volume 2, 11.5).
 *
 * Threads: any; the hook belongs to tests with one thread.
 */
#include "backend/cpu/cpu_isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const wgi_cpu_id *fake;

void wgi_cpu_fake(const wgi_cpu_id *id)
{
    fake = id;
}

static wgi_cpu_id cpu_id(void)
{
    wgi_cpu_id id = {0, 0, 0};

    if (fake) return *fake;
#if defined(__x86_64__)
    unsigned a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d)) id.leaf1_ecx = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) id.leaf7_ebx = b;
    if (id.leaf1_ecx & 1u << 27) { /* OSXSAVE: XGETBV exists */
        uint32_t low, high;
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        id.xcr0 = (uint64_t)high << 32 | low;
    }
#endif
    return id;
}

bool wgi_cpu_has(wg_isa isa)
{
    const uint32_t leaf1 = 1u << 12 | 1u << 27 | 1u << 28;             /* FMA, OSXSAVE, AVX */
    const uint32_t avx2 = 1u << 5;                                     /* of leaf 7 */
    const uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F, DQ, BW, VL */
    const uint64_t ymm = 0x6, zmm = 0xE6; /* state of SSE, AVX; also masks and both zmm halves */
    wgi_cpu_id id;

    switch (isa) {
    case WG_ISA_AUTO:
    case WG_ISA_PLAIN:
        return true;
    case WG_ISA_AVX2:
        id = cpu_id();
        return (id.leaf1_ecx & leaf1) == leaf1 && (id.leaf7_ebx & avx2) && (id.xcr0 & ymm) == ymm;
    case WG_ISA_AVX512:
        id = cpu_id();
        return wgi_cpu_has(WG_ISA_AVX2) && (id.leaf7_ebx & avx512) == avx512 &&
               (id.xcr0 & zmm) == zmm;
    default:
        return false;
    }
}

wg_isa wgi_cpu_best(void)
{
    if (wgi_cpu_has(WG_ISA_AVX512)) return WG_ISA_AVX512;
    if (wgi_cpu_has(WG_ISA_AVX2)) return WG_ISA_AVX2;
    return WG_ISA_PLAIN;
}

const char *wgi_isa_name(wg_isa isa)
{
    switch (isa) {
    case WG_ISA_AUTO:
        return "auto";
    case WG_ISA_PLAIN:
        return "plain";
    case WG_ISA_AVX2:
        return "avx2";
    case WG_ISA_AVX512:
        return "avx512";
    default:
        return NULL;
    }
}
