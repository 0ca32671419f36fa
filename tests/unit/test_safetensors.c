/*
 * test_safetensors.c - every rule of the format broken once, from files (the s* cases) and from
 * headers made here; what a valid file gives; and each allocation failing in turn.
 *
 * LABELS: quick torture
 */
#include "base/alloc.h"
#include "model/model.h"
#include "model/safetensors.h"

#include "harness.h"
#include "temporary.h"

#define CASES WGT_DATA "/cases/"

/* ------------------------------------------------------------------------------ files on disk */

static void expect_refused(const char *path, wg_status wanted, const char *part)
{
    wgi_weights *weights = NULL;
    wg_error err = {0};
    wg_status status = wgi_weights_open(&weights, path, &err);

    EXPECT_EQ(status, wanted);
    EXPECT_EQ(err.status, wanted);
    EXPECT(weights == NULL);
    EXPECT_IN(err.message, part);
    const char *name = strrchr(path, '/') + 1;
    EXPECT_IN(err.message, name);
    wgi_weights_close(weights);
}

static void test_refused_cases(void)
{
    static const struct {
        const char *file, *part;
    } rows[] = {
        {"s02-hdrlen.safetensors", "header length exceeds file"},
        {"s04-empty.safetensors", "too short"},
        {"s04-7bytes.safetensors", "too short"},
        {"s04-hdr0.safetensors", "empty header"},
        {"s05-array.safetensors", "header does not begin with '{'"},
        {"s05-space.safetensors", "header does not begin with '{'"},
        {"s05-utf8.safetensors", "header is not UTF-8"},
        {"s06-lfs.safetensors", "Git LFS pointer"},
        {"s07-overlap.safetensors", "tensors 'a' and 'b' overlap"},
        {"s09-cut.safetensors", "truncated: tensor 'w' ends 8 bytes past"},
        {"s11-reversed.safetensors", "'w': data_offsets"},
        {"s11-negative.safetensors", "'w': data_offsets"},
        {"s12-float.safetensors", "'w': data_offsets"},
        {"s12-one.safetensors", "'w': data_offsets: 1 numbers, not two"},
        {"s12-string.safetensors", "'w': shape"},
        {"s13-dtype.safetensors", "'w': dtype F33"},
        {"s13-shape.safetensors", "'w': shape"},
        {"s19-missing/model.safetensors.index.json", "model-00002-of-00002.safetensors"},
        {"s20-traverse/model.safetensors.index.json", "outside the model folder"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char path[512];
        (void)snprintf(path, sizeof(path), CASES "%s", rows[i].file);
        expect_refused(path, i == 17 ? WG_ERR_IO : WG_ERR_FORMAT, rows[i].part);
    }
    expect_refused(CASES "none.safetensors", WG_ERR_IO, "none.safetensors");
    expect_refused(CASES "nowhere", WG_ERR_IO, "there is no model.safetensors");
}

static void test_valid(void)
{
    static const float wanted[] = {1, 2, 3, 4, 5, 6.5f};
    float got[6] = {0};
    wgi_weights *weights = NULL;
    wg_error err;

    EXPECT_OK(wgi_weights_open(&weights, CASES "s01-valid.safetensors", &err));
    if (!weights) return;
    EXPECT_EQ(wgi_weights_count(weights), 3);
    EXPECT_EQ(wgi_weights_bytes(weights), 236);
    EXPECT(wgi_weights_find(weights, "x") == NULL);
    EXPECT(wgi_weights_find(weights, "__metadata__") == NULL);
    const wgi_tensor *w = wgi_weights_find(weights, "w");
    const wgi_tensor *e = wgi_weights_find(weights, "e");
    const wgi_tensor *s = wgi_weights_find(weights, "s");
    EXPECT(w && e && s);
    if (w && e && s) {
        EXPECT(w == wgi_weights_at(weights, 0));
        EXPECT_TEXT(w->name, "w");
        EXPECT_EQ(w->rank, 2);
        EXPECT_EQ(w->shape[0], 2);
        EXPECT_EQ(w->shape[1], 3);
        wgi_tensor_widen(w, 0, 6, got);
        EXPECT(memcmp(got, wanted, sizeof(got)) == 0);
        EXPECT_EQ(e->rank, 2);
        EXPECT_EQ(e->shape[0], 0);
        EXPECT_EQ(e->shape[1], 4);
        EXPECT_EQ(e->bytes, 0);
        EXPECT_EQ(s->rank, 0);
        EXPECT_EQ(wgi_tensor_count(s), 1);
        wgi_tensor_widen(s, 0, 1, got);
        EXPECT(got[0] == 7.0f);
        wgi_weights_drop(weights, w);
        wgi_tensor_widen(w, 0, 6, got);
        EXPECT(memcmp(got, wanted, sizeof(got)) == 0);
    }
    wgi_weights_close(weights);
    wgi_weights_close(NULL);
}

static void test_halves(void)
{
    static const uint32_t wanted[] = {0x33800000, 0xB3800000, 0x387FC000, 0x38800000,
                                      0x3F800000, 0x477FE000, 0x7F800000, 0xFF800000,
                                      0x7FC00000, 0x00000000, 0x80000000, 0x3EAAA000};
    float got[12];
    wgi_weights *weights = NULL;
    wg_error err;

    EXPECT_OK(wgi_weights_open(&weights, CASES "s17-f16.safetensors", &err));
    if (!weights) return;
    const wgi_tensor *h = wgi_weights_find(weights, "h");
    EXPECT(h && h->dtype == WGI_DTYPE_F16 && wgi_tensor_count(h) == 12);
    if (h && wgi_tensor_count(h) == 12) {
        wgi_tensor_widen(h, 0, 12, got);
        EXPECT(memcmp(got, wanted, sizeof(got)) == 0);
    }
    wgi_weights_close(weights);
}

static void test_need(void)
{
    wgi_tensor_need need = {.name = "w", .rank = 1, .shape = {3}, .keys = {"hidden_size"}};
    const wgi_tensor *tensor = NULL;
    wgi_weights *weights = NULL;
    wg_error err;

    EXPECT_OK(wgi_weights_open(&weights, CASES "s15-i64.safetensors", &err));
    if (!weights) return;
    EXPECT_EQ(wgi_weights_need(weights, &need, &tensor, &err), WG_ERR_UNSUPPORTED);
    EXPECT_IN(err.message, "dtype I64 not supported for tensor 'w'");
    EXPECT_IN(err.message, "s15-i64.safetensors");
    wgi_weights_close(weights);

    EXPECT_OK(wgi_weights_open(&weights, CASES "s01-valid.safetensors", &err));
    if (!weights) return;
    need = (wgi_tensor_need){
        .name = "w", .rank = 2, .shape = {2, 3}, .keys = {"vocab_size", "hidden_size"}};
    EXPECT_OK(wgi_weights_need(weights, &need, &tensor, &err));
    EXPECT(tensor == wgi_weights_find(weights, "w"));
    need.shape[1] = 64;
    EXPECT_EQ(wgi_weights_need(weights, &need, &tensor, &err), WG_ERR_FORMAT);
    EXPECT(tensor == NULL);
    EXPECT_IN(err.message, "tensor 'w' has shape [2, 3]");
    EXPECT_IN(err.message, "(hidden_size 64) asks for [2, 64]");
    need.rank = 1;
    EXPECT_EQ(wgi_weights_need(weights, &need, &tensor, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "(vocab_size 2) asks for [2]");
    need = (wgi_tensor_need){.name = "encoder.layer.2.w", .asked_by = "num_hidden_layers 3"};
    EXPECT_EQ(wgi_weights_need(weights, &need, &tensor, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "'encoder.layer.2.w' is missing");
    EXPECT_IN(err.message, "num_hidden_layers 3");
    wgi_weights_close(weights);
}

/* --------------------------------------------------------------------------- headers made here */

/* Length, header, and `data_bytes` of data whose byte i is i. */
static char *make_file(const char *header, size_t data_bytes, size_t *count)
{
    size_t header_bytes = strlen(header);
    char *file = malloc(8 + header_bytes + data_bytes);

    if (!file) exit(1);
    for (size_t i = 0; i < 8; i++)
        file[i] = (char)(header_bytes >> (8 * i) & 0xFF);
    memcpy(file + 8, header, header_bytes);
    for (size_t i = 0; i < data_bytes; i++)
        file[8 + header_bytes + i] = (char)i;
    *count = 8 + header_bytes + data_bytes;
    return file;
}

/* part NULL: the file is valid. */
static void expect_header(const char *header, size_t data_bytes, const char *part)
{
    wgi_entries entries = {0};
    wgi_map map = {0};
    wg_error err = {0};
    char *file = make_file(header, data_bytes, &map.bytes);

    map.data = file;
    wg_status status = wgi_safetensors_read(&entries, &map, "made.safetensors", 0, NULL, &err);
    if (part) {
        EXPECT(status == WG_ERR_FORMAT || status == WG_ERR_UNSUPPORTED);
        EXPECT_IN(err.message, part);
    } else {
        EXPECT_OK(status);
    }
    wgi_entries_fini(&entries);
    free(file);
}

/* A header that is one byte longer than the file has room for. */
static void test_header_length(void)
{
    wgi_entries entries = {0};
    wgi_map map = {0};
    wg_error err = {0};
    char *file = make_file("{}", 0, &map.bytes);

    file[0] = 3;
    map.data = file;
    EXPECT_EQ(wgi_safetensors_read(&entries, &map, "made", 0, NULL, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "header length exceeds file: 3 bytes of header in a file of 10");
    wgi_entries_fini(&entries);
    free(file);
}

static void test_headers(void)
{
    expect_header("{}", 0, NULL);
    expect_header("{}   ", 0, NULL);
    expect_header("{} x", 0, "more text");
    expect_header("{", 0, "made.safetensors");
    expect_header("{}", 1, "1 bytes behind the last tensor");
    expect_header("{\"a\":3}", 0, "tensor 'a'");
    expect_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "data_offsets is missing");
    expect_header("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "shape is missing");
    expect_header("{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "dtype is missing");
    expect_header(
        "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
        "dtype is there twice");
    expect_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                  "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                  2, "tensor 'a': the name is there twice");
    /* A hole between tensors and one before the first. */
    expect_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                  "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
                  3, "1 bytes before tensor 'b'");
    expect_header("{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}", 3,
                  "2 bytes before tensor 'b'");
    /* Any order of keys and of offsets; an empty tensor anywhere; unknown keys. */
    expect_header("{\"b\":{\"data_offsets\":[1,3],\"x\":[{}],\"shape\":[2],\"dtype\":\"U8\"},"
                  "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[1,1]},"
                  "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                  3, NULL);
    expect_header("{\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[9,9]}}", 0,
                  "truncated");
    /* Products that do not fit 64 bits, and one that is 0 only at its end. */
    expect_header(
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
        "shape and dtype");
    expect_header(
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
        "shape and dtype");
    expect_header(
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,0]}}", 0,
        "shape");
    expect_header(
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,18446744073709551615]}}", 1,
        "shape and dtype");
    /* Elements smaller than a byte. */
    expect_header("{\"a\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1, NULL);
    expect_header("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1,
                  "shape and dtype");
    expect_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}",
                  1, NULL);
    expect_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}",
                  1, "more than 8 dimensions");
    expect_header("{\"__metadata__\":{\"a\":\"b\"}}", 0, NULL);
    expect_header("{\"__metadata__\":{\"a\":1}}", 0, "__metadata__");
    expect_header("{\"__metadata__\":[]}", 0, "expected an object");
    expect_header("{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
                  "NUL");
    expect_header("{\"\\ud800\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
                  "surrogate");
    /* A name made for a terminal does not get there. */
    expect_header("{\"\\u001b[31m\":{\"dtype\":\"?\",\"shape\":[],\"data_offsets\":[0,1]}}", 1,
                  "'?[31m'");
}

/* Names are found at any number of tensors, and only those. */
static void test_many_names(void)
{
    wgi_entries entries = {0};
    wgi_map map = {0};
    wg_error err;
    wgi_buf header = {0};
    char name[64];
    size_t count = 3000;

    EXPECT_OK(wgi_buf_text(&header, "{", &err));
    for (size_t i = 0; i < count; i++)
        EXPECT_OK(wgi_buf_printf(
            &header, &err, "%s\"t%zu\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
            i ? "," : "", i * 7919, i, i + 1));
    EXPECT_OK(wgi_buf_text(&header, "}", &err));
    char *file = make_file(header.data, count, &map.bytes);
    map.data = file;
    EXPECT_OK(wgi_safetensors_read(&entries, &map, "made", 0, NULL, &err));
    EXPECT_EQ(entries.count, count);
    for (size_t i = 0; i < count; i++) {
        int length = snprintf(name, sizeof(name), "t%zu", i * 7919);
        const wgi_entry *entry = wgi_entries_find(&entries, 0, name, (size_t)length);
        EXPECT(entry && entry == &entries.items[i] && *(const char *)entry->tensor.data == (char)i);
        EXPECT(wgi_entries_find(&entries, 1, name, (size_t)length) == NULL);
        name[0] = 'u';
        EXPECT(wgi_entries_find(&entries, 0, name, (size_t)length) == NULL);
    }
    wgi_entries_fini(&entries);
    wgi_buf_fini(&header);
    free(file);
}

/* --------------------------------------------------------------------------------------- index */

static void write_shard(const wgt_folder *folder, const char *name, const char *header,
                        size_t data_bytes)
{
    size_t count;
    char *file = make_file(header, data_bytes, &count);

    wgt_write(folder, name, file, count);
    free(file);
}

#define INDEX "model.safetensors.index.json"

/* part NULL: it opens, with `count` tensors. */
static void expect_index(const wgt_folder *folder, const char *index, const char *part,
                         size_t count)
{
    wgi_weights *weights = NULL;
    wg_error err = {0};

    wgt_write(folder, INDEX, index, strlen(index));
    wg_status status = wgi_weights_open(&weights, folder->path, &err);
    if (part) {
        EXPECT(status != WG_OK && !weights);
        EXPECT_IN(err.message, part);
        EXPECT_IN(err.message, folder->path);
    } else {
        EXPECT_OK(status);
        if (weights) EXPECT_EQ(wgi_weights_count(weights), count);
    }
    wgi_weights_close(weights);
}

static void test_index(void)
{
    wgt_folder folder = wgt_folder_open();
    wgi_weights *weights = NULL;
    wg_error err;

    write_shard(&folder, "1.safetensors",
                "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                2);
    write_shard(&folder, "sub/2.safetensors",
                "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                "\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
                3);
    /* b of the second file; b of the first and c are extra. */
    expect_index(&folder, "{\"weight_map\":{\"b\":\"sub/2.safetensors\",\"a\":\"1.safetensors\"}}",
                 NULL, 2);
    EXPECT_OK(wgi_weights_open(&weights, folder.path, &err));
    if (weights) {
        const wgi_tensor *b = wgi_weights_find(weights, "b");
        EXPECT(b && b->bytes == 2 && ((const char *)b->data)[1] == 1);
        EXPECT(wgi_weights_find(weights, "a") && !wgi_weights_find(weights, "c"));
        wgi_weights_drop(weights, b);
    }
    wgi_weights_close(weights);
    expect_index(&folder, "{\"weight_map\":{\"z\":\"1.safetensors\"}}",
                 "tensor 'z' is not in 1.safetensors", 0);
    expect_index(&folder, "{\"weight_map\":{\"a\":\"3.safetensors\"}}",
                 "names the file 3.safetensors", 0);
    expect_index(&folder, "{\"weight_map\":{\"b\":\"1.safetensors\",\"b\":\"sub/2.safetensors\"}}",
                 "tensor 'b' is listed in two files", 0);
    expect_index(&folder, "{\"weight_map\":{\"a\":\"/etc/x\"}}", "outside the model folder", 0);
    expect_index(&folder, "{\"weight_map\":{\"a\":\"sub/../../x\"}}", "outside the model folder",
                 0);
    expect_index(&folder, "{\"weight_map\":{\"a\":\"..\"}}", "outside the model folder", 0);
    expect_index(&folder, "{\"weight_map\":{\"a\":\"\"}}", "outside the model folder", 0);
    expect_index(&folder, "{\"weight_map\":{\"a\":3}}", "expected a string, found a number", 0);
    expect_index(&folder, "{\"weight_map\":[]}", "key weight_map", 0);
    expect_index(&folder, "{\"weight_map\":{}}", "names no tensor", 0);
    expect_index(&folder, "{\"metadata\":{}}", "key weight_map: is missing", 0);
    expect_index(&folder, "{\"weight_map\":{\"a\":\"1.safetensors\"", "expected", 0);
    wgt_folder_close(&folder);
}

static void test_other_weights(void)
{
    wgt_folder folder = wgt_folder_open();
    wgi_weights *weights = NULL;
    wg_error err;

    wgt_write(&folder, "pytorch_model.bin", "x", 1);
    EXPECT_EQ(wgi_weights_open(&weights, folder.path, &err), WG_ERR_UNSUPPORTED);
    EXPECT_IN(err.message, "pytorch_model.bin: only safetensors weights are read");
    wgt_folder_close(&folder);
}

/* The hash tells headers and sizes apart and is the same for the same file. */
static void test_hash(void)
{
    static const char *const files[] = {
        CASES "s01-valid.safetensors",
        CASES "s17-f16.safetensors",
        CASES "s15-i64.safetensors", /* as long as the one before */
        CASES "s01-valid.safetensors",
    };
    char hex[4][33];
    wg_error err;

    for (size_t i = 0; i < 4; i++) {
        wgi_weights *weights = NULL;
        EXPECT_OK(wgi_weights_open(&weights, files[i], &err));
        if (!weights) return;
        wgi_weights_hash(weights, hex[i]);
        EXPECT_EQ(strlen(hex[i]), 32);
        wgi_weights_close(weights);
    }
    EXPECT(strcmp(hex[0], hex[1]) != 0);
    EXPECT(strcmp(hex[1], hex[2]) != 0);
    EXPECT(strncmp(hex[1], hex[2], 16) != 0 && strcmp(hex[1] + 16, hex[2] + 16) != 0);
    EXPECT_TEXT(hex[3], hex[0]);
}

/* ------------------------------------------------------------------------------------- torture */

static void torture(const char *path)
{
    for (long nth = 1;; nth++) {
        wgi_weights *weights = NULL;
        wg_error err;

        wgi_alloc_fail_at(nth);
        wg_status status = wgi_weights_open(&weights, path, &err);
        wgi_alloc_fail_at(0);
        if (status == WG_OK) {
            EXPECT(nth > 5); /* else the hook was never in the way */
            wgi_weights_close(weights);
            return;
        }
        EXPECT_EQ(status, WG_ERR_NO_MEMORY);
        EXPECT(weights == NULL);
        if (status != WG_ERR_NO_MEMORY) return;
    }
}

int main(void)
{
    test_refused_cases();
    test_valid();
    test_halves();
    test_need();
    test_header_length();
    test_headers();
    test_many_names();
    test_index();
    test_other_weights();
    test_hash();
    torture(CASES "s01-valid.safetensors");
    torture(WGT_DATA "/tiny-bert-h40-d20-bf16-shards-max");
    return wgt_result();
}
