/*
 * decode.h - UTF-8 out of what a byte-order mark says: UTF-16 is recoded, a mark is dropped.
 */
#ifndef WGI_DECODE_H
#define WGI_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "corpus/gunzip.h"

typedef enum wgi_encoding {
    WGI_ENCODING_START,
    WGI_ENCODING_UTF8, /* passed on as it is: ill-formed bytes are the taker's business */
    WGI_ENCODING_UTF16_LITTLE,
    WGI_ENCODING_UTF16_BIG
} wgi_encoding;

/* Zero it, set `from`. Nothing to end. */
typedef struct wgi_decode {
    wgi_gunzip *from; /* borrowed */
    wgi_encoding encoding;
    uint64_t mark_bytes;     /* of the byte-order mark that was dropped */
    uint64_t units;          /* UTF-16 units seen */
    uint64_t replaced;       /* halves of pairs and odd bytes that became U+FFFD */
    uint64_t first_replaced; /* byte offset of the first in the unpacked file */
    uint16_t high;           /* first half of a pair, or 0 */
    bool has_odd;
    unsigned char odd; /* half a unit */
    bool is_end;
} wgi_decode;

/* Appends what comes next, at least a byte unless the end is reached (*is_end). */
wg_status wgi_decode_append(wgi_decode *decode, wgi_buf *out, bool *is_end, wg_error *err);

#endif
