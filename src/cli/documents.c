/*
 * documents.c - the loop that read and tokenize share: every document of the inputs in order, what
 * failed onto a list, an end note, the exit status.
 *
 * Lines go through stdio and a stop is seen between documents, so a line is never torn.
 *
 * Threads: main only.
 */
#include "cli.h"

#include <errno.h>
#include <string.h>

void cli_json_text(FILE *file, const char *text, size_t text_bytes)
{
    size_t plain = 0; /* start of what can be written as it stands */

    fputc('"', file);
    for (size_t i = 0; i < text_bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
        fwrite(text + plain, 1, i - plain, file);
        plain = i + 1;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", file);
        else if (c == '\t')
            fputs("\\t", file);
        else
            fprintf(file, "\\u%04x", c);
    }
    fwrite(text + plain, 1, text_bytes - plain, file);
    fputc('"', file);
}

int cli_failures_open(cli_failures *failures, const char *path)
{
    *failures = (cli_failures){.path = path};
    if (!path) return CLI_DONE;
    failures->file = fopen(path, "wxe");
    if (failures->file) return CLI_DONE;
    cli_complain("--failures %s: %s", path,
                 errno == EEXIST ? "the file is there already; name another or remove it"
                                 : strerror(errno));
    return CLI_BROKEN;
}

void cli_failures_put(cli_failures *failures, const wg_document *document, wg_failure failure,
                      const char *reason)
{
    static const char *const places[] = {"", "line", "page", "offset"};
    FILE *file = failures->file;

    failures->count++;
    if (!file) {
        char place[48] = "";
        if (document->place_kind != WG_PLACE_NONE)
            (void)snprintf(place, sizeof(place), ", %s %llu", places[document->place_kind],
                           (unsigned long long)document->place);
        cli_complain("%.*s%s: %s: %s", (int)document->source_bytes, document->source, place,
                     wg_failure_code(failure), reason);
        return;
    }
    fprintf(file, "{\"id\":%.*s,\"source\":\"%.*s\"", (int)document->id_bytes, document->id,
            (int)document->source_bytes, document->source);
    if (document->place_kind != WG_PLACE_NONE)
        fprintf(file, ",\"%s\":%llu", places[document->place_kind],
                (unsigned long long)document->place);
    fprintf(file, ",\"code\":\"%s\",\"reason\":", wg_failure_code(failure));
    cli_json_text(file, reason, strlen(reason));
    fputs("}\n", file);
}

bool cli_failures_close(cli_failures *failures)
{
    if (!failures->file) return true;
    bool is_written = !ferror(failures->file);
    if (fclose(failures->file) != 0) is_written = false;
    failures->file = NULL;
    if (!is_written) cli_complain("--failures %s: %s", failures->path, strerror(errno));
    return is_written;
}

static int reading_end(const cli_settings *settings, wg_reader_counts counts, uint64_t failed)
{
    char documents[CLI_NUMBER_BYTES], failures[CLI_NUMBER_BYTES];
    int stopped = cli_signals_caught();

    if (stopped) return CLI_SIGNAL + stopped;
    if (settings->log_level > WG_LOG_ERROR) {
        if (counts.documents == 0)
            cli_say("no documents: %llu files read, %llu of unknown kind skipped",
                    (unsigned long long)counts.files, (unsigned long long)counts.files_skipped);
        else if (failed > 0)
            cli_say("%s documents, %s of them failed", cli_count_text(documents, counts.documents),
                    cli_count_text(failures, failed));
    }
    return failed > 0 ? CLI_SOME_FAILED : CLI_DONE;
}

int cli_documents_each(const cli_settings *settings, cli_document_function *put, void *context)
{
    wg_reader *reader = NULL;
    cli_failures failures;
    wg_document document;
    wg_error err = {WG_OK, ""};
    wg_status status = WG_OK;
    int has_document = 1;

    int exit_status = cli_failures_open(&failures, settings->job.failures);
    if (exit_status != CLI_DONE) return exit_status;
    status = wg_reader_open(&reader, &settings->job.input, &err);
    cli_signals_reader(reader);
    while (status == WG_OK && !cli_signals_caught() && !ferror(stdout)) {
        status = wg_reader_next(reader, &document, &has_document, &err);
        if (status != WG_OK || !has_document) break;
        if (document.failure != WG_FAILURE_NONE)
            cli_failures_put(&failures, &document, document.failure, document.reason);
        else
            status = put(context, &document, &failures, &err);
    }
    cli_signals_reader(NULL);
    if (status == WG_OK || status == WG_ERR_INTERRUPTED) {
        exit_status = reading_end(settings, wg_reader_counted(reader), failures.count);
    } else {
        cli_complain("%s", err.message);
        exit_status = cli_status_exit(status);
    }
    wg_reader_close(reader);
    if (!cli_failures_close(&failures)) exit_status = CLI_BROKEN;
    return exit_status;
}
