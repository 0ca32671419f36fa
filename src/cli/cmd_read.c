/*
 * cmd_read.c - `warpgroup read`: documents as they were read, {"id","text","source"} a line. No
 * model is needed; what embed would see can be looked at first.
 *
 * Threads: main only.
 */
#include "cli.h"

static wg_status put_document(void *context, const wg_document *document, cli_failures *failures,
                              wg_error *err)
{
    (void)context, (void)failures, (void)err;
    fputs("{\"id\":", stdout);
    fwrite(document->id, 1, document->id_bytes, stdout);
    if (document->text) {
        fputs(",\"text\":", stdout);
        cli_json_text(stdout, document->text, document->text_bytes);
    } else {
        fputs(",\"ids\":[", stdout);
        for (size_t i = 0; i < document->token_count; i++)
            fprintf(stdout, "%s%d", i ? "," : "", (int)document->token_ids[i]);
        fputc(']', stdout);
    }
    fputs(",\"source\":\"", stdout);
    fwrite(document->source, 1, document->source_bytes, stdout);
    fputs("\"}\n", stdout);
    return WG_OK;
}

int cli_read(const cli_settings *settings)
{
    return cli_documents_each(settings, put_document, NULL);
}
