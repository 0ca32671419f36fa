/*
 * test_tokenizer_torture.c - the 1st, 2nd, ... allocation fails in turn, on opening and on
 * encoding, until a run needs none; every path out of memory runs once under the sanitizers.
 *
 * LIBRARIES: wgi_tokenizer wgi_base
 * LABELS: quick torture
 */
#include "tokenizer_cases.h"

#include "base/alloc.h"

static wg_error err;

/* Two ways to run out of memory: for good, or for one call, so that nothing later covers it up. */
static void fail_at(long nth, bool once)
{
    if (once)
        wgi_alloc_fail_once(nth);
    else
        wgi_alloc_fail_at(nth);
}

static void test_open_so(const char *path, bool once)
{
    wg_tokenizer *whole = NULL;
    uint64_t before = wgi_alloc_count();
    wg_status wanted = wgi_tokenizer_open_json(&whole, path, &err);
    long needed = (long)(wgi_alloc_count() - before);

    wg_tokenizer_close(whole);
    EXPECT(needed > 10);
    for (long nth = 1;; nth++) {
        wg_tokenizer *tokenizer = NULL;
        fail_at(nth, once);
        wg_status status = wgi_tokenizer_open_json(&tokenizer, path, &err);
        wgi_alloc_fail_at(0);
        if (status != WG_ERR_NO_MEMORY) {
            EXPECT_EQ(nth, needed + 1); /* none that failed was passed over */
            EXPECT_EQ(status, wanted);
            EXPECT((status == WG_OK) == (tokenizer != NULL));
            wg_tokenizer_close(tokenizer);
            return;
        }
        EXPECT(tokenizer == NULL);
    }
}

static void test_open(const char *path)
{
    test_open_so(path, false);
    test_open_so(path, true);
}

/* With `keep` one encoding serves all runs, so that less and less has to be allocated. */
static void test_encode_so(const char *path, bool keep, bool once)
{
    wg_tokenizer *tokenizer = NULL;
    wg_encoding encoding = {0}, want = {0};
    static const char piece[] =
        "Ka. \xC3\xA9\xCC\x81 \xE4\xB8\xAD \xFF [SEP] \xE3\x80\xAA\xE3\x80\xAF x ";
    char text[6000];
    size_t count = 0;

    EXPECT_OK(wgi_tokenizer_open_json(&tokenizer, path, &err));
    if (!tokenizer) return;
    for (; count + sizeof(piece) < sizeof(text); count += sizeof(piece) - 1)
        memcpy(text + count, piece, sizeof(piece) - 1);
    for (int mode = 0; mode < 3; mode++) {
        wg_encode_options options = {.token_count_max = mode ? 100 : 0,
                                     .truncate = mode == 2 ? WG_TRUNCATE_TAIL : WG_TRUNCATE_HEAD};
        EXPECT_OK(wg_tokenizer_encode(tokenizer, text, count, "ka", 2, &options, &want, &err));
        for (long nth = 1;; nth++) {
            if (!keep) wg_encoding_fini(&encoding);
            fail_at(nth, once);
            wg_status status =
                wg_tokenizer_encode(tokenizer, text, count, "ka", 2, &options, &encoding, &err);
            wgi_alloc_fail_at(0);
            if (status == WG_OK) {
                EXPECT(keep || nth > 5);
                EXPECT(encoding.token_count > 5);
                EXPECT_EQ(encoding.token_count, want.token_count);
                EXPECT(memcmp(encoding.token_ids, want.token_ids,
                              want.token_count * sizeof(int32_t)) == 0);
                break;
            }
            EXPECT_EQ(status, WG_ERR_NO_MEMORY);
            EXPECT_EQ(encoding.token_count, 0);
        }
    }
    wg_encoding_fini(&encoding);
    wg_encoding_fini(&want);
    wg_tokenizer_close(tokenizer);
}

static void test_encode(const char *path, bool keep)
{
    test_encode_so(path, keep, false);
    test_encode_so(path, keep, true);
}

int main(void)
{
    test_open(WGT_DATA "/cases/tiny-bert");
    test_open(WGT_DATA "/cases/tok-bad-norm.tokenizer.json");
    static const char *const families[] = {"gpt2like", "llama3like", "llama2like", "unigram"};
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        char path[512];
        (void)snprintf(path, sizeof(path), "%s/cases/tok-%s.tokenizer.json", WGT_DATA, families[i]);
        test_open(path);
        test_encode(path, false);
        test_encode(path, true);
    }
    test_open(WGT_DATA "/tokenizer-any-parts.json");
    test_encode(WGT_DATA "/tokenizer-any-parts.json", false);
    test_encode(WGT_DATA "/tokenizer-any-parts.json", true);
    test_encode(WGT_DATA "/cases/tiny-bert", true);
    test_encode(WGT_DATA "/cases/tiny-bert", false);
    test_encode(WGT_DATA "/tokenizer-small.json", false);
    return wgt_result();
}
