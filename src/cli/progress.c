/*
 * progress.c - shows where a job stands while it runs: a bar with rate and time left on a terminal,
 * a line now and then elsewhere.
 *
 * Idea: the share that is done is documents finished out of documents expected; how many are
 * expected is guessed from the bytes read so far until the input is at its end. The rate is the
 * average since the start, which is what the time left is worth.
 *
 * A line in plain mode comes after 5 s, then whenever the time since the start has grown by a
 * quarter, at most a minute apart: a short run says nothing, a long one does not fill a log.
 *
 * Threads: one display thread a job; it reads wg_job_progress() and writes through screen.c. `lock`
 * guards `is_over`.
 */
#include "cli.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct cli_progress {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_over;
    bool is_bar;
    const wg_job *job;
};

enum { TICK_NS = 200000000 };

/* Share of the work that is done, in [0, 1], or -1 when it cannot be told. */
static double share_done(const wg_progress *now)
{
    double done = (double)(now->documents_done + now->documents_failed);
    double expected = (double)now->documents_read;

    if (!now->input_is_done) {
        if (now->bytes_total == 0 || now->bytes_read == 0) return -1;
        /* The count of compressed or converted bytes may overtake the sizes of the files. */
        if (now->bytes_read < now->bytes_total)
            expected *= (double)now->bytes_total / (double)now->bytes_read;
    }
    if (expected < 1) return 0;
    return done < expected ? done / expected : 1;
}

static void compose(const wg_progress *now, bool is_bar, char *line, size_t line_bytes)
{
    char documents[CLI_NUMBER_BYTES], rate[CLI_NUMBER_BYTES], left[CLI_NUMBER_BYTES];
    char failed[CLI_NUMBER_BYTES + 16] = "", bar[64] = "";
    double share = share_done(now);
    double per_second = now->seconds > 0 ? (double)now->tokens_done / now->seconds : 0;
    size_t used = 0;

    if (now->documents_failed > 0) {
        char count[CLI_NUMBER_BYTES];
        (void)snprintf(failed, sizeof(failed), ", %s failed",
                       cli_count_text(count, now->documents_failed));
    }
    if (is_bar && share >= 0) {
        enum { CELLS = 24 };
        size_t full = (size_t)(share * CELLS);
        bar[0] = '[';
        for (size_t i = 0; i < CELLS; i++)
            bar[1 + i] = i < full ? '#' : '.';
        memcpy(bar + 1 + CELLS, "] ", 3);
    }
    if (share >= 0) used += (size_t)snprintf(line, line_bytes, "%s%3.0f %%  ", bar, 100 * share);
    used += (size_t)snprintf(line + used, line_bytes - used, "%s documents%s  %s tokens/s",
                             cli_count_text(documents, now->documents_done), failed,
                             cli_count_text(rate, (uint64_t)per_second));
    if (share > 0.01 && share < 1)
        (void)snprintf(line + used, line_bytes - used, "  %s left",
                       cli_time_text(left, now->seconds * (1 - share) / share));
}

static void show(const cli_progress *progress, const wg_progress *now)
{
    char line[256] = "";

    compose(now, progress->is_bar, line, sizeof(line));
    if (!progress->is_bar) {
        cli_say("%s", line);
        return;
    }
    size_t columns = cli_screen_columns();
    if (columns > 0 && strlen(line) >= columns) line[columns - 1] = '\0';
    cli_bar_show(line);
}

static void *display_main(void *argument)
{
    cli_progress *progress = argument;
    double next_line = 5;

    (void)pthread_mutex_lock(&progress->lock);
    while (!progress->is_over) {
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TICK_NS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        (void)pthread_cond_timedwait(&progress->wake, &progress->lock, &until);
        if (progress->is_over) break;
        wg_progress now = wg_job_progress(progress->job);
        if (!progress->is_bar && now.seconds < next_line) continue;
        show(progress, &now);
        next_line = now.seconds + (now.seconds > 240 ? 60 : now.seconds / 4);
    }
    (void)pthread_mutex_unlock(&progress->lock);
    return NULL;
}

/* A bar would run through results that are shown on the same terminal. */
static bool wants_bar(const cli_settings *settings)
{
    const char *output = settings->job.output;
    bool is_to_screen = (!output || strcmp(output, "-") == 0) && isatty(STDOUT_FILENO);

    return settings->progress == CLI_PROGRESS_AUTO && isatty(STDERR_FILENO) && !is_to_screen;
}

cli_progress *cli_progress_start(const wg_job *job, const cli_settings *settings)
{
    static cli_progress one; /* a process shows one job at a time */
    pthread_condattr_t attributes;

    if (settings->progress == CLI_PROGRESS_NONE) return NULL;
    one.is_over = false;
    one.is_bar = wants_bar(settings);
    one.job = job;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&one.lock, NULL);
    (void)pthread_cond_init(&one.wake, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    if (pthread_create(&one.thread, NULL, display_main, &one) != 0) return NULL;
    (void)pthread_setname_np(one.thread, "wg-display");
    return &one;
}

void cli_progress_stop(cli_progress *progress)
{
    if (!progress) return;
    (void)pthread_mutex_lock(&progress->lock);
    progress->is_over = true;
    (void)pthread_cond_signal(&progress->wake);
    (void)pthread_mutex_unlock(&progress->lock);
    (void)pthread_join(progress->thread, NULL);
    (void)pthread_cond_destroy(&progress->wake);
    (void)pthread_mutex_destroy(&progress->lock);
    cli_bar_show("");
}
