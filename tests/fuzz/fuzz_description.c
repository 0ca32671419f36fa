/*
 * fuzz_description.c - the description of every family, from a config.json and from the metadata of
 * a GGUF file. The first byte chooses the family out of the tables of the product, so a family that
 * is added is reached without a change here; the rest is what the file says.
 *
 *   config.json   {<rest>,"model_type":"<family>"}
 *   GGUF          the keys below with usual values; each 10 bytes of the rest change one: which,
 *                 its type (or that it is not there), its value
 *
 * Properties: what was accepted is of that family and in its ranges (description_check.h), and the
 * same again when a key that says nothing is added, or the keys are turned round; a refusal names
 * the file.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/os_read.h"
#include "description_check.h"
#include "model/encoder_family.h"
#include "model/gguf_names.h"
#include "temporary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

static wgt_folder folder;

static void close_folder(void)
{
    wgt_folder_close(&folder);
}

static size_t encoder_count(void)
{
    size_t count = 0;

    while (wgi_encoder_family_at(count))
        count++;
    return count;
}

static size_t decoder_count(void)
{
    size_t count = 0;

    while (wgi_decoder_type_at(count))
        count++;
    return count;
}

/* ---------------------------------------------------------------------------- config.json */

static wg_status load_config(const char *family, const char *first, const uint8_t *rest,
                             size_t count, wgi_description *out)
{
    char end[64];
    wg_error err = {0};
    size_t first_count = strlen(first);

    int end_count =
        snprintf(end, sizeof(end), "%s\"model_type\":\"%s\"}", count ? "," : "", family);
    char *text = malloc(first_count + count + sizeof(end));
    expect(text != NULL);
    memcpy(text, first, first_count);
    if (count) memcpy(text + first_count, rest, count);
    memcpy(text + first_count + count, end, (size_t)end_count);
    wgt_write(&folder, "config.json", text, first_count + count + (size_t)end_count);
    free(text);
    wg_status status = wgi_description_load(out, folder.path, &err);
    expect(status == err.status);
    if (status != WG_OK) expect(strncmp(err.message, folder.path, strlen(folder.path)) == 0);
    return status;
}

static void try_config(const char *family, bool is_decoder, const uint8_t *rest, size_t count)
{
    wgi_description first, second;

    wg_status status = load_config(family, "{", rest, count, &first);
    expect(load_config(family, "{\"use_cache\":true,", rest, count, &second) == status);
    if (status != WG_OK) return;
    expect(strcmp(first.architecture, family) == 0 && first.is_decoder == is_decoder);
    expect(is_decoder || first.head_dim * first.head_count == first.hidden_count);
    check_description(&first);
    expect_same_description(&first, &second);
}

/* ----------------------------------------------------------------------------------- GGUF */

typedef struct pair {
    const char *key; /* behind "FAMILY." */
    uint8_t kind;    /* of wgi_gguf_kind; KIND_NONE: the key is not there */
    uint64_t value;  /* its bytes; of a string: which */
} pair;

#define KIND_NONE 13

/* 1e-5 and 10000 as bytes of an F32. */
#define EPSILON 0x3727C5ACu
#define BASE    0x461C4000u

static const pair usual[] = {
    {"block_count", WGI_GGUF_U32, 2},
    {"embedding_length", WGI_GGUF_U32, 64},
    {"feed_forward_length", WGI_GGUF_U32, 96},
    {"attention.head_count", WGI_GGUF_U32, 4},
    {"attention.head_count_kv", WGI_GGUF_U32, 4},
    {"attention.key_length", KIND_NONE, 0},
    {"attention.value_length", KIND_NONE, 0},
    {"rope.dimension_count", KIND_NONE, 0},
    {"context_length", WGI_GGUF_U32, 512},
    {"attention.layer_norm_rms_epsilon", WGI_GGUF_F32, EPSILON},
    {"attention.layer_norm_epsilon", WGI_GGUF_F32, EPSILON},
    {"rope.freq_base", WGI_GGUF_F32, BASE},
    {"rope.freq_base_swa", KIND_NONE, 0},
    {"rope.scaling.type", KIND_NONE, 0},
    {"rope.scaling.factor", KIND_NONE, 0},
    {"rope.scale_linear", KIND_NONE, 0},
    {"attention.sliding_window", KIND_NONE, 0},
    {"attention.sliding_window_pattern", KIND_NONE, 0},
    {"attention.scale", KIND_NONE, 0},
    {"attention.causal", KIND_NONE, 0},
    {"attn_logit_softcapping", KIND_NONE, 0},
    {"final_logit_softcapping", KIND_NONE, 0},
    {"expert_count", KIND_NONE, 0},
    {"pooling_type", KIND_NONE, 0},
};
#define PAIR_COUNT (sizeof(usual) / sizeof(usual[0]))

static const char *const strings[] = {"none", "linear", "yarn", ""};

static void put(wgi_buf *file, const void *bytes, size_t count)
{
    expect(wgi_buf_append(file, bytes, count, NULL) == WG_OK);
}

/* Numbers of the file are little endian, as ours are. */
static void put_number(wgi_buf *file, uint64_t value, size_t bytes)
{
    put(file, &value, bytes);
}

static void put_string(wgi_buf *file, const char *text)
{
    put_number(file, strlen(text), 8);
    put(file, text, strlen(text));
}

static void put_pair(wgi_buf *file, const char *family, const pair *one)
{
    static const uint8_t bytes[KIND_NONE] = {
        [WGI_GGUF_U8] = 1,  [WGI_GGUF_I8] = 1,  [WGI_GGUF_U16] = 2, [WGI_GGUF_I16] = 2,
        [WGI_GGUF_U32] = 4, [WGI_GGUF_I32] = 4, [WGI_GGUF_F32] = 4, [WGI_GGUF_BOOL] = 1,
        [WGI_GGUF_U64] = 8, [WGI_GGUF_I64] = 8};
    char key[96];

    (void)snprintf(key, sizeof(key), "%s.%s", family, one->key);
    put_string(file, key);
    put_number(file, one->kind, 4);
    if (one->kind == WGI_GGUF_STRING)
        put_string(file, strings[one->value % (sizeof(strings) / sizeof(strings[0]))]);
    else
        put_number(file, one->kind == WGI_GGUF_BOOL ? one->value & 1 : one->value,
                   bytes[one->kind] ? bytes[one->kind] : 8);
}

static wg_status load_gguf(const char *family, const pair pairs[PAIR_COUNT], bool is_turned,
                           wgi_description *out)
{
    static const char type[] = "general.architecture";
    wgi_buf file = {0};
    uint64_t there = 1;
    char path[40];
    wg_error err = {0};
    int fd = -1;

    for (size_t i = 0; i < PAIR_COUNT; i++)
        there += pairs[i].kind != KIND_NONE;
    put(&file, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16);
    put_number(&file, there, 8);
    for (size_t i = 0; i <= PAIR_COUNT; i++) {
        size_t at = is_turned ? PAIR_COUNT - i : i;
        if (at == PAIR_COUNT) {
            put_string(&file, type);
            put_number(&file, WGI_GGUF_STRING, 4);
            put_string(&file, family);
        } else if (pairs[at].kind != KIND_NONE) {
            put_pair(&file, family, &pairs[at]);
        }
    }
    expect(wgi_memory_file_open(&fd, NULL) == WG_OK);
    expect(wgi_memory_file_write(fd, file.data, file.count, NULL) == WG_OK);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    wg_status status = wgi_description_load_gguf(out, path, &err);
    expect(status == err.status);
    if (status != WG_OK) expect(strncmp(err.message, path, strlen(path)) == 0);
    wgi_read_close(fd);
    wgi_buf_fini(&file);
    return status;
}

static void try_gguf(wgi_gguf_architecture architecture, const uint8_t *rest, size_t count)
{
    static const uint8_t kinds[] = {KIND_NONE,     WGI_GGUF_U8,   WGI_GGUF_I8,     WGI_GGUF_U16,
                                    WGI_GGUF_I16,  WGI_GGUF_U32,  WGI_GGUF_I32,    WGI_GGUF_F32,
                                    WGI_GGUF_BOOL, WGI_GGUF_U64,  WGI_GGUF_I64,    WGI_GGUF_F64,
                                    WGI_GGUF_F32,  WGI_GGUF_BOOL, WGI_GGUF_STRING, WGI_GGUF_U32};
    const char *family = wgi_gguf_architecture_name(architecture);
    wgi_description first, second;
    pair pairs[PAIR_COUNT];

    memcpy(pairs, usual, sizeof(pairs));
    for (; count >= 10; rest += 10, count -= 10) {
        pair *changed = &pairs[rest[0] % PAIR_COUNT];
        changed->kind = kinds[rest[1] % sizeof(kinds)];
        memcpy(&changed->value, rest + 2, 8);
    }
    wg_status status = load_gguf(family, pairs, false, &first);
    expect((load_gguf(family, pairs, true, &second) == WG_OK) == (status == WG_OK));
    if (status != WG_OK) return;
    expect(strcmp(first.architecture, family) == 0);
    expect(first.is_decoder == (architecture != WGI_GGUF_BERT));
    check_description(&first);
    expect_same_description(&first, &second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    if (count == 0) return 0;
    if (!folder.path[0]) {
        folder = wgt_folder_open();
        (void)atexit(close_folder);
    }
    /* The kind, and its row: a new row, which stands behind the others, changes no seed's family.
     */
    size_t row = data[0] & 63;
    switch (data[0] >> 6 & 3) {
    case 0:
        try_config(wgi_encoder_family_at(row % encoder_count())->model_type, false, data + 1,
                   count - 1);
        break;
    case 1:
        try_config(wgi_decoder_type_at(row % decoder_count()), true, data + 1, count - 1);
        break;
    default:
        try_gguf((wgi_gguf_architecture)(row % WGI_GGUF_ARCHITECTURE_COUNT), data + 1, count - 1);
    }
    return 0;
}
