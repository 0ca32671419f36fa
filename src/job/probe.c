/*
 * probe.c - capacity and knee of this machine for a model and a task.
 *
 *   formula   peak bytes of a bin size (footprint.c), searched by doubling and bisection. No memory
 *             is touched, so a ceiling of hundreds of gigabytes costs nothing.
 *   child     What the formula said is allocated and touched, and a forward pass run, in a process
 *             that may be killed; when it does not fit, less is tried.
 *   knee      Bins up to KNEE_TOKENS_MAX are timed here, all workers at once.
 *
 * A pass over a bin of millions of tokens would take minutes: the child runs what takes about
 * VERIFY_TOKENS a worker, after every page of the full size was written.
 *
 * Threads: none of the library may be running (the child is a fork).
 */
#include "warpgroup/capacity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/os_fork.h"
#include "base/os_processor.h"
#include "job/capacity_cache.h"
#include "job/synthetic.h"

#define KNEE_TOKENS_MAX  8192
#define VERIFY_TOKENS    4096
#define VERIFY_TRIES     8
#define VERIFY_MS        120000
#define VERIFY_STEP_DOWN 0.9 /* of the tokens, after a child that did not fit */

typedef struct probing {
    wgi_footprint footprint;
    wgi_budget budget;
} probing;

static uint64_t bytes_of(const probing *p, uint64_t tokens)
{
    wgi_footprint footprint = p->footprint;
    uint64_t total;

    footprint.bin_tokens = (size_t)tokens;
    if (__builtin_add_overflow(p->budget.held, wgi_footprint_bytes(&footprint), &total))
        return UINT64_MAX;
    return total;
}

static wg_fit fits_by_formula(void *context, uint64_t tokens, double *seconds)
{
    const probing *p = context;

    (void)seconds;
    return bytes_of(p, tokens) <= p->budget.ceiling ? WG_FIT_YES : WG_FIT_NO;
}

/* In the child: 0 it ran, 1 no memory, 2 anything else. */
static int run_in_child(void *context)
{
    const probing *p = context;
    size_t tokens = p->footprint.bin_tokens;
    double seconds;

    wg_status status = wgi_synthetic_run(
        &p->footprint, tokens < VERIFY_TOKENS ? tokens : VERIFY_TOKENS, &seconds, NULL);
    return status == WG_OK ? 0 : status == WG_ERR_NO_MEMORY ? 1 : 2;
}

static wg_status verify(probing *p, wg_probe *out, wg_error *err)
{
    for (out->tries_in_child = 1; out->tries_in_child <= VERIFY_TRIES; out->tries_in_child++) {
        wgi_fork_end end;
        wg_status status = wgi_fork_run(run_in_child, p, VERIFY_MS, &end, err);
        if (status != WG_OK) return status;
        if (end.is_exited && end.exit_code == 2)
            return wgi_fail(err, WG_ERR_BACKEND, "the synthetic forward pass failed in its child");
        out->verified_bytes = end.peak_bytes;
        if (end.is_exited && end.exit_code == 0 && end.peak_bytes <= p->budget.ceiling) {
            out->capacity_tokens = p->footprint.bin_tokens;
            out->verified_run_tokens =
                out->capacity_tokens < VERIFY_TOKENS ? out->capacity_tokens : VERIFY_TOKENS;
            return WG_OK;
        }
        wgi_log(WG_LOG_WARNING, "bins of %zu tokens did not fit (%s, peak %" PRIu64 " MiB)",
                p->footprint.bin_tokens,
                end.is_timed_out ? "no answer in time"
                : end.signal     ? "killed"
                                 : "no memory",
                end.peak_bytes >> 20);
        size_t less = (size_t)((double)p->footprint.bin_tokens * VERIFY_STEP_DOWN);
        if (less < p->footprint.longest) break;
        p->footprint.bin_tokens = less;
    }
    return wgi_fail(err, WG_ERR_LIMIT,
                    "bins of %zu tokens do not fit: free memory, use fewer threads, or a smaller "
                    "max-length",
                    p->footprint.bin_tokens);
}

static wg_fit run_timed(void *context, uint64_t tokens, double *seconds)
{
    wgi_footprint footprint = ((const probing *)context)->footprint;
    wg_error err = {0};

    footprint.bin_tokens = (size_t)tokens;
    wg_status status = wgi_synthetic_run(&footprint, (size_t)tokens, seconds, &err);
    if (status == WG_ERR_NO_MEMORY) return WG_FIT_NO;
    return status == WG_OK ? WG_FIT_YES : WG_FIT_ERROR;
}

static wg_status find_knee(probing *p, wg_probe *out, wg_error *err)
{
    uint64_t most = out->capacity_tokens < KNEE_TOKENS_MAX ? out->capacity_tokens : KNEE_TOKENS_MAX;
    wg_capacity found;

    /* The start is the limit, so that each size is timed by the knee alone. */
    wg_status status = wg_capacity_measure(&found,
                                           &(wg_capacity_options){
                                               .run = run_timed,
                                               .context = p,
                                               .start_tokens = most,
                                               .tokens_max = most,
                                               .knee_from_tokens = p->footprint.longest,
                                           },
                                           err);
    if (status != WG_OK) return status;
    out->knee_tokens = found.knee_tokens;
    out->knee_tokens_per_s = found.knee_tokens_per_s * p->footprint.lane_count;
    out->best_tokens_per_s = found.best_tokens_per_s * p->footprint.lane_count;
    return WG_OK;
}

static wg_status measure(probing *p, const wg_probe_options *options, wg_probe *out, wg_error *err)
{
    wg_status status = WG_OK;
    wg_capacity found;

    status = wg_capacity_measure(&found,
                                 &(wg_capacity_options){
                                     .run = fits_by_formula,
                                     .context = p,
                                     .start_tokens = p->footprint.longest,
                                     .resolution = 0.01,
                                     .skip_knee = 1,
                                 },
                                 NULL);
    if (status == WG_ERR_LIMIT)
        return wgi_fail(err, status,
                        "texts of %zu tokens need %" PRIu64 " MiB of memory with %u thread%s, the "
                        "ceiling is %" PRIu64 " MiB (%s): use --memory %" PRIu64 "M, %sor a "
                        "smaller max-length",
                        p->footprint.longest, wgi_memory_figure(bytes_of(p, p->footprint.longest)),
                        p->footprint.lane_count, p->footprint.lane_count == 1 ? "" : "s",
                        p->budget.ceiling >> 20, p->budget.rule,
                        wgi_memory_figure(bytes_of(p, p->footprint.longest)),
                        p->footprint.lane_count > 1 ? "fewer threads, " : "");
    if (status != WG_OK) return status;
    p->footprint.bin_tokens = (size_t)found.tokens;
    WGI_TRY(verify(p, out, err));
    out->predicted_bytes = bytes_of(p, out->capacity_tokens);
    out->bytes_per_token = (double)(bytes_of(p, 2 * out->capacity_tokens) - out->predicted_bytes) /
                           (double)out->capacity_tokens / p->footprint.lane_count;
    if (!options->skip_knee) WGI_TRY(find_knee(p, out, err));

cleanup:
    return status;
}

wg_status wg_model_probe(const wg_model *model, const wg_probe_options *options, wg_probe *out,
                         wg_error *err)
{
    wg_status status = WG_OK;
    wgi_embed_head head = {0};
    probing p = {0};

    if (!model || !options || !out)
        return wgi_fail(err, WG_ERR_ARGUMENT, "wg_model_probe: model, options or out is NULL");
    memset(out, 0, sizeof(*out));
    if (options->task != WG_TASK_EMBED)
        return wgi_fail(err, WG_ERR_ARGUMENT, "%d is no task", (int)options->task);
    if (options->embed.token_count_max > model->info.position_count)
        return wgi_fail(err, WG_ERR_ARGUMENT, "max-length %u is above the model's %u positions",
                        options->embed.token_count_max, model->info.position_count);
    WGI_TRY(wgi_embed_head_init(&head, &options->embed, &model->modules, &model->description,
                                model->backend, err));
    p.footprint = (wgi_footprint){
        .model = model,
        .head = &head,
        .lane_count = options->embed.thread_count ? options->embed.thread_count : wgi_core_count(),
        .longest = options->embed.token_count_max ? options->embed.token_count_max
                                                  : model->modules.token_count_default,
        .tightness = WGI_TIGHTNESS_MAX, /* the largest bins that a run would take */
    };
    p.budget = wgi_budget_now(model, options->embed.memory_bytes);
    wgi_capacity_key(&p.footprint, options->task, options->embed.memory_bytes, p.budget.ceiling,
                     out->key);
    out->is_from_cache =
        !options->ignore_cache && wgi_capacity_cache_find(options->cache_path, out);
    if (!out->is_from_cache) WGI_TRY(measure(&p, options, out, err));
    out->token_count_max = p.footprint.longest;
    out->thread_count = p.footprint.lane_count;
    out->held_bytes = p.budget.held;
    out->budget_bytes = p.budget.ceiling;
    (void)snprintf(out->budget_rule, sizeof(out->budget_rule), "%s", p.budget.rule);
    if (!out->is_from_cache) wgi_capacity_cache_keep(options->cache_path, out);

cleanup:
    wgi_embed_head_fini(&head);
    return status;
}
