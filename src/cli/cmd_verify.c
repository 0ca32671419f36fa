/*
 * cmd_verify.c - `warpgroup verify`: does this model give the same bytes packed and alone on this
 * machine, and the vectors of a reference? The answer on standard output; exit 1 when it is no.
 *
 * Threads: main only; the library has its own.
 */
#include "cli.h"

static void show(const wg_verify *found, const char *reference)
{
    fprintf(stdout, "packed = alone  %s: %llu of %llu texts have the same bytes\n",
            found->different ? "NO" : "yes", (unsigned long long)(found->texts - found->different),
            (unsigned long long)found->texts);
    if (found->different)
        fprintf(stdout, "                the first that differs is number %llu of the input\n",
                (unsigned long long)found->first_different + 1);
    if (found->texts_failed)
        fprintf(stdout, "                %llu documents failed\n",
                (unsigned long long)found->texts_failed);
    if (found->texts_left_out)
        fprintf(stdout, "                %llu documents were left out\n",
                (unsigned long long)found->texts_left_out);
    if (reference)
        fprintf(stdout,
                "reference       %s: %llu of %llu lines agree, largest error %.2g (line %llu)\n",
                found->outside ? "NO" : "yes",
                (unsigned long long)(found->references - found->outside),
                (unsigned long long)found->references, found->worst_error,
                (unsigned long long)found->worst_line);
}

int cli_verify(const cli_settings *settings)
{
    wg_model *model = NULL;
    wg_error err = {WG_OK, ""};
    wg_verify found;

    cli_signals_default();
    wg_status status = wg_model_open(&model, &settings->model, &err);
    if (status != WG_OK) {
        cli_complain("%s", err.message);
        return CLI_BROKEN;
    }
    status = wg_model_verify(model,
                             &(wg_verify_options){.input = settings->job.input,
                                                  .reference = settings->reference,
                                                  .embed = settings->job.embed},
                             &found, &err);
    if (status == WG_OK)
        show(&found, settings->reference);
    else
        cli_complain("%s", err.message);
    wg_model_close(model);
    if (status != WG_OK) return cli_status_exit(status);
    return found.different || found.outside || found.texts_failed ? CLI_SOME_FAILED : CLI_DONE;
}
