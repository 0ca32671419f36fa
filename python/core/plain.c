/*
 * plain.c - memory and time without Python.
 *
 * Deleters of tensors run on threads that do not hold the interpreter lock, where PyMem_Malloc is
 * not allowed; PyMem_RawMalloc is in the limited API only from 3.13 on. So that memory is the
 * heap's own.
 *
 * Threads: any.
 */
#include "core.h"

#include <stdlib.h>
#include <time.h>

void *wgpy_alloc(size_t bytes)
{
    return malloc(bytes ? bytes : 1);
}

void wgpy_free(void *memory)
{
    free(memory);
}

uint64_t wgpy_clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
