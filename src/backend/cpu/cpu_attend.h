/*
 * cpu_attend.h - the arithmetic of attention on plain pointers: some query rows of one segment and
 * head against the keys that they see.
 *
 * Rows may lie anywhere, at any stride and without alignment; exactly head_dim floats of each row
 * of the segment are read, and exactly head_dim floats of each query row are written.
 *
 * Threads: no state but the scratch, which belongs to the caller.
 */
#ifndef WGI_CPU_ATTEND_H
#define WGI_CPU_ATTEND_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/backend.h"
#include "backend/cpu/cpu_kernels.h"

/* Rows of one head that are only read; stride in floats between rows. */
typedef struct wgi_cpu_rows {
    const float *data;
    size_t stride;
} wgi_cpu_rows;

typedef struct wgi_cpu_attend_task {
    const wgi_cpu_kernels *kernels;
    const wgi_attention_shape *shape;
    size_t row_count;               /* of the segment */
    size_t first, count;            /* query rows; at most WGI_CPU_ATTEND_ROWS */
    wgi_cpu_rows query, key, value; /* row 0 of the segment, this head */
    wgi_view out;                   /* likewise */
    const float *bias;              /* of distance 0, over the scale; NULL: none */
    size_t bias_reach;              /* the bias is readable WGI_CPU_BIAS_MARGIN beyond it */
} wgi_cpu_attend_task;

#define WGI_CPU_BIAS_MARGIN (512 + 12 + 16) /* a tile of keys, a block of queries, a vector */

/* Of the scratch of one lane. */
size_t wgi_cpu_attend_bytes(size_t head_dim);

/*
 * shares_keys: the scratch comes from a call that was alike but for query, out and bias; then keys
 * that are one tile are not packed again.
 */
void wgi_cpu_attend_head(const wgi_cpu_attend_task *task, bool shares_keys, void *scratch);

#endif
