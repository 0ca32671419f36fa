/*
 * tensor.h - a named array in a weight file: borrowed, row-major, in its stored type.
 */
#ifndef WGI_TENSOR_H
#define WGI_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#define WGI_TENSOR_RANK_MAX 8

typedef enum wgi_dtype {
    WGI_DTYPE_F32,
    WGI_DTYPE_F16,
    WGI_DTYPE_BF16,
    WGI_DTYPE_Q4_0, /* quantised in blocks along the last dimension; see quant.h */
    WGI_DTYPE_Q4_1,
    WGI_DTYPE_Q5_0,
    WGI_DTYPE_Q5_1,
    WGI_DTYPE_Q8_0,
    WGI_DTYPE_Q4_K,
    WGI_DTYPE_Q5_K,
    WGI_DTYPE_Q6_K,
    WGI_DTYPE_OTHER /* valid in a file, not usable as a weight; the file's word is in dtype_name */
} wgi_dtype;

/* How a type is stored: block_count elements in block_bytes bytes. */
typedef struct wgi_dtype_layout {
    const char *name; /* "Q4_K" */
    uint32_t block_count;
    uint32_t block_bytes;
} wgi_dtype_layout;

/* NULL for WGI_DTYPE_OTHER. */
const wgi_dtype_layout *wgi_dtype_stored(wgi_dtype dtype);

typedef struct wgi_tensor {
    const char *name; /* borrowed from the weight file's handle */
    char dtype_name[16];
    wgi_dtype dtype;
    uint32_t rank;
    uint64_t shape[WGI_TENSOR_RANK_MAX];
    const void *data; /* in the mapped file; alignment is not promised */
    size_t bytes;
} wgi_tensor;

/* Number of elements. */
uint64_t wgi_tensor_count(const wgi_tensor *tensor);

/*
 * Widens elements [first, first + count) to f32; any type but OTHER. The range may begin and end
 * inside a block, whose every element is then worked out: for speed ask for whole blocks.
 */
void wgi_tensor_widen(const wgi_tensor *tensor, size_t first, size_t count, float *out);

#endif
