/*
 * gguf.h - one GGUF file (version 2 or 3): typed metadata by key, and tensors borrowed from the
 * map.
 *
 *     wgi_gguf *gguf = NULL;
 *     wgi_slice architecture;
 *     WGI_TRY(wgi_gguf_open(&gguf, path, err));
 *     WGI_TRY(wgi_gguf_string(gguf, "general.architecture", &architecture, err));
 *     WGI_TRY(wgi_gguf_need(gguf, "token_embd.weight", &tensor, err));
 *
 * The whole file is validated when it is opened, so nothing here has to look again.
 */
#ifndef WGI_GGUF_H
#define WGI_GGUF_H

#include <stdbool.h>

#include "base/json.h"
#include "base/os_map.h"
#include "base/status.h"
#include "base/tensor.h"

/* Types of metadata values, numbered as in the file. */
typedef enum wgi_gguf_kind {
    WGI_GGUF_U8 = 0,
    WGI_GGUF_I8 = 1,
    WGI_GGUF_U16 = 2,
    WGI_GGUF_I16 = 3,
    WGI_GGUF_U32 = 4,
    WGI_GGUF_I32 = 5,
    WGI_GGUF_F32 = 6,
    WGI_GGUF_BOOL = 7,
    WGI_GGUF_STRING = 8,
    WGI_GGUF_ARRAY = 9,
    WGI_GGUF_U64 = 10,
    WGI_GGUF_I64 = 11,
    WGI_GGUF_F64 = 12
} wgi_gguf_kind;

/* An array in the file: of numbers (by index), or of strings (one after another). */
typedef struct wgi_gguf_array {
    wgi_gguf_kind kind; /* of its items */
    uint64_t count;
    const char *data; /* the next string, or item 0 */
    uint64_t left;    /* strings not handed out yet */
} wgi_gguf_array;

typedef struct wgi_gguf wgi_gguf;

/*
 * Maps and validates the file. Errors: WG_ERR_IO, WG_ERR_NO_MEMORY, WG_ERR_FORMAT (a rule of the
 * format is broken), WG_ERR_UNSUPPORTED (another version, big-endian); the message begins with
 * path.
 */
wg_status wgi_gguf_open(wgi_gguf **out, const char *path, wg_error *err);
/* The same on a file that is mapped already; the map is borrowed until close. */
wg_status wgi_gguf_read(wgi_gguf **out, const wgi_map *map, const char *path, wg_error *err);
void wgi_gguf_close(wgi_gguf *gguf);
const char *wgi_gguf_path(const wgi_gguf *gguf);
uint64_t wgi_gguf_bytes(const wgi_gguf *gguf); /* of the file */
/* Everything before the tensors' data (for hashing). */
wgi_slice wgi_gguf_header(const wgi_gguf *gguf);

/* ------------------------------------------------------------------------------------ metadata */

bool wgi_gguf_has(const wgi_gguf *gguf, const char *key);
/* Keys in file order; *kind may be NULL. */
size_t wgi_gguf_key_count(const wgi_gguf *gguf);
wgi_slice wgi_gguf_key_at(const wgi_gguf *gguf, size_t index, wgi_gguf_kind *kind);

/*
 * Values by key. A missing key or another type is WG_ERR_FORMAT: "FILE: key llama.block_count:
 * expected an integer, found a string". Integers of every width are taken when the value fits, and
 * floats of both; an integer is not a float, nor the other way round.
 */
wg_status wgi_gguf_uint(const wgi_gguf *gguf, const char *key, uint64_t *out, wg_error *err);
wg_status wgi_gguf_int(const wgi_gguf *gguf, const char *key, int64_t *out, wg_error *err);
wg_status wgi_gguf_float(const wgi_gguf *gguf, const char *key, double *out, wg_error *err);
wg_status wgi_gguf_bool(const wgi_gguf *gguf, const char *key, bool *out, wg_error *err);
/* Borrowed bytes, not NUL-terminated; UTF-8 is not promised. */
wg_status wgi_gguf_string(const wgi_gguf *gguf, const char *key, wgi_slice *out, wg_error *err);

wg_status wgi_gguf_strings(const wgi_gguf *gguf, const char *key, wgi_gguf_array *out,
                           wg_error *err);
wg_status wgi_gguf_ints(const wgi_gguf *gguf, const char *key, wgi_gguf_array *out, wg_error *err);
wg_status wgi_gguf_floats(const wgi_gguf *gguf, const char *key, wgi_gguf_array *out,
                          wg_error *err);
wg_status wgi_gguf_bools(const wgi_gguf *gguf, const char *key, wgi_gguf_array *out, wg_error *err);
/* Next string of the array, false behind the last. */
bool wgi_gguf_string_next(wgi_gguf_array *strings, wgi_slice *out);
/* Item index < count of an array of integers (an u64 above INT64_MAX wraps) or bools; of floats. */
int64_t wgi_gguf_int_at(const wgi_gguf_array *array, uint64_t index);
double wgi_gguf_float_at(const wgi_gguf_array *array, uint64_t index);

/* ------------------------------------------------------------------------------------- tensors */

/*
 * shape is row-major: the file's dimensions reversed, so that the last one is contiguous. Types of
 * the format that are no use here (Q2_K, IQ4_XS, I32, ...) have dtype OTHER and their name.
 */
size_t wgi_gguf_count(const wgi_gguf *gguf);
const wgi_tensor *wgi_gguf_at(const wgi_gguf *gguf, size_t index); /* in file order */
/* NULL when there is none of that name. */
const wgi_tensor *wgi_gguf_find(const wgi_gguf *gguf, const char *name);
/* It must be there (else WG_ERR_FORMAT) and of a usable type (else WG_ERR_UNSUPPORTED by name). */
wg_status wgi_gguf_need(const wgi_gguf *gguf, const char *name, const wgi_tensor **out,
                        wg_error *err);
/* Mapped pages of a tensor that was copied elsewhere may go. */
void wgi_gguf_drop(const wgi_gguf *gguf, const wgi_tensor *tensor);

#endif
