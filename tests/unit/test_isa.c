/*
 * test_isa.c - which instruction sets are taken for given answers of CPUID and XGETBV, and how the
 * others are refused.
 */
#include "backend/backend.h"
#include "backend/cpu/cpu_isa.h"
#include "harness.h"

#define LEAF1   (1u << 12 | 1u << 27 | 1u << 28)
#define AVX2    (1u << 5)
#define AVX512  (1u << 16 | 1u << 17 | 1u << 30 | 1u << 31)
#define ALL_ZMM 0xE7u

static void expect_best(uint32_t leaf1, uint32_t leaf7, uint64_t xcr0, wg_isa best)
{
    wgi_cpu_id id = {leaf1, leaf7, xcr0};
    const wgi_backend *backend = NULL;
    wg_error err = {0};

    wgi_cpu_fake(&id);
    EXPECT_EQ(wgi_cpu_best(), best);
    EXPECT(wgi_cpu_has(WG_ISA_PLAIN));
    for (wg_isa isa = WG_ISA_AVX2; isa <= WG_ISA_AVX512; isa++) {
        EXPECT_EQ(wgi_cpu_has(isa), isa <= best);
        if (isa <= best) continue;
        EXPECT_EQ(wgi_backend_find(&backend, "cpu", isa, &err), WG_ERR_BACKEND);
        EXPECT(backend == NULL);
        EXPECT_IN(err.message, wgi_isa_name(isa));
        EXPECT_IN(err.message, wgi_isa_name(best));
    }
    wgi_cpu_fake(NULL);
}

int main(void)
{
    const wgi_backend *backend = NULL;
    wg_error err = {0};

    expect_best(LEAF1, AVX2 | AVX512, ALL_ZMM, WG_ISA_AVX512);
    expect_best(LEAF1, AVX2 | AVX512, 0x7, WG_ISA_AVX2);  /* the system saves no zmm */
    expect_best(LEAF1, AVX2 | AVX512, 0x67, WG_ISA_AVX2); /* nor their upper sixteen */
    expect_best(LEAF1, AVX2 | AVX512, 0x3, WG_ISA_PLAIN); /* nor ymm */
    expect_best(LEAF1, AVX2 | (AVX512 & ~(1u << 17)), ALL_ZMM, WG_ISA_AVX2); /* no DQ */
    expect_best(LEAF1, AVX2 | (AVX512 & ~(1u << 31)), ALL_ZMM, WG_ISA_AVX2); /* no VL */
    expect_best(LEAF1, AVX2, ALL_ZMM, WG_ISA_AVX2);
    expect_best(LEAF1, AVX512, ALL_ZMM, WG_ISA_PLAIN);
    expect_best(LEAF1 & ~(1u << 12), AVX2 | AVX512, ALL_ZMM, WG_ISA_PLAIN); /* no FMA */
    expect_best(LEAF1 & ~(1u << 27), AVX2 | AVX512, ALL_ZMM, WG_ISA_PLAIN); /* no OSXSAVE */
    expect_best(0, 0, 0, WG_ISA_PLAIN);

    /* On the real processor: automatic is the best, every name finds its table, others do not. */
    EXPECT_OK(wgi_backend_find(&backend, NULL, WG_ISA_AUTO, &err));
    if (backend) EXPECT_TEXT(backend->isa, wgi_isa_name(wgi_cpu_best()));
    EXPECT_OK(wgi_backend_find(&backend, "cpu", WG_ISA_PLAIN, &err));
    if (backend) EXPECT_TEXT(backend->isa, "plain");
    EXPECT_OK(wgi_backend_find(&backend, "reference", WG_ISA_AUTO, &err));
    if (backend) EXPECT_TEXT(backend->name, "reference");
    EXPECT_EQ(wgi_backend_find(&backend, "gpu", WG_ISA_AUTO, &err), WG_ERR_BACKEND);
    EXPECT_IN(err.message, "'gpu'");
    EXPECT_EQ(wgi_backend_find(&backend, "cpu", (wg_isa)77, &err), WG_ERR_ARGUMENT);
    EXPECT(backend == NULL);
    EXPECT(wgi_isa_name((wg_isa)77) == NULL);
    return wgt_result();
}
