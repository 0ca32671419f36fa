/*
 * test_backoff.c - capacity falls at once, climbs slowly, and settles where one bin in a thousand
 * fails, whatever the true limit is.
 * LIBRARIES: wgi_engine wgi_base
 */
#include "engine/backoff.h"
#include "harness.h"

static void test_steps(void)
{
    wgi_backoff backoff;

    wgi_backoff_init(&backoff, 10000);
    EXPECT_EQ(wgi_backoff_tokens(&backoff), 10000);
    wgi_backoff_done(&backoff, 10000);
    EXPECT_EQ(wgi_backoff_tokens(&backoff), 10000); /* never above what was measured */
    wgi_backoff_failed(&backoff, 9000);
    EXPECT_EQ(wgi_backoff_tokens(&backoff), 7200);
    for (int i = 0; i < 1000; i++)
        wgi_backoff_done(&backoff, 100); /* small bins prove nothing */
    EXPECT_EQ(wgi_backoff_tokens(&backoff), 7200);
    for (int i = 0; i < 100; i++)
        wgi_backoff_done(&backoff, wgi_backoff_tokens(&backoff));
    EXPECT(wgi_backoff_tokens(&backoff) >= 7379 && wgi_backoff_tokens(&backoff) <= 7381);
    for (int i = 0; i < 3000; i++)
        wgi_backoff_done(&backoff, wgi_backoff_tokens(&backoff));
    EXPECT_EQ(wgi_backoff_tokens(&backoff), 10000);
    for (int i = 0; i < 100; i++)
        wgi_backoff_failed(&backoff, 1);
    EXPECT(wgi_backoff_tokens(&backoff) >= 156);
}

/* The device holds 8,000 tokens, give or take 10 %; 10,000 had been measured. */
static void test_rate(void)
{
    wgi_backoff backoff;
    uint64_t failed = 0, bins = 400000, tokens = 0;

    wgt_seed_set(3);
    wgi_backoff_init(&backoff, 10000);
    for (uint64_t i = 0; i < bins; i++) {
        uint64_t size = wgi_backoff_tokens(&backoff), limit = 7200 + wgt_below(1600);

        if (size > limit) {
            failed++;
            wgi_backoff_failed(&backoff, size);
        } else {
            tokens += size;
            wgi_backoff_done(&backoff, size);
        }
    }
    printf("%.5f of the bins failed, %.0f tokens a bin\n", (double)failed / (double)bins,
           (double)tokens / (double)bins);
    EXPECT(failed * 1000 > bins / 2 && failed * 1000 < bins * 2);
    EXPECT(tokens / bins > 6000);
}

int main(void)
{
    test_steps();
    test_rate();
    return wgt_result();
}
