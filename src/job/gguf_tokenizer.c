/*
 * gguf_tokenizer.c - opens tokenizers: hands the arrays of a GGUF file to the tokenizer folder, and
 * a path to whoever can read it.
 *
 * The idea: the folder of tokenizers knows no file formats of models, so the two meet here. A file
 * is told by its first bytes, not by its name.
 *
 * Threads: open and close as the caller likes.
 */
#include "job/gguf_tokenizer.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os_dir.h"
#include "base/os_map.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

#define KEY(name) "tokenizer.ggml." name

/* Copies of the file's arrays, as the vocabulary wants them. */
typedef struct arrays {
    wgi_slice *tokens, *merges;
    double *scores;
    int32_t *types;
} arrays;

/* Room for what the file has as many bytes for. */
static wg_status take_room(void *out, uint64_t count, size_t item_bytes, wg_error *err)
{
    void *room = count <= SIZE_MAX ? wgi_calloc((size_t)count, item_bytes) : NULL;

    memcpy(out, &room, sizeof(room));
    return room ? WG_OK
                : wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %llu entries of a vocabulary",
                           (unsigned long long)count);
}

static wg_status read_strings(const wgi_gguf *gguf, const char *key, wgi_slice **out, size_t *count,
                              wg_error *err)
{
    wg_status status = WG_OK;
    wgi_gguf_array array;

    WGI_TRY(wgi_gguf_strings(gguf, key, &array, err));
    WGI_TRY(take_room(out, array.count, sizeof(**out), err));
    for (*count = 0; wgi_gguf_string_next(&array, &(*out)[*count]);)
        ++*count;

cleanup:
    return status;
}

/* An array beside the tokens has as many entries as they. */
static wg_status check_count(const wgi_gguf *gguf, const char *key, uint64_t count, size_t tokens,
                             wg_error *err)
{
    if (count == tokens) return WG_OK;
    return wgi_fail(err, WG_ERR_FORMAT, "%s: key %s has %llu entries for %zu tokens",
                    wgi_gguf_path(gguf), key, (unsigned long long)count, tokens);
}

static wg_status read_numbers(const wgi_gguf *gguf, arrays *room, size_t tokens, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_gguf_array array;

    if (wgi_gguf_has(gguf, KEY("scores"))) {
        WGI_TRY(wgi_gguf_floats(gguf, KEY("scores"), &array, err));
        WGI_TRY(check_count(gguf, KEY("scores"), array.count, tokens, err));
        WGI_TRY(take_room(&room->scores, array.count, sizeof(*room->scores), err));
        for (size_t i = 0; i < tokens; i++) {
            room->scores[i] = wgi_gguf_float_at(&array, i);
            if (isfinite(room->scores[i])) continue;
            status =
                wgi_fail(err, WG_ERR_FORMAT, "%s: key %s: the score of token %zu is not finite",
                         wgi_gguf_path(gguf), KEY("scores"), i);
            goto cleanup;
        }
    }
    if (wgi_gguf_has(gguf, KEY("token_type"))) {
        WGI_TRY(wgi_gguf_ints(gguf, KEY("token_type"), &array, err));
        WGI_TRY(check_count(gguf, KEY("token_type"), array.count, tokens, err));
        WGI_TRY(take_room(&room->types, array.count, sizeof(*room->types), err));
        for (size_t i = 0; i < tokens; i++) {
            int64_t type = wgi_gguf_int_at(&array, i);
            if (type < WGI_TOKEN_NORMAL || type > WGI_TOKEN_BYTE) {
                status = wgi_fail(err, WG_ERR_FORMAT, "%s: token %zu has the unknown type %lld",
                                  wgi_gguf_path(gguf), i, (long long)type);
                goto cleanup;
            }
            room->types[i] = (int32_t)type;
        }
    }

cleanup:
    return status;
}

static wg_status read_id(const wgi_gguf *gguf, const char *key, int64_t *out, wg_error *err)
{
    *out = WGI_NO_TOKEN;
    return wgi_gguf_has(gguf, key) ? wgi_gguf_int(gguf, key, out, err) : WG_OK;
}

static wg_status read_switch(const wgi_gguf *gguf, const char *key, wgi_switch *out, wg_error *err)
{
    bool is_on = false;

    *out = WGI_SWITCH_MISSING;
    if (!wgi_gguf_has(gguf, key)) return WG_OK;
    wg_status status = wgi_gguf_bool(gguf, key, &is_on, err);
    *out = is_on ? WGI_SWITCH_ON : WGI_SWITCH_OFF;
    return status;
}

static wg_status read_charsmap(const wgi_gguf *gguf, wgi_slice *out, wg_error *err)
{
    static const char key[] = KEY("precompiled_charsmap");
    wgi_gguf_array array;
    wg_status status = WG_OK;

    if (!wgi_gguf_has(gguf, key)) return WG_OK;
    WGI_TRY(wgi_gguf_ints(gguf, key, &array, err));
    if (array.kind != WGI_GGUF_U8 && array.kind != WGI_GGUF_I8)
        return wgi_fail(err, WG_ERR_FORMAT, "%s: key %s: expected bytes", wgi_gguf_path(gguf), key);
    *out = (wgi_slice){array.data, (size_t)array.count};

cleanup:
    return status;
}

static wg_status read_names(const wgi_gguf *gguf, wgi_vocabulary *to, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(wgi_gguf_string(gguf, KEY("model"), &to->model, err));
    to->pre = (wgi_slice){"", 0};
    if (wgi_gguf_has(gguf, KEY("pre"))) WGI_TRY(wgi_gguf_string(gguf, KEY("pre"), &to->pre, err));
    WGI_TRY(read_id(gguf, KEY("bos_token_id"), &to->bos, err));
    WGI_TRY(read_id(gguf, KEY("eos_token_id"), &to->eos, err));
    WGI_TRY(read_id(gguf, KEY("unknown_token_id"), &to->unknown, err));
    WGI_TRY(read_id(gguf, KEY("cls_token_id"), &to->cls, err));
    WGI_TRY(read_id(gguf, KEY("seperator_token_id"), &to->separator, err)); /* as it is spelled */
    WGI_TRY(read_switch(gguf, KEY("add_bos_token"), &to->adds_bos, err));
    WGI_TRY(read_switch(gguf, KEY("add_eos_token"), &to->adds_eos, err));
    WGI_TRY(read_switch(gguf, KEY("add_space_prefix"), &to->adds_space_prefix, err));
    WGI_TRY(read_charsmap(gguf, &to->charsmap, err));
    WGI_TRY(read_switch(gguf, KEY("normalizer.lowercase"), &to->lowers_case, err));
    WGI_TRY(read_switch(gguf, KEY("normalizer.strip_accents"), &to->strips_accents, err));

cleanup:
    return status;
}

wg_status wgi_gguf_tokenizer_open(wg_tokenizer **out, const wgi_gguf *gguf, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_vocabulary vocabulary = {0};
    arrays room = {0};

    *out = NULL;
    WGI_TRY(read_names(gguf, &vocabulary, err));
    WGI_TRY(read_strings(gguf, KEY("tokens"), &room.tokens, &vocabulary.token_count, err));
    WGI_TRY(read_numbers(gguf, &room, vocabulary.token_count, err));
    if (wgi_gguf_has(gguf, KEY("merges")))
        WGI_TRY(read_strings(gguf, KEY("merges"), &room.merges, &vocabulary.merge_count, err));
    else if (wgi_slice_is(vocabulary.model, "gpt2")) /* without them every text is single bytes */
        WGI_TRY(wgi_fail(err, WG_ERR_FORMAT, "%s: key %s: is missing", wgi_gguf_path(gguf),
                         KEY("merges")));
    vocabulary.tokens = room.tokens;
    vocabulary.merges = room.merges;
    vocabulary.scores = room.scores;
    vocabulary.types = room.types;
    status = wgi_tokenizer_from_vocabulary(out, &vocabulary, err);
    if (status != WG_OK) status = wgi_fail_prefix(err, status, wgi_gguf_path(gguf));

cleanup:
    wgi_free(room.tokens);
    wgi_free(room.merges);
    wgi_free(room.scores);
    wgi_free(room.types);
    return status;
}

wg_status wg_tokenizer_open(wg_tokenizer **out, const char *path, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_gguf *gguf = NULL;
    wgi_map *map = NULL;
    wgi_path_info info;

    if (!out) return wgi_fail(err, WG_ERR_ARGUMENT, "no place to put the tokenizer");
    *out = NULL;
    if (!path) return wgi_fail(err, WG_ERR_ARGUMENT, "no path of a tokenizer was given");
    status = wgi_path_look(path, &info, err);
    if (status != WG_OK) return wgi_fail_prefix(err, status, path);
    if (info.kind == WGI_PATH_DIRECTORY) return wgi_tokenizer_open_json(out, path, err);
    WGI_TRY(wgi_map_open(&map, path, err));
    /* By content or by name, so that a damaged file of that name is told of as one. */
    bool is_gguf = map->bytes >= 4 && memcmp(map->data, "GGUF", 4) == 0;
    if (!is_gguf && !wgi_path_is_gguf(path)) {
        WGI_TRY(wgi_tokenizer_open_json(out, path, err));
    } else {
        WGI_TRY(wgi_gguf_read(&gguf, map, path, err));
        WGI_TRY(wgi_gguf_tokenizer_open(out, gguf, err));
    }

cleanup:
    wgi_gguf_close(gguf);
    wgi_map_close(map);
    return status;
}
