/*
 * cmd_embed.c - `warpgroup embed`: one vector a document, then the report for people on standard
 * error.
 *
 * Threads: see command_job.c.
 */
#include "cli.h"

int cli_embed(const cli_settings *settings)
{
    cli_job run;

    bool has_report = cli_job_run(&run, settings, &settings->job);
    if (has_report && settings->log_level > WG_LOG_ERROR)
        cli_summary_show(settings, wg_job_report(run.job));
    cli_job_close(&run);
    return run.exit_status;
}
