/*
 * log.c - one process-wide callback behind a lock; see log.h.
 */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the three below */
static wg_log_function function;
static void *function_context;
static wg_log_level level_most;

void wg_log_set(wg_log_function callback, void *context, wg_log_level most)
{
    pthread_mutex_lock(&lock);
    function = callback;
    function_context = context;
    level_most = most;
    pthread_mutex_unlock(&lock);
}

void wgi_log(wg_log_level level, const char *format, ...)
{
    char message[1024];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&lock);
    if (function && level <= level_most) function(function_context, level, message);
    pthread_mutex_unlock(&lock);
}
