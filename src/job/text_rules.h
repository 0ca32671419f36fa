/*
 * text_rules.h - how the text of a document becomes the token ids that are run: prompt, tokenizer,
 * limit, and what is a failed document there.
 */
#ifndef WGI_TEXT_RULES_H
#define WGI_TEXT_RULES_H

#include "job/window.h"

typedef struct wgi_text_rules {
    const wg_tokenizer *tokenizer; /* NULL: documents carry ready ids */
    const char *path;              /* of the model, for messages; NULL: there is none */
    wg_encode_options encode;      /* token_count_max is set */
    const char *prompt;            /* put before each text; "" without one */
    size_t prompt_bytes;
    uint64_t row_count; /* of the embedding: ids from here on fail; 0: not known */
    size_t run_count;   /* more ids than this fail although the limit allows them; 0: any number */
    char run_advice[160]; /* what would let them run */
} wgi_text_rules;

/* Buffers of one thread, kept between documents. Zeroed at first. */
typedef struct wgi_text_scratch {
    wg_encoding encoding;
    wgi_buf joined; /* prompt and text */
} wgi_text_scratch;
void wgi_text_scratch_fini(wgi_text_scratch *scratch);

/* Borrowed of the scratch or the entry. */
typedef struct wgi_ids {
    const int32_t *token_ids;
    const int32_t *type_ids; /* NULL: zeros */
    size_t count;
} wgi_ids;

/*
 * The ids of a claimed entry, whose text is emptied. WG_OK also where the document fails: then that
 * stands in the entry. Another status ends the run.
 */
wg_status wgi_entry_encode(const wgi_text_rules *rules, wgi_entry *entry, wgi_text_scratch *scratch,
                           wgi_ids *ids, wg_error *err);

__attribute__((format(printf, 3, 4))) void wgi_entry_fail(wgi_entry *entry, wg_failure failure,
                                                          const char *format, ...);

#endif
