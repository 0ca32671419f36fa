/*
 * file_part.h - reading the objects of a tokenizer.json by a table of fields.
 *
 * What the product does not implement is collected by name and refused at the end, so that a file
 * that is also damaged is told of the damage first, and one refusal names every reason.
 */
#ifndef WGI_FILE_PART_H
#define WGI_FILE_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/status.h"

/* Names of what is not implemented, "a; b; c". Zero it to begin. */
typedef struct wgi_refusals {
    wgi_buf names;
    size_t count;
} wgi_refusals;

/* Adds one name; only the first few are kept. */
wg_status wgi_refuse(wgi_refusals *refusals, wg_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* WG_OK without refusals, else WG_ERR_UNSUPPORTED with all names. */
wg_status wgi_refusals_check(const wgi_refusals *refusals, wg_error *err);

typedef enum wgi_field_kind {
    WGI_FIELD_BOOL,  /* bool * */
    WGI_FIELD_UINT,  /* uint64_t * */
    WGI_FIELD_TEXT,  /* wgi_buf * */
    WGI_FIELD_RAW,   /* wgi_slice *: any value, as it stands */
    WGI_FIELD_UNREAD /* has no effect on ids */
} wgi_field_kind;

typedef struct wgi_field {
    const char *name;
    wgi_field_kind kind;
    void *out;
    bool is_optional; /* may be missing or null; else null is refused like any other wrong kind */
    bool is_set;      /* answer: present and not null */
} wgi_field;

/*
 * Reads one object. `where` names it in messages ("normalizer BertNormalizer"). A field that the
 * table lacks is a refusal (refusals NULL: passed over).
 */
wg_status wgi_fields_read(wgi_slice object, const char *where, wgi_field *fields, size_t count,
                          wgi_refusals *refusals, wg_error *err);

/* The object's "type", appended to `type`; *has_type false when it has none. */
wg_status wgi_part_type(wgi_slice object, const char *where, wgi_buf *type, bool *has_type,
                        wg_error *err);

static inline bool wgi_part_is_null(wgi_slice part)
{
    return part.count == 0 || wgi_slice_is(part, "null");
}

/* A token id of a file: 0 to INT32_MAX, else WG_ERR_FORMAT that gives it digit for digit. */
wg_status wgi_token_id(wgi_json *json, const char *where, wgi_slice token, int32_t *id,
                       wg_error *err);

#endif
