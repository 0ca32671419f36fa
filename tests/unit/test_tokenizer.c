/*
 * test_tokenizer.c - ids of whole tokenizers against those of Hugging Face tokenizers, files that
 * must be refused, and what the public header promises of an encoding.
 *
 * LIBRARIES: wgi_tokenizer wgi_base
 * LABELS: quick
 */
#include "tokenizer_cases.h"

#include "base/alloc.h"
#include "base/log.h"

static wg_error err;

static wg_status parse(const char *text, wg_tokenizer **out);

static wg_tokenizer *open_file(const char *name)
{
    wg_tokenizer *tokenizer = NULL;
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/%s", WGT_DATA, name);
    EXPECT_OK(wgi_tokenizer_open_json(&tokenizer, path, &err));
    return tokenizer;
}

/* ------------------------------------------------------------------------------- samples */

static void test_small_sample(void)
{
    wg_tokenizer *tokenizer = open_file("tokenizer-small.json");

    if (!tokenizer) return;
    EXPECT(wgt_cases_check(tokenizer, WGT_DATA "/tokenizer-small-sample.jsonl") >= 500);
    wg_tokenizer_close(tokenizer);
}

/* What a long text gives is the begin or the end of what it gives without a limit. */
static void check_ends(const wg_tokenizer *tokenizer)
{
    static const char *const pieces[] = {"the",
                                         "They'll",
                                         " ",
                                         "  ",
                                         "\n",
                                         "12",
                                         "\xC3\xA9",
                                         ".",
                                         "\xE2\x96\x81",
                                         " of",
                                         "x=1; ",
                                         "A",
                                         "\xF0\x9F\x98\x80"};
    static char text[30000];
    wg_encoding whole = {0}, part = {0};
    size_t count = 0;

    while (count < sizeof(text) - 16) {
        const char *piece = pieces[wgt_below(sizeof(pieces) / sizeof(pieces[0]))];
        if (wgt_below(4000) == 0) piece = "<s>"; /* else chunks would never be full */
        memcpy(text + count, piece, strlen(piece));
        count += strlen(piece);
    }
    wg_encode_options options = {.no_special_tokens = 1};
    EXPECT_OK(wg_tokenizer_encode(tokenizer, text, count, NULL, 0, &options, &whole, &err));
    EXPECT(whole.token_count > 3000);
    for (int round = 0; round < 10; round++) {
        size_t kept = 1 + wgt_below(round < 5 ? 100 : whole.token_count);
        options = (wg_encode_options){.no_special_tokens = 1, .token_count_max = kept};
        EXPECT_OK(wg_tokenizer_encode(tokenizer, text, count, NULL, 0, &options, &part, &err));
        EXPECT_EQ(part.token_count, kept);
        EXPECT(memcmp(part.token_ids, whole.token_ids, kept * sizeof(int32_t)) == 0);
        options.truncate = WG_TRUNCATE_TAIL;
        EXPECT_OK(wg_tokenizer_encode(tokenizer, text, count, NULL, 0, &options, &part, &err));
        EXPECT_EQ(part.token_count, kept);
        EXPECT(memcmp(part.token_ids, whole.token_ids + whole.token_count - kept,
                      kept * sizeof(int32_t)) == 0);
    }
    wg_encoding_fini(&whole);
    wg_encoding_fini(&part);
}

/* Encoding again what was encoded takes no memory. */
static void check_steady(const wg_tokenizer *tokenizer, wg_encoding *encoding)
{
    static const char text[] =
        "The caf\xC3\xA9  they'll <s> 12345 \xE4\xB8\xAD\xE6\x96\x87 x=1;\n\n ok";

    for (int round = 0; round < 3; round++) {
        uint64_t before = wgi_alloc_count();
        EXPECT_OK(
            wg_tokenizer_encode(tokenizer, text, sizeof(text) - 1, NULL, 0, NULL, encoding, &err));
        EXPECT(round == 0 || wgi_alloc_count() == before);
    }
}

/* {"tokenizer": ..., "cases": [...]} */
static void check_parts(wgi_slice line, size_t number, void *context)
{
    wgt_run *run = context;
    wgi_slice file = {"", 0}, list = {"[]", 2}, item;
    wgi_field fields[] = {{.name = "tokenizer", .kind = WGI_FIELD_RAW, .out = &file},
                          {.name = "cases", .kind = WGI_FIELD_RAW, .out = &list}};
    wg_tokenizer *tokenizer = NULL;
    wgi_json json;

    EXPECT_OK(wgi_fields_read(line, "line", fields, 2, NULL, &err));
    EXPECT_OK(wgi_tokenizer_parse(&tokenizer, file, &err));
    if (!tokenizer) return;
    run->line_cases = 0;
    wgi_json_init(&json, list.data, list.count);
    EXPECT_OK(wgi_json_array_begin(&json, &err));
    while (wgi_json_array_next(&json)) {
        EXPECT_OK(wgi_json_raw(&json, &item, &err));
        /* The encoding goes from tokenizer to tokenizer: its word cache must not. */
        wgt_case_check(tokenizer, item, &run->encoding, run->path, number);
        run->line_cases++;
    }
    EXPECT_OK(wgi_json_finish(&json, &err));
    wgi_json_fini(&json);
    if (run->line_cases >= 500) { /* a family */
        check_ends(tokenizer);
        check_steady(tokenizer, &run->encoding);
    }
    wg_tokenizer_close(tokenizer);
}

static void check_family(wgi_slice line, size_t number, void *context)
{
    wgt_run *run = context;

    check_parts(line, number, context);
    EXPECT(run->line_cases >= 500);
}

/* Each family's pipeline, 500 cases and more. */
static void test_families_sample(void)
{
    wgt_run run = {.path = WGT_DATA "/tokenizer-families-sample.jsonl"};

    wgt_seed_set(9);
    EXPECT_EQ(wgt_lines(run.path, check_family, &run), 12);
    wg_encoding_fini(&run.encoding);
}

/* Parts that no family has, put together at random. */
static void test_mixed_sample(void)
{
    wgt_run run = {.path = WGT_DATA "/tokenizer-mixed-sample.jsonl"};

    EXPECT(wgt_lines(run.path, check_parts, &run) >= 40);
    wg_encoding_fini(&run.encoding);
}

static void test_parts_sample(void)
{
    wgt_run run = {.path = WGT_DATA "/tokenizer-parts-sample.jsonl"};

    EXPECT(wgt_lines(run.path, check_parts, &run) >= 40);
    wg_encoding_fini(&run.encoding);
}

/* {"normalizer": ..., "text": ..., "out": ...} */
static void check_normalizer(wgi_slice line, size_t number, void *context)
{
    static wgi_normalizer_scratch scratch;
    wgi_normalizer normalizer = {0};
    wgi_refusals refusals = {0};
    wgi_buf text = {0}, want = {0};
    wgi_slice part = {"", 0}, got = {"", 0};
    wgi_field fields[] = {{.name = "normalizer", .kind = WGI_FIELD_RAW, .out = &part},
                          {.name = "text", .kind = WGI_FIELD_TEXT, .out = &text},
                          {.name = "out", .kind = WGI_FIELD_TEXT, .out = &want}};

    EXPECT_OK(wgi_fields_read(line, "line", fields, 3, NULL, &err));
    EXPECT_OK(wgi_normalizer_load(&normalizer, part, &refusals, &err));
    EXPECT_EQ(refusals.count, 0);
    (void)context;
    EXPECT_OK(wgi_normalize(&normalizer, wgi_char_table_shared(),
                            (wgi_slice){text.data, text.count}, true, &scratch, &got, &err));
    if (got.count != want.count || (got.count && memcmp(got.data, want.data, got.count) != 0)) {
        wgt_fail_at("normalizer-sample.jsonl", (int)number);
        fprintf(stderr, "is \"%.*s\", expected \"%s\"\n", (int)got.count, got.data, want.data);
    }
    wgi_buf_fini(&text);
    wgi_buf_fini(&want);
    wgi_buf_fini(&refusals.names);
    wgi_normalizer_fini(&normalizer);
    wgi_normalizer_scratch_fini(&scratch);
}

static void test_normalizer_sample(void)
{
    EXPECT_EQ(wgt_lines(WGT_DATA "/normalizer-sample.jsonl", check_normalizer, NULL), 500);
}

/* An unknown character is 10 below the least score, and of equal ways the first found stays. */
static void test_unigram(void)
{
    static const struct {
        const char *vocabulary, *text;
        size_t count;
    } rows[] = {{"[[\"?\",0],[\"a\",5],[\"ab\",-4]]", "ab", 1},
                {"[[\"?\",0],[\"a\",11],[\"ab\",-4]]", "ab", 2},
                {"[[\"?\",0],[\"a\",-1],[\"aa\",-2]]", "aaaa", 2}, /* aa aa */
                {"[[\"?\",0],[\"a\",-1],[\"aa\",-2.5]]", "aaaa", 4},
                {"[[\"?\",0],[\"a\",-1]]", "bbab", 3}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        wg_tokenizer *tokenizer = NULL;
        wg_encoding encoding = {0};
        char text[200];
        (void)snprintf(text, sizeof(text),
                       "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":%s}}",
                       rows[i].vocabulary);
        EXPECT_OK(parse(text, &tokenizer));
        if (!tokenizer) continue;
        EXPECT_OK(wg_tokenizer_encode(tokenizer, rows[i].text, strlen(rows[i].text), NULL, 0, NULL,
                                      &encoding, &err));
        EXPECT_EQ(encoding.token_count, rows[i].count);
        wg_encoding_fini(&encoding);
        wg_tokenizer_close(tokenizer);
    }
}

/* The families' cases of the bug log. */
static void test_families(void)
{
    static const struct {
        const char *name, *cases;
    } files[] = {{"gpt2like", "gpt2like"},
                 {"oldmerges", "gpt2like"},
                 {"llama3like", "llama3like"},
                 {"llama2like", "llama2like"},
                 {"unigram", "unigram"}};

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char name[128], path[512];
        (void)snprintf(name, sizeof(name), "cases/tok-%s.tokenizer.json", files[i].name);
        (void)snprintf(path, sizeof(path), WGT_DATA "/cases/tok-%s.cases.jsonl", files[i].cases);
        wg_tokenizer *tokenizer = open_file(name);
        if (!tokenizer) continue;
        EXPECT_EQ(wgt_cases_check(tokenizer, path), 26);
        wg_tokenizer_close(tokenizer);
    }
}

/* ------------------------------------------------------------------------------ bad files */

static void test_bad_files(void)
{
    static const struct {
        const char *name, *part;
    } files[] = {{"norm", "FancyFold"},    {"pre", "regex"},   {"dupid", "id 5"},
                 {"hugeid", "4000000000"}, {"merge", "merge"}, {"negid", "-3"},
                 {"type", "WordLevelX"},   {"post", "<none>"}};

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        wg_tokenizer *tokenizer = NULL;
        char path[512];
        (void)snprintf(path, sizeof(path), "%s/cases/tok-bad-%s.tokenizer.json", WGT_DATA,
                       files[i].name);
        EXPECT(wgi_tokenizer_open_json(&tokenizer, path, &err) != WG_OK);
        EXPECT(tokenizer == NULL);
        EXPECT_IN(err.message, files[i].part);
        EXPECT_IN(err.message, path);
    }
}

#define BERT_PARTS                                                                              \
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":" \
    "true,"                                                                                     \
    "\"strip_accents\":null,\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}"
#define MODEL(vocabulary)                                                                         \
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\"," \
    "\"max_input_chars_per_word\":100,\"vocab\":" vocabulary "}"

#define SPLIT(kind, pattern, behavior)                                           \
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"" kind "\":\"" pattern \
    "\"},\"behavior\":\"" behavior "\",\"invert\":false}"

static wg_status parse(const char *text, wg_tokenizer **out)
{
    return wgi_tokenizer_parse(out, (wgi_slice){text, strlen(text)}, &err);
}

/* From the end, into an encoding that never held a token. */
static void test_no_token_at_all(void)
{
    const wg_encode_options options = {.token_count_max = 4, .truncate = WG_TRUNCATE_TAIL};
    wg_tokenizer *tokenizer = NULL;
    wg_encoding encoding = {0};

    EXPECT_OK(parse("{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", &tokenizer));
    EXPECT_OK(wg_tokenizer_encode(tokenizer, "a b", 3, NULL, 0, &options, &encoding, &err));
    EXPECT_EQ(encoding.token_count, 0);
    wg_encoding_fini(&encoding);
    wg_tokenizer_close(tokenizer);
}

static void test_refusals(void)
{
    static const struct {
        const char *text, *part;
        wg_status status;
    } files[] = {
        {"", "expected", WG_ERR_FORMAT},
        {"[]", "object", WG_ERR_FORMAT},
        {"{}", "\"model\" is missing", WG_ERR_FORMAT},
        {"{" MODEL("{\"?\":0}") ",\"stages\":1}", "stages", WG_ERR_UNSUPPORTED},
        {"{" MODEL("{\"?\":0}") ",\"stages\\u0031\":1}", "stages1", WG_ERR_UNSUPPORTED},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}}",
         "merge 0 needs \"ab\"", WG_ERR_FORMAT},
        {"{\"model\":{\"dropout\":0.1,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[[\"a\","
         "\"b\"]]}}",
         "dropout", WG_ERR_UNSUPPORTED},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}",
         "merge 0 is not two pieces", WG_ERR_FORMAT},
        {"{" MODEL("{\"?\":0}") ",\"version\":\"2.0\"}", "2.0", WG_ERR_UNSUPPORTED},
        {"{" MODEL("{\"a\":0}") "}", "unk_token \"?\"", WG_ERR_FORMAT},
        {"{" MODEL("{\"?\":0,\"a\":0}") "}", "id 0", WG_ERR_FORMAT},
        {"{" MODEL("{\"?\":0,\"a\":1.5}") "}", "1.5", WG_ERR_FORMAT},
        {"{" MODEL("{\"?\":0,\"a\":99999999999999999999}") "}", "99999999999999999999",
         WG_ERR_FORMAT},
        {"{" MODEL("[\"?\"]") "}", "vocab", WG_ERR_FORMAT},
        {"{" MODEL("{\"?\":0}") ",\"normalizer\":{\"lowercase\":true}}", "type", WG_ERR_FORMAT},
        {"{" MODEL("{\"?\":0}") ",\"normalizer\":{\"type\":\"NFC\",\"twice\":true}}", "twice",
         WG_ERR_UNSUPPORTED},
        {"{" MODEL("{\"?\":0}") ",\"normalizer\":{\"type\":\"BertNormalizer\"}}", "clean_text",
         WG_ERR_FORMAT},
        {"{" MODEL(
             "{\"?\":0}") ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[],"
                          "\"pair\":[],\"special_tokens\":{}}}",
         "does not hold it once", WG_ERR_FORMAT},
        {"{" MODEL(
             "{\"?\":0}") ",\"added_tokens\":[{\"id\":-1,\"content\":\"x\",\"single_word\":false,"
                          "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":"
                          "false}]}",
         "-1", WG_ERR_FORMAT},
        {"{" MODEL("{\"?\":0}") ",\"added_tokens\":[{\"id\":1,\"content\":\"x\"}]}", "single_word",
         WG_ERR_FORMAT},
        {"{" MODEL("{\"?\":0}") ",\"pre_tokenizer\":{\"type\":\"Digits\"}}", "individual_digits",
         WG_ERR_FORMAT},
        {"{" MODEL("{\"?\":0}") ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}",
         "UnicodeScripts", WG_ERR_UNSUPPORTED},
        {"{" MODEL("{\"?\":0}") "," SPLIT("Regex", "a(?<=b)", "Isolated") "}", "looking behind",
         WG_ERR_UNSUPPORTED},
        {"{" MODEL("{\"?\":0}") "," SPLIT("String", "", "Isolated") "}", "empty string",
         WG_ERR_UNSUPPORTED},
        {"{" MODEL("{\"?\":0}") "," SPLIT("String", "a", "Merged") "}", "Merged",
         WG_ERR_UNSUPPORTED},
        {"{" MODEL(
             "{\"?\":0}") ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"__\"}}",
         "one character", WG_ERR_FORMAT},
        {"{" MODEL("{\"?\":0}") ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\","
                                "\"add_prefix_space\":false}}",
         "agree", WG_ERR_FORMAT},
        {"{" MODEL("{\"?\":0}") ",\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true,"
                                "\"strip_right\":true},\"pre_tokenizer\":{\"type\":\"Metaspace\","
                                "\"replacement\":\"_\",\"prepend_scheme\":\"first\"}}",
         "\"first\"", WG_ERR_UNSUPPORTED},
        {"{" MODEL("{\"?\":0}") ",\"normalizer\":{\"type\":\"Precompiled\","
                                "\"precompiled_charsmap\":\"AAE=\"}}",
         "cut", WG_ERR_FORMAT},
        {"{" MODEL("{\"?\":0}") ",\"normalizer\":{\"type\":\"Precompiled\","
                                "\"precompiled_charsmap\":\"A?==\"}}",
         "base64", WG_ERR_FORMAT},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":2,\"vocab\":[[\"a\",0.0],[\"b\",-1]]}}",
         "unk_id 2", WG_ERR_FORMAT},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\"]]}}", "token 0",
         WG_ERR_FORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"continuing_subword_prefix\":\"##\",\"vocab\":{\"a\":0,"
         "\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}",
         "shorter than the prefix", WG_ERR_FORMAT},
    };

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        wg_tokenizer *tokenizer = NULL;
        EXPECT_EQ(parse(files[i].text, &tokenizer), files[i].status);
        EXPECT(tokenizer == NULL);
        EXPECT_IN(err.message, files[i].part);
        wg_tokenizer_close(tokenizer);
    }
}

/* A file cut anywhere is refused, never read as if it were whole. */
static void test_cut_file(void)
{
    wgi_map *map = NULL;

    EXPECT_OK(wgi_map_open(&map, WGT_DATA "/cases/tiny-bert/tokenizer.json", &err));
    for (size_t count = 0; map && count + 1 < map->bytes; count++) {
        wg_tokenizer *tokenizer = NULL;
        EXPECT_EQ(wgi_tokenizer_parse(&tokenizer, (wgi_slice){map->data, count}, &err),
                  WG_ERR_FORMAT);
        wg_tokenizer_close(tokenizer);
    }
    wgi_map_close(map);
}

static void test_path(void)
{
    wg_tokenizer *tokenizer = NULL;

    EXPECT_EQ(wgi_tokenizer_open_json(&tokenizer, WGT_DATA "/none", &err), WG_ERR_IO);
    EXPECT_IN(err.message, "none");
    EXPECT_EQ(wgi_tokenizer_open_json(&tokenizer, WGT_DATA "/cases", &err), WG_ERR_IO);
    EXPECT_IN(err.message, "tokenizer.json");
    EXPECT_EQ(wgi_tokenizer_open_json(&tokenizer, NULL, &err), WG_ERR_ARGUMENT);
    EXPECT_OK(wgi_tokenizer_open_json(&tokenizer, WGT_DATA "/cases/tiny-bert", &err));
    EXPECT_EQ(wg_tokenizer_vocabulary_count(tokenizer), 106);
    EXPECT_EQ(wgi_tokenizer_id_end(tokenizer), 106);
    wg_tokenizer_close(tokenizer);
    wg_tokenizer_close(NULL);
}

/* ----------------------------------------------------------------------------- promises */

static char warned[256];

static void keep_warning(void *context, wg_log_level level, const char *message)
{
    (void)context;
    if (level == WG_LOG_WARNING) (void)snprintf(warned, sizeof(warned), "%s", message);
}

/* The file says id 999; the next free one is 106. */
static void test_added_id(void)
{
    wg_encoding encoding = {0};

    wg_log_set(keep_warning, NULL, WG_LOG_WARNING);
    wg_tokenizer *tokenizer = open_file("cases/bigid.tokenizer.json");
    wg_log_set(NULL, NULL, WG_LOG_ERROR);
    EXPECT_IN(warned, "token id 106, not the 999");
    if (!tokenizer) return;
    EXPECT_OK(wg_tokenizer_encode(tokenizer, "zap", 3, NULL, 0, NULL, &encoding, &err));
    EXPECT_EQ(encoding.token_count, 3);
    EXPECT_EQ(encoding.token_ids[1], 106);
    EXPECT_EQ(wgi_tokenizer_id_end(tokenizer), 107);
    EXPECT_EQ(wg_tokenizer_vocabulary_count(tokenizer), 107);
    wg_encoding_fini(&encoding);
    wg_tokenizer_close(tokenizer);
}

static void test_content(void)
{
    wg_tokenizer *tokenizer = open_file("tokenizer-small.json");
    wg_encoding encoding = {0};
    wg_encode_options options = {.token_count_max = 4};

    if (!tokenizer) return;
    EXPECT_OK(wg_tokenizer_encode(tokenizer, "a b", 3, NULL, 0, NULL, &encoding, &err));
    EXPECT_EQ(encoding.content_begin, 1);
    EXPECT_EQ(encoding.content_end, encoding.token_count - 1);
    EXPECT(!encoding.is_truncated);
    /* "[SEP]" in the text is content, although it has a special id. */
    EXPECT_OK(wg_tokenizer_encode(tokenizer, "[SEP]", 5, NULL, 0, NULL, &encoding, &err));
    EXPECT_EQ(encoding.token_count, 3);
    EXPECT_EQ(encoding.content_end, 2);
    EXPECT_OK(wg_tokenizer_encode(tokenizer, "", 0, NULL, 0, NULL, &encoding, &err));
    EXPECT_EQ(encoding.token_count, 2);
    EXPECT_EQ(encoding.content_begin, 1);
    EXPECT_EQ(encoding.content_end, 1);
    EXPECT_OK(wg_tokenizer_encode(tokenizer, NULL, 0, "a.", 2, NULL, &encoding, &err));
    EXPECT_EQ(encoding.token_count, 5);
    EXPECT_EQ(encoding.content_begin, 2);
    EXPECT_EQ(encoding.content_end, 4);
    EXPECT_OK(wg_tokenizer_encode(tokenizer, "....", 4, NULL, 0, &options, &encoding, &err));
    EXPECT_EQ(encoding.token_count, 4);
    EXPECT(encoding.is_truncated);
    EXPECT_OK(wg_tokenizer_encode(tokenizer, "..", 2, NULL, 0, &options, &encoding, &err));
    EXPECT(!encoding.is_truncated);
    wg_encoding_fini(&encoding);
    wg_tokenizer_close(tokenizer);
}

static void test_limits(void)
{
    wg_tokenizer *tokenizer = open_file("tokenizer-small.json");
    wg_encoding encoding = {0};
    wg_encode_options options = {.token_count_max = 4, .truncate = WG_TRUNCATE_ERROR};

    if (!tokenizer) return;
    EXPECT_OK(wg_tokenizer_encode(tokenizer, "..", 2, NULL, 0, &options, &encoding, &err));
    EXPECT_EQ(wg_tokenizer_encode(tokenizer, "...", 3, NULL, 0, &options, &encoding, &err),
              WG_ERR_LIMIT);
    EXPECT_EQ(encoding.token_count, 0);
    EXPECT_IN(err.message, "4 tokens");
    options = (wg_encode_options){.token_count_max = 1};
    EXPECT_EQ(wg_tokenizer_encode(tokenizer, "..", 2, NULL, 0, &options, &encoding, &err),
              WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "2 special tokens");
    options = (wg_encode_options){.token_count_max = 1, .no_special_tokens = 1};
    EXPECT_OK(wg_tokenizer_encode(tokenizer, "..", 2, NULL, 0, &options, &encoding, &err));
    EXPECT_EQ(encoding.token_count, 1);
    options = (wg_encode_options){.truncate = (wg_truncate)9};
    EXPECT_EQ(wg_tokenizer_encode(tokenizer, "..", 2, NULL, 0, &options, &encoding, &err),
              WG_ERR_ARGUMENT);
    wg_encoding_fini(&encoding);
    wg_tokenizer_close(tokenizer);
}

/* Ill-formed bytes count as U+FFFD, a NUL is a character like any other. */
static void test_bytes(void)
{
    wg_tokenizer *tokenizer = NULL;
    wg_encoding encoding = {0};
    static const char text[] = "a\0b \xE4\xB8 \xFF\xEF\xBF\xBD";
    static const int32_t want[] = {3, 1, 2};

    EXPECT_OK(parse(
        "{" MODEL("{\"?\":0,\"\xEF\xBF\xBD\":1,\"##\xEF\xBF\xBD\":2,\"a\\u0000b\":3}") ",\"pre_"
                                                                                       "tokenizer\""
                                                                                       ":{\"type\":"
                                                                                       "\"Whitespac"
                                                                                       "eSplit\"}}",
        &tokenizer));
    if (!tokenizer) return;
    EXPECT_OK(wg_tokenizer_encode(tokenizer, text, 6, NULL, 0, NULL, &encoding, &err));
    EXPECT_EQ(encoding.token_count, 2);
    EXPECT_OK(
        wg_tokenizer_encode(tokenizer, text, sizeof(text) - 1, NULL, 0, NULL, &encoding, &err));
    EXPECT_EQ(encoding.token_count, 4);
    EXPECT(encoding.token_count == 4 && encoding.token_ids[0] == want[0] &&
           encoding.token_ids[1] == want[1] && encoding.token_ids[2] == want[1] &&
           encoding.token_ids[3] == want[2]);
    wg_encoding_fini(&encoding);
    wg_tokenizer_close(tokenizer);
}

/* Ids do not depend on where chunks end: words longer than a chunk, blanks at every place. */
static void test_chunks(void)
{
    wg_tokenizer *tokenizer = open_file("tokenizer-small.json");
    wg_encoding whole = {0}, part = {0};
    static char text[40000];

    if (!tokenizer) return;
    wgt_seed_set(7);
    for (int round = 0; round < 20; round++) {
        static const char *const pieces[] = {"ka",        " ", "\n",       "\xE4\xB8\xAD",
                                             "e\xCC\x81", ".", "\xC3\x89", "[SEP]"};
        size_t count = 0, blanks = 1 + wgt_below(200);
        while (count < sizeof(text) - 8) {
            const char *piece = wgt_below(blanks) ? pieces[wgt_below(2) ? 0 : 3 + wgt_below(5)]
                                                  : pieces[1 + wgt_below(2)];
            memcpy(text + count, piece, strlen(piece));
            count += strlen(piece);
        }
        EXPECT_OK(wg_tokenizer_encode(tokenizer, text, count, NULL, 0, NULL, &whole, &err));
        wg_encode_options options = {.token_count_max = 2 + wgt_below(whole.token_count)};
        size_t kept = options.token_count_max - 2;
        EXPECT_OK(wg_tokenizer_encode(tokenizer, text, count, NULL, 0, &options, &part, &err));
        EXPECT_EQ(part.token_count, options.token_count_max);
        EXPECT(memcmp(part.token_ids, whole.token_ids, (kept + 1) * sizeof(int32_t)) == 0);
        options.truncate = WG_TRUNCATE_TAIL;
        EXPECT_OK(wg_tokenizer_encode(tokenizer, text, count, NULL, 0, &options, &part, &err));
        EXPECT_EQ(part.token_count, options.token_count_max);
        EXPECT(memcmp(part.token_ids + 1, whole.token_ids + whole.token_count - kept - 1,
                      (kept + 1) * sizeof(int32_t)) == 0);
    }
    if (wgt_failed) fprintf(stderr, "seed %llu\n", (unsigned long long)wgt_seed);
    wg_encoding_fini(&whole);
    wg_encoding_fini(&part);
    wg_tokenizer_close(tokenizer);
}

/* A long text gives what its words give alone: chunks are cut between words only. */
static void check_words(const wg_tokenizer *tokenizer, const char *const *words, size_t word_count)
{
    wg_encoding whole = {0}, word = {0};
    wgi_ids want = {0};
    static char text[30000];
    size_t count = 0;
    const wg_encode_options options = {.no_special_tokens = 1};

    while (count < sizeof(text) - 200) {
        char *begin = text + count;
        size_t parts = wgt_below(20) ? 1 + wgt_below(12) : 0, bytes = 0;
        for (size_t i = 0; i < parts; i++) {
            const char *part = words[wgt_below(word_count)];
            memcpy(begin + bytes, part, strlen(part));
            bytes += strlen(part);
        }
        EXPECT_OK(wg_tokenizer_encode(tokenizer, begin, bytes, NULL, 0, &options, &word, &err));
        for (size_t i = 0; i < word.token_count; i++)
            EXPECT_OK(wgi_ids_push(&want, word.token_ids[i], &err));
        begin[bytes] = " \n\t\r"[wgt_below(4)];
        count += bytes + 1;
    }
    EXPECT_OK(wg_tokenizer_encode(tokenizer, text, count, NULL, 0, &options, &whole, &err));
    EXPECT(wgt_ids_are(whole.token_ids, whole.token_count, &want));
    wgi_free(want.items);
    wg_encoding_fini(&whole);
    wg_encoding_fini(&word);
}

static void test_words(void)
{
    static const char *const words[] = {
        "a", "b", ".", "\xC3\xA9", "e\xCC\x81", "\xE3\x81\x82", "=", "\xCC\xB8", "A"};
    static const char *const files[] = {
        "{" MODEL("{\"?\":0,\"a\":1,\"b\":2,\"##a\":3,\"##.\":4,\".\":5,\"##b\":6,\"\\u00e9\":7,\"#"
                  "#\\u00e9\":8,"
                  "\"\\u3042\":9,\"##\\u3042\":10}") ",\"normalizer\":{\"type\":\"NFC\"},\"pre_"
                                                     "tokenizer\":{\"type\":\"WhitespaceSplit\"}}",
        "{" MODEL("{\"?\":0,\"a\":1,\"b\":2,\"##a\":3,\".\":5,\"##b\":6,\"e\":7,\"##e\":8,"
                  "\"\\u3042\":9,\"##\\u3042\":10}") "," BERT_PARTS "}"};

    wgt_seed_set(11);
    for (size_t i = 0; i < 2; i++) {
        wg_tokenizer *tokenizer = NULL;
        EXPECT_OK(parse(files[i], &tokenizer));
        if (!tokenizer) continue;
        for (int round = 0; round < 10; round++)
            check_words(tokenizer, words, sizeof(words) / sizeof(words[0]));
        wg_tokenizer_close(tokenizer);
    }
}

/* The later of two tokens of one name counts, but once special is always special. */
static void test_added_twice(void)
{
#define TWICE(special)                                                                       \
    "{\"id\":1,\"content\":\"<x>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false," \
    "\"normalized\":false,\"special\":" special "}"
    wg_tokenizer *tokenizer = NULL;
    wg_encoding encoding = {0};
    wg_encode_options options = {.plain_specials = 1};

    EXPECT_OK(parse("{" MODEL("{\"?\":0}") "," BERT_PARTS ",\"added_tokens\":[" TWICE(
                        "true") "," TWICE("false") "]}",
                    &tokenizer));
    if (!tokenizer) return;
    EXPECT_EQ(wg_tokenizer_vocabulary_count(tokenizer), 2);
    EXPECT_OK(wg_tokenizer_encode(tokenizer, "<x>", 3, NULL, 0, NULL, &encoding, &err));
    EXPECT(encoding.token_count == 1 && encoding.token_ids[0] == 1);
    EXPECT_OK(wg_tokenizer_encode(tokenizer, "<x>", 3, NULL, 0, &options, &encoding, &err));
    EXPECT_EQ(encoding.token_count, 3);
    wg_encoding_fini(&encoding);
    wg_tokenizer_close(tokenizer);
}

/* Once warm, an encoding takes no memory; a giant text does not leave giant buffers. */
static void test_steady(void)
{
    wg_tokenizer *tokenizer = open_file("tokenizer-small.json");
    wg_encoding encoding = {0};
    static const char text[] = "Ka.ka \xC3\xA9t\xC3\xA9, \xE4\xB8\xAD [SEP] ka";

    if (!tokenizer) return;
    EXPECT_OK(
        wg_tokenizer_encode(tokenizer, text, sizeof(text) - 1, NULL, 0, NULL, &encoding, &err));
    uint64_t before = wgi_alloc_count();
    for (int i = 0; i < 100; i++)
        EXPECT_OK(
            wg_tokenizer_encode(tokenizer, text, sizeof(text) - 1, NULL, 0, NULL, &encoding, &err));
    EXPECT_EQ(wgi_alloc_count(), before);
    wg_encoding_fini(&encoding);
    wg_encoding_fini(NULL);
    wg_tokenizer_close(tokenizer);
}

int main(void)
{
    test_small_sample();
    test_parts_sample();
    test_normalizer_sample();
    test_families_sample();
    test_mixed_sample();
    test_families();
    test_unigram();
    test_bad_files();
    test_no_token_at_all();
    test_refusals();
    test_cut_file();
    test_path();
    test_added_id();
    test_content();
    test_limits();
    test_bytes();
    test_chunks();
    test_words();
    test_added_twice();
    test_steady();
    return wgt_result();
}
