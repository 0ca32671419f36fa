/*
 * os_process.c - children; see os_process.h.
 *
 * posix_spawn starts the child without copying the page tables of a process that may hold
 * gigabytes of weights. It knows no limits, so it starts a shell that lowers its own and then
 * becomes the program; program and arguments go to it as "$@", so nothing is ever quoted. Refused:
 * prlimit(2) from here after the start (on a busy machine the program had run for a while by then);
 * vfork and setrlimit (what may be called between vfork and exec is a trap for every later change);
 * fork (page tables). The child leads its own process group, so that Ctrl-C on a terminal lets a
 * job finish what it began, and killing takes along whatever the child started.
 *
 * Threads: any, one a process. Children are waited for by their own pid, never by "any child".
 */
#include "base/os_process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os_read.h"

#define WAIT_COUNT_MAX     1000
#define ARGUMENT_COUNT_MAX 32
#define PATH_BYTES_MAX     4096

/* $1: KiB of address space, $2 and $3: seconds of processor time, soft and hard; 0: no limit. A
 * limit that cannot be set is lower already. */
static const char limits_script[] = "ulimit -c 0 2>/dev/null\n"
                                    "test $1 = 0 || ulimit -v $1 2>/dev/null\n"
                                    "test $2 = 0 || ulimit -H -t $3 2>/dev/null\n"
                                    "test $2 = 0 || ulimit -S -t $2 2>/dev/null\n"
                                    "shift 3\n"
                                    "exec \"$@\"\n";

/* What the shell is called with, and the memory for it. */
typedef struct shell_call {
    char *argv[ARGUMENT_COUNT_MAX + 8];
    char program[PATH_BYTES_MAX];
    char numbers[3][24];
} shell_call;

static void close_end(int *fd)
{
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

static wg_status pipe_open(int *read_end, int *write_end, wg_error *err)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) return wgi_fail(err, WG_ERR_IO, "pipe: %s", strerror(errno));
    *read_end = wgi_fd_lift(ends[0]);
    *write_end = wgi_fd_lift(ends[1]);
    if (*read_end < 0 || *write_end < 0 || fcntl(*read_end, F_SETFL, O_NONBLOCK) != 0)
        return wgi_fail(err, WG_ERR_IO, "a pipe cannot be set up: %s", strerror(errno));
    return WG_OK;
}

/* The program's path, by PATH unless it has a '/' (execvp(3)'s rule). */
static bool program_find(const char *name, char out[PATH_BYTES_MAX])
{
    const char *at = strchr(name, '/') ? "" : getenv("PATH");
    int written = snprintf(out, PATH_BYTES_MAX, "%s", name);

    if (!at) at = "/usr/local/bin:/usr/bin:/bin";
    if (!*at) return written < PATH_BYTES_MAX && access(out, X_OK) == 0;
    for (;;) {
        int folder_bytes = (int)strcspn(at, ":");
        written =
            snprintf(out, PATH_BYTES_MAX, "%.*s/%s", folder_bytes, folder_bytes ? at : ".", name);
        if (written < PATH_BYTES_MAX && access(out, X_OK) == 0) return true;
        if (!at[folder_bytes]) return false;
        at += folder_bytes + 1;
    }
}

static wg_status command_make(shell_call *call, const wgi_process_options *options, wg_error *err)
{
    const char *head[] = {"sh", "-c", limits_script, "sh"};
    uint64_t numbers[3] = {options->memory_bytes / 1024, options->cpu_seconds,
                           options->cpu_seconds + 1};
    size_t count = 0;

    if (!options->argv[0] || !program_find(options->argv[0], call->program))
        return wgi_fail(err, WG_ERR_UNSUPPORTED, "the program %s was not found in PATH",
                        options->argv[0] ? options->argv[0] : "(no name)");
    /* posix_spawn takes pointers that are not const, and does not write through them. */
    for (; count < 4; count++)
        memcpy(&call->argv[count], &head[count], sizeof(char *));
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(call->numbers[i], sizeof(call->numbers[i]), "%" PRIu64, numbers[i]);
        call->argv[count++] = call->numbers[i];
    }
    call->argv[count++] = call->program;
    for (size_t i = 1; options->argv[i]; i++) {
        if (i == ARGUMENT_COUNT_MAX)
            return wgi_fail(err, WG_ERR_ARGUMENT, "more than %d arguments for %s",
                            ARGUMENT_COUNT_MAX, options->argv[0]);
        memcpy(&call->argv[count++], &options->argv[i], sizeof(char *));
    }
    call->argv[count] = NULL;
    return WG_OK;
}

/* Our descriptors close by themselves; those of a careless host are closed where the C library can.
 */
static int close_the_rest(posix_spawn_file_actions_t *actions)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    return posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
#else
    (void)actions;
    return 0;
#endif
}

/* Signals as a fresh program expects them, own process group, standard streams wired. */
static int spawn(pid_t *pid, shell_call *call, int in_fd, int out_fd, int err_fd)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);

    int failed = posix_spawn_file_actions_init(&actions);
    if (failed) return failed;
    failed = posix_spawnattr_init(&attributes);
    if (failed) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return failed;
    }
    if (in_fd >= 0)
        failed = posix_spawn_file_actions_adddup2(&actions, in_fd, STDIN_FILENO);
    else
        failed = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!failed) failed = posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    if (!failed) failed = posix_spawn_file_actions_adddup2(&actions, err_fd, STDERR_FILENO);
    if (!failed) failed = close_the_rest(&actions);
    if (!failed) failed = posix_spawnattr_setsigmask(&attributes, &none);
    if (!failed) failed = posix_spawnattr_setsigdefault(&attributes, &all);
    if (!failed) failed = posix_spawnattr_setpgroup(&attributes, 0);
    if (!failed)
        failed = posix_spawnattr_setflags(
            &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    if (!failed) failed = posix_spawn(pid, "/bin/sh", &actions, &attributes, call->argv, environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

wg_status wgi_process_start(wgi_process *process, const wgi_process_options *options, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_process started = {.out_fd = -1, .err_fd = -1};
    shell_call call = {.argv = {NULL}};
    int out_end = -1, err_end = -1;

    *process = started;
    WGI_TRY(command_make(&call, options, err));
    WGI_TRY(pipe_open(&started.out_fd, &out_end, err));
    WGI_TRY(pipe_open(&started.err_fd, &err_end, err));

    int failed = spawn(&started.pid, &call, options->stdin_fd, out_end, err_end);
    if (failed) {
        started.pid = 0;
        status = wgi_fail(err, failed == ENOMEM ? WG_ERR_NO_MEMORY : WG_ERR_IO,
                          "%s cannot be started: %s", options->argv[0], strerror(failed));
        goto cleanup;
    }

    *process = started; /* ownership leaves here, only here */
    started = (wgi_process){.out_fd = -1, .err_fd = -1};

cleanup:
    close_end(&out_end);
    close_end(&err_end);
    wgi_process_kill(&started);
    return status;
}

static void end_fill(wgi_process_end *end, pid_t waited, int status)
{
    *end = (wgi_process_end){.is_known = waited > 0, .exit_status = -1};
    if (waited <= 0) return;
    if (WIFEXITED(status))
        end->exit_status = WEXITSTATUS(status);
    else if (WIFSIGNALED(status))
        end->signal = WTERMSIG(status);
}

bool wgi_process_ended(wgi_process *process, wgi_process_end *end)
{
    int status = 0;
    pid_t waited;

    do {
        waited = waitpid(process->pid, &status, WNOHANG);
    } while (waited < 0 && errno == EINTR);
    if (waited == 0) return false;
    process->pid = 0;
    end_fill(end, waited, status);
    return true;
}

void wgi_process_kill(wgi_process *process)
{
    if (process->pid > 0) {
        int status;
        (void)kill(-process->pid, SIGKILL); /* it may have ended: then there is nobody to hear */
        (void)kill(process->pid, SIGKILL);
        while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR)
            continue;
    }
    process->pid = 0;
    close_end(&process->out_fd);
    close_end(&process->err_fd);
}

wg_status wgi_process_wait(const int *fds, size_t count, int stop_fd, int milliseconds,
                           wg_error *err)
{
    struct pollfd polled[WAIT_COUNT_MAX];

    if (count >= WAIT_COUNT_MAX)
        return wgi_fail(err, WG_ERR_LIMIT, "more than %d children at once", WAIT_COUNT_MAX / 2);
    for (size_t i = 0; i < count; i++)
        polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    polled[count] = (struct pollfd){.fd = stop_fd, .events = POLLIN};
    if (poll(polled, (nfds_t)count + 1, milliseconds) < 0) {
        if (errno == EINTR) return WG_OK; /* as if the time were up: the caller looks again */
        return wgi_fail(err, WG_ERR_IO, "poll: %s", strerror(errno));
    }
    if (stop_fd >= 0 && polled[count].revents)
        return wgi_fail(err, WG_ERR_INTERRUPTED, "reading was stopped");
    return WG_OK;
}
