/*
 * fuzz_safetensors.c - any bytes as a .safetensors file.
 *
 * Property: what was accepted obeys the format. Tensors lie in the data, their bytes are what shape
 * and type say, together they are the data, each name finds its own tensor, and reading again gives
 * the same. Every byte of every tensor is touched, so a range outside the file is seen by ASan.
 */
#include <stdlib.h>
#include <string.h>

#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

static void expect(bool condition)
{
    if (!condition) __builtin_trap();
}

static void check(const wgi_entries *entries, const wgi_map *map, uint64_t header_bytes)
{
    uint64_t sum = 0;
    unsigned touched = 0;

    for (size_t i = 0; i < entries->count; i++) {
        const wgi_entry *entry = &entries->items[i];
        const wgi_tensor *tensor = &entry->tensor;
        const char *bytes = tensor->data;
        expect(bytes >= map->data + 8 + header_bytes);
        expect(tensor->bytes <= (size_t)(map->data + map->bytes - bytes));
        for (size_t k = 0; k < tensor->bytes; k++)
            touched += (unsigned char)bytes[k];
        if (tensor->dtype == WGI_DTYPE_F32) expect(wgi_tensor_count(tensor) * 4 == tensor->bytes);
        if (tensor->dtype == WGI_DTYPE_F16 || tensor->dtype == WGI_DTYPE_BF16)
            expect(wgi_tensor_count(tensor) * 2 == tensor->bytes);
        expect(strlen(tensor->name) == entry->name_bytes);
        expect(wgi_entries_find(entries, 7, tensor->name, entry->name_bytes) == entry);
        sum += tensor->bytes;
    }
    expect(sum == map->bytes - 8 - header_bytes);
    __asm__ volatile("" ::"r"(touched));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    /* A copy of its own size: a byte read behind it is an error that ASan sees. */
    char *copy = malloc(count ? count : 1);
    wgi_map map = {.data = copy, .bytes = count};
    uint64_t header_bytes[2] = {0, 0};
    wgi_entries first = {0}, second = {0};
    wg_error err;

    if (!copy) return 0;
    if (count) memcpy(copy, data, count);
    wg_status status = wgi_safetensors_read(&first, &map, "fuzz", 7, &header_bytes[0], &err);
    expect(status == wgi_safetensors_read(&second, &map, "fuzz", 7, &header_bytes[1], &err));
    if (status == WG_OK) {
        wgi_entries_settle(&first);
        check(&first, &map, header_bytes[0]);
        expect(first.count == second.count && header_bytes[0] == header_bytes[1]);
    } else {
        expect(strncmp(err.message, "fuzz: ", 6) == 0);
    }
    wgi_entries_fini(&first);
    wgi_entries_fini(&second);
    free(copy);
    return 0;
}
