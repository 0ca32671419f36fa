/*
 * test_quant.c - quantised blocks against gguf-py's dequantize, bit for bit, as whole tensors and
 * in every kind of part; and the types that must be there.
 */
#include "base/quant.h"

#include "json_lines.h"

static const struct {
    const char *name;
    wgi_dtype dtype;
} quants[] = {
    {"Q4_0", WGI_DTYPE_Q4_0}, {"Q4_1", WGI_DTYPE_Q4_1}, {"Q5_0", WGI_DTYPE_Q5_0},
    {"Q5_1", WGI_DTYPE_Q5_1}, {"Q8_0", WGI_DTYPE_Q8_0}, {"Q4_K", WGI_DTYPE_Q4_K},
    {"Q5_K", WGI_DTYPE_Q5_K}, {"Q6_K", WGI_DTYPE_Q6_K},
};
enum { QUANT_COUNT = sizeof(quants) / sizeof(quants[0]), FLOATS_MAX = 4096 };

typedef struct sample {
    wgi_buf type, hex;
    uint64_t block_elems, block_bytes;
    size_t count;
    float wanted[FLOATS_MAX];
} sample;

static wg_status read_sample(void *context, wgi_json *json, wgi_slice key, wg_error *err)
{
    wg_status status = WG_OK;
    sample *out = context;

    if (wgi_slice_is(key, "type")) return wgi_json_string(json, &out->type, err);
    if (wgi_slice_is(key, "bytes_hex")) return wgi_json_string(json, &out->hex, err);
    if (wgi_slice_is(key, "block_elems")) return wgi_json_uint(json, &out->block_elems, err);
    if (wgi_slice_is(key, "block_bytes")) return wgi_json_uint(json, &out->block_bytes, err);
    if (!wgi_slice_is(key, "f32")) return wgi_json_skip(json, err);
    WGI_TRY(wgi_json_array_begin(json, err));
    while (wgi_json_array_next(json)) {
        double value = 0;
        WGI_TRY(wgi_json_double(json, &value, err));
        if (out->count < FLOATS_MAX) out->wanted[out->count++] = (float)value;
    }

cleanup:
    return status;
}

static unsigned nibble(char digit)
{
    return (unsigned)(strchr("0123456789abcdef", digit) - "0123456789abcdef");
}

static void expect_same(const sample *one, const float *got, size_t first, size_t count)
{
    if (memcmp(got, one->wanted + first, count * sizeof(*got)) == 0) return;
    for (size_t i = 0; i < count; i++) {
        if (memcmp(got + i, one->wanted + first + i, sizeof(*got)) == 0) continue;
        wgt_fail_at(__FILE__, __LINE__);
        fprintf(stderr, "%s: element %zu is %a, expected %a\n", one->type.data, first + i,
                (double)got[i], (double)one->wanted[first + i]);
        return;
    }
}

static void check_sample(const sample *one, unsigned *seen)
{
    static float got[FLOATS_MAX];
    size_t bytes = one->hex.count / 2, which = 0;
    char *odd = malloc(bytes + 1); /* no alignment is promised */

    if (!odd) exit(1);
    for (size_t i = 0; i < bytes; i++)
        odd[1 + i] = (char)(nibble(one->hex.data[2 * i]) << 4 | nibble(one->hex.data[2 * i + 1]));
    while (which < QUANT_COUNT && strcmp(quants[which].name, one->type.data) != 0)
        which++;
    EXPECT(which < QUANT_COUNT);
    if (which < QUANT_COUNT) {
        wgi_dtype dtype = quants[which].dtype;
        const wgi_dtype_layout *layout = wgi_dtype_stored(dtype);
        wgi_tensor tensor = {
            .dtype = dtype, .rank = 1, .shape = {one->count}, .data = odd + 1, .bytes = bytes};

        *seen |= 1u << which;
        EXPECT_TEXT(layout->name, one->type.data);
        EXPECT_EQ(layout->block_count, one->block_elems);
        EXPECT_EQ(layout->block_bytes, one->block_bytes);
        EXPECT_EQ(bytes / one->block_bytes * one->block_elems, one->count);
        wgi_quant_widen(dtype, odd + 1, one->count / layout->block_count, got);
        expect_same(one, got, 0, one->count);
        for (int i = 0; i < 300; i++) {
            size_t first = wgt_below(one->count), count = wgt_below(one->count - first + 1);
            memset(got, 0xA5, sizeof(got));
            wgi_tensor_widen(&tensor, first, count, got);
            expect_same(one, got, first, count);
            if (count < FLOATS_MAX) EXPECT_EQ(((const uint8_t *)(got + count))[0], 0xA5);
        }
        for (size_t i = 0; i < one->count; i++) {
            wgi_tensor_widen(&tensor, i, 1, got);
            expect_same(one, got, i, 1);
        }
    }
    free(odd);
}

static unsigned check_file(const char *path, size_t wanted)
{
    static sample one;
    wgt_lines lines = wgt_lines_open(path);
    unsigned seen = 0;

    for (; wgt_lines_next(&lines, read_sample, &one); one = (sample){0}) {
        check_sample(&one, &seen);
        wgi_buf_fini(&one.type);
        wgi_buf_fini(&one.hex);
    }
    EXPECT_EQ(wgt_lines_close(&lines), wanted);
    return seen;
}

int main(void)
{
    float untouched = 3;
    wgi_tensor other = {.dtype = WGI_DTYPE_OTHER, .rank = 1, .shape = {32}, .data = &other};

    wgt_seed_set(5);
    (void)check_file(WGT_DATA "/cases/g26-quants.jsonl", 5);
    EXPECT_EQ(check_file(WGT_DATA "/quants.jsonl", QUANT_COUNT), (1u << QUANT_COUNT) - 1);
    EXPECT(wgi_dtype_stored(WGI_DTYPE_OTHER) == NULL);
    EXPECT_EQ(wgi_dtype_stored(WGI_DTYPE_BF16)->block_bytes, 2);
    wgi_tensor_widen(&other, 0, 1, &untouched);
    EXPECT(untouched == 3);
    return wgt_result();
}
