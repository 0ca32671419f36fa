/*
 * thread.c - a named POSIX thread that signals do not reach: they belong to the program around.
 */
#include "base/thread.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

wg_status wgi_thread_start(pthread_t *out, const char *name, void *(*body)(void *), void *context,
                           wg_error *err)
{
    sigset_t all, before;

    /* A thread inherits the mask, so it is set for the moment of creation. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(out, NULL, body, context);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure) return wgi_fail(err, WG_ERR_NO_MEMORY, "thread %s: %s", name, strerror(failure));

    char cut[16];
    int length = snprintf(cut, sizeof(cut), "%s", name);
    if (length >= 0)
        (void)pthread_setname_np(*out, cut); /* a name is for people; losing it is fine */
    return WG_OK;
}
