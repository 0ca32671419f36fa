/*
 * thread.h - a named POSIX thread.
 */
#ifndef WGI_THREAD_H
#define WGI_THREAD_H

#include <pthread.h>

#include "base/status.h"

/* Starts a thread with all signals blocked; the name (at most 15 bytes) shows in top and gdb. */
wg_status wgi_thread_start(pthread_t *out, const char *name, void *(*body)(void *), void *context,
                           wg_error *err);

#endif
