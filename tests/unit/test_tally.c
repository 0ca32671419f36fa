/*
 * test_tally.c - the arithmetic of the report against sums done by hand and by brute force.
 */
#include "harness.h"

#include "job/tally.h"

int main(void)
{
    wgi_tally tally = {0};

    EXPECT(wgi_tally_padding_of_8(&tally) == 0);
    for (uint32_t n = 1; n <= 8; n++)
        wgi_tally_tokens(&tally, n); /* 64 rows for 36 tokens */
    EXPECT(wgi_tally_padding_of_8(&tally) == 28.0 / 64);
    wgi_tally_tokens(&tally, 100); /* an open batch counts with what it has */
    EXPECT(wgi_tally_padding_of_8(&tally) == 28.0 / 164);
    EXPECT_EQ(tally.tokens, 136);
    EXPECT_EQ(tally.longest, 100);
    EXPECT_EQ(tally.histogram[0], 1); /* 1 */
    EXPECT_EQ(tally.histogram[1], 2); /* 2, 3 */
    EXPECT_EQ(tally.histogram[2], 4); /* 4 to 7 */
    EXPECT_EQ(tally.histogram[3], 1); /* 8 */
    EXPECT_EQ(tally.histogram[6], 1); /* 64 to 127 */

    tally.rows_real = 990;
    tally.rows_computed = 1000;
    EXPECT(wgi_tally_padding(&tally) == 0.01);

    wgt_seed_set(1);
    for (int trial = 0; trial < 200; trial++) {
        size_t count = (size_t)wgt_below(50) + 1;
        uint64_t rows = 0, tokens = 0, longest = 0, in_batch = 0;
        wgi_tally random = {0};
        for (size_t i = 0; i < count; i++) {
            uint32_t n = (uint32_t)wgt_below(1000) + 1;
            wgi_tally_tokens(&random, n);
            tokens += n;
            if (n > longest) longest = n;
            in_batch++;
            if (i % 8 == 7 || i + 1 == count) {
                rows += in_batch * longest;
                longest = in_batch = 0;
            }
        }
        EXPECT(wgi_tally_padding_of_8(&random) == (double)(rows - tokens) / (double)rows);
    }
    return wgt_result();
}
