/*
 * fuzz_jsonl.c - any bytes as an input of records or lines, on the whole road (gzip, UTF-16, lines,
 * JSON). Properties: reads of any size give the same documents; texts are UTF-8, ids are JSON, a
 * document has a text or ids or a reason; the reader never gives up.
 *
 * The first byte chooses the format and the size of reads, the rest is the file.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/os_read.h"
#include "base/utf8.h"
#include "warpgroup/warpgroup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

static void require(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_jsonl: %s\n", what);
    abort();
}

/* FNV-1a (Fowler, Noll, Vo). */
static uint64_t mix(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 0x100000001B3u;
    return hash;
}

static void check(const wg_document *document, int has_ids)
{
    wgi_json json;
    wgi_slice id;

    wgi_json_init(&json, document->id, document->id_bytes);
    require(wgi_json_raw(&json, &id, NULL) == WG_OK && wgi_json_finish(&json, NULL) == WG_OK,
            "an id is not JSON");
    wgi_json_fini(&json);
    require(wgi_utf8_check(document->id, document->id_bytes) == document->id_bytes,
            "an id is not UTF-8");
    if (document->failure != WG_FAILURE_NONE) {
        require(!document->text && !document->token_ids && document->reason[0],
                "a failure without a reason, or with a text");
        return;
    }
    require(!document->reason[0], "a reason without a failure");
    if (has_ids) {
        require(document->token_ids != NULL, "no ids");
        for (size_t i = 0; i < document->token_count; i++)
            require(document->token_ids[i] >= 0, "a negative id");
        return;
    }
    require(document->text != NULL, "no text");
    require(wgi_utf8_check(document->text, document->text_bytes) == document->text_bytes,
            "a text is not UTF-8");
}

/* Reads all; the hash is of everything that was handed out. */
static uint64_t read_all(const wg_reader_options *options)
{
    wg_reader *reader = NULL;
    wg_document document;
    uint64_t hash = 0xCBF29CE484222325u;
    int has_document;

    require(wg_reader_open(&reader, options, NULL) == WG_OK, "open");
    for (;;) {
        require(wg_reader_next(reader, &document, &has_document, NULL) == WG_OK, "next");
        if (!has_document) break;
        check(&document, options->ids_field != NULL);
        hash = mix(hash, document.id, document.id_bytes);
        hash = mix(hash, document.text, document.text_bytes);
        hash = mix(hash, document.reason, strlen(document.reason));
        hash = mix(hash, &document.place, sizeof(document.place));
        hash = mix(hash, document.token_ids, document.token_count * sizeof(int32_t));
    }
    wg_reader_counts counts = wg_reader_counted(reader);
    hash = mix(hash, &counts.documents, sizeof(counts.documents));
    /* A failure can end a file early, at a place that depends on what was read ahead. */
    if (counts.failures == 0) {
        hash = mix(hash, &counts.warnings, sizeof(counts.warnings));
        hash = mix(hash, &counts.bytes, sizeof(counts.bytes));
    }
    wg_reader_close(reader);
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    char path[40];
    const char *input = path;
    wg_reader_options options = {
        .inputs = &input, .input_count = 1, .format = WG_FORMAT_JSONL, .record_bytes_max = 300};
    int fd = -1;

    if (count == 0) return 0;
    if (data[0] & 1) options.ids_field = "ids.x";
    if (data[0] & 2) options.format = WG_FORMAT_TEXT;
    if (data[0] & 4) options.lines = 1;
    if (data[0] & 8) options.text_field = "a.b";
    if (options.format == WG_FORMAT_TEXT) options.ids_field = NULL;
    require(wgi_memory_file_open(&fd, NULL) == WG_OK, "memory file");
    require(wgi_memory_file_write(fd, data + 1, count - 1, NULL) == WG_OK, "memory file");
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    uint64_t whole = read_all(&options);
    wgi_read_bytes_max((data[0] >> 4) + 1u);
    uint64_t pieces = read_all(&options);
    wgi_read_bytes_max(0);
    require(whole == pieces, "the size of reads changes the documents");
    wgi_read_close(fd);
    return 0;
}
