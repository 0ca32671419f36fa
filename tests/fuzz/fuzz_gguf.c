/*
 * fuzz_gguf.c - any bytes as a GGUF file.
 *
 * Property: what was accepted obeys the format. Tensors lie in the file behind the header, are as
 * many whole blocks as shape and type say, share nothing, and are found by their names; every key
 * is found, exactly the getters of its kind take it, and arrays can be walked to their ends;
 * reading again gives the same. Every byte of every tensor and string is touched, so that ASan sees
 * a range outside the file. What was refused names the file.
 */
#include <stdlib.h>
#include <string.h>

#include "model/gguf_names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

static void expect(bool condition)
{
    if (!condition) __builtin_trap();
}

static unsigned touch(const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    unsigned sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += at[i];
    return sum;
}

static void check_tensor(const wgi_gguf *gguf, const wgi_map *map, size_t index)
{
    const wgi_tensor *tensor = wgi_gguf_at(gguf, index), *needed = NULL;
    const wgi_dtype_layout *layout = wgi_dtype_stored(tensor->dtype);
    const char *begin = tensor->data;
    char name[WGI_GGUF_NAME_BYTES], again[WGI_GGUF_NAME_BYTES];

    expect(begin >= map->data + wgi_gguf_header(gguf).count);
    expect(tensor->bytes > 0 && tensor->bytes <= (size_t)(map->data + map->bytes - begin));
    unsigned touched = touch(begin, tensor->bytes);
    expect(tensor->name[0] && wgi_gguf_find(gguf, tensor->name) == tensor);
    wg_status status = wgi_gguf_need(gguf, tensor->name, &needed, NULL);
    expect((status == WG_OK) == (layout != NULL) && (needed == tensor) == (layout != NULL));
    if (layout) {
        uint64_t elements = wgi_tensor_count(tensor);
        float out[300];
        expect(elements / layout->block_count * layout->block_bytes == tensor->bytes);
        expect(elements % layout->block_count == 0);
        size_t part = elements < 300 ? (size_t)elements : 300;
        wgi_tensor_widen(tensor, (size_t)elements - part, part, out);
        touched += touch(out, part * sizeof(out[0]));
    }
    for (int i = 0; i < WGI_GGUF_ARCHITECTURE_COUNT; i++) {
        wgi_gguf_architecture architecture = (wgi_gguf_architecture)i;
        if (!wgi_gguf_name_to_hf(architecture, tensor->name, name, NULL)) continue;
        expect(wgi_gguf_name_from_hf(architecture, name, again, NULL));
        expect(strcmp(again, tensor->name) == 0);
    }
    __asm__ volatile("" ::"r"(touched));
}

static void check_array(const wgi_gguf *gguf, const char *key)
{
    wgi_gguf_array array;
    unsigned touched = 0;
    wgi_slice text;
    int families = 0;

    if (wgi_gguf_strings(gguf, key, &array, NULL) == WG_OK) {
        uint64_t count = array.count;
        families++;
        for (; wgi_gguf_string_next(&array, &text); count--)
            touched += touch(text.data, text.count);
        expect(count == 0);
    }
    if (wgi_gguf_ints(gguf, key, &array, NULL) == WG_OK) {
        families++;
        for (uint64_t i = 0; i < array.count; i++)
            touched += (unsigned)wgi_gguf_int_at(&array, i);
    }
    if (wgi_gguf_bools(gguf, key, &array, NULL) == WG_OK) {
        families++;
        for (uint64_t i = 0; i < array.count; i++)
            expect((uint64_t)wgi_gguf_int_at(&array, i) <= 1);
    }
    if (wgi_gguf_floats(gguf, key, &array, NULL) == WG_OK) {
        families++;
        for (uint64_t i = 0; i < array.count; i++)
            touched += wgi_gguf_float_at(&array, i) > 0;
    }
    expect(families <= 1); /* 0: an array of arrays */
    __asm__ volatile("" ::"r"(touched));
}

static void check_key(const wgi_gguf *gguf, size_t index)
{
    wgi_gguf_kind kind;
    wgi_slice name = wgi_gguf_key_at(gguf, index, &kind), text = {NULL, 0};
    uint64_t positive = 0;
    int64_t integer = 0;
    double real;
    bool truth;

    expect(name.count > 0);
    if (memchr(name.data, 0, name.count)) return; /* cannot be asked for */
    char *key = malloc(name.count + 1);
    if (!key) return;
    memcpy(key, name.data, name.count);
    key[name.count] = 0;
    expect(wgi_gguf_has(gguf, key));
    bool is_uint = wgi_gguf_uint(gguf, key, &positive, NULL) == WG_OK;
    bool is_int = wgi_gguf_int(gguf, key, &integer, NULL) == WG_OK;
    bool is_integer = kind <= WGI_GGUF_I32 || kind == WGI_GGUF_U64 || kind == WGI_GGUF_I64;
    expect((is_uint || is_int) == is_integer);
    expect(!is_uint || !is_int || (integer >= 0 && positive == (uint64_t)integer));
    bool is_float = wgi_gguf_float(gguf, key, &real, NULL) == WG_OK;
    expect(!is_float || kind == WGI_GGUF_F32 || kind == WGI_GGUF_F64);
    expect((wgi_gguf_bool(gguf, key, &truth, NULL) == WG_OK) == (kind == WGI_GGUF_BOOL));
    expect((wgi_gguf_string(gguf, key, &text, NULL) == WG_OK) == (kind == WGI_GGUF_STRING));
    unsigned touched = touch(text.data, text.count);
    __asm__ volatile("" ::"r"(touched));
    check_array(gguf, key);
    free(key);
}

static void check_overlap(const wgi_gguf *gguf)
{
    for (size_t i = 0; i < wgi_gguf_count(gguf) && i < 50; i++)
        for (size_t k = 0; k < i; k++) {
            const wgi_tensor *a = wgi_gguf_at(gguf, i), *b = wgi_gguf_at(gguf, k);
            const char *x = a->data, *y = b->data;
            expect(x + a->bytes <= y || y + b->bytes <= x);
        }
}

static void check_fields(const wgi_gguf *gguf)
{
    wgi_gguf_fields fields;
    wg_error err = {0};
    wg_status status = wgi_gguf_fields_read(&fields, gguf, &err);

    expect(status == err.status);
    if (status != WG_OK) {
        expect(strncmp(err.message, "fuzz: ", 6) == 0);
        return;
    }
    expect(fields.layer_count > 0 && fields.head_count > 0 && fields.head_dim > 0);
    expect(fields.head_count % fields.key_head_count == 0);
    expect(fields.rotary_count <= fields.head_dim && fields.rope_factor >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    /* A copy of its own size: a byte read behind it is an error that ASan sees. */
    char *copy = malloc(count ? count : 1);
    wgi_map map = {.data = copy, .bytes = count};
    wgi_gguf *first = NULL, *second = NULL;
    wg_error err = {0};

    if (!copy) return 0;
    if (count) memcpy(copy, data, count);
    wg_status status = wgi_gguf_read(&first, &map, "fuzz", &err);
    expect(status == wgi_gguf_read(&second, &map, "fuzz", NULL));
    if (status == WG_OK) {
        expect(wgi_gguf_bytes(first) == count && wgi_gguf_header(first).count <= count);
        expect(wgi_gguf_count(first) == wgi_gguf_count(second));
        expect(wgi_gguf_key_count(first) == wgi_gguf_key_count(second));
        for (size_t i = 0; i < wgi_gguf_count(first); i++)
            check_tensor(first, &map, i);
        for (size_t i = 0; i < wgi_gguf_key_count(first); i++)
            check_key(first, i);
        check_overlap(first);
        check_fields(first);
    } else {
        expect(!first && !second && err.status == status);
        expect(strncmp(err.message, "fuzz: ", 6) == 0);
    }
    wgi_gguf_close(first);
    wgi_gguf_close(second);
    free(copy);
    return 0;
}
