/*
 * padded.h - batches of N texts padded to the longest, for comparison with packing only.
 *
 * Same kernels, same answers: pad rows go through the linear layers like any row and attend
 * among themselves, so that no text sees them. All sequences are held until the input is done.
 */
#ifndef WGI_PADDED_H
#define WGI_PADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/bin.h"

#define WGI_PADDED_NOBODY UINT64_MAX /* sequence id of a pad segment */

typedef struct wgi_padded wgi_padded;

wg_status wgi_padded_open(wgi_padded **out, uint32_t batch, bool is_sorted,
                          uint32_t position_offset, size_t lane_count, wg_error *err);
void wgi_padded_close(wgi_padded *padded);

/* Any thread; ids are the input order. */
wg_status wgi_padded_push(wgi_padded *padded, uint64_t id, const int32_t *token_ids,
                          const int32_t *type_ids, size_t count, wg_error *err);
/* No more input: the batches are made. */
void wgi_padded_finish(wgi_padded *padded);

/* The next batch in this lane's own bin. *bin NULL without a status: none yet, or no more
 * (then *is_end). */
wg_status wgi_padded_take(wgi_padded *padded, size_t lane, wgi_bin **bin, bool *is_end,
                          wg_error *err);

#endif
