/*
 * verify.c - is this model right on this machine: packed equals alone, byte for byte, and the
 * vectors are those of a reference.
 *
 *   texts ---- packed, all threads ----> vectors --+
 *         \--- each in a batch of one, one thread --+--> same bytes?
 *   reference lines {"text", "embedding"} ----------+--> within the tolerance?
 *
 * A text that cannot be read or embedded is told and left out; it is no answer to the question.
 *
 * Where no text is given some are made up, of one word and then ever more, so that one-token texts,
 * text ends anywhere in a tile, and texts beyond the limit are among them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/os_map.h"
#include "job/embed_texts.h"
#include "output/sink.h"

#define TEXTS_MAX      256
#define MADE_UP_TEXTS  48
#define WORD_COUNT_MAX 700

/* Texts kept one behind the other; offsets become pointers when all are there. */
typedef struct collection {
    wgi_buf bytes;
    size_t *offsets, offset_capacity; /* [count] */
    size_t *sizes, size_capacity;     /* [count] */
    wgi_row *rows;                    /* [count]: where each came from, with a source of its own */
    size_t row_capacity;
    bool *failed; /* [count], once there are texts */
    const char **pointers;
    float *wanted; /* [count, dim] of a reference */
    size_t wanted_capacity;
    size_t count;
} collection;

static void collection_fini(collection *all)
{
    wgi_buf_fini(&all->bytes);
    for (size_t i = 0; i < all->count; i++)
        wgi_free((void *)(uintptr_t)all->rows[i].source);
    wgi_free(all->rows);
    wgi_free(all->failed);
    wgi_free(all->offsets);
    wgi_free(all->sizes);
    wgi_free(all->pointers);
    wgi_free(all->wanted);
}

static wg_status collection_add(collection *all, const char *text, size_t bytes, wgi_row row,
                                wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(wgi_grow(&all->offsets, &all->offset_capacity, all->count + 1, sizeof(size_t), err));
    WGI_TRY(wgi_grow(&all->sizes, &all->size_capacity, all->count + 1, sizeof(size_t), err));
    WGI_TRY(wgi_grow(&all->rows, &all->row_capacity, all->count + 1, sizeof(*all->rows), err));
    all->offsets[all->count] = all->bytes.count;
    all->sizes[all->count] = bytes;
    WGI_TRY(wgi_buf_append(&all->bytes, text, bytes, err));
    row.source = wgi_memdup(row.source, row.source_bytes);
    if (!row.source) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu texts", all->count + 1);
        goto cleanup;
    }
    all->rows[all->count++] = row;

cleanup:
    return status;
}

static wg_status collection_texts(collection *all, wgi_texts *texts, wg_error *err)
{
    all->pointers = wgi_calloc(all->count, sizeof(*all->pointers));
    all->failed = wgi_calloc(all->count, sizeof(*all->failed));
    if (!all->pointers || !all->failed)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu texts", all->count);
    for (size_t i = 0; i < all->count; i++)
        all->pointers[i] = (all->bytes.data ? all->bytes.data : "") + all->offsets[i];
    *texts = (wgi_texts){.texts = all->pointers, .bytes = all->sizes, .count = all->count};
    return WG_OK;
}

/* A text that fails packed and alone is told once. */
static int note_failed(void *context, uint64_t index, wg_failure failure, const char *reason)
{
    collection *all = context;
    wgi_row row = all->rows[index];

    if (all->failed[index]) return 0;
    all->failed[index] = true;
    row.failure = failure;
    row.reason = reason;
    wgi_failure_log(&row);
    return 0;
}

/* A line of a file, or of what stands for one. */
static wgi_row line_of(const char *source, uint64_t line)
{
    return (wgi_row){.ordinal = line - 1,
                     .source = source,
                     .source_bytes = strlen(source),
                     .place_kind = WG_PLACE_LINE,
                     .place = line};
}

static wg_status make_up(collection *all, wg_error *err)
{
    static const char *const words[] = {"a",  "signal", "of", "the", "radio", "42",
                                        "is", "lost",   ".",  "and", "found", "again"};
    wg_status status = WG_OK;
    wgi_buf text = {0};
    uint64_t state = 1;

    for (size_t i = 0; i < MADE_UP_TEXTS; i++) {
        size_t count = 1 + i * i * WORD_COUNT_MAX / (MADE_UP_TEXTS * MADE_UP_TEXTS);
        text.count = 0;
        for (size_t k = 0; k < count; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
            WGI_TRY(wgi_buf_printf(&text, err, "%s%s", k ? " " : "", words[(state >> 33) % 12]));
        }
        WGI_TRY(collection_add(all, text.data, text.count, line_of("made-up texts", i + 1), err));
    }

cleanup:
    wgi_buf_fini(&text);
    return status;
}

static wg_status read_input(collection *all, const wg_verify_options *options, wg_verify *out,
                            wg_error *err)
{
    wg_status status = WG_OK;
    wg_reader *reader = NULL;
    size_t most = options->text_count_max ? options->text_count_max : TEXTS_MAX;
    wg_document document;
    int has_document = 1;

    if (options->input.input_count == 0) return make_up(all, err);
    WGI_TRY(wg_reader_open(&reader, &options->input, err));
    for (;;) {
        WGI_TRY(wg_reader_next(reader, &document, &has_document, err));
        if (!has_document) break;
        wgi_row row = {.ordinal = document.ordinal,
                       .source = document.source,
                       .source_bytes = document.source_bytes,
                       .place_kind = document.place_kind,
                       .place = document.place,
                       .failure = document.failure,
                       .reason = document.reason};
        if (document.failure != WG_FAILURE_NONE) {
            wgi_failure_log(&row);
            out->texts_failed++;
        } else if (!document.text || all->count == most) {
            out->texts_left_out++;
        } else {
            WGI_TRY(collection_add(all, document.text, document.text_bytes, row, err));
        }
    }

cleanup:
    wg_reader_close(reader);
    return status;
}

static float *vectors_new(size_t count, size_t dim, size_t *bytes, wg_error *err)
{
    float *vectors = NULL;

    if (wgi_mul(count, dim, bytes) && wgi_mul(*bytes, sizeof(float), bytes))
        vectors = wgi_malloc(*bytes);
    if (!vectors) (void)wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu vectors", count);
    return vectors;
}

static wg_status packed_equals_alone(const wg_model *model, collection *all, size_t dim,
                                     const wg_embed_options *embed, wg_verify *out, wg_error *err)
{
    wg_status status = WG_OK;
    wg_embed_options many = *embed, single;
    wgi_texts texts;
    size_t bytes;
    float *packed = vectors_new(all->count, dim, &bytes, err);
    float *alone = vectors_new(all->count, dim, &bytes, err);

    if (!packed || !alone) {
        status = WG_ERR_NO_MEMORY;
        goto cleanup;
    }
    WGI_TRY(collection_texts(all, &texts, err));
    many.failed = note_failed;
    many.failed_context = all;
    single = many;
    single.thread_count = 1;
    WGI_TRY(wgi_embed_texts(model, &texts, packed, bytes, &many, 0, err));
    WGI_TRY(wgi_embed_texts(model, &texts, alone, bytes, &single, 1, err));
    for (size_t i = texts.count; i-- > 0;) {
        out->texts_failed += all->failed[i];
        out->texts += !all->failed[i];
        if (all->failed[i] || memcmp(packed + i * dim, alone + i * dim, dim * sizeof(float)) == 0)
            continue;
        out->different++;
        out->first_different = all->rows[i].ordinal;
    }

cleanup:
    wgi_free(packed);
    wgi_free(alone);
    return status;
}

/* One line {"text", "embedding"}: the text joins the collection, the vector its wanted ones. */
static wg_status read_reference_line(collection *all, wgi_json *json, size_t dim, wgi_row row,
                                     wgi_buf *text, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice key;
    size_t got = 0;
    double value;

    text->count = 0;
    WGI_TRY(
        wgi_grow(&all->wanted, &all->wanted_capacity, (all->count + 1) * dim, sizeof(float), err));
    WGI_TRY(wgi_json_object_begin(json, err));
    while (wgi_json_object_next(json, &key)) {
        if (wgi_slice_is(key, "text")) {
            text->count = 0;
            WGI_TRY(wgi_json_string(json, text, err));
        } else if (wgi_slice_is(key, "embedding")) {
            got = 0;
            WGI_TRY(wgi_json_array_begin(json, err));
            while (wgi_json_array_next(json)) {
                WGI_TRY(wgi_json_double(json, &value, err));
                if (got < dim) all->wanted[all->count * dim + got] = (float)value;
                got++;
            }
        } else {
            WGI_TRY(wgi_json_skip(json, err));
        }
    }
    WGI_TRY(wgi_json_finish(json, err));
    if (got != dim) {
        status = wgi_fail(err, WG_ERR_FORMAT, "\"embedding\" has %zu numbers, the model gives %zu",
                          got, dim);
        goto cleanup;
    }
    WGI_TRY(collection_add(all, text->data, text->count, row, err));

cleanup:
    return status;
}

static wg_status read_reference(collection *all, const char *path, size_t dim, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_map *map = NULL;
    wgi_buf text = {0};
    wgi_json json = {0};
    size_t line = 0;
    char where[300];

    WGI_TRY(wgi_map_open(&map, path, err));
    for (const char *at = map->data, *end = at + map->bytes; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t bytes = (size_t)((stop ? stop : end) - at);
        line++;
        if (bytes && strspn(at, " \t\r") < bytes) {
            wgi_json_init(&json, at, bytes);
            status = read_reference_line(all, &json, dim, line_of(path, line), &text, err);
            wgi_json_fini(&json);
            if (status != WG_OK) {
                (void)snprintf(where, sizeof(where), "%.250s, line %zu", path, line);
                status = wgi_fail_prefix(err, status, where);
                goto cleanup;
            }
        }
        at += bytes + 1;
    }
    if (all->count == 0) status = wgi_fail(err, WG_ERR_FORMAT, "%s: there is no line in it", path);

cleanup:
    wgi_map_close(map);
    wgi_buf_fini(&text);
    return status;
}

static wg_status equals_reference(const wg_model *model, const wg_verify_options *options,
                                  size_t dim, wg_verify *out, wg_error *err)
{
    wg_status status = WG_OK;
    double share = options->tolerance > 0 ? options->tolerance : 1e-4;
    wg_embed_options embed = options->embed;
    collection all = {0};
    wgi_texts texts;
    float *vectors = NULL;
    size_t bytes;

    WGI_TRY(read_reference(&all, options->reference, dim, err));
    WGI_TRY(collection_texts(&all, &texts, err));
    vectors = vectors_new(texts.count, dim, &bytes, err);
    if (!vectors) {
        status = WG_ERR_NO_MEMORY;
        goto cleanup;
    }
    embed.failed = note_failed;
    embed.failed_context = &all;
    WGI_TRY(wgi_embed_texts(model, &texts, vectors, bytes, &embed, 0, err));
    out->references = texts.count;
    for (size_t i = 0; i < texts.count; i++) {
        double largest = 0, worst = 0;
        if (all.failed[i]) {
            out->outside++;
            continue;
        }
        for (size_t k = i * dim; k < (i + 1) * dim; k++) {
            largest = fmax(largest, fabs((double)all.wanted[k]));
            worst = fmax(worst, fabs((double)vectors[k] - (double)all.wanted[k]));
        }
        out->outside += worst > share * largest;
        if (worst >= out->worst_error) {
            out->worst_error = worst;
            out->worst_line = all.rows[i].place;
        }
    }

cleanup:
    wgi_free(vectors);
    collection_fini(&all);
    return status;
}

wg_status wg_model_verify(const wg_model *model, const wg_verify_options *options, wg_verify *out,
                          wg_error *err)
{
    wg_status status = WG_OK;
    collection all = {0};
    wg_verify_options own;

    if (!model || !options || !out)
        return wgi_fail(err, WG_ERR_ARGUMENT, "wg_model_verify: model, options or out is NULL");
    *out = (wg_verify){0};
    own = *options;
    own.embed.tick = NULL; /* is for wg_model_embed: here no part counts towards a whole */
    own.embed.failed = NULL;
    options = &own;
    if (options->embed.pooling == WG_POOLING_NONE)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "vectors of texts are compared: pooling none has none");
    size_t dim = options->embed.truncate_dim ? options->embed.truncate_dim : model->info.dim;
    WGI_TRY(read_input(&all, options, out, err));
    if (all.count) WGI_TRY(packed_equals_alone(model, &all, dim, &options->embed, out, err));
    if (options->reference) WGI_TRY(equals_reference(model, options, dim, out, err));

cleanup:
    collection_fini(&all);
    return status;
}
