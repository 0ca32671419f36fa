/*
 * test_alloc.c - the door to the heap: the failure hook, the counter, checked products, growth.
 * LABELS: quick torture
 */
#include "base/alloc.h"

#include "harness.h"

static wg_error err;

/* From the nth call on every kind of allocation fails, and none before. */
static void test_fail_at(void)
{
    for (long nth = 1; nth <= 6; nth++) {
        void *memory[6];

        wgi_alloc_fail_at(nth);
        memory[0] = wgi_malloc(10);
        memory[1] = wgi_calloc(3, 5);
        memory[2] = wgi_realloc(NULL, 7);
        memory[3] = wgi_malloc_aligned(64, 100);
        memory[4] = wgi_strdup("text");
        memory[5] = wgi_memdup("a\0b", 3);
        wgi_alloc_fail_at(0);
        for (long i = 0; i < 6; i++) {
            EXPECT_EQ(memory[i] != NULL, i + 1 < nth);
            wgi_free(memory[i]);
        }
    }
    void *memory = wgi_malloc(1);
    EXPECT(memory != NULL);
    wgi_free(memory);
}

static void test_contents(void)
{
    uint64_t before = wgi_alloc_count();
    char *zeroed = wgi_calloc(3, 5);
    char *empty = wgi_malloc(0);
    char *aligned = wgi_malloc_aligned(4096, 1);
    char *copy = wgi_memdup("a\0b", 3);
    char *text = wgi_strdup("text");

    EXPECT_EQ(wgi_alloc_count() - before, 5);
    EXPECT(zeroed && empty && aligned && copy && text);
    for (int i = 0; zeroed && i < 15; i++)
        EXPECT_EQ(zeroed[i], 0);
    EXPECT_EQ((uintptr_t)aligned % 4096, 0);
    EXPECT(copy && memcmp(copy, "a\0b", 4) == 0);
    EXPECT_TEXT(text, "text");
    wgi_free(zeroed);
    wgi_free(empty);
    wgi_free(aligned);
    wgi_free(copy);
    wgi_free(text);
    wgi_free(NULL);
    EXPECT(wgi_calloc(SIZE_MAX, 2) == NULL);
}

static void test_checked_sizes(void)
{
    size_t size = 0;

    EXPECT(wgi_mul(6, 7, &size) && size == 42);
    EXPECT(!wgi_mul(SIZE_MAX / 2 + 1, 2, &size));
    EXPECT(wgi_add(SIZE_MAX - 1, 1, &size) && size == SIZE_MAX);
    EXPECT(!wgi_add(SIZE_MAX, 1, &size));
}

static void test_grow(void)
{
    uint32_t *items = NULL;
    size_t capacity = 0;

    for (uint32_t i = 0; i < 1000; i++) {
        EXPECT_OK(wgi_grow(&items, &capacity, i + 1, sizeof(*items), &err));
        EXPECT(capacity > i);
        items[i] = i;
    }
    size_t before = capacity;
    EXPECT_EQ(wgi_grow(&items, &capacity, SIZE_MAX / 2, sizeof(*items), &err), WG_ERR_NO_MEMORY);
    wgi_alloc_fail_at(1);
    EXPECT_EQ(wgi_grow(&items, &capacity, before + 1, sizeof(*items), &err), WG_ERR_NO_MEMORY);
    wgi_alloc_fail_at(0);
    EXPECT_EQ(capacity, before);
    for (uint32_t i = 0; i < 1000; i++)
        EXPECT_EQ(items[i], i);
    wgi_free(items);
}

int main(void)
{
    test_fail_at();
    test_contents();
    test_checked_sizes();
    test_grow();
    return wgt_result();
}
