/*
 * weights_gguf.c - a GGUF file as weights; see weights_gguf.h.
 *
 * The idea: a forward pass asks for tensors by one set of names, and gets them from either kind of
 * file. What else a converter changed is undone where it is exact and cheap: rows of Q and K that
 * were reordered for interleaved rotation are put back when they are packed, whole rows at a time.
 * Refused: a second kind of rotation in every backend.
 *
 * Threads: no shared state.
 */
#include "model/weights_gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/directory.h"

/*
 * A tensor of a layer that the architecture has no use for means another model than the one that
 * would be run: a gate, a norm, a layer more. Beside the layers, files carry this and that.
 */
static wg_status check_layer(const wgi_gguf *gguf, const wgi_gguf_fields *fields, const char *name,
                             bool is_known, wg_error *err)
{
    const char *layers = "blk.", *architecture = wgi_gguf_architecture_name(fields->architecture);
    char shown[WGI_SHOWN_BYTES];

    if (strncmp(name, layers, strlen(layers)) != 0) return WG_OK;
    (void)wgi_text_show(shown, name, strlen(name));
    if (!is_known)
        return wgi_fail(err, WG_ERR_UNSUPPORTED,
                        "%s: tensor '%s' is not one that %s models have here", wgi_gguf_path(gguf),
                        shown, architecture);
    if (strtoull(name + strlen(layers), NULL, 10) >= fields->layer_count)
        return wgi_fail(err, WG_ERR_FORMAT, "%s: tensor '%s', but key %s.block_count says %llu",
                        wgi_gguf_path(gguf), shown, architecture,
                        (unsigned long long)fields->layer_count);
    return WG_OK;
}

wg_status wgi_gguf_entries(wgi_entries *entries, const wgi_gguf *gguf,
                           const wgi_gguf_fields *fields, wg_error *err)
{
    wg_status status = WG_OK;

    for (size_t i = 0; i < wgi_gguf_count(gguf); i++) {
        const wgi_tensor *tensor = wgi_gguf_at(gguf, i);
        char translated[WGI_GGUF_NAME_BYTES];
        const char *name = translated;
        wgi_entry entry = {.tensor = *tensor, .name_at = entries->names.count};
        bool is_new,
            is_known = wgi_gguf_name_to_hf(fields->architecture, tensor->name, translated, NULL);

        WGI_TRY(check_layer(gguf, fields, tensor->name, is_known, err));
        if (!is_known) name = tensor->name;
        entry.name_bytes = strlen(name);
        WGI_TRY(wgi_grow(&entries->items, &entries->capacity, entries->count + 1,
                         sizeof(*entries->items), err));
        WGI_TRY(wgi_buf_append(&entries->names, name, entry.name_bytes + 1, err));
        entries->items[entries->count++] = entry;
        WGI_TRY(wgi_entries_add(entries, entries->count - 1, &is_new, err));
        if (is_new) continue;
        char shown[WGI_SHOWN_BYTES];
        status = wgi_fail(err, WG_ERR_FORMAT, "%s: tensor '%s' is there under another name too",
                          wgi_gguf_path(gguf), wgi_text_show(shown, name, strlen(name)));
        goto cleanup;
    }

cleanup:
    return status;
}

wg_status wgi_gguf_in_order(const wgi_gguf_fields *fields, const wgi_tensor *tensor,
                            wgi_tensor *out, void **copy, wg_error *err)
{
    char name[WGI_GGUF_NAME_BYTES];
    unsigned flags = 0;

    *out = *tensor;
    *copy = NULL;
    if (!wgi_gguf_name_from_hf(fields->architecture, tensor->name, name, &flags) ||
        !(flags & (WGI_GGUF_PERMUTED_Q | WGI_GGUF_PERMUTED_K)))
        return WG_OK;

    uint64_t heads = flags & WGI_GGUF_PERMUTED_Q ? fields->head_count : fields->key_head_count;
    size_t rows = (size_t)tensor->shape[0], row_bytes = rows ? tensor->bytes / rows : 0;
    char *bytes = wgi_malloc(tensor->bytes ? tensor->bytes : 1);
    if (!bytes)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory to put tensor '%s' in order (%zu bytes)",
                        tensor->name, tensor->bytes);
    for (size_t row = 0; row < rows; row++) {
        uint64_t from = wgi_gguf_unpermute_row(row, heads, fields->head_dim);
        memcpy(bytes + row * row_bytes, (const char *)tensor->data + (size_t)from * row_bytes,
               row_bytes);
    }
    out->data = bytes;
    *copy = bytes;
    return WG_OK;
}
