/*
 * test_bin.c - a bin's arrays agree with one another, and each way in which they may not is named
 * (recipe X-11: cu_seqlens that do not start at 0, do not rise, do not end at the token count).
 */
#include "base/alloc.h"
#include "engine/bin.h"
#include "harness.h"

static const int32_t ids[] = {101, 7, 9, 102, 5, 5, 5};
static const int32_t types[] = {0, 0, 1, 1};

static void fill(wgi_bin *bin)
{
    wgi_bin_clear(bin);
    wgi_bin_append(bin, 40, ids, types, 4, 2);
    wgi_bin_append(bin, 41, ids, NULL, 1, 2);
    wgi_bin_append(bin, 42, ids + 4, NULL, 3, 2);
}

static void test_append(void)
{
    static const int32_t positions[] = {2, 3, 4, 5, 2, 2, 3, 4}, ends[] = {0, 4, 5, 8};
    wgi_bin bin;
    wg_error err;

    EXPECT_OK(wgi_bin_init(&bin, 8, 3, &err));
    fill(&bin);
    EXPECT_EQ(bin.token_count, 8);
    EXPECT_EQ(bin.sequence_count, 3);
    EXPECT_EQ(bin.longest, 4);
    EXPECT_EQ(memcmp(bin.position_ids, positions, sizeof(positions)), 0);
    EXPECT_EQ(memcmp(bin.cu_seqlens, ends, sizeof(ends)), 0);
    EXPECT_EQ(bin.token_ids[4], 101);
    EXPECT_EQ(bin.type_ids[2], 1);
    EXPECT_EQ(bin.type_ids[4], 0);
    EXPECT_EQ(bin.segments[2].row, 5);
    EXPECT_EQ(bin.segments[2].count, 3);
    EXPECT_EQ(bin.sequence_ids[2], 42);
    EXPECT_OK(wgi_bin_check(&bin, 103, &err));
    wgi_bin_clear(&bin);
    EXPECT_EQ(bin.token_count, 0);
    wgi_bin_fini(&bin);
}

/* One value is spoilt, the check names it, the value is restored. */
#define SPOIL(place, bad, sentence)                                 \
    do {                                                            \
        fill(&bin);                                                 \
        (place) = (bad);                                            \
        EXPECT_EQ(wgi_bin_check(&bin, 103, &err), WG_ERR_ARGUMENT); \
        EXPECT_IN(err.message, sentence);                           \
    } while (0)

static void test_check(void)
{
    wgi_bin bin;
    wg_error err;

    EXPECT_OK(wgi_bin_init(&bin, 8, 3, &err));
    SPOIL(bin.cu_seqlens[0], 1, "cu_seqlens[0] is 1");
    SPOIL(bin.cu_seqlens[1], 0, "must rise");
    SPOIL(bin.cu_seqlens[2], 4, "must rise");
    SPOIL(bin.cu_seqlens[2], 900, "beyond");
    SPOIL(bin.cu_seqlens[3], 7, "segment 2 has rows");
    SPOIL(bin.token_count, 7, "beyond");
    SPOIL(bin.token_count, 0, "empty");
    SPOIL(bin.sequence_count, 2, "ends at 5");
    SPOIL(bin.segments[1].row, 3, "segment 1");
    SPOIL(bin.longest, 3, "longest");
    SPOIL(bin.position_ids[5], 7, "position_ids[5] is 7");
    SPOIL(bin.position_ids[0], -1, "position_ids[0] is -1");
    SPOIL(bin.token_ids[3], 103, "token_ids[3] is 103");
    SPOIL(bin.token_ids[3], -1, "token_ids[3] is -1");
    fill(&bin);
    EXPECT_EQ(wgi_bin_check(NULL, 103, &err), WG_ERR_ARGUMENT);
    wgi_bin_fini(&bin);
    wgi_alloc_fail_at(1);
    EXPECT_EQ(wgi_bin_init(&bin, 8, 3, &err), WG_ERR_NO_MEMORY);
    wgi_alloc_fail_at(0);
    EXPECT_EQ(wgi_bin_init(&bin, SIZE_MAX / 2, 3, &err), WG_ERR_NO_MEMORY);
    EXPECT_EQ(wgi_bin_bytes(SIZE_MAX / 2, 3) == SIZE_MAX, 1);
}

int main(void)
{
    test_append();
    test_check();
    return wgt_result();
}
