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

static void test_open(const char *path)
{
    for (long nth = 1;; nth++) {
        wg_tokenizer *tokenizer = NULL;
        wgi_alloc_fail_at(nth);
        wg_status status = wgi_tokenizer_open_json(&tokenizer, path, &err);
        wgi_alloc_fail_at(0);
        if (status != WG_ERR_NO_MEMORY) {
            EXPECT(nth > 10); /* else the hook was never in the path */
            EXPECT((status == WG_OK) == (tokenizer != NULL));
            wg_tokenizer_close(tokenizer);
            return;
        }
        EXPECT(tokenizer == NULL);
    }
}

static void test_encode(const char *path, bool keep)
{
    wg_tokenizer *tokenizer = NULL;
    wg_encoding encoding = {0};
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
        for (long nth = 1;; nth++) {
            if (!keep) wg_encoding_fini(&encoding);
            wgi_alloc_fail_at(nth);
            wg_status status =
                wg_tokenizer_encode(tokenizer, text, count, "ka", 2, &options, &encoding, &err);
            wgi_alloc_fail_at(0);
            if (status == WG_OK) {
                EXPECT(keep || nth > 5);
                EXPECT(encoding.token_count > 5);
                break;
            }
            EXPECT_EQ(status, WG_ERR_NO_MEMORY);
            EXPECT_EQ(encoding.token_count, 0);
        }
    }
    wg_encoding_fini(&encoding);
    wg_tokenizer_close(tokenizer);
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
    }
    test_open(WGT_DATA "/tokenizer-any-parts.json");
    test_encode(WGT_DATA "/tokenizer-any-parts.json", false);
    test_encode(WGT_DATA "/cases/tiny-bert", true);
    test_encode(WGT_DATA "/cases/tiny-bert", false);
    test_encode(WGT_DATA "/tokenizer-small.json", false);
    return wgt_result();
}
