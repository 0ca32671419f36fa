/*
 * test_decoder_gguf.c - decoders from GGUF: the tiny models of tests/data are written as GGUF here,
 * as converters do it (other names, Q and K of Llama reordered, Gemma's norms plus one, llama3
 * scaling as factors), and must give the vectors of the folder; pooling as the file says; and what
 * is refused.
 */
#include <math.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "model/gguf_names.h"
#include "model/network.h"

#include "decoder_cases.h"
#include "gguf_maker.h"
#include "temporary.h"

#define TENSORS_MAX 64

typedef struct source {
    const char *folder;
    wgi_gguf_architecture architecture;
    const char *extra; /* key of one more number, or NULL */
    double value;
} source;

static wgt_folder folder;

static float llama3_factor(const wgi_rope *rope, size_t j, size_t half)
{
    double frequency = pow(rope->base, -(double)j / (double)half);
    double wavelength = 2 * 3.14159265358979323846 / frequency;
    double share = (rope->original / wavelength - rope->low) / (rope->high - rope->low);

    if (share < 0) share = 0;
    if (share > 1) share = 1;
    return (float)(1 / ((1 - share) / rope->factor + share));
}

/* One tensor's floats as a converter writes them. */
static void put_values(wgi_buf *out, const wgi_description *d, const wgi_tensor *tensor,
                       unsigned flags)
{
    size_t rows = (size_t)tensor->shape[0];
    size_t columns = (size_t)wgi_tensor_count(tensor) / rows;
    uint64_t heads = flags & WGI_GGUF_PERMUTED_Q ? d->head_count : d->key_head_count;
    float *values = malloc(rows * columns * sizeof(float));

    for (size_t row = 0; row < rows; row++) {
        size_t to = row;
        if (flags & (WGI_GGUF_PERMUTED_Q | WGI_GGUF_PERMUTED_K))
            to = (size_t)wgi_gguf_unpermute_row(row, heads, d->head_dim);
        wgi_tensor_widen(tensor, row * columns, columns, values + to * columns);
    }
    for (size_t i = 0; i < rows * columns && flags & WGI_GGUF_PLUS_ONE; i++)
        values[i] += 1;
    wgt_gguf_bytes(out, values, rows * columns * sizeof(float));
    wgt_gguf_align(out, 32);
    free(values);
}

static void put_key(wgi_buf *file, uint64_t *keys, const char *architecture, const char *key,
                    double value, bool is_float)
{
    char full[128];

    (void)snprintf(full, sizeof(full), "%s.%s", architecture, key);
    if (is_float)
        wgt_gguf_float(file, full, (float)value);
    else
        wgt_gguf_count(file, full, (uint64_t)value);
    ++*keys;
}

static uint64_t put_keys(wgi_buf *file, const source *from, const wgi_description *d)
{
    const char *name = wgi_gguf_architecture_name(from->architecture);
    const wgi_decoder_traits *traits = &d->decoder;
    char key[128];
    uint64_t keys = 1;

    wgt_gguf_text(file, "general.architecture", name);
    put_key(file, &keys, name, "block_count", d->layer_count, false);
    put_key(file, &keys, name, "embedding_length", d->hidden_count, false);
    put_key(file, &keys, name, "feed_forward_length", d->feed_forward_count, false);
    put_key(file, &keys, name, "attention.head_count", d->head_count, false);
    put_key(file, &keys, name, "attention.head_count_kv", d->key_head_count, false);
    put_key(file, &keys, name, "attention.key_length", d->head_dim, false);
    put_key(file, &keys, name, "context_length", d->position_count, false);
    put_key(file, &keys, name, "attention.layer_norm_rms_epsilon", (double)d->norm_epsilon, true);
    put_key(file, &keys, name, "rope.freq_base", traits->rope.base, true);
    if (from->architecture == WGI_GGUF_GEMMA3) {
        put_key(file, &keys, name, "attention.sliding_window", traits->window, false);
        put_key(file, &keys, name, "attention.sliding_window_pattern", 2, false);
        put_key(file, &keys, name, "attention.scale", (double)traits->attention_scale, true);
        put_key(file, &keys, name, "rope.freq_base_swa", traits->rope_local.base, true);
    }
    if (!traits->rope.is_llama3 && traits->rope.factor != 1) {
        (void)snprintf(key, sizeof(key), "%s.rope.scaling.type", name);
        wgt_gguf_text(file, key, "linear");
        keys++;
        put_key(file, &keys, name, "rope.scaling.factor", traits->rope.factor, true);
    }
    if (from->extra)
        put_key(file, &keys, name, from->extra, from->value, floor(from->value) != from->value);
    return keys;
}

/* The folder's model as made.gguf. */
static void convert(const source *from, const wgt_decoder *m)
{
    const wgi_description *d = &m->description;
    wgi_buf keys = {0}, infos = {0}, data = {0}, file = {0};
    uint64_t key_count = put_keys(&keys, from, d), tensors = 0;
    size_t half = d->decoder.rotary_count / 2;

    for (size_t i = 0; i < wgi_weights_count(m->weights); i++) {
        const wgi_tensor *tensor = wgi_weights_at(m->weights, i);
        char name[WGI_GGUF_NAME_BYTES], hf[WGI_GGUF_NAME_BYTES];
        uint64_t dimensions[2] = {tensor->shape[0], 0};
        unsigned flags;

        bool is_bare =
            strncmp(tensor->name, "model.", 6) != 0 && strcmp(tensor->name, "lm_head.weight") != 0;
        (void)snprintf(hf, sizeof(hf), "%s%s", is_bare ? "model." : "", tensor->name);
        EXPECT(wgi_gguf_name_from_hf(from->architecture, hf, name, &flags));
        if (tensor->rank == 2) {
            dimensions[0] = tensor->shape[1];
            dimensions[1] = tensor->shape[0];
        }
        wgt_gguf_tensor(&infos, name, tensor->rank, dimensions, 0, data.count);
        put_values(&data, d, tensor, flags);
        tensors++;
    }
    if (d->decoder.rope.is_llama3) {
        uint64_t dimension = half;
        wgt_gguf_tensor(&infos, "rope_freqs.weight", 1, &dimension, 0, data.count);
        for (size_t j = 0; j < half; j++) {
            float factor = llama3_factor(&d->decoder.rope, j, half);
            wgt_gguf_bytes(&data, &factor, sizeof(factor));
        }
        wgt_gguf_align(&data, 32);
        tensors++;
    }
    wgt_gguf_begin(&file, 3, tensors, key_count);
    wgt_gguf_bytes(&file, keys.data, keys.count);
    wgt_gguf_bytes(&file, infos.data, infos.count);
    wgt_gguf_align(&file, 32);
    wgt_gguf_bytes(&file, data.data, data.count);
    wgt_write(&folder, "made.gguf", file.data, file.count);
    wgi_buf_fini(&keys);
    wgi_buf_fini(&infos);
    wgi_buf_fini(&data);
    wgi_buf_fini(&file);
}

static void open_source(const source *from, wgt_decoder *m, char made[512])
{
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/tiny-%s", WGT_DATA, from->folder);
    wgt_decoder_open(m, path);
    convert(from, m);
    (void)snprintf(made, 512, "%s/made.gguf", folder.path);
}

static void check(const source *from)
{
    static wgt_vectors want, got;
    int32_t ids[40];
    char made[512];
    wgt_decoder m[2];

    open_source(from, &m[0], made);
    wgt_decoder_open(&m[1], made);
    for (int i = 0; i < 40; i++)
        ids[i] = 2 + 7 * i % 290;
    wgt_decoder_run(&m[0], ids, 40, &want);
    wgt_decoder_run(&m[1], ids, 40, &got);
    double most = m[0].description.decoder.rope.is_llama3 ? 1e-5 : 0; /* factors are f32 there */
    for (size_t j = 0; j < m[0].description.hidden_count; j++) {
        EXPECT(fabs(got.last[j] - want.last[j]) <= most);
        EXPECT(fabs(got.mean[j] - want.mean[j]) <= most);
    }
    EXPECT_EQ(m[1].description.pooling, m[0].description.pooling);
    wgt_decoder_close(&m[0]);
    wgt_decoder_close(&m[1]);
}

static void check_refused(const char *extra, double value, const char *part)
{
    source from = {"llama-h64-d16-f16-tied", WGI_GGUF_LLAMA, extra, value};
    wgi_description description;
    char made[512];
    wgt_decoder m;
    wg_error err = {0};

    open_source(&from, &m, made);
    EXPECT_EQ(wgi_description_load(&description, made, &err), WG_ERR_UNSUPPORTED);
    EXPECT_IN(err.message, part);
    EXPECT_IN(err.message, "made.gguf: ");
    wgt_decoder_close(&m);
}

/* Factors that frequencies cannot be divided by; they are the last of the file. */
static void check_factors(void)
{
    static const float wrong[] = {0, -1, INFINITY, NAN};
    source from = {"llama-h40-d16-bf16-rope-llama3", WGI_GGUF_LLAMA, NULL, 0};
    const wgi_backend *backend = NULL;
    char made[512];
    wgt_decoder m;
    wg_error err = {0};

    EXPECT_OK(wgi_backend_find(&backend, "cpu", WG_ISA_AUTO, &err));
    open_source(&from, &m, made);
    wgt_decoder_close(&m);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        wgi_description description;
        wgi_weights *weights = NULL;
        wgi_network *network = NULL;
        size_t bytes;
        char *data = wgt_slurp(made, &bytes);

        memcpy(data + bytes - sizeof(wrong[i]), &wrong[i], sizeof(wrong[i]));
        wgt_write(&folder, "made.gguf", data, bytes);
        free(data);
        EXPECT_OK(wgi_description_load(&description, made, &err));
        EXPECT_OK(wgi_weights_open(&weights, made, &err));
        EXPECT_EQ(wgi_network_open(&network, &description, weights, backend, &err), WG_ERR_FORMAT);
        EXPECT_IN(err.message, "made.gguf: tensor 'rope_freqs.weight': factor 7 is");
        wgi_network_close(network);
        wgi_weights_close(weights);
    }
}

static void check_pooling(void)
{
    static const wg_pooling wanted[4] = {WG_POOLING_LAST, WG_POOLING_MEAN, WG_POOLING_CLS,
                                         WG_POOLING_LAST};

    for (int type = 0; type < 4; type++) {
        source from = {"llama-h64-d16-f16-tied", WGI_GGUF_LLAMA, "pooling_type", type};
        wgi_description description;
        wgi_modules modules;
        char made[512];
        wgt_decoder m;
        wg_error err = {0};

        open_source(&from, &m, made);
        EXPECT_OK(wgi_description_load(&description, made, &err));
        EXPECT_OK(wgi_modules_load(&modules, made, &description, &err));
        EXPECT_EQ(modules.pooling, wanted[type]);
        EXPECT(modules.normalize);
        EXPECT_EQ(modules.token_count_default, 256);
        wgi_modules_fini(&modules);
        wgt_decoder_close(&m);
    }
}

/* Every allocation of opening a GGUF model fails in turn. */
static void check_no_memory(void)
{
    source from = {"llama-h40-d16-bf16-rope-llama3", WGI_GGUF_LLAMA, NULL, 0};
    const wgi_backend *backend = NULL;
    char made[512];
    wgt_decoder m;
    wg_error err = {0};

    open_source(&from, &m, made);
    wgt_decoder_close(&m);
    EXPECT_OK(wgi_backend_find(&backend, "cpu", WG_ISA_AUTO, &err));
    for (long nth = 1; nth < 2000; nth++) {
        wgi_description description;
        wgi_weights *weights = NULL;
        wgi_network *network = NULL;

        wgi_alloc_fail_at(nth);
        wg_status status = wgi_description_load(&description, made, &err);
        if (status == WG_OK) status = wgi_weights_open(&weights, made, &err);
        if (status == WG_OK)
            status = wgi_network_open(&network, &description, weights, backend, &err);
        wgi_alloc_fail_at(0);
        wgi_network_close(network);
        wgi_weights_close(weights);
        if (status == WG_OK) {
            EXPECT(nth > 20);
            return;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
    }
    EXPECT(0);
}

int main(void)
{
    static const source sources[] = {
        {"llama-h64-d16-f16-tied", WGI_GGUF_LLAMA, NULL, 0},
        {"llama-h40-d16-bf16-rope-llama3", WGI_GGUF_LLAMA, NULL, 0},
        {"llama-h32-d16-rope-linear", WGI_GGUF_LLAMA, NULL, 0},
        {"qwen2-h48-d16-bf16-shards", WGI_GGUF_QWEN2, NULL, 0},
        {"qwen3-h48-d32-bf16-embed-lasttoken", WGI_GGUF_QWEN3, NULL, 0},
        {"gemma3-h40-d16-bf16-window6", WGI_GGUF_GEMMA3, NULL, 0},
    };

    folder = wgt_folder_open();
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
        check(&sources[i]);
    check_factors();
    check_pooling();
    check_no_memory();
    check_refused("pooling_type", 4, "llama.pooling_type: 4");
    check_refused("attn_logit_softcapping", 30.5, "attn_logit_softcapping 30.5");
    check_refused("rope.dimension_count", 7, "no pairs");
    wgt_folder_close(&folder);
    return wgt_result();
}
