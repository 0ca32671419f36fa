/*
 * cmd_plan.c - `warpgroup plan`: the dry run. Reads and tokenises the corpus, packs it, runs
 * nothing, and shows documents, tokens, their histogram, bins and fill on standard output.
 *
 * Threads: see command_job.c.
 */
#include "cli.h"

static uint64_t count_of(cli_json value)
{
    double number = cli_json_number(value, 0);
    return number > 0 ? (uint64_t)number : 0;
}

static void show_count(cli_json report, const char *key, const char *title)
{
    char number[CLI_NUMBER_BYTES];
    fprintf(stdout, "%-10s %15s\n", title,
            cli_count_text(number, count_of(cli_json_member(report, key))));
}

static void show_histogram(cli_json histogram)
{
    const char *state = NULL;
    cli_json none, row;
    uint64_t most = 0;

    while (cli_json_next(histogram, &state, &none, &row)) {
        uint64_t count = count_of(cli_json_member(row, "count"));
        if (count > most) most = count;
    }
    if (most == 0) return;
    fputs("\ntokens a document      documents\n", stdout);
    state = NULL;
    while (cli_json_next(histogram, &state, &none, &row)) {
        enum { BAR_MOST = 48 };
        char number[CLI_NUMBER_BYTES];
        uint64_t count = count_of(cli_json_member(row, "count"));
        int cells = (int)((double)count / (double)most * BAR_MOST + 0.5);
        fprintf(stdout, "%8llu to %-8llu %12s  ",
                (unsigned long long)count_of(cli_json_member(row, "from")),
                (unsigned long long)count_of(cli_json_member(row, "to")),
                cli_count_text(number, count));
        for (int i = 0; i < cells; i++)
            fputc('#', stdout);
        fputc('\n', stdout);
    }
    fputc('\n', stdout);
}

static void show_plan(const char *text)
{
    cli_json report = cli_json_whole(text);

    show_count(report, "documents", "documents");
    show_count(report, "failed", "failed");
    show_count(report, "truncated", "truncated");
    show_count(report, "tokens", "tokens");
    show_histogram(cli_json_member(report, "histogram"));
    show_count(report, "bins", "bins");
    fprintf(stdout, "%-10s %14.2f %%   at least %llu bins are needed\n", "fill",
            100 * cli_json_number(cli_json_member(report, "fill"), 0),
            (unsigned long long)count_of(cli_json_member(report, "bins_least")));
    fprintf(stdout, "%-10s %14.2f %%   of what padded batches of 8 would compute\n", "padding",
            100 * cli_json_number(cli_json_member(report, "padding_of_batches_of_8"), 0));
}

int cli_plan(const cli_settings *settings)
{
    wg_job_options options = settings->job;
    cli_job run;

    options.plan_only = 1;
    if (cli_job_run(&run, settings, &options)) show_plan(wg_job_report(run.job));
    cli_job_close(&run);
    return run.exit_status;
}
