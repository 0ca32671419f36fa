/*
 * test_reader_torture.c - over inputs of every kind: allocation n fails, read n fails, reads come
 * short, for every n. The answer is WG_ERR_NO_MEMORY, or a failure that is listed; a document that
 * comes out is right, and none is missing without a word. Under ASan nothing may leak either.
 * LABELS: quick torture
 * LIBRARIES: wgi_corpus wgi_base
 */
#include "reader_harness.h"

#include <errno.h>
#include <sys/wait.h>

#include "base/os_read.h"
#include "reader_folder.h"

#define LONG_BYTES 600000 /* more than a read buffer, so gzip needs its window */

static const char *inputs[12];
static size_t input_count;

static void inputs_make(void)
{
    static const char records[] =
        "\xEF\xBB\xBF{\"id\":1,\"text\":\"one\"}\r\n{\"text\":oops}\n\n"
        "{\"id\":\"\\u00e9\",\"doc\":{\"a\":1},\"text\":\"t\\u0000\xFFwo\"}";
    static const char wide[] = "\xFE\xFF\0w\xD8\x3D\xDE\0";
    static const char pdf[] = "%PDF-1.4\npdf\n";
    static char big[LONG_BYTES]; /* makes buffers grow that small files have made already */

    (void)mkdir(wgt_in("d"), 0700);
    (void)mkdir(wgt_in("d/deep"), 0700);
    (void)wgt_put_text("d/a.txt", "in a directory");
    (void)wgt_put_text("d/deep/b.md", "deeper");
    EXPECT_EQ(symlink("..", wgt_in("d/deep/loop")), 0);
    (void)wgt_put("d/e\xFF.txt", "\xFF", 1);
    inputs[input_count++] = wgt_put("r.jsonl", records, sizeof(records) - 1);
    inputs[input_count++] = wgt_put_gz("r.jsonl.gz", records, sizeof(records) - 1);
    inputs[input_count++] = wgt_in("d");
    inputs[input_count++] = wgt_put("w.txt", wide, sizeof(wide) - 1);
    inputs[input_count++] = wgt_in("missing");
    inputs[input_count++] = wgt_put("p.pdf", pdf, sizeof(pdf) - 1);
    inputs[input_count++] = wgt_put_gz("q.pdf.gz", pdf, sizeof(pdf) - 1);
    memset(big, 'x', sizeof(big));
    inputs[input_count++] = wgt_put("long.txt", big, sizeof(big));
    memcpy(big, "{\"text\":\"", 9);
    memcpy(big + sizeof(big) - 2, "\"}", 2);
    inputs[input_count++] = wgt_put_gz("l.jsonl", big, sizeof(big));
    inputs[input_count] = inputs[input_count - 1]; /* the second time only zlib takes memory */
    input_count++;
    inputs[input_count++] = wgt_put_text("last.txt", "last");
}

/* A pdftotext that needs no poppler. */
static void stand_in(void)
{
    char path[1000];

    (void)mkdir(wgt_in("bin"), 0700);
    EXPECT_EQ(chmod(wgt_put_text("bin/pdftotext",
                                 "#!/bin/sh\nread line <\"$4\"; echo \"$line\"; echo odd >&2\n"),
                    0700),
              0);
    (void)snprintf(path, sizeof(path), "%s:%s", wgt_in("bin"), getenv("PATH"));
    EXPECT_EQ(setenv("PATH", path, 1), 0);
}

static wgt_reading read_inputs(void)
{
    return wgt_read(
        &(wg_reader_options){.inputs = inputs, .input_count = input_count, .pdf_process_count = 2});
}

static bool same(const wg_document *a, const wg_document *b)
{
    return a->failure == b->failure && strcmp(a->id, b->id) == 0 &&
           strcmp(a->source, b->source) == 0 && a->place == b->place &&
           a->text_bytes == b->text_bytes &&
           (a->text_bytes == 0 || memcmp(a->text, b->text, a->text_bytes) == 0);
}

/* What came out is a beginning of the whole. */
static void expect_beginning(const wgt_reading *got, const wgt_reading *whole)
{
    EXPECT(got->count <= whole->count);
    for (size_t i = 0; i < got->count && i < whole->count; i++)
        EXPECT(same(&got->documents[i], &whole->documents[i]));
}

static void fail_allocations(const wgt_reading *whole)
{
    long nth = 1;

    for (;; nth++) {
        wgi_alloc_fail_at(nth);
        wgt_reading got = read_inputs();
        wgi_alloc_fail_at(0);
        bool is_over = got.status == WG_OK;
        expect_beginning(&got, whole);
        if (is_over)
            EXPECT_EQ(got.count, whole->count);
        else
            EXPECT_EQ(got.status, WG_ERR_NO_MEMORY);
        if (!is_over) EXPECT(got.err.message[0] != 0);
        wgt_reading_fini(&got);
        if (is_over || wgt_failed > 20) break;
    }
    EXPECT(nth > 20); /* else the hook was never in the path */
    EXPECT(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

/* From read n on every read fails: from there every file is a failure, each of them listed. */
static void fail_reads(const wgt_reading *whole)
{
    long nth = 1;

    for (;; nth++) {
        wgi_read_fail_at(nth);
        wgt_reading got = read_inputs();
        wgi_read_fail_at(0);
        EXPECT_EQ(got.status, WG_OK);
        size_t failed = 0, unlisted = 0;
        for (size_t i = 0; i < got.count; i++)
            failed += got.documents[i].failure == WG_FAILURE_IO && got.documents[i].reason[0];
        /* Every source of the whole is still there. */
        for (size_t i = 0; i < whole->count; i++) {
            bool found = false;
            for (size_t k = 0; k < got.count && !found; k++)
                found = strcmp(got.documents[k].source, whole->documents[i].source) == 0;
            unlisted += !found;
        }
        EXPECT_EQ(unlisted, 0);
        bool is_over = got.count == whole->count && failed == 1; /* the missing input */
        for (size_t i = 0; is_over && i < got.count; i++)
            is_over = same(&got.documents[i], &whole->documents[i]);
        if (!is_over) EXPECT(failed > 1);
        wgt_reading_fini(&got);
        if (is_over || wgt_failed > 20) break;
    }
    EXPECT(nth > 10);
    EXPECT(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

static void shorten_reads(const wgt_reading *whole)
{
    for (size_t most = 1; most < 40; most = most * 2 + 2) {
        wgi_read_bytes_max(most);
        wgt_reading got = read_inputs();
        wgi_read_bytes_max(0);
        EXPECT_EQ(got.count, whole->count);
        expect_beginning(&got, whole);
        EXPECT_EQ(got.counts.warnings, whole->counts.warnings);
        EXPECT_EQ(got.counts.bytes, whole->counts.bytes);
        wgt_reading_fini(&got);
    }
}

int main(void)
{
    wgt_folder_make();
    stand_in();
    inputs_make();
    wgt_reading whole = read_inputs();
    EXPECT_EQ(whole.status, WG_OK);
    EXPECT_EQ(whole.count, 17);
    EXPECT_EQ(whole.counts.failures, 3);
    fail_allocations(&whole);
    fail_reads(&whole);
    shorten_reads(&whole);
    wgt_reading_fini(&whole);
    wgt_folder_drop();
    return wgt_result();
}
