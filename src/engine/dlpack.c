/*
 * dlpack.c - the DLPack 1.0 structures and the deleter of an exported array.
 *
 * The layout is that of the DLPack specification (dmlc.github.io/dlpack, version 1.0), declared
 * here by its text so that no header of others is needed. Each slot owns a fixed number of exports;
 * an export is free while `is_used` is false. The tensor is read-only, on the CPU, dense.
 *
 * Threads: wgi_export_fill under the engine's mutex, the deleter anywhere.
 */
#include "engine/dlpack.h"

#include <stdatomic.h>
#include <string.h>

#define DL_MAJOR          1u
#define DL_MINOR          0u
#define DL_CPU            1
#define DL_INT            0u
#define DL_UINT           1u
#define DL_FLAG_READ_ONLY 1u

typedef struct dl_version {
    uint32_t major, minor;
} dl_version;

typedef struct dl_device {
    int32_t device_type, device_id;
} dl_device;

typedef struct dl_data_type {
    uint8_t code, bits;
    uint16_t lanes;
} dl_data_type;

typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_data_type dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} dl_tensor;

struct DLManagedTensorVersioned {
    dl_version version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    dl_tensor dl_tensor;
};

struct wgi_export {
    struct DLManagedTensorVersioned tensor;
    int64_t shape[1], strides[1];
    void *owner;
    void (*release)(void *owner, wgi_slot *slot);
    wgi_slot *slot;
    atomic_bool is_used;
};

size_t wgi_export_bytes(void)
{
    return sizeof(wgi_export);
}

static void export_delete(struct DLManagedTensorVersioned *tensor)
{
    wgi_export *export = tensor->manager_ctx;
    void (*release)(void *, wgi_slot *) = export->release;
    void *owner = export->owner;
    wgi_slot *slot = export->slot;

    atomic_store(&export->is_used, false);
    release(owner, slot);
}

static void describe(wgi_export *export, const wg_bin *view, wg_bin_array array)
{
    static const dl_data_type ids = {DL_INT, 32, 1}, sequences = {DL_UINT, 64, 1};
    const void *data = view->token_ids;
    uint64_t count = view->row_count;
    dl_data_type type = ids;

    switch (array) {
    case WG_ARRAY_TOKEN_IDS:
        break;
    case WG_ARRAY_TYPE_IDS:
        data = view->type_ids;
        break;
    case WG_ARRAY_POSITION_IDS:
        data = view->position_ids;
        break;
    case WG_ARRAY_CU_SEQLENS:
        data = view->cu_seqlens;
        count = view->sequence_count + 1;
        break;
    case WG_ARRAY_SEQUENCE_IDS:
        data = view->sequence_ids;
        count = view->sequence_count;
        type = sequences;
        break;
    }
    export->shape[0] = (int64_t)count;
    export->strides[0] = 1;
    memcpy(&export->tensor.dl_tensor.data, &data, sizeof(data)); /* read-only by its flag */
    export->tensor.dl_tensor.dtype = type;
}

struct DLManagedTensorVersioned *wgi_export_fill(wgi_slot *slot, const wg_bin *view,
                                                 wg_bin_array array, void *owner,
                                                 void (*release)(void *owner, wgi_slot *slot))
{
    wgi_export *export = NULL;

    for (unsigned i = 0; i < WGI_EXPORTS_MAX && !export; i++) {
        if (!atomic_load(&slot->exports[i].is_used)) export = &slot->exports[i];
    }
    if (!export) return NULL;
    export->tensor = (struct DLManagedTensorVersioned){
        .version = {DL_MAJOR, DL_MINOR},
        .manager_ctx = export,
        .deleter = export_delete,
        .flags = DL_FLAG_READ_ONLY,
        .dl_tensor = {.device = {DL_CPU, 0},
                      .ndim = 1,
                      .shape = export->shape,
                      .strides = export->strides},
    };
    export->owner = owner;
    export->release = release;
    export->slot = slot;
    describe(export, view, array);
    atomic_store(&export->is_used, true);
    return &export->tensor;
}
