/*
 * alloc.c - the only caller of malloc and its family.
 *
 * The failure hook is an atomic countdown: cheap enough to stay in every build, so the torture
 * tests run on the very code that ships. Any thread.
 */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

/*
 * 0: off; 1: the next call fails, and so does every later one; -1: the next call fails, then off.
 */
static atomic_long countdown;
static atomic_ulong calls;

static bool may_allocate(void)
{
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    long left = atomic_load_explicit(&countdown, memory_order_relaxed);
    if (left == 0) return true;
    while (left > 1) {
        if (atomic_compare_exchange_weak_explicit(&countdown, &left, left - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    }
    while (left < 0) {
        if (atomic_compare_exchange_weak_explicit(&countdown, &left, left + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return left != -1;
    }
    return left == 0;
}

void wgi_alloc_fail_at(long nth)
{
    atomic_store(&countdown, nth);
}

void wgi_alloc_fail_once(long nth)
{
    atomic_store(&countdown, -nth);
}

uint64_t wgi_alloc_count(void)
{
    return atomic_load(&calls);
}

void *wgi_malloc(size_t bytes)
{
    return may_allocate() ? malloc(bytes ? bytes : 1) : NULL;
}

void *wgi_calloc(size_t count, size_t bytes)
{
    size_t product;

    if (!wgi_mul(count, bytes, &product) || !may_allocate()) return NULL;
    return calloc(count ? count : 1, bytes ? bytes : 1);
}

void *wgi_realloc(void *memory, size_t bytes)
{
    return may_allocate() ? realloc(memory, bytes ? bytes : 1) : NULL;
}

void *wgi_malloc_aligned(size_t alignment, size_t bytes)
{
    void *memory = NULL;

    if (!may_allocate() || posix_memalign(&memory, alignment, bytes ? bytes : 1) != 0) return NULL;
    return memory;
}

void wgi_free(void *memory)
{
    free(memory);
}

void wgi_alloc_trim(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

void *wgi_memdup(const void *bytes, size_t count)
{
    char *copy = count < SIZE_MAX ? wgi_malloc(count + 1) : NULL;

    if (!copy) return NULL;
    if (count) memcpy(copy, bytes, count);
    copy[count] = 0;
    return copy;
}

char *wgi_strdup(const char *text)
{
    return wgi_memdup(text, strlen(text));
}

wg_status wgi_grow(void *array, size_t *capacity, size_t need, size_t item_bytes, wg_error *err)
{
    size_t grown = *capacity < 16 ? 16 : *capacity;
    size_t bytes;
    void *moved;

    if (need <= *capacity) return WG_OK;
    while (grown < need) {
        if (!wgi_add(grown, grown / 2, &grown)) grown = need;
    }
    if (!wgi_mul(grown, item_bytes, &bytes))
        return wgi_fail(err, WG_ERR_NO_MEMORY, "%zu items of %zu bytes do not fit", need,
                        item_bytes);
    memcpy(&moved, array, sizeof(moved)); /* array points to a typed pointer */
    moved = wgi_realloc(moved, bytes);
    if (!moved) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu bytes", bytes);
    memcpy(array, &moved, sizeof(moved));
    *capacity = grown;
    return WG_OK;
}
