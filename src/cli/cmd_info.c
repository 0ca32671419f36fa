/*
 * cmd_info.c - `warpgroup info`: version, instruction sets, libraries, and with -m what a model
 * directory holds and which file decided what.
 *
 * Threads: main only.
 */
#include "cli.h"

static const char *pooling_name(wg_pooling pooling)
{
    switch (pooling) {
    case WG_POOLING_MODEL:
        return "as the model says";
    case WG_POOLING_MEAN:
        return "mean";
    case WG_POOLING_CLS:
        return "cls";
    case WG_POOLING_LAST:
        return "last";
    case WG_POOLING_MAX:
        return "max";
    case WG_POOLING_NONE:
        return "none";
    case WG_POOLING_WEIGHTED_MEAN:
        return "weighted mean";
    case WG_POOLING_SQRT_LENGTH_MEAN:
        return "mean over the square root of the length";
    }
    return "unknown";
}

static void show_machine(void)
{
    fprintf(stdout, "warpgroup         %s\n", wg_version());
    fputs("instruction sets ", stdout);
    for (const char *const *name = wg_isa_names(); *name; name++)
        fprintf(stdout, " %s", *name);
    fputs("\nlibraries         ", stdout);
    for (const char *c = wg_libraries(); *c; c++) {
        if (*c != '\n')
            fputc(*c, stdout);
        else if (c[1])
            fputs(", ", stdout);
    }
    fputs("\ncommands          embed, read, tokenize, plan, probe, verify, info\n", stdout);
}

#define LABELS_SHOWN 12

/* Labels are a file's own text: control characters of it do not reach the terminal. */
static void show_head(const wg_model_info *info)
{
    if (!info->label_count) return;
    fprintf(stdout, "head              %u label%s (%s): ", info->label_count,
            info->label_count > 1 ? "s" : "",
            *info->problem_type ? info->problem_type : "problem type not said");
    for (uint32_t i = 0; i < info->label_count && i < LABELS_SHOWN; i++) {
        if (i) fputs(", ", stdout);
        for (const char *c = info->labels[i]; *c; c++)
            fputc((unsigned char)*c < 0x20 || *c == 0x7F ? '?' : *c, stdout);
    }
    if (info->label_count > LABELS_SHOWN)
        fprintf(stdout, " and %u more", info->label_count - LABELS_SHOWN);
    fputc('\n', stdout);
}

static void show_model(const wg_model_info *info)
{
    char number[CLI_NUMBER_BYTES], size[CLI_NUMBER_BYTES];

    fprintf(stdout, "\nmodel             %s\n", info->path);
    fprintf(stdout, "architecture      %s: %u layers, %u heads, hidden %u, feed-forward %u\n",
            info->architecture, info->layer_count, info->head_count, info->hidden_count,
            info->feed_forward_count);
    fprintf(stdout, "parameters        %s", cli_count_text(number, info->parameter_count));
    fprintf(stdout, " (%s in the files", cli_size_text(size, info->weight_bytes));
    fprintf(stdout, ", %s repacked)\n", cli_size_text(size, info->packed_bytes));
    fprintf(stdout, "vocabulary        %s\n", cli_count_text(number, info->vocabulary_count));
    fprintf(stdout, "longest text      %u tokens; cut to %u unless told otherwise (%s)\n",
            info->position_count, info->token_count_default, info->length_rule);
    fprintf(stdout, "vector            %u numbers\n", info->dim);
    fprintf(stdout, "pooling           %s (%s)\n", pooling_name(info->pooling), info->pooling_rule);
    fprintf(stdout, "normalized        %s (%s)\n", info->normalize ? "yes" : "no",
            info->normalize_rule);
    show_head(info);
    fprintf(stdout, "runs on           %s, %s\n", info->backend, info->isa);
    fprintf(stdout, "hash              %s\n", info->hash);
    fprintf(stdout, "loaded in         %s\n", cli_time_text(number, info->load_seconds));
}

int cli_info(const cli_settings *settings)
{
    wg_model *model = NULL;
    wg_error err;

    if (settings->model.path) {
        wg_status status = wg_model_open(&model, &settings->model, &err);
        if (status != WG_OK) {
            cli_complain("%s", err.message);
            return CLI_BROKEN;
        }
    }
    show_machine();
    if (model) show_model(wg_model_describe(model));
    wg_model_close(model);
    return CLI_DONE;
}
