/*
 * embed_texts.c - texts in, floats out: a road whose ends are the caller's arrays.
 */
#include "job/embed_texts.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "job/road.h"

typedef struct arrays {
    const char *const *texts;
    const size_t *text_bytes; /* or NULL */
    size_t count, next;       /* next: the reader thread's */
    float *vectors;
    size_t dim;
    size_t done; /* the calling thread's */
    int (*tick)(void *context, uint64_t done, uint64_t count);
    void *tick_context;
    const wg_embed_options *options; /* or NULL */
    char id[24];
} arrays;

static wg_status next_text(void *context, wg_document *document, int *has_document, wg_error *err)
{
    arrays *a = context;

    *has_document = a->next < a->count;
    if (!*has_document) return WG_OK;
    const char *text = a->texts[a->next];
    if (!text) return wgi_fail(err, WG_ERR_ARGUMENT, "text %zu is NULL", a->next);
    int length = snprintf(a->id, sizeof(a->id), "%zu", a->next);
    *document = (wg_document){
        .ordinal = a->next,
        .id = a->id,
        .id_bytes = length > 0 ? (size_t)length : 0,
        .source = "",
        .text = text,
        .text_bytes = a->text_bytes ? a->text_bytes[a->next] : strlen(text),
        .reason = "",
    };
    a->next++;
    return WG_OK;
}

/* A failed text is a row of NaN where the caller listens to failures and wants to go on. */
static bool is_left_out(arrays *a, const wgi_row *row)
{
    const wg_embed_options *options = a->options;
    float *vector = a->vectors + row->ordinal * a->dim;

    if (!options || !options->failed ||
        options->failed(options->failed_context, row->ordinal, row->failure, row->reason) != 0)
        return false;
    for (size_t i = 0; i < a->dim; i++)
        vector[i] = NAN;
    a->done++;
    return true;
}

static wg_status put_vector(void *context, const wgi_row *row, wg_error *err)
{
    arrays *a = context;

    if (row->failure != WG_FAILURE_NONE) {
        if (is_left_out(a, row)) return WG_OK;
        wg_status status = row->failure == WG_FAILURE_TOO_LONG    ? WG_ERR_LIMIT
                           : row->failure == WG_FAILURE_NO_MEMORY ? WG_ERR_NO_MEMORY
                                                                  : WG_ERR_ARGUMENT;
        return wgi_fail(err, status, "text %llu: %s: %s", (unsigned long long)row->ordinal,
                        wg_failure_code(row->failure), row->reason);
    }
    memcpy(a->vectors + row->ordinal * a->dim, row->vectors, a->dim * sizeof(float));
    a->done++;
    return WG_OK;
}

static int tell_tick(void *context)
{
    arrays *a = context;

    return a->tick(a->tick_context, a->done, a->count);
}

wg_status wgi_embed_texts(const wg_model *model, const wgi_texts *texts, float *vectors,
                          size_t vectors_bytes, const wg_embed_options *options,
                          uint32_t padded_batch, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_road *road = NULL;
    arrays ends = {.texts = texts->texts,
                   .text_bytes = texts->bytes,
                   .count = texts->count,
                   .vectors = vectors,
                   .options = options};
    wgi_road_options road_options = {.model = model,
                                     .padded_batch = padded_batch,
                                     .next = next_text,
                                     .put = put_vector,
                                     .context = &ends};
    size_t bytes;

    if (options) road_options.embed = *options;
    if (options && options->tick) {
        ends.tick = options->tick;
        ends.tick_context = options->tick_context;
        road_options.tick = tell_tick;
    }
    WGI_TRY(wgi_road_open(&road, &road_options, err));
    ends.dim = wgi_road_dim(road);
    if (!wgi_mul(texts->count, ends.dim, &bytes) || !wgi_mul(bytes, sizeof(float), &bytes) ||
        bytes > vectors_bytes) {
        status =
            wgi_fail(err, WG_ERR_ARGUMENT, "vectors has %zu bytes, %zu x %zu floats are needed",
                     vectors_bytes, texts->count, ends.dim);
        goto cleanup;
    }
    WGI_TRY(wgi_road_run(road, err));
    if (ends.tick && tell_tick(&ends))
        status = wgi_fail(err, WG_ERR_INTERRUPTED, "stopped on request");

cleanup:
    wgi_road_close(road);
    return status;
}

wg_status wg_model_embed(const wg_model *model, const char *const *texts, const size_t *text_bytes,
                         size_t count, float *vectors, size_t vectors_bytes,
                         const wg_embed_options *options, wg_error *err)
{
    if (!model || (count && (!texts || !vectors)))
        return wgi_fail(err, WG_ERR_ARGUMENT, "wg_model_embed: model, texts or vectors is NULL");
    if (options && options->pooling == WG_POOLING_NONE)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "wg_model_embed gives one vector a text; pooling none is for jobs");
    return wgi_embed_texts(model, &(wgi_texts){.texts = texts, .bytes = text_bytes, .count = count},
                           vectors, vectors_bytes, options, 0, err);
}
