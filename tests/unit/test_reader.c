/*
 * test_reader.c - inputs of all kinds through the public reader: order, names, ids, limits, pipes.
 * LIBRARIES: wgi_corpus wgi_base
 */
#include "reader_harness.h"

#include <pthread.h>

#include "base/os_read.h"
#include "reader_folder.h"

static wgt_reading read_all(const char *const *inputs, size_t count)
{
    return wgt_read(&(wg_reader_options){.inputs = inputs, .input_count = count});
}

static void expect_text(const wgt_reading *got, size_t i, const char *text)
{
    EXPECT(i < got->count);
    if (i >= got->count) return;
    EXPECT_TEXT(got->documents[i].text, text);
    EXPECT_EQ(got->documents[i].text_bytes, strlen(text));
    EXPECT_EQ(got->documents[i].failure, WG_FAILURE_NONE);
    EXPECT_EQ(got->documents[i].ordinal, i);
}

static void expect_failure(const wgt_reading *got, size_t i, wg_failure failure, const char *reason)
{
    EXPECT(i < got->count);
    if (i >= got->count) return;
    EXPECT_TEXT(wg_failure_code(got->documents[i].failure), wg_failure_code(failure));
    EXPECT_IN(got->documents[i].reason, reason);
    EXPECT(got->documents[i].text == NULL && got->documents[i].token_ids == NULL);
}

/* Inputs keep their order, a missing one takes its place, and one named twice is read twice. */
static void test_order(void)
{
    const char *a = wgt_put_text("b.txt", "one");
    const char *inputs[] = {
        a, wgt_in("missing.txt"),
        wgt_put_text("a.jsonl", "{\"text\":\"two\"}\n\n{\"text\":\"three\",\"id\":7}"), a};
    wgt_reading got = read_all(inputs, 4);

    EXPECT_EQ(got.status, WG_OK);
    EXPECT_EQ(got.count, 5);
    expect_text(&got, 0, "one");
    expect_failure(&got, 1, WG_FAILURE_IO, "No such file");
    expect_text(&got, 2, "two");
    expect_text(&got, 3, "three");
    expect_text(&got, 4, "one");
    EXPECT_EQ(got.counts.documents, 5);
    EXPECT_EQ(got.counts.failures, 1);
    EXPECT_EQ(got.counts.files, 3);
    EXPECT_EQ(got.counts.bytes, 3 + 3 + 15 + 1 + 23);
    if (got.count == 5) {
        char id[700];
        (void)snprintf(id, sizeof(id), "\"%s\"", inputs[1]);
        EXPECT_TEXT(got.documents[1].id, id);
        (void)snprintf(id, sizeof(id), "\"%s:1\"", inputs[2]);
        EXPECT_TEXT(got.documents[2].id, id);
        EXPECT_TEXT(got.documents[2].source, inputs[2]);
        EXPECT_TEXT(got.documents[3].id, "7");
        EXPECT_EQ(got.documents[3].place, 3);
        EXPECT_EQ(got.documents[3].place_kind, WG_PLACE_LINE);
    }
    wgt_reading_fini(&got);
}

/* Byte order of whole paths: '-' and '.' come before '/', which comes before letters. */
static void test_directory_order(void)
{
    static const char *const names[] = {"w/a-b.txt", "w/a.txt", "w/a/z.md", "w/a0.txt", "w/b.txt"};
    const char *input = wgt_in("w");

    EXPECT_EQ(mkdir(input, 0700), 0);
    EXPECT_EQ(mkdir(wgt_in("w/a"), 0700), 0);
    EXPECT_EQ(mkdir(wgt_in("w/empty"), 0700), 0);
    for (size_t i = 5; i-- > 0;)
        (void)wgt_put_text(names[i], names[i]);
    (void)wgt_put_text("w/picture.png", "x");
    (void)wgt_put_text("w/.gz", "x");
    (void)wgt_put_text("w/table.csv", "text\nx\n");
    wgt_reading got = read_all(&input, 1);
    EXPECT_EQ(got.count, 5);
    for (size_t i = 0; i < 5; i++)
        expect_text(&got, i, names[i]);
    EXPECT_EQ(got.counts.files_skipped, 3);
    EXPECT_EQ(got.counts.warnings, 0);
    wgt_reading_fini(&got);

    /* A file met again through a link is passed over; a trailing '/' changes nothing. */
    char slashed[300];
    (void)snprintf(slashed, sizeof(slashed), "%s//", input);
    EXPECT_EQ(symlink("a.txt", wgt_in("w/c.txt")), 0);
    input = slashed;
    got = read_all(&input, 1);
    EXPECT_EQ(got.count, 5);
    if (got.count == 5) EXPECT_TEXT(got.documents[0].source, wgt_in("w/a-b.txt"));
    wgt_reading_fini(&got);
}

/* A loop, a link to nowhere, a file and a directory that are met twice. */
static void test_links(void)
{
    const char *input = wgt_in("links");

    EXPECT_EQ(mkdir(input, 0700), 0);
    EXPECT_EQ(mkdir(wgt_in("links/b"), 0700), 0);
    (void)wgt_put_text("links/b/real.txt", "real");
    EXPECT_EQ(symlink("b/real.txt", wgt_in("links/a.txt")), 0); /* comes first, so it is the one */
    EXPECT_EQ(symlink("../../links", wgt_in("links/b/loop")), 0);
    EXPECT_EQ(symlink("b", wgt_in("links/c")), 0);
    EXPECT_EQ(symlink("nowhere", wgt_in("links/d.txt")), 0);
    wgt_reading got = read_all(&input, 1);
    EXPECT_EQ(got.count, 1);
    expect_text(&got, 0, "real");
    if (got.count == 1) EXPECT_IN(got.documents[0].source, "links/a.txt");
    EXPECT_EQ(got.counts.warnings, 3);
    EXPECT_IN(got.log.data, "links/b/loop: passed over: this directory was met before");
    EXPECT_IN(got.log.data, "links/c: passed over: this directory was met before");
    EXPECT_IN(got.log.data, "links/d.txt: passed over: No such file");
    wgt_reading_fini(&got);
}

/* A name that is not UTF-8 is written so that it can be had back. */
static void test_odd_names(void)
{
    const char *inputs[] = {wgt_put_text("odd\xFF\xC3(\".txt", "x"),
                            wgt_put_text("new\nline.txt", "y")};
    wgt_reading got = read_all(inputs, 2);

    EXPECT_EQ(got.count, 2);
    if (got.count == 2) {
        EXPECT_IN(got.documents[0].source, "/odd\\udcff\\udcc3(\\\".txt");
        EXPECT_IN(got.documents[0].id, "/odd\\udcff\\udcc3(\\\".txt\"");
        EXPECT_IN(got.documents[1].source, "/new\\nline.txt");
    }
    wgt_reading_fini(&got);
}

/* Named files of kinds that nobody knows. */
static void test_named_unknown(void)
{
    const char *inputs[] = {wgt_put_text("notes", "plain"),
                            wgt_put("blob", "\xFF\xFE\x01", 3),
                            wgt_put("blob.bin", "ab\xFF", 3),
                            wgt_put("wide.dat", "a\0b\0c\0", 6),
                            wgt_put("packed.jsonl", "\x28\xB5\x2F\xFD\0\0", 6),
                            wgt_put_text("table.csv", "text\nx\n"),
                            wgt_put("exe.txt", "a\0\xFF", 3),
                            wgt_put("utf32.txt", "\xFF\xFE\0\0a\0\0\0", 8)};
    wgt_reading got = read_all(inputs, 8);

    EXPECT_EQ(got.count, 8);
    expect_text(&got, 0, "plain");
    expect_text(&got, 1, "\xEF\xBF\xBD"); /* UTF-16 with half a unit: repaired, warned of */
    expect_failure(&got, 2, WG_FAILURE_BAD_ENCODING, "not UTF-8");
    expect_failure(&got, 3, WG_FAILURE_BAD_ENCODING, "without a byte-order mark");
    expect_failure(&got, 4, WG_FAILURE_BAD_ENCODING, "Zstandard");
    expect_failure(&got, 5, WG_FAILURE_NO_TEXT, "CSV");
    expect_failure(&got, 6, WG_FAILURE_BAD_ENCODING, "binary");
    expect_failure(&got, 7, WG_FAILURE_BAD_ENCODING, "UTF-32");
    EXPECT_EQ(got.counts.warnings, 1);
    if (got.count == 8) {
        EXPECT_EQ(got.documents[2].place_kind, WG_PLACE_OFFSET);
        EXPECT_EQ(got.documents[2].place, 2);
    }
    wgt_reading_fini(&got);

    got = wgt_read(
        &(wg_reader_options){.inputs = &inputs[2], .input_count = 1, .format = WG_FORMAT_TEXT});
    expect_text(&got, 0, "ab\xEF\xBF\xBD");
    EXPECT_IN(got.log.data, " byte 2: ");
    wgt_reading_fini(&got);
}

/* UTF-16 of both orders, pairs, lone halves, in texts and in records. */
static void test_utf16(void)
{
    static const char big[] = "\xFE\xFF\0a\xD8\x3D\xDE\0\xD8\x3D\0b\xDE\0";
    static const char little[] = "\xFF\xFE{\0\"\0t\0e\0x\0t\0\"\0:\0\"\0\xE9\0\"\0}\0\n\0";
    const char *inputs[] = {wgt_put("big.txt", big, sizeof(big) - 1),
                            wgt_put("little.jsonl", little, sizeof(little) - 1)};

    for (size_t most = 0; most < 6; most++) { /* reads of 1, 2, ... bytes cut it everywhere */
        wgi_read_bytes_max(most);
        wgt_reading got = read_all(inputs, 2);
        wgi_read_bytes_max(0);
        EXPECT_EQ(got.count, 2);
        expect_text(&got, 0,
                    "a\xF0\x9F\x98\x80\xEF\xBF\xBD"
                    "b\xEF\xBF\xBD");
        expect_text(&got, 1, "\xC3\xA9");
        EXPECT_EQ(got.counts.warnings, 1);
        EXPECT_IN(got.log.data, " byte 8: "); /* mark 2, a 2, pair 4, then the lone half */
        wgt_reading_fini(&got);
    }
}

static void test_lines(void)
{
    const char *input = wgt_put("l.txt", "one\r\n\nthree\fx\rend", 17);
    wgt_reading got =
        wgt_read(&(wg_reader_options){.inputs = &input, .input_count = 1, .lines = 1});

    EXPECT_EQ(got.count, 3);
    expect_text(&got, 0, "one");
    expect_text(&got, 1, "");
    expect_text(&got, 2, "three\fx\rend");
    if (got.count == 3) {
        EXPECT_IN(got.documents[2].id, "l.txt:3\"");
        EXPECT_EQ(got.documents[2].place, 3);
    }
    wgt_reading_fini(&got);
}

/* Limits fail the record, the line or the file by name, and reading goes on behind it. */
static void test_limits(void)
{
    char line[4000];
    const char *inputs[] = {wgt_in("big.jsonl"), wgt_in("fits.txt"), wgt_in("big.txt")};

    memset(line, ' ', sizeof(line)); /* 3 records: of 1,000 bytes, of 1,001, of 12 */
    memcpy(line, "{\"text\":\"a\"}", 12);
    memcpy(line + 1000, "\n{\"text\":\"b\"}", 13);
    memcpy(line + 2002, "\r\n{\"text\":\"c\"}", 14);
    (void)wgt_put("big.jsonl", line, 2016);
    memset(line, 'x', sizeof(line));
    (void)wgt_put("fits.txt", line, 1000);
    (void)wgt_put("big.txt", line, 1001);
    for (size_t most = 0; most < 3; most++) {
        wgi_read_bytes_max(most * 7);
        wgt_reading got = wgt_read(
            &(wg_reader_options){.inputs = inputs, .input_count = 3, .record_bytes_max = 1000});
        wgi_read_bytes_max(0);
        EXPECT_EQ(got.count, 5);
        expect_text(&got, 0, "a");
        expect_failure(&got, 1, WG_FAILURE_TOO_LONG, "more than 1000 bytes");
        expect_text(&got, 2, "c");
        if (got.count == 5) {
            EXPECT_EQ(got.documents[1].place, 2);
            EXPECT_EQ(got.documents[2].place, 3);
            EXPECT_EQ(got.documents[3].text_bytes, 1000);
        }
        expect_failure(&got, 4, WG_FAILURE_TOO_LONG, "more than 1000 bytes");
        wgt_reading_fini(&got);
    }
}

/* The CR of a CR LF does not count, also when a read ends between the two. */
static void test_limit_crlf(void)
{
    const char *input = wgt_put("crlf.txt", "12345\r\n123456\r\n\r\nabc\r\r\n12345\r", 29);

    for (size_t most = 0; most < 20; most++) {
        wgi_read_bytes_max(most);
        wgt_reading got = wgt_read(&(wg_reader_options){
            .inputs = &input, .input_count = 1, .lines = 1, .record_bytes_max = 5});
        wgi_read_bytes_max(0);
        EXPECT_EQ(got.count, 5);
        expect_text(&got, 0, "12345");
        expect_failure(&got, 1, WG_FAILURE_TOO_LONG, "more than 5 bytes");
        expect_text(&got, 2, "");
        expect_text(&got, 3, "abc\r");
        expect_text(&got, 4, "12345");
        wgt_reading_fini(&got);
    }
}

/* Puts a pipe in the place of standard input; returns the end to write to. */
static int stdin_pipe(int *kept)
{
    int ends[2];

    EXPECT_EQ(pipe(ends), 0);
    *kept = dup(STDIN_FILENO);
    EXPECT(dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    (void)close(ends[0]);
    return ends[1];
}

static void stdin_back(int kept)
{
    EXPECT(dup2(kept, STDIN_FILENO) == STDIN_FILENO);
    (void)close(kept);
}

static void *dribble(void *context)
{
    static const char bytes[] = "\xEF\xBB\xBF{\"text\":\"\xC3\xA9\"}\n{\"text\":\"z\"}";
    int fd = *(int *)context;

    for (size_t i = 0; i + 1 < sizeof(bytes); i++) {
        if (write(fd, bytes + i, 1) != 1) break;
        (void)usleep(300);
    }
    (void)close(fd);
    return NULL;
}

/* One byte a write, as slow producers do. */
static void test_stdin(void)
{
    const char *input = "-";
    pthread_t thread;
    int kept, fd = stdin_pipe(&kept);

    EXPECT_EQ(pthread_create(&thread, NULL, dribble, &fd), 0);
    wgt_reading got = wgt_read_path(input);
    (void)pthread_join(thread, NULL);
    stdin_back(kept);
    EXPECT_EQ(got.count, 2);
    expect_text(&got, 0, "\xC3\xA9");
    expect_text(&got, 1, "z");
    if (got.count == 2) {
        EXPECT_TEXT(got.documents[0].id, "\"-:1\"");
        EXPECT_TEXT(got.documents[0].source, "-");
    }
    wgt_reading_fini(&got);
}

static void test_stdin_odd(void)
{
    const char *input = "-";
    int kept = dup(STDIN_FILENO);
    int folder = open(wgt_folder, O_RDONLY | O_DIRECTORY);

    (void)dup2(folder, STDIN_FILENO);
    wgt_reading got = wgt_read_path(input);
    expect_failure(&got, 0, WG_FAILURE_IO, "is a directory");
    wgt_reading_fini(&got);
    (void)close(folder);

    (void)close(STDIN_FILENO);
    got = wgt_read_path(input); /* the stop flag may take the number 0, which is no input either */
    EXPECT_EQ(got.status, WG_OK);
    EXPECT_EQ(got.count, 0);
    wgt_reading_fini(&got);
    (void)dup2(kept, STDIN_FILENO);
    (void)close(kept);
}

static void *stop_later(void *context)
{
    (void)usleep(50000);
    wg_reader_stop(context);
    return NULL;
}

/* A silent producer does not keep a reader from stopping. */
static void test_stop(void)
{
    const char *input = "-";
    wg_reader_options options = {.inputs = &input, .input_count = 1};
    wg_reader *reader = NULL;
    wg_document document;
    wg_error err;
    pthread_t thread;
    int kept, has_document, fd = stdin_pipe(&kept);

    EXPECT_OK(wg_reader_open(&reader, &options, &err));
    EXPECT_EQ(pthread_create(&thread, NULL, stop_later, reader), 0);
    EXPECT_EQ(wg_reader_next(reader, &document, &has_document, &err), WG_ERR_INTERRUPTED);
    EXPECT_EQ(has_document, 0);
    EXPECT_EQ(wg_reader_next(reader, &document, &has_document, &err), WG_ERR_INTERRUPTED);
    (void)pthread_join(thread, NULL);
    wg_reader_close(reader);
    (void)close(fd);
    stdin_back(kept);
}

static void test_arguments(void)
{
    wg_reader *reader = (wg_reader *)1;
    const char *empty = "";
    wg_error err;

    EXPECT_EQ(wg_reader_open(&reader, NULL, &err), WG_ERR_ARGUMENT);
    EXPECT(reader == NULL);
    EXPECT_EQ(wg_reader_open(&reader, &(wg_reader_options){.input_count = 1}, &err),
              WG_ERR_ARGUMENT);
    EXPECT_EQ(
        wg_reader_open(&reader, &(wg_reader_options){.inputs = &empty, .input_count = 1}, &err),
        WG_ERR_ARGUMENT);
    EXPECT_EQ(wg_reader_open(&reader, &(wg_reader_options){.format = (wg_format)99}, &err),
              WG_ERR_ARGUMENT);
    wg_reader_close(NULL);
    wgt_reading got = wgt_read(&(wg_reader_options){0});
    EXPECT_EQ(got.status, WG_OK);
    EXPECT_EQ(got.count, 0);
    wgt_reading_fini(&got);
}

/* More files than the reader looks ahead. */
static void test_many(void)
{
    char path[300], name[40], text[40];
    const char *input = path;

    (void)snprintf(path, sizeof(path), "%s/many", wgt_folder);
    EXPECT_EQ(mkdir(input, 0700), 0);
    for (int i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof(name), "many/%03d.txt%s", i, i % 3 ? "" : ".gz");
        (void)snprintf(text, sizeof(text), "text %d", i);
        (void)(i % 3 ? wgt_put_text(name, text) : wgt_put_gz(name, text, strlen(text)));
    }
    wgt_reading got = read_all(&input, 1);
    EXPECT_EQ(got.count, 300);
    for (size_t i = 0; i < got.count; i++) {
        (void)snprintf(text, sizeof(text), "text %zu", i);
        expect_text(&got, i, text);
    }
    wgt_reading_fini(&got);

    if (geteuid() != 0) { /* root may read everything */
        EXPECT_EQ(chmod(input, 0), 0);
        got = read_all(&input, 1);
        expect_failure(&got, 0, WG_FAILURE_IO, "directory cannot be opened");
        EXPECT_EQ(chmod(input, 0700), 0);
        wgt_reading_fini(&got);
    }
}

int main(void)
{
    wgt_folder_make();
    test_order();
    test_directory_order();
    test_links();
    test_odd_names();
    test_named_unknown();
    test_utf16();
    test_lines();
    test_limits();
    test_limit_crlf();
    test_stdin();
    test_stdin_odd();
    test_stop();
    test_arguments();
    test_many();
    wgt_folder_drop();
    return wgt_result();
}
