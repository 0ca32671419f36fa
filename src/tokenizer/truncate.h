/*
 * truncate.h - how many tokens of which text are kept, and the template put round them.
 */
#ifndef WGI_TRUNCATE_H
#define WGI_TRUNCATE_H

#include <stdbool.h>

#include "tokenizer/post_processor.h"
#include "tokenizer/token_model.h"
#include "warpgroup/warpgroup.h"

/* What is asked of the encoding of one text. */
typedef struct wgi_want {
    size_t stop;   /* tokens that are enough; SIZE_MAX: all */
    bool backward; /* the last tokens are kept */
    bool plain_specials;
} wgi_want;

typedef struct wgi_plan {
    wgi_want want;
    const wgi_template *template;
    size_t limit; /* token_count_max */
    size_t room;  /* tokens of the texts that fit; SIZE_MAX: all */
    bool has_pair, with_specials, fails_when_over;
} wgi_plan;

wg_status wgi_plan_make(wgi_plan *plan, const wgi_post_processor *processor,
                        const wg_encode_options *options, bool has_pair, wg_error *err);
/* Must both texts of a pair be encoded to their ends, to know which is the longer? */
bool wgi_plan_needs_all(const wgi_plan *plan, const wgi_ids ids[2]);
/* ids: of text and pair; backward plans keep the end of each. */
wg_status wgi_plan_finish(const wgi_plan *plan, const wgi_post_processor *processor,
                          const wgi_ids ids[2], wg_encoding *encoding, wg_error *err);

#endif
