/*
 * bpe.c - checks a byte-pair vocabulary and its merges; encoding with them is refused by name.
 *
 * The idea: a damaged file is told of its damage, whatever this version can run. Merges come in two
 * spellings, "a b" and ["a", "b"]; both halves and the whole must be in the vocabulary.
 *
 * Threads: no state; any thread.
 */
#include <string.h>

#include "base/alloc.h"
#include "tokenizer/show.h"
#include "tokenizer/token_model.h"

typedef struct merge_check {
    const wgi_piece_table *vocabulary;
    const wgi_buf *prefix; /* continuing_subword_prefix, dropped from the right half */
    wgi_buf pair[2];
    wgi_buf whole;
    size_t number;
} merge_check;

static wg_status need(merge_check *check, const wgi_buf *piece, wg_error *err)
{
    wgi_slice name = {piece->data, piece->count};

    if (piece->data && wgi_piece_table_find(check->vocabulary, name) >= 0) return WG_OK;
    if (!piece->data) name = (wgi_slice){"", 0};
    return wgi_fail(err, WG_ERR_FORMAT,
                    "model BPE: merge %zu needs \"%.*s\", which is not in vocab", check->number,
                    WGI_SHOW(name));
}

/* The pair of one merge, in either spelling. */
static wg_status read_pair(wgi_json *json, merge_check *check, wg_error *err)
{
    wg_status status = WG_OK;
    size_t halves = 0;

    check->pair[0].count = check->pair[1].count = 0;
    if (wgi_json_peek(json) == WGI_JSON_ARRAY) {
        WGI_TRY(wgi_json_array_begin(json, err));
        while (wgi_json_array_next(json)) {
            check->pair[halves % 2].count = 0;
            WGI_TRY(wgi_json_string(json, &check->pair[halves++ % 2], err));
        }
        WGI_TRY(wgi_json_status(json, err));
    } else {
        WGI_TRY(wgi_json_string(json, &check->pair[0], err));
        char *blank =
            check->pair[0].count ? memchr(check->pair[0].data, ' ', check->pair[0].count) : NULL;
        if (blank) {
            size_t left = (size_t)(blank - check->pair[0].data);
            WGI_TRY(
                wgi_buf_append(&check->pair[1], blank + 1, check->pair[0].count - left - 1, err));
            check->pair[0].count = left;
            halves = memchr(check->pair[1].data, ' ', check->pair[1].count) ? 3 : 2;
        }
    }
    if (halves != 2)
        status =
            wgi_fail(err, WG_ERR_FORMAT, "model BPE: merge %zu is not two pieces", check->number);

cleanup:
    return status;
}

static wg_status check_merge(wgi_json *json, merge_check *check, wg_error *err)
{
    wg_status status = WG_OK;
    size_t skip = 0;

    WGI_TRY(read_pair(json, check, err));
    WGI_TRY(need(check, &check->pair[0], err));
    WGI_TRY(need(check, &check->pair[1], err));
    if (check->prefix->count && check->pair[1].count >= check->prefix->count &&
        memcmp(check->pair[1].data, check->prefix->data, check->prefix->count) == 0)
        skip = check->prefix->count;
    check->whole.count = 0;
    WGI_TRY(wgi_buf_append(&check->whole, check->pair[0].data, check->pair[0].count, err));
    WGI_TRY(wgi_buf_append(&check->whole, check->pair[1].data + skip, check->pair[1].count - skip,
                           err));
    WGI_TRY(need(check, &check->whole, err));
    check->number++;

cleanup:
    return status;
}

static wg_status check_merges(const wgi_piece_table *vocabulary, const wgi_buf *prefix,
                              wgi_slice merges, wg_error *err)
{
    wg_status status = WG_OK;
    merge_check check = {.vocabulary = vocabulary, .prefix = prefix};
    wgi_json json;

    wgi_json_init(&json, merges.data, merges.count);
    WGI_TRY(wgi_json_array_begin(&json, err));
    while (wgi_json_array_next(&json))
        WGI_TRY(check_merge(&json, &check, err));
    WGI_TRY(wgi_json_finish(&json, err));

cleanup:
    wgi_json_fini(&json);
    wgi_buf_fini(&check.pair[0]);
    wgi_buf_fini(&check.pair[1]);
    wgi_buf_fini(&check.whole);
    return status;
}

wg_status wgi_bpe_load(wgi_token_model *model, wgi_slice part, wgi_refusals *refusals,
                       wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf prefix = {0};
    wgi_slice vocabulary = {"", 0}, merges = {"", 0};
    wgi_field fields[] = {
        {.name = "continuing_subword_prefix",
         .kind = WGI_FIELD_TEXT,
         .out = &prefix,
         .is_optional = true},
        {.name = "vocab", .kind = WGI_FIELD_RAW, .out = &vocabulary},
        {.name = "merges", .kind = WGI_FIELD_RAW, .out = &merges},
    };

    WGI_TRY(
        wgi_fields_read(part, "model BPE", fields, sizeof(fields) / sizeof(fields[0]), NULL, err));
    WGI_TRY(wgi_vocabulary_load(&model->vocabulary, vocabulary, err));
    WGI_TRY(check_merges(&model->vocabulary, &prefix, merges, err));
    WGI_TRY(wgi_refuse(refusals, err, "model type \"BPE\""));

cleanup:
    wgi_buf_fini(&prefix);
    return status;
}
