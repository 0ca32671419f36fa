/*
 * os_fork.c - a function in a child process; see os_fork.h.
 */
#include "base/os_fork.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os_clock.h"

static void become_expendable(void)
{
    sigset_t none;
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        ssize_t written = write(fd, "1000", 4); /* where it is refused, the kernel chooses itself */
        (void)written;
        (void)close(fd);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

wg_status wgi_fork_run(int (*body)(void *context), void *context, uint64_t timeout_ms,
                       wgi_fork_end *end, wg_error *err)
{
    uint64_t until = wgi_clock_ns() + timeout_ms * 1000000u;
    struct rusage usage;
    int how = 0;

    *end = (wgi_fork_end){0};
    pid_t child = fork();
    if (child < 0) return wgi_fail(err, WG_ERR_IO, "fork: %s", strerror(errno));
    if (child == 0) {
        become_expendable();
        _exit(body(context) & 255);
    }
    for (;;) {
        pid_t got = wait4(child, &how, WNOHANG, &usage);
        if (got == child) break;
        if (got < 0 && errno != EINTR)
            return wgi_fail(err, WG_ERR_IO, "wait for a child process: %s", strerror(errno));
        if (!end->is_timed_out && wgi_clock_ns() > until) {
            end->is_timed_out = true;
            (void)kill(child, SIGKILL);
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    end->is_exited = WIFEXITED(how);
    end->exit_code = end->is_exited ? WEXITSTATUS(how) : 0;
    end->signal = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
    end->peak_bytes = (uint64_t)usage.ru_maxrss * 1024u;
    return WG_OK;
}
