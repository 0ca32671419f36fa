/*
 * cli.h - what the files of the command line program share: the parsed command line, the screen
 * (standard error), signals, a look into JSON, and the commands.
 *
 * The program stands outside the library and knows warpgroup.h and nothing else, so whatever it can
 * do an embedding program can do. It needs no heap: what it keeps is the command line itself and
 * a few numbers. Standard output carries results only.
 *
 * Threads: main runs the command; embed and plan add one display thread (progress.c).
 */
#ifndef WG_CLI_H
#define WG_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "warpgroup/warpgroup.h"

/* Exit statuses; 128 + signal when stopped by one. */
enum { CLI_DONE = 0, CLI_SOME_FAILED = 1, CLI_USAGE = 2, CLI_BROKEN = 3, CLI_SIGNAL = 128 };

typedef enum cli_progress_mode {
    CLI_PROGRESS_AUTO = 0, /* a bar on a terminal, else plain */
    CLI_PROGRESS_PLAIN,
    CLI_PROGRESS_NONE
} cli_progress_mode;

/* The command line, parsed. Strings are borrowed from argv. */
typedef struct cli_settings {
    const char *command;
    wg_model_options model;
    wg_job_options job;    /* input, embed, output, failures */
    int ignore_cache;      /* probe */
    const char *reference; /* verify */
    int progress;          /* cli_progress_mode */
    int log_level;         /* wg_log_level */
    int device;            /* one value so far: the CPU */
    int dtype;             /* one value so far: f32 */
    int help;
    int version;
} cli_settings;

/* ------------------------------------------------------------------------------------ commands */

int cli_embed(const cli_settings *settings);
int cli_read(const cli_settings *settings);
int cli_tokenize(const cli_settings *settings);
int cli_info(const cli_settings *settings);
int cli_plan(const cli_settings *settings);
int cli_probe(const cli_settings *settings);
int cli_verify(const cli_settings *settings);

/* What embed and plan share (command_job.c): open the model, check, run under signals and display.
 */
typedef struct cli_job {
    wg_model *model;
    wg_job *job;
    int exit_status; /* so far */
} cli_job;
/* Opens and runs; the report stands when true is returned. exit_status is set either way. */
bool cli_job_run(cli_job *run, const cli_settings *settings, const wg_job_options *options);
void cli_job_close(cli_job *run);

/* Exit status for a call that failed: a wrong argument is usage, the rest could not go on. */
int cli_status_exit(wg_status status);

/* ---------------------------------------------------------- documents.c: reading without a job */

/* Where read and tokenize list what failed. */
typedef struct cli_failures {
    FILE *file; /* NULL: sentences on the screen */
    const char *path;
    uint64_t count;
} cli_failures;

/* An existing file is refused. Returns an exit status. */
int cli_failures_open(cli_failures *failures, const char *path);
void cli_failures_put(cli_failures *failures, const wg_document *document, wg_failure failure,
                      const char *reason);
bool cli_failures_close(cli_failures *failures);

/* Puts one document on standard output or its failure on the list. */
typedef wg_status cli_document_function(void *context, const wg_document *document,
                                        cli_failures *failures, wg_error *err);
/* Hands every document of the inputs to `put`, under signals; returns the exit status. */
int cli_documents_each(const cli_settings *settings, cli_document_function *put, void *context);

/* A JSON string, quotes included. text: UTF-8, may hold NUL. */
void cli_json_text(FILE *file, const char *text, size_t text_bytes);

/* ------------------------------------------------------------------- screen.c: standard error */

/* Lines on standard error; a progress bar is taken away first. Any thread. */
__attribute__((format(printf, 1, 2))) void cli_say(const char *format, ...);
/* The same with "warpgroup: " in front, for errors. */
__attribute__((format(printf, 1, 2))) void cli_complain(const char *format, ...);
/* Replaces the bar (one line without a newline); "" takes it away. */
void cli_bar_show(const char *line);
size_t cli_screen_columns(void);
void cli_log(void *context, wg_log_level level, const char *message);

/* 1234567 -> "1,234,567"; 1536 bytes -> "1.5 KiB"; seconds -> "1:05". Buffer of CLI_NUMBER_BYTES.
 */
#define CLI_NUMBER_BYTES 48
const char *cli_count_text(char *buffer, uint64_t count);
const char *cli_size_text(char *buffer, uint64_t bytes);
const char *cli_time_text(char *buffer, double seconds);

/* ----------------------------------------------------------------------------------- progress.c */

typedef struct cli_progress cli_progress;
/* Starts the display of a job; NULL when there is none to show. */
cli_progress *cli_progress_start(const wg_job *job, const cli_settings *settings);
void cli_progress_stop(cli_progress *progress);

/* ------------------------------------------------------------------------------------- signals.c
 */

/* SIGPIPE is ignored; the first SIGINT or SIGTERM asks to stop, the second ends the process. */
void cli_signals_init(void);
/* The job that a signal shall stop; NULL: none. */
void cli_signals_job(wg_job *job);
/* The reader that a signal shall stop; NULL: none. */
void cli_signals_reader(wg_reader *reader);
/* For a command that has nothing to leave whole: the first signal ends the process. */
void cli_signals_default(void);
/* The signal that asked to stop, or 0. */
int cli_signals_caught(void);

/* ----------------------------------------------------------------------------------- json_peek.c
 */

/* A value inside JSON text that the library made, so it is well-formed. */
typedef struct cli_json {
    const char *begin;
    const char *end;
} cli_json;

cli_json cli_json_whole(const char *text);
/* The member of an object; begin is NULL where there is none. Chains: a missing object has none. */
cli_json cli_json_member(cli_json object, const char *key);
/* The next item of an array or value of an object (its key in *key), or false at the end. *state
 * starts as NULL. */
bool cli_json_next(cli_json container, const char **state, cli_json *key, cli_json *value);
double cli_json_number(cli_json value, double otherwise);
/* A string without its quotes (escapes stand as they are), or the literal. */
cli_json cli_json_plain(cli_json value);

/* -------------------------------------------------------------------------------------- summary.c
 */

/* The end-of-run report for people, from the job's report. */
void cli_summary_show(const cli_settings *settings, const char *report);

#endif
