/*
 * test_longest_text.c - a text that the model has positions for and a bin has no room for is a
 * failed text that names what would do; the others run, with the bytes that they always have. An
 * encoder that was asked for a length it has no room for is refused.
 */
#include "harness.h"

#include <math.h>
#include <stdbool.h>

#include "warpgroup/warpgroup.h"

/* One of each forward pass, and of each way to know positions. */
static const char *const paths[] = {
    WGT_DATA "/tiny-llama-h64-d16-f16-tied",
    WGT_DATA "/tiny-bert-h32-d8-mean",
    WGT_DATA "/tiny-modernbert-h32-d16-local8-mean",
};

#define TEXTS   3
#define DIM_MAX 64
#define LONG    230 /* words of the second text */

static wg_error err;
static wg_model *model;
static uint32_t length_asked;
static size_t dim;
static char long_text[2 * LONG + 1];
static const char *texts[TEXTS] = {"a cat ran", long_text, "the signal"};
static float vectors[TEXTS * DIM_MAX];
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
                                .token_count_max = length_asked,
                                .thread_count = 1,
                                .failed = failed};

    failed_count = 0;
    memset(vectors, 0, sizeof(vectors));
    return wg_model_embed(model, texts, NULL, TEXTS, vectors, TEXTS * dim * sizeof(float), &options,
                          &err);
}

/* The short texts have their bytes, the long one failed and says what would do. */
static void expect_long_failed(const float *expected, const char *advice)
{
    EXPECT_EQ(failed_count, 1);
    EXPECT_EQ(failed_index, 1);
    EXPECT_IN(reason_heard, "tokens, and a bin of this run holds ");
    EXPECT_IN(reason_heard, advice);
    EXPECT(isnan(vectors[dim]));
    EXPECT_EQ(memcmp(vectors, expected, dim * sizeof(float)), 0);
    EXPECT_EQ(memcmp(vectors + 2 * dim, expected + 2 * dim, dim * sizeof(float)), 0);
}

/* Down from what is plenty until the run is refused: before that only the long text fails. */
static void test_memory(const float *expected, uint64_t batch_tokens)
{
    unsigned left_out = 0;

    for (uint64_t room = UINT64_C(1) << 30; room > 4096; room -= room / 1024) {
        wg_status status = embed(batch_tokens, room);

        if (status != WG_OK) {
            EXPECT_EQ(status, WG_ERR_LIMIT);
            EXPECT_IN(err.message, "use --memory ");
            break;
        }
        if (failed_count > 1) break; /* short texts too */
        if (failed_count == 1 && batch_tokens) {
            /* Memory alone would not do: the text is longer than the bins that were asked for. */
            expect_long_failed(expected, "larger --max-batch-tokens");
            left_out += strstr(reason_heard, "use --memory ") != NULL;
        } else if (failed_count == 1) {
            expect_long_failed(expected, "use --memory ");
            left_out++;
        } else {
            EXPECT_EQ(memcmp(vectors, expected, TEXTS * dim * sizeof(float)), 0);
        }
    }
    EXPECT(left_out > 0);
}

static void test_left_out(void)
{
    static float expected[TEXTS * DIM_MAX];

    EXPECT_OK(embed(0, 0));
    EXPECT_EQ(failed_count, 0);
    memcpy(expected, vectors, sizeof(expected));
    EXPECT_OK(embed(16, 0));
    expect_long_failed(expected, "use a larger --max-batch-tokens");
    if (WGT_HAS_SANITIZER) return; /* they hold memory of their own */
    test_memory(expected, 0);
    test_memory(expected, 48);
}

static void test_length_asked(bool is_decoder)
{
    length_asked = 60;
    if (is_decoder) {
        EXPECT_OK(embed(16, 0));
        EXPECT_EQ(failed_count, 1);
    } else {
        EXPECT_EQ(embed(16, 0), WG_ERR_ARGUMENT);
        EXPECT_IN(err.message, "max-batch-tokens 16 is below the longest text allowed");
        EXPECT_EQ(embed(0, 4096), WG_ERR_LIMIT);
        EXPECT_IN(err.message, "texts of 60 tokens need ");
        EXPECT_IN(err.message, "use --memory ");
    }
    length_asked = 0;
}

int main(void)
{
    for (int i = 0; i < LONG; i++)
        memcpy(long_text + (size_t)i * 2, "a ", 2);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = paths[i]}, &err));
        if (!model) break;
        dim = wg_model_describe(model)->dim;
        test_left_out();
        test_length_asked(i == 0);
        wg_model_close(model);
    }
    return wgt_result();
}
