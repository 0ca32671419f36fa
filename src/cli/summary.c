/*
 * summary.c - the end-of-run report for people, on standard error: what was done, how fast, how
 * much of the arithmetic was padding beside what batches of 8 would have wasted, what failed, and
 * where settings came from. The numbers are those of report.json, so the two cannot differ.
 *
 * Threads: main only.
 */
#include "cli.h"

#include <string.h>

static uint64_t count_of(cli_json report, const char *key)
{
    double number = cli_json_number(cli_json_member(report, key), 0);
    return number > 0 ? (uint64_t)number : 0;
}

static void show_documents(const cli_settings *settings, cli_json report)
{
    char done[CLI_NUMBER_BYTES], number[CLI_NUMBER_BYTES];
    uint64_t documents = count_of(report, "documents"), failed = count_of(report, "failed");
    uint64_t truncated = count_of(report, "truncated"), warnings = count_of(report, "warnings");
    cli_json status = cli_json_plain(cli_json_member(report, "status"));
    bool is_complete = status.begin && strncmp(status.begin, "complete", 8) == 0;
    char extra[3][CLI_NUMBER_BYTES + 32] = {"", "", ""};

    if (failed > 0)
        (void)snprintf(extra[0], sizeof(extra[0]), ", %s failed", cli_count_text(number, failed));
    if (truncated > 0)
        (void)snprintf(extra[1], sizeof(extra[1]), ", %s truncated",
                       cli_count_text(number, truncated));
    if (warnings > 0)
        (void)snprintf(extra[2], sizeof(extra[2]), ", %s warnings",
                       cli_count_text(number, warnings));
    cli_say("documents  %s%s%s%s%s", cli_count_text(done, documents), extra[0], extra[1], extra[2],
            documents == 0 && is_complete ? " (the input held none)" : "");
    if (failed > 0 && settings->job.failures)
        cli_say("failures   listed in %s", settings->job.failures);
    else if (failed > 0 && settings->job.output && strcmp(settings->job.output, "-") != 0 &&
             !strstr(settings->job.output, ".jsonl"))
        cli_say("failures   listed in %s/failures.jsonl", settings->job.output);
}

static void show_speed(cli_json report)
{
    char tokens[CLI_NUMBER_BYTES], rate[CLI_NUMBER_BYTES], time[CLI_NUMBER_BYTES];
    double per_second = cli_json_number(cli_json_member(report, "tokens_per_s"), 0);
    double documents = cli_json_number(cli_json_member(report, "documents_per_s"), 0);
    double seconds = cli_json_number(cli_json_member(report, "seconds"), 0);

    cli_say("tokens     %s in %s: %s tokens/s, %.1f documents/s",
            cli_count_text(tokens, count_of(report, "tokens")), cli_time_text(time, seconds),
            cli_count_text(rate, (uint64_t)per_second), documents);
}

static void show_padding(const cli_settings *settings, cli_json report)
{
    double padding = 100 * cli_json_number(cli_json_member(report, "padding"), 0);
    double of_8 = 100 * cli_json_number(cli_json_member(report, "padding_of_batches_of_8"), 0);

    if (settings->job.padded_batch > 0)
        cli_say("padding    %.2f %% (padded batches of %u%s)", padding, settings->job.padded_batch,
                settings->job.padded_sorted ? ", sorted by length" : "");
    else
        cli_say("padding    %.2f %% (padded batches of 8 would have %.2f %%)", padding, of_8);
}

static int is_named(cli_json name, cli_json base, const char *suffix)
{
    size_t base_bytes = (size_t)(base.end - base.begin), suffix_bytes = strlen(suffix);

    return (size_t)(name.end - name.begin) == base_bytes + suffix_bytes &&
           memcmp(name.begin, base.begin, base_bytes) == 0 &&
           memcmp(name.begin + base_bytes, suffix, suffix_bytes) == 0;
}

/* In "configuration" a member "x_from" follows its "x": each such pair on a line. */
static void show_settings(cli_json report)
{
    cli_json configuration = cli_json_member(report, "configuration");
    cli_json name, value, before = {"", ""}, setting = {"", ""};
    const char *state = NULL;
    const char *title = "settings";

    while (cli_json_next(configuration, &state, &name, &value)) {
        cli_json from = cli_json_plain(value);
        if (is_named(name, before, "_from") && *value.begin == '"') {
            cli_say("%-10s %.*s %.*s (%.*s)", title, (int)(before.end - before.begin), before.begin,
                    (int)(setting.end - setting.begin), setting.begin, (int)(from.end - from.begin),
                    from.begin);
            title = "";
        }
        before = name;
        setting = cli_json_plain(value);
    }
}

void cli_summary_show(const cli_settings *settings, const char *text)
{
    char size[CLI_NUMBER_BYTES];
    cli_json report = cli_json_whole(text);

    show_documents(settings, report);
    if (count_of(report, "tokens") > 0) {
        show_speed(report);
        show_padding(settings, report);
    }
    if (count_of(report, "peak_bytes") > 0)
        cli_say("memory     %s at the peak", cli_size_text(size, count_of(report, "peak_bytes")));
    show_settings(report);
}
