/*
 * record.h - one line of JSON lines: its text or ids, and its id.
 */
#ifndef WGI_RECORD_H
#define WGI_RECORD_H

#include "base/buf.h"
#include "base/json.h"
#include "base/status.h"

/* Which fields; a dot leads into nested objects, a key that is the whole name wins over that. */
typedef struct wgi_record_fields {
    const char *text;
    const char *id;
    const char *ids; /* not NULL: ids are read, text is not */
} wgi_record_fields;

/* Zero it to begin; buffers are kept from record to record. */
typedef struct wgi_record {
    wgi_buf text;   /* UTF-8 */
    wgi_buf id;     /* the id as JSON, empty when the record has none (or null) */
    wgi_buf reason; /* why it failed */
    int32_t *ids;
    size_t id_count, id_capacity; /* of ids */
    wg_failure failure;
    uint64_t repaired; /* U+FFFD put in for halves of pairs and bytes that are not UTF-8 */
    wgi_buf key;       /* memory for keys */
} wgi_record;

/* A bad record is record->failure; a status that is not WG_OK means memory. */
wg_status wgi_record_read(wgi_record *record, const wgi_record_fields *fields, const char *line,
                          size_t count, wg_error *err);
void wgi_record_fini(wgi_record *record);

#endif
