/*
 * test_jsonl.c - fields of records: paths, ids, token ids; and random files read in random pieces,
 * plain, packed and as UTF-16, against what was written.
 * LIBRARIES: wgi_corpus wgi_base
 */
#include "reader_harness.h"

#include "base/json.h"
#include "base/os_read.h"
#include "base/utf8.h"
#include "corpus/record.h"
#include "reader_folder.h"

static const wgi_record_fields plain = {.text = "text", .id = "id"};

/* One record; the result is kept in `record`. */
static void read_record(wgi_record *record, const wgi_record_fields *fields, const char *line)
{
    wg_error err;

    EXPECT_OK(wgi_record_read(record, fields, line, strlen(line), &err));
}

static void expect_record(const wgi_record_fields *fields, const char *line, const char *text,
                          const char *id)
{
    wgi_record record = {0};

    read_record(&record, fields, line);
    EXPECT_EQ(record.failure, WG_FAILURE_NONE);
    EXPECT_TEXT(record.text.data, text);
    EXPECT_TEXT(record.id.count ? record.id.data : "", id);
    wgi_record_fini(&record);
}

static void expect_bad(const wgi_record_fields *fields, const char *line, wg_failure failure,
                       const char *reason, const char *id)
{
    wgi_record record = {0};

    read_record(&record, fields, line);
    EXPECT_TEXT(wg_failure_code(record.failure), wg_failure_code(failure));
    EXPECT_IN(record.reason.data, reason);
    EXPECT_TEXT(record.id.count ? record.id.data : "", id);
    wgi_record_fini(&record);
}

static void test_fields(void)
{
    wgi_record_fields dotted = {.text = "a.b.c", .id = "meta.id"};
    wgi_record_fields equal = {.text = "x", .id = "x"};

    expect_record(&plain, "{\"text\":\"t\",\"id\": 1.50 }", "t", "1.50");
    expect_record(&plain, "{\"text\":\"t\",\"id\":null}", "t", "");
    expect_record(&plain, "{\"te\\u0078t\":\"t\"}", "t", "");
    expect_record(&plain, "{\"text\":1,\"text\":\"t\"}", "t", "");
    expect_record(&dotted, "{\"a\":{\"b\":{\"c\":\"deep\"}},\"meta\":{\"id\":[1, 2]}}", "deep",
                  "[1, 2]");
    expect_record(&dotted, "{\"a.b.c\":\"whole\",\"a\":1}", "whole", "");
    expect_record(&dotted, "{\"a\":{\"b.c\":\"rest\",\"b\":{\"c\":\"no\"}}}", "rest", "");
    expect_record(&dotted, "{\"a\":1,\"a\":{\"b\":{\"c\":\"last\"}}}", "last", "");
    expect_record(&equal, "{\"x\":\"both\"}", "both", "\"both\"");
    expect_record(&plain, "{\"id\":\"\xFF\",\"text\":\"t\"}", "t", "\"\xEF\xBF\xBD\"");
    expect_record(&plain, "{\"id\":\"NaN\",\"text\":\"t\"}", "t", "\"NaN\"");

    expect_bad(&plain, "{\"id\":3,\"text\":[]}", WG_FAILURE_NO_TEXT, "found an array", "3");
    expect_bad(&plain, "{\"id\":3}", WG_FAILURE_NO_TEXT, "\"text\" is missing", "3");
    expect_bad(&dotted, "{\"a\":\"x\"}", WG_FAILURE_NO_TEXT, "\"a.b.c\" is missing", "");
    expect_bad(&dotted, "{\"a\":[{\"b\":1}]}", WG_FAILURE_NO_TEXT, "missing", "");
    expect_bad(&plain, "{\"text\":\"t\",\"id\":NaN}", WG_FAILURE_BAD_JSON, "NaN", "");
    expect_bad(&plain, "{\"text\":\"t\"} x", WG_FAILURE_BAD_JSON, "after the end", "");
    expect_bad(&plain, "{\"text\":\"t\"", WG_FAILURE_BAD_JSON, "end of the text", "");
    expect_bad(&plain, "nul", WG_FAILURE_BAD_JSON, "an object", "");
}

static void test_token_ids(void)
{
    wgi_record_fields fields = {.text = "text", .id = "id", .ids = "input.ids"};
    wgi_record record = {0};

    read_record(&record, &fields, "{\"input\":{\"ids\":[ 101 , 0,2147483647]},\"id\":9}");
    EXPECT_EQ(record.failure, WG_FAILURE_NONE);
    EXPECT_EQ(record.id_count, 3);
    EXPECT_EQ(record.ids[0], 101);
    EXPECT_EQ(record.ids[2], INT32_MAX);
    EXPECT_TEXT(record.id.data, "9");
    read_record(&record, &fields, "{\"input.ids\":[]}");
    EXPECT_EQ(record.failure, WG_FAILURE_NONE);
    EXPECT_EQ(record.id_count, 0);
    EXPECT(record.ids != NULL);
    wgi_record_fini(&record);
    expect_bad(&fields, "{\"input.ids\":[1,2.0]}", WG_FAILURE_BAD_JSON, "token id 2", "");
    expect_bad(&fields, "{\"input.ids\":[1e2]}", WG_FAILURE_BAD_JSON, "token id 1", "");
    expect_bad(&fields, "{\"input.ids\":[-1]}", WG_FAILURE_BAD_JSON, "from 0 to 2147483647", "");
    expect_bad(&fields, "{\"input.ids\":[2147483648]}", WG_FAILURE_BAD_JSON, "token id 1", "");
    expect_bad(&fields, "{\"input.ids\":[99999999999999999999]}", WG_FAILURE_BAD_JSON, "token id",
               "");
    expect_bad(&fields, "{\"input.ids\":[\"1\"]}", WG_FAILURE_BAD_JSON, "token id 1", "");
    expect_bad(&fields, "{\"input.ids\":\"1\"}", WG_FAILURE_NO_TEXT, "found a string", "");
    expect_bad(&fields, "{\"text\":\"t\"}", WG_FAILURE_NO_TEXT, "\"input.ids\" is missing", "");
}

/* A random text of characters that have caused trouble somewhere. */
static size_t random_text(char *out, size_t characters)
{
    static const uint32_t odd[] = {0,    '\n',   '\r',   '"',    '\\',   0x1F,    0x7F,    0x85,
                                   0xA0, 0x2028, 0xFEFF, 0xFFFD, 0xFFFF, 0x10000, 0x1F600, 0x10FFFF,
                                   '\f', '\v',   '\t',   '/',    0x0301, 0xD7FF,  0xE000,  'e'};
    size_t count = 0;

    for (size_t i = 0; i < characters; i++) {
        uint32_t c = wgt_below(3) ? 'a' + (uint32_t)wgt_below(26) : odd[wgt_below(24)];
        count += wgi_utf8_put(c, out + count);
    }
    return count;
}

static void put_utf16(wgi_buf *out, const wgi_buf *text, bool is_big)
{
    wg_error err;
    size_t at = 0;
    uint16_t units[2] = {0xFEFF};
    unsigned count = 1;

    for (;;) {
        for (unsigned i = 0; i < count; i++) {
            char low = (char)(units[i] & 0xFF), high = (char)(units[i] >> 8);
            char pair[2] = {is_big ? high : low, is_big ? low : high};
            EXPECT_OK(wgi_buf_append(out, pair, 2, &err));
        }
        if (at >= text->count) break;
        uint32_t c = wgi_utf8_next(text->data, text->count, &at, NULL);
        count = c > 0xFFFF ? 2 : 1;
        units[0] = (uint16_t)(count == 2 ? 0xD800 + ((c - 0x10000) >> 10) : c);
        units[1] = (uint16_t)(0xDC00 + ((c - 0x10000) & 0x3FF));
    }
}

/* Random records under each packing, read in pieces of a random size: the texts come back. */
static void test_random(void)
{
    static char texts[40][4000];
    static size_t counts[40];
    wgi_buf file = {0}, wide = {0};
    wg_error err;

    for (int round = 0; round < 40; round++) {
        size_t count = 1 + (size_t)wgt_below(40);
        file.count = wide.count = 0;
        for (size_t i = 0; i < count; i++) {
            counts[i] = random_text(texts[i], (size_t)wgt_below(wgt_below(5) ? 40 : 900));
            EXPECT_OK(
                wgi_buf_text(&file, wgt_below(2) ? "{\"text\": " : " {\"n\":[{}],\"text\":", &err));
            EXPECT_OK(wgi_json_quote(&file, texts[i], counts[i], &err));
            EXPECT_OK(wgi_buf_text(&file, "}", &err));
            if (i + 1 < count || wgt_below(2))
                EXPECT_OK(wgi_buf_text(&file, wgt_below(3) ? "\n" : "\r\n \r\n", &err));
        }
        put_utf16(&wide, &file, wgt_below(2));
        const char *inputs[] = {wgt_put("a.jsonl", file.data, file.count),
                                wgt_put_gz("b.jsonl", file.data, file.count),
                                wgt_put("c.jsonl", wide.data, wide.count),
                                wgt_put_gz("d.ndjson.gz", wide.data, wide.count)};
        wgi_read_bytes_max((size_t)wgt_below(3) ? 1 + (size_t)wgt_below(600) : 0);
        wgt_reading got = wgt_read(&(wg_reader_options){.inputs = inputs, .input_count = 4});
        wgi_read_bytes_max(0);
        EXPECT_EQ(got.count, 4 * count);
        EXPECT_EQ(got.counts.warnings, 0);
        for (size_t i = 0; i < got.count; i++) {
            const wg_document *document = &got.documents[i];
            EXPECT_TEXT(document->reason, "");
            EXPECT(document->text_bytes == counts[i % count] &&
                   memcmp(document->text, texts[i % count], counts[i % count]) == 0);
        }
        wgt_reading_fini(&got);
        if (wgt_failed) {
            fprintf(stderr, "round %d\n", round);
            break;
        }
    }
    wgi_buf_fini(&file);
    wgi_buf_fini(&wide);
}

/* Once the buffers have grown, records cost no allocation. */
static void test_steady_state(void)
{
    wgi_record record = {0};
    const char *line = "{\"id\":12,\"text\":\"a text \\u00e9\",\"m\\u0061p\":{\"x\":[1,2]}}";

    read_record(&record, &plain, line);
    uint64_t before = wgi_alloc_count();
    for (int i = 0; i < 100; i++)
        read_record(&record, &plain, line);
    EXPECT_EQ(wgi_alloc_count() - before, 0);
    wgi_record_fini(&record);
}

int main(void)
{
    wgt_seed_set(20240517);
    uint64_t seed = wgt_seed;
    wgt_folder_make();
    test_fields();
    test_token_ids();
    test_random();
    test_steady_state();
    wgt_folder_drop();
    if (wgt_failed) fprintf(stderr, "WGT_SEED=%" PRIu64 "\n", seed);
    return wgt_result();
}
