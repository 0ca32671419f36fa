/*
 * test_decoder.c - the forward pass on tiny decoders of every family: every layer and the final
 * norm against a float64 computation (tests/data, made with transformers), on every instruction set
 * and on the reference backend; the same bytes for a text alone and in any bin, order and number of
 * lanes, windows and tiles of keys included; no allocation while running; and what is said when
 * weights and configuration do not fit.
 * LABELS: quick numeric
 */
#include "model/network.h"

#include "network_cases.h"

static const char *const folders[] = {"llama-h64-d16-f16-tied",
                                      "llama-h40-d16-bf16-rope-llama3",
                                      "llama-h32-d16-rope-linear",
                                      "qwen2-h48-d16-bf16-shards",
                                      "qwen3-h48-d32-bf16-embed-lasttoken",
                                      "mistral-h32-d8-window8",
                                      "gemma3-h40-d16-bf16-window6",
                                      "gemma3-h32-d8-window5-layer-types",
                                      "phi3-h32-d8-f16-window12",
                                      "granite-h32-d8-multipliers"};
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

static void check_all_layers(const wgi_backend *backend)
{
    for (size_t i = 0; i < FOLDERS; i++)
        wgt_check_layers(backend, folders[i], true);
}

/* --------------------------------------------------------------------------------- the law */

/* Causal: the rows of a text's beginning are those of the beginning alone. */
static void check_beginning(const wgt_network *m, const wgt_sequence *whole)
{
    bool is_same = true;

    for (size_t count = 1; count < whole->count; count += 1 + count / 2) {
        wgt_sequence part = {.ids = whole->ids, .count = count};
        wgt_room room;
        wgi_view out = wgt_run_alone(m, &room, &part);

        is_same &= wgt_is_alone(m, whole, out, 0, count);
        wgt_room_close(&room);
    }
    EXPECT(is_same);
}

/* positions and window: 0: as the folder says. */
static void check_law(const wgi_backend *backend, const char *folder, uint32_t positions,
                      uint32_t window)
{
    wgt_network m = wgt_tiny_open(backend, folder);
    wgt_sequence texts[WGT_TEXTS];
    size_t longest = 0;

    if (positions) { /* rotary positions go as far as one likes */
        m.description.position_count = positions;
        if (window) m.description.decoder.window = window;
        wgt_network_again(&m);
    }
    wgt_texts_make(&m, 200, texts);
    wgt_check_bins(&m, texts);
    for (size_t t = 1; t < WGT_TEXTS; t++)
        if (texts[t].count > texts[longest].count) longest = t;
    check_beginning(&m, &texts[longest]);
    wgt_texts_free(texts);
    wgt_network_close(&m);
}

/* ------------------------------------------------------------- windows across tiles of keys */

/* Long texts with windows of every kind, against the reference backend. */
static void check_windows(const wgi_backend *backend)
{
    static const struct {
        uint32_t window;
        size_t count;
    } cases[] = {{1, 40}, {31, 600}, {512, 1100}, {513, 1300}, {700, 1700}, {2000, 1500}};
    const wgi_backend *plain = NULL;
    wg_error err;

    EXPECT_OK(wgi_backend_find(&plain, "reference", WG_ISA_AUTO, &err));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && plain; i++) {
        wgt_network m[2] = {wgt_tiny_open(backend, "mistral-h32-d8-window8"),
                            wgt_tiny_open(plain, "mistral-h32-d8-window8")};
        size_t hidden = m[0].description.hidden_count;
        wgt_sequence one = wgt_sequence_random(&m[0], cases[i].count);
        double *states = malloc(one.count * hidden * sizeof(double));
        wgt_reference r = {.states = states, .rows = one.count, .columns = hidden};
        wgt_room rooms[2];
        wgi_view out[2];

        for (int k = 0; k < 2; k++) {
            m[k].description.position_count = 4096;
            m[k].description.decoder.window = cases[i].window;
            wgt_network_again(&m[k]);
            out[k] = wgt_run_alone(&m[k], &rooms[k], &one);
        }
        for (size_t row = 0; row < one.count; row++)
            for (size_t j = 0; j < hidden; j++)
                states[row * hidden + j] = (double)out[1].data[row * out[1].stride + j];
        wgt_reference_compare(&r, 0, out[0]);
        EXPECT(r.worst <= WGT_ERROR_MOST);
        if (!(r.worst <= WGT_ERROR_MOST))
            fprintf(stderr, "  window %u: %g of the largest value\n", cases[i].window, r.worst);
        for (int k = 0; k < 2; k++) {
            wgt_room_close(&rooms[k]);
            wgt_network_close(&m[k]);
        }
        free(states);
        free(one.ids);
    }
}

/* ------------------------------------------------------------------ weights kept as stored */

/* The same bits as f32 weights, on a path of its own. */
static void check_stored(const wgi_backend *backend, const char *folder)
{
    wgt_network m[2] = {wgt_tiny_open(backend, folder), wgt_tiny_open(backend, folder)};
    wgt_sequence one = wgt_sequence_random(&m[0], 200);
    wgt_room rooms[2];
    wgi_view out[2];
    bool is_same = true;

    m[1].description.decoder.keep_stored = true;
    wgt_network_again(&m[1]);
    EXPECT(wgi_network_bytes(m[1].network) < wgi_network_bytes(m[0].network));
    for (int k = 0; k < 2; k++)
        out[k] = wgt_run_alone(&m[k], &rooms[k], &one);
    for (size_t row = 0; row < one.count; row++)
        is_same &= memcmp(out[0].data + row * out[0].stride, out[1].data + row * out[1].stride,
                          m[0].description.hidden_count * sizeof(float)) == 0;
    EXPECT(is_same);
    for (int k = 0; k < 2; k++) {
        wgt_room_close(&rooms[k]);
        wgt_network_close(&m[k]);
    }
    free(one.ids);
}

/* ---------------------------------------------------------------------------------- faults */

static void check_faults(const wgi_backend *backend)
{
    wgt_network m = wgt_tiny_open(backend, folders[0]);
    wgi_description wrong = m.description;
    wgt_sequence one = {.ids = (int32_t[]){2, 5, 3, 4}, .count = 4};
    wgt_room room;

    wrong.layer_count++;
    wgt_expect_refused(&m, &wrong, "model.layers.2.", "num_hidden_layers 3");
    wrong = m.description;
    wrong.feed_forward_count++;
    wgt_expect_refused(&m, &wrong, "layers.0.mlp.gate_proj.weight", "intermediate_size");
    wrong = m.description;
    wrong.vocabulary_count--;
    wgt_expect_refused(&m, &wrong, "embed_tokens.weight", "vocab_size");
    wrong = m.description;
    wrong.key_head_count = 4;
    wgt_expect_refused(&m, &wrong, "self_attn.k_proj.weight", "num_key_value_heads");
    wrong = m.description;
    wrong.decoder.has_qkv_bias = true;
    wgt_expect_refused(&m, &wrong, "self_attn.q_proj.bias", "is missing");
    wrong = m.description;
    wrong.decoder.is_fused = true;
    wgt_expect_refused(&m, &wrong, "self_attn.qkv_proj.weight", "is missing");
    wrong = m.description;
    wrong.decoder.has_rope_factors = true;
    wgt_expect_refused(&m, &wrong, "rope_freqs.weight", "is missing");

    (void)wgt_run_alone(&m, &room, &one);
    room.bin.position_ids[2] = (int32_t)m.description.position_count;
    wgt_expect_bad_bin(&m, &room, "row 2: position 256");
    room.bin.position_ids[2] = 2;
    room.bin.token_ids[3] = -1;
    wgt_expect_bad_bin(&m, &room, "row 3: token id -1");

    EXPECT_EQ(wgi_network_plan(m.network, SIZE_MAX / 100, 1).bin_bytes, SIZE_MAX);
    EXPECT(wgi_network_bytes(m.network) > 20000);
    EXPECT_EQ(wgi_network_mapped_bytes(m.network), 300 * 64 * 2);
    wgt_room_close(&room);
    wgt_network_close(&m);
}

static void body(const wgi_backend *backend)
{
    check_all_layers(backend);
    check_windows(backend);
    check_law(backend, folders[0], 0, 0);
    check_law(backend, "qwen3-h48-d32-bf16-embed-lasttoken", 0, 0);
    check_law(backend, "mistral-h32-d8-window8", 1500, 600);
    check_law(backend, "gemma3-h40-d16-bf16-window6", 1300, 0);
    check_law(backend, "phi3-h32-d8-f16-window12", 0, 0);
    check_law(backend, "granite-h32-d8-multipliers", 0, 0);
    check_stored(backend, folders[0]);
    check_stored(backend, "qwen2-h48-d16-bf16-shards");
    check_stored(backend, "phi3-h32-d8-f16-window12");
    check_faults(backend);
    wgt_check_no_memory(backend, folders[0]);
    wgt_check_no_memory(backend, "gemma3-h40-d16-bf16-window6");
}

int main(void)
{
    wgt_seed_set(0xDEC0);
    return wgt_network_result(body, check_all_layers);
}
