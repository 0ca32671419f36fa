/*
 * intake.c - the reader thread and the tokenizer threads; see intake.h.
 *
 *   next --(wg-read)--> window --(wg-tok-0, wg-tok-1, ...)--> encoded
 *
 * Threads: the options are set before the threads start; counters are atomic.
 */
#include "job/intake.h"

#include <stdio.h>

#include "base/os_clock.h"
#include "base/thread.h"

static void *reader_body(void *argument)
{
    wgi_intake *intake = argument;
    const wgi_intake_options *options = &intake->options;
    wg_status status = WG_OK;
    wg_error err = {0};
    wg_document document;
    int has_document = 1;

    while (status == WG_OK) {
        uint64_t begin = wgi_clock_ns();
        status = options->next(options->next_context, &document, &has_document, &err);
        atomic_fetch_add(&intake->read_ns, wgi_clock_ns() - begin);
        if (status != WG_OK || !has_document) break;
        status = wgi_window_add(options->window, &document, options->before_wait, options->context,
                                &err);
        if (status == WG_OK) atomic_fetch_add(&intake->documents_read, 1);
    }
    if (status != WG_OK && status != WG_ERR_CLOSED && status != WG_ERR_INTERRUPTED)
        options->failed(options->context, status, &err);
    atomic_store(&intake->is_input_done, true);
    wgi_window_input_done(options->window);
    return NULL;
}

static void *tokenizer_body(void *argument)
{
    wgi_intake *intake = argument;
    const wgi_intake_options *options = &intake->options;
    wgi_text_scratch scratch = {0};
    wg_error err = {0};
    wgi_entry *entry;

    while ((entry = wgi_window_claim(options->window))) {
        uint64_t begin = wgi_clock_ns();
        wgi_ids ids;
        wg_status status = wgi_entry_encode(options->rules, entry, &scratch, &ids, &err);
        atomic_fetch_add(&intake->tokenize_ns, wgi_clock_ns() - begin);
        if (status == WG_OK) status = options->encoded(options->context, entry, &ids, &err);
        if (status == WG_OK) continue;
        if (status != WG_ERR_CLOSED) options->failed(options->context, status, &err);
        break;
    }
    if (atomic_fetch_sub(&intake->tokenizers_left, 1) == 1 && options->left)
        options->left(options->context);
    wgi_text_scratch_fini(&scratch);
    return NULL;
}

wg_status wgi_intake_start(wgi_intake *intake, const wgi_intake_options *options, wg_error *err)
{
    wg_status status = WG_OK;
    uint32_t wanted = options->thread_count < WGI_INTAKE_TOKENIZERS_MAX ? options->thread_count
                                                                        : WGI_INTAKE_TOKENIZERS_MAX;

    intake->options = *options;
    atomic_store(&intake->tokenizers_left, (int)wanted);
    while (status == WG_OK && intake->tokenizer_count < wanted) {
        char name[24];
        int length = snprintf(name, sizeof(name), "wg-tok-%u", intake->tokenizer_count);
        (void)length;
        status = wgi_thread_start(&intake->tokenizers[intake->tokenizer_count], name,
                                  tokenizer_body, intake, err);
        if (status == WG_OK) intake->tokenizer_count++;
    }
    if (status == WG_OK) {
        status = wgi_thread_start(&intake->reader, "wg-read", reader_body, intake, err);
        intake->has_reader = status == WG_OK;
    }
    return status;
}

void wgi_intake_join(wgi_intake *intake)
{
    if (intake->has_reader) (void)pthread_join(intake->reader, NULL);
    for (uint32_t i = 0; i < intake->tokenizer_count; i++)
        (void)pthread_join(intake->tokenizers[i], NULL);
    intake->has_reader = false;
    intake->tokenizer_count = 0;
}
