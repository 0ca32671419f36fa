/*
 * test_decode.c - the text of token ids: every decoder against Hugging Face tokenizers
 * (tests/data/decode-sample.jsonl, made by tools/make_tokenizer_sample.py), and what the
 * header promises of a decoding.
 *
 * The families' tokenizers stand in tokenizer-families-sample.jsonl without a decoder. An entry's
 * is put behind all other keys of the text: of two keys of one name the last one wins.
 *
 * LIBRARIES: wgi_tokenizer wgi_base
 * LABELS: quick torture
 */
#include "temporary.h"
#include "tokenizer_cases.h"

#include "tokenizer/file_part.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static wg_error err;

/* ------------------------------------------------------------------------------- samples */

typedef struct family {
    wgi_buf name, text; /* of tokenizer.json */
} family;

typedef struct sample {
    family families[16];
    size_t family_count, entry_count, case_count, skip_count;
    wg_decoding decoding; /* one for all: nothing may stay in it from tokenizer to tokenizer */
} sample;

static void add_family(sample *all, const char *name, wgi_slice text)
{
    if (all->family_count == COUNT_OF(all->families)) {
        wgt_fail_at(__FILE__, __LINE__);
        fprintf(stderr, "more families than room\n");
        return;
    }
    family *to = &all->families[all->family_count++];

    EXPECT_OK(wgi_buf_text(&to->name, name, &err));
    EXPECT_OK(wgi_buf_append(&to->text, text.data, text.count, &err));
}

static void read_family(wgi_slice line, size_t number, void *context)
{
    wgi_buf name = {0};
    wgi_slice text = {"", 0};
    wgi_field fields[] = {{.name = "family", .kind = WGI_FIELD_TEXT, .out = &name},
                          {.name = "tokenizer", .kind = WGI_FIELD_RAW, .out = &text}};

    (void)number;
    EXPECT_OK(wgi_fields_read(line, "line", fields, COUNT_OF(fields), NULL, &err));
    if (name.data) add_family(context, name.data, text);
    wgi_buf_fini(&name);
}

static void read_families(sample *all)
{
    size_t count;
    char *small = wgt_slurp(WGT_DATA "/tokenizer-small.json", &count);

    EXPECT_EQ(wgt_lines(WGT_DATA "/tokenizer-families-sample.jsonl", read_family, all), 12);
    add_family(all, "small", (wgi_slice){small, count});
    free(small);
}

static wgi_slice family_text(const sample *all, const char *name)
{
    for (size_t i = 0; i < all->family_count; i++)
        if (strcmp(all->families[i].name.data, name) == 0)
            return (wgi_slice){all->families[i].text.data, all->families[i].text.count};
    wgt_fail_at(__FILE__, __LINE__);
    fprintf(stderr, "no family \"%s\"\n", name);
    return (wgi_slice){"{}", 2};
}

/* The tokenizer of `text` with another decoder. */
static wg_status parse_with(wgi_slice text, wgi_slice decoder, wg_tokenizer **out)
{
    wgi_buf whole = {0};
    size_t count = text.count;

    while (count && text.data[count - 1] != '}')
        count--;
    EXPECT(count > 0);
    EXPECT_OK(wgi_buf_append(&whole, text.data, count - 1, &err));
    EXPECT_OK(wgi_buf_text(&whole, ",\"decoder\":", &err));
    EXPECT_OK(wgi_buf_append(&whole, decoder.data, decoder.count, &err));
    EXPECT_OK(wgi_buf_text(&whole, "}", &err));
    wg_status status = wgi_tokenizer_parse(out, (wgi_slice){whole.data, whole.count}, &err);
    wgi_buf_fini(&whole);
    return status;
}

static bool text_is(const wg_decoding *decoding, const char *want, size_t count)
{
    return decoding->text && decoding->text_bytes == count &&
           (count == 0 || memcmp(decoding->text, want, count) == 0) && decoding->text[count] == 0;
}

/* False: it differs. */
static bool check_one(sample *all, const wg_tokenizer *tokenizer, wgi_slice decoder, wgi_slice line,
                      size_t number)
{
    wgi_ids ids = {0};
    wgi_buf want = {0};
    wgi_slice list = {"[]", 2};
    bool is_skipping = false;
    wgi_field fields[] = {{.name = "ids", .kind = WGI_FIELD_RAW, .out = &list},
                          {.name = "skip", .kind = WGI_FIELD_BOOL, .out = &is_skipping},
                          {.name = "text", .kind = WGI_FIELD_TEXT, .out = &want}};
    wgi_json json;

    EXPECT_OK(wgi_fields_read(line, "case", fields, COUNT_OF(fields), NULL, &err));
    wgi_json_init(&json, list.data, list.count);
    EXPECT_OK(wgt_read_ids(&json, &ids, &err));
    EXPECT_OK(wgi_json_finish(&json, &err));
    EXPECT_OK(
        wg_tokenizer_decode(tokenizer, ids.items, ids.count, is_skipping, &all->decoding, &err));
    bool is_right = text_is(&all->decoding, want.data ? want.data : "", want.count);
    if (!is_right) {
        wgt_fail_at("decode-sample.jsonl", (int)number);
        fprintf(stderr, "text of ids with decoder %.*s, skip %d\n", (int)decoder.count,
                decoder.data, is_skipping);
        wgt_ids_print("ids ", ids.items, ids.count);
        fprintf(stderr, "  is   \"%s\"\n  want \"%s\"\n",
                all->decoding.text ? all->decoding.text : "(none)", want.data ? want.data : "");
    }
    all->case_count++;
    all->skip_count += is_skipping;
    wgi_json_fini(&json);
    wgi_buf_fini(&want);
    wgi_free(ids.items);
    return is_right;
}

/* {"family" or "tokenizer", "decoder", "cases"} */
static void check_entry(wgi_slice line, size_t number, void *context)
{
    sample *all = context;
    wgi_buf name = {0};
    wgi_slice text = {"", 0}, decoder = {"null", 4}, list = {"[]", 2}, item;
    bool is_right = true;
    wgi_field fields[] = {
        {.name = "family", .kind = WGI_FIELD_TEXT, .out = &name, .is_optional = true},
        {.name = "tokenizer", .kind = WGI_FIELD_RAW, .out = &text, .is_optional = true},
        {.name = "decoder", .kind = WGI_FIELD_RAW, .out = &decoder, .is_optional = true},
        {.name = "cases", .kind = WGI_FIELD_RAW, .out = &list}};
    wg_tokenizer *tokenizer = NULL;
    wgi_json json;

    EXPECT_OK(wgi_fields_read(line, "line", fields, COUNT_OF(fields), NULL, &err));
    if (name.data) text = family_text(all, name.data);
    EXPECT_OK(parse_with(text, decoder, &tokenizer));
    wgi_json_init(&json, list.data, list.count);
    EXPECT_OK(wgi_json_array_begin(&json, &err));
    while (tokenizer && is_right && wgi_json_array_next(&json)) {
        EXPECT_OK(wgi_json_raw(&json, &item, &err));
        is_right = check_one(all, tokenizer, decoder, item, number);
    }
    if (tokenizer && is_right) EXPECT_OK(wgi_json_finish(&json, &err));
    wgi_json_fini(&json);
    wgi_buf_fini(&name);
    wg_tokenizer_close(tokenizer);
}

static void test_sample(sample *all)
{
    EXPECT(wgt_lines(WGT_DATA "/decode-sample.jsonl", check_entry, all) >= 38);
    EXPECT(all->case_count >= 2500);
    EXPECT(all->skip_count >= 800 && all->skip_count < all->case_count / 2);
}

/* ----------------------------------------------------------------------------- promises */

#define FLAGS "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
#define PIECES                                                                                  \
    "{\"version\":\"1.0\",\"normalizer\":{\"type\":\"Lowercase\"},\"model\":{\"type\":"         \
    "\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\","                   \
    "\"max_input_chars_per_word\":100,\"vocab\":{\"?\":0,\"a\\u0000b\":1,\"ab\":2,\"##c\":3,"   \
    "\"  \":4,\"\":5,\"   x \":6}},\"added_tokens\":[{\"id\":7,\"content\":\"FOO\"," FLAGS      \
    "\"normalized\":true,\"special\":true},{\"id\":8,\"content\":\"Bar\"," FLAGS "\"normalized" \
    "\":false,\"special\":true},{\"id\":9,\"content\":\"<Q>\"," FLAGS "\"normalized\":false,"   \
    "\"special\":false}]}"

static wg_status parse_pieces(const char *decoder, wg_tokenizer **out)
{
    return parse_with((wgi_slice){PIECES, strlen(PIECES)}, (wgi_slice){decoder, strlen(decoder)},
                      out);
}

static wg_tokenizer *pieces_with(const char *decoder)
{
    wg_tokenizer *tokenizer = NULL;

    EXPECT_OK(parse_pieces(decoder, &tokenizer));
    return tokenizer;
}

static void check_text(const wg_tokenizer *tokenizer, const int32_t *ids, size_t count, int skip,
                       const char *want, size_t bytes, int line)
{
    wg_decoding decoding = {0};

    EXPECT_OK(wg_tokenizer_decode(tokenizer, ids, count, skip, &decoding, &err));
    if (!text_is(&decoding, want, bytes)) {
        wgt_fail_at(__FILE__, line);
        fprintf(stderr, "text is \"%s\", expected \"%s\"\n", decoding.text, want);
    }
    wg_decoding_fini(&decoding);
    EXPECT(decoding.text == NULL && decoding.scratch == NULL);
}

#define CHECK_TEXT(tokenizer, ids, skip, want) \
    check_text(tokenizer, ids, COUNT_OF(ids), skip, want, sizeof(want) - 1, __LINE__)

/* A special token that is normalised has no content of that spelling: it is no special one. Pieces
 * without a letter have blanks round them too. */
static void test_added(void)
{
    static const int32_t ids[] = {7, 0, 8, 9, 2}, empty[] = {5, 5, 2, 5};
    wg_tokenizer *tokenizer = pieces_with("null");

    if (!tokenizer) return;
    CHECK_TEXT(tokenizer, ids, 0, "foo ? Bar <Q> ab");
    CHECK_TEXT(tokenizer, ids, 1, "foo ? <Q> ab");
    CHECK_TEXT(tokenizer, empty, 1, "  ab ");
    wg_tokenizer_close(tokenizer);
}

/* Pieces of Unigram may be there twice: encoding gives one id, each of the two has its text. */
static void test_twice(void)
{
    static const char file[] =
        "{\"version\":\"1.0\",\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"type\":\"Unigram\","
        "\"unk_id\":0,"
        "\"vocab\":[[\"?\",0],[\"a\",-1],[\"bc\",-2.5],[\"a\",-3],[\"bc\",-2],[\"bc\",-2]]}}";
    static const int32_t ids[] = {1, 2, 3, 0, 4, 5};
    wg_tokenizer *tokenizer = NULL;

    EXPECT_OK(wgi_tokenizer_parse(&tokenizer, (wgi_slice){file, strlen(file)}, &err));
    if (!tokenizer) return;
    CHECK_TEXT(tokenizer, ids, 1, "abca?bcbc");
    wg_tokenizer_close(tokenizer);
}

/* The added token has the later id of its piece; the earlier one is as special. */
static void test_special_twice(void)
{
    static const char file[] =
        "{\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
        "\"vocab\":[[\"?\",0],[\"a\",-1],[\"a\",-2],[\"b\",-3]]},\"added_tokens\":[{\"id\":2,"
        "\"content\":\"a\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":"
        "false,\"special\":true}]}";
    static const int32_t ids[] = {1, 2, 3, 1};
    wg_tokenizer *tokenizer = NULL;

    EXPECT_OK(wgi_tokenizer_parse(&tokenizer, (wgi_slice){file, strlen(file)}, &err));
    if (!tokenizer) return;
    CHECK_TEXT(tokenizer, ids, 1, "b");
    CHECK_TEXT(tokenizer, ids, 0, "aaba");
    wg_tokenizer_close(tokenizer);
}

static void test_nul(void)
{
    static const int32_t ids[] = {1, 2, 1, 3};
    wg_tokenizer *tokenizer = pieces_with("{\"type\":\"Fuse\"}");

    if (!tokenizer) return;
    CHECK_TEXT(tokenizer, ids, 1, "a\0baba\0b##c");
    wg_tokenizer_close(tokenizer);
}

/* Where cuts from both ends meet, nothing is left (the original reads out of bounds there). */
static void test_strip(void)
{
    static const int32_t blanks[] = {4}, none[] = {5}, cut[] = {6}, several[] = {4, 2, 5, 6, 4};
    static const char *const wide[] = {"2,\"stop\":2", "9,\"stop\":9", "1,\"stop\":2",
                                       "9,\"stop\":18446744073709551615"};
    wg_tokenizer *tokenizer = NULL;
    char decoder[128];

    for (size_t i = 0; i < COUNT_OF(wide); i++) {
        (void)snprintf(decoder, sizeof(decoder),
                       "{\"type\":\"Strip\",\"content\":\" \",\"start\":%s}", wide[i]);
        tokenizer = pieces_with(decoder);
        if (!tokenizer) return;
        CHECK_TEXT(tokenizer, blanks, 1, "");
        CHECK_TEXT(tokenizer, none, 1, "");
        wg_tokenizer_close(tokenizer);
    }
    tokenizer = pieces_with("{\"type\":\"Strip\",\"content\":\" \",\"start\":2,\"stop\":3}");
    if (!tokenizer) return;
    CHECK_TEXT(tokenizer, cut, 1, " x");
    CHECK_TEXT(tokenizer, several, 1, "ab x");
    wg_tokenizer_close(tokenizer);
}

static void test_arguments(void)
{
    static const int32_t ids[] = {2, 0, 1, -7, 2}, beyond[] = {2, 10, INT32_MAX, 2};
    wg_tokenizer *tokenizer = pieces_with("{\"type\":\"Fuse\"}");
    wg_decoding decoding = {0};

    if (!tokenizer) return;
    EXPECT_EQ(wg_tokenizer_decode(tokenizer, ids, 5, 1, &decoding, &err), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "3");
    EXPECT_IN(err.message, "-7");
    EXPECT_EQ(wg_tokenizer_decode(tokenizer, ids, 5, 1, &decoding, NULL), WG_ERR_ARGUMENT);
    EXPECT_OK(wg_tokenizer_decode(tokenizer, ids, 1, 0, &decoding, NULL));
    EXPECT_TEXT(decoding.text, "ab");
    EXPECT_EQ(wg_tokenizer_decode(NULL, ids, 1, 1, &decoding, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_tokenizer_decode(tokenizer, ids, 1, 1, NULL, &err), WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_tokenizer_decode(tokenizer, NULL, 1, 1, &decoding, &err), WG_ERR_ARGUMENT);
    EXPECT_OK(wg_tokenizer_decode(tokenizer, NULL, 0, 1, &decoding, &err));
    EXPECT(text_is(&decoding, "", 0));
    CHECK_TEXT(tokenizer, beyond, 0, "abab");
    wg_decoding_fini(&decoding);
    wg_decoding_fini(&decoding);
    wg_decoding_fini(NULL);
    wg_tokenizer_close(tokenizer);
}

/* Files open and encode with decoders that are not known, or not so; decoding says which it was. */
static void test_unknown(void)
{
    static const struct {
        const char *decoder, *name;
    } kinds[] = {
        {"{\"type\":\"CTC\",\"pad_token\":\"<pad>\",\"word_delimiter_token\":\"|\","
         "\"cleanup\":true}",
         "CTC"},
        {"{\"type\":\"Nobody\"}", "Nobody"},
        {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"None1\"}]}",
         "None1"},
        {"{\"type\":\"BPEDecoder\",\"suffix\":\"\"}", "BPEDecoder"},
        {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"^a\"},\"content\":\"b\"}", "\"^a\""},
        {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"b\"}", "empty string"}};
    static const int32_t ids[] = {2, 3};

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        wg_tokenizer *tokenizer = pieces_with(kinds[i].decoder);
        wg_encoding encoding = {0};
        wg_decoding decoding = {0};
        if (!tokenizer) continue;
        EXPECT_OK(wg_tokenizer_encode(tokenizer, "abc", 3, NULL, 0, NULL, &encoding, &err));
        EXPECT_EQ(encoding.token_count, 2);
        EXPECT_EQ(wg_tokenizer_decode(tokenizer, ids, 2, 1, &decoding, &err), WG_ERR_UNSUPPORTED);
        EXPECT_IN(err.message, kinds[i].name);
        EXPECT_EQ(wg_tokenizer_decode(tokenizer, ids, 0, 1, &decoding, &err), WG_ERR_UNSUPPORTED);
        wg_encoding_fini(&encoding);
        wg_decoding_fini(&decoding);
        wg_tokenizer_close(tokenizer);
    }
}

static void test_damaged(void)
{
    static const struct {
        const char *decoder, *part;
    } kinds[] = {
        {"5", "decoder"},
        {"\"Fuse\"", "decoder"},
        {"[]", "decoder"},
        {"{\"type\":5}", "decoder"},
        {"{\"type\":\"Strip\",\"content\":\"ab\",\"start\":1,\"stop\":0}", "one character"},
        {"{\"type\":\"Strip\",\"content\":\"a\",\"start\":-1,\"stop\":0}", "-1"},
        {"{\"type\":\"Metaspace\"}", "replacement"},
        {"{\"type\":\"Sequence\",\"decoders\":5}", "array"},
        {"{\"type\":\"Sequence\",\"decoders\":[5]}", "decoder"}};

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        wg_tokenizer *tokenizer = NULL;
        err.message[0] = 0;
        if (parse_pieces(kinds[i].decoder, &tokenizer) != WG_ERR_FORMAT) {
            wgt_fail_at(__FILE__, __LINE__);
            fprintf(stderr, "%s must be refused\n", kinds[i].decoder);
        }
        EXPECT(tokenizer == NULL);
        EXPECT_IN(err.message, kinds[i].part);
        wg_tokenizer_close(tokenizer);
    }
}

/* Decoders within decoders, to the end of what is allowed: no crash. */
static void test_deep(void)
{
    static const int32_t ids[] = {2, 3};

    for (size_t depth = 1; depth <= 600; depth += depth < 8 ? 1 : 37) {
        wgi_buf text = {0};
        wg_tokenizer *tokenizer = NULL;
        for (size_t i = 0; i < depth; i++)
            EXPECT_OK(wgi_buf_text(&text, "{\"type\":\"Sequence\",\"decoders\":[", &err));
        EXPECT_OK(wgi_buf_text(&text, "{\"type\":\"Fuse\"}", &err));
        for (size_t i = 0; i < depth; i++)
            EXPECT_OK(wgi_buf_text(&text, "]}", &err));
        wg_status status = parse_pieces(text.data, &tokenizer);
        EXPECT(status == WG_OK || (depth > 8 && status == WG_ERR_FORMAT));
        wg_decoding decoding = {0};
        if (tokenizer) {
            status = wg_tokenizer_decode(tokenizer, ids, 2, 1, &decoding, &err);
            EXPECT(status == WG_OK || (depth > 8 && status == WG_ERR_UNSUPPORTED));
            if (status == WG_OK) EXPECT_TEXT(decoding.text, "ab##c");
        }
        wg_decoding_fini(&decoding);
        wg_tokenizer_close(tokenizer);
        wgi_buf_fini(&text);
    }
}

/* ------------------------------------------------------------------------------- memory */

#define MARK "\xE2\x96\x81"
#define SENTENCEPIECE                                                                             \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK  \
    "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\"," \
    "\"content\":\" \",\"start\":1,\"stop\":0}]}"
#define REGEX                                                                              \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"Regex\":"   \
    "\"[a-z]+(?=t|" MARK ")|\\\\p{L}\"},\"content\":\"<-->\"},{\"type\":\"Metaspace\","    \
    "\"replacement\":\"" MARK "\",\"prepend_scheme\":\"first\"},{\"type\":\"BPEDecoder\"," \
    "\"suffix\":\"t\"},{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}]}"

static const struct {
    const char *family, *decoder;
} memory_kinds[] = {{"llama2", SENTENCEPIECE},
                    {"t5", REGEX},
                    {"qwen2",
                     "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
                     "\"use_regex\":true}"},
                    {"small", "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}"},
                    {"gemma", "null"}};

static void fail_at(long nth, bool once)
{
    if (once)
        wgi_alloc_fail_once(nth);
    else
        wgi_alloc_fail_at(nth);
}

/* Each allocation of decoding fails in turn. With `keep` one decoding serves all runs. */
static void check_no_memory(const wg_tokenizer *tokenizer, const int32_t *ids, size_t count,
                            bool keep, bool once)
{
    wg_decoding want = {0}, decoding = {0};
    uint64_t before = wgi_alloc_count();
    EXPECT_OK(wg_tokenizer_decode(tokenizer, ids, count, 0, &want, &err));
    long needed = (long)(wgi_alloc_count() - before), nth = 1;

    EXPECT(needed > 0);
    EXPECT(want.text_bytes > 500);
    for (;; nth++) {
        if (!keep) wg_decoding_fini(&decoding);
        fail_at(nth, once);
        wg_status status = wg_tokenizer_decode(tokenizer, ids, count, 0, &decoding, &err);
        wgi_alloc_fail_at(0);
        if (status == WG_OK) break;
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
        if (nth > needed) break;
    }
    if (!keep) EXPECT_EQ(nth, needed + 1); /* none that failed was passed over */
    EXPECT_OK(wg_tokenizer_decode(tokenizer, ids, count, 0, &decoding, &err));
    EXPECT(text_is(&decoding, want.text, want.text_bytes));
    before = wgi_alloc_count();
    EXPECT_OK(wg_tokenizer_decode(tokenizer, ids, count, 0, &decoding, &err));
    EXPECT_EQ(wgi_alloc_count() - before, 0); /* done again, it takes no memory */
    wg_decoding_fini(&decoding);
    wg_decoding_fini(&want);
}

static void test_decode_memory(const sample *all)
{
    static const char piece[] = "The zikaru, n't  \xC3\xA9t\xC3\xA9 <b> \xF0\x9F\x98\x80 12. ";
    char text[40 * sizeof(piece)];
    size_t bytes = 0;

    for (; bytes + sizeof(piece) <= sizeof(text); bytes += sizeof(piece) - 1)
        memcpy(text + bytes, piece, sizeof(piece) - 1);
    for (size_t i = 0; i < COUNT_OF(memory_kinds); i++) {
        const char *decoder = memory_kinds[i].decoder;
        wg_tokenizer *tokenizer = NULL;
        wg_encoding encoding = {0};
        EXPECT_OK(parse_with(family_text(all, memory_kinds[i].family),
                             (wgi_slice){decoder, strlen(decoder)}, &tokenizer));
        if (!tokenizer) continue;
        EXPECT_OK(wg_tokenizer_encode(tokenizer, text, bytes, NULL, 0, NULL, &encoding, &err));
        EXPECT(encoding.token_count > 200);
        for (int mode = 0; mode < 4; mode++)
            check_no_memory(tokenizer, encoding.token_ids, encoding.token_count, mode % 2,
                            mode / 2);
        wg_encoding_fini(&encoding);
        wg_tokenizer_close(tokenizer);
    }
}

/* Opening with a decoder that takes memory of its own. */
static void test_open_memory(const char *decoder)
{
    wg_tokenizer *tokenizer = NULL;
    uint64_t before = wgi_alloc_count();

    EXPECT_OK(parse_pieces(decoder, &tokenizer));
    long needed = (long)(wgi_alloc_count() - before);
    wg_tokenizer_close(tokenizer);
    for (int once = 0; once < 2; once++)
        for (long nth = 1;; nth++) {
            wgi_buf whole = {0};
            EXPECT_OK(wgi_buf_append(&whole, PIECES, strlen(PIECES) - 1, &err));
            EXPECT_OK(wgi_buf_printf(&whole, &err, ",\"decoder\":%s}", decoder));
            fail_at(nth, once);
            wg_status status =
                wgi_tokenizer_parse(&tokenizer, (wgi_slice){whole.data, whole.count}, &err);
            wgi_alloc_fail_at(0);
            wgi_buf_fini(&whole);
            if (status == WG_OK || nth > needed) {
                EXPECT_OK(status);
                wg_tokenizer_close(tokenizer);
                break;
            }
            EXPECT_EQ(status, WG_ERR_NO_MEMORY);
            EXPECT(tokenizer == NULL);
        }
}

int main(void)
{
    sample all = {0};

    read_families(&all);
    test_sample(&all);
    test_added();
    test_twice();
    test_special_twice();
    test_nul();
    test_strip();
    test_arguments();
    test_unknown();
    test_damaged();
    test_deep();
    test_decode_memory(&all);
    test_open_memory(SENTENCEPIECE);
    test_open_memory(REGEX);
    for (size_t i = 0; i < all.family_count; i++) {
        wgi_buf_fini(&all.families[i].name);
        wgi_buf_fini(&all.families[i].text);
    }
    wg_decoding_fini(&all.decoding);
    return wgt_result();
}
