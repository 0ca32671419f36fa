/*
 * token_model.c - finds the model's row by the file's "type" and reads vocabularies.
 *
 * Files of older versions have no type; what they hold says which model it is, as Hugging Face
 * tokenizers does it.
 *
 * Threads: read-only once loaded; then any thread.
 */
#include "tokenizer/token_model.h"

#include "base/alloc.h"
#include "tokenizer/show.h"

typedef struct model_row {
    const char *type;
    wg_status (*load)(wgi_token_model *model, wgi_slice part, wgi_refusals *refusals,
                      wg_error *err);
} model_row;

static const model_row rows[] = {
    {"WordPiece", wgi_wordpiece_load},
    {"BPE", wgi_bpe_load},
    {"Unigram", wgi_unigram_load},
};

wg_status wgi_ids_push(wgi_ids *ids, int32_t id, wg_error *err)
{
    if (ids->count == ids->capacity) {
        wg_status status =
            wgi_grow(&ids->items, &ids->capacity, ids->count + 1, sizeof(*ids->items), err);
        if (status != WG_OK) return status;
    }
    ids->items[ids->count++] = id;
    return WG_OK;
}

wg_status wgi_vocabulary_load(wgi_piece_table *vocabulary, wgi_slice part, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_json json;
    wgi_slice key;

    wgi_json_init(&json, part.data, part.count);
    status = wgi_json_object_begin(&json, err);
    if (status != WG_OK) {
        status = wgi_fail_prefix(err, status, "model, \"vocab\"");
        goto cleanup;
    }
    while (wgi_json_object_next(&json, &key)) {
        int32_t id = 0;
        WGI_TRY(wgi_token_id(&json, "vocab", key, &id, err));
        WGI_TRY(wgi_piece_table_put(vocabulary, key, id, err));
    }
    WGI_TRY(wgi_json_finish(&json, err));
    WGI_TRY(wgi_piece_table_order(vocabulary, err));
    WGI_TRY(wgi_piece_table_check_ids(vocabulary, err));

cleanup:
    wgi_json_fini(&json);
    return status;
}

/* WordPiece has a field of its own; BPE has merges; Unigram has a list of tokens. */
static wg_status guess_type(wgi_slice part, wgi_buf *type, wg_error *err)
{
    wgi_slice merges, most, tokens = {"", 0};
    wgi_field fields[] = {
        {.name = "merges", .kind = WGI_FIELD_RAW, .out = &merges, .is_optional = true},
        {.name = "max_input_chars_per_word",
         .kind = WGI_FIELD_RAW,
         .out = &most,
         .is_optional = true},
        {.name = "vocab", .kind = WGI_FIELD_RAW, .out = &tokens, .is_optional = true},
    };
    wg_status status = wgi_fields_read(part, "model", fields, 3, NULL, err);

    if (status != WG_OK) return status;
    if (fields[0].is_set) return wgi_buf_text(type, "BPE", err);
    if (fields[1].is_set) return wgi_buf_text(type, "WordPiece", err);
    if (tokens.count && tokens.data[0] == '[') return wgi_buf_text(type, "Unigram", err);
    return wgi_fail(err, WG_ERR_FORMAT, "model: \"type\" is missing");
}

wg_status wgi_token_model_load(wgi_token_model *model, wgi_slice part, wgi_refusals *refusals,
                               wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf name = {0};
    bool has_type = false;

    WGI_TRY(wgi_part_type(part, "model", &name, &has_type, err));
    if (!has_type) WGI_TRY(guess_type(part, &name, err));
    wgi_slice type = {name.data, name.count};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!wgi_slice_is(type, rows[i].type)) continue;
        WGI_TRY(rows[i].load(model, part, refusals, err));
        if (model->size == 0) model->size = model->vocabulary.count;
        goto cleanup;
    }
    WGI_TRY(wgi_refuse(refusals, err, "model type \"%.*s\"", WGI_SHOW(type)));

cleanup:
    wgi_buf_fini(&name);
    return status;
}

void wgi_token_model_fini(wgi_token_model *model)
{
    wgi_piece_table_fini(&model->vocabulary);
    wgi_piece_table_fini(&model->continuations);
    wgi_bpe_close(model->bpe);
    wgi_unigram_close(model->unigram);
}

void wgi_word_scratch_fini(wgi_word_scratch *scratch)
{
    wgi_free(scratch->hashes);
    wgi_free(scratch->links);
    wgi_free(scratch->candidates);
    wgi_free(scratch->heap);
    wgi_free(scratch->tails);
    wgi_free(scratch->paths);
    wgi_buf_fini(&scratch->text);
    *scratch = (wgi_word_scratch){0};
}

size_t wgi_word_scratch_bytes(const wgi_word_scratch *scratch)
{
    return scratch->hash_capacity * sizeof(*scratch->hashes) +
           scratch->link_capacity * sizeof(*scratch->links) +
           scratch->candidate_capacity * sizeof(*scratch->candidates) +
           scratch->heap_capacity * sizeof(*scratch->heap) +
           scratch->tail_capacity * sizeof(*scratch->tails) +
           scratch->path_capacity * sizeof(*scratch->paths) + scratch->text.capacity;
}
