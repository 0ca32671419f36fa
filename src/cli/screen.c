/*
 * screen.c - standard error, for people: messages, log lines, and the one line of the progress bar.
 *
 * Idea: a bar and messages share the terminal, so both go through one lock; a message first takes
 * the bar away, and the display thread draws it again with its next tick.
 *
 * Threads: any; `lock` guards the bar's state and keeps lines whole.
 */
#include "cli.h"

#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool bar_is_shown;

static void bar_clear(void)
{
    if (!bar_is_shown) return;
    fputs("\r\033[K", stderr);
    bar_is_shown = false;
}

__attribute__((format(printf, 2, 0))) static void say(const char *prefix, const char *format,
                                                      va_list arguments)
{
    (void)pthread_mutex_lock(&lock);
    bar_clear();
    fputs(prefix, stderr);
    (void)vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    (void)fflush(stderr);
    (void)pthread_mutex_unlock(&lock);
}

void cli_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say("", format, arguments);
    va_end(arguments);
}

void cli_complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say("warpgroup: ", format, arguments);
    va_end(arguments);
}

void cli_bar_show(const char *line)
{
    (void)pthread_mutex_lock(&lock);
    bar_clear();
    if (*line) {
        fputs(line, stderr);
        bar_is_shown = true;
    }
    (void)fflush(stderr);
    (void)pthread_mutex_unlock(&lock);
}

size_t cli_screen_columns(void)
{
    struct winsize window = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return 80;
    return window.ws_col;
}

void cli_log(void *context, wg_log_level level, const char *message)
{
    static const char *const words[] = {"", "warning: ", "", "debug: "};

    (void)context;
    cli_complain("%s%s", words[level], message);
}

const char *cli_count_text(char *buffer, uint64_t count)
{
    char digits[24];
    size_t digit_count =
        (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
    size_t used = 0;

    for (size_t i = 0; i < digit_count; i++) {
        if (i > 0 && (digit_count - i) % 3 == 0) buffer[used++] = ',';
        buffer[used++] = digits[i];
    }
    buffer[used] = '\0';
    return buffer;
}

const char *cli_size_text(char *buffer, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double amount = (double)bytes;
    size_t unit = 0;

    while (amount >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        amount /= 1024;
        unit++;
    }
    (void)snprintf(buffer, CLI_NUMBER_BYTES, "%.*f %s", unit == 0 || amount >= 100 ? 0 : 1, amount,
                   units[unit]);
    return buffer;
}

const char *cli_time_text(char *buffer, double seconds)
{
    if (!(seconds >= 0)) seconds = 0;
    if (seconds > 3.6e8) seconds = 3.6e8;
    unsigned long whole = (unsigned long)seconds;
    if (seconds < 100)
        (void)snprintf(buffer, CLI_NUMBER_BYTES, "%.*f s", seconds < 10 ? 2 : 1, seconds);
    else if (whole < 3600)
        (void)snprintf(buffer, CLI_NUMBER_BYTES, "%lu:%02lu min", whole / 60, whole % 60);
    else
        (void)snprintf(buffer, CLI_NUMBER_BYTES, "%lu:%02lu:%02lu h", whole / 3600, whole / 60 % 60,
                       whole % 60);
    return buffer;
}
