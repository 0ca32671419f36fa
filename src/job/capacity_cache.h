/*
 * capacity_cache.h - measured capacities, kept in a file of JSON lines: the last line of a key
 * holds.
 *
 * A cache: a file that cannot be read or written, or a line that is damaged, is as good as none,
 * and costs a warning at most.
 */
#ifndef WGI_CAPACITY_CACHE_H
#define WGI_CAPACITY_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "job/footprint.h"
#include "warpgroup/capacity.h"

/*
 * Everything that an answer depends on: build, model, backend, processor, workers, task, longest
 * text, and the memory that was asked for (exactly) or is left (roughly). Bin size counts for
 * nothing.
 */
void wgi_capacity_key(const wgi_footprint *footprint, wg_task task, uint64_t asked_bytes,
                      uint64_t ceiling, char key[256]);

/* path as in wg_probe_options.cache_path. Fills the measured fields of *probe for probe->key. */
bool wgi_capacity_cache_find(const char *path, wg_probe *probe);
void wgi_capacity_cache_keep(const char *path, const wg_probe *probe);

#endif
