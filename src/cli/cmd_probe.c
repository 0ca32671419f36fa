/*
 * cmd_probe.c - `warpgroup probe`: capacity and knee of this device for a model, with the evidence,
 * on standard output. Answers are kept, so that asking again costs nothing.
 *
 * Threads: main only; the library forks a child and times its own workers.
 */
#include "cli.h"
#include "warpgroup/capacity.h"

static void show(const wg_probe *probe)
{
    char a[CLI_NUMBER_BYTES], b[CLI_NUMBER_BYTES];

    fprintf(stdout, "capacity   %12s tokens a bin, %u workers, texts of up to %llu tokens\n",
            cli_count_text(a, probe->capacity_tokens), probe->thread_count,
            (unsigned long long)probe->token_count_max);
    if (probe->knee_tokens)
        fprintf(stdout, "knee       %12s tokens a bin: %.0f tokens/s of at most %.0f\n",
                cli_count_text(a, probe->knee_tokens), probe->knee_tokens_per_s,
                probe->best_tokens_per_s);
    fprintf(stdout, "budget     %12s (%s), of which %s are held before a run\n",
            cli_size_text(a, probe->budget_bytes), probe->budget_rule,
            cli_size_text(b, probe->held_bytes));
    fprintf(stdout, "predicted  %12s at the peak, %s a token and worker\n",
            cli_size_text(a, probe->predicted_bytes),
            cli_size_text(b, (uint64_t)(probe->bytes_per_token + 0.5)));
    fprintf(stdout, "verified   %12s at the peak of a child that ran %llu tokens a worker\n",
            cli_size_text(a, probe->verified_bytes),
            (unsigned long long)probe->verified_run_tokens);
    fprintf(stdout, "answer     %12s, kept for: %s\n",
            probe->is_from_cache ? "from cache" : "measured", probe->key);
}

int cli_probe(const cli_settings *settings)
{
    wg_model *model = NULL;
    wg_error err = {.status = WG_OK};
    wg_probe probe;

    cli_signals_default();
    wg_status status = wg_model_open(&model, &settings->model, &err);
    if (status != WG_OK) {
        cli_complain("%s", err.message);
        return CLI_BROKEN;
    }
    status = wg_model_probe(
        model,
        &(wg_probe_options){.embed = settings->job.embed, .ignore_cache = settings->ignore_cache},
        &probe, &err);
    if (status == WG_OK)
        show(&probe);
    else
        cli_complain("%s", err.message);
    wg_model_close(model);
    return status == WG_OK ? CLI_DONE : cli_status_exit(status);
}
