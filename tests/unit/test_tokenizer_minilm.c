/*
 * test_tokenizer_minilm.c - the real all-MiniLM-L6-v2 tokenizer: every case of the bug log, the
 * committed sample, and texts that would be slow if anything were quadratic. The tokenizer.json is
 * looked for in $WARPGROUP_CACHE/models/all-MiniLM-L6-v2, else in ~/.cache/warpgroup/models/...
 *
 * LIBRARIES: wgi_tokenizer wgi_base
 * LABELS: model
 */
#include "tokenizer_cases.h"

#include "base/alloc.h"
#include "base/os_clock.h"

static wg_error err;

/* One piece `count` times over, as one text. */
static void test_long(const wg_tokenizer *tokenizer, const char *piece, size_t bytes)
{
    wg_encoding encoding = {0};
    wg_encode_options head = {.token_count_max = 256};
    size_t length = strlen(piece), count = bytes / length;
    char *text = wgi_malloc(bytes);

    if (!text) return;
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * length, piece, length);
    int64_t begin = (int64_t)wgi_clock_ns();
    EXPECT_OK(wg_tokenizer_encode(tokenizer, text, count * length, NULL, 0, NULL, &encoding, &err));
    EXPECT(encoding.token_count >= 2);
    EXPECT_OK(
        wg_tokenizer_encode(tokenizer, text, count * length, NULL, 0, &head, &encoding, &err));
    EXPECT(encoding.token_count >= 2 && encoding.token_count <= 256);
    double seconds = (double)((int64_t)wgi_clock_ns() - begin) * 1e-9;
    EXPECT(seconds < (WGT_HAS_SANITIZER ? 30 : 2.0));
    wg_encoding_fini(&encoding);
    wgi_free(text);
}

int main(void)
{
    const char *cache = getenv("WARPGROUP_CACHE"), *home = getenv("HOME");
    char path[1024];
    struct stat info;
    wg_tokenizer *tokenizer = NULL;

    if (cache && *cache) {
        (void)snprintf(path, sizeof(path), "%s/models/all-MiniLM-L6-v2/tokenizer.json", cache);
    } else {
        (void)snprintf(path, sizeof(path),
                       "%s/.cache/warpgroup/models/all-MiniLM-L6-v2/tokenizer.json",
                       home ? home : "");
    }
    if (stat(path, &info) != 0) {
        fprintf(stderr, "skipped: %s is missing (a model directory goes there)\n", path);
        return WGT_SKIP;
    }
    EXPECT_OK(wgi_tokenizer_open_json(&tokenizer, path, &err));
    if (!tokenizer) return wgt_result();
    EXPECT_EQ(wg_tokenizer_vocabulary_count(tokenizer), 30522);
    EXPECT_EQ(wgt_cases_check(tokenizer, WGT_DATA "/cases/tok-minilm.jsonl"), 100);
    EXPECT_EQ(wgt_cases_check(tokenizer, WGT_DATA "/cases/tok-minilm-trunc.jsonl"), 10);
    EXPECT(wgt_cases_check(tokenizer, WGT_DATA "/tokenizer-minilm-sample.jsonl") >= 500);
    static const char *const pieces[] = {
        "a", "\xE4\xB8\xAD", "a.",  "\xCC\x81", "e\xCC\x81", "\xE3\x80\xAA\xE3\x80\xAF", "[SEP]",
        "[", "\xFF",         "qzx "};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
        test_long(tokenizer, pieces[i], 1u << 20);
    wg_tokenizer_close(tokenizer);
    return wgt_result();
}
