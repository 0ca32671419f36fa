/*
 * pace.c - the adaptive window, and the fixed one.
 *
 * Adaptive. A bin is cut at once when the look-ahead is full, when somebody presses, or when a
 * deadline would otherwise pass. Else bins form as late as they may: while the device is busy,
 * waiting is free. When a worker is idle, waiting pays only if it spares later arrivals a run of
 * their own: with p tokens pending, arrivals at r tokens/s and a bin of n tokens running for s(n) =
 * a + b n, one text that just misses the bin waits s(p) for the next. As long as more arrives
 * during s(p) than is pending, p < k r s(p), the bin grows; with fewer it is cut. At light load r s
 * is below one text, so the first text goes at once; near saturation the bin grows to where fixed
 * windows would have held it. k is a little above 1, so that a device that is nearly busy runs as
 * full bins as under the fixed window. No text waits longer for company than one such run or
 * window_us, whichever is shorter.
 *
 * r is a moving average over about four runs, b and a a decayed least-squares line through the bins
 * served. Refused: a window that grows and shrinks by steps (it oscillates with bursts), and
 * cutting at every idle moment (the first text of a burst then runs alone, the rest waits for it).
 *
 * With classes, a bin that nobody can run yet stays open even when it could be filled: what arrives
 * while the device is busy, and goes first, then waits for the rest of one run and not of two.
 *
 * Fixed: after window_sequences or window_us, whether the device is busy or not.
 *
 * Threads: none.
 */
#include "engine/pace.h"

#include <math.h>
#include <string.h>

#define NEVER            UINT64_MAX
#define GROW             1.1  /* k: measured, see docs/packing.md */
#define SERVED_DECAY     0.95 /* of a bin's weight in the line, per bin */
#define AVERAGE_RUNS     4.0  /* time constant of the arrival average, in runs */
#define LEAD_SHARE       0.02 /* of a run, for its time may be misjudged */
#define AVERAGE_NS_LEAST 1e6
#define AVERAGE_NS_MOST  2e8

void wgi_pace_init(wgi_pace *pace, const wg_engine_options *options)
{
    memset(pace, 0, sizeof(*pace));
    pace->window = options->window;
    pace->window_sequences = options->window_sequences ? options->window_sequences : 16;
    pace->window_ns = (options->window_us ? options->window_us : 5000) * (uint64_t)1000;
    pace->bin_tokens = options->bin_tokens;
    pace->lookahead_tokens = options->lookahead_tokens;
    pace->worker_count = options->worker_count;
    pace->cuts_late = options->class_count > 1;
}

void wgi_pace_arrived(wgi_pace *pace, uint64_t tokens, uint64_t now)
{
    double elapsed, constant, share;

    if (now <= pace->arrival_ns) {
        /* The same instant: what came counts as spread over the average's own time. */
        pace->tokens_per_ns += (double)tokens / AVERAGE_NS_LEAST;
        return;
    }
    elapsed = (double)(now - pace->arrival_ns);
    constant = AVERAGE_RUNS * wgi_pace_service_ns(pace, pace->bin_tokens / 2);
    if (constant < AVERAGE_NS_LEAST) constant = AVERAGE_NS_LEAST;
    if (constant > AVERAGE_NS_MOST) constant = AVERAGE_NS_MOST;
    share = -expm1(-elapsed / constant);
    pace->tokens_per_ns += share * ((double)tokens / elapsed - pace->tokens_per_ns);
    pace->arrival_ns = now;
}

void wgi_pace_served(wgi_pace *pace, uint64_t tokens, uint64_t ns)
{
    double x = (double)tokens, y = (double)ns;

    pace->weight = SERVED_DECAY * pace->weight + 1.0;
    pace->x = SERVED_DECAY * pace->x + x;
    pace->y = SERVED_DECAY * pace->y + y;
    pace->xx = SERVED_DECAY * pace->xx + x * x;
    pace->xy = SERVED_DECAY * pace->xy + x * y;
}

double wgi_pace_service_ns(const wgi_pace *pace, uint64_t tokens)
{
    double mean_x, mean_y, spread, slope;

    if (pace->weight <= 0.0) return 0.0;
    mean_x = pace->x / pace->weight;
    mean_y = pace->y / pace->weight;
    spread = pace->xx / pace->weight - mean_x * mean_x;
    slope = 0.0;
    if (spread > 1e-6 * mean_x * mean_x)
        slope = (pace->xy / pace->weight - mean_x * mean_y) / spread;
    /* Neither a negative price of a token nor a negative one of a bin. */
    if (slope < 0.0) slope = 0.0;
    if (slope * mean_x > mean_y) slope = mean_y / mean_x;
    return mean_y + slope * ((double)tokens - mean_x);
}

/* How long a bin out of what is pending will run. */
static double run_ns(const wgi_pace *pace, const wgi_pace_view *view)
{
    uint64_t tokens = view->tokens < pace->bin_tokens ? view->tokens : pace->bin_tokens;

    return wgi_pace_service_ns(pace, tokens);
}

static wgi_pace_answer cut(wgi_pace_reason reason)
{
    return (wgi_pace_answer){.reason = reason, .wake_ns = NEVER, .wake_tokens = NEVER};
}

static void wake_at(wgi_pace_answer *answer, uint64_t now, uint64_t when)
{
    if (when <= now) when = now + 1;
    if (when < answer->wake_ns) answer->wake_ns = when;
}

static wgi_pace_answer decide_fixed(const wgi_pace *pace, const wgi_pace_view *view, uint64_t now)
{
    wgi_pace_answer answer = {WGI_PACE_NOT_YET, NEVER, view->tokens + 1};

    if (view->sequences >= pace->window_sequences || now - view->arrival_ns >= pace->window_ns)
        return cut(WGI_PACE_WINDOW);
    wake_at(&answer, now, view->arrival_ns + pace->window_ns);
    return answer;
}

/* A worker waits: grow the bin, or let it go? */
static wgi_pace_answer decide_idle(const wgi_pace *pace, const wgi_pace_view *view, uint64_t now)
{
    double run = GROW * run_ns(pace, view);
    double target = pace->tokens_per_ns * run;
    uint64_t longest = run < (double)pace->window_ns ? (uint64_t)run : pace->window_ns;
    wgi_pace_answer answer = {WGI_PACE_NOT_YET, NEVER, NEVER};

    if (target > (double)pace->bin_tokens) target = (double)pace->bin_tokens;
    if ((double)view->tokens >= target || now - view->arrival_ns >= longest)
        return cut(WGI_PACE_IDLE);
    wake_at(&answer, now, view->arrival_ns + longest);
    answer.wake_tokens = (uint64_t)target + 1;
    return answer;
}

/* Nobody could run the bin yet, or another one stands ready: until then it stays open. */
static bool is_too_early(const wgi_pace *pace, const wgi_pace_view *view, uint64_t now,
                         wgi_pace_answer *answer)
{
    uint64_t lead = pace->lead_ns + (uint64_t)(LEAD_SHARE * run_ns(pace, view));

    if (view->idle_count > view->ready_count) return false;
    if (view->ready_count > 0) return true;
    if (view->free_ns == NEVER || now + lead >= view->free_ns) return false;
    wake_at(answer, now, view->free_ns - lead);
    return true;
}

wgi_pace_answer wgi_pace_decide(const wgi_pace *pace, const wgi_pace_view *view, uint64_t now)
{
    wgi_pace_answer answer = {WGI_PACE_NOT_YET, NEVER, NEVER};
    uint64_t plenty = pace->lookahead_tokens;

    if (view->tokens == 0) {
        answer.wake_tokens = 1;
        return answer;
    }
    if (pace->cuts_late && is_too_early(pace, view, now, &answer)) return answer;
    if (view->is_pressed) return cut(WGI_PACE_PRESSED);
    if (view->ready_count < pace->worker_count && 2 * pace->bin_tokens < plenty)
        plenty = 2 * pace->bin_tokens;
    if (view->tokens >= plenty) return cut(WGI_PACE_FULL);
    if (pace->window == WG_WINDOW_FIXED) return decide_fixed(pace, view, now);
    answer.wake_tokens = plenty;
    if (view->deadline_ns != NEVER) {
        /* The bin before it and its own must both be run until then. */
        double need = (2.0 + view->ready_count) * run_ns(pace, view);
        uint64_t latest =
            view->deadline_ns > (uint64_t)need ? view->deadline_ns - (uint64_t)need : 0;

        if (now >= latest) return cut(WGI_PACE_DEADLINE);
        wake_at(&answer, now, latest);
    }
    if (view->ready_count > 0) return answer;
    if (view->idle_count > 0 || (view->free_ns != NEVER && now + pace->lead_ns >= view->free_ns)) {
        wgi_pace_answer idle = decide_idle(pace, view, now);

        if (idle.reason != WGI_PACE_NOT_YET) return idle;
        if (idle.wake_ns < answer.wake_ns) answer.wake_ns = idle.wake_ns;
        if (idle.wake_tokens < answer.wake_tokens) answer.wake_tokens = idle.wake_tokens;
    } else if (view->free_ns != NEVER) {
        wake_at(&answer, now, view->free_ns - pace->lead_ns);
    }
    return answer;
}
