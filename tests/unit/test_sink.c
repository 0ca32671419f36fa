/*
 * test_sink.c - what lands in the files: arrays, lines, failures, reports; what is refused before a
 * byte is read; and that every failing allocation and system call is told and leaves nothing torn.
 * LABELS: quick torture
 */
#include "output/sink.h"

#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/os_file.h"
#include "harness.h"

static wg_error err;
static char root[200]; /* a folder of our own in the working directory */

/* ------------------------------------------------------------------------------ helpers */

/* A path in the test's own folder; four are kept at a time. */
static const char *in_root(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];

    (void)snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

static void remove_tree(const char *path)
{
    char command[300];

    (void)snprintf(command, sizeof(command), "rm -rf '%s'", path);
    EXPECT_EQ(system(command), 0);
}

static bool exists(const char *path)
{
    struct stat info;

    return lstat(path, &info) == 0;
}

/* The bytes of a file, NUL behind them; the caller frees. */
static char *slurp(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    char *bytes = calloc(1, 8 << 20);

    *count = file && bytes ? fread(bytes, 1, (8 << 20) - 1, file) : 0;
    if (!file) fprintf(stderr, "%s cannot be opened\n", path);
    EXPECT(file != NULL);
    if (file) (void)fclose(file);
    return bytes;
}

static void expect_file(const char *path, const char *want)
{
    size_t count;
    char *bytes = slurp(path, &count);

    EXPECT_TEXT(bytes, want);
    free(bytes);
}

/* Shape in the header of an .npy file, and whether all of that data is there. */
static void expect_npy(const char *path, const char *descr, const char *shape, size_t data_bytes)
{
    size_t count;
    char *bytes = slurp(path, &count), want[128];

    EXPECT(memcmp(bytes, "\x93NUMPY\x01\x00\x76\x00", 10) == 0);
    (void)snprintf(want, sizeof(want), "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                   descr, shape);
    if (strncmp(bytes + 10, want, strlen(want)) != 0) {
        fprintf(stderr, "%s: %.118s\n", path, bytes + 10);
        EXPECT(strncmp(bytes + 10, want, strlen(want)) == 0);
    }
    EXPECT_EQ(strspn(bytes + 10 + strlen(want), " "), 128 - 11 - strlen(want));
    EXPECT_EQ(bytes[127], '\n');
    EXPECT_EQ(count, 128 + data_bytes);
    free(bytes);
}

static const float vectors[] = {0.5f, -1.0f, 0.1f, 1e-8f, 3.0f, 0.33333334f};

static wgi_row good_row(uint64_t ordinal, const char *id)
{
    return (wgi_row){.ordinal = ordinal,
                     .id = id,
                     .id_bytes = strlen(id),
                     .source = "a.jsonl",
                     .source_bytes = 7,
                     .place_kind = WG_PLACE_LINE,
                     .place = ordinal + 1,
                     .token_count = 3,
                     .vectors = vectors + 2 * (ordinal % 3),
                     .vector_count = 1};
}

static wgi_row bad_row(uint64_t ordinal, const char *id)
{
    wgi_row row = good_row(ordinal, id);

    row.vectors = NULL;
    row.vector_count = 0;
    row.failure = WG_FAILURE_BAD_JSON;
    row.reason = "expected ':' \"here\"";
    return row;
}

static wg_status open_sink(wgi_sink **sink, const char *output, const char *failures)
{
    return wgi_sink_open(
        sink, &(wgi_sink_options){.output = output, .failures = failures, .dim = 2}, &err);
}

/* ----------------------------------------------------------------------------- contents */

static void test_directory(void)
{
    const char *out = in_root("out");
    wgi_sink *sink = NULL;
    wgi_row row;
    size_t count;

    EXPECT_OK(open_sink(&sink, out, NULL));
    expect_npy(in_root("out/embeddings.npy"), "<f4", "(0, 2)", 0);
    row = good_row(0, "9007199254740993");
    EXPECT_OK(wgi_sink_put(sink, &row, &err));
    row = bad_row(1, "\"x\"");
    EXPECT_OK(wgi_sink_put(sink, &row, &err));
    row = good_row(2, "{\"k\":[1]}");
    row.is_truncated = true;
    EXPECT_OK(wgi_sink_put(sink, &row, &err));
    expect_npy(in_root("out/embeddings.npy"), "<f4", "(0, 2)", 0);
    EXPECT_OK(wgi_sink_flush(sink, &err));
    expect_npy(in_root("out/embeddings.npy"), "<f4", "(2, 2)", 16);
    EXPECT(!exists(in_root("out/report.json")));

    row = good_row(3, "");
    row.source = "tab\\tname\\udcff";
    row.source_bytes = strlen(row.source);
    EXPECT_OK(wgi_sink_put(sink, &row, &err));
    row = bad_row(4, "\"y\"");
    row.place_kind = WG_PLACE_PAGE;
    row.place = 12;
    EXPECT_OK(wgi_sink_put(sink, &row, &err));
    row.place_kind = WG_PLACE_OFFSET;
    row.place = 5000000000;
    row.failure = WG_FAILURE_IO;
    EXPECT_OK(wgi_sink_put(sink, &row, &err));
    row.place_kind = WG_PLACE_NONE;
    row.reason = NULL;
    EXPECT_OK(wgi_sink_put(sink, &row, &err));
    EXPECT_OK(wgi_sink_finish(sink, "{\"documents\":7}", &err));
    EXPECT_EQ(wgi_sink_put(sink, &row, &err), WG_ERR_CLOSED);
    wgi_sink_close(sink);

    expect_npy(in_root("out/embeddings.npy"), "<f4", "(3, 2)", 24);
    char *bytes = slurp(in_root("out/embeddings.npy"), &count);
    EXPECT(memcmp(bytes + 128, vectors, 8) == 0 && memcmp(bytes + 136, vectors + 4, 8) == 0);
    free(bytes);
    expect_file(
        in_root("out/rows.jsonl"),
        "{\"row\":0,\"id\":9007199254740993,\"source\":\"a.jsonl\",\"tokens\":3,\"truncated\":"
        "false}\n"
        "{\"row\":1,\"id\":{\"k\":[1]},\"source\":\"a.jsonl\",\"tokens\":3,\"truncated\":true}\n"
        "{\"row\":2,\"id\":null,\"source\":\"tab\\tname\\udcff\",\"tokens\":3,\"truncated\":false}"
        "\n");
    expect_file(in_root("out/failures.jsonl"),
                "{\"id\":\"x\",\"source\":\"a.jsonl\",\"line\":2,\"code\":\"bad_json\","
                "\"reason\":\"expected ':' \\\"here\\\"\"}\n"
                "{\"id\":\"y\",\"source\":\"a.jsonl\",\"page\":12,\"code\":\"bad_json\","
                "\"reason\":\"expected ':' \\\"here\\\"\"}\n"
                "{\"id\":\"y\",\"source\":\"a.jsonl\",\"offset\":5000000000,\"code\":\"io\","
                "\"reason\":\"expected ':' \\\"here\\\"\"}\n"
                "{\"id\":\"y\",\"source\":\"a.jsonl\",\"code\":\"io\",\"reason\":\"\"}\n");
    expect_file(in_root("out/report.json"), "{\"documents\":7}\n");

    /* The same again is refused, and nothing is touched. */
    EXPECT_EQ(open_sink(&sink, out, NULL), WG_ERR_IO);
    EXPECT(sink == NULL);
    EXPECT_IN(err.message, out);
    EXPECT_IN(err.message, "exists already");
    expect_npy(in_root("out/embeddings.npy"), "<f4", "(3, 2)", 24);
}

static void test_no_rows(void)
{
    wgi_sink *sink = NULL;

    EXPECT_OK(open_sink(&sink, in_root("none/"), NULL));
    EXPECT_OK(wgi_sink_finish(sink, "{}", &err));
    wgi_sink_close(sink);
    expect_npy(in_root("none/embeddings.npy"), "<f4", "(0, 2)", 0);
    expect_file(in_root("none/rows.jsonl"), "");
    expect_file(in_root("none/failures.jsonl"), "");

    EXPECT_OK(open_sink(&sink, in_root("none.jsonl"), NULL));
    EXPECT_OK(wgi_sink_finish(sink, NULL, &err));
    wgi_sink_close(sink);
    expect_file(in_root("none.jsonl"), "");
}

static void test_row_a_token(void)
{
    wgi_sink_options options = {.output = in_root("tokens"), .dim = 2, .one_row_a_token = true};
    wgi_sink *sink = NULL;
    wgi_row row = good_row(0, "1");
    size_t count;

    EXPECT_OK(wgi_sink_open(&sink, &options, &err));
    expect_npy(in_root("tokens/offsets.npy"), "<i8", "(1,)", 8);
    row.vector_count = 2;
    EXPECT_OK(wgi_sink_put(sink, &row, &err));
    row.vector_count = 1;
    EXPECT_OK(wgi_sink_put(sink, &row, &err));
    EXPECT_OK(wgi_sink_flush(sink, &err));
    expect_npy(in_root("tokens/tokens.npy"), "<f4", "(3, 2)", 24);
    row.vector_count = 3;
    EXPECT_OK(wgi_sink_put(sink, &row, &err));
    EXPECT_OK(wgi_sink_finish(sink, "{}", &err));
    wgi_sink_close(sink);
    expect_npy(in_root("tokens/tokens.npy"), "<f4", "(6, 2)", 48);
    expect_npy(in_root("tokens/offsets.npy"), "<i8", "(4,)", 32);
    char *bytes = slurp(in_root("tokens/offsets.npy"), &count);
    static const int64_t want[] = {0, 2, 3, 6};
    EXPECT(memcmp(bytes + 128, want, sizeof(want)) == 0);
    free(bytes);
    EXPECT(!exists(in_root("tokens/embeddings.npy")));

    options.output = in_root("tokens.jsonl");
    EXPECT_OK(wgi_sink_open(&sink, &options, &err));
    row.vector_count = 2;
    EXPECT_OK(wgi_sink_put(sink, &row, &err));
    EXPECT_OK(wgi_sink_finish(sink, "{}", &err));
    wgi_sink_close(sink);
    expect_file(in_root("tokens.jsonl"), "{\"id\":1,\"embedding\":[[0.5,-1.0],[0.1,1e-08]]}\n");
}

static const char jsonl_want[] = "{\"id\":\"a\",\"embedding\":[0.5,-1.0]}\n"
                                 "{\"id\":1.10,\"embedding\":[0.1,1e-08]}\n";

/* Two rows and a failure into a sink that is open, and its end, which comes after an error too. */
static wg_status put_three(wgi_sink *sink)
{
    wg_status status = WG_OK, finished;
    wg_error second;
    wgi_row row = good_row(0, "\"a\"");

    WGI_TRY(wgi_sink_put(sink, &row, &err));
    row = bad_row(7, "\"b\"");
    WGI_TRY(wgi_sink_put(sink, &row, &err));
    row = good_row(1, "1.10");
    WGI_TRY(wgi_sink_put(sink, &row, &err));
    WGI_TRY(wgi_sink_flush(sink, &err));

cleanup:
    finished = wgi_sink_finish(sink, "{}", &second);
    if (status == WG_OK && finished != WG_OK) err = second;
    return status != WG_OK ? status : finished;
}

static char logged[300];

static void keep_log(void *context, wg_log_level level, const char *message)
{
    (void)context;
    EXPECT_EQ(level, WG_LOG_ERROR);
    (void)snprintf(logged, sizeof(logged), "%s", message);
}

static void test_jsonl(void)
{
    wgi_sink *sink = NULL;

    wg_log_set(keep_log, NULL, WG_LOG_WARNING);
    EXPECT_OK(open_sink(&sink, in_root("rows.jsonl"), NULL));
    EXPECT_OK(put_three(sink));
    wgi_sink_close(sink);
    expect_file(in_root("rows.jsonl"), jsonl_want);
    EXPECT_TEXT(logged, "a.jsonl, line 8: bad_json: expected ':' \"here\"");
    EXPECT_EQ(open_sink(&sink, in_root("rows.jsonl"), NULL), WG_ERR_IO);
    EXPECT_IN(err.message, "exists already");
    expect_file(in_root("rows.jsonl"), jsonl_want);

    logged[0] = 0;
    EXPECT_OK(open_sink(&sink, in_root("rows2.jsonl"), in_root("failed")));
    EXPECT_OK(put_three(sink));
    wgi_sink_close(sink);
    EXPECT_TEXT(logged, "");
    expect_file(in_root("failed"),
                "{\"id\":\"b\",\"source\":\"a.jsonl\",\"line\":8,\"code\":\"bad_json\","
                "\"reason\":\"expected ':' \\\"here\\\"\"}\n");

    /* With a list elsewhere the directory has none of its own; a list is never written over. */
    EXPECT_EQ(open_sink(&sink, in_root("out3"), in_root("failed")), WG_ERR_IO);
    EXPECT(!exists(in_root("out3")));
    EXPECT_OK(open_sink(&sink, in_root("out3"), in_root("failed3")));
    EXPECT_OK(put_three(sink));
    wgi_sink_close(sink);
    EXPECT(exists(in_root("failed3")) && !exists(in_root("out3/failures.jsonl")));
    wg_log_set(NULL, NULL, WG_LOG_ERROR);
}

/* An unfinished sink keeps what it was given. */
static void test_close_without_finish(void)
{
    wgi_sink *sink = NULL;
    wgi_row row = good_row(0, "0");

    EXPECT_OK(open_sink(&sink, in_root("stopped"), NULL));
    EXPECT_OK(wgi_sink_put(sink, &row, &err));
    wgi_sink_close(sink);
    expect_npy(in_root("stopped/embeddings.npy"), "<f4", "(1, 2)", 8);
    EXPECT(!exists(in_root("stopped/report.json")));
    wgi_sink_close(NULL);
}

/* More than a buffer full, written in pieces; nothing is lost or doubled. */
static void test_short_writes(void)
{
    enum { ROWS = 40000 };
    wgi_sink *sink = NULL;
    size_t count, lines = 0;

    wgi_os_write_bytes_max(4099);
    EXPECT_OK(open_sink(&sink, in_root("many"), NULL));
    for (uint64_t i = 0; i < ROWS; i++) {
        wgi_row row = good_row(i, "0");
        if (wgi_sink_put(sink, &row, &err) != WG_OK) EXPECT_EQ(0, 1);
    }
    EXPECT_OK(wgi_sink_finish(sink, "{}", &err));
    wgi_sink_close(sink);
    wgi_os_write_bytes_max(0);
    expect_npy(in_root("many/embeddings.npy"), "<f4", "(40000, 2)", 8 * ROWS);
    char *bytes = slurp(in_root("many/embeddings.npy"), &count);
    for (size_t i = 0; i < ROWS; i++) {
        if (memcmp(bytes + 128 + 8 * i, vectors + 2 * (i % 3), 8) != 0) EXPECT_EQ(i, -1);
    }
    free(bytes);
    bytes = slurp(in_root("many/rows.jsonl"), &count);
    for (size_t i = 0; i < count; i++)
        lines += bytes[i] == '\n';
    EXPECT_EQ(lines, ROWS);
    EXPECT_IN(bytes, "\n{\"row\":39999,");
    free(bytes);
}

static void test_bad_rows(void)
{
    wgi_sink *sink = NULL;
    float broken[2] = {1, NAN};
    wgi_row row = good_row(0, "0");

    EXPECT_OK(open_sink(&sink, in_root("nan.jsonl"), NULL));
    row.vectors = broken;
    EXPECT_EQ(wgi_sink_put(sink, &row, &err), WG_ERR_ARGUMENT);
    row = good_row(0, "0");
    row.vector_count = 2;
    EXPECT_EQ(wgi_sink_put(sink, &row, &err), WG_ERR_ARGUMENT);
    row.vector_count = 1;
    EXPECT_OK(wgi_sink_put(sink, &row, &err));
    EXPECT_OK(wgi_sink_finish(sink, NULL, &err));
    wgi_sink_close(sink);
    expect_file(in_root("nan.jsonl"), "{\"id\":0,\"embedding\":[0.5,-1.0]}\n");
}

/* ------------------------------------------------------------------------------ refusals */

static wg_status open_with(const char *output, const char *failures, const char *input)
{
    wgi_sink *sink = NULL;
    const char *inputs[] = {"-", in_root("no such file"), input};
    wgi_sink_options options = {
        .output = output, .failures = failures, .dim = 2, .inputs = inputs, .input_count = 3};
    wg_status status = wgi_sink_open(&sink, &options, &err);

    EXPECT_EQ(sink != NULL, status == WG_OK);
    wgi_sink_close(sink);
    return status;
}

static void expect_refused(const char *output, const char *input, const char *word)
{
    EXPECT_EQ(open_with(output, NULL, input), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, word);
    EXPECT_IN(err.message, output);
}

static void test_refused(void)
{
    char before[256];

    remove_tree(in_root("corpus"));
    EXPECT_EQ(mkdir(in_root("corpus"), 0777), 0);
    EXPECT_EQ(mkdir(in_root("corpus/deep"), 0777), 0);
    EXPECT_EQ(symlink("corpus/deep", in_root("link")), 0);
    int fd = open(in_root("corpus/in.jsonl"), O_CREAT | O_WRONLY, 0666);
    EXPECT_EQ(write(fd, "{}\n", 3), 3);
    (void)close(fd);
    EXPECT_EQ(link(in_root("corpus/in.jsonl"), in_root("other.jsonl")), 0);

    expect_refused(in_root("corpus/in.jsonl"), in_root("corpus/in.jsonl"), "is an input too");
    expect_refused(in_root("other.jsonl"), in_root("corpus/in.jsonl"), "is an input too");
    expect_refused(in_root("corpus"), in_root("corpus"), "is an input too");
    expect_refused(in_root("corpus/out.jsonl"), in_root("corpus"), "lies in the input directory");
    expect_refused(in_root("corpus/deep/out"), in_root("corpus"), "lies in the input directory");
    expect_refused(in_root("link/out"), in_root("corpus/"), "lies in the input directory");
    expect_refused(in_root("corpus/../corpus/out"), in_root("corpus"), "lies in the input");
    expect_refused(in_root("new.jsonl"), in_root("new.jsonl"), "named as the input");
    expect_refused(in_root("corpus/../new"), in_root("new/rows.jsonl"), "named as the input");
    expect_refused(in_root("embeddings.npy"), in_root("corpus"),
                   "a file whose name ends in .jsonl");
    EXPECT_EQ(open_with("", NULL, in_root("corpus")), WG_ERR_ARGUMENT);
    EXPECT_EQ(open_with(in_root("x"), "-", in_root("corpus")), WG_ERR_ARGUMENT);
    EXPECT_EQ(open_with(in_root("x"), in_root("corpus/f"), in_root("corpus")), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "the list of failures lies in");
    EXPECT_EQ(open_with(in_root("x"), in_root("corpus/in.jsonl"), in_root("corpus/in.jsonl")),
              WG_ERR_ARGUMENT);
    EXPECT_EQ(open_with(in_root("no/such/out"), NULL, in_root("corpus")), WG_ERR_IO);
    EXPECT_IN(err.message, "does not exist");
    EXPECT_EQ(open_with(in_root("no/such.jsonl"), NULL, in_root("corpus")), WG_ERR_IO);
    EXPECT_EQ(open_with(in_root("other.jsonl"), in_root("x"), in_root("corpus/deep")), WG_ERR_IO);
    EXPECT(!exists(in_root("x")));
    expect_file(in_root("corpus/in.jsonl"), "{}\n");

    /* A name that only begins like the directory's lies beside it. */
    EXPECT_OK(open_with(in_root("corpus2"), NULL, in_root("corpus")));
    EXPECT_OK(open_with("/dev/null", NULL, "/dev/null"));

    /* Relative paths: the output lies in the working directory, which is the input. */
    EXPECT(getcwd(before, sizeof(before)) != NULL);
    EXPECT_EQ(chdir(in_root("corpus/deep")), 0);
    expect_refused("out", ".", "lies in the input directory");
    expect_refused("out", "..", "lies in the input directory");
    EXPECT_OK(open_with("../../corpus3", NULL, "."));
    EXPECT_EQ(chdir(before), 0);
}

/* Runs with standard input and output on these paths. */
static wg_status with_standard(const char *in, const char *out, const char *input, const char *text)
{
    int kept_in = dup(0), kept_out = dup(1);
    int fd_in = open(in, O_RDONLY), fd_out = open(out, O_WRONLY | O_CREAT | O_APPEND, 0666);
    wgi_sink *sink = NULL;
    wgi_sink_options options = {.output = "-", .dim = 2, .inputs = &input, .input_count = 1};

    if (strstr(out, "unlinked")) EXPECT_EQ(unlink(out), 0);
    EXPECT(dup2(fd_in, 0) == 0 && dup2(fd_out, 1) == 1);
    wg_status status = wgi_sink_open(&sink, &options, &err);
    if (status == WG_OK) status = put_three(sink);
    wgi_sink_close(sink);
    /* The stream itself is the caller's and stays open. */
    if (text) EXPECT_EQ(write(1, text, strlen(text)), strlen(text));
    (void)dup2(kept_in, 0);
    (void)dup2(kept_out, 1);
    (void)close(kept_in);
    (void)close(kept_out);
    (void)close(fd_in);
    (void)close(fd_out);
    return status;
}

static void test_standard_output(void)
{
    char want[200];

    EXPECT_OK(with_standard("/dev/null", in_root("stdout"), "-", "more\n"));
    (void)snprintf(want, sizeof(want), "%smore\n", jsonl_want);
    expect_file(in_root("stdout"), want);

    EXPECT_EQ(with_standard(in_root("stdout"), in_root("stdout"), "-", NULL), WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "standard input");
    EXPECT_EQ(with_standard("/dev/null", in_root("stdout"), in_root("stdout"), NULL),
              WG_ERR_ARGUMENT);
    EXPECT_EQ(with_standard("/dev/null", in_root("corpus/o"), in_root("corpus"), NULL),
              WG_ERR_ARGUMENT);
    EXPECT_IN(err.message, "lies in the input directory");
    EXPECT_EQ(link(in_root("stdout"), in_root("unlinked")), 0);
    EXPECT_EQ(with_standard("/dev/null", in_root("unlinked"), in_root("stdout"), NULL),
              WG_ERR_ARGUMENT);
    expect_file(in_root("stdout"), want);

    EXPECT_EQ(with_standard("/dev/null", "/dev/full", "-", NULL), WG_ERR_IO);
    EXPECT_TEXT(err.message, "standard output: No space left on device");
}

static void test_full_and_broken(void)
{
    wgi_sink *sink = NULL;
    int ends[2];

    EXPECT_OK(open_sink(&sink, "/dev/full", NULL));
    EXPECT_EQ(put_three(sink), WG_ERR_IO);
    EXPECT_TEXT(err.message, "/dev/full: No space left on device");
    EXPECT_EQ(wgi_sink_finish(sink, NULL, &err), WG_ERR_IO);
    EXPECT_TEXT(err.message, "/dev/full: No space left on device");
    wgi_sink_close(sink);

    EXPECT_OK(open_sink(&sink, in_root("after full"), "/dev/full"));
    EXPECT_EQ(put_three(sink), WG_ERR_IO);
    EXPECT_IN(err.message, "/dev/full: No space");
    wgi_sink_close(sink);

    /* A reader that went away is an error like others. */
    (void)signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(pipe(ends), 0);
    (void)close(ends[0]);
    int kept = dup(1);
    EXPECT_EQ(dup2(ends[1], 1), 1);
    EXPECT_OK(open_sink(&sink, "-", NULL));
    EXPECT_EQ(put_three(sink), WG_ERR_IO);
    EXPECT_TEXT(err.message, "standard output: Broken pipe");
    wgi_sink_close(sink);
    (void)dup2(kept, 1);
    (void)close(kept);
    (void)close(ends[1]);
}

/* ------------------------------------------------------------------------------- torture */

/* All rows that a header counts are there, and as many whole lines, or the headers are behind. */
static void check_directory_is_whole(const char *folder)
{
    char path[300];
    size_t count, line_bytes, lines = 0;
    unsigned long long rows = 99;

    (void)snprintf(path, sizeof(path), "%s/embeddings.npy", folder);
    char *bytes = slurp(path, &count);
    const char *shape = strstr(bytes + 10, "'shape': (");
    EXPECT(shape && sscanf(shape, "'shape': (%llu, 2)", &rows) == 1);
    EXPECT(count >= 128 + 8 * rows && (count - 128) % 8 == 0);
    free(bytes);

    (void)snprintf(path, sizeof(path), "%s/rows.jsonl", folder);
    bytes = slurp(path, &line_bytes);
    for (size_t i = 0; i < line_bytes; i++)
        lines += bytes[i] == '\n';
    EXPECT(line_bytes == 0 || bytes[line_bytes - 1] == '\n');
    EXPECT(lines >= rows && lines == (count - 128) / 8);
    free(bytes);

    (void)snprintf(path, sizeof(path), "%s/report.json", folder);
    if (exists(path)) expect_file(path, "{}\n"); /* whole, or not at all */
}

/* One run with a hook set: a status that is not WG_OK, and nothing half made. True when it went
 * well. */
static bool torture_run(const char *output, wg_status expected)
{
    wgi_sink *sink = NULL;
    bool is_directory = !strstr(output, ".jsonl");

    wg_status status = open_sink(&sink, output, NULL);
    bool is_open = status == WG_OK;
    if (is_open) status = put_three(sink);
    wgi_sink_close(sink);
    EXPECT(status != WG_OK || !wgi_os_has_failed()); /* no failed call went unsaid */
    wgi_alloc_fail_at(0);
    wgi_os_fail_at(0);
    if (!is_open) {
        EXPECT(!exists(output)); /* the same command can be given again */
    } else if (is_directory) {
        check_directory_is_whole(output);
    } else {
        size_t count;
        char *bytes = slurp(output, &count);
        EXPECT(count == 0 || bytes[count - 1] == '\n');
        free(bytes);
    }
    if (status != WG_OK) EXPECT_EQ(status, expected);
    if (exists(output)) remove_tree(output);
    return status == WG_OK;
}

static void test_torture(void)
{
    static const char *const names[] = {"torture", "torture.jsonl"};

    for (size_t i = 0; i < 2; i++) {
        long calls = 0, allocations = 0;
        do {
            wgi_os_fail_at(++calls);
        } while (!torture_run(in_root(names[i]), WG_ERR_IO));
        do {
            wgi_alloc_fail_at(++allocations);
        } while (!torture_run(in_root(names[i]), WG_ERR_NO_MEMORY));
        EXPECT(calls > (i ? 4 : 20)); /* else the hooks were never in the path */
        EXPECT(allocations > 4);
        /* A call that fails once must not let later ones write round the hole. */
        calls = 0;
        do {
            wgi_os_fail_at(-++calls);
        } while (!torture_run(in_root(names[i]), WG_ERR_IO));
        /* The same with writes that come short first. */
        wgi_os_write_bytes_max(5);
        calls = 0;
        do {
            wgi_os_fail_at(++calls);
        } while (!torture_run(in_root(names[i]), WG_ERR_IO));
        wgi_os_write_bytes_max(0);
    }
}

int main(void)
{
    char here[160];

    if (!getcwd(here, sizeof(here))) {
        fprintf(stderr, "skipped: the path of the working directory is too long\n");
        return WGT_SKIP;
    }
    (void)snprintf(root, sizeof(root), "%s/test_sink_XXXXXX", here);
    if (!mkdtemp(root)) {
        perror(root);
        return 1;
    }
    (void)setlocale(LC_ALL, "de_DE.UTF-8"); /* where it is installed, nothing may change */
    test_directory();
    test_no_rows();
    test_row_a_token();
    test_jsonl();
    test_close_without_finish();
    test_short_writes();
    test_bad_rows();
    test_refused();
    test_standard_output();
    test_full_and_broken();
    test_torture();
    remove_tree(root);
    return wgt_result();
}
