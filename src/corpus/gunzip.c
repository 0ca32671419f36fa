/*
 * gunzip.c - unpacking on the way; see gunzip.h and RFC 1952.
 *
 *     packed:  | member | member | 000000 | anything |
 *                  all members joined  ^^^ignored  ^^^warned of, ignored
 *
 * zlib inflates and checks CRC and length of each member. A stream that stops inside a member, or
 * fails its check, is a fault that comes after the bytes before it: records read so far count.
 * One chunk is unpacked at a time, so a bomb costs a chunk here, and whoever gathers the bytes has
 * a limit. Refused: gzread(3), which stops without a word at the first byte that is not gzip and
 * cannot say which fault it was.
 *
 * Threads: the reader's own.
 */
#include "corpus/gunzip.h"

#include <string.h>

#include "base/alloc.h"

static void *zlib_alloc(void *context, unsigned count, unsigned bytes)
{
    (void)context;
    return wgi_calloc(count, bytes);
}

static void zlib_free(void *context, void *memory)
{
    (void)context;
    wgi_free(memory);
}

/* More packed bytes behind those that are left. */
static wg_status in_fill(wgi_gunzip *gunzip, wg_error *err)
{
    size_t got;

    if (gunzip->in_at > 0) {
        memmove(gunzip->in, gunzip->in + gunzip->in_at, gunzip->in_count);
        gunzip->in_at = 0;
    }
    wg_status status = wgi_source_read(gunzip->source, gunzip->in + gunzip->in_count,
                                       WGI_GUNZIP_CHUNK_BYTES - gunzip->in_count, &got, err);
    gunzip->in_count += got;
    gunzip->in_is_end = status == WG_OK && got == 0;
    return status;
}

static bool in_is_gzip(const wgi_gunzip *gunzip)
{
    return gunzip->in_count >= 2 && gunzip->in[gunzip->in_at] == 0x1F &&
           gunzip->in[gunzip->in_at + 1] == 0x8B;
}

/* At least two packed bytes, unless the end comes first. */
static wg_status in_two(wgi_gunzip *gunzip, wg_error *err)
{
    wg_status status = WG_OK;

    while (status == WG_OK && gunzip->in_count < 2 && !gunzip->in_is_end)
        status = in_fill(gunzip, err);
    return status;
}

static wg_status start(wgi_gunzip *gunzip, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(in_two(gunzip, err));
    if (!in_is_gzip(gunzip)) {
        memcpy(gunzip->out, gunzip->in + gunzip->in_at, gunzip->in_count);
        gunzip->count = gunzip->in_count;
        gunzip->state = gunzip->in_is_end ? WGI_GUNZIP_END : WGI_GUNZIP_PLAIN;
        goto cleanup;
    }
    gunzip->stream = (z_stream){.zalloc = zlib_alloc, .zfree = zlib_free};
    if (inflateInit2(&gunzip->stream, 16 + MAX_WBITS) != Z_OK) { /* 16: gzip, and only that */
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory to unpack gzip");
        goto cleanup;
    }
    gunzip->has_stream = true;
    gunzip->state = WGI_GUNZIP_MEMBER;

cleanup:
    return status;
}

static wg_status zlib_fault(const wgi_gunzip *gunzip, int code, wg_error *err)
{
    const char *message = gunzip->stream.msg ? gunzip->stream.msg : "no reason given";

    if (code == Z_MEM_ERROR) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory to unpack gzip");
    if (strcmp(message, "incorrect data check") == 0)
        return wgi_fail(err, WG_ERR_FORMAT, "gzip checksum mismatch: the data are damaged");
    if (strcmp(message, "incorrect length check") == 0)
        return wgi_fail(err, WG_ERR_FORMAT, "gzip length mismatch: the data are damaged");
    return wgi_fail(err, WG_ERR_FORMAT, "damaged gzip data: %s", message);
}

/* One step of inflating into the room behind the ready bytes. */
static wg_status member_step(wgi_gunzip *gunzip, wg_error *err)
{
    wg_status status = WG_OK;

    if (gunzip->in_count == 0 && !gunzip->in_is_end) WGI_TRY(in_fill(gunzip, err));
    bool is_dry = gunzip->in_count == 0; /* what was read may still unpack to something */
    size_t room = WGI_GUNZIP_CHUNK_BYTES - gunzip->count;
    gunzip->stream.next_in = gunzip->in + gunzip->in_at;
    gunzip->stream.avail_in = (unsigned)gunzip->in_count;
    gunzip->stream.next_out = (unsigned char *)gunzip->out + gunzip->count;
    gunzip->stream.avail_out = (unsigned)room;
    int code = inflate(&gunzip->stream, Z_NO_FLUSH);
    gunzip->in_at += gunzip->in_count - gunzip->stream.avail_in;
    gunzip->in_count = gunzip->stream.avail_in;
    gunzip->count += room - gunzip->stream.avail_out;
    if (code == Z_STREAM_END)
        gunzip->state = WGI_GUNZIP_BETWEEN;
    else if (code != Z_OK && code != Z_BUF_ERROR)
        status = zlib_fault(gunzip, code, err);
    else if (is_dry && gunzip->stream.avail_out == room)
        status = wgi_fail(err, WG_ERR_FORMAT,
                          "truncated gzip: the file ends in the middle of packed data");

cleanup:
    return status;
}

/* Behind a member: zeros are passed over, another member goes on, anything else is garbage. */
static wg_status between_step(wgi_gunzip *gunzip, wg_error *err)
{
    wg_status status = WG_OK;

    WGI_TRY(in_two(gunzip, err));
    if (gunzip->in_count == 0) {
        gunzip->state = WGI_GUNZIP_END;
    } else if (gunzip->in[gunzip->in_at] == 0) {
        gunzip->in_at++;
        gunzip->in_count--;
    } else if (in_is_gzip(gunzip)) {
        if (inflateReset(&gunzip->stream) != Z_OK) {
            status =
                wgi_fail(err, WG_ERR_FORMAT, "damaged gzip data: the next member cannot start");
            goto cleanup;
        }
        gunzip->state = WGI_GUNZIP_MEMBER;
    } else {
        gunzip->has_trailing_garbage = true;
        gunzip->state = WGI_GUNZIP_END;
    }

cleanup:
    return status;
}

static wg_status step(wgi_gunzip *gunzip, wg_error *err)
{
    wg_status status = WG_OK;
    size_t got;

    switch (gunzip->state) {
    case WGI_GUNZIP_START:
        return start(gunzip, err);
    case WGI_GUNZIP_PLAIN:
        status = wgi_source_read(gunzip->source, gunzip->out + gunzip->count,
                                 WGI_GUNZIP_CHUNK_BYTES - gunzip->count, &got, err);
        gunzip->count += got;
        if (status == WG_OK && got == 0) gunzip->state = WGI_GUNZIP_END;
        return status;
    case WGI_GUNZIP_MEMBER:
        return member_step(gunzip, err);
    case WGI_GUNZIP_BETWEEN:
        return between_step(gunzip, err);
    case WGI_GUNZIP_END:
        break;
    }
    return status;
}

wg_status wgi_gunzip_peek(wgi_gunzip *gunzip, size_t want, wg_error *err)
{
    if (!gunzip->out) gunzip->out = wgi_malloc(WGI_GUNZIP_CHUNK_BYTES);
    if (!gunzip->in) gunzip->in = wgi_malloc(WGI_GUNZIP_CHUNK_BYTES);
    if (!gunzip->out || !gunzip->in)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a read buffer");
    while (gunzip->count < want && gunzip->state != WGI_GUNZIP_END && !gunzip->has_fault) {
        if (step(gunzip, &gunzip->fault) != WG_OK) gunzip->has_fault = true;
    }
    if (gunzip->has_fault && gunzip->count == 0)
        return wgi_fail(err, gunzip->fault.status, "%s", gunzip->fault.message);
    return WG_OK;
}

wg_status wgi_gunzip_take(wgi_gunzip *gunzip, const char **bytes, size_t *count, wg_error *err)
{
    wg_status status = wgi_gunzip_peek(gunzip, 1, err);

    *bytes = gunzip->out;
    *count = status == WG_OK ? gunzip->count : 0;
    gunzip->taken += *count;
    gunzip->count = 0;
    return status;
}

void wgi_gunzip_reset(wgi_gunzip *gunzip)
{
    if (gunzip->has_stream) (void)inflateEnd(&gunzip->stream);
    *gunzip = (wgi_gunzip){.out = gunzip->out, .in = gunzip->in};
}

void wgi_gunzip_fini(wgi_gunzip *gunzip)
{
    wgi_gunzip_reset(gunzip);
    wgi_free(gunzip->out);
    wgi_free(gunzip->in);
    *gunzip = (wgi_gunzip){0};
}
