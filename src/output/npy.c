/*
 * npy.c - NumPy's format, version 1.0 (NumPy Enhancement Proposal 1); see npy.h.
 *
 *     0    6  8    10                                                  128
 *     | \x93NUMPY |1 0| 118 | {'descr': '<f4', ..., 'shape': (n, d), }   \n | rows ...
 *
 * The header has a fixed length of 128 bytes, so the number of rows is put right in place after the
 * rows are there: whoever maps the file during the run sees whole rows only, and a run that is
 * killed leaves a valid file. Writing the header at the end was refused for that reason.
 *
 * Threads: the writer thread only.
 */
#include "output/npy.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define HEADER_BYTES 128

static void make_header(const wgi_npy *npy, uint64_t row_count, char header[HEADER_BYTES])
{
    static const unsigned char magic[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, HEADER_BYTES - 10,
                                            0};
    char shape[48], text[108], padded[HEADER_BYTES - sizeof(magic) + 1];
    char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';

    if (npy->column_count) {
        (void)snprintf(shape, sizeof(shape), "(%llu, %zu)", (unsigned long long)row_count,
                       npy->column_count);
    } else {
        (void)snprintf(shape, sizeof(shape), "(%llu,)", (unsigned long long)row_count);
    }
    (void)snprintf(text, sizeof(text), "{'descr': '%c%s', 'fortran_order': False, 'shape': %s, }",
                   order, npy->type == WGI_NPY_F32 ? "f4" : "i8", shape);
    (void)snprintf(padded, sizeof(padded), "%-*s\n", (int)sizeof(padded) - 2, text);
    memcpy(header, magic, sizeof(magic));
    memcpy(header + sizeof(magic), padded, sizeof(padded) - 1);
}

wg_status wgi_npy_create(wgi_npy *npy, const char *path, wgi_npy_type type, size_t column_count,
                         wg_error *err)
{
    char header[HEADER_BYTES];
    size_t item_bytes = type == WGI_NPY_F32 ? sizeof(float) : sizeof(int64_t);

    *npy = (wgi_npy){.type = type, .column_count = column_count};
    if (!wgi_mul(column_count ? column_count : 1, item_bytes, &npy->row_bytes))
        return wgi_fail(err, WG_ERR_LIMIT, "%s: rows of %zu items do not fit", path, column_count);
    wg_status status = wgi_stream_create(&npy->stream, path, err);
    if (status != WG_OK) return status;
    make_header(npy, 0, header);
    status = wgi_buf_append(&npy->stream.buf, header, HEADER_BYTES, err);
    if (status == WG_OK) status = wgi_stream_flush(&npy->stream, err);
    if (status != WG_OK) wgi_stream_fini(&npy->stream, true);
    return status;
}

wg_status wgi_npy_append(wgi_npy *npy, const void *rows, size_t row_count, wg_error *err)
{
    size_t bytes;

    if (!wgi_mul(row_count, npy->row_bytes, &bytes))
        return wgi_fail(err, WG_ERR_LIMIT, "%s: %zu rows do not fit", npy->stream.name, row_count);
    return wgi_buf_append(&npy->stream.buf, rows, bytes, err);
}

wg_status wgi_npy_flush(wgi_npy *npy, wg_error *err)
{
    return wgi_stream_flush(&npy->stream, err);
}

wg_status wgi_npy_write_header(wgi_npy *npy, wg_error *err)
{
    char header[HEADER_BYTES];

    if (!wgi_stream_is_open(&npy->stream)) return WG_OK;
    make_header(npy, (npy->stream.written - HEADER_BYTES) / npy->row_bytes, header);
    return wgi_file_write_at(&npy->stream.file, npy->stream.name, 0, header, HEADER_BYTES, err);
}
