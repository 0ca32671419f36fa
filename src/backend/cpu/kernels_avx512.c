/*
 * kernels_avx512.c - the kernels of kernels_body.h for AVX-512 (F, BW, DQ, VL).
 *
 * Compiled with that flag, alone among its neighbours; entered only after CPUID allowed it.
 *
 * Threads: no state.
 */
#include "backend/cpu/vector_avx512.h"

#define WGI_KERNELS     wgi_cpu_kernels_avx512
#define WGI_KERNELS_ISA "avx512"

#include "backend/cpu/kernels_body.h"
