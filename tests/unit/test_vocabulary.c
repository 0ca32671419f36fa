/*
 * test_vocabulary.c - vocabularies that gguf-py wrote (tests/data/gguf-vocabularies, made by
 * tools/make_tiny_gguf.py): each way to split texts, and WordPiece with and without capital letters
 * and accents, must give the ids of Hugging Face tokenizers; and what is refused by name.
 *
 * LIBRARIES: wgi_job wgi_model wgi_tokenizer wgi_base
 * LABELS: quick torture
 */
#include "temporary.h"
#include "tokenizer_cases.h"

static wg_error err;

#define FOLDER WGT_DATA "/gguf-vocabularies/"

static void check_cases(const char *file, wgi_slice cases)
{
    wg_tokenizer *tokenizer = NULL;
    wg_encoding encoding = {0};
    char path[512];
    size_t number = 0;
    wgi_json json;

    (void)snprintf(path, sizeof(path), FOLDER "%s", file);
    EXPECT_OK(wg_tokenizer_open(&tokenizer, path, &err));
    if (!tokenizer) {
        fprintf(stderr, "  %s\n", err.message);
        return;
    }
    wgi_json_init(&json, cases.data, cases.count);
    EXPECT_OK(wgi_json_array_begin(&json, &err));
    while (wgi_json_array_next(&json)) {
        wgi_slice one;
        EXPECT_OK(wgi_json_raw(&json, &one, &err));
        wgt_case_check(tokenizer, one, &encoding, file, ++number);
    }
    EXPECT_OK(wgi_json_finish(&json, &err));
    EXPECT_EQ(number, 90);
    wgi_json_fini(&json);
    wg_encoding_fini(&encoding);
    wg_tokenizer_close(tokenizer);
}

static void check_line(wgi_slice line, size_t number, void *context)
{
    wgi_buf file = {0};
    wgi_json json;
    wgi_slice key, cases = {NULL, 0};

    (void)number;
    (void)context;
    wgi_json_init(&json, line.data, line.count);
    EXPECT_OK(wgi_json_object_begin(&json, &err));
    while (wgi_json_object_next(&json, &key))
        if (wgi_slice_is(key, "file"))
            EXPECT_OK(wgi_json_string(&json, &file, &err));
        else
            EXPECT_OK(wgi_json_raw(&json, &cases, &err));
    EXPECT_OK(wgi_json_finish(&json, &err));
    check_cases(file.data, cases);
    wgi_json_fini(&json);
    wgi_buf_fini(&file);
}

/* A file with another name in place of `from`, of the same length. */
static void check_refused(const char *file, const char *from, const char *to, const char *part)
{
    wgt_folder folder = wgt_folder_open();
    wg_tokenizer *tokenizer = NULL;
    char path[600];
    size_t bytes, count = strlen(from), found = 0;

    (void)snprintf(path, sizeof(path), FOLDER "%s", file);
    char *data = wgt_slurp(path, &bytes);
    for (size_t i = 0; i + count < bytes && !found; i++)
        if (memcmp(data + i, from, count) == 0) {
            memcpy(data + i, to, count);
            found = i;
        }
    EXPECT(found > 0);
    wgt_write(&folder, "changed.gguf", data, bytes);
    (void)snprintf(path, sizeof(path), "%s/changed.gguf", folder.path);
    EXPECT_EQ(wg_tokenizer_open(&tokenizer, path, &err), WG_ERR_UNSUPPORTED);
    EXPECT_IN(err.message, part);
    EXPECT_IN(err.message, "changed.gguf");
    free(data);
    wgt_folder_close(&folder);
}

/* Every allocation of opening fails in turn, for good or for one call. */
static void check_no_memory(const char *path, bool once)
{
    wg_tokenizer *tokenizer = NULL;
    uint64_t before = wgi_alloc_count();
    EXPECT_OK(wg_tokenizer_open(&tokenizer, path, &err));
    long needed = (long)(wgi_alloc_count() - before), nth = 1;

    wg_tokenizer_close(tokenizer);
    for (;; nth++) {
        if (once)
            wgi_alloc_fail_once(nth);
        else
            wgi_alloc_fail_at(nth);
        wg_status status = wg_tokenizer_open(&tokenizer, path, &err);
        wgi_alloc_fail_at(0);
        if (status != WG_ERR_NO_MEMORY) break;
        EXPECT(tokenizer == NULL);
    }
    EXPECT(tokenizer != NULL);
    EXPECT_EQ(nth, needed + 1);
    wg_tokenizer_close(tokenizer);
}

int main(void)
{
    EXPECT_EQ(wgt_lines(FOLDER "sample.jsonl", check_line, NULL), 12);
    static const char *const files[] = {FOLDER "bert-cased.gguf", FOLDER "qwen2.gguf",
                                        FOLDER "unigram-plain.gguf", FOLDER "unigram.gguf"};
    for (size_t i = 0; i < 2 * sizeof(files) / sizeof(files[0]); i++)
        check_no_memory(files[i / 2], i % 2);
    check_refused("qwen2.gguf", "qwen2", "qwenX", "tokenizer.ggml.pre \"qwenX\" is not supported");
    check_refused("default.gguf", "default", "defaulT", "\"defaulT\"");
    return wgt_result();
}
