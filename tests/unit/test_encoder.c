/*
 * test_encoder.c - the forward pass on tiny models of every family and several shapes: every layer
 * against a float64 computation (tests/data, made with transformers), on every instruction set and
 * on the reference backend; the same bytes for a text alone and in any bin, order and number of
 * lanes; no allocation while running; and what is said when weights and configuration do not fit.
 * LABELS: quick numeric
 */
#include "model/network.h"

#include "network_cases.h"

static const char *const folders[] = {"bert-h32-d8-mean",
                                      "bert-h48-d24-cls-dense",
                                      "bert-h80-d16-f16-weightedmean",
                                      "bert-h40-d20-bf16-shards-max",
                                      "bert-h128-d64-f16-mean",
                                      "bert-h32-pos512-lasttoken",
                                      "bert-h24-d8-sqrt-len",
                                      "roberta-h32-d8-mean",
                                      "xlm-roberta-h40-d20-f16-cls",
                                      "distilbert-h32-d8-mean",
                                      "mpnet-h32-d8-mean",
                                      "modernbert-h32-d16-local8-mean",
                                      "modernbert-h40-d20-f16-local9-cls"};
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

static void check_all_layers(const wgi_backend *backend)
{
    for (size_t i = 0; i < FOLDERS; i++)
        wgt_check_layers(backend, folders[i], false);
}

static void check_law(const wgi_backend *backend, const char *folder)
{
    wgt_network m = wgt_tiny_open(backend, folder);
    wgt_sequence texts[WGT_TEXTS];

    wgt_texts_make(&m, wgt_position_limit(&m), texts);
    wgt_check_bins(&m, texts);
    wgt_texts_free(texts);
    wgt_network_close(&m);
}

typedef struct first_state {
    float *rows; /* [count, H] */
    size_t columns;
} first_state;

static void keep_first(void *context, uint32_t layer, wgi_view hidden, size_t rows)
{
    first_state *state = context;

    for (size_t row = 0; layer == 0 && row < rows; row++)
        memcpy(state->rows + row * state->columns, hidden.data + row * hidden.stride,
               state->columns * sizeof(float));
}

/*
 * A padding token inside a text: where positions begin behind the padding id it takes no position,
 * so that what follows is embedded as if it were not there; and its own position is the same
 * wherever it stands.
 */
static void check_padding_token(const wgi_backend *backend, const char *folder)
{
    static const int32_t ids[2][7] = {{0, 9, 1, 8, 1, 7, 2}, {0, 9, 8, 7, 2}};
    static const int same[5][2] = {{0, 0}, {1, 1}, {3, 2}, {5, 3}, {6, 4}};
    wgt_network m = wgt_tiny_open(backend, folder);
    size_t hidden = m.description.hidden_count, bytes = hidden * sizeof(float);
    first_state states[2];

    for (size_t t = 0; t < 2; t++) {
        wgt_sequence one = {.ids = (int32_t *)(uintptr_t)ids[t], .count = t ? 5 : 7};
        wgt_room room = wgt_room_open(&m, 20, 1);

        states[t] = (first_state){calloc(20, bytes), hidden};
        wgt_sequence_add(&m, &room.bin, &one, 0);
        wgt_sequence_add(&m, &room.bin, &one, 1);
        (void)wgt_run_probed(&m, &room, keep_first, &states[t]);
        EXPECT(memcmp(states[t].rows, states[t].rows + one.count * hidden, one.count * bytes) == 0);
        wgt_room_close(&room);
    }
    for (size_t i = 0; i < 5; i++)
        EXPECT(memcmp(states[0].rows + (size_t)same[i][0] * hidden,
                      states[1].rows + (size_t)same[i][1] * hidden, bytes) == 0);
    EXPECT(memcmp(states[0].rows + 2 * hidden, states[0].rows + 4 * hidden, bytes) == 0);
    free(states[0].rows);
    free(states[1].rows);
    wgt_network_close(&m);
}

/* One bin of 190,000 tokens: as many texts as fit, each with the bytes it has alone. */
static void check_large_bin(const wgi_backend *backend, const char *folder)
{
    enum { CAPACITY = 190000 };
    wgt_network m = wgt_tiny_open(backend, folder);
    wgt_room room = wgt_room_open(&m, CAPACITY, 1);
    wgt_sequence texts[WGT_TEXTS];
    size_t t = 0;

    wgt_texts_make(&m, wgt_position_limit(&m), texts);
    while (room.bin.token_count + texts[t].count <= CAPACITY) {
        wgt_sequence_add(&m, &room.bin, &texts[t], t);
        t = wgt_below(WGT_TEXTS);
    }
    EXPECT(room.bin.token_count > CAPACITY - 200);
    wgt_expect_alone(&m, &room.bin, texts, wgt_run(&m, &room));
    wgt_texts_free(texts);
    wgt_room_close(&room);
    wgt_network_close(&m);
}

/* ---------------------------------------------------------------------------------- faults */

static void check_faults(const wgi_backend *backend)
{
    wgt_network m = wgt_tiny_open(backend, folders[0]);
    wgi_description wrong = m.description;
    wgt_sequence one = {.ids = (int32_t[]){2, 5, 3, 4}, .count = 4};
    wgt_room room;

    wrong.layer_count++;
    wgt_expect_refused(&m, &wrong, "encoder.layer.2.", "num_hidden_layers 3");
    wrong = m.description;
    wrong.feed_forward_count++;
    wgt_expect_refused(&m, &wrong, "encoder.layer.0.intermediate.dense.weight",
                       "intermediate_size");
    wrong = m.description;
    wrong.hidden_count *= 2;
    wgt_expect_refused(&m, &wrong, "embeddings.word_embeddings.weight", "hidden_size");
    wrong = m.description;
    wrong.vocabulary_count--;
    wgt_expect_refused(&m, &wrong, "embeddings.word_embeddings.weight", "vocab_size");
    wrong = m.description;
    wrong.position_count = 512;
    wgt_expect_refused(&m, &wrong, "position_embeddings", "max_position_embeddings");

    (void)wgt_run_alone(&m, &room, &one);
    room.bin.position_ids[2] = (int32_t)m.description.position_count;
    wgt_expect_bad_bin(&m, &room, "row 2: position 64");
    room.bin.position_ids[2] = 2;
    room.bin.type_ids[1] = -1;
    wgt_expect_bad_bin(&m, &room, "row 1: token type -1");
    room.bin.type_ids[1] = 0;
    room.bin.token_ids[3] = (int32_t)m.description.vocabulary_count;
    wgt_expect_bad_bin(&m, &room, "row 3: token id");

    EXPECT_EQ(wgi_network_plan(m.network, SIZE_MAX / 100, 1).bin_bytes, SIZE_MAX);
    EXPECT(wgi_network_bytes(m.network) > 20000);
    wgt_room_close(&room);
    wgt_network_close(&m);
}

/* Matrices that hold several, keys by the family's own names, and a family that is none. */
static void check_family_faults(const wgi_backend *backend)
{
    wgt_network m = wgt_tiny_open(backend, "modernbert-h32-d16-local8-mean");
    wgi_description wrong = m.description;

    wrong.feed_forward_count++;
    wgt_expect_refused(&m, &wrong, "layers.0.mlp.Wi.weight", "2 x intermediate_size 146");
    wrong = m.description;
    wrong.head_count++;
    wgt_expect_refused(&m, &wrong, "layers.0.attn.Wqkv.weight", "3 x hidden_size 144");
    wrong = m.description;
    wrong.encoder.lacks_norm_bias = false;
    wgt_expect_refused(&m, &wrong, "embeddings.norm.bias", "is missing");
    wrong = m.description;
    wrong.encoder.lacks_attention_bias = false;
    wgt_expect_refused(&m, &wrong, "layers.0.attn.Wqkv.bias", "is missing");
    (void)snprintf(wrong.architecture, sizeof(wrong.architecture), "no-such-family");
    wgt_expect_refused(&m, &wrong, "'no-such-family'", "is not a family");
    wgt_network_close(&m);

    m = wgt_tiny_open(backend, "mpnet-h32-d8-mean");
    wrong = m.description;
    wrong.head_count = wrong.key_head_count = 2;
    wgt_expect_refused(&m, &wrong, "encoder.relative_attention_bias.weight",
                       "num_attention_heads 2");
    wgt_network_close(&m);

    m = wgt_tiny_open(backend, "distilbert-h32-d8-mean");
    wrong = m.description;
    wrong.layer_count = 3;
    wgt_expect_refused(&m, &wrong, "distilbert.transformer.layer.2.", "n_layers 3");
    wrong = m.description;
    wrong.feed_forward_count = 71;
    wgt_expect_refused(&m, &wrong, "ffn.lin1.weight", "hidden_dim 71");
    wgt_network_close(&m);
}

/* Text with every `from` replaced by `to`; the caller frees. */
static char *replaced(const char *in, size_t count, const char *from, const char *to,
                      size_t *out_count)
{
    size_t from_count = strlen(from), to_count = strlen(to), at = 0;
    char *out = malloc(count * 2 + 1);

    if (!out) exit(1);
    for (size_t i = 0; i < count;) {
        if (i + from_count <= count && memcmp(in + i, from, from_count) == 0) {
            memcpy(out + at, to, to_count);
            at += to_count;
            i += from_count;
        } else {
            out[at++] = in[i++];
        }
    }
    *out_count = at;
    return out;
}

/* The same file with 'bert.' before every name, as a checkpoint of BertForMaskedLM has it. */
static void check_prefix(const wgi_backend *backend)
{
    wgt_network m = wgt_tiny_open(backend, folders[0]);
    char source[512], path[] = P_tmpdir "/test_encoder_XXXXXX.safetensors";
    size_t bytes, header, first_count, second_count;
    wgi_weights *weights = NULL;
    wgi_encoder *encoder = NULL;
    wg_error err;

    (void)snprintf(source, sizeof(source), "%s/tiny-%s/model.safetensors", WGT_DATA, folders[0]);
    char *data = wgt_slurp(source, &bytes);
    memcpy(&header, data, sizeof(header));
    char *first = replaced(data + 8, header, "\"embeddings.", "\"bert.embeddings.", &first_count);
    char *second = replaced(first, first_count, "\"encoder.", "\"bert.encoder.", &second_count);
    int fd = mkstemps(path, 12);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");
    EXPECT(file != NULL && second_count > header);
    if (file) {
        EXPECT_EQ(fwrite(&second_count, 1, 8, file), 8);
        EXPECT_EQ(fwrite(second, 1, second_count, file), second_count);
        EXPECT_EQ(fwrite(data + 8 + header, 1, bytes - 8 - header, file), bytes - 8 - header);
        (void)fclose(file);
        EXPECT_OK(wgi_weights_open(&weights, path, &err));
        if (weights) EXPECT_OK(wgi_encoder_open(&encoder, &m.description, weights, backend, &err));
        (void)unlink(path);
    }
    wgi_encoder_close(encoder);
    wgi_weights_close(weights);
    free(data);
    free(first);
    free(second);
    wgt_network_close(&m);
}

static void body(const wgi_backend *backend)
{
    check_all_layers(backend);
    for (size_t i = 3; i < FOLDERS; i++)
        check_law(backend, folders[i]);
    check_padding_token(backend, "roberta-h32-d8-mean");
    check_padding_token(backend, "mpnet-h32-d8-mean");
    check_large_bin(backend, "xlm-roberta-h40-d20-f16-cls");
    check_large_bin(backend, "modernbert-h32-d16-local8-mean");
    check_faults(backend);
    check_family_faults(backend);
    wgt_check_no_memory(backend, folders[0]);
    wgt_check_no_memory(backend, "mpnet-h32-d8-mean");
    wgt_check_no_memory(backend, "modernbert-h32-d16-local8-mean");
    check_prefix(backend);
}

int main(void)
{
    wgt_seed_set(0xE4C0);
    return wgt_network_result(body, check_all_layers);
}
