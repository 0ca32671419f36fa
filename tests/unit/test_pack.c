/*
 * test_pack.c - what every packing must keep: no bin over its limits, nothing in a later bin that
 * would have fitted an earlier one when its turn came, each sequence in one bin, equal lengths in
 * input order, and the slow definition of first-fit decreasing reproduced bin for bin.
 */
#include "base/alloc.h"
#include "engine/pack.h"
#include "harness.h"

static uint32_t lengths[6000], naive_bin[6000];
static uint64_t room[6000];
static size_t taken[6000];

/* The definition: sort, then scan all bins for each text. */
static size_t naive_first_fit(size_t count, const wgi_pack_limits *limits)
{
    static uint32_t order[6000];
    size_t bins = 0;

    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && lengths[order[at - 1]] < lengths[i]; at--)
            order[at] = order[at - 1];
        order[at] = (uint32_t)i;
    }
    for (size_t k = 0; k < count; k++) {
        uint32_t i = order[k];
        size_t b = 0;
        while (b < bins &&
               (room[b] < lengths[i] || (limits->sequences && taken[b] >= limits->sequences)))
            b++;
        if (b == bins) {
            room[bins] = limits->tokens;
            taken[bins++] = 0;
        }
        room[b] -= lengths[i];
        taken[b]++;
        naive_bin[i] = (uint32_t)b;
    }
    return bins;
}

static void check_against_definition(wgi_packing *packing, size_t count,
                                     const wgi_pack_limits *limits)
{
    wg_error err;
    size_t bins = naive_first_fit(count, limits);
    uint64_t tokens = 0;

    EXPECT_OK(wgi_pack_first_fit(packing, lengths, count, limits, &err));
    EXPECT_EQ(packing->bin_count, bins);
    for (size_t i = 0; i < count; i++) {
        tokens += lengths[i];
        if (packing->bin_of[i] == naive_bin[i]) continue;
        EXPECT_EQ(packing->bin_of[i], naive_bin[i]);
        break;
    }
    EXPECT_EQ(packing->token_count, tokens);
    EXPECT(packing->bin_count_least <= bins);
    EXPECT(packing->bin_count_least * limits->tokens >= tokens);
}

static uint32_t draw(unsigned kind, uint32_t most)
{
    if (kind == 0) return 1 + (uint32_t)wgt_below(most);
    if (kind == 1) return wgt_below(2) ? most : 1 + (uint32_t)wgt_below(most / 8 + 1);
    if (kind == 2) return most / 2 + 1;
    return 1 + (uint32_t)(wgt_below(most) * wgt_below(most) / most);
}

static void test_random(void)
{
    wgi_packing packing = {0};

    wgt_seed_set(11);
    for (int trial = 0; trial < 300; trial++) {
        uint64_t seed = wgt_seed;
        size_t count = 1 + wgt_below(trial % 20 == 0 ? 3000 : 200);
        uint32_t most = 1 + (uint32_t)wgt_below(trial % 3 == 0 ? 5000 : 300);
        int failed = wgt_failed;
        wgi_pack_limits limits = {.tokens = most * (1 + wgt_below(8)) + wgt_below(7)};

        if (trial % 4 == 1) limits.sequences = 1 + wgt_below(12);
        for (size_t i = 0; i < count; i++)
            lengths[i] = draw((unsigned)trial % 4, most);
        check_against_definition(&packing, count, &limits);
        if (wgt_failed != failed) {
            fprintf(stderr, "trial %d, WGT_SEED=%" PRIu64 "\n", trial, seed);
            break;
        }
    }
    wgi_packing_fini(&packing);
}

/* Three thirds and a rest: the bounds have known values. */
static void test_bounds(void)
{
    wgi_packing packing = {0};
    wgi_pack_limits limits = {.tokens = 100};
    wg_error err;

    for (size_t i = 0; i < 10; i++)
        lengths[i] = 51; /* no two share: ten bins, by tokens alone six */
    EXPECT_OK(wgi_pack_first_fit(&packing, lengths, 10, &limits, &err));
    EXPECT_EQ(packing.bin_count, 10);
    EXPECT_EQ(packing.bin_count_least, 10);
    for (size_t i = 0; i < 10; i++)
        lengths[i] = 50;
    EXPECT_OK(wgi_pack_first_fit(&packing, lengths, 10, &limits, &err));
    EXPECT_EQ(packing.bin_count_least, 5);
    /* 4 x 60 leave 40 each, where no 45 goes: 4 + ceil(6 * 45 / 100) = 7; by tokens six. */
    for (size_t i = 0; i < 10; i++)
        lengths[i] = i < 4 ? 60 : 45;
    EXPECT_OK(wgi_pack_first_fit(&packing, lengths, 10, &limits, &err));
    EXPECT_EQ(packing.bin_count_least, 7);
    EXPECT_EQ(packing.bin_count, 7);
    limits.sequences = 1;
    EXPECT_OK(wgi_pack_first_fit(&packing, lengths, 10, &limits, &err));
    EXPECT_EQ(packing.bin_count_least, 10);
    EXPECT_OK(wgi_pack_first_fit(&packing, lengths, 0, &limits, &err));
    EXPECT_EQ(packing.bin_count, 0);
    wgi_packing_fini(&packing);
}

/* Recipes B-01, B-02, X-01, X-09: limits that cannot work are refused by name, at once. */
static void test_refusals(void)
{
    wgi_packing packing = {0};
    wgi_pack_limits limits = {.tokens = 1000};
    wg_error err;

    lengths[0] = 10;
    lengths[1] = 5000;
    lengths[2] = 10;
    EXPECT_EQ(wgi_pack_first_fit(&packing, lengths, 3, &limits, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "sequence 1");
    EXPECT_IN(err.message, "5000");
    lengths[1] = 0;
    EXPECT_EQ(wgi_pack_first_fit(&packing, lengths, 3, &limits, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "sequence 1 is empty");
    lengths[1] = 3;
    limits.tokens = 0;
    EXPECT_EQ(wgi_pack_first_fit(&packing, lengths, 3, &limits, &err), WG_ERR_ARGUMENT);
    limits.tokens = (size_t)INT32_MAX + 1;
    EXPECT_EQ(wgi_pack_first_fit(&packing, lengths, 3, &limits, &err), WG_ERR_ARGUMENT);
    limits.tokens = 1;
    lengths[0] = lengths[1] = lengths[2] = 1;
    EXPECT_OK(wgi_pack_first_fit(&packing, lengths, 3, &limits, &err));
    EXPECT_EQ(packing.bin_count, 3);
    wgi_packing_fini(&packing);
}

/* After a reservation nothing is allocated; without memory there is a status. */
static void test_memory(void)
{
    wgi_packing packing = {0};
    wgi_pack_limits limits = {.tokens = 512};
    wg_error err;
    uint64_t before;

    EXPECT_OK(wgi_packing_reserve(&packing, 5000, false, &err));
    before = wgi_alloc_count();
    for (size_t count = 1; count <= 5000; count += 333) {
        for (size_t i = 0; i < count; i++)
            lengths[i] = 1 + (uint32_t)wgt_below(512);
        EXPECT_OK(wgi_pack_first_fit(&packing, lengths, count, &limits, &err));
    }
    EXPECT_EQ(wgi_alloc_count() - before, 0);
    wgi_packing_fini(&packing);
    for (long nth = 1; nth <= 2; nth++) {
        wgi_alloc_fail_at(nth);
        EXPECT_EQ(wgi_pack_first_fit(&packing, lengths, 100, &limits, &err), WG_ERR_NO_MEMORY);
        wgi_alloc_fail_at(0);
        wgi_packing_fini(&packing);
    }
}

int main(void)
{
    test_random();
    test_bounds();
    test_refusals();
    test_memory();
    return wgt_result();
}
