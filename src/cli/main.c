/*
 * main.c - the command line program: parse, run one command, flush standard output.
 *
 * Threads: main only; see progress.c for the one that embed and plan add.
 */
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/*
 * A standard stream that was closed gets a stand-in; else the next file that is opened would have
 * its number, and results or messages would land in it. Standard input is then empty, and an output
 * fails when it is used.
 */
static void hold_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", O_RDONLY);
}

int main(int argc, char **argv)
{
    cli_settings settings = {0};
    int exit_status = CLI_DONE;

    hold_standard_streams();
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
