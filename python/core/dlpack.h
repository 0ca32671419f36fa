/*
 * dlpack.h - the structures of DLPack, as far as arrays on the CPU need them.
 *
 * The layout is that of the DLPack specification (dmlc.github.io/dlpack, version 1.0), declared by
 * its text. It is an ABI between libraries: nothing here may change.
 */
#ifndef WGPY_DLPACK_H
#define WGPY_DLPACK_H

#include <stdint.h>

#define DL_MAJOR          1u
#define DL_MINOR          0u
#define DL_CPU            1
#define DL_INT            0u
#define DL_UINT           1u
#define DL_FLAG_READ_ONLY UINT64_C(1)
#define DL_FLAG_IS_COPIED UINT64_C(2)

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

/* In capsules named "dltensor". */
typedef struct dl_managed {
    dl_tensor tensor;
    void *manager_ctx;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

/* In capsules named "dltensor_versioned"; the tag is the one of warpgroup/engine.h. */
typedef struct DLManagedTensorVersioned {
    dl_version version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed_versioned;

#endif
