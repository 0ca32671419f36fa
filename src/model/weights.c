/*
 * weights.c - the tensors of a model: one file, or shards that an index names.
 *
 *     model.safetensors                      one file: all of its tensors
 *     model.safetensors.index.json           {"weight_map": {"w":
 * "model-00001-of-00002.safetensors"}} model-00001-of-00002.safetensors     each shard is checked
 * whole; what the index does not model-00002-of-00002.safetensors     list is not there
 *
 * The idea: files are mapped, tensors are borrowed from them, and the only copies are names. With
 * an index, entries are first known by (file, name), so that one shard may hold a tensor that the
 * index takes from another; those that the index lists are kept and then known by name alone.
 *
 * A shard's path comes from a file, so it is checked to stay in the folder before it is opened.
 *
 * Threads: read-only after wgi_weights_open; any thread.
 */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/os_map.h"
#include "model/directory.h"
#include "model/safetensors.h"
#include "model/weights_gguf.h"

#define SHARD_COUNT_MAX 4096 /* the largest published models have a few hundred */

static const char single_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";

typedef struct weight_file {
    char *name; /* as the index has it; NULL: opened by path */
    wgi_map *map;
} weight_file;

struct wgi_weights {
    wgi_entries entries;
    weight_file *files;
    size_t file_count, file_capacity;
    wgi_gguf *gguf; /* NULL: safetensors */
    wgi_gguf_fields fields;
    char *path; /* for messages: the file, or the index */
    uint64_t bytes;
    uint64_t hash[2];
};

/* One line of weight_map. */
typedef struct listing {
    size_t name_at, name_bytes; /* in index_reading.names */
    uint32_t file;
} listing;

typedef struct index_reading {
    wgi_weights *weights;
    const char *directory;
    wgi_settings settings;
    listing *items;
    size_t count, capacity;
    wgi_buf names, value;
} index_reading;

/* ---------------------------------------------------------------------------------- one file */

/* Two FNV-1a lanes with unlike multipliers: an identity, not a signature. */
static void hash_bytes(wgi_weights *weights, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    uint64_t a = weights->hash[0], b = weights->hash[1];

    for (size_t i = 0; i < count; i++) {
        a = (a ^ at[i]) * 0x100000001B3u;
        b = (b ^ at[i]) * 0x9E3779B97F4A7C15u;
    }
    weights->hash[0] = a;
    weights->hash[1] = b ^ b >> 29;
}

/* Maps and reads files[file] from path. */
static wg_status read_file(wgi_weights *weights, uint32_t file, const char *path, wg_error *err)
{
    weight_file *slot = &weights->files[file];
    uint64_t header_bytes = 0, file_bytes;
    wg_status status = WG_OK;

    WGI_TRY(wgi_map_open(&slot->map, path, err));
    WGI_TRY(wgi_safetensors_read(&weights->entries, slot->map, path, file, &header_bytes, err));
    file_bytes = slot->map->bytes;
    weights->bytes += file_bytes;
    hash_bytes(weights, &file_bytes, sizeof(file_bytes));
    hash_bytes(weights, slot->map->data, sizeof(uint64_t) + (size_t)header_bytes);

cleanup:
    return status;
}

static wg_status add_file(wgi_weights *weights, const char *name, uint32_t *file, wg_error *err)
{
    wg_status status = wgi_grow(&weights->files, &weights->file_capacity, weights->file_count + 1,
                                sizeof(*weights->files), err);
    char *copy = NULL;

    if (status != WG_OK) return status;
    if (name && !(copy = wgi_strdup(name)))
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a file name");
    *file = (uint32_t)weights->file_count;
    weights->files[weights->file_count++] = (weight_file){.name = copy};
    return WG_OK;
}

static wg_status open_single(wgi_weights *weights, const char *path, wg_error *err)
{
    wg_status status = WG_OK;
    uint32_t file;

    weights->path = wgi_strdup(path);
    if (!weights->path) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a file name");
    WGI_TRY(add_file(weights, NULL, &file, err));
    WGI_TRY(read_file(weights, file, path, err));

cleanup:
    return status;
}

static wg_status open_gguf(wgi_weights *weights, const char *path, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_slice header;

    weights->path = wgi_strdup(path);
    if (!weights->path) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a file name");
    WGI_TRY(wgi_gguf_open(&weights->gguf, path, err));
    WGI_TRY(wgi_gguf_fields_read(&weights->fields, weights->gguf, err));
    WGI_TRY(wgi_gguf_entries(&weights->entries, weights->gguf, &weights->fields, err));
    weights->bytes = wgi_gguf_bytes(weights->gguf);
    header = wgi_gguf_header(weights->gguf);
    hash_bytes(weights, &weights->bytes, sizeof(weights->bytes));
    hash_bytes(weights, header.data, header.count);

cleanup:
    return status;
}

/* --------------------------------------------------------------------------- index and shards */

static wg_status find_shard(index_reading *reading, const char *tensor, uint32_t *file,
                            wg_error *err)
{
    wgi_weights *weights = reading->weights;
    const char *name = reading->value.data;
    char shown[WGI_SHOWN_BYTES];

    if (!reading->value.count || !wgi_path_is_inside(name, reading->value.count))
        return wgi_fail(
            err, WG_ERR_FORMAT, "%s: tensor '%s': the file \"%s\" is outside the model folder",
            reading->settings.path, tensor, wgi_text_show(shown, name, reading->value.count));
    /* Neighbours in the map mostly stand in one file: the last one is asked first. */
    for (size_t i = weights->file_count; i-- > 0;) {
        if (strcmp(weights->files[i].name, name) != 0) continue;
        *file = (uint32_t)i;
        return WG_OK;
    }
    if (weights->file_count == SHARD_COUNT_MAX)
        return wgi_fail(err, WG_ERR_LIMIT, "%s: more than %d files are named",
                        reading->settings.path, SHARD_COUNT_MAX);
    return add_file(weights, name, file, err);
}

static wg_status read_weight_map(index_reading *reading, wg_error *err)
{
    wgi_json *json = &reading->settings.json;
    char shown[WGI_SHOWN_BYTES];
    wg_status status = WG_OK;
    wgi_slice key;

    WGI_TRY(wgi_settings_blame(&reading->settings, "weight_map", wgi_json_object_begin(json, err),
                               err));
    while (wgi_json_object_next(json, &key)) {
        listing item = {.name_at = reading->names.count, .name_bytes = key.count};
        (void)wgi_text_show(shown, key.data, key.count);
        WGI_TRY(wgi_buf_append(&reading->names, key.data, key.count, err));
        WGI_TRY(wgi_settings_string(&reading->settings, shown, &reading->value, err));
        WGI_TRY(find_shard(reading, shown, &item.file, err));
        WGI_TRY(
            wgi_grow(&reading->items, &reading->capacity, reading->count + 1, sizeof(item), err));
        reading->items[reading->count++] = item;
    }
    WGI_TRY(wgi_settings_blame(&reading->settings, "weight_map", wgi_json_status(json, err), err));

cleanup:
    return status;
}

static wg_status read_index(index_reading *reading, wg_error *err)
{
    wg_status status = WG_OK;
    bool has_map = false;
    wgi_slice key;

    while (wgi_settings_next(&reading->settings, &key)) {
        if (wgi_slice_is(key, "weight_map") && !has_map) {
            has_map = true;
            WGI_TRY(read_weight_map(reading, err));
        } else if (wgi_slice_is(key, "weight_map")) {
            status = wgi_settings_fail(&reading->settings, "weight_map", WG_ERR_FORMAT, err,
                                       "is there twice");
            goto cleanup;
        } else {
            WGI_TRY(wgi_settings_skip(&reading->settings, err));
        }
    }
    WGI_TRY(wgi_settings_finish(&reading->settings, err));
    if (!reading->count)
        status = wgi_settings_fail(&reading->settings, "weight_map", WG_ERR_FORMAT, err, "%s",
                                   has_map ? "names no tensor" : "is missing");

cleanup:
    return status;
}

static wg_status read_shards(index_reading *reading, wg_error *err)
{
    wgi_weights *weights = reading->weights;
    wg_status status = WG_OK;
    char *path = NULL;

    for (size_t i = 0; i < weights->file_count; i++) {
        char shown[WGI_SHOWN_BYTES];
        const char *name = weights->files[i].name;
        WGI_TRY(wgi_path_join(&path, reading->directory, "", name, err));
        if (!wgi_path_exists(path)) {
            status = wgi_fail(err, WG_ERR_IO,
                              "%s: names the file %s, which is missing; download it again",
                              weights->path, wgi_text_show(shown, name, strlen(name)));
            goto cleanup;
        }
        WGI_TRY(read_file(weights, (uint32_t)i, path, err));
        wgi_free(path);
        path = NULL;
    }

cleanup:
    wgi_free(path);
    return status;
}

/* Keeps what the index lists, each name once, and rebuilds the table by name alone. */
static wg_status keep_listed(index_reading *reading, wg_error *err)
{
    wgi_weights *weights = reading->weights;
    wgi_entries *entries = &weights->entries;
    char shown[WGI_SHOWN_BYTES], shown_file[WGI_SHOWN_BYTES];
    wg_status status = WG_OK;
    size_t kept = 0;

    for (size_t i = 0; i < reading->count; i++) {
        const listing *item = &reading->items[i];
        const char *name = reading->names.data + item->name_at;
        wgi_entry *entry = wgi_entries_find(entries, item->file, name, item->name_bytes);
        if (!entry) {
            const char *file = weights->files[item->file].name;
            status =
                wgi_fail(err, WG_ERR_FORMAT, "%s: tensor '%s' is not in %s, where the index has it",
                         weights->path, wgi_text_show(shown, name, item->name_bytes),
                         wgi_text_show(shown_file, file, strlen(file)));
            goto cleanup;
        }
        entry->is_listed = true;
    }
    wgi_entries_unhash(entries);
    for (size_t i = 0; i < entries->count; i++) {
        if (entries->items[i].is_listed) entries->items[kept++] = entries->items[i];
    }
    entries->count = kept;
    for (size_t i = 0; i < kept; i++) {
        wgi_entry *entry = &entries->items[i];
        bool is_new;
        entry->file = 0;
        WGI_TRY(wgi_entries_add(entries, i, &is_new, err));
        if (is_new) continue;
        status =
            wgi_fail(err, WG_ERR_FORMAT, "%s: tensor '%s' is listed in two files", weights->path,
                     wgi_text_show(shown, entries->names.data + entry->name_at, entry->name_bytes));
        goto cleanup;
    }

cleanup:
    return status;
}

static wg_status open_index(wgi_weights *weights, const char *directory, const char *name,
                            wg_error *err)
{
    index_reading reading = {.weights = weights, .directory = directory};
    wg_status status = WG_OK;

    WGI_TRY(wgi_settings_open(&reading.settings, directory, "", name, true, err));
    weights->path = wgi_strdup(reading.settings.path);
    if (!weights->path) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a file name");
        goto cleanup;
    }
    WGI_TRY(read_index(&reading, err));
    WGI_TRY(read_shards(&reading, err));
    WGI_TRY(keep_listed(&reading, err));

cleanup:
    wgi_settings_fini(&reading.settings);
    wgi_buf_fini(&reading.names);
    wgi_buf_fini(&reading.value);
    wgi_free(reading.items);
    return status;
}

/* -------------------------------------------------------------------------------------- public */

static bool has_suffix(const char *text, const char *suffix)
{
    size_t count = strlen(text), suffix_count = strlen(suffix);

    return count >= suffix_count && strcmp(text + count - suffix_count, suffix) == 0;
}

/* An index given by its own path: its folder is what stands before the last '/'. */
static wg_status open_index_path(wgi_weights *weights, const char *path, wg_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char *directory = wgi_memdup(path, (size_t)(name - path));

    if (!directory) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a file name");
    wg_status status = open_index(weights, directory, name, err);
    wgi_free(directory);
    return status;
}

static wg_status open_directory(wgi_weights *weights, const char *directory, wg_error *err)
{
    static const char *const others[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                         "tf_model.h5", "model.onnx"};
    char *single = NULL, *index = NULL, *other = NULL;
    wg_status status = WG_OK;

    WGI_TRY(wgi_path_join(&single, directory, "", single_name, err));
    WGI_TRY(wgi_path_join(&index, directory, "", index_name, err));
    if (wgi_path_exists(single)) {
        status = open_single(weights, single, err);
        goto cleanup;
    }
    if (wgi_path_exists(index)) {
        status = open_index(weights, directory, index_name, err);
        goto cleanup;
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        wgi_free(other);
        other = NULL;
        WGI_TRY(wgi_path_join(&other, directory, "", others[i], err));
        if (!wgi_path_exists(other)) continue;
        status = wgi_fail(err, WG_ERR_UNSUPPORTED,
                          "%s: only safetensors weights are read; save the model as %s", other,
                          single_name);
        goto cleanup;
    }
    status = wgi_fail(err, WG_ERR_IO, "%s: there is no %s and no %s", directory, single_name,
                      index_name);

cleanup:
    wgi_free(single);
    wgi_free(index);
    wgi_free(other);
    return status;
}

wg_status wgi_weights_open(wgi_weights **out, const char *path, wg_error *err)
{
    wg_status status = WG_OK;

    *out = NULL;
    wgi_weights *weights = wgi_calloc(1, sizeof(*weights));
    if (!weights) return wgi_fail(err, WG_ERR_NO_MEMORY, "%s: no memory for weights", path);
    weights->hash[0] = 0xCBF29CE484222325u;
    weights->hash[1] = 0x6A09E667F3BCC908u;

    if (wgi_path_is_gguf(path)) {
        status = open_gguf(weights, path, err);
    } else if (has_suffix(path, ".safetensors")) {
        status = open_single(weights, path, err);
    } else if (has_suffix(path, ".json")) {
        status = open_index_path(weights, path, err);
    } else {
        status = open_directory(weights, path, err);
    }
    WGI_TRY(status);
    wgi_entries_settle(&weights->entries);
    *out = weights;
    weights = NULL;

cleanup:
    wgi_weights_close(weights);
    return status;
}

void wgi_weights_close(wgi_weights *weights)
{
    if (!weights) return;
    for (size_t i = 0; i < weights->file_count; i++) {
        wgi_map_close(weights->files[i].map);
        wgi_free(weights->files[i].name);
    }
    wgi_free(weights->files);
    wgi_gguf_close(weights->gguf);
    wgi_entries_fini(&weights->entries);
    wgi_free(weights->path);
    wgi_free(weights);
}

size_t wgi_weights_count(const wgi_weights *weights)
{
    return weights->entries.count;
}

const wgi_tensor *wgi_weights_at(const wgi_weights *weights, size_t index)
{
    return &weights->entries.items[index].tensor;
}

const wgi_tensor *wgi_weights_find(const wgi_weights *weights, const char *name)
{
    const wgi_entry *entry = wgi_entries_find(&weights->entries, 0, name, strlen(name));

    return entry ? &entry->tensor : NULL;
}

uint64_t wgi_weights_bytes(const wgi_weights *weights)
{
    return weights->bytes;
}

const char *wgi_weights_path(const wgi_weights *weights)
{
    return weights->path;
}

void wgi_weights_hash(const wgi_weights *weights, char hex[33])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < 32; i++)
        hex[i] = digits[weights->hash[i / 16] >> (60 - 4 * (i % 16)) & 15];
    hex[32] = 0;
}

wg_status wgi_weights_in_order(const wgi_weights *weights, const wgi_tensor *tensor,
                               wgi_tensor *out, void **copy, wg_error *err)
{
    if (weights->gguf) return wgi_gguf_in_order(&weights->fields, tensor, out, copy, err);
    *out = *tensor;
    *copy = NULL;
    return WG_OK;
}

void wgi_weights_drop(const wgi_weights *weights, const wgi_tensor *tensor)
{
    const char *data = tensor->data;

    if (weights->gguf) wgi_gguf_drop(weights->gguf, tensor);

    for (size_t i = 0; i < weights->file_count; i++) {
        const wgi_map *map = weights->files[i].map;
        if (data >= map->data && data < map->data + map->bytes)
            wgi_map_drop(map, data, tensor->bytes);
    }
}

/* ----------------------------------------------------------------------- what a model asks for */

/* "[106, 32]": at most 22 bytes a dimension. */
#define SHAPE_TEXT_BYTES 192
_Static_assert(WGI_TENSOR_RANK_MAX * 22 + 3 <= SHAPE_TEXT_BYTES, "a shape fits its text");

static const char *shape_text(char out[SHAPE_TEXT_BYTES], uint32_t rank, const uint64_t *shape)
{
    size_t room = SHAPE_TEXT_BYTES, at = 0;

    out[at++] = '[';
    for (uint32_t i = 0; i < rank; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%llu", i ? ", " : "",
                               (unsigned long long)shape[i]);
    (void)snprintf(out + at, room - at, "]");
    return out;
}

/* "vocab_size 106, hidden_size 64": the keys whose dimension is not the tensor's. */
static const char *keys_text(char out[160], const wgi_tensor_need *need, const wgi_tensor *tensor)
{
    size_t room = 160, at = 0;

    out[0] = 0;
    for (uint32_t i = 0; i < need->rank && at + 1 < room; i++) {
        bool is_right = tensor->rank == need->rank && tensor->shape[i] == need->shape[i];
        if (is_right || !need->keys[i]) continue;
        int written = snprintf(out + at, room - at, "%s%s %llu", at ? ", " : "", need->keys[i],
                               (unsigned long long)need->shape[i]);
        at += written > 0 ? (size_t)written : 0;
    }
    return out;
}

/* A GGUF file's tensors have names of their own; messages say what stands in the file. */
static const char *name_in_file(const wgi_weights *weights, const char *name,
                                char out[WGI_GGUF_NAME_BYTES])
{
    if (weights->gguf && wgi_gguf_name_from_hf(weights->fields.architecture, name, out, NULL))
        return out;
    return name;
}

static wg_status fail_shape(const wgi_weights *weights, const wgi_tensor_need *need,
                            const wgi_tensor *tensor, wg_error *err)
{
    char got[SHAPE_TEXT_BYTES], want[SHAPE_TEXT_BYTES], keys[160], own[WGI_GGUF_NAME_BYTES];

    (void)shape_text(got, tensor->rank, tensor->shape);
    (void)shape_text(want, need->rank, need->shape);
    (void)keys_text(keys, need, tensor);
    return wgi_fail(err, WG_ERR_FORMAT,
                    "%s: tensor '%.120s' has shape %s, but the configuration%s%s%s asks for %s",
                    weights->path, name_in_file(weights, need->name, own), got, keys[0] ? " (" : "",
                    keys, keys[0] ? ")" : "", want);
}

wg_status wgi_weights_need(const wgi_weights *weights, const wgi_tensor_need *need,
                           const wgi_tensor **tensor, wg_error *err)
{
    const wgi_tensor *found = wgi_weights_find(weights, need->name);
    char own[WGI_GGUF_NAME_BYTES];

    *tensor = NULL;
    if (!found)
        return wgi_fail(err, WG_ERR_FORMAT, "%s: tensor '%.120s' is missing%s%s", weights->path,
                        name_in_file(weights, need->name, own),
                        need->asked_by ? ", but the configuration says " : "",
                        need->asked_by ? need->asked_by : "");
    if (found->rank != need->rank ||
        memcmp(found->shape, need->shape, need->rank * sizeof(need->shape[0])) != 0)
        return fail_shape(weights, need, found, err);
    if (found->dtype == WGI_DTYPE_OTHER)
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "%s: dtype %s not supported for tensor '%.120s' (F32, F16 and BF16 are%s)",
                        weights->path, found->dtype_name, name_in_file(weights, need->name, own),
                        weights->gguf ? "; Q4_0 to Q8_0 and Q4_K to Q6_K too" : "");
    *tensor = found;
    return WG_OK;
}
