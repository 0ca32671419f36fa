/*
 * directory.c - paths and JSON settings of a model directory; see directory.h.
 *
 * The idea: every reader of a settings file is a loop over keys, and each value goes through a call
 * that knows the file and the key, so that no message has to be put together twice. A table of
 * (key, type, offset) was refused: half of the keys need a rule of their own.
 *
 * Symbolic links are followed: in a Hugging Face cache every file is one. What is refused is a path
 * *written in a file* that leaves the folder, since that text came with the model.
 *
 * Threads: no shared state.
 */
#include "model/directory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* ------------------------------------------------------------------------------- texts, paths */

const char *wgi_text_show(char out[WGI_SHOWN_BYTES], const char *text, size_t count)
{
    size_t room = WGI_SHOWN_BYTES - 1;
    size_t kept = count <= room ? count : room - 3;

    if (kept < count) {
        while (kept > 0 && ((unsigned char)text[kept] & 0xC0) == 0x80)
            kept--;
    }
    for (size_t i = 0; i < kept; i++) {
        unsigned char byte = (unsigned char)text[i];
        out[i] = text[i];
        if (byte < 0x20 || byte == 0x7F) out[i] = '?';
    }
    memcpy(out + kept, "...", kept < count ? 4 : 0);
    if (kept == count) out[kept] = 0;
    return out;
}

bool wgi_path_is_inside(const char *path, size_t count)
{
    size_t begin = 0;

    if (memchr(path, 0, count)) return false;
    if (count && (path[0] == '/' || path[0] == '\\')) return false;
    for (size_t i = 0; i <= count; i++) {
        if (i < count && path[i] != '/' && path[i] != '\\') continue;
        if (i - begin == 2 && path[begin] == '.' && path[begin + 1] == '.') return false;
        begin = i + 1;
    }
    return true;
}

wg_status wgi_path_join(char **out, const char *directory, const char *folder, const char *name,
                        wg_error *err)
{
    const char *parts[3] = {directory, folder ? folder : "", name ? name : ""};
    wgi_buf path = {0};
    wg_status status = WG_OK;

    *out = NULL;
    WGI_TRY(wgi_buf_reserve(&path, 0, err));
    for (size_t i = 0; i < 3; i++) {
        if (!parts[i][0]) continue;
        if (path.count && path.data[path.count - 1] != '/') WGI_TRY(wgi_buf_text(&path, "/", err));
        WGI_TRY(wgi_buf_text(&path, parts[i], err));
    }
    *out = path.data;
    path = (wgi_buf){0};

cleanup:
    wgi_buf_fini(&path);
    return status;
}

wg_status wgi_pointer_check(const wgi_map *map, const char *path, wg_error *err)
{
    static const char head[] = "version https://git-lfs.github.com/spec/";

    if (map->bytes < sizeof(head) - 1 || memcmp(map->data, head, sizeof(head) - 1) != 0)
        return WG_OK;
    return wgi_fail(err, WG_ERR_FORMAT,
                    "%s: is a Git LFS pointer, the file itself was not downloaded; "
                    "fetch it with `git lfs pull`",
                    path);
}

/* ----------------------------------------------------------------------------------- settings */

static wg_status open_file(wgi_settings *settings, const char *directory, const char *folder,
                           const char *name, bool is_required, wg_error *err)
{
    wg_status status = WG_OK;

    *settings = (wgi_settings){0};
    WGI_TRY(wgi_path_join(&settings->path, directory, folder, name, err));
    if (!is_required && !wgi_path_exists(settings->path)) goto cleanup;
    WGI_TRY(wgi_map_open(&settings->map, settings->path, err));
    WGI_TRY(wgi_pointer_check(settings->map, settings->path, err));
    wgi_json_init(&settings->json, settings->map->data, settings->map->bytes);

cleanup:
    return status;
}

wg_status wgi_settings_open(wgi_settings *settings, const char *directory, const char *folder,
                            const char *name, bool is_required, wg_error *err)
{
    wg_status status = open_file(settings, directory, folder, name, is_required, err);

    if (status != WG_OK || !settings->map) return status;
    status = wgi_json_object_begin(&settings->json, err);
    return status == WG_OK ? WG_OK : wgi_fail_prefix(err, status, settings->path);
}

wg_status wgi_settings_open_array(wgi_settings *settings, const char *directory, const char *name,
                                  bool is_required, wg_error *err)
{
    wg_status status = open_file(settings, directory, "", name, is_required, err);

    if (status != WG_OK || !settings->map) return status;
    status = wgi_json_array_begin(&settings->json, err);
    return status == WG_OK ? WG_OK : wgi_fail_prefix(err, status, settings->path);
}

void wgi_settings_fini(wgi_settings *settings)
{
    wgi_json_fini(&settings->json);
    wgi_map_close(settings->map);
    wgi_free(settings->path);
    *settings = (wgi_settings){0};
}

bool wgi_settings_next(wgi_settings *settings, wgi_slice *key)
{
    return settings->map && wgi_json_object_next(&settings->json, key);
}

wg_status wgi_settings_skip(wgi_settings *settings, wg_error *err)
{
    wg_status status = wgi_json_skip(&settings->json, err);

    return status == WG_OK ? WG_OK : wgi_fail_prefix(err, status, settings->path);
}

wg_status wgi_settings_finish(wgi_settings *settings, wg_error *err)
{
    if (!settings->map) return WG_OK;
    wg_status status = wgi_json_finish(&settings->json, err);
    return status == WG_OK ? WG_OK : wgi_fail_prefix(err, status, settings->path);
}

wg_status wgi_settings_fail(const wgi_settings *settings, const char *key, wg_status status,
                            wg_error *err, const char *format, ...)
{
    char message[256];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    return wgi_fail(err, status, "%s: key %s: %s", settings->path, key, message);
}

wg_status wgi_settings_blame(const wgi_settings *settings, const char *key, wg_status status,
                             wg_error *err)
{
    char text[WGI_SHOWN_BYTES], name[WGI_SHOWN_BYTES + 8];

    if (status == WG_OK) return WG_OK;
    int written = snprintf(name, sizeof(name), "key %s", wgi_text_show(text, key, strlen(key)));
    (void)written;
    (void)wgi_fail_prefix(err, status, name);
    return wgi_fail_prefix(err, status, settings->path);
}

/* --------------------------------------------------------------------------------- the values */

static const char *kind_name(wgi_json_kind kind)
{
    static const char *const names[] = {
        [WGI_JSON_NONE] = "nothing",    [WGI_JSON_OBJECT] = "an object",
        [WGI_JSON_ARRAY] = "an array",  [WGI_JSON_STRING] = "a string",
        [WGI_JSON_NUMBER] = "a number", [WGI_JSON_TRUE] = "true",
        [WGI_JSON_FALSE] = "false",     [WGI_JSON_NULL] = "null",
    };
    return names[kind];
}

/* A value of another kind; where the text itself is broken, the scanner's own words. */
static wg_status fail_kind(wgi_settings *settings, const char *key, const char *expected,
                           wgi_json_kind found, wg_error *err)
{
    if (found == WGI_JSON_NONE)
        return wgi_settings_blame(settings, key, wgi_json_skip(&settings->json, err), err);
    return wgi_settings_fail(settings, key, WG_ERR_FORMAT, err, "expected %s, found %s", expected,
                             kind_name(found));
}

wg_status wgi_settings_count(wgi_settings *settings, const char *key, uint64_t most, uint64_t *out,
                             wg_error *err)
{
    wgi_json_kind kind = wgi_json_peek(&settings->json);
    char text[WGI_SHOWN_BYTES];
    uint64_t value = 0;
    wgi_slice raw;
    wg_status status;

    if (kind != WGI_JSON_NUMBER) return fail_kind(settings, key, "an integer", kind, err);
    status = wgi_json_raw(&settings->json, &raw, err);
    if (status != WG_OK) return wgi_settings_blame(settings, key, status, err);
    for (size_t i = 0; i < raw.count; i++) {
        bool is_digit = raw.data[i] >= '0' && raw.data[i] <= '9';
        if (!is_digit && !(i == 0 && raw.data[0] == '-' && raw.count > 1))
            return wgi_settings_fail(settings, key, WG_ERR_FORMAT, err,
                                     "expected an integer, found %s",
                                     wgi_text_show(text, raw.data, raw.count));
        if (is_digit && value <= most) value = value * 10 + (uint64_t)(raw.data[i] - '0');
    }
    if (value == 0 || value > most || raw.data[0] == '-')
        return wgi_settings_fail(
            settings, key, WG_ERR_FORMAT, err, "%s is out of range (1 to %llu)",
            wgi_text_show(text, raw.data, raw.count), (unsigned long long)most);
    *out = value;
    return WG_OK;
}

wg_status wgi_settings_bool(wgi_settings *settings, const char *key, bool *out, wg_error *err)
{
    wgi_json_kind kind = wgi_json_peek(&settings->json);

    if (kind != WGI_JSON_TRUE && kind != WGI_JSON_FALSE)
        return fail_kind(settings, key, "true or false", kind, err);
    return wgi_settings_blame(settings, key, wgi_json_bool(&settings->json, out, err), err);
}

wg_status wgi_settings_double(wgi_settings *settings, const char *key, double *out, wg_error *err)
{
    wgi_json_kind kind = wgi_json_peek(&settings->json);

    if (kind != WGI_JSON_NUMBER) return fail_kind(settings, key, "a number", kind, err);
    return wgi_settings_blame(settings, key, wgi_json_double(&settings->json, out, err), err);
}

wg_status wgi_settings_string(wgi_settings *settings, const char *key, wgi_buf *out, wg_error *err)
{
    wgi_json_kind kind = wgi_json_peek(&settings->json);

    out->count = 0;
    if (kind != WGI_JSON_STRING) return fail_kind(settings, key, "a string", kind, err);
    /* Room first: an empty string is text too, and callers read out->data. */
    wg_status status = wgi_buf_reserve(out, 0, err);
    if (status == WG_OK) status = wgi_json_string(&settings->json, out, err);
    if (status != WG_OK) return wgi_settings_blame(settings, key, status, err);
    if (memchr(out->data, 0, out->count))
        return wgi_settings_fail(settings, key, WG_ERR_FORMAT, err, "the string holds a NUL");
    return WG_OK;
}

bool wgi_settings_take_null(wgi_settings *settings)
{
    return wgi_json_peek(&settings->json) == WGI_JSON_NULL &&
           wgi_json_null(&settings->json, NULL) == WG_OK;
}

wg_status wgi_settings_is_empty(wgi_settings *settings, const char *key, bool *is_empty,
                                wg_error *err)
{
    wgi_json_kind kind = wgi_json_peek(&settings->json);
    wgi_slice raw;
    wg_status status = wgi_json_raw(&settings->json, &raw, err);

    if (status != WG_OK) return wgi_settings_blame(settings, key, status, err);
    *is_empty = kind == WGI_JSON_NULL || kind == WGI_JSON_FALSE || wgi_slice_is(raw, "0") ||
                wgi_slice_is(raw, "\"\"");
    if (kind == WGI_JSON_OBJECT || kind == WGI_JSON_ARRAY) {
        size_t i = 1;
        while (i + 1 < raw.count && strchr(" \t\r\n", raw.data[i]))
            i++;
        *is_empty = i + 1 == raw.count;
    }
    return WG_OK;
}
