/*
 * test_decode_gguf.c - tokenizers of GGUF vocabularies give back the text that went in, as far as
 * their normaliser and their pieces let them.
 *
 * LIBRARIES: wgi_job wgi_model wgi_tokenizer wgi_base
 * LABELS: quick
 */
#include "tokenizer_cases.h"

#include "tokenizer/file_part.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static wg_error err;

#define FOLDER WGT_DATA "/gguf-vocabularies/"

/* What of a text must come back: all of it; its letters and digits of ASCII; or, where a normaliser
 * is or unknown characters, a text that has been there and back already, less blanks in a row. */
typedef enum gguf_rule { RULE_WHOLE, RULE_LETTERS, RULE_TWICE } gguf_rule;

typedef struct gguf_run {
    wg_tokenizer *tokenizer;
    const char *file;
    gguf_rule rule;
    size_t count, same;
    wg_encoding encoding;
    wg_decoding decoding;
} gguf_run;

static void there_and_back(gguf_run *run, const char *text, size_t count)
{
    wg_encode_options options = {.no_special_tokens = 1, .plain_specials = 1};

    EXPECT_OK(
        wg_tokenizer_encode(run->tokenizer, text, count, NULL, 0, &options, &run->encoding, &err));
    EXPECT_OK(wg_tokenizer_decode(run->tokenizer, run->encoding.token_ids,
                                  run->encoding.token_count, 1, &run->decoding, &err));
}

static bool is_letter(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* Appends what the rule looks at. */
static void keep(gguf_rule rule, const char *text, size_t count, wgi_buf *to)
{
    for (size_t i = 0; i < count; i++) {
        bool is_spare = text[i] == ' ' && (to->count == 0 || to->data[to->count - 1] == ' ');
        if (rule == RULE_LETTERS ? is_letter(text[i]) : rule == RULE_WHOLE || !is_spare)
            EXPECT_OK(wgi_buf_append(to, text + i, 1, &err));
    }
    if (rule == RULE_TWICE && to->count && to->data[to->count - 1] == ' ') to->count--;
    EXPECT_OK(wgi_buf_append(to, "", 1, &err));
}

static void check_back(gguf_run *run, const wgi_buf *text)
{
    wgi_buf first = {0}, is = {0}, want = {0};

    there_and_back(run, text->data, text->count);
    run->count++;
    run->same += run->decoding.text_bytes == text->count &&
                 memcmp(run->decoding.text, text->data, text->count) == 0;
    if (run->rule == RULE_TWICE) {
        EXPECT_OK(wgi_buf_append(&first, run->decoding.text, run->decoding.text_bytes, &err));
        there_and_back(run, first.data, first.count);
    } else {
        EXPECT_OK(wgi_buf_append(&first, text->data, text->count, &err));
    }
    keep(run->rule, run->decoding.text, run->decoding.text_bytes, &is);
    keep(run->rule, first.data, first.count, &want);
    if (is.count != want.count || memcmp(is.data, want.data, is.count) != 0) {
        wgt_fail_at(run->file, (int)run->count);
        fprintf(stderr, "back is \"%s\"\n  expected \"%s\"\n  of \"%s\"\n", is.data, want.data,
                text->data);
    }
    wgi_buf_fini(&first);
    wgi_buf_fini(&is);
    wgi_buf_fini(&want);
}

static void check_gguf_line(wgi_slice line, size_t number, void *context)
{
    gguf_run *run = context;
    wgi_buf file = {0};
    wgi_slice list = {"[]", 2}, item;
    wgi_field fields[] = {{.name = "file", .kind = WGI_FIELD_TEXT, .out = &file},
                          {.name = "cases", .kind = WGI_FIELD_RAW, .out = &list}};
    wgi_json json;

    (void)number;
    EXPECT_OK(wgi_fields_read(line, "line", fields, COUNT_OF(fields), NULL, &err));
    wgi_json_init(&json, list.data, list.count);
    EXPECT_OK(wgi_json_array_begin(&json, &err));
    while (file.data && strcmp(file.data, run->file) == 0 && wgi_json_array_next(&json)) {
        wgt_case one = {0};
        EXPECT_OK(wgi_json_raw(&json, &item, &err));
        EXPECT_OK(wgt_case_read(item, &one, &err));
        check_back(run, &one.text);
        wgt_case_fini(&one);
    }
    wgi_json_fini(&json);
    wgi_buf_fini(&file);
}

int main(void)
{
    static const struct {
        const char *file;
        gguf_rule rule;
        size_t same_min; /* texts of 90 that come back byte for byte */
        const char *text, *back;
    } files[] = {{"default.gguf", RULE_WHOLE, 90, "Hi, <s> 12  x", "Hi, <s> 12  x"},
                 {"llama-bpe.gguf", RULE_WHOLE, 90, "Hi, <s> 12  x", "Hi, <s> 12  x"},
                 {"roberta-bpe.gguf", RULE_WHOLE, 90, "Hi, <s> 12  x", "Hi, <s> 12  x"},
                 {"qwen2.gguf", RULE_TWICE, 60, "e\xCC\x81 a", "\xC3\xA9 a"},
                 {"smollm.gguf", RULE_LETTERS, 0, "Hi,<s>12x", "Hi,<s>12x"},
                 {"bert-cased.gguf", RULE_TWICE, 0, "Ab, 12.", "Ab, 12."},
                 {"bert-uncased.gguf", RULE_TWICE, 0, "Ab, 12.", "ab, 12."},
                 {"bert-uncased-accents.gguf", RULE_TWICE, 0, "Ab, 12.", "ab, 12."},
                 {"bert-uncased-said.gguf", RULE_TWICE, 0, "Ab, 12.", "ab, 12."},
                 {"bert-cased-said.gguf", RULE_TWICE, 0, "ab, 12.", "ab, 12."},
                 {"unigram.gguf", RULE_TWICE, 0, "ab  a 1", "ab a 1"},
                 {"unigram-plain.gguf", RULE_TWICE, 0, "ab  a 1", "ab a 1"}};

    for (size_t i = 0; i < COUNT_OF(files); i++) {
        gguf_run run = {.file = files[i].file, .rule = files[i].rule};
        char path[512];
        (void)snprintf(path, sizeof(path), FOLDER "%s", files[i].file);
        EXPECT_OK(wg_tokenizer_open(&run.tokenizer, path, &err));
        if (!run.tokenizer) continue;
        EXPECT_EQ(wgt_lines(FOLDER "sample.jsonl", check_gguf_line, &run), 12);
        EXPECT_EQ(run.count, 90);
        EXPECT(run.same >= files[i].same_min);
        there_and_back(&run, files[i].text, strlen(files[i].text));
        EXPECT_TEXT(run.decoding.text, files[i].back);
        wg_encoding_fini(&run.encoding);
        wg_decoding_fini(&run.decoding);
        wg_tokenizer_close(run.tokenizer);
    }
    return wgt_result();
}
