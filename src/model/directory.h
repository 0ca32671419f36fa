/*
 * directory.h - files of a model directory: paths that cannot leave it, and JSON settings whose
 * errors name the file, the key, and what was expected.
 *
 *     wgi_settings settings;
 *     wgi_slice key;
 *     WGI_TRY(wgi_settings_open(&settings, directory, "", "config.json", true, err));
 *     while (wgi_settings_next(&settings, &key)) {
 *         if (wgi_slice_is(key, "hidden_size"))
 *             WGI_TRY(wgi_settings_count(&settings, "hidden_size", 65536, &hidden, err));
 *         else
 *             WGI_TRY(wgi_settings_skip(&settings, err));
 *     }
 *     WGI_TRY(wgi_settings_finish(&settings, err));
 */
#ifndef WGI_DIRECTORY_H
#define WGI_DIRECTORY_H

#include <stdbool.h>

#include "base/json.h"
#include "base/os_map.h"
#include "base/status.h"

/*
 * Untrusted text made fit for a message: control bytes become '?', and what is longer than the
 * room is cut between characters and ends in "...". Returns out.
 */
#define WGI_SHOWN_BYTES 100
const char *wgi_text_show(char out[WGI_SHOWN_BYTES], const char *text, size_t count);

/*
 * A relative path that stays in its folder: not rooted, without ".." (with '/' or '\'), without a
 * NUL. "" is the folder itself. Symbolic links may lead elsewhere: Hugging Face caches are made so.
 */
bool wgi_path_is_inside(const char *path, size_t count);

/* directory/folder/name in *out (for wgi_free); an empty or NULL part is left out. */
wg_status wgi_path_join(char **out, const char *directory, const char *folder, const char *name,
                        wg_error *err);

/* WG_ERR_FORMAT when the file is a Git LFS pointer in place of the real one. */
wg_status wgi_pointer_check(const wgi_map *map, const char *path, wg_error *err);

/* One JSON file that is being read. */
typedef struct wgi_settings {
    char *path;
    wgi_map *map; /* NULL: the file is not there (and was optional) */
    wgi_json json;
} wgi_settings;

/*
 * Opens directory/folder/name and, when it begins with an object, enters it. A file that is not
 * there is an error only when it is required. Always followed by wgi_settings_fini.
 */
wg_status wgi_settings_open(wgi_settings *settings, const char *directory, const char *folder,
                            const char *name, bool is_required, wg_error *err);
/* The same for a file that holds an array of objects: nothing is entered. */
wg_status wgi_settings_open_array(wgi_settings *settings, const char *directory, const char *name,
                                  bool is_required, wg_error *err);
void wgi_settings_fini(wgi_settings *settings);

bool wgi_settings_next(wgi_settings *settings, wgi_slice *key);
wg_status wgi_settings_skip(wgi_settings *settings, wg_error *err);
/* After the last key: WG_OK when the whole file was well formed. */
wg_status wgi_settings_finish(wgi_settings *settings, wg_error *err);

/*
 * The value that stands next, which belongs to `key`. A wrong type is WG_ERR_FORMAT: "config.json:
 * key num_attention_heads: expected an integer, found a string".
 */
wg_status wgi_settings_count(wgi_settings *settings, const char *key, uint64_t most, uint64_t *out,
                             wg_error *err); /* 1 to most */
wg_status wgi_settings_bool(wgi_settings *settings, const char *key, bool *out, wg_error *err);
wg_status wgi_settings_double(wgi_settings *settings, const char *key, double *out, wg_error *err);
/* Replaces what out holds; a NUL in the string is refused. */
wg_status wgi_settings_string(wgi_settings *settings, const char *key, wgi_buf *out, wg_error *err);
/* true, and taken, when null stands next. */
bool wgi_settings_take_null(wgi_settings *settings);
/* Skips the value; *is_empty for null, false, 0, "", {} and []. */
wg_status wgi_settings_is_empty(wgi_settings *settings, const char *key, bool *is_empty,
                                wg_error *err);

/* "FILE: key KEY: " and the sentence. */
wg_status wgi_settings_fail(const wgi_settings *settings, const char *key, wg_status status,
                            wg_error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Puts "FILE: key KEY: " before the message of a failed wgi_json call; WG_OK passes. */
wg_status wgi_settings_blame(const wgi_settings *settings, const char *key, wg_status status,
                             wg_error *err);

#endif
