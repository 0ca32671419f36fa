/*
 * gunzip.h - unpacked bytes: gzip is recognised by its first bytes, anything else passes through.
 */
#ifndef WGI_GUNZIP_H
#define WGI_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "corpus/source.h"

#ifndef WGI_GUNZIP_CHUNK_BYTES
#define WGI_GUNZIP_CHUNK_BYTES ((size_t)256 * 1024)
#endif

typedef enum wgi_gunzip_state {
    WGI_GUNZIP_START,
    WGI_GUNZIP_PLAIN,
    WGI_GUNZIP_MEMBER,  /* inside a gzip member */
    WGI_GUNZIP_BETWEEN, /* behind one */
    WGI_GUNZIP_END
} wgi_gunzip_state;

/*
 * Zero it, set `source`, fini it. The first `count` bytes of `out` are unpacked and can be
 * taken. A fault is kept until all bytes before it were taken.
 */
typedef struct wgi_gunzip {
    wgi_source *source; /* borrowed */
    wgi_gunzip_state state;
    char *out;
    size_t count;
    uint64_t taken;            /* unpacked bytes handed on so far */
    bool has_trailing_garbage; /* something that is not gzip followed the last member */
    bool has_fault;
    wg_error fault;
    unsigned char *in; /* packed bytes */
    size_t in_at, in_count;
    bool in_is_end, has_stream;
    z_stream stream;
} wgi_gunzip;

/* Makes `want` bytes (at most a chunk) ready, fewer only before the end or before a fault. */
wg_status wgi_gunzip_peek(wgi_gunzip *gunzip, size_t want, wg_error *err);
/* Gives the ready bytes and takes them; *count = 0 at the end. Borrowed until the next call. */
wg_status wgi_gunzip_take(wgi_gunzip *gunzip, const char **bytes, size_t *count, wg_error *err);
/* Ready for another source; buffers are kept. */
void wgi_gunzip_reset(wgi_gunzip *gunzip);
void wgi_gunzip_fini(wgi_gunzip *gunzip);

#endif
