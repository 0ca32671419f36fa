/*
 * kernels_plain.c - the kernels of kernels_body.h for any processor.
 *
 * Threads: no state.
 */
#include "backend/cpu/vector_plain.h"

#define WGI_KERNELS     wgi_cpu_kernels_plain
#define WGI_KERNELS_ISA "plain"

#include "backend/cpu/kernels_body.h"
