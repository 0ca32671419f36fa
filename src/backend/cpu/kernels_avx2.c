/*
 * kernels_avx2.c - the kernels of kernels_body.h for AVX2 and FMA.
 *
 * Compiled with that flag, alone among its neighbours; entered only after CPUID allowed it.
 *
 * Threads: no state.
 */
#include "backend/cpu/vector_avx2.h"

#define WGI_KERNELS     wgi_cpu_kernels_avx2
#define WGI_KERNELS_ISA "avx2"

#include "backend/cpu/kernels_body.h"
