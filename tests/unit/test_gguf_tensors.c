/*
 * test_gguf_tensors.c - shapes, types, offsets of GGUF tensors: what is allowed, what is refused.
 */
#include "model/gguf.h"

#include "harness.h"

#include "gguf_maker.h"

/* One tensor over `bytes` of data. */
static void make_one(wgi_buf *file, uint32_t rank, const uint64_t *dimensions, uint32_t type,
                     uint64_t offset, size_t bytes)
{
    wgt_gguf_begin(file, 3, 1, 0);
    wgt_gguf_tensor(file, "w", rank, dimensions, type, offset);
    wgt_gguf_align(file, 32);
    wgt_gguf_zeros(file, bytes);
}

static void test_shapes(void)
{
    uint64_t most = INT64_MAX;
    wgi_buf file = {0};

    make_one(&file, 0, NULL, 0, 0, 4);
    wgt_gguf_expect(&file, NULL);
    make_one(&file, 0, NULL, 0, 0, 3);
    wgt_gguf_expect(&file, "truncated: tensor 'w' ends 1 bytes past");
    make_one(&file, 4, (uint64_t[]){2, 3, 1, 2}, 0, 0, 48);
    wgt_gguf_expect(&file, NULL);
    make_one(&file, 5, (uint64_t[]){1, 1, 1, 1, 1}, 0, 0, 4);
    wgt_gguf_expect(&file, "tensor 'w': 5 dimensions");
    make_one(&file, 2, (uint64_t[]){0, 4}, 0, 0, 0);
    wgt_gguf_expect(&file, "tensor 'w': dimension 0 is 0");
    make_one(&file, 2, (uint64_t[]){4, (uint64_t)1 << 63}, 0, 0, 16);
    wgt_gguf_expect(&file, "tensor 'w': dimension 1 is 9223372036854775808");
    make_one(&file, 2, (uint64_t[]){(uint64_t)1 << 32, (uint64_t)1 << 32}, 0, 0, 16);
    wgt_gguf_expect(&file, "dimensions overflows");
    make_one(&file, 1, &most, 28, 0, 16);
    wgt_gguf_expect(&file, "'w': its bytes overflow");
    make_one(&file, 1, &most, 24, 0, 16);
    wgt_gguf_expect(&file, "truncated");
    make_one(&file, 2, (uint64_t[]){31, 32}, 2, 0, 2048);
    wgt_gguf_expect(&file, "'w': rows of 31 are not whole blocks of 32 (type Q4_0)");
    make_one(&file, 2, (uint64_t[]){128, 2}, 12, 0, 2048);
    wgt_gguf_expect(&file, "'w': rows of 128 are not whole blocks of 256 (type Q4_K)");
    make_one(&file, 0, NULL, 8, 0, 64);
    wgt_gguf_expect(&file, "rows of 1 are not whole blocks");
    wgi_buf_fini(&file);
}

/* Bytes of a block of every type (GGML's block structs), read from a file that fits exactly. */
static void test_types(void)
{
    static const struct {
        uint32_t type, elements, bytes;
        const char *name;
        wgi_dtype dtype;
    } rows[] = {
        {0, 1, 4, "F32", WGI_DTYPE_F32},         {1, 1, 2, "F16", WGI_DTYPE_F16},
        {2, 32, 18, "Q4_0", WGI_DTYPE_Q4_0},     {3, 32, 20, "Q4_1", WGI_DTYPE_Q4_1},
        {6, 32, 22, "Q5_0", WGI_DTYPE_Q5_0},     {7, 32, 24, "Q5_1", WGI_DTYPE_Q5_1},
        {8, 32, 34, "Q8_0", WGI_DTYPE_Q8_0},     {10, 256, 84, "Q2_K", WGI_DTYPE_OTHER},
        {11, 256, 110, "Q3_K", WGI_DTYPE_OTHER}, {12, 256, 144, "Q4_K", WGI_DTYPE_Q4_K},
        {13, 256, 176, "Q5_K", WGI_DTYPE_Q5_K},  {14, 256, 210, "Q6_K", WGI_DTYPE_Q6_K},
        {20, 32, 18, "IQ4_NL", WGI_DTYPE_OTHER}, {23, 256, 136, "IQ4_XS", WGI_DTYPE_OTHER},
        {26, 1, 4, "I32", WGI_DTYPE_OTHER},      {30, 1, 2, "BF16", WGI_DTYPE_BF16},
        {39, 32, 17, "MXFP4", WGI_DTYPE_OTHER},
    };
    wgi_buf file = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const wgi_tensor *tensor = NULL;
        wgi_gguf *gguf = NULL;
        wgi_map map;
        wg_error err;

        make_one(&file, 2, (uint64_t[]){2 * rows[i].elements, 3}, rows[i].type, 0,
                 (size_t)6 * rows[i].bytes);
        EXPECT_OK(wgt_gguf_read(&gguf, &map, &file, &err));
        if (gguf) {
            wg_status status = wgi_gguf_need(gguf, "w", &tensor, &err);
            EXPECT_EQ(status, rows[i].dtype == WGI_DTYPE_OTHER ? WG_ERR_UNSUPPORTED : WG_OK);
            if (status != WG_OK) EXPECT_IN(err.message, "not supported for tensor 'w'");
            if (status != WG_OK) EXPECT_IN(err.message, rows[i].name);
            tensor = wgi_gguf_find(gguf, "w");
            EXPECT(tensor == wgi_gguf_at(gguf, 0));
            EXPECT_TEXT(tensor->dtype_name, rows[i].name);
            EXPECT_EQ(tensor->dtype, rows[i].dtype);
            EXPECT_EQ(tensor->bytes, 6 * rows[i].bytes);
            EXPECT_EQ(tensor->shape[0], 3);
            EXPECT_EQ(tensor->shape[1], 2 * rows[i].elements);
            EXPECT((const char *)tensor->data + tensor->bytes == map.data + map.bytes);
        }
        wgt_gguf_done(gguf, &map);
        make_one(&file, 2, (uint64_t[]){2 * rows[i].elements, 3}, rows[i].type, 0,
                 (size_t)6 * rows[i].bytes - 1);
        wgt_gguf_expect(&file, "truncated: tensor 'w' ends 1 bytes past");
    }
    for (uint32_t type = 0; type < 50; type++) {
        static const uint32_t unknown[] = {4, 5, 31, 32, 33, 36, 37, 38, 42, 43, 49};
        for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
            char part[64];
            if (type != unknown[i]) continue;
            (void)snprintf(part, sizeof(part), "tensor 'w': type %u unknown", type);
            make_one(&file, 1, (uint64_t[]){256}, type, 0, 2048);
            wgt_gguf_expect(&file, part);
        }
    }
    wgi_buf_fini(&file);
}

/* Two tensors of 16 and 20 bytes at the offsets given, over 64 bytes of data. */
static void expect_places(uint64_t first, uint64_t second, const char *part)
{
    wgi_buf file = {0};

    wgt_gguf_begin(&file, 3, 2, 1);
    wgt_gguf_count(&file, "general.alignment", 8);
    wgt_gguf_tensor(&file, "a", 1, (uint64_t[]){4}, 0, first);
    wgt_gguf_tensor(&file, "b", 1, (uint64_t[]){5}, 0, second);
    wgt_gguf_align(&file, 8);
    wgt_gguf_zeros(&file, 64);
    wgt_gguf_expect(&file, part);
    wgi_buf_fini(&file);
}

static void test_places(void)
{
    expect_places(0, 16, NULL);
    expect_places(24, 0, NULL);
    expect_places(0, 40, NULL);
    expect_places(48, 24, NULL);
    expect_places(0, 44, "tensor 'b': offset 44 is not a multiple of the alignment 8");
    expect_places(0, 48, "truncated: tensor 'b' ends 4 bytes past");
    expect_places(0, 64, "truncated: tensor 'b' ends 20 bytes past");
    expect_places(0, 72, "tensor 'b': offset 72 is past the 64 bytes of data");
    expect_places(0, UINT64_MAX - 7, "tensor 'b': offset 18446744073709551608 is past");
    expect_places(0, 8, "tensors 'a' and 'b' overlap: offset 8 is before 16");
    expect_places(16, 0, "tensors 'b' and 'a' overlap: offset 16 is before 20");
    expect_places(0, 0, "tensors 'a' and 'b' overlap");
}

static void test_names(void)
{
    wgi_buf file = {0};

    wgt_gguf_begin(&file, 3, 1, 0);
    wgt_gguf_number(&file, 3, 8);
    wgt_gguf_bytes(&file, "a\0b", 3);
    wgt_gguf_zeros(&file, 64);
    wgt_gguf_expect(&file, "the name holds a NUL");
    wgt_gguf_begin(&file, 3, 1, 0);
    wgt_gguf_tensor(&file, "\x1B[31m", 1, (uint64_t[]){1}, 77, 0);
    wgt_gguf_expect(&file, "tensor '?[31m': type 77 unknown");
    make_one(&file, 1, (uint64_t[]){1}, 0, 0, 4);
    wgi_gguf *gguf = NULL;
    const wgi_tensor *tensor = NULL;
    wgi_map map;
    wg_error err;
    EXPECT_OK(wgt_gguf_read(&gguf, &map, &file, &err));
    EXPECT_EQ(wgi_gguf_need(gguf, "x", &tensor, &err), WG_ERR_FORMAT);
    EXPECT_IN(err.message, "made.gguf: tensor 'x' is missing");
    EXPECT(tensor == NULL);
    wgt_gguf_done(gguf, &map);
    wgi_buf_fini(&file);
}

int main(void)
{
    test_shapes();
    test_types();
    test_places();
    test_names();
    return wgt_result();
}
