/*
 * os_fork.h - runs a function in a child process that may be killed without harm to this one.
 *
 * For work that may run out of memory: an over-commit is answered by the kernel with a kill, and
 * the child asks to be the one. The child is a copy of this process with the calling thread only,
 * so call this while no other thread of the library works.
 */
#ifndef WGI_OS_FORK_H
#define WGI_OS_FORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct wgi_fork_end {
    bool is_exited;      /* by itself: exit_code holds */
    int exit_code;       /* what the body returned, 0 to 255 */
    int signal;          /* that killed it, or 0 */
    bool is_timed_out;   /* killed here, after timeout_ms */
    uint64_t peak_bytes; /* peak resident set of the child */
} wgi_fork_end;

/* The body must not return to the caller's world: no output, no exit handlers run after it. */
wg_status wgi_fork_run(int (*body)(void *context), void *context, uint64_t timeout_ms,
                       wgi_fork_end *end, wg_error *err);

#endif
