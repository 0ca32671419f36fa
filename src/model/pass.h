/*
 * pass.h - what the two forward passes (encoder.c, decoder.c) have in common: memory of a bin cut
 * into parts, segments cut into stretches, angles of rotary positions, ids that index tables.
 */
#ifndef WGI_PASS_H
#define WGI_PASS_H

#include "model/model.h"

/* Query rows [first, first + count) of segment `segment`: what attention takes at once. */
typedef struct wgi_stretch {
    uint32_t segment, first, count;
} wgi_stretch;

/* The next part of `base` (NULL: only counting); *at stays SIZE_MAX once anything overflows. */
void *wgi_carve(char *base, size_t *at, size_t count, size_t item_bytes);
/* Rows of `columns` floats. */
wgi_view wgi_carve_view(char *base, size_t *at, size_t rows, size_t columns);

/* The most stretches that a bin of so many tokens has. */
size_t wgi_stretches_most(const wgi_backend *backend, size_t tokens);
/* Cuts every segment into stretches of at most `rows`, and returns how many there are. */
size_t wgi_stretches_cut(const wgi_bin *bin, size_t rows, wgi_stretch *stretches);
/* Item `index` of the loop over (stretch, key head). */
wgi_attend_item wgi_stretch_item(const wgi_bin *bin, const wgi_stretch *stretches, size_t index,
                                 uint32_t key_heads);

/* Cosines, then sines, of the position times each frequency: `half` of either. */
void wgi_angles_turn(const double *frequencies, size_t half, int32_t position, float *out);

/* Ids index tables, so they are looked at whatever the caller promised. */
wg_status wgi_bin_ids_check(const wgi_description *description, const wgi_bin *bin, wg_error *err);

#endif
