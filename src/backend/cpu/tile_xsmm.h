/*
 * tile_xsmm.h - GEMM tiles from libxsmm, made at run time for one shape each.
 */
#ifndef WGI_TILE_XSMM_H
#define WGI_TILE_XSMM_H

#include <stdbool.h>
#include <stddef.h>

#include "warpgroup/warpgroup.h"

/*
 * out[r][j] = (adds: out[r][j] +) sum over k of in[r][k] weight[k][j], for j < columns: the
 * function knows rows, depth and strides. weight is [depth][columns], out has a pitch of
 * out_stride.
 */
typedef void (*wgi_xsmm_tile)(const float *weight, const float *in, float *out, ...);

/* Settles the instruction set of the process; false when it was settled otherwise before. */
bool wgi_xsmm_start(wg_isa isa);

/* NULL when libxsmm makes none. columns: 32, 48 or 64 (the law; see tile_xsmm.c). */
wgi_xsmm_tile wgi_xsmm_find(size_t columns, size_t rows, size_t depth, size_t in_stride,
                            size_t out_stride, bool adds);

/* "1.17", or NULL without libxsmm. */
const char *wgi_xsmm_version(void);

#endif
