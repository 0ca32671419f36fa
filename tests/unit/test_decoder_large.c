/*
 * test_decoder_large.c - a decoder as large as Qwen2.5-7B (28 layers, 3584 wide, bf16, 15 GB of
 * random weights) loads and runs within 20 GiB of peak memory: its weights are held once, in the
 * type of the file. The folder is made by tools/make_shape_model.py and looked for in
 * $WARPGROUP_CACHE/models, else in ~/.cache/warpgroup/models, as qwen2.5-7b-shape. LABELS: full
 */
#include "base/os_memory.h"
#include "model/network.h"

#include "decoder_cases.h"

/* wgt_vectors holds rows of small models; here the last row is all that is looked at. */
static void run(const wgt_decoder *m, size_t count)
{
    size_t dim = m->description.hidden_count;
    wgi_plan plan = wgi_network_plan(m->network, count, count);
    void *lane = aligned_alloc(64, (plan.lane_bytes + 63) / 64 * 64);
    wgi_forward forward = {.bin_memory = aligned_alloc(64, (plan.bin_bytes + 63) / 64 * 64),
                           .lane_memory = &lane};
    int32_t *ids = calloc(count, sizeof(int32_t));
    double squares = 0;
    wgi_view hidden;
    wgi_bin bin = {0};
    wg_error err;

    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)wgt_below(m->description.vocabulary_count);
    EXPECT_OK(wgi_bin_init(&bin, count, 1, &err));
    wgi_bin_append(&bin, 0, ids, NULL, (uint32_t)count, 0);
    EXPECT_OK(wgi_network_run(m->network, &bin, &forward, &hidden, &err));
    for (size_t j = 0; j < dim; j++) {
        double value = (double)hidden.data[(count - 1) * hidden.stride + j];
        squares += value * value;
    }
    EXPECT(isfinite(squares) && squares > 0);
    wgi_bin_fini(&bin);
    free(ids);
    free(forward.bin_memory);
    free(lane);
}

int main(void)
{
    const char *cache = getenv("WARPGROUP_CACHE"), *home = getenv("HOME");
    char path[512], config[600];
    wgt_decoder m;

    wgt_seed_set(0x7B);
    (void)snprintf(path, sizeof(path), "%s%s/models/qwen2.5-7b-shape",
                   cache  ? cache
                   : home ? home
                          : "",
                   cache ? "" : "/.cache/warpgroup");
    (void)snprintf(config, sizeof(config), "%s/config.json", path);
    FILE *file = fopen(config, "rb");
    if (!file) {
        printf("skipped: no %s (tools/make_shape_model.py makes it)\n", path);
        return 77;
    }
    (void)fclose(file);
    wgt_decoder_open(&m, path);
    run(&m, 96);
    printf("packed %.2f GiB, peak %.2f GiB\n", (double)wgi_network_bytes(m.network) / 0x1p30,
           (double)wgi_memory_peak_rss() / 0x1p30);
    EXPECT(wgi_memory_peak_rss() < 20 * ((uint64_t)1 << 30));
    wgt_decoder_close(&m);
    return wgt_result();
}
