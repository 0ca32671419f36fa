/*
 * test_longest_text.c - a text that a decoder has positions for and a bin has no room for is a
 * failed text that names what would do; the others run, with the bytes that they always have. An
 * encoder is refused.
 */
#include "harness.h"

#include <math.h>

#include "warpgroup/warpgroup.h"

#define DECODER WGT_DATA "/tiny-llama-h64-d16-f16-tied"
#define ENCODER WGT_DATA "/tiny-bert-h32-d8-mean"
#define TEXTS   3
#define DIM     64
#define LONG    230 /* words of the second text */

static wg_error err;
static wg_model *model;
static char long_text[2 * LONG + 1];
static const char *texts[TEXTS] = {"a cat ran", long_text, "the signal"};
static float vectors[TEXTS][DIM];
static char reason_heard[512];
static uint64_t failed_count, failed_index;

static int failed(void *context, uint64_t index, wg_failure failure, const char *reason)
{
    (void)context;
    EXPECT_EQ(failure, WG_FAILURE_TOO_LONG);
    failed_count++;
    failed_index = index;
    (void)snprintf(reason_heard, sizeof(reason_heard), "%s", reason);
    return 0;
}

static wg_status embed(uint64_t batch_tokens, uint64_t memory_bytes)
{
    wg_embed_options options = {.batch_tokens = batch_tokens,
                                .memory_bytes = memory_bytes,
                                .thread_count = 1,
                                .failed = failed};

    failed_count = 0;
    memset(vectors, 0, sizeof(vectors));
    return wg_model_embed(model, texts, NULL, TEXTS, &vectors[0][0], sizeof(vectors), &options,
                          &err);
}

/* The short texts have their bytes, the long one failed and says what would do. */
static void expect_long_failed(float (*expected)[DIM], const char *advice)
{
    EXPECT_EQ(failed_count, 1);
    EXPECT_EQ(failed_index, 1);
    EXPECT_IN(reason_heard, "tokens, and a bin of this run holds ");
    EXPECT_IN(reason_heard, advice);
    EXPECT(isnan(vectors[1][0]));
    EXPECT_EQ(memcmp(vectors[0], expected[0], sizeof(vectors[0])), 0);
    EXPECT_EQ(memcmp(vectors[2], expected[2], sizeof(vectors[2])), 0);
}

/* Down from what is plenty until the run is refused: before that only the long text fails. */
static void test_memory(float (*expected)[DIM])
{
    unsigned left_out = 0;

    for (uint64_t room = UINT64_C(1) << 30; room > 4096; room -= room / 1024) {
        wg_status status = embed(0, room);

        if (status != WG_OK) {
            EXPECT_EQ(status, WG_ERR_LIMIT);
            EXPECT_IN(err.message, "use --memory ");
            break;
        }
        if (failed_count > 1) break; /* short texts too */
        if (failed_count == 1) {
            expect_long_failed(expected, "use --memory ");
            left_out++;
        } else {
            EXPECT_EQ(memcmp(vectors, expected, sizeof(vectors)), 0);
        }
    }
    EXPECT(left_out > 0);
}

static void test_decoder(void)
{
    static float expected[TEXTS][DIM];

    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = DECODER}, &err));
    EXPECT_OK(embed(0, 0));
    EXPECT_EQ(failed_count, 0);
    memcpy(expected, vectors, sizeof(expected));

    EXPECT_OK(embed(64, 0));
    expect_long_failed(expected, "use --max-batch-tokens");
    if (!WGT_HAS_SANITIZER) test_memory(expected); /* they hold memory of their own */
    wg_model_close(model);
}

static void test_encoder(void)
{
    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = ENCODER}, &err));
    EXPECT_EQ(embed(16, 0), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "max-batch-tokens 16 is below the longest text allowed");
    wg_model_close(model);
}

int main(void)
{
    for (int i = 0; i < LONG; i++)
        memcpy(long_text + (size_t)i * 2, "a ", 2);
    test_decoder();
    test_encoder();
    return wgt_result();
}
