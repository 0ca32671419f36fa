/*
 * command_job.c - what embed and plan share: open the model and the job (everything that can be
 * refused is refused before input is read), run it under signals and the display, and turn the
 * outcome into an exit status.
 *
 * Threads: main runs the job; the display thread watches it (progress.c).
 */
#include "cli.h"

#include <signal.h>

int cli_status_exit(wg_status status)
{
    return status == WG_ERR_ARGUMENT ? CLI_USAGE : CLI_BROKEN;
}

/* What only the model can tell: a length above its positions is wrong usage. */
static int check_against_model(const cli_settings *settings, const wg_model_info *info)
{
    const wg_embed_options *embed = &settings->job.embed;

    if (embed->token_count_max > info->position_count) {
        cli_complain("--max-length %u: %s has %u positions; take that or less",
                     embed->token_count_max, info->path, info->position_count);
        return CLI_USAGE;
    }
    if (embed->truncate_dim > info->dim) {
        cli_complain("--truncate-dim %u: vectors of %s have %u numbers; take that or less",
                     embed->truncate_dim, info->path, info->dim);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static int exit_after_run(wg_status status, const wg_job *job, const wg_error *err)
{
    int caught = cli_signals_caught();

    if (status == WG_ERR_INTERRUPTED && caught) {
        wg_progress progress = wg_job_progress(job);
        cli_complain("stopped by %s; the %llu documents done so far are written whole",
                     caught == SIGINT ? "SIGINT" : "SIGTERM",
                     (unsigned long long)progress.documents_done);
        return CLI_SIGNAL + caught;
    }
    if (status != WG_OK) {
        cli_complain("%s", err->message);
        return CLI_BROKEN;
    }
    return wg_job_progress(job).documents_failed > 0 ? CLI_SOME_FAILED : CLI_DONE;
}

bool cli_job_run(cli_job *run, const cli_settings *settings, const wg_job_options *options)
{
    wg_error err = {WG_OK, ""};

    *run = (cli_job){.exit_status = CLI_BROKEN};
    wg_status status = wg_model_open(&run->model, &settings->model, &err);
    if (status != WG_OK) {
        cli_complain("%s", err.message);
        return false;
    }
    run->exit_status = check_against_model(settings, wg_model_describe(run->model));
    if (run->exit_status != CLI_DONE) return false;
    status = wg_job_open(&run->job, run->model, options, &err);
    if (status != WG_OK) {
        cli_complain("%s", err.message);
        run->exit_status = cli_status_exit(status);
        return false;
    }
    cli_signals_job(run->job);
    cli_progress *progress = cli_progress_start(run->job, settings);
    status = wg_job_run(run->job, &err);
    cli_progress_stop(progress);
    cli_signals_job(NULL);
    run->exit_status = exit_after_run(status, run->job, &err);
    return status == WG_OK || status == WG_ERR_INTERRUPTED;
}

void cli_job_close(cli_job *run)
{
    wg_job_close(run->job);
    wg_model_close(run->model);
}
