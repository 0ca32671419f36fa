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

static void test_decoder(void)
{
    static float expected[TEXTS][DIM];
    uint64_t room;
    unsigned left_out = 0;
    int is_refused = 0;

    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = DECODER}, &err));
    EXPECT_OK(embed(0, 0));
    EXPECT_EQ(failed_count, 0);
    memcpy(expected, vectors, sizeof(expected));

    EXPECT_OK(embed(64, 0));
    expect_long_failed(expected, "use --max-batch-tokens");

    /* Down from what is plenty until the run is refused: in between only the long text fails. */
    for (room = UINT64_C(1) << 30; !is_refused && room > 4096; room -= room / 256) {
        wg_status status = embed(0, room);

        if (status != WG_OK) {
            EXPECT_EQ(status, WG_ERR_LIMIT);
            EXPECT_IN(err.message, "use --memory ");
            is_refused = 1;
        } else if (failed_count == 1) {
            expect_long_failed(expected, "use --memory ");
            left_out++;
        } else if (failed_count == 0) {
            EXPECT_EQ(memcmp(vectors, expected, sizeof(expected)), 0);
            EXPECT_EQ(left_out, 0);
        } else {
            break; /* short texts too */
        }
    }
    EXPECT(left_out > 0);
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
