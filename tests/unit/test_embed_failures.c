/*
 * test_embed_failures.c - the option `failed` of wg_model_embed: a row of NaN for each text that
 * fails, told in order on the caller's thread; and the call that fails where it is not wanted.
 */
#include "harness.h"

#include <math.h>
#include <pthread.h>

#include "warpgroup/warpgroup.h"

#define MODEL WGT_DATA "/tiny-bert-h32-d8-mean"
#define DIM   32
#define TEXTS 9

static wg_error err;
static wg_model *model;
static float vectors[TEXTS][DIM];

/* Texts 2 and 5 are longer than the limit. */
static const char *const texts[TEXTS] = {
    "a cat",
    "the cat ran",
    "a cat ran ran ran ran ran ran ran ran ran ran ran ran ran ran ran ran ran ran ran ran ran",
    "the signal",
    "a signal ran",
    "signal signal signal signal signal signal signal signal signal signal signal signal signal",
    "ran",
    "of a cat",
    "the cat"};

typedef struct heard {
    pthread_t caller;
    uint64_t count, index[TEXTS];
    uint64_t stop_at; /* the call that gives up; 0: none */
} heard;

static int failed(void *context, uint64_t index, wg_failure failure, const char *reason)
{
    heard *h = context;

    EXPECT(pthread_equal(h->caller, pthread_self()));
    EXPECT_EQ(failure, WG_FAILURE_TOO_LONG);
    EXPECT_IN(reason, "tokens");
    if (h->count < TEXTS) h->index[h->count] = index;
    h->count++;
    return h->count == h->stop_at;
}

static wg_status embed(heard *h)
{
    wg_embed_options options = {
        .token_count_max = 24, .truncate = WG_TRUNCATE_ERROR, .thread_count = 2};

    if (h) {
        options.failed = failed;
        options.failed_context = h;
        h->caller = pthread_self();
    }
    memset(vectors, 0, sizeof(vectors));
    return wg_model_embed(model, texts, NULL, TEXTS, &vectors[0][0], sizeof(vectors), &options,
                          &err);
}

static void goes_on(void)
{
    heard h = {0};

    EXPECT_OK(embed(&h));
    EXPECT_EQ(h.count, 2);
    EXPECT_EQ(h.index[0], 2);
    EXPECT_EQ(h.index[1], 5);
    for (size_t i = 0; i < TEXTS; i++) {
        float alone[DIM];

        if (i == 2 || i == 5) {
            for (size_t j = 0; j < DIM; j++)
                EXPECT(isnan(vectors[i][j]));
            continue;
        }
        EXPECT_OK(wg_model_embed(model, &texts[i], NULL, 1, alone, sizeof(alone), NULL, &err));
        EXPECT(memcmp(alone, vectors[i], sizeof(alone)) == 0);
    }
}

static void gives_up(void)
{
    heard h = {.stop_at = 2};

    EXPECT_EQ(embed(&h), WG_ERR_LIMIT);
    EXPECT_EQ(h.count, 2);
    EXPECT_IN(err.message, "text 5:");
    EXPECT_EQ(embed(NULL), WG_ERR_LIMIT);
    EXPECT_IN(err.message, "text 2:");
}

int main(void)
{
    EXPECT_OK(wg_model_open(&model, &(wg_model_options){.path = MODEL}, &err));
    if (!model) return wgt_result();
    goes_on();
    gives_up();
    wg_model_close(model);
    return wgt_result();
}
