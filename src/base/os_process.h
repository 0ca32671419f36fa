/*
 * os_process.h - a child process with limits, whose output is read without blocking. Needs /bin/sh.
 */
#ifndef WGI_OS_PROCESS_H
#define WGI_OS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

typedef struct wgi_process_options {
    const char *const *argv; /* NULL at the end; argv[0] is looked up in PATH */
    int stdin_fd;            /* borrowed; -1: nothing to read */
    uint64_t memory_bytes;   /* address space; 0: no limit */
    uint64_t cpu_seconds;    /* 0: no limit */
} wgi_process_options;

/* The caller's struct: wgi_process_start fills it, wgi_process_kill empties it. */
typedef struct wgi_process {
    pid_t pid;  /* 0: ended and waited for, or never started */
    int out_fd; /* standard output and error of the child, -1 once closed; they do not block */
    int err_fd;
} wgi_process;

/* Why and how a child ended. */
typedef struct wgi_process_end {
    bool is_known;   /* false: the host program ignores SIGCHLD and took the status */
    int exit_status; /* -1: killed by `signal` */
    int signal;
} wgi_process_end;

/* WG_ERR_UNSUPPORTED: there is no such program. On failure nothing runs. */
wg_status wgi_process_start(wgi_process *process, const wgi_process_options *options,
                            wg_error *err);
/* Has it ended? Never blocks; after true the child is gone and *end is filled. */
bool wgi_process_ended(wgi_process *process, wgi_process_end *end);
/* Ends the child (and what it started) if it runs, waits for it, closes the pipes. */
void wgi_process_kill(wgi_process *process);

/* Waits until one of the descriptors can be read (negative ones are passed over), the time is up,
 * or stop_fd is raised. Fewer than 1,000 descriptors. */
wg_status wgi_process_wait(const int *fds, size_t count, int stop_fd, int milliseconds,
                           wg_error *err);

#endif
