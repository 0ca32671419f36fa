/*
 * capacity_cache.c - measured capacities in a file of JSON lines; see capacity_cache.h.
 *
 * A line is appended in one write, so that two probes at once leave two whole lines.
 */
#include "job/capacity_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/os_file.h"
#include "base/os_map.h"
#include "base/os_processor.h"

/* The three highest bits: what machine and cgroup leave moves a little all the time. */
static uint64_t rounded(uint64_t bytes)
{
    int drop = 0;

    while ((bytes >> drop) >= 8)
        drop++;
    return bytes >> drop << drop;
}

void wgi_capacity_key(const wgi_footprint *footprint, wg_task task, uint64_t asked_bytes,
                      uint64_t ceiling, char key[256])
{
    const wg_model_info *info = wg_model_describe(footprint->model);
    char processor[64];

    wgi_processor_name(processor, sizeof(processor));
    (void)snprintf(key, 256, "%s %s %s/%s %s x%u task%d f32 longest%zu %s%" PRIu64 "M", WG_VERSION,
                   info->hash, info->backend, info->isa, processor, footprint->lane_count,
                   (int)task, footprint->longest, asked_bytes ? "memory" : "free",
                   (asked_bytes ? asked_bytes : rounded(ceiling)) >> 20);
}

/* The measured fields: one table for reading and writing. */
#define COUNTS(X)      \
    X(capacity_tokens) \
    X(knee_tokens)     \
    X(predicted_bytes) \
    X(verified_bytes)  \
    X(verified_run_tokens)
#define NUMBERS(X)       \
    X(knee_tokens_per_s) \
    X(best_tokens_per_s) \
    X(bytes_per_token)

/* Appends the path of the file; false: there is to be none. */
static bool cache_path(const char *asked, wgi_buf *path)
{
    const char *root = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    wg_status status;

    if (asked && !*asked) return false;
    if (asked)
        status = wgi_buf_text(path, asked, NULL);
    else if (root && *root == '/')
        status = wgi_buf_printf(path, NULL, "%s/warpgroup/capacity.jsonl", root);
    else if (home && *home)
        status = wgi_buf_printf(path, NULL, "%s/.cache/warpgroup/capacity.jsonl", home);
    else
        return false;
    return status == WG_OK;
}

/* One line: true when it is whole and of this key; then *found is filled. */
static bool read_line(const char *line, size_t bytes, const char *key_wanted, wg_probe *found)
{
    wgi_json json;
    wgi_slice key;
    wgi_buf text = {0};
    wg_status status = WG_OK;
    bool is_ours = false;

    wgi_json_init(&json, line, bytes);
    WGI_TRY(wgi_json_object_begin(&json, NULL));
    while (wgi_json_object_next(&json, &key)) {
        if (wgi_slice_is(key, "key")) {
            text.count = 0;
            WGI_TRY(wgi_json_string(&json, &text, NULL));
            is_ours = strcmp(text.data, key_wanted) == 0;
        }
#define READ_COUNT(name) \
    else if (wgi_slice_is(key, #name)) WGI_TRY(wgi_json_uint(&json, &found->name, NULL));
#define READ_NUMBER(name) \
    else if (wgi_slice_is(key, #name)) WGI_TRY(wgi_json_double(&json, &found->name, NULL));
        COUNTS(READ_COUNT)
        NUMBERS(READ_NUMBER)
        else WGI_TRY(wgi_json_skip(&json, NULL));
    }
    WGI_TRY(wgi_json_finish(&json, NULL));

cleanup:
    wgi_json_fini(&json);
    wgi_buf_fini(&text);
    return status == WG_OK && is_ours && found->capacity_tokens > 0;
}

bool wgi_capacity_cache_find(const char *asked, wg_probe *probe)
{
    wgi_buf path = {0};
    wgi_map *map = NULL;
    bool is_found = false;

    if (cache_path(asked, &path) && wgi_map_open(&map, path.data, NULL) == WG_OK) {
        for (const char *at = map->data, *end = at + map->bytes; at < end;) {
            const char *line_end = memchr(at, '\n', (size_t)(end - at));
            if (!line_end) break; /* a torn last line */
            wg_probe found = *probe;
            if (read_line(at, (size_t)(line_end - at), probe->key, &found)) {
                *probe = found;
                is_found = true;
            }
            at = line_end + 1;
        }
    }
    wgi_map_close(map);
    wgi_buf_fini(&path);
    return is_found;
}

static wg_status write_line(wgi_buf *line, const wg_probe *probe, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(wgi_buf_text(line, "{\"key\": ", err));
    WGI_TRY(wgi_json_quote(line, probe->key, strlen(probe->key), err));
#define WRITE_COUNT(name) \
    WGI_TRY(wgi_buf_printf(line, err, ", \"" #name "\": %llu", (unsigned long long)probe->name));
#define WRITE_NUMBER(name)                                 \
    WGI_TRY(wgi_buf_text(line, ", \"" #name "\": ", err)); \
    WGI_TRY(wgi_json_put_double(line, probe->name, err));
    COUNTS(WRITE_COUNT)
    NUMBERS(WRITE_NUMBER)
    WGI_TRY(wgi_buf_text(line, "}\n", err));

cleanup:
    return status;
}

void wgi_capacity_cache_keep(const char *asked, const wg_probe *probe)
{
    wg_status status = WG_OK;
    wg_error err = {0};
    wgi_buf path = {0}, line = {0};

    if (!cache_path(asked, &path)) goto cleanup;
    WGI_TRY(write_line(&line, probe, &err));
    WGI_TRY(wgi_file_append_line(path.data, line.data, line.count, &err));

cleanup:
    if (status != WG_OK) wgi_log(WG_LOG_WARNING, "the capacity was not kept: %s", err.message);
    wgi_buf_fini(&line);
    wgi_buf_fini(&path);
}
