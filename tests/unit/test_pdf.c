/*
 * test_pdf.c - PDF children: order, limits, and what each end of a child becomes. Most run a
 * stand-in for pdftotext, a shell script found first in PATH, so that time and failure are ours.
 * LIBRARIES: wgi_corpus wgi_base
 */
#include "reader_harness.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/os_clock.h"
#include "reader_folder.h"

static char *real_path;

/* A pdftotext that runs this script; its last argument but one is the file. */
static void stand_in(const char *script)
{
    char text[1000], path[1000];

    (void)snprintf(text, sizeof(text), "#!/bin/sh\nfor last; do file=$prev; prev=$last; done\n%s\n",
                   script);
    (void)mkdir(wgt_in("bin"), 0700);
    EXPECT_EQ(chmod(wgt_put_text("bin/pdftotext", text), 0700), 0);
    (void)snprintf(path, sizeof(path), "%s:%s", wgt_in("bin"), real_path);
    EXPECT_EQ(setenv("PATH", path, 1), 0);
}

static const char *put_pdf(const char *name, const char *body)
{
    char text[300];

    (void)snprintf(text, sizeof(text), "%%PDF-1.4\n%s\n", body);
    return wgt_put_text(name, text);
}

static void no_children_left(void)
{
    EXPECT(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

static wgt_reading read_one(wg_reader_options options, const char *path)
{
    options.inputs = &path;
    options.input_count = 1;
    return wgt_read(&options);
}

/* The script ends so within `seconds`; the document becomes this. */
static void expect_end_in(uint64_t seconds, const char *script, wg_failure failure,
                          const char *reason)
{
    stand_in(script);
    uint64_t before = wgi_clock_ns();
    wgt_reading got =
        read_one((wg_reader_options){.pdf_seconds = seconds, .record_bytes_max = 100000},
                 put_pdf("one.pdf", "x"));
    EXPECT(wgi_clock_ns() - before < 30000000000u); /* where it would be 60 s without the limit */
    EXPECT_EQ(got.status, WG_OK);
    EXPECT_EQ(got.count, 1);
    if (got.count == 1) {
        if (got.documents[0].failure != failure) fprintf(stderr, "script: %s\n", script);
        EXPECT_TEXT(wg_failure_code(got.documents[0].failure), wg_failure_code(failure));
        EXPECT_IN(got.documents[0].reason, reason);
        EXPECT((got.documents[0].text == NULL) == (failure != WG_FAILURE_NONE));
    }
    wgt_reading_fini(&got);
    no_children_left();
}

/* With time enough even on a machine that is busy. */
static void expect_end(const char *script, wg_failure failure, const char *reason)
{
    expect_end_in(30, script, failure, reason);
}

static void test_ends(void)
{
    expect_end("printf 'a\\f'", WG_FAILURE_NONE, "");
    expect_end("printf ' \\n\\f\\f'", WG_FAILURE_NO_TEXT_LAYER, "no text layer: 2 pages");
    expect_end("exit 0", WG_FAILURE_NO_TEXT_LAYER, "no text layer");
    expect_end("printf '\\f'; echo \"Syntax Error: Missing language pack for 'X' mapping\" >&2",
               WG_FAILURE_NO_TEXT_LAYER, "poppler-data");
    expect_end("printf '\\f'; echo 'Syntax Error: odd' >&2", WG_FAILURE_DAMAGED, "odd");
    expect_end("echo 'Command Line Error: Incorrect password' >&2; exit 1",
               WG_FAILURE_NEEDS_PASSWORD, "password");
    expect_end("printf 'half of it'; exit 1", WG_FAILURE_DAMAGED, "status 1");
    expect_end("printf 'half of it'; kill -SEGV $$", WG_FAILURE_DAMAGED, "signal 11");
    expect_end_in(1, "sleep 60", WG_FAILURE_DAMAGED, "not finished after 1 second");
    expect_end_in(1, "sleep 60 & exit 0", WG_FAILURE_DAMAGED,
                  "not finished"); /* it holds the pipes */
    expect_end_in(1, "exec >&- 2>&-; sleep 60", WG_FAILURE_DAMAGED, "not finished");
    expect_end_in(1, "while :; do :; done", WG_FAILURE_DAMAGED, "ended");
    expect_end("yes", WG_FAILURE_TOO_LONG, "more than 100000 bytes");
    expect_end_in(1, "printf 'text\\f'; yes >&2", WG_FAILURE_DAMAGED, "ended");
    expect_end("printf 'bad \\377 byte'", WG_FAILURE_NONE, "");
}

/* Errors beside a text are a warning. */
static void test_warnings(void)
{
    stand_in("printf 'a\\f\\f'; echo 'Syntax Error: lost' >&2");
    wgt_reading got = read_one((wg_reader_options){0}, put_pdf("one.pdf", "x"));
    EXPECT_EQ(got.counts.warnings, 1);
    EXPECT_IN(got.log.data, "one.pdf: text may be missing: Syntax Error: lost");
    wgt_reading_fini(&got);
    stand_in("printf 'a\\f\\f'");
    got = read_one((wg_reader_options){0}, put_pdf("one.pdf", "x"));
    EXPECT_IN(got.log.data, "1 of 2 pages have no text, the first is page 2");
    wgt_reading_fini(&got);
}

/* The limit on address space reaches the child. */
static void test_memory(void)
{
    stand_in("ulimit -v");
    wgt_reading got =
        read_one((wg_reader_options){.pdf_memory_bytes = 512 << 20}, put_pdf("one.pdf", "x"));
    EXPECT_EQ(got.count, 1);
    if (got.count == 1) EXPECT_TEXT(got.documents[0].text, "524288\n");
    wgt_reading_fini(&got);
}

/* Many at once, among other files, and all in order; `slow` ones come last out of their child. */
static void test_order(uint32_t processes)
{
    char name[40], text[400];
    char path[300];
    const char *input = path;

    stand_in("sed -n 2p \"$file\"; case $file in */0[0-4]*) sleep 0.1;; esac");
    (void)snprintf(path, sizeof(path), "%s/mixed%u", wgt_folder, processes);
    EXPECT_EQ(mkdir(input, 0700), 0);
    for (int i = 0; i < 40; i++) {
        (void)snprintf(name, sizeof(name), "mixed%u/%02d.%s", processes, i, i % 4 ? "pdf" : "txt");
        (void)snprintf(text, sizeof(text), "document %d", i);
        (void)(i % 4 ? put_pdf(name, text) : wgt_put_text(name, text));
    }
    uint64_t before = wgi_clock_ns();
    wgt_reading got = wgt_read(
        &(wg_reader_options){.inputs = &input, .input_count = 1, .pdf_process_count = processes});
    uint64_t taken = wgi_clock_ns() - before;
    EXPECT_EQ(got.count, 40);
    for (size_t i = 0; i < got.count; i++) {
        (void)snprintf(text, sizeof(text), "document %zu%s", i, i % 4 ? "\n" : "");
        EXPECT_TEXT(got.documents[i].text, text);
        EXPECT_EQ(got.documents[i].ordinal, i);
    }
    /* Of the 3 slow ones one after the other would take 0.3 s at least. */
    if (processes == 1) EXPECT(taken >= 300000000u);
    wgt_reading_fini(&got);
    no_children_left();
}

/* A consumer that is slow does not use up the time of the children. */
static void test_slow_consumer(void)
{
    const char *inputs[] = {put_pdf("s1.pdf", "x"), put_pdf("s2.pdf", "x"), put_pdf("s3.pdf", "x")};
    wg_reader_options options = {
        .inputs = inputs, .input_count = 3, .pdf_seconds = 2, .pdf_process_count = 3};
    wg_reader *reader = NULL;
    wg_document document;
    wg_error err;
    int has_document, count = 0;

    stand_in("head -c 300000 /dev/zero | tr '\\0' 'x'"); /* more than a pipe holds */
    EXPECT_OK(wg_reader_open(&reader, &options, &err));
    for (;;) {
        EXPECT_OK(wg_reader_next(reader, &document, &has_document, &err));
        if (!has_document) break;
        EXPECT_TEXT(document.reason, "");
        EXPECT_EQ(document.text_bytes, 300000);
        if (count++ == 0) (void)usleep(2500000);
    }
    EXPECT_EQ(count, 3);
    wg_reader_close(reader);
}

/* Closing in the middle leaves no child behind; so does a stop. */
static void *stop_later(void *context)
{
    (void)usleep(50000);
    wg_reader_stop(context);
    return NULL;
}

static void test_close_and_stop(void)
{
    const char *inputs[] = {wgt_put_text("first.txt", "first"), put_pdf("c1.pdf", "x"),
                            put_pdf("c2.pdf", "x")};
    wg_reader_options options = {.inputs = inputs, .input_count = 3, .pdf_process_count = 2};
    wg_reader *reader = NULL;
    wg_document document;
    wg_error err;
    pthread_t thread;
    int has_document;

    stand_in("sleep 60");
    EXPECT_OK(wg_reader_open(&reader, &options, &err));
    EXPECT_OK(wg_reader_next(reader, &document, &has_document, &err));
    EXPECT_TEXT(document.text, "first");
    wg_reader_close(reader);
    no_children_left();

    EXPECT_OK(wg_reader_open(&reader, &options, &err));
    EXPECT_OK(wg_reader_next(reader, &document, &has_document, &err));
    EXPECT_EQ(pthread_create(&thread, NULL, stop_later, reader), 0);
    EXPECT_EQ(wg_reader_next(reader, &document, &has_document, &err), WG_ERR_INTERRUPTED);
    (void)pthread_join(thread, NULL);
    wg_reader_close(reader);
    no_children_left();
}

/* Without pdftotext each PDF says what to install, and the rest is read. */
static void test_missing_program(void)
{
    const char *inputs[] = {put_pdf("m1.pdf", "x"), wgt_put_text("m.txt", "text"),
                            put_pdf("m2.pdf", "x")};

    EXPECT_EQ(setenv("PATH", wgt_in("nothing-here"), 1), 0);
    wgt_reading got = wgt_read(&(wg_reader_options){.inputs = inputs, .input_count = 3});
    EXPECT_EQ(setenv("PATH", real_path, 1), 0);
    EXPECT_EQ(got.count, 3);
    for (size_t i = 0; i < got.count; i += 2) {
        EXPECT_EQ(got.documents[i].failure, WG_FAILURE_IO);
        EXPECT_IN(got.documents[i].reason, "poppler-utils");
    }
    if (got.count == 3) EXPECT_TEXT(got.documents[1].text, "text");
    wgt_reading_fini(&got);
}

/* A PDF in gzip, through a pipe, under another name, and behind a name that looks like an option.
 */
static void test_roundabout(void)
{
    static const char bytes[] = "%PDF-1.4\nroundabout\n";
    const char *inputs[] = {wgt_put_gz("r.pdf.gz", bytes, sizeof(bytes) - 1), "-",
                            wgt_put("r.md", bytes, sizeof(bytes) - 1), "-v.pdf", "http:/x.pdf"};
    int ends[2], kept = dup(STDIN_FILENO);
    char *here = getcwd(NULL, 0);

    EXPECT_EQ(chdir(wgt_folder), 0);
    (void)mkdir(wgt_in("http:"), 0700);
    (void)wgt_put("-v.pdf", bytes, sizeof(bytes) - 1);
    (void)wgt_put("http:/x.pdf", bytes, sizeof(bytes) - 1);
    EXPECT_EQ(pipe(ends), 0);
    EXPECT(write(ends[1], bytes, sizeof(bytes) - 1) > 0);
    (void)close(ends[1]);
    (void)dup2(ends[0], STDIN_FILENO);
    (void)close(ends[0]);
    stand_in("sed -n 2p \"$file\" && echo \"$file\"");
    wgt_reading got = wgt_read(&(wg_reader_options){.inputs = inputs, .input_count = 5});
    (void)dup2(kept, STDIN_FILENO);
    (void)close(kept);
    EXPECT_EQ(chdir(here), 0);
    free(here);
    EXPECT_EQ(got.count, 5);
    for (size_t i = 0; i < got.count; i++) {
        EXPECT_TEXT(got.documents[i].reason, "");
        EXPECT_IN(got.documents[i].text, "roundabout\n");
    }
    if (got.count == 5) {
        EXPECT_IN(got.documents[3].text, "\n./-v.pdf\n");
        EXPECT_IN(got.documents[4].text, "\n./http:/x.pdf\n");
    }
    wgt_reading_fini(&got);
}

/* A host that ignores SIGCHLD takes the children's statuses away: said, not guessed. */
static void test_sigchld_ignored(void)
{
    stand_in("printf 'text\\f'");
    (void)signal(SIGCHLD, SIG_IGN);
    wgt_reading got = read_one((wg_reader_options){0}, put_pdf("one.pdf", "x"));
    (void)signal(SIGCHLD, SIG_DFL);
    EXPECT_EQ(got.count, 1);
    if (got.count == 1) EXPECT_IN(got.documents[0].reason, "SIGCHLD");
    wgt_reading_fini(&got);
}

int main(void)
{
    wgt_folder_make();
    real_path = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    test_ends();
    test_warnings();
    test_memory();
    test_order(1);
    test_order(5);
    test_slow_consumer();
    test_close_and_stop();
    test_missing_program();
    test_roundabout();
    test_sigchld_ignored();
    free(real_path);
    wgt_folder_drop();
    return wgt_result();
}
