/*
 * signals.c - SIGINT and SIGTERM. The first asks the running command to stop with whole rows
 * written; the second ends the process at once. SIGPIPE is ignored, so that a reader who went away
 * is a write error with a message and a status.
 *
 * Threads: the handler runs on whichever thread the system picks and touches lock-free
 * atomics of its own.
 */
#include "cli.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static _Atomic(wg_job *) running;
static _Atomic(wg_reader *) reading;
static atomic_int caught;
static atomic_int handling; /* handlers that may still hold the job or the reader */

static void on_signal(int number)
{
    static const char message[] =
        "\nwarpgroup: stopping with whole rows written; once more stops at once\n";
    int saved = errno;
    int none = 0;

    if (!atomic_compare_exchange_strong(&caught, &none, number)) _exit(CLI_SIGNAL + number);
    if (write(STDERR_FILENO, message, sizeof(message) - 1) < 0) errno = saved;
    atomic_fetch_add(&handling, 1);
    wg_job *job = atomic_load(&running);
    if (job) wg_job_stop(job);
    wg_reader *reader = atomic_load(&reading);
    if (reader) wg_reader_stop(reader);
    atomic_fetch_sub(&handling, 1);
    errno = saved;
}

void cli_signals_init(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    (void)sigemptyset(&action.sa_mask);
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &action, NULL);
    (void)sigaction(SIGXFSZ, &action, NULL); /* "File too large" is a write error too */
    action.sa_handler = on_signal;
    (void)sigaction(SIGTERM, &action, NULL);
    /* A shell starts background jobs with SIGINT ignored; that stays. */
    struct sigaction inherited;
    if (sigaction(SIGINT, NULL, &inherited) == 0 && inherited.sa_handler != SIG_IGN)
        (void)sigaction(SIGINT, &action, NULL);
}

void cli_signals_job(wg_job *job)
{
    atomic_store(&running, job);
    /* The job that was set before may be closed once no handler holds it. */
    while (atomic_load(&handling) != 0)
        (void)sched_yield();
    /* A signal that came before the job was known must not be lost. */
    if (job && atomic_load(&caught) != 0) wg_job_stop(job);
}

void cli_signals_reader(wg_reader *reader)
{
    atomic_store(&reading, reader);
    while (atomic_load(&handling) != 0)
        (void)sched_yield();
    if (reader && atomic_load(&caught) != 0) wg_reader_stop(reader);
}

void cli_signals_default(void)
{
    (void)signal(SIGTERM, SIG_DFL);
    struct sigaction inherited;
    if (sigaction(SIGINT, NULL, &inherited) == 0 && inherited.sa_handler != SIG_IGN)
        (void)signal(SIGINT, SIG_DFL);
}

int cli_signals_caught(void)
{
    return atomic_load(&caught);
}
