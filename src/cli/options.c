/*
 * options.c - the command line, out of two tables.
 *
 * Idea: a row of the option table says how an option is spelled, what kind of value it takes, where
 * in cli_settings the value goes, which commands take it, and the line for --help. What comes with
 * a later release has a row too, so that it is refused by its name and never by guesswork, and a
 * script written for a later release gets a clear answer from this one.
 *
 * Refused: getopt_long. It cannot say which command takes an option, has no place for types and
 * ranges, permutes by its own rules, and accepts abbreviations, which a new option would break.
 *
 * Threads: main only.
 */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { /* the commands that take an option */
       EMBED = 1,
       READ = 2,
       TOKENIZE = 4,
       INFO = 8,
       PLAN = 16,
       PROBE = 32,
       VERIFY = 64,
       JOBS = EMBED | PLAN,
       RUNS = JOBS | PROBE | VERIFY,
       INPUTS = EMBED | READ | TOKENIZE | PLAN | VERIFY,
       MODELS = EMBED | TOKENIZE | INFO | PLAN | PROBE | VERIFY,
       ALL = INPUTS | INFO | PROBE
};

enum { INPUT_NONE = 0, INPUT_NEEDED, INPUT_OPTIONAL };

static const struct {
    cli_command command;
    unsigned bit;
    bool needs_model;
    int input; /* one of the three */
} commands[] = {
    {{"embed", "-m MODEL [-o OUT] INPUT...", "one vector a document", cli_embed}, EMBED, 1, 1},
    {{"read", "INPUT...", "documents as they were read, one JSON line each", cli_read}, READ, 0, 1},
    {{"tokenize", "-m MODEL INPUT...", "token ids, one JSON line a document", cli_tokenize},
     TOKENIZE,
     1,
     1},
    {{"plan", "-m MODEL INPUT...", "dry run: documents, tokens, bins and their fill", cli_plan},
     PLAN,
     1,
     1},
    {{"probe", "-m MODEL", "capacity and knee of this device for this model", cli_probe},
     PROBE,
     1,
     0},
    {{"verify", "-m MODEL [INPUT...]", "packed equals alone on this machine, and a reference",
      cli_verify},
     VERIFY,
     1,
     INPUT_OPTIONAL},
    {{"info", "[-m MODEL]", "instruction sets, libraries; what a model directory holds", cli_info},
     INFO,
     0,
     0},
    {{"score", "", NULL, NULL}, 0, 0, 0},
    {{"classify", "", NULL, NULL}, 0, 0, 0},
    {{"rerank", "", NULL, NULL}, 0, 0, 0},
    {{"merge", "", NULL, NULL}, 0, 0, 0},
    {{"bench", "", NULL, NULL}, 0, 0, 0},
};

typedef enum option_kind {
    KIND_FLAG = 0, /* sets an int to `value` */
    KIND_TEXT,
    KIND_COUNT32, /* 1 .. 2^32 - 1 */
    KIND_COUNT64, /* 1 .. 2^64 - 1, or "auto" (0) */
    KIND_SIZE,    /* bytes: 500M, 2GiB */
    KIND_CHOICE,  /* one of a list of words */
    KIND_LATER    /* comes with a later release */
} option_kind;

typedef struct choice {
    const char *word;
    int value;
    enum { CHOICE_SHOWN = 0, CHOICE_ALIAS, CHOICE_LATER } standing;
} choice;

static const choice truncates[] = {{"error", WG_TRUNCATE_ERROR, 0},
                                   {"head", WG_TRUNCATE_HEAD, 0},
                                   {"tail", WG_TRUNCATE_TAIL, 0},
                                   {"chunk", 0, CHOICE_LATER},
                                   {NULL, 0, 0}};
static const choice poolings[] = {{"mean", WG_POOLING_MEAN, 0}, {"cls", WG_POOLING_CLS, 0},
                                  {"last", WG_POOLING_LAST, 0}, {"max", WG_POOLING_MAX, 0},
                                  {"none", WG_POOLING_NONE, 0}, {NULL, 0, 0}};
static const choice formats[] = {{"auto", WG_FORMAT_AUTO, 0},
                                 {"text", WG_FORMAT_TEXT, 0},
                                 {"jsonl", WG_FORMAT_JSONL, 0},
                                 {"pdf", WG_FORMAT_PDF, 0},
                                 {"txt", WG_FORMAT_TEXT, CHOICE_ALIAS},
                                 {"md", WG_FORMAT_TEXT, CHOICE_ALIAS},
                                 {"ndjson", WG_FORMAT_JSONL, CHOICE_ALIAS},
                                 {"csv", 0, CHOICE_LATER},
                                 {"tsv", 0, CHOICE_LATER},
                                 {NULL, 0, 0}};
static const choice isas[] = {{"plain", WG_ISA_PLAIN, 0},
                              {"avx2", WG_ISA_AVX2, 0},
                              {"avx512", WG_ISA_AVX512, 0},
                              {NULL, 0, 0}};
static const choice devices[] = {
    {"auto", 0, 0}, {"cpu", 0, 0}, {"cuda", 0, CHOICE_LATER}, {NULL, 0, 0}};
static const choice dtypes[] = {{"f32", 0, 0},
                                {"bf16", 0, CHOICE_LATER},
                                {"f16", 0, CHOICE_LATER},
                                {"int8", 0, CHOICE_LATER},
                                {NULL, 0, 0}};
static const choice progresses[] = {{"auto", CLI_PROGRESS_AUTO, 0},
                                    {"plain", CLI_PROGRESS_PLAIN, 0},
                                    {"none", CLI_PROGRESS_NONE, 0},
                                    {NULL, 0, 0}};
static const choice log_levels[] = {{"error", WG_LOG_ERROR, 0},
                                    {"warning", WG_LOG_WARNING, 0},
                                    {"info", WG_LOG_INFO, 0},
                                    {"debug", WG_LOG_DEBUG, 0},
                                    {NULL, 0, 0}};

typedef struct option {
    const char *name;
    char letter;
    option_kind kind;
    unsigned commands;
    int value;              /* KIND_FLAG */
    size_t at;              /* offset in cli_settings */
    const char *value_name; /* in --help */
    const char *help;
    const choice *choices;
} option;

#define AT(member) offsetof(cli_settings, member)

static const option options[] = {
    {"model", 'm', KIND_TEXT, MODELS, 0, AT(model.path), "MODEL",
     "a Hugging Face or sentence-transformers directory, or one .gguf file", NULL},
    {"output", 'o', KIND_TEXT, EMBED, 0, AT(job.output), "OUT",
     "a new directory, FILE.jsonl, or - for standard output (default)", NULL},
    {"failures", 0, KIND_TEXT, EMBED | READ | TOKENIZE, 0, AT(job.failures), "FILE",
     "list failed documents there (default OUT/failures.jsonl or standard error)", NULL},
    {"max-length", 0, KIND_COUNT32, RUNS | TOKENIZE, 0, AT(job.embed.token_count_max), "N",
     "tokens kept of a document, special ones included (default the model's limit; tokenize: all)",
     NULL},
    {"truncate", 0, KIND_CHOICE, JOBS | TOKENIZE | VERIFY, 0, AT(job.embed.truncate), NULL,
     "a longer document: fails, keeps its first or its last tokens (default head)", truncates},
    {"max-batch-tokens", 0, KIND_COUNT64, JOBS | VERIFY, 0, AT(job.embed.batch_tokens), "auto|N",
     "tokens of one bin (default auto)", NULL},
    {"memory", 0, KIND_SIZE, RUNS, 0, AT(job.embed.memory_bytes), "SIZE",
     "ceiling for the memory of the process, as 500M or 2GiB (default what the machine leaves)",
     NULL},
    {"device", 0, KIND_CHOICE, RUNS, 0, AT(device), NULL, "where to run (default auto)", devices},
    {"threads", 0, KIND_COUNT32, RUNS, 0, AT(job.embed.thread_count), "N",
     "compute threads (default every core this process may use)", NULL},
    {"dtype", 0, KIND_CHOICE, RUNS, 0, AT(dtype), NULL, "compute type", dtypes},
    {"isa", 0, KIND_CHOICE, RUNS | INFO, 0, AT(model.isa), NULL,
     "forced instruction set (default the best of this CPU)", isas},
    {"pooling", 0, KIND_CHOICE, JOBS | VERIFY, 0, AT(job.embed.pooling), NULL,
     "how token vectors become one, none: one row a token (default as the model says)", poolings},
    {"normalize", 0, KIND_FLAG, JOBS | VERIFY, 1, AT(job.embed.normalize), NULL,
     "vectors of length 1", NULL},
    {"no-normalize", 0, KIND_FLAG, JOBS | VERIFY, -1, AT(job.embed.normalize), NULL,
     "vectors as they come (default as the model says, else length 1)", NULL},
    {"truncate-dim", 0, KIND_COUNT32, JOBS | VERIFY, 0, AT(job.embed.truncate_dim), "N",
     "keep the first N numbers of a vector", NULL},
    {"prompt", 0, KIND_TEXT, JOBS | VERIFY, 0, AT(job.embed.prompt), "S", "put S before each text",
     NULL},
    {"prompt-name", 0, KIND_TEXT, JOBS | VERIFY, 0, AT(job.embed.prompt_name), "S",
     "put the prompt of that name in config_sentence_transformers.json before each text", NULL},
    {"padded", 0, KIND_COUNT32, JOBS, 0, AT(job.padded_batch), "N",
     "for comparison only: batches of N padded to the longest", NULL},
    {"sorted", 0, KIND_FLAG, JOBS, 1, AT(job.padded_sorted), NULL,
     "with --padded: batches in order of length", NULL},
    {"format", 0, KIND_CHOICE, INPUTS, 0, AT(job.input.format), NULL,
     "of every INPUT (default by content and suffix; - is jsonl)", formats},
    {"lines", 0, KIND_FLAG, INPUTS, 1, AT(job.input.lines), NULL, "text files: one document a line",
     NULL},
    {"text-field", 0, KIND_TEXT, INPUTS, 0, AT(job.input.text_field), "NAME",
     "JSONL field that holds the text, dots descend (default text)", NULL},
    {"id-field", 0, KIND_TEXT, INPUTS, 0, AT(job.input.id_field), "NAME",
     "JSONL field that holds the id (default id)", NULL},
    {"ids-field", 0, KIND_TEXT, INPUTS, 0, AT(job.input.ids_field), "NAME",
     "JSONL field that holds ready token ids instead of a text", NULL},
    {"pdf-password", 0, KIND_TEXT, INPUTS, 0, AT(job.input.pdf_password), "S",
     "opens protected PDF files", NULL},
    {"plain-specials", 0, KIND_FLAG, JOBS | TOKENIZE, 1, AT(job.embed.plain_specials), NULL,
     "special tokens written in a text are plain text", NULL},
    {"reference", 0, KIND_TEXT, VERIFY, 0, AT(reference), "FILE",
     "compare with the vectors in these {\"text\", \"embedding\"} lines", NULL},
    {"fresh", 0, KIND_FLAG, PROBE, 1, AT(ignore_cache), NULL,
     "measure again instead of answering from the cache", NULL},
    {"progress", 0, KIND_CHOICE, JOBS, 0, AT(progress), NULL,
     "a bar, a line now and then, or nothing (default auto)", progresses},
    {"log-level", 0, KIND_CHOICE, ALL, 0, AT(log_level), NULL,
     "what is told on standard error; error leaves out the report too (default warning)",
     log_levels},
    {"help", 'h', KIND_FLAG, ALL, 1, AT(help), NULL, "this text", NULL},
    {"version", 'V', KIND_FLAG, ALL, 1, AT(version), NULL, "the version", NULL},
#define LATER(name)                                    \
    {                                                  \
        name, 0, KIND_LATER, 0, 0, 0, NULL, NULL, NULL \
    }
    LATER("chunk-overlap"),
    LATER("shard"),
    LATER("resume"),
    LATER("template"),
    LATER("delimiter"),
    LATER("encoding"),
    LATER("group-by"),
    LATER("window"),
    LATER("keep-fields"),
    LATER("precision"),
    LATER("stride"),
    LATER("per-token"),
    LATER("no-dedupe"),
    LATER("metrics-file"),
#undef LATER
};

#define COUNT_OF(table) (sizeof(table) / sizeof((table)[0]))

/* Levenshtein distance of short words, for "did you mean"; long words are far from everything. */
static size_t word_distance(const char *a, const char *b)
{
    enum { WORD_MOST = 32 };
    size_t row[WORD_MOST + 1];
    size_t a_count = strlen(a), b_count = strlen(b);

    if (a_count > WORD_MOST || b_count > WORD_MOST) return SIZE_MAX;
    for (size_t j = 0; j <= b_count; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_count; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_count; j++) {
            size_t above = row[j];
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (above + 1 < best) best = above + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
            diagonal = above;
        }
    }
    return row[b_count];
}

/* A word is near when a third of it, rounded up, was mistyped. */
static bool is_near(const char *typed, const char *word, size_t *nearest)
{
    size_t distance = word_distance(typed, word);
    if (distance > (strlen(word) + 2) / 3 || distance >= *nearest) return false;
    *nearest = distance;
    return true;
}

static void show_wrapped(size_t indent, const char *text)
{
    enum { COLUMNS_MOST = 96 };
    size_t column = indent;

    while (*text) {
        size_t word = strcspn(text, " ");
        if (column > indent && column + 1 + word > COLUMNS_MOST) {
            fprintf(stdout, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', stdout);
            column++;
        }
        fwrite(text, 1, word, stdout);
        column += word;
        text += word;
        while (*text == ' ')
            text++;
    }
    fputc('\n', stdout);
}

static void show_option(const option *row)
{
    char left[80] = "";
    size_t used = 0;

    if (row->letter) used += (size_t)snprintf(left, sizeof(left), "-%c, ", row->letter);
    used += (size_t)snprintf(left + used, sizeof(left) - used, "--%s", row->name);
    if (row->value_name)
        used += (size_t)snprintf(left + used, sizeof(left) - used, " %s", row->value_name);
    for (const choice *word = row->choices; word && word->word; word++) {
        if (word->standing != CHOICE_SHOWN) continue;
        used += (size_t)snprintf(left + used, sizeof(left) - used, "%c%s",
                                 word == row->choices ? ' ' : '|', word->word);
    }
    if (used > 30)
        fprintf(stdout, "  %s\n%34s", left, "");
    else
        fprintf(stdout, "  %-30s  ", left);
    show_wrapped(34, row->help);
}

/* The help of one command, or of all when bit is ALL. */
static void show_help(const cli_command *command, unsigned bit)
{
    if (command) {
        fprintf(stdout, "usage: warpgroup %s [OPTION...] %s\n%s\n\noptions:\n", command->name,
                command->arguments, command->help);
    } else {
        fputs("usage: warpgroup COMMAND [OPTION...] [INPUT...]\n\ncommands:\n", stdout);
        for (size_t i = 0; i < COUNT_OF(commands); i++)
            if (commands[i].command.help)
                fprintf(stdout, "  %-9s %-28s %s\n", commands[i].command.name,
                        commands[i].command.arguments, commands[i].command.help);
        fputs(
            "\nINPUT: files, directories, - for standard input; .jsonl .ndjson .txt .md .pdf, also "
            "in .gz\n\noptions ('warpgroup COMMAND --help' shows those of one command):\n",
            stdout);
    }
    for (size_t i = 0; i < COUNT_OF(options); i++)
        if (options[i].commands & bit) show_option(&options[i]);
    if (!command) {
        fputs("\nwith a later release:", stdout);
        for (size_t i = 0; i < COUNT_OF(commands); i++)
            if (!commands[i].command.help) fprintf(stdout, " %s", commands[i].command.name);
        for (size_t i = 0; i < COUNT_OF(options); i++)
            if (options[i].kind == KIND_LATER) fprintf(stdout, " --%s", options[i].name);
        fputc('\n', stdout);
    }
    fputs("\nexit status: 0 all done, 1 some documents failed (they are listed), 2 wrong usage,\n"
          "3 the run could not go on, 130 or 143 stopped by SIGINT or SIGTERM\n",
          stdout);
}

/* A whole number in [1, most]; digits only. */
static bool parse_count(const char *text, uint64_t most, uint64_t *value)
{
    char *end = NULL;

    if (*text < '0' || *text > '9') return false;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || number < 1 || number > most) return false;
    *value = number;
    return true;
}

/* 500M, 2G, 2GiB are powers of 1024; 2GB is 2,000,000,000; a plain number is bytes. */
static bool parse_size(const char *text, uint64_t *bytes)
{
    static const char prefixes[] = "KMGT";
    const double most = 9.2e18;
    char *end = NULL;
    double unit = 1;

    if (*text < '0' || *text > '9') return false;
    double number = strtod(text, &end);
    const char *prefix = *end ? strchr(prefixes, *end >= 'a' ? *end - 'a' + 'A' : *end) : NULL;
    if (prefix) {
        bool is_decimal = strcmp(end + 1, "B") == 0;
        bool is_binary = end[1] == '\0' || strcmp(end + 1, "i") == 0 || strcmp(end + 1, "iB") == 0;
        if (!is_decimal && !is_binary) return false;
        for (const char *p = prefixes; p <= prefix; p++)
            unit *= is_decimal ? 1000 : 1024;
    } else if (*end != '\0' && strcmp(end, "B") != 0) {
        return false;
    }
    number *= unit;
    if (!(number >= 1 && number < most)) return false;
    *bytes = (uint64_t)number;
    return true;
}

static int refuse_choice(const option *row, const char *value)
{
    char words[128] = "";
    size_t used = 0;

    for (const choice *word = row->choices; word->word; word++)
        if (word->standing == CHOICE_SHOWN)
            used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s", used ? ", " : "",
                                     word->word);
    cli_complain("--%s '%s': choose one of %s", row->name, value, words);
    return CLI_USAGE;
}

static int set_choice(const option *row, const char *value, int *target)
{
    /* A device list such as cuda:0,1 is known by its first word. */
    for (const choice *word = row->choices; word->word; word++) {
        size_t count = strlen(word->word);
        bool is_it = strcmp(word->word, value) == 0 ||
                     (row->choices == devices && word->standing == CHOICE_LATER &&
                      strncmp(word->word, value, count) == 0 && value[count] == ':');
        if (!is_it) continue;
        if (word->standing == CHOICE_LATER) {
            cli_complain("--%s %s comes with a later release", row->name, value);
            return CLI_USAGE;
        }
        *target = word->value;
        return CLI_DONE;
    }
    return refuse_choice(row, value);
}

/* Puts a value where the row says; value is NULL for a flag. Returns an exit status. */
static int set_option(const option *row, const char *value, cli_settings *settings)
{
    char *place = (char *)settings + row->at;
    uint64_t number = 0;

    switch (row->kind) {
    case KIND_FLAG:
        *(int *)(void *)place = row->value;
        return CLI_DONE;
    case KIND_TEXT:
        *(const char **)(void *)place = value;
        return CLI_DONE;
    case KIND_CHOICE:
        return set_choice(row, value, (int *)(void *)place);
    case KIND_COUNT32:
        if (!parse_count(value, UINT32_MAX, &number)) {
            cli_complain("--%s '%s': a whole number from 1 on is needed", row->name, value);
            return CLI_USAGE;
        }
        *(uint32_t *)(void *)place = (uint32_t)number;
        return CLI_DONE;
    case KIND_COUNT64:
        if (strcmp(value, "auto") != 0 && !parse_count(value, UINT64_MAX, &number)) {
            cli_complain("--%s '%s': auto or a whole number from 1 on is needed", row->name, value);
            return CLI_USAGE;
        }
        *(uint64_t *)(void *)place = number;
        return CLI_DONE;
    case KIND_SIZE:
        if (!parse_size(value, &number)) {
            cli_complain("--%s '%s': a size such as 500M, 2G or 2GiB is needed", row->name, value);
            return CLI_USAGE;
        }
        *(uint64_t *)(void *)place = number;
        return CLI_DONE;
    case KIND_LATER:
        break;
    }
    cli_complain("--%s comes with a later release", row->name);
    return CLI_USAGE;
}

static int refuse_unknown(const char *typed, unsigned bit)
{
    char name[64];
    const char *nearest = NULL;
    size_t distance = SIZE_MAX;

    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(typed + 2, "="), typed + 2);
    for (size_t i = 0; i < COUNT_OF(options); i++)
        if ((options[i].commands & bit) && is_near(name, options[i].name, &distance))
            nearest = options[i].name;
    if (nearest)
        cli_complain("no option '%s'; did you mean --%s?", typed, nearest);
    else
        cli_complain("no option '%s'; --help lists them", typed);
    return CLI_USAGE;
}

/* The row for "--name", "--name=value", "-l" or "-lvalue"; *value is what was attached, or NULL. */
static const option *find_option(const char *argument, const char **value)
{
    *value = NULL;
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        size_t count = strlen(options[i].name);
        if (argument[1] != '-') {
            if (argument[1] != options[i].letter) continue;
            if (argument[2]) *value = argument + 2;
            return &options[i];
        }
        if (strncmp(argument + 2, options[i].name, count) != 0) continue;
        if (argument[2 + count] == '=') *value = argument + 3 + count;
        if (argument[2 + count] == '=' || argument[2 + count] == '\0') return &options[i];
    }
    return NULL;
}

/* One option at argv[*i]; moves *i past a value that stands apart. */
static int take_option(cli_settings *settings, unsigned bit, int argc, char **argv, int *i)
{
    const char *value = NULL;
    const option *row = find_option(argv[*i], &value);

    if (!row) return refuse_unknown(argv[*i], bit);
    if (row->kind != KIND_LATER && !(row->commands & bit)) {
        cli_complain("%s does not take --%s", settings->command, row->name);
        return CLI_USAGE;
    }
    if (row->kind == KIND_FLAG && value) {
        cli_complain("--%s takes no value", row->name);
        return CLI_USAGE;
    }
    if (row->kind != KIND_FLAG && row->kind != KIND_LATER && !value) {
        if (*i + 1 >= argc) {
            cli_complain("--%s needs a value", row->name);
            return CLI_USAGE;
        }
        value = argv[++*i];
    }
    return set_option(row, value, settings);
}

/* What options must hold together; returns an exit status. */
static int check_settings(const cli_settings *settings, bool needs_model, int input)
{
    const wg_job_options *job = &settings->job;

    if (needs_model && !settings->model.path) {
        cli_complain("%s needs a model: -m MODEL", settings->command);
        return CLI_USAGE;
    }
    if (input == INPUT_NEEDED && job->input.input_count == 0) {
        cli_complain("%s needs an INPUT: files, directories, or - for standard input",
                     settings->command);
        return CLI_USAGE;
    }
    if (input == INPUT_NONE && job->input.input_count > 0) {
        cli_complain("%s takes no INPUT: '%s'", settings->command, job->input.inputs[0]);
        return CLI_USAGE;
    }
    if (job->padded_sorted && job->padded_batch == 0) {
        cli_complain("--sorted goes with --padded N; packed bins need no sorting");
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static int refuse_command(const char *typed)
{
    const char *nearest = NULL;
    size_t distance = SIZE_MAX;

    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        if (strcmp(typed, commands[i].command.name) == 0) {
            cli_complain("%s comes with a later release", typed);
            return CLI_USAGE;
        }
        if (commands[i].command.help && is_near(typed, commands[i].command.name, &distance))
            nearest = commands[i].command.name;
    }
    if (nearest)
        cli_complain("no command '%s'; did you mean %s?", typed, nearest);
    else
        cli_complain("no command '%s'; 'warpgroup --help' lists them", typed);
    return CLI_USAGE;
}

/* --help, --version, or nothing at all, in place of a command. */
static int show_without_command(const char *typed)
{
    if (!typed) {
        cli_complain("no command; 'warpgroup --help' lists them");
        return CLI_USAGE;
    }
    if (strcmp(typed, "--version") == 0 || strcmp(typed, "-V") == 0) {
        fprintf(stdout, "warpgroup %s\n", wg_version());
        return CLI_DONE;
    }
    if (strcmp(typed, "--help") == 0 || strcmp(typed, "-h") == 0 || strcmp(typed, "help") == 0) {
        show_help(NULL, ALL);
        return CLI_DONE;
    }
    if (typed[0] == '-') {
        cli_complain("the command comes first: warpgroup COMMAND %s ...", typed);
        return CLI_USAGE;
    }
    return refuse_command(typed);
}

const cli_command *cli_options_parse(cli_settings *settings, int argc, char **argv,
                                     int *exit_status)
{
    size_t at = 0, input_count = 0;
    bool only_inputs = false;

    while (at < COUNT_OF(commands) && (argc < 2 || !commands[at].command.help ||
                                       strcmp(argv[1], commands[at].command.name) != 0))
        at++;
    if (at == COUNT_OF(commands)) {
        *exit_status = show_without_command(argc > 1 ? argv[1] : NULL);
        return NULL;
    }
    *settings = (cli_settings){.command = argv[1], .log_level = WG_LOG_WARNING};
    for (int i = 2; i < argc; i++) {
        if (!only_inputs && strcmp(argv[i], "--") == 0) {
            only_inputs = true;
        } else if (only_inputs || argv[i][0] != '-' || argv[i][1] == '\0') {
            argv[input_count++] = argv[i]; /* never ahead of the argument being read */
        } else {
            *exit_status = take_option(settings, commands[at].bit, argc, argv, &i);
            if (*exit_status != CLI_DONE) return NULL;
        }
    }
    settings->job.input.inputs = (const char *const *)argv;
    settings->job.input.input_count = input_count;
    if (settings->help || settings->version) {
        if (settings->help)
            show_help(&commands[at].command, commands[at].bit);
        else
            fprintf(stdout, "warpgroup %s\n", wg_version());
        *exit_status = CLI_DONE;
        return NULL;
    }
    *exit_status = check_settings(settings, commands[at].needs_model, commands[at].input);
    return *exit_status == CLI_DONE ? &commands[at].command : NULL;
}
