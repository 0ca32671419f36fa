/*
 * format.h - what a file is: by its first bytes, then by its suffix.
 */
#ifndef WGI_FORMAT_H
#define WGI_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

#include "corpus/walk.h"

#define WGI_FORMAT_PEEK_BYTES 1100 /* "%PDF-" may stand anywhere in the first 1,024 */

typedef enum wgi_suffix {
    WGI_SUFFIX_UNKNOWN,
    WGI_SUFFIX_TEXT,
    WGI_SUFFIX_JSONL,
    WGI_SUFFIX_PDF,
    WGI_SUFFIX_TABLE, /* csv, tsv: known, not supported */
} wgi_suffix;

/* Of the name without ".gz", letters of either case; *is_gz may be NULL. */
wgi_suffix wgi_format_suffix(const char *path, bool *is_gz);
/* Is a file in a directory one of ours, going by its name? */
bool wgi_format_is_document(const char *path);

/* What to do with a file whose unpacked first bytes are known. */
typedef struct wgi_format_choice {
    wg_format format; /* TEXT, JSONL or PDF; AUTO: cannot be read, see failure and reason */
    bool is_strict;   /* text of unknown kind: must be UTF-8 or UTF-16 */
    wg_failure failure;
    const char *reason; /* static */
} wgi_format_choice;

wgi_format_choice wgi_format_choose(wg_format forced, const wgi_entry *entry, const char *first,
                                    size_t count);

#endif
