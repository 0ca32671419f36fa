/*
 * main.c - the command line program: parse, run one command, flush standard output.
 *
 * Threads: main only; see progress.c for the one that embed and plan add.
 */
#include "options.h"

#include <errno.h>
#include <string.h>

int main(int argc, char **argv)
{
    cli_settings settings = {0};
    int exit_status = CLI_DONE;

    cli_signals_init();
    const cli_command *command = cli_options_parse(&settings, argc, argv, &exit_status);
    if (command) {
        wg_log_set(cli_log, NULL, (wg_log_level)settings.log_level);
        exit_status = command->run(&settings);
    }
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && exit_status != CLI_BROKEN) {
        cli_complain("standard output: %s", errno ? strerror(errno) : "write failed");
        exit_status = CLI_BROKEN;
    }
    return exit_status;
}
