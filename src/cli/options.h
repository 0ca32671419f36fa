/*
 * options.h - the command line: one table of commands and one of options serve the parser, --help
 * and (by the hidden command "options") the test that holds the man page to them.
 */
#ifndef WG_CLI_OPTIONS_H
#define WG_CLI_OPTIONS_H

#include "cli.h"

typedef struct cli_command {
    const char *name;
    const char *arguments;
    const char *help; /* NULL: comes with a later release */
    int (*run)(const cli_settings *settings);
} cli_command;

/*
 * Parses argv into *settings; the inputs are gathered at the front of argv, which they borrow.
 * Returns the command to run, or NULL with *exit_status set (help was shown, or wrong usage told).
 */
const cli_command *cli_options_parse(cli_settings *settings, int argc, char **argv,
                                     int *exit_status);

#endif
