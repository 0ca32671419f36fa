/*
 * tokenizer.c - opening a tokenizer.json, and the public calls on what came of it.
 *
 * The idea: the parts of the file are read in the order in which they need each other (model,
 * normaliser, splitter, templates, added tokens), wherever they stand in it. "truncation" and
 * "padding" of the file are not obeyed: limits come from the caller, and packed bins have no pads.
 *
 * Threads: open and close as the caller likes; an open tokenizer is read-only, for any thread.
 */
#include "tokenizer/tokenizer.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os_dir.h"
#include "base/os_map.h"
#include "tokenizer/bpe.h"
#include "tokenizer/show.h"

static atomic_uint_fast64_t serials;

typedef struct file_parts {
    wgi_slice added, normalizer, pre_tokenizer, post_processor, decoder, model;
} file_parts;

static wg_status find_parts(wgi_slice text, file_parts *parts, wgi_refusals *refusals,
                            wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf version = {0};
    wgi_field fields[] = {
        {.name = "version", .kind = WGI_FIELD_TEXT, .out = &version, .is_optional = true},
        {.name = "truncation", .kind = WGI_FIELD_UNREAD},
        {.name = "padding", .kind = WGI_FIELD_UNREAD},
        {.name = "decoder", .kind = WGI_FIELD_RAW, .out = &parts->decoder, .is_optional = true},
        {.name = "added_tokens", .kind = WGI_FIELD_RAW, .out = &parts->added, .is_optional = true},
        {.name = "normalizer",
         .kind = WGI_FIELD_RAW,
         .out = &parts->normalizer,
         .is_optional = true},
        {.name = "pre_tokenizer",
         .kind = WGI_FIELD_RAW,
         .out = &parts->pre_tokenizer,
         .is_optional = true},
        {.name = "post_processor",
         .kind = WGI_FIELD_RAW,
         .out = &parts->post_processor,
         .is_optional = true},
        {.name = "model", .kind = WGI_FIELD_RAW, .out = &parts->model},
    };

    WGI_TRY(wgi_fields_read(text, "the tokenizer", fields, sizeof(fields) / sizeof(fields[0]),
                            refusals, err));
    wgi_slice number = {version.data, version.count};
    if (fields[0].is_set && !wgi_slice_is(number, "1.0"))
        WGI_TRY(wgi_refuse(refusals, err, "version \"%.*s\"", WGI_SHOW(number)));

cleanup:
    wgi_buf_fini(&version);
    return status;
}

/*
 * Metaspace's "first" asks whether a piece begins where the document did, before the normaliser
 * changed it: that is known of the whole text, or of any piece when nothing was changed.
 */
static wg_status check_first(const wg_tokenizer *tokenizer, wgi_refusals *refusals, wg_error *err)
{
    const wgi_normalizer *normalizer = &tokenizer->normalizer;

    if (!tokenizer->pre_tokenizer.has_first || normalizer->step_count == 0) return WG_OK;
    if (normalizer->keeps_begin && tokenizer->added.normalized.count == 0 &&
        tokenizer->pre_tokenizer.steps[0].prepend == WGI_PREPEND_FIRST)
        return WG_OK;
    return wgi_refuse(refusals, err,
                      "Metaspace prepend_scheme \"first\" behind a normalizer that changes what a "
                      "text begins with");
}

static wg_status load_parts(wg_tokenizer *tokenizer, const file_parts *parts,
                            wgi_refusals *refusals, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(wgi_normalizer_load(&tokenizer->normalizer, parts->normalizer, refusals, err));
    WGI_TRY(wgi_pre_tokenizer_load(&tokenizer->pre_tokenizer, parts->pre_tokenizer, refusals, err));
    WGI_TRY(wgi_token_model_load(&tokenizer->model, parts->model, refusals, err));
    WGI_TRY(
        wgi_post_processor_load(&tokenizer->post_processor, parts->post_processor, refusals, err));
    WGI_TRY(wgi_token_decoder_load(&tokenizer->decoder, parts->decoder, err));
    wgi_added_base base = {&tokenizer->model.vocabulary, tokenizer->model.size,
                           &tokenizer->normalizer, tokenizer->chars};
    WGI_TRY(wgi_added_tokens_load(&tokenizer->added, parts->added, base, refusals, err));
    WGI_TRY(check_first(tokenizer, refusals, err));

cleanup:
    return status;
}

static int64_t find_id_end(const wg_tokenizer *tokenizer)
{
    const wgi_piece_table *vocabulary = &tokenizer->model.vocabulary;
    const wgi_ids *specials = &tokenizer->post_processor.ids;
    int64_t end = tokenizer->added.id_end;

    for (size_t i = 0; i < vocabulary->count; i++)
        if (vocabulary->pieces[i].id >= end) end = (int64_t)vocabulary->pieces[i].id + 1;
    for (size_t i = 0; i < specials->count; i++)
        if (specials->items[i] >= end) end = (int64_t)specials->items[i] + 1;
    return end;
}

/* What stages agree on among themselves. */
wg_status wgi_tokenizer_settle(wg_tokenizer *tokenizer, wg_error *err)
{
    wgi_pre_tokenizer *pre_tokenizer = &tokenizer->pre_tokenizer;
    wgi_token_model *model = &tokenizer->model;
    const wgi_slice mark = {WGI_MARK_TEXT, sizeof(WGI_MARK_TEXT) - 1};
    wg_status status = WG_OK;

    if (model->bpe) {
        const wgi_bpe *bpe = model->bpe;
        bool is_byte_level = bpe->prefix.count == 0 && bpe->suffix.count == 0 &&
                             wgi_pre_tokenizer_maps_bytes(pre_tokenizer);
        if (is_byte_level) wgi_pre_tokenizer_keep_bytes(pre_tokenizer);
        WGI_TRY(wgi_bpe_settle(model->bpe, &model->vocabulary, is_byte_level, err));
        if (wgi_bpe_splits_at_marks(bpe, &model->vocabulary))
            WGI_TRY(wgi_pre_tokenizer_split_runs(pre_tokenizer, mark, err));
    }
    bool may_end_blank = false;
    wgi_slice blank = wgi_normalizer_blank(&tokenizer->normalizer, &may_end_blank);
    wgi_pre_tokenizer_settle(pre_tokenizer, blank, may_end_blank);
    pre_tokenizer->splits_at_space &= tokenizer->normalizer.keeps_blanks;
    tokenizer->id_end = find_id_end(tokenizer);
    WGI_TRY(wgi_piece_table_order(&model->vocabulary, err));

cleanup:
    return status;
}

wg_status wgi_tokenizer_new(wg_tokenizer **out, wg_error *err)
{
    wg_tokenizer *tokenizer = wgi_calloc(1, sizeof(*tokenizer));

    *out = tokenizer;
    if (!tokenizer) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a tokenizer");
    tokenizer->serial = 1 + atomic_fetch_add(&serials, 1);
    tokenizer->chars = wgi_char_table_shared();
    return WG_OK;
}

wg_status wgi_tokenizer_parse(wg_tokenizer **out, wgi_slice text, wg_error *err)
{
    wg_status status = WG_OK;
    file_parts parts = {{"", 0}, {"", 0}, {"", 0}, {"", 0}, {"", 0}, {"", 0}};
    wgi_refusals refusals = {0};
    wg_tokenizer *tokenizer = NULL;

    *out = NULL;
    WGI_TRY(wgi_tokenizer_new(&tokenizer, err));
    WGI_TRY(find_parts(text, &parts, &refusals, err));
    WGI_TRY(load_parts(tokenizer, &parts, &refusals, err));
    WGI_TRY(wgi_refusals_check(&refusals, err));
    WGI_TRY(wgi_tokenizer_settle(tokenizer, err));
    *out = tokenizer;
    tokenizer = NULL;

cleanup:
    wgi_buf_fini(&refusals.names);
    wg_tokenizer_close(tokenizer);
    return status;
}

wg_status wgi_tokenizer_open_json(wg_tokenizer **out, const char *path, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf file = {0};
    wgi_map *map = NULL;
    wgi_path_info info;

    if (!out) return wgi_fail(err, WG_ERR_ARGUMENT, "no place to put the tokenizer");
    *out = NULL;
    if (!path) return wgi_fail(err, WG_ERR_ARGUMENT, "no path of a tokenizer was given");
    status = wgi_path_look(path, &info, err);
    if (status != WG_OK) {
        status = wgi_fail_prefix(err, status, path);
        goto cleanup;
    }
    WGI_TRY(wgi_buf_text(&file, path, err));
    if (info.kind == WGI_PATH_DIRECTORY) WGI_TRY(wgi_buf_text(&file, "/tokenizer.json", err));
    WGI_TRY(wgi_map_open(&map, file.data, err));
    status = wgi_tokenizer_parse(out, (wgi_slice){map->data, map->bytes}, err);
    if (status != WG_OK) status = wgi_fail_prefix(err, status, file.data);

cleanup:
    wgi_map_close(map);
    wgi_buf_fini(&file);
    return status;
}

void wg_tokenizer_close(wg_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    wgi_added_tokens_fini(&tokenizer->added);
    wgi_token_model_fini(&tokenizer->model);
    wgi_normalizer_fini(&tokenizer->normalizer);
    wgi_pre_tokenizer_fini(&tokenizer->pre_tokenizer);
    wgi_post_processor_fini(&tokenizer->post_processor);
    wgi_token_decoder_fini(&tokenizer->decoder);
    wgi_free(tokenizer);
}

int64_t wgi_tokenizer_id_end(const wg_tokenizer *tokenizer)
{
    return tokenizer->id_end;
}

size_t wg_tokenizer_vocabulary_count(const wg_tokenizer *tokenizer)
{
    size_t count = tokenizer->model.size;

    /* Added tokens that the vocabulary has too are counted once. */
    for (size_t i = 0; i < tokenizer->added.count; i++) {
        const wgi_added_token *token = &tokenizer->added.tokens[i];
        wgi_slice name = {token->name, token->name_bytes};
        count += wgi_piece_table_find(&tokenizer->model.vocabulary, name) < 0;
    }
    return count;
}
