/*
 * alloc.h - the only door to the heap, so that tests can count what is taken and fail the
 * nth call. Sizes that are products go through wgi_mul.
 */
#ifndef WGI_ALLOC_H
#define WGI_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* All return NULL when memory runs out (or when a test says so). Zero bytes give a pointer. */
void *wgi_malloc(size_t bytes);
void *wgi_calloc(size_t count, size_t bytes); /* the product is checked */
void *wgi_realloc(void *memory, size_t bytes);
void *wgi_malloc_aligned(size_t alignment, size_t bytes); /* power of two, >= sizeof(void *) */
void wgi_free(void *memory);                              /* NULL is allowed */
void wgi_alloc_trim(void); /* what was freed goes back to the system, where the heap can do that */
char *wgi_strdup(const char *text);
void *wgi_memdup(const void *bytes, size_t count); /* adds a NUL behind the copy */

/* *out = a * b (a + b); false when it does not fit. */
static inline bool wgi_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool wgi_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/*
 * Grows *array (items of item_bytes) to hold at least `need` items, by doubling; contents stay,
 * new room is not cleared. On failure nothing changes.
 */
wg_status wgi_grow(void *array, size_t *capacity, size_t need, size_t item_bytes, wg_error *err);

/* Test hooks. */
void wgi_alloc_fail_at(long nth);   /* the nth call from now fails, and every one after; 0: never */
void wgi_alloc_fail_once(long nth); /* the nth alone */
uint64_t wgi_alloc_count(void);     /* calls so far that took memory */

#endif
