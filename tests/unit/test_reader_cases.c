/*
 * test_reader_cases.c - every case of tests/data/cases/corpus-index.jsonl: the file is read and
 * compared with what its row says. No expected value stands in this program.
 * LIBRARIES: wgi_corpus wgi_base
 */
#include "reader_harness.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/utf8.h"

#define CASES WGT_DATA "/cases/"

/* The value of a key of an object, or data NULL. */
static wgi_slice member(wgi_slice object, const char *name)
{
    wgi_json json;
    wgi_slice key, value, found = {0};

    wgi_json_init(&json, object.data, object.count);
    if (wgi_json_peek(&json) == WGI_JSON_OBJECT && wgi_json_object_begin(&json, NULL) == WG_OK) {
        while (wgi_json_object_next(&json, &key)) {
            bool is_it = wgi_slice_is(key, name);
            if (wgi_json_raw(&json, &value, NULL) == WG_OK && is_it) found = value;
        }
    }
    wgi_json_fini(&json);
    return found;
}

/* Item i of an array, or data NULL. */
static wgi_slice item(wgi_slice array, size_t index)
{
    wgi_json json;
    wgi_slice value, found = {0};
    size_t i = 0;

    wgi_json_init(&json, array.data, array.count);
    if (wgi_json_peek(&json) == WGI_JSON_ARRAY && wgi_json_array_begin(&json, NULL) == WG_OK) {
        while (wgi_json_array_next(&json)) {
            if (wgi_json_raw(&json, &value, NULL) == WG_OK && i++ == index) found = value;
        }
    }
    wgi_json_fini(&json);
    return found;
}

static size_t item_count(wgi_slice array)
{
    size_t count = 0;

    while (item(array, count).data)
        count++;
    return count;
}

static wgi_buf string_of(wgi_slice value)
{
    wgi_json json;
    wgi_buf text = {0};
    wg_error err;

    wgi_json_init(&json, value.data, value.count);
    EXPECT_OK(wgi_json_string(&json, &text, &err));
    EXPECT_OK(wgi_buf_reserve(&text, 0, &err));
    wgi_json_fini(&json);
    return text;
}

static uint64_t number_of(wgi_slice value)
{
    return strtoull(value.data, NULL, 10);
}

/* Why a row is not met; "" when it is. */
typedef struct verdict {
    char text[400];
} verdict;

#define UNMET(...)                                                 \
    do {                                                           \
        (void)snprintf(why->text, sizeof(why->text), __VA_ARGS__); \
        return false;                                              \
    } while (0)

static bool text_is(const wg_document *document, wgi_slice want, bool newline_may_go)
{
    if (wgi_slice_is(want, "null")) return document->failure != WG_FAILURE_NONE;
    if (document->failure != WG_FAILURE_NONE) return false;
    wgi_buf text = string_of(want);
    size_t count = document->text_bytes;
    bool same = count == text.count && memcmp(document->text, text.data, count) == 0;
    if (newline_may_go && !same)
        same = count + 1 == text.count && memcmp(document->text, text.data, count) == 0;
    wgi_buf_fini(&text);
    return same;
}

static bool check_texts(const wgt_reading *got, wgi_slice expect, verdict *why)
{
    wgi_slice texts = member(expect, "texts");
    bool newline_may_go = member(expect, "strip_final_newline_ok").data != NULL;

    if (!texts.data) return true;
    size_t count = item_count(texts);
    if (got->count != count) UNMET("%zu documents, expected %zu", got->count, count);
    for (size_t i = 0; i < count; i++) {
        if (!text_is(&got->documents[i], item(texts, i), newline_may_go))
            UNMET("document %zu is \"%.100s\" (%s)", i,
                  got->documents[i].text ? got->documents[i].text : "", got->documents[i].reason);
    }
    return true;
}

static bool check_unordered(const wgt_reading *got, wgi_slice expect, verdict *why)
{
    wgi_slice texts = member(expect, "texts_unordered");

    if (!texts.data) return true;
    size_t count = item_count(texts), met = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < got->count; k++)
            met += text_is(&got->documents[k], item(texts, i), false);
    }
    if (met != count || got->count != count) UNMET("%zu of %zu texts found", met, count);
    for (size_t k = 1; k < got->count; k++) {
        /* Escapes aside, the order of sources is that of the names. */
        if (got->documents[k].ordinal != k) UNMET("document %zu is out of order", k);
    }
    return true;
}

static bool check_ids(const wgt_reading *got, wgi_slice expect, verdict *why)
{
    wgi_slice ids = member(expect, "ids"), raw = member(expect, "ids_raw");

    for (size_t i = 0; (ids.data || raw.data) && i < got->count; i++) {
        const wg_document *document = &got->documents[i];
        wgi_slice id = {document->id, document->id_bytes};
        char text[600];
        wgi_slice want = item(ids.data ? ids : raw, i);
        if (ids.data && wgi_slice_is(want, "null")) {
            (void)snprintf(text, sizeof(text), "\"%s:%" PRIu64 "\"", document->source,
                           document->place);
        } else if (ids.data) {
            (void)snprintf(text, sizeof(text), "%.*s", (int)want.count, want.data);
        } else { /* the literal stands in a string */
            wgi_buf literal = string_of(want);
            (void)snprintf(text, sizeof(text), "%s", literal.data);
            wgi_buf_fini(&literal);
        }
        if (!wgi_slice_is(id, text))
            UNMET("id %zu is %.100s, expected %.100s", i, document->id, text);
    }
    return true;
}

static bool check_lens(const wgt_reading *got, wgi_slice expect, verdict *why)
{
    wgi_slice lens = member(expect, "lens");

    if (!lens.data) return true;
    if (item_count(lens) != got->count) UNMET("%zu documents", got->count);
    for (size_t i = 0; i < got->count; i++) {
        const wg_document *document = &got->documents[i];
        uint64_t characters = 0;
        for (size_t at = 0; document->text && at < document->text_bytes; characters++)
            (void)wgi_utf8_next(document->text, document->text_bytes, &at, NULL);
        if (characters != number_of(item(lens, i))) UNMET("%" PRIu64 " characters", characters);
    }
    return true;
}

static bool check_places(const wgt_reading *got, wgi_slice expect, verdict *why)
{
    wgi_slice failed = member(expect, "failed_lines"), warned = member(expect, "warn_lines");
    wgi_slice warn = member(expect, "warn");
    size_t met = 0;
    char text[40];

    for (size_t i = 0; failed.data && i < got->count; i++) {
        if (got->documents[i].failure == WG_FAILURE_NONE) continue;
        wgi_slice line = item(failed, met++);
        if (!line.data || got->documents[i].place_kind != WG_PLACE_LINE ||
            number_of(line) != got->documents[i].place)
            UNMET("a failure at line %" PRIu64, got->documents[i].place);
    }
    if (failed.data && met != item_count(failed)) UNMET("%zu failures", met);
    for (size_t i = 0; warned.data && i < item_count(warned); i++) {
        (void)snprintf(text, sizeof(text), " line %" PRIu64 ": ", number_of(item(warned, i)));
        if (!got->log.count || !strstr(got->log.data, text)) UNMET("no warning for%s", text);
    }
    if (warned.data && got->counts.warnings != item_count(warned))
        UNMET("%" PRIu64 " warnings", got->counts.warnings);
    if (warn.data && got->counts.warnings == 0) UNMET("no warning");
    if (warn.data && warn.data[0] == '"') {
        wgi_buf word = string_of(warn);
        bool is_there = got->log.count && strstr(got->log.data, word.data);
        wgi_buf_fini(&word);
        if (!is_there) UNMET("the warning does not say it");
    }
    return true;
}

static bool check_error(const wgt_reading *got, wgi_slice expect, verdict *why)
{
    wgi_slice error = member(expect, "error");
    bool partial_ok = member(expect, "partial_ok").data != NULL;

    if (!error.data) return true;
    if (got->count == 0) UNMET("no failure");
    if (!partial_ok && got->count > 1) UNMET("%zu documents beside the failure", got->count - 1);
    const wg_document *last = &got->documents[got->count - 1];
    wgi_buf word = string_of(error);
    bool said = last->failure != WG_FAILURE_NONE && strstr(last->reason, word.data);
    wgi_buf_fini(&word);
    if (!said)
        UNMET("the last document says '%s' %s", wg_failure_code(last->failure), last->reason);
    return true;
}

static char *folded(const char *text, size_t count)
{
    char *out = wgt_copy(text, count), *to = out;

    for (size_t i = 0; i < count; i++) {
        bool is_blank = strchr(" \n\f\t\r", text[i]) != NULL;
        if (!is_blank || (to > out && to[-1] != ' ')) *to++ = is_blank ? ' ' : text[i];
    }
    *to = 0;
    return out;
}

static bool check_contains(const wgt_reading *got, wgi_slice expect, verdict *why)
{
    wgi_slice runs = member(expect, "contains"), not_runs = member(expect, "not_contains");
    wgi_slice pages = member(expect, "pages");

    if (!runs.data) return true;
    if (got->count != 1 || !got->documents[0].text)
        UNMET("no text: %s", got->count ? got->documents[0].reason : "no document");
    const wg_document *document = &got->documents[0];
    uint64_t feeds = 0;
    for (size_t i = 0; i < document->text_bytes; i++)
        feeds += document->text[i] == '\f';
    if (pages.data && feeds != number_of(pages)) UNMET("%" PRIu64 " pages", feeds);
    char *text = folded(document->text, document->text_bytes);
    size_t missing = 0;
    for (size_t i = 0; i < item_count(runs); i++) {
        wgi_buf run = string_of(item(runs, i));
        missing += !strstr(text, run.data);
        wgi_buf_fini(&run);
    }
    for (size_t i = 0; not_runs.data && i < item_count(not_runs); i++) {
        wgi_buf run = string_of(item(not_runs, i));
        missing += strstr(text, run.data) != NULL;
        wgi_buf_fini(&run);
    }
    if (missing > 0) (void)snprintf(why->text, sizeof(why->text), "not in \"%.200s\"", text);
    free(text);
    return missing == 0;
}

static bool meets(const wgt_reading *got, wgi_slice expect, verdict *why)
{
    wgi_slice any = member(expect, "any");

    if (got->status != WG_OK) UNMET("reading stopped: %.300s", got->err.message);
    for (size_t i = 0; any.data && i < item_count(any); i++) {
        if (meets(got, item(any, i), why)) return true;
    }
    if (any.data) return false;
    return check_texts(got, expect, why) && check_unordered(got, expect, why) &&
           check_ids(got, expect, why) && check_lens(got, expect, why) &&
           check_places(got, expect, why) && check_error(got, expect, why) &&
           check_contains(got, expect, why);
}

/* Unpacks an archive of the cases into a fresh folder. */
static void unpack(const char *archive, char folder[256])
{
    const char *base = getenv("TMPDIR");
    char command[1200];

    (void)snprintf(folder, 256, "%s/wgt-cases-XXXXXX", base ? base : "/tmp");
    EXPECT(mkdtemp(folder) != NULL);
    (void)snprintf(command, sizeof(command), "tar xzf '%s' -C '%s'", archive, folder);
    EXPECT_EQ(system(command), 0);
}

static void throw_away(const char *folder)
{
    char command[600];

    (void)snprintf(command, sizeof(command), "rm -r '%s'", folder);
    EXPECT_EQ(system(command), 0);
}

static void check_row(wgi_slice row)
{
    wgi_buf id = string_of(member(row, "id")), file = string_of(member(row, "file"));
    wgi_slice expect = member(row, "expect"), key = member(member(expect, "args"), "key");
    wgi_slice with_password = member(expect, "with_password");
    wgi_buf field = key.data ? string_of(key) : (wgi_buf){0};
    char path[600], folder[256] = "";
    const char *input = path;
    verdict why = {""};
    wg_reader_options options = {.inputs = &input,
                                 .input_count = 1,
                                 .text_field = field.data,
                                 .lines = member(expect, "mode").data != NULL};

    (void)snprintf(path, sizeof(path), "%s%s", CASES, file.data);
    if (member(expect, "setup").data) {
        unpack(path, folder);
        input = folder;
    }
    wgt_reading got = wgt_read(&options);
    bool is_met = meets(&got, expect, &why);
    wgt_reading_fini(&got);
    if (is_met && with_password.data) {
        wgi_buf password = string_of(member(with_password, "password"));
        options.pdf_password = password.data;
        got = wgt_read(&options);
        is_met = meets(&got, with_password, &why);
        wgt_reading_fini(&got);
        wgi_buf_fini(&password);
    }
    if (!is_met) {
        wgt_fail_at(__FILE__, __LINE__);
        fprintf(stderr, "case %s (%s): %s\n", id.data, file.data, why.text);
    }
    if (folder[0]) throw_away(folder);
    wgi_buf_fini(&id);
    wgi_buf_fini(&file);
    wgi_buf_fini(&field);
}

int main(void)
{
    FILE *index = fopen(CASES "corpus-index.jsonl", "r");
    char *line = NULL;
    size_t capacity = 0, rows = 0;
    ssize_t count;
    bool has_pdftotext = system("pdftotext -v >/dev/null 2>&1") == 0;

    if (!index) {
        perror(CASES "corpus-index.jsonl");
        return 1;
    }
    while ((count = getline(&line, &capacity, index)) > 0) {
        wgi_slice row = {line, (size_t)count};
        if (strstr(line, "\"id\": \"P-") && !has_pdftotext) continue;
        check_row(row);
        rows++;
    }
    free(line);
    (void)fclose(index);
    EXPECT(rows > 0);
    printf("%zu cases%s\n", rows, has_pdftotext ? "" : " (PDF cases left out: no pdftotext)");
    return wgt_result();
}
