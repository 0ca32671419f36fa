/*
 * gguf_tensors.c - the tensors of a GGUF file: names, shapes, types, and where their bytes are.
 *
 * The file gives dimensions with the contiguous one first; the rest of the program is row-major and
 * gets them reversed, so that a matrix is [outputs, inputs] as in safetensors. Quantised types have
 * whole blocks along the contiguous dimension.
 *
 * What a tensor takes follows from shape and type alone. Checked are: one to four dimensions (none
 * is a single number) from 1 on, a product that fits, whole blocks, an offset that is aligned, the
 * end inside the file, and that no two tensors share a byte. Room between tensors and behind the
 * last one is padding and allowed.
 *
 * Threads: no shared state.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/directory.h"
#include "model/gguf_parts.h"

#define DIMENSIONS_MAX 4 /* the format's own limit */

_Static_assert(DIMENSIONS_MAX <= WGI_TENSOR_RANK_MAX, "a shape has to fit");

/* Types by their number in the file; a number without a name is not one of the format's. */
static const struct type_row {
    const char *name;
    wgi_dtype dtype;
    uint32_t block_count, block_bytes;
} types[] = {
    [0] = {"F32", WGI_DTYPE_F32, 1, 4},           [1] = {"F16", WGI_DTYPE_F16, 1, 2},
    [2] = {"Q4_0", WGI_DTYPE_Q4_0, 32, 18},       [3] = {"Q4_1", WGI_DTYPE_Q4_1, 32, 20},
    [6] = {"Q5_0", WGI_DTYPE_Q5_0, 32, 22},       [7] = {"Q5_1", WGI_DTYPE_Q5_1, 32, 24},
    [8] = {"Q8_0", WGI_DTYPE_Q8_0, 32, 34},       [9] = {"Q8_1", WGI_DTYPE_OTHER, 32, 36},
    [10] = {"Q2_K", WGI_DTYPE_OTHER, 256, 84},    [11] = {"Q3_K", WGI_DTYPE_OTHER, 256, 110},
    [12] = {"Q4_K", WGI_DTYPE_Q4_K, 256, 144},    [13] = {"Q5_K", WGI_DTYPE_Q5_K, 256, 176},
    [14] = {"Q6_K", WGI_DTYPE_Q6_K, 256, 210},    [15] = {"Q8_K", WGI_DTYPE_OTHER, 256, 292},
    [16] = {"IQ2_XXS", WGI_DTYPE_OTHER, 256, 66}, [17] = {"IQ2_XS", WGI_DTYPE_OTHER, 256, 74},
    [18] = {"IQ3_XXS", WGI_DTYPE_OTHER, 256, 98}, [19] = {"IQ1_S", WGI_DTYPE_OTHER, 256, 50},
    [20] = {"IQ4_NL", WGI_DTYPE_OTHER, 32, 18},   [21] = {"IQ3_S", WGI_DTYPE_OTHER, 256, 110},
    [22] = {"IQ2_S", WGI_DTYPE_OTHER, 256, 82},   [23] = {"IQ4_XS", WGI_DTYPE_OTHER, 256, 136},
    [24] = {"I8", WGI_DTYPE_OTHER, 1, 1},         [25] = {"I16", WGI_DTYPE_OTHER, 1, 2},
    [26] = {"I32", WGI_DTYPE_OTHER, 1, 4},        [27] = {"I64", WGI_DTYPE_OTHER, 1, 8},
    [28] = {"F64", WGI_DTYPE_OTHER, 1, 8},        [29] = {"IQ1_M", WGI_DTYPE_OTHER, 256, 56},
    [30] = {"BF16", WGI_DTYPE_BF16, 1, 2},        [34] = {"TQ1_0", WGI_DTYPE_OTHER, 256, 54},
    [35] = {"TQ2_0", WGI_DTYPE_OTHER, 256, 66},   [39] = {"MXFP4", WGI_DTYPE_OTHER, 32, 17},
    [40] = {"NVFP4", WGI_DTYPE_OTHER, 64, 36},    [41] = {"Q1_0", WGI_DTYPE_OTHER, 128, 18},
};

typedef struct entry_reading {
    wgi_gguf_cursor *cursor;
    char shown[WGI_SHOWN_BYTES]; /* the tensor that is being read */
} entry_reading;

static wg_status fail_cut(const entry_reading *reading, wg_error *err)
{
    return wgi_fail(err, WG_ERR_FORMAT,
                    "the file is truncated: it ends in the entry of tensor '%s'", reading->shown);
}

static wg_status read_shape(const entry_reading *reading, wgi_tensor *tensor, wg_error *err)
{
    uint64_t rank = 0, total = 1;

    if (!wgi_gguf_take(reading->cursor, 4, &rank)) return fail_cut(reading, err);
    if (rank > DIMENSIONS_MAX)
        return wgi_fail(err, WG_ERR_FORMAT, "tensor '%s': %llu dimensions (the format allows %d)",
                        reading->shown, (unsigned long long)rank, DIMENSIONS_MAX);
    tensor->rank = (uint32_t)rank;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        uint64_t count = 0;
        if (!wgi_gguf_take(reading->cursor, 8, &count)) return fail_cut(reading, err);
        if (count == 0 || count > INT64_MAX)
            return wgi_fail(err, WG_ERR_FORMAT,
                            "tensor '%s': dimension %u is %llu, not from 1 to 2^63 - 1",
                            reading->shown, i, (unsigned long long)count);
        if (__builtin_mul_overflow(total, count, &total) || total > INT64_MAX)
            return wgi_fail(err, WG_ERR_FORMAT,
                            "tensor '%s': the product of its dimensions "
                            "overflows 64 bits",
                            reading->shown);
        tensor->shape[tensor->rank - 1 - i] = count;
    }
    return WG_OK;
}

static wg_status read_type(const entry_reading *reading, wgi_tensor *tensor, wg_error *err)
{
    uint64_t type = 0, bytes = 0;

    if (!wgi_gguf_take(reading->cursor, 4, &type)) return fail_cut(reading, err);
    if (type >= sizeof(types) / sizeof(types[0]) || !types[type].name)
        return wgi_fail(err, WG_ERR_FORMAT, "tensor '%s': type %llu unknown", reading->shown,
                        (unsigned long long)type);
    const struct type_row *row = &types[type];
    uint64_t width = tensor->rank ? tensor->shape[tensor->rank - 1] : 1;
    if (width % row->block_count != 0)
        return wgi_fail(err, WG_ERR_FORMAT,
                        "tensor '%s': rows of %llu are not whole blocks of %u (type %s)",
                        reading->shown, (unsigned long long)width, row->block_count, row->name);
    tensor->dtype = row->dtype;
    memcpy(tensor->dtype_name, row->name, strlen(row->name) + 1);
    if (__builtin_mul_overflow(wgi_tensor_count(tensor) / row->block_count,
                               (uint64_t)row->block_bytes, &bytes) ||
        bytes > SIZE_MAX / 2)
        return wgi_fail(err, WG_ERR_FORMAT, "tensor '%s': its bytes overflow 64 bits",
                        reading->shown);
    tensor->bytes = (size_t)bytes;
    return WG_OK;
}

static wg_status read_entry(wgi_gguf *gguf, entry_reading *reading, uint64_t alignment,
                            wg_error *err)
{
    wgi_gguf_entry entry = {.name_at = gguf->names.count};
    wg_status status = WG_OK;
    wgi_slice name;

    WGI_TRY(wgi_gguf_take_string(reading->cursor, "tensor", gguf->entry_count, &name, err));
    (void)wgi_text_show(reading->shown, name.data, name.count);
    if (name.count == 0 || memchr(name.data, 0, name.count)) {
        status = wgi_fail(err, WG_ERR_FORMAT, "tensor %zu '%s': the name %s", gguf->entry_count,
                          reading->shown, name.count ? "holds a NUL" : "is empty");
        goto cleanup;
    }
    entry.name_bytes = name.count;
    WGI_TRY(read_shape(reading, &entry.tensor, err));
    WGI_TRY(read_type(reading, &entry.tensor, err));
    if (!wgi_gguf_take(reading->cursor, 8, &entry.begin)) {
        status = fail_cut(reading, err);
        goto cleanup;
    }
    if (entry.begin % alignment != 0) {
        status = wgi_fail(
            err, WG_ERR_FORMAT, "tensor '%s': offset %llu is not a multiple of the alignment %llu",
            reading->shown, (unsigned long long)entry.begin, (unsigned long long)alignment);
        goto cleanup;
    }
    WGI_TRY(wgi_grow(&gguf->entries, &gguf->entry_room, gguf->entry_count + 1,
                     sizeof(*gguf->entries), err));
    WGI_TRY(wgi_buf_append(&gguf->names, name.data, name.count, err));
    WGI_TRY(wgi_buf_append(&gguf->names, "", 1, err));
    gguf->entries[gguf->entry_count++] = entry;

cleanup:
    return status;
}

/* --------------------------------------------------------------------------- names and places */

static wg_status name_entries(wgi_gguf *gguf, wg_error *err)
{
    char shown[WGI_SHOWN_BYTES];
    wgi_slice twice;

    gguf->entry_links = wgi_calloc(gguf->entry_count, sizeof(*gguf->entry_links));
    if (!gguf->entry_links)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for %zu tensors", gguf->entry_count);
    for (size_t i = 0; i < gguf->entry_count; i++) {
        wgi_gguf_entry *entry = &gguf->entries[i];
        entry->tensor.name = gguf->names.data + entry->name_at;
        gguf->entry_links[i] = (wgi_gguf_link){{entry->tensor.name, entry->name_bytes}, i};
    }
    wgi_gguf_sort(gguf->entry_links, gguf->entry_count, &twice);
    if (!twice.data) return WG_OK;
    return wgi_fail(err, WG_ERR_FORMAT, "duplicate tensor '%s'",
                    wgi_text_show(shown, twice.data, twice.count));
}

/* Points every tensor at its bytes, all of which are in the file. */
static wg_status place_entries(wgi_gguf *gguf, const wgi_gguf_cursor *cursor, uint64_t alignment,
                               wg_error *err)
{
    uint64_t header = (uint64_t)(cursor->at - gguf->map->data);
    uint64_t start = (header + alignment - 1) / alignment * alignment;
    uint64_t data_bytes = start < gguf->map->bytes ? gguf->map->bytes - start : 0;
    char shown[WGI_SHOWN_BYTES];

    for (size_t i = 0; i < gguf->entry_count; i++) {
        wgi_gguf_entry *entry = &gguf->entries[i];
        uint64_t end = 0;
        if (entry->begin <= data_bytes && entry->tensor.bytes <= data_bytes - entry->begin) {
            entry->tensor.data = gguf->map->data + start + entry->begin;
            continue;
        }
        (void)wgi_text_show(shown, entry->tensor.name, entry->name_bytes);
        if (entry->begin > data_bytes ||
            __builtin_add_overflow(entry->begin, (uint64_t)entry->tensor.bytes, &end))
            return wgi_fail(err, WG_ERR_FORMAT,
                            "tensor '%s': offset %llu is past the %llu bytes of data: the file is "
                            "truncated or damaged",
                            shown, (unsigned long long)entry->begin,
                            (unsigned long long)data_bytes);
        return wgi_fail(err, WG_ERR_FORMAT,
                        "the file is truncated: tensor '%s' ends %llu bytes past the end of the "
                        "file",
                        shown, (unsigned long long)(end - data_bytes));
    }
    return WG_OK;
}

typedef struct stretch {
    uint64_t begin, end;
    size_t index;
} stretch;

static int stretch_compare(const void *a, const void *b)
{
    const stretch *x = a, *y = b;

    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static wg_status check_overlap(const wgi_gguf *gguf, wg_error *err)
{
    stretch *sorted = wgi_calloc(gguf->entry_count, sizeof(*sorted));
    char shown[2][WGI_SHOWN_BYTES];
    wg_status status = WG_OK;

    if (!sorted)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory to sort %zu tensors", gguf->entry_count);
    for (size_t i = 0; i < gguf->entry_count; i++) {
        const wgi_gguf_entry *entry = &gguf->entries[i];
        sorted[i] = (stretch){entry->begin, entry->begin + entry->tensor.bytes, i};
    }
    if (gguf->entry_count > 1) qsort(sorted, gguf->entry_count, sizeof(*sorted), stretch_compare);
    for (size_t i = 1; i < gguf->entry_count; i++) {
        if (sorted[i].begin >= sorted[i - 1].end) continue;
        for (size_t k = 0; k < 2; k++) {
            const wgi_gguf_entry *entry = &gguf->entries[sorted[i - 1 + k].index];
            (void)wgi_text_show(shown[k], entry->tensor.name, entry->name_bytes);
        }
        status = wgi_fail(err, WG_ERR_FORMAT,
                          "tensors '%s' and '%s' overlap: offset %llu is before %llu", shown[0],
                          shown[1], (unsigned long long)sorted[i].begin,
                          (unsigned long long)sorted[i - 1].end);
        break;
    }
    wgi_free(sorted);
    return status;
}

wg_status wgi_gguf_read_tensors(wgi_gguf *gguf, wgi_gguf_cursor *cursor, uint64_t count,
                                uint64_t alignment, wg_error *err)
{
    entry_reading reading = {.cursor = cursor};
    wg_status status = WG_OK;

    for (uint64_t i = 0; i < count; i++)
        WGI_TRY(read_entry(gguf, &reading, alignment, err));
    WGI_TRY(name_entries(gguf, err));
    WGI_TRY(place_entries(gguf, cursor, alignment, err));
    WGI_TRY(check_overlap(gguf, err));

cleanup:
    return status;
}

/* -------------------------------------------------------------------------------------- access */

size_t wgi_gguf_count(const wgi_gguf *gguf)
{
    return gguf->entry_count;
}

const wgi_tensor *wgi_gguf_at(const wgi_gguf *gguf, size_t index)
{
    return &gguf->entries[index].tensor;
}

const wgi_tensor *wgi_gguf_find(const wgi_gguf *gguf, const char *name)
{
    size_t index = wgi_gguf_index(gguf->entry_links, gguf->entry_count, name);

    return index == SIZE_MAX ? NULL : &gguf->entries[index].tensor;
}

wg_status wgi_gguf_need(const wgi_gguf *gguf, const char *name, const wgi_tensor **out,
                        wg_error *err)
{
    const wgi_tensor *found = wgi_gguf_find(gguf, name);

    *out = NULL;
    if (!found) return wgi_fail(err, WG_ERR_FORMAT, "%s: tensor '%s' is missing", gguf->path, name);
    if (found->dtype == WGI_DTYPE_OTHER)
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "%s: type %s not supported for tensor '%s' (F32, F16, BF16, Q4_0, Q4_1, "
                        "Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K are)",
                        gguf->path, found->dtype_name, name);
    *out = found;
    return WG_OK;
}

void wgi_gguf_drop(const wgi_gguf *gguf, const wgi_tensor *tensor)
{
    wgi_map_drop(gguf->map, tensor->data, tensor->bytes);
}
