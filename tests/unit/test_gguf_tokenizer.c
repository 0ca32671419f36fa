/*
 * test_gguf_tokenizer.c - tokenizers out of GGUF metadata: small vocabularies written here, what
 * must be refused, and the real SmolLM2 file where it is at hand: $WARPGROUP_CACHE/models/
 * SmolLM2-135M-Instruct.Q4_1.gguf, else the same below ~/.cache/warpgroup.
 *
 * LIBRARIES: wgi_job wgi_model wgi_tokenizer wgi_base
 * LABELS: quick
 */
#include "job/gguf_tokenizer.h"

#include <math.h>

#include "base/os_clock.h"
#include "temporary.h"
#include "tokenizer_cases.h"

static wg_error err;

#define MARK      "\xE2\x96\x81"
#define TEXTS_MAX 512

/* A vocabulary of names, with scores that fall and types that are normal. */
typedef struct small {
    wgi_vocabulary vocabulary;
    wgi_slice tokens[TEXTS_MAX], merges[TEXTS_MAX];
    double scores[TEXTS_MAX];
    int32_t types[TEXTS_MAX];
    char bytes[256][8];
} small;

static wgi_slice slice_of(const char *text)
{
    return (wgi_slice){text, strlen(text)};
}

static void add(small *s, const char *name, wgi_token_type type, double score)
{
    size_t i = s->vocabulary.token_count++;

    s->tokens[i] = slice_of(name);
    s->types[i] = (int32_t)type;
    s->scores[i] = score;
}

static void begin(small *s, const char *model, const char *pre)
{
    *s = (small){.vocabulary = {.model = slice_of(model),
                                .pre = slice_of(pre),
                                .bos = WGI_NO_TOKEN,
                                .eos = WGI_NO_TOKEN,
                                .unknown = WGI_NO_TOKEN,
                                .cls = WGI_NO_TOKEN,
                                .separator = WGI_NO_TOKEN}};
    s->vocabulary.tokens = s->tokens;
    s->vocabulary.merges = s->merges;
    s->vocabulary.scores = s->scores;
    s->vocabulary.types = s->types;
}

static void expect_ids(const small *s, const char *text, const int32_t *want, size_t count)
{
    wg_tokenizer *tokenizer = NULL;
    wg_encoding encoding = {0};
    wgi_ids ids = {(int32_t *)want, count, count};

    EXPECT_OK(wgi_tokenizer_from_vocabulary(&tokenizer, &s->vocabulary, &err));
    if (!tokenizer) return;
    EXPECT_OK(wg_tokenizer_encode(tokenizer, text, strlen(text), NULL, 0, NULL, &encoding, &err));
    if (!wgt_ids_are(encoding.token_ids, encoding.token_count, &ids)) {
        wgt_fail_at("ids of", 0);
        fprintf(stderr, "\"%s\"\n", text);
        wgt_ids_print("is  ", encoding.token_ids, encoding.token_count);
        wgt_ids_print("want", want, count);
    }
    wg_encoding_fini(&encoding);
    wg_tokenizer_close(tokenizer);
}

#define EXPECT_IDS(s, text, ...)                        \
    expect_ids(s, text, (const int32_t[]){__VA_ARGS__}, \
               sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* Better pieces first; bytes where there is no piece; text that spells a token is the token. */
static void test_llama(void)
{
    static small s;

    begin(&s, "llama", "");
    add(&s, "<unk>", WGI_TOKEN_UNKNOWN, 0);
    add(&s, "<s>", WGI_TOKEN_CONTROL, 0);
    add(&s, "</s>", WGI_TOKEN_CONTROL, 0);
    add(&s, MARK, WGI_TOKEN_NORMAL, -9);
    add(&s, "a", WGI_TOKEN_NORMAL, -10);
    add(&s, "b", WGI_TOKEN_NORMAL, -11);
    add(&s, "c", WGI_TOKEN_NORMAL, -12);
    add(&s, "ab", WGI_TOKEN_NORMAL, -3);
    add(&s, "bc", WGI_TOKEN_NORMAL, -2);
    add(&s, MARK "a", WGI_TOKEN_NORMAL, -4);
    add(&s, MARK "ab", WGI_TOKEN_NORMAL, -1);
    s.vocabulary.bos = 1;
    s.vocabulary.unknown = 0;
    EXPECT_IDS(&s, "abc", 1, 9, 8); /* bc before ab */
    EXPECT_IDS(&s, "ab", 1, 10);
    EXPECT_IDS(&s, "a</s>c", 1, 9, 2, 3, 6);
    EXPECT_IDS(&s, "\xC3\xA9xa", 1, 3, 0, 4); /* unknown characters are one */
    add(&s, "<0xC3>", WGI_TOKEN_BYTE, 0);
    add(&s, "<0xA9>", WGI_TOKEN_BYTE, 0);
    EXPECT_IDS(&s, "\xC3\xA9xa", 1, 3, 11, 12, 0, 4);
    s.vocabulary.adds_space_prefix = WGI_SWITCH_OFF;
    s.vocabulary.adds_bos = WGI_SWITCH_OFF;
    s.vocabulary.adds_eos = WGI_SWITCH_ON;
    s.vocabulary.eos = 2;
    EXPECT_IDS(&s, "ab c", 7, 3, 6, 2);
    EXPECT_IDS(&s, "abc", 4, 8, 2);
    s.vocabulary.scores = NULL;
    wg_tokenizer *none = NULL;
    EXPECT_EQ(wgi_tokenizer_from_vocabulary(&none, &s.vocabulary, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "scores");
}

static void test_bert(void)
{
    static small s;

    begin(&s, "bert", "");
    add(&s, "[UNK]", WGI_TOKEN_UNKNOWN, 0);
    add(&s, "[CLS]", WGI_TOKEN_CONTROL, 0);
    add(&s, "[SEP]", WGI_TOKEN_CONTROL, 0);
    add(&s, MARK "un", WGI_TOKEN_NORMAL, 0);
    add(&s, "aff", WGI_TOKEN_NORMAL, 0);
    add(&s, "able", WGI_TOKEN_NORMAL, 0);
    add(&s, MARK ".", WGI_TOKEN_NORMAL, 0);
    s.vocabulary.unknown = 0;
    s.vocabulary.cls = 1;
    s.vocabulary.separator = 2;
    EXPECT_IDS(&s,
               "Un\xC3\xA1"
               "ffable. x",
               1, 3, 4, 5, 6, 0, 2);
    add(&s, MARK "Un", WGI_TOKEN_NORMAL, 0); /* a model that keeps capital letters */
    EXPECT_IDS(&s, "Un un", 1, 7, 3, 2);
}

static void test_gpt2(void)
{
    static small s;

    begin(&s, "gpt2", "gpt-2");
    add(&s, "<|end|>", WGI_TOKEN_CONTROL, 0);
    add(&s, "a", WGI_TOKEN_NORMAL, 0);
    add(&s, "b", WGI_TOKEN_NORMAL, 0);
    add(&s, "\xC4\xA0", WGI_TOKEN_NORMAL, 0); /* a blank */
    add(&s, "ab", WGI_TOKEN_NORMAL, 0);
    add(&s, "1", WGI_TOKEN_NORMAL, 0);
    add(&s, "11", WGI_TOKEN_NORMAL, 0);
    s.merges[0] = slice_of("a b");
    s.merges[1] = slice_of("1 1");
    s.vocabulary.merge_count = 2;
    EXPECT_IDS(&s, "ab ab<|end|>11", 4, 3, 4, 0, 6);
    s.vocabulary.pre = slice_of("smollm");
    EXPECT_IDS(&s, "11", 5, 5);
    s.vocabulary.pre = slice_of("llama-bpe");
    s.vocabulary.bos = 0;
    EXPECT_IDS(&s, "1111", 0, 6, 5, 5);
    s.vocabulary.pre = slice_of("");
    EXPECT_IDS(&s, "b11", 2, 6);
    s.vocabulary.pre = slice_of("tekken");
    wg_tokenizer *none = NULL;
    EXPECT_EQ(wgi_tokenizer_from_vocabulary(&none, &s.vocabulary, &err), WG_ERR_UNSUPPORTED);
    EXPECT_IN(err.message, "tekken");
    s.vocabulary.pre = slice_of("qwen2");
    s.merges[1] = slice_of("1 2");
    EXPECT_EQ(wgi_tokenizer_from_vocabulary(&none, &s.vocabulary, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "merge 1");
    s.merges[1] = slice_of("12");
    EXPECT_EQ(wgi_tokenizer_from_vocabulary(&none, &s.vocabulary, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "two pieces");
    s.vocabulary.bos = 7;
    EXPECT_EQ(wgi_tokenizer_from_vocabulary(&none, &s.vocabulary, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "id 7");
    s.vocabulary.model = slice_of("rwkv");
    EXPECT_EQ(wgi_tokenizer_from_vocabulary(&none, &s.vocabulary, &err), WG_ERR_UNSUPPORTED);
    EXPECT_IN(err.message, "rwkv");
    EXPECT(none == NULL);
}

/* Unigram: blanks folded, a mark before the text or not, and names that are no pieces. */
static void test_t5(void)
{
    static small s;
    wg_tokenizer *none = NULL;

    begin(&s, "t5", "default");
    add(&s, "<unk>", WGI_TOKEN_UNKNOWN, 0);
    add(&s, "</s>", WGI_TOKEN_CONTROL, 0);
    add(&s, MARK, WGI_TOKEN_NORMAL, -2);
    add(&s, "a", WGI_TOKEN_NORMAL, -3);
    add(&s, MARK "a", WGI_TOKEN_NORMAL, -2.5);
    add(&s, "b", WGI_TOKEN_NORMAL, -4);
    add(&s, "ab", WGI_TOKEN_NORMAL, -6);
    add(&s, "[PAD7]", WGI_TOKEN_UNUSED, -10000);
    s.vocabulary.unknown = 0;
    s.vocabulary.eos = 1;
    EXPECT_IDS(&s, "ab  a", 4, 5, 4, 1);
    EXPECT_IDS(&s, "x[PAD7]", 2, 0, 1); /* one unknown stretch, and no spare name */
    s.vocabulary.adds_space_prefix = WGI_SWITCH_OFF;
    s.vocabulary.adds_eos = WGI_SWITCH_OFF;
    EXPECT_IDS(&s, "a  a", 3, 3);
    s.vocabulary.charsmap = (wgi_slice){"\4\0\0", 3};
    EXPECT_EQ(wgi_tokenizer_from_vocabulary(&none, &s.vocabulary, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "charsmap is cut");
    s.vocabulary.unknown = 7;
    s.vocabulary.charsmap.count = 0;
    EXPECT_EQ(wgi_tokenizer_from_vocabulary(&none, &s.vocabulary, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "unknown_token_id");
    s.vocabulary.scores = NULL;
    EXPECT_EQ(wgi_tokenizer_from_vocabulary(&none, &s.vocabulary, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "scores");
    EXPECT(none == NULL);
}

/* A byte-level vocabulary without merges would give single bytes without a word. */
static void test_merges(void)
{
    static const char key[] = "tokenizer.ggml.merges";
    wgt_folder folder = wgt_folder_open();
    wg_tokenizer *tokenizer = NULL;
    char path[512];
    size_t bytes;
    char *data = wgt_slurp(WGT_DATA "/gguf-vocabularies/qwen2.gguf", &bytes);

    for (size_t i = 0; i + sizeof(key) < bytes; i++)
        if (memcmp(data + i, key, sizeof(key) - 1) == 0) data[i + sizeof(key) - 2] = 'S';
    wgt_write(&folder, "merges.gguf", data, bytes);
    free(data);
    (void)snprintf(path, sizeof(path), "%s/merges.gguf", folder.path);
    EXPECT_EQ(wg_tokenizer_open(&tokenizer, path, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "merges.gguf: key tokenizer.ggml.merges: is missing");
    wg_tokenizer_close(tokenizer);
    wgt_folder_close(&folder);
}

/* Scores that no path can be found by. */
static void test_scores(void)
{
    static const char key[] = "tokenizer.ggml.scores";
    wgt_folder folder = wgt_folder_open();
    wg_tokenizer *tokenizer = NULL;
    char path[512];
    size_t bytes;
    float score = NAN;
    char *data = wgt_slurp(WGT_DATA "/gguf-vocabularies/unigram-plain.gguf", &bytes);

    for (size_t i = 0; i + 100 < bytes; i++)
        if (memcmp(data + i, key, sizeof(key) - 1) == 0) /* kind, kind, count, the first ones */
            memcpy(data + i + sizeof(key) - 1 + 16 + 2 * sizeof(score), &score, sizeof(score));
    wgt_write(&folder, "scores.gguf", data, bytes);
    free(data);
    (void)snprintf(path, sizeof(path), "%s/scores.gguf", folder.path);
    EXPECT_EQ(wg_tokenizer_open(&tokenizer, path, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "scores.gguf: key tokenizer.ggml.scores: the score of token 2");
    wg_tokenizer_close(tokenizer);
    wgt_folder_close(&folder);
}

/* The public call takes either kind of file. */
static void test_path(void)
{
    wg_tokenizer *tokenizer = NULL;

    EXPECT_OK(wg_tokenizer_open(&tokenizer, WGT_DATA "/cases/tiny-bert", &err));
    wg_tokenizer_close(tokenizer);
    EXPECT_OK(wg_tokenizer_open(&tokenizer, WGT_DATA "/tokenizer-small.json", &err));
    wg_tokenizer_close(tokenizer);
    EXPECT_EQ(wg_tokenizer_open(&tokenizer, WGT_DATA "/cases/g23-tokens-int.gguf", &err),
              WG_ERR_FORMAT);
    EXPECT_IN(err.message, "tokenizer.ggml");
    EXPECT(tokenizer == NULL);
    EXPECT_EQ(wg_tokenizer_open(&tokenizer, WGT_DATA "/none", &err), WG_ERR_IO);
    EXPECT_EQ(wg_tokenizer_open(NULL, WGT_DATA "/none", &err), WG_ERR_ARGUMENT);
}

static void test_smollm2(void)
{
    const char *cache = getenv("WARPGROUP_CACHE"), *home = getenv("HOME");
    wg_tokenizer *tokenizer = NULL;
    wg_encoding encoding = {0};
    char path[1024];
    struct stat info;
    enum { LONG = 1 << 20 };

    (void)snprintf(path, sizeof(path), "%s%s/models/SmolLM2-135M-Instruct.Q4_1.gguf",
                   cache && *cache ? cache
                   : home          ? home
                                   : "",
                   cache && *cache ? "" : "/.cache/warpgroup");
    if (stat(path, &info) != 0) {
        fprintf(stderr, "not tested: %s is missing\n", path);
        return;
    }
    EXPECT_OK(wg_tokenizer_open(&tokenizer, path, &err));
    if (!tokenizer) return;
    EXPECT_EQ(wg_tokenizer_vocabulary_count(tokenizer), 49152);
    EXPECT_EQ(wgt_cases_check(tokenizer, WGT_DATA "/cases/tok-smollm2.jsonl"), 60);
    char *text = wgi_malloc(LONG);
    if (text) {
        memset(text, 'a', LONG);
        uint64_t start = wgi_clock_ns();
        EXPECT_OK(wg_tokenizer_encode(tokenizer, text, LONG, NULL, 0, NULL, &encoding, &err));
        EXPECT((double)(wgi_clock_ns() - start) * 1e-9 < (WGT_HAS_SANITIZER ? 30 : 2.0));
        EXPECT(encoding.token_count > 1000);
    }
    wgi_free(text);
    wg_encoding_fini(&encoding);
    wg_tokenizer_close(tokenizer);
}

int main(void)
{
    test_llama();
    test_bert();
    test_gpt2();
    test_t5();
    test_merges();
    test_scores();
    test_path();
    test_smollm2();
    return wgt_result();
}
