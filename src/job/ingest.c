/*
 * ingest.c - files into the engine of a program that has a model of its own.
 *
 *   wg_reader --(wg-read)--> window --(wg-tok-N)--> ids in the window's entries --(wg-submit)-->
 *   told, then wg_engine_submit_within
 *
 * The first two stops are those of a job (intake.h). A job's tokenizers submit what they have as it
 * comes, because its rows find their order again in the window; here there is nothing behind the
 * engine that could, so one thread takes the entries in input order and submits them. A full engine
 * holds that thread back, it the window, and the window the reader.
 *
 * A document is told before it is submitted: whoever takes a bin knows every document in it.
 *
 * Refused: submitting from the tokenizers with a lock around the order. They would stand in line
 * for the slowest text, which the window does without holding a thread.
 *
 * Threads: `lock` guards counts, failure and is_done; the rest is set before the threads start.
 */
#include "warpgroup/ingest.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os_clock.h"
#include "base/os_processor.h"
#include "base/thread.h"
#include "engine/dispatcher.h"
#include "job/intake.h"

#define WINDOW_DOCUMENTS   4096
#define WINDOW_BYTES       ((size_t)64 << 20)
#define SLICE_MS           50 /* the longest that a stop or a closed engine is not noticed */
#define NS_PER_MS          1000000u
#define THREADS_BY_DEFAULT 8

struct wg_ingest {
    wg_ingest_options options;
    wg_reader *reader;
    wgi_window window;
    wgi_intake intake;
    wgi_text_rules rules;
    pthread_t submitter;
    bool has_submitter;
    atomic_bool is_stop_asked;

    pthread_mutex_t lock;
    pthread_cond_t done;
    wg_ingest_counts counts;
    wg_status failure;
    wg_error failure_error;
    bool is_whole; /* the reader came to the end of its input */
    bool is_done;
};

/* ------------------------------------------------------------------------ reader, tokenizers */

static wg_status next_document(void *context, wg_document *document, int *has_document,
                               wg_error *err)
{
    wg_ingest *ingest = context;

    wg_status status = wg_reader_next(ingest->reader, document, has_document, err);
    (void)pthread_mutex_lock(&ingest->lock);
    ingest->counts.reader = wg_reader_counted(ingest->reader);
    ingest->is_whole = status == WG_OK && !*has_document;
    (void)pthread_mutex_unlock(&ingest->lock);
    return status;
}

/* The ids stay in the entry until its turn has come; its text is not needed any more. */
static wg_status keep_ids(void *context, wgi_entry *entry, const wgi_ids *ids, wg_error *err)
{
    wg_ingest *ingest = context;

    wgi_buf_fini(&entry->text);
    if (entry->failure == WG_FAILURE_NONE) {
        wg_status status =
            wgi_grow(&entry->ids, &entry->id_capacity, ids->count, sizeof(int32_t), err);
        if (status != WG_OK) return status;
        /* Ready ids stand there already, and may have lost some at their head. */
        memmove(entry->ids, ids->token_ids, ids->count * sizeof(int32_t));
        entry->id_count = ids->count;
    }
    wgi_window_finish(&ingest->window, entry);
    return WG_OK;
}

/* Keeps the first failure and stops everybody. Any thread. */
static void fail(void *context, wg_status status, const wg_error *err)
{
    wg_ingest *ingest = context;

    (void)pthread_mutex_lock(&ingest->lock);
    if (ingest->failure == WG_OK) {
        ingest->failure = status;
        ingest->failure_error = *err;
    }
    (void)pthread_mutex_unlock(&ingest->lock);
    wgi_window_stop(&ingest->window);
    wg_reader_stop(ingest->reader);
}

/* ---------------------------------------------------------------------------------- submitter */

/* Why the run is to end now; WG_OK: it goes on. */
static wg_status why_end(wg_ingest *ingest, wg_error *err)
{
    if (atomic_load(&ingest->is_stop_asked))
        return wgi_fail(err, WG_ERR_INTERRUPTED, "stopped on request");
    (void)pthread_mutex_lock(&ingest->lock);
    wg_status status = ingest->failure;
    if (status != WG_OK) *err = ingest->failure_error;
    (void)pthread_mutex_unlock(&ingest->lock);
    if (status == WG_OK && wgi_engine_is_closed(ingest->options.engine))
        status = wgi_fail(err, WG_ERR_CLOSED,
                          "the engine was finished or stopped while files were still read into it");
    return status;
}

/* All that was read is told and submitted, to the end of the input. */
static bool is_complete(wg_ingest *ingest)
{
    if (!wgi_window_is_drained(&ingest->window)) return false;
    (void)pthread_mutex_lock(&ingest->lock);
    bool is_whole = ingest->is_whole && ingest->failure == WG_OK;
    (void)pthread_mutex_unlock(&ingest->lock);
    return is_whole;
}

static void tell(wg_ingest *ingest, const wgi_entry *entry)
{
    const wg_ingest_options *options = &ingest->options;

    (void)pthread_mutex_lock(&ingest->lock);
    if (entry->failure != WG_FAILURE_NONE)
        ingest->counts.failed++;
    else
        ingest->counts.truncated += entry->is_truncated;
    (void)pthread_mutex_unlock(&ingest->lock);
    if (!options->document) return;
    options->document(options->context, &(wg_ingested){
                                            .sequence_id = options->first_id + entry->ordinal,
                                            .id = entry->id.data,
                                            .id_bytes = entry->id.count,
                                            .source = entry->source.data,
                                            .source_bytes = entry->source.count,
                                            .place_kind = entry->place_kind,
                                            .place = entry->place,
                                            .token_count = entry->token_count,
                                            .is_truncated = entry->is_truncated,
                                            .failure = entry->failure,
                                            .reason = entry->reason,
                                        });
}

static wg_status submit(wg_ingest *ingest, const wgi_entry *entry, wg_error *err)
{
    wg_sequence sequence = {
        .id = ingest->options.first_id + entry->ordinal,
        .token_ids = entry->ids,
        .token_count = entry->id_count,
        .class_index = ingest->options.class_index,
    };
    wg_status status = WG_OK;
    uint64_t taken = 0;

    while (status == WG_OK && !taken) {
        status = wg_engine_submit_within(ingest->options.engine, &sequence, 1,
                                         (uint64_t)SLICE_MS * NS_PER_MS, &taken, err);
        if (status == WG_OK && !taken) status = why_end(ingest, err);
    }
    if (status != WG_OK) return status;
    (void)pthread_mutex_lock(&ingest->lock);
    ingest->counts.submitted++;
    ingest->counts.tokens += entry->id_count;
    (void)pthread_mutex_unlock(&ingest->lock);
    return WG_OK;
}

/* Everything in input order, until it is all done or the run has to end. */
static wg_status submit_all(wg_ingest *ingest, wg_error *err)
{
    wg_status status = WG_OK;

    while (status == WG_OK) {
        wgi_entry *entry = wgi_window_take(&ingest->window, SLICE_MS);
        if (!entry && is_complete(ingest)) break;
        /* An engine that is closed says so itself when it is asked to take something. */
        if (!entry || atomic_load(&ingest->is_stop_asked)) status = why_end(ingest, err);
        if (!entry) continue;
        if (status == WG_OK) {
            tell(ingest, entry);
            if (entry->failure == WG_FAILURE_NONE) status = submit(ingest, entry, err);
        }
        wgi_window_recycle(&ingest->window, entry);
    }
    return status;
}

static void *submitter_body(void *argument)
{
    wg_ingest *ingest = argument;
    wg_error err = {0};

    wg_status status = submit_all(ingest, &err);
    if (status != WG_OK) fail(ingest, status, &err);
    /* However it ended: consumers are not to wait for what will not come. */
    if (!ingest->options.keep_open) {
        status = wg_engine_finish(ingest->options.engine, NULL);
        (void)status;
    }
    (void)pthread_mutex_lock(&ingest->lock);
    ingest->is_done = true;
    (void)pthread_cond_broadcast(&ingest->done);
    (void)pthread_mutex_unlock(&ingest->lock);
    return NULL;
}

/* -------------------------------------------------------------------------------- open, close */

static wg_status check_options(const wg_ingest_options *options, wg_error *err)
{
    if (!options->engine) return wgi_fail(err, WG_ERR_ARGUMENT, "wg_ingest_open: no engine");
    if (!options->tokenizer && !options->input.ids_field)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "texts need a tokenizer; records with ready ids need ids_field");
    if (options->class_index >= options->engine->options.class_count)
        return wgi_fail(err, WG_ERR_ARGUMENT, "class %lu: the engine has %lu",
                        (unsigned long)options->class_index,
                        (unsigned long)options->engine->options.class_count);
    return WG_OK;
}

static void settle_rules(wg_ingest *ingest)
{
    const wg_ingest_options *options = &ingest->options;
    size_t longest = (size_t)wgi_engine_longest(options->engine);
    wgi_text_rules *rules = &ingest->rules;

    *rules = (wgi_text_rules){.tokenizer = options->tokenizer,
                              .encode = options->encode,
                              .prompt = options->prompt ? options->prompt : ""};
    rules->prompt_bytes = strlen(rules->prompt);
    if (rules->encode.token_count_max == 0 || rules->encode.token_count_max > longest)
        rules->encode.token_count_max = longest;
}

static wg_status start(wg_ingest *ingest, wg_error *err)
{
    uint32_t threads = ingest->options.thread_count;
    wg_status status;

    if (!threads) {
        threads = wgi_core_count();
        if (threads > THREADS_BY_DEFAULT) threads = THREADS_BY_DEFAULT;
    }
    status = wgi_intake_start(&ingest->intake,
                              &(wgi_intake_options){.window = &ingest->window,
                                                    .rules = &ingest->rules,
                                                    .thread_count = threads,
                                                    .context = ingest,
                                                    .next = next_document,
                                                    .next_context = ingest,
                                                    .encoded = keep_ids,
                                                    .failed = fail},
                              err);
    if (status == WG_OK)
        status = wgi_thread_start(&ingest->submitter, "wg-submit", submitter_body, ingest, err);
    ingest->has_submitter = status == WG_OK;
    return status;
}

wg_status wg_ingest_open(wg_ingest **out, const wg_ingest_options *options, wg_error *err)
{
    wg_status status = WG_OK;
    wg_ingest *ingest = NULL;
    pthread_condattr_t monotonic;

    if (!out || !options)
        return wgi_fail(err, WG_ERR_ARGUMENT, "wg_ingest_open: out or options is NULL");
    *out = NULL;
    status = check_options(options, err);
    if (status != WG_OK) return status;
    ingest = wgi_calloc(1, sizeof(*ingest));
    if (!ingest) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for an ingest");
    ingest->options = *options;
    (void)pthread_mutex_init(&ingest->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&ingest->done, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    settle_rules(ingest);

    WGI_TRY(wg_reader_open(&ingest->reader, &options->input, err));
    WGI_TRY(wgi_window_init(&ingest->window, WINDOW_DOCUMENTS, WINDOW_BYTES, err));
    WGI_TRY(start(ingest, err));
    *out = ingest;
    ingest = NULL;

cleanup:
    wg_ingest_close(ingest);
    return status;
}

wg_status wg_ingest_wait(wg_ingest *ingest, uint64_t timeout_ns, int *is_done, wg_error *err)
{
    uint64_t now, until;
    wg_status status = WG_OK;

    if (!ingest || !is_done)
        return wgi_fail(err, WG_ERR_ARGUMENT, "a wait needs an ingest and a place for its answer");
    now = wgi_clock_ns();
    until = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    (void)pthread_mutex_lock(&ingest->lock);
    while (!ingest->is_done && now < until) {
        struct timespec when = wgi_clock_when(until);

        if (until == UINT64_MAX)
            (void)pthread_cond_wait(&ingest->done, &ingest->lock);
        else
            (void)pthread_cond_timedwait(&ingest->done, &ingest->lock, &when);
        now = wgi_clock_ns();
    }
    *is_done = ingest->is_done;
    if (ingest->is_done) {
        status = ingest->failure;
        if (status != WG_OK && err) *err = ingest->failure_error;
    }
    (void)pthread_mutex_unlock(&ingest->lock);
    return status;
}

void wg_ingest_stop(wg_ingest *ingest)
{
    if (!ingest) return;
    atomic_store(&ingest->is_stop_asked, true);
    if (ingest->reader) wg_reader_stop(ingest->reader);
}

wg_ingest_counts wg_ingest_counted(const wg_ingest *ingest)
{
    wg_ingest *shared = (wg_ingest *)(uintptr_t)ingest; /* locks, and changes nothing else */
    wg_ingest_counts counts = {0};

    if (!ingest) return counts;
    (void)pthread_mutex_lock(&shared->lock);
    counts = shared->counts;
    (void)pthread_mutex_unlock(&shared->lock);
    return counts;
}

void wg_ingest_close(wg_ingest *ingest)
{
    if (!ingest) return;
    wg_ingest_stop(ingest);
    if (ingest->has_submitter) (void)pthread_join(ingest->submitter, NULL);
    if (ingest->window.ring) wgi_window_stop(&ingest->window);
    wgi_intake_join(&ingest->intake);
    wg_reader_close(ingest->reader);
    wgi_window_fini(&ingest->window);
    (void)pthread_cond_destroy(&ingest->done);
    (void)pthread_mutex_destroy(&ingest->lock);
    wgi_free(ingest);
}
