/*
 * dlpack.h - arrays of a bin as DLPack tensors.
 */
#ifndef WGI_DLPACK_H
#define WGI_DLPACK_H

#include <stddef.h>

#include "engine/ring.h"
#include "warpgroup/engine.h"

typedef struct wgi_export wgi_export;

/* Bytes of one export. */
size_t wgi_export_bytes(void);

/*
 * Fills export i of the slot. `release` is called once by the tensor's deleter, on any thread.
 */
struct DLManagedTensorVersioned *wgi_export_fill(wgi_slot *slot, const wg_bin *view,
                                                 wg_bin_array array, void *owner,
                                                 void (*release)(void *owner, wgi_slot *slot));

#endif
