/*
 * npy.h - an array of rows in NumPy's file format, readable while it grows; part of src/output for
 * its own use.
 */
#ifndef WGI_NPY_H
#define WGI_NPY_H

#include "output/stream.h"

typedef enum wgi_npy_type { WGI_NPY_F32, WGI_NPY_I64 } wgi_npy_type;

typedef struct wgi_npy {
    wgi_stream stream;
    wgi_npy_type type;
    size_t column_count; /* 0: an array of one dimension */
    size_t row_bytes;
} wgi_npy;

/* Creates the file with a header for no rows. On failure nothing is left. */
wg_status wgi_npy_create(wgi_npy *npy, const char *path, wgi_npy_type type, size_t column_count,
                         wg_error *err);

/* Appends rows to the buffer. */
wg_status wgi_npy_append(wgi_npy *npy, const void *rows, size_t row_count, wg_error *err);

/* The data, and after it the header that counts it, in two calls so that other files can be written
 * between the two. */
wg_status wgi_npy_flush(wgi_npy *npy, wg_error *err);
wg_status wgi_npy_write_header(wgi_npy *npy, wg_error *err);

#endif
