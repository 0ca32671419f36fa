/*
 * bin.h - segments laid end to end: what one forward pass computes.
 *
 *     token_ids     [ 101 7 9 102 | 101 5 102 | 101 8 8 8 102 ]    T tokens, no pad token
 *     position_ids  [   0 1 2   3 |   0 1   2 |   0 1 2 3   4 ]
 *     cu_seqlens    [ 0             4           7           12 ]    S + 1
 *     segments      {row 0, 4 rows} {row 4, 3 rows} {row 7, 5 rows}
 *
 * T tokens in the bin, S sequences. A segment's rows attend to that segment's rows only.
 */
#ifndef WGI_BIN_H
#define WGI_BIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "warpgroup/engine.h"

typedef wg_segment wgi_segment;

typedef struct wgi_bin {
    int32_t *token_ids;     /* [T] */
    int32_t *type_ids;      /* [T] */
    int32_t *position_ids;  /* [T] */
    int32_t *cu_seqlens;    /* [S + 1] */
    wgi_segment *segments;  /* [S] */
    uint64_t *sequence_ids; /* [S] the submitter's */
    size_t token_count;     /* T */
    size_t sequence_count;  /* S */
    size_t longest;         /* most rows of one segment */
    size_t token_capacity, sequence_capacity;
} wgi_bin;

/* Allocates the arrays for a capacity (one block); clear and append never allocate. */
wg_status wgi_bin_init(wgi_bin *bin, size_t tokens, size_t sequences, wg_error *err);
void wgi_bin_fini(wgi_bin *bin);
/* The same in memory of the caller's: wgi_bin_bytes() bytes, aligned to 64. Not for fini. */
void wgi_bin_carve(wgi_bin *bin, void *memory, size_t tokens, size_t sequences);
void wgi_bin_clear(wgi_bin *bin);
/* Lays one sequence behind the others; the caller has checked that it fits. type_ids NULL: zeros.
 */
void wgi_bin_append(wgi_bin *bin, uint64_t id, const int32_t *token_ids, const int32_t *type_ids,
                    uint32_t count, uint32_t position_offset);
/* Bytes of one bin's arrays; SIZE_MAX when they do not fit. */
size_t wgi_bin_bytes(size_t tokens, size_t sequences);

/*
 * Checks a bin before it enters a backend: cu_seqlens rises strictly from 0 to T, segments and
 * positions agree with it, token ids lie in [0, vocabulary_count). WG_ERR_ARGUMENT names the fault.
 */
wg_status wgi_bin_check(const wgi_bin *bin, uint64_t vocabulary_count, wg_error *err);

#endif
