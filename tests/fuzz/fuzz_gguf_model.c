/*
 * fuzz_gguf_model.c - any bytes as a GGUF file that is opened as a model: description, weights, and
 * the packed forward pass, which is run on two tokens.
 *
 * Property: what was accepted runs; what was refused has a sentence. ASan sees whoever leaves the
 * packed weights or the buffers of the pass, and the system whoever leaves the pages of the file.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/network.h"
#include "temporary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

static wgt_folder folder;

static void close_folder(void)
{
    wgt_folder_close(&folder);
}

static void expect(bool condition)
{
    if (!condition) __builtin_trap();
}

static void run(const wgi_network *network, const wgi_description *description)
{
    wgi_plan plan = wgi_network_plan(network, 2, 2);
    void *lane = wgi_malloc_aligned(64, plan.lane_bytes);
    wgi_forward forward = {.bin_memory = wgi_malloc_aligned(64, plan.bin_bytes),
                           .lane_memory = &lane};
    int32_t ids[2] = {0, (int32_t)(description->vocabulary_count - 1)};
    wgi_bin bin = {0};
    wgi_view hidden;
    wg_error err;

    expect(wgi_bin_init(&bin, 2, 1, &err) == WG_OK);
    wgi_bin_append(&bin, 0, ids, NULL, description->position_count > 1 ? 2 : 1, 0);
    if (lane && forward.bin_memory)
        expect(wgi_network_run(network, &bin, &forward, &hidden, &err) == WG_OK);
    wgi_bin_fini(&bin);
    wgi_free(forward.bin_memory);
    wgi_free(lane);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    const wgi_backend *backend = NULL;
    wgi_description description;
    wgi_weights *weights = NULL;
    wgi_network *network = NULL;
    char path[512];
    wg_error err = {0};

    if (!folder.path[0]) {
        folder = wgt_folder_open();
        (void)atexit(close_folder);
    }
    wgt_write(&folder, "any.gguf", data, count);
    (void)snprintf(path, sizeof(path), "%s/any.gguf", folder.path);
    expect(wgi_backend_find(&backend, "cpu", WG_ISA_PLAIN, &err) == WG_OK);
    wg_status status = wgi_description_load(&description, path, &err);
    if (status == WG_OK) status = wgi_weights_open(&weights, path, &err);
    if (status == WG_OK) status = wgi_network_open(&network, &description, weights, backend, &err);
    if (status == WG_OK) run(network, &description);
    if (status != WG_OK) expect(err.message[0] && network == NULL);
    wgi_network_close(network);
    wgi_weights_close(weights);
    return 0;
}
