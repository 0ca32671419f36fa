/*
 * synthetic.h - forward passes over made-up tokens, one bin a lane at once: what the probe runs.
 */
#ifndef WGI_SYNTHETIC_H
#define WGI_SYNTHETIC_H

#include "job/footprint.h"

/*
 * Allocates what a run of this footprint allocates for its workers, touches all of it, and runs one
 * bin of `run_tokens` (at most bin_tokens) on every lane at once. *seconds: of the forward passes.
 * WG_ERR_NO_MEMORY when it does not fit; everything is given back.
 */
wg_status wgi_synthetic_run(const wgi_footprint *footprint, size_t run_tokens, double *seconds,
                            wg_error *err);

#endif
