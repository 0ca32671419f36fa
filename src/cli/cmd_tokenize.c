/*
 * cmd_tokenize.c - `warpgroup tokenize`: token ids, {"id","ids"} a line. Only the tokenizer of the
 * model is opened, so the whole text is encoded unless --max-length says otherwise.
 *
 * Threads: main only.
 */
#include "cli.h"

typedef struct tokenize_state {
    const wg_tokenizer *tokenizer;
    wg_encode_options options;
    wg_encoding encoding;
} tokenize_state;

/* Ready ids are limited as embed limits them: no special token is known in them. */
static bool limit_ids(const tokenize_state *state, const wg_document *document, const int32_t **ids,
                      size_t *count, cli_failures *failures)
{
    size_t most = state->options.token_count_max;
    char reason[80];

    if (!most || *count <= most) return true;
    if (state->options.truncate == WG_TRUNCATE_ERROR) {
        (void)snprintf(reason, sizeof(reason), "%zu tokens, the limit is %zu", *count, most);
        cli_failures_put(failures, document, WG_FAILURE_TOO_LONG, reason);
        return false;
    }
    if (state->options.truncate == WG_TRUNCATE_TAIL) *ids += *count - most;
    *count = most;
    return true;
}

static wg_status put_document(void *context, const wg_document *document, cli_failures *failures,
                              wg_error *err)
{
    tokenize_state *state = context;
    const int32_t *ids = document->token_ids;
    size_t count = document->token_count;

    if (document->text) {
        wg_status status =
            wg_tokenizer_encode(state->tokenizer, document->text, document->text_bytes, NULL, 0,
                                &state->options, &state->encoding, err);
        if (status == WG_ERR_LIMIT && state->options.truncate == WG_TRUNCATE_ERROR) {
            cli_failures_put(failures, document, WG_FAILURE_TOO_LONG, err->message);
            return WG_OK;
        }
        if (status != WG_OK) return status;
        ids = state->encoding.token_ids;
        count = state->encoding.token_count;
    } else if (!limit_ids(state, document, &ids, &count, failures)) {
        return WG_OK;
    }
    fputs("{\"id\":", stdout);
    fwrite(document->id, 1, document->id_bytes, stdout);
    fputs(",\"ids\":[", stdout);
    for (size_t i = 0; i < count; i++)
        fprintf(stdout, "%s%d", i ? "," : "", (int)ids[i]);
    fputs("]}\n", stdout);
    return WG_OK;
}

int cli_tokenize(const cli_settings *settings)
{
    wg_tokenizer *tokenizer = NULL;
    tokenize_state state = {0};
    wg_error err;

    wg_status status = wg_tokenizer_open(&tokenizer, settings->model.path, &err);
    if (status != WG_OK) {
        cli_complain("%s", err.message);
        return CLI_BROKEN;
    }
    state.tokenizer = tokenizer;
    state.options.token_count_max = settings->job.embed.token_count_max;
    state.options.truncate = settings->job.embed.truncate;
    state.options.plain_specials = settings->job.embed.plain_specials;
    int exit_status = cli_documents_each(settings, put_document, &state);
    wg_encoding_fini(&state.encoding);
    wg_tokenizer_close(tokenizer);
    return exit_status;
}
