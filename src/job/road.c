/*
 * road.c - one run on one screen: who hands what to whom.
 *
 *   source --(reader thread)--> window --(tokenizer threads)--> engine --(crew: one bin a lane)-->
 *   encoder, embedding head --> window --(the caller's thread, in input order)--> put
 *
 * The window bounds the documents in flight, the engine the tokens that wait; when either is full,
 * the stage before it waits, and asks the engine to cut what it has, so that nobody waits for ever.
 * The first thing that goes wrong stops the run (`fail`); a document that goes wrong is a row. A
 * bin that there was no memory for goes back to the engine, which hands it out again in halves; any
 * other error of the backend may have left it in a state where nothing it says holds, so what is in
 * flight then is thrown away.
 *
 * Threads: fields of `wgi_road` are set before the threads start, or are atomic, or belong to one
 * thread: `tally` to the writer, `lanes[i]` to lane i, `failure` to whoever holds `lock`.
 */
#include "job/road.h"

#include "base/alloc.h"
#include "base/os_clock.h"
#include "job/road_parts.h"

#define WRITER_WAIT_MS 100
#define FLUSH_NS       1000000000u
#define TICK_NS        100000000u /* and at most one wait of the writer later */

/* ------------------------------------------------------------------------------- trouble */

/* No bin in flight counts any more: their passes need not go to the end. */
static void throw_away(wgi_road *road)
{
    atomic_store(&road->is_broken, true);
    if (road->crew) wgi_crew_cancel(road->crew);
}

/* Keeps the first failure and stops everybody. Any thread. */
void wgi_road_fail(void *context, wg_status status, const wg_error *err)
{
    wgi_road *road = context;

    pthread_mutex_lock(&road->lock);
    if (road->failure == WG_OK) {
        road->failure = status;
        road->failure_error = *err;
    }
    pthread_mutex_unlock(&road->lock);
    if (status != WG_ERR_INTERRUPTED) throw_away(road);
    wgi_window_stop(&road->window);
    if (road->engine) wgi_engine_stop(road->engine);
    atomic_store(&road->is_ending, true);
    if (road->crew) wgi_crew_wake(road->crew);
}

void wgi_road_stop(wgi_road *road)
{
    atomic_store(&road->is_stop_asked,
                 true); /* the writer looks at it: nothing else is signal-safe */
}

/* --------------------------------------------------------------------- reader and tokenizers */

static void cut_pending(void *context)
{
    wgi_road *road = context;

    if (road->engine) wgi_engine_flush(road->engine);
}

/* The last tokenizer to leave closes the queue: no sequence can come behind it. */
static void finish_input(void *context)
{
    wgi_road *road = context;

    if (road->engine) wgi_engine_finish(road->engine);
    if (road->padded) wgi_padded_finish(road->padded);
    if (road->crew) wgi_crew_wake(road->crew);
}

static wg_status start_intake(wgi_road *road, wg_error *err)
{
    return wgi_intake_start(&road->intake,
                            &(wgi_intake_options){
                                .window = &road->window,
                                .rules = &road->rules,
                                .thread_count = road->tally.tokenizer_thread_count,
                                .context = road,
                                .next = road->options.next,
                                .next_context = road->options.context,
                                .before_wait = cut_pending,
                                .encoded = wgi_road_encoded,
                                .left = finish_input,
                                .failed = wgi_road_fail,
                            },
                            err);
}

/* ------------------------------------------------------------------------------ workers */

void wgi_road_bin_ready(void *context)
{
    wgi_road *road = context;

    if (road->crew) wgi_crew_wake(road->crew);
}

static wgi_crew_answer take_bin(void *context, size_t lane, void **task)
{
    wgi_road *road = context;
    wgi_bin *bin = NULL;

    if (atomic_load(&road->is_ending)) return WGI_CREW_END;
    if (road->padded) {
        bool is_end = false;
        wg_error err = {0};
        wg_status status = wgi_padded_take(road->padded, lane, &bin, &is_end, &err);
        if (status != WG_OK) wgi_road_fail(road, status, &err);
        if (status != WG_OK || is_end) return WGI_CREW_END;
        *task = bin;
        return bin ? WGI_CREW_TASK : WGI_CREW_NONE;
    }
    switch (wgi_engine_take(road->engine, false, &bin)) {
    case WGI_ENGINE_BIN:
        *task = bin;
        return WGI_CREW_TASK;
    case WGI_ENGINE_NONE:
        return WGI_CREW_NONE;
    default:
        return WGI_CREW_END;
    }
}

static void run_bin(void *context, size_t lane, void *task)
{
    wgi_road *road = context;
    wgi_bin *bin = task;
    wg_error err = {0};

    wg_status status = wgi_road_compute(road, bin, lane, &err);
    if (status == WG_ERR_NO_MEMORY && road->engine) {
        road->lanes[lane].bins_failed++;
        if (wgi_engine_no_memory(road->engine, bin)) return;
        wgi_road_give_up(road, bin);
        status = WG_OK;
    }
    if (status != WG_OK) wgi_road_fail(road, status, &err);
    if (road->engine) wgi_engine_release(road->engine, bin);
}

/* ------------------------------------------------------------------------------- writer */

static wg_status write_row(wgi_road *road, const wgi_entry *entry, wg_error *err)
{
    wgi_tally *tally = &road->tally;
    uint64_t begin = wgi_clock_ns();
    wgi_row row = {
        .ordinal = entry->ordinal,
        .id = entry->id.data,
        .id_bytes = entry->id.count,
        .source = entry->source.data,
        .source_bytes = entry->source.count,
        .place_kind = entry->place_kind,
        .place = entry->place,
        .token_count = entry->token_count,
        .is_truncated = entry->is_truncated,
        .vectors = entry->vectors,
        .vector_count = entry->vector_count,
        .failure = entry->failure,
        .reason = entry->reason,
    };

    tally->documents++;
    if (entry->failure != WG_FAILURE_NONE) {
        tally->failed++;
        tally->failed_by_kind[entry->failure]++;
        atomic_fetch_add(&road->documents_failed, 1);
    } else {
        tally->truncated += entry->is_truncated;
        wgi_tally_tokens(tally, entry->token_count);
        atomic_fetch_add(&road->tokens_done, entry->token_count);
        if (tally->first_row_s == 0)
            tally->first_row_s = (double)(begin - atomic_load(&road->begin_ns)) * 1e-9;
    }
    wg_status status = WG_OK;
    if (road->options.plan_only) {
        if (entry->failure == WG_FAILURE_NONE)
            status = wgi_road_plan_add(road, entry->token_count, err);
        if (entry->failure == WG_FAILURE_NONE || !road->options.put) return status;
    }
    status = road->options.put(road->options.context, &row, err);
    tally->write_s += (double)(wgi_clock_ns() - begin) * 1e-9;
    return status;
}

/* Runs on the caller's thread until all was written or the run has to end. */
static void write_rows(wgi_road *road)
{
    wg_status status = WG_OK;
    wg_error err = {0};
    uint64_t flushed_ns = wgi_clock_ns(), ticked_ns = flushed_ns;
    bool is_dropped = false; /* by tick: nobody waits for the bins in flight */

    while (status == WG_OK) {
        wgi_entry *entry = wgi_window_take(&road->window, WRITER_WAIT_MS);
        if (entry) {
            status = write_row(road, entry, &err);
            wgi_window_recycle(&road->window, entry);
            atomic_fetch_add(&road->documents_done, 1);
        } else if (wgi_window_is_drained(&road->window) || atomic_load(&road->is_ending)) {
            break;
        }
        if (status == WG_OK && road->options.tick && wgi_clock_ns() - ticked_ns >= TICK_NS) {
            is_dropped = road->options.tick(road->options.context) != 0;
            if (is_dropped) wgi_road_stop(road);
            ticked_ns = wgi_clock_ns();
        }
        if (status == WG_OK && atomic_load(&road->is_stop_asked)) {
            status = wgi_fail(&err, WG_ERR_INTERRUPTED, "stopped on request");
            break;
        }
        if (status == WG_OK && road->options.flush && wgi_clock_ns() - flushed_ns > FLUSH_NS) {
            status = road->options.flush(road->options.context, &err);
            flushed_ns = wgi_clock_ns();
        }
    }
    if (status != WG_OK) wgi_road_fail(road, status, &err);
    if (is_dropped) throw_away(road);
}

/* After a stop: the bins in flight are finished, and every done row at the head is written. */
static void write_rest(wgi_road *road)
{
    wg_error err = {0};
    wgi_entry *entry;

    if (road->failure != WG_ERR_INTERRUPTED) return;
    while ((entry = wgi_window_take(&road->window, 0))) {
        wg_status status = write_row(road, entry, &err);
        wgi_window_recycle(&road->window, entry);
        atomic_fetch_add(&road->documents_done, 1);
        if (status != WG_OK) {
            road->failure = status;
            road->failure_error = err;
            return;
        }
    }
}

/* ---------------------------------------------------------------------------------- run */

wg_status wgi_road_run(wgi_road *road, wg_error *err)
{
    wg_status status = WG_OK;
    wg_error first = {0};

    atomic_store(&road->begin_ns, wgi_clock_ns());
    if (!road->options.plan_only)
        status = wgi_crew_open(&road->crew,
                               &(wgi_crew_options){.lane_count = road->tally.thread_count,
                                                   .take = take_bin,
                                                   .run = run_bin,
                                                   .context = road},
                               &first);
    if (status == WG_OK) status = start_intake(road, &first);
    if (status == WG_OK)
        write_rows(road);
    else
        wgi_road_fail(road, status, &first);

    if (road->failure != WG_OK && road->options.interrupt)
        road->options.interrupt(road->options.context);
    wgi_intake_join(&road->intake);
    wgi_crew_join(road->crew); /* freed after the engine, whose packer may still wake it */
    write_rest(road);

    road->tally.run_s = (double)(wgi_clock_ns() - atomic_load(&road->begin_ns)) * 1e-9;
    wgi_road_settle(road);
    if (road->failure != WG_OK && err) *err = road->failure_error;
    return road->failure;
}

wg_progress wgi_road_progress(const wgi_road *road)
{
    uint64_t begin = atomic_load(&road->begin_ns);

    return (wg_progress){
        .documents_read = atomic_load(&road->intake.documents_read),
        .documents_done = atomic_load(&road->documents_done),
        .documents_failed = atomic_load(&road->documents_failed),
        .tokens_done = atomic_load(&road->tokens_done),
        .input_is_done = atomic_load(&road->intake.is_input_done),
        .seconds = begin ? (double)(wgi_clock_ns() - begin) * 1e-9 : 0,
    };
}

const wgi_tally *wgi_road_tally(const wgi_road *road)
{
    return &road->tally;
}

size_t wgi_road_dim(const wgi_road *road)
{
    return road->head.dim;
}

bool wgi_road_is_row_a_token(const wgi_road *road)
{
    return road->head.pooling == WG_POOLING_NONE;
}
