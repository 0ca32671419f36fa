/*
 * intake.h - the first two stops of a run: one thread reads documents into a window, others turn
 * them into token ids. Whose ids they are then is the run's: a job hands them to its engine as they
 * come, an ingest keeps them for its submitter.
 */
#ifndef WGI_INTAKE_H
#define WGI_INTAKE_H

#include <stdatomic.h>

#include "job/text_rules.h"
#include "job/window.h"

#define WGI_INTAKE_TOKENIZERS_MAX 16

/* Everything is borrowed until wgi_intake_join(). */
typedef struct wgi_intake_options {
    wgi_window *window;
    const wgi_text_rules *rules;
    uint32_t thread_count; /* tokenizers; at most WGI_INTAKE_TOKENIZERS_MAX are started */
    void *context;         /* of all below but next */

    /* Reader thread. */
    wg_status (*next)(void *context, wg_document *document, int *has_document, wg_error *err);
    void *next_context;
    void (*before_wait)(void *context); /* the window is full; NULL: none */

    /* Tokenizer threads: the entry has these ids or a failure. WG_ERR_CLOSED: the run has ended. */
    wg_status (*encoded)(void *context, wgi_entry *entry, const wgi_ids *ids, wg_error *err);
    void (*left)(void *context); /* the last tokenizer has left; NULL: none */

    /* Any of them: the run cannot go on, and everybody is to be stopped. */
    void (*failed)(void *context, wg_status status, const wg_error *err);
} wgi_intake_options;

typedef struct wgi_intake {
    wgi_intake_options options;
    pthread_t reader, tokenizers[WGI_INTAKE_TOKENIZERS_MAX];
    uint32_t tokenizer_count;
    bool has_reader;
    atomic_int tokenizers_left;
    atomic_ulong documents_read, read_ns, tokenize_ns; /* any thread may look */
    atomic_bool is_input_done;
} wgi_intake;

/*
 * Starts the threads; the intake was zeroed. After a failure some may run: stop the window and
 * join, as at every end. They leave at the end of the input or when the window is stopped.
 */
wg_status wgi_intake_start(wgi_intake *intake, const wgi_intake_options *options, wg_error *err);
void wgi_intake_join(wgi_intake *intake);

#endif
