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

#include "warpgroup/capacity.h"

/* path as in wg_probe_options.cache_path. Fills the measured fields of *probe for probe->key. */
bool wgi_capacity_cache_find(const char *path, wg_probe *probe);
void wgi_capacity_cache_keep(const char *path, const wg_probe *probe);

#endif
