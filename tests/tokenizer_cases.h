/*
 * tokenizer_cases.h - reads lines of {"text", "pair", limits ..., "ids", "type_ids"} and compares
 * what a tokenizer gives with them. See tools/make_tokenizer_sample.py for the fields.
 */
#ifndef WGT_TOKENIZER_CASES_H
#define WGT_TOKENIZER_CASES_H

#include <sys/stat.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/os_map.h"
#include "harness.h"
#include "tokenizer/tokenizer.h"

typedef struct wgt_case {
    wgi_buf text, pair;
    bool has_pair, has_types, has_bare;
    wgi_ids ids, types, bare; /* bare: without special tokens */
    wg_encode_options options;
} wgt_case;

static inline wg_status wgt_read_ids(wgi_json *json, wgi_ids *ids, wg_error *err)
{
    wg_status status = wgi_json_array_begin(json, err);

    while (status == WG_OK && wgi_json_array_next(json)) {
        int64_t id = 0;
        status = wgi_json_int(json, &id, err);
        if (status == WG_OK) status = wgi_ids_push(ids, (int32_t)id, err);
    }
    return status;
}

static inline wg_status wgt_read_field(wgi_json *json, wgi_slice key, wgt_case *item, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf word = {0};
    uint64_t most = 0;
    bool flag = false;

    if (wgi_slice_is(key, "text")) {
        status = wgi_json_string(json, &item->text, err);
    } else if (wgi_slice_is(key, "pair") && wgi_json_peek(json) == WGI_JSON_STRING) {
        item->has_pair = true;
        status = wgi_json_string(json, &item->pair, err);
    } else if (wgi_slice_is(key, "ids")) {
        status = wgt_read_ids(json, &item->ids, err);
    } else if (wgi_slice_is(key, "ids_no_special")) {
        item->has_bare = true;
        status = wgt_read_ids(json, &item->bare, err);
    } else if (wgi_slice_is(key, "type_ids")) {
        item->has_types = true;
        status = wgt_read_ids(json, &item->types, err);
    } else if (wgi_slice_is(key, "max_length")) {
        status = wgi_json_uint(json, &most, err);
        item->options.token_count_max = (size_t)most;
    } else if (wgi_slice_is(key, "truncate")) {
        status = wgi_json_string(json, &word, err);
        if (word.data && strcmp(word.data, "tail") == 0) item->options.truncate = WG_TRUNCATE_TAIL;
    } else if (wgi_slice_is(key, "plain_specials")) {
        status = wgi_json_bool(json, &flag, err);
        item->options.plain_specials = flag;
    } else if (wgi_slice_is(key, "no_special_tokens")) {
        status = wgi_json_bool(json, &flag, err);
        item->options.no_special_tokens = flag;
    } else {
        status = wgi_json_skip(json, err);
    }
    wgi_buf_fini(&word);
    return status;
}

static inline wg_status wgt_case_read(wgi_slice line, wgt_case *item, wg_error *err)
{
    wgi_json json;
    wgi_slice key;

    wgi_json_init(&json, line.data, line.count);
    wg_status status = wgi_json_object_begin(&json, err);
    while (status == WG_OK && wgi_json_object_next(&json, &key))
        status = wgt_read_field(&json, key, item, err);
    if (status == WG_OK) status = wgi_json_finish(&json, err);
    wgi_json_fini(&json);
    return status;
}

static inline void wgt_case_fini(wgt_case *item)
{
    wgi_buf_fini(&item->text);
    wgi_buf_fini(&item->pair);
    wgi_free(item->ids.items);
    wgi_free(item->types.items);
    wgi_free(item->bare.items);
}

static inline bool wgt_ids_are(const int32_t *got, size_t count, const wgi_ids *want)
{
    return count == want->count &&
           (count == 0 || memcmp(got, want->items, count * sizeof(*got)) == 0);
}

static inline void wgt_ids_print(const char *name, const int32_t *ids, size_t count)
{
    fprintf(stderr, "  %s", name);
    for (size_t i = 0; i < count && i < 40; i++)
        fprintf(stderr, " %d", (int)ids[i]);
    fprintf(stderr, "\n");
}

/* One line; says where it differs. */
static inline void wgt_case_check(const wg_tokenizer *tokenizer, wgi_slice line,
                                  wg_encoding *encoding, const char *where, size_t number)
{
    wg_error err = {0};
    wgt_case item = {0};

    EXPECT_OK(wgt_case_read(line, &item, &err));
    EXPECT_OK(wg_tokenizer_encode(tokenizer, item.text.data, item.text.count,
                                  item.has_pair ? (item.pair.data ? item.pair.data : "") : NULL,
                                  item.pair.count, &item.options, encoding, &err));
    bool is_right =
        wgt_ids_are(encoding->token_ids, encoding->token_count, &item.ids) &&
        (!item.has_types || wgt_ids_are(encoding->type_ids, encoding->token_count, &item.types));
    if (!is_right) {
        wgt_fail_at(where, (int)number);
        fprintf(stderr, "ids of \"%.60s\"\n", item.text.data ? item.text.data : "");
        wgt_ids_print("is  ", encoding->token_ids, encoding->token_count);
        wgt_ids_print("want", item.ids.items, item.ids.count);
    }
    if (item.has_bare) {
        item.options.no_special_tokens = 1;
        EXPECT_OK(wg_tokenizer_encode(tokenizer, item.text.data, item.text.count, NULL, 0,
                                      &item.options, encoding, &err));
        if (!wgt_ids_are(encoding->token_ids, encoding->token_count, &item.bare))
            wgt_fail_at(where, (int)number);
    }
    wgt_case_fini(&item);
}

/* Calls `each` for every line; returns how many. */
static inline size_t wgt_lines(const char *path,
                               void (*each)(wgi_slice line, size_t number, void *context),
                               void *context)
{
    wg_error err = {0};
    wgi_map *map = NULL;
    size_t number = 0;

    EXPECT_OK(wgi_map_open(&map, path, &err));
    if (!map) return 0;
    for (size_t at = 0; at < map->bytes;) {
        const char *end = memchr(map->data + at, '\n', map->bytes - at);
        size_t count = end ? (size_t)(end - map->data) - at : map->bytes - at;
        if (count) each((wgi_slice){map->data + at, count}, ++number, context);
        at += count + 1;
    }
    wgi_map_close(map);
    return number;
}

typedef struct wgt_run {
    const wg_tokenizer *tokenizer;
    wg_encoding encoding;
    const char *path;
    size_t line_cases; /* of the line read last */
} wgt_run;

static inline void wgt_run_line(wgi_slice line, size_t number, void *context)
{
    wgt_run *run = context;

    wgt_case_check(run->tokenizer, line, &run->encoding, run->path, number);
}

static inline size_t wgt_cases_check(const wg_tokenizer *tokenizer, const char *path)
{
    wgt_run run = {.tokenizer = tokenizer, .path = path};
    size_t count = wgt_lines(path, wgt_run_line, &run);

    wg_encoding_fini(&run.encoding);
    return count;
}

#endif
