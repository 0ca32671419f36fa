/*
 * post_processor.h - the last stage: templates that put special tokens round one text or two.
 */
#ifndef WGI_POST_PROCESSOR_H
#define WGI_POST_PROCESSOR_H

#include <stdbool.h>

#include "base/json.h"
#include "tokenizer/file_part.h"
#include "tokenizer/token_model.h"

typedef enum wgi_template_kind {
    WGI_TEMPLATE_SPECIAL,
    WGI_TEMPLATE_A,
    WGI_TEMPLATE_B
} wgi_template_kind;

typedef struct wgi_template_item {
    wgi_template_kind kind;
    int32_t type_id;
    size_t first, count; /* WGI_TEMPLATE_SPECIAL: ids of the processor */
} wgi_template_item;

typedef struct wgi_template {
    wgi_template_item *items;
    size_t count, capacity;
    size_t added; /* special tokens it puts in */
} wgi_template;

typedef struct wgi_post_processor {
    wgi_template single, pair;
    bool has_pair; /* the pair template holds both texts */
    bool is_set;   /* a template was read */
    wgi_ids ids;   /* of all special tokens, end to end */
} wgi_post_processor;

/* part: the file's "post_processor"; null gives texts without special tokens. */
wg_status wgi_post_processor_load(wgi_post_processor *processor, wgi_slice part,
                                  wgi_refusals *refusals, wg_error *err);
/* before A after (before B after); -1: no such token. As BERT: no second `before`, types 0 and 1.
 */
wg_status wgi_post_processor_simple(wgi_post_processor *processor, int32_t before, int32_t after,
                                    bool is_bert, wg_error *err);
void wgi_post_processor_fini(wgi_post_processor *processor);

#endif
