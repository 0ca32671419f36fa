/*
 * bin.c - memory and boundary check of a bin.
 *
 * A bin is allocated once, for its capacity, as one block that is carved into its arrays, so a ring
 * of bins is a handful of allocations and no failure is possible after opening. The check walks
 * every array of a bin once; beside a forward pass that costs nothing, and a bad bin from a caller
 * becomes a sentence instead of a read out of bounds.
 *
 * Threads: a bin belongs to one thread at a time.
 */
#include "engine/bin.h"

#include "base/alloc.h"

#include <string.h>

#define BIN_ALIGN 64u

static bool carve(size_t *bytes, size_t count, size_t item_bytes, size_t *offset)
{
    size_t size;

    *offset = *bytes;
    return wgi_mul(count, item_bytes, &size) && wgi_add(size, BIN_ALIGN - 1, &size) &&
           wgi_add(*bytes, size & ~(size_t)(BIN_ALIGN - 1), bytes);
}

/* Offsets of the arrays, in the order of wgi_bin; false when the sizes do not fit. */
static bool bin_layout(size_t tokens, size_t sequences, size_t offsets[6], size_t *bytes)
{
    size_t ends;

    *bytes = 0;
    return wgi_add(sequences, 1, &ends) && carve(bytes, tokens, sizeof(int32_t), &offsets[0]) &&
           carve(bytes, tokens, sizeof(int32_t), &offsets[1]) &&
           carve(bytes, tokens, sizeof(int32_t), &offsets[2]) &&
           carve(bytes, ends, sizeof(int32_t), &offsets[3]) &&
           carve(bytes, sequences, sizeof(wgi_segment), &offsets[4]) &&
           carve(bytes, sequences, sizeof(uint64_t), &offsets[5]);
}

size_t wgi_bin_bytes(size_t tokens, size_t sequences)
{
    size_t offsets[6], bytes;

    return bin_layout(tokens, sequences, offsets, &bytes) ? bytes : SIZE_MAX;
}

void wgi_bin_carve(wgi_bin *bin, void *memory, size_t tokens, size_t sequences)
{
    size_t offsets[6] = {0}, bytes;
    char *base = memory;

    memset(bin, 0, sizeof(*bin));
    (void)bin_layout(tokens, sequences, offsets, &bytes); /* the caller knows that it fits */
    bin->token_ids = (int32_t *)(void *)(base + offsets[0]);
    bin->type_ids = (int32_t *)(void *)(base + offsets[1]);
    bin->position_ids = (int32_t *)(void *)(base + offsets[2]);
    bin->cu_seqlens = (int32_t *)(void *)(base + offsets[3]);
    bin->segments = (wgi_segment *)(void *)(base + offsets[4]);
    bin->sequence_ids = (uint64_t *)(void *)(base + offsets[5]);
    bin->token_capacity = tokens;
    bin->sequence_capacity = sequences;
    wgi_bin_clear(bin);
}

wg_status wgi_bin_init(wgi_bin *bin, size_t tokens, size_t sequences, wg_error *err)
{
    size_t offsets[6], bytes;
    void *memory;

    memset(bin, 0, sizeof(*bin));
    if (!bin_layout(tokens, sequences, offsets, &bytes))
        return wgi_fail(err, WG_ERR_NO_MEMORY, "a bin of %zu tokens does not fit the address space",
                        tokens);
    memory = wgi_malloc_aligned(BIN_ALIGN, bytes);
    if (!memory)
        return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a bin of %zu tokens (%zu bytes)",
                        tokens, bytes);
    wgi_bin_carve(bin, memory, tokens, sequences);
    return WG_OK;
}

void wgi_bin_fini(wgi_bin *bin)
{
    wgi_free(bin->token_ids);
    memset(bin, 0, sizeof(*bin));
}

void wgi_bin_clear(wgi_bin *bin)
{
    bin->token_count = 0;
    bin->sequence_count = 0;
    bin->longest = 0;
    bin->cu_seqlens[0] = 0;
}

void wgi_bin_append(wgi_bin *bin, uint64_t id, const int32_t *token_ids, const int32_t *type_ids,
                    uint32_t count, uint32_t position_offset)
{
    size_t row = bin->token_count, s = bin->sequence_count;
    int32_t *positions = bin->position_ids + row;

    memcpy(bin->token_ids + row, token_ids, count * sizeof(int32_t));
    if (type_ids)
        memcpy(bin->type_ids + row, type_ids, count * sizeof(int32_t));
    else
        memset(bin->type_ids + row, 0, count * sizeof(int32_t));
    for (uint32_t i = 0; i < count; i++)
        positions[i] = (int32_t)(position_offset + i);
    bin->segments[s] = (wgi_segment){.row = (uint32_t)row, .count = count, .position = 0};
    bin->sequence_ids[s] = id;
    bin->token_count = row + count;
    bin->sequence_count = s + 1;
    bin->cu_seqlens[s + 1] = (int32_t)(row + count);
    if (count > bin->longest) bin->longest = count;
}

static wg_status check_segment(const wgi_bin *bin, size_t s, int64_t base, wg_error *err)
{
    const wgi_segment *segment = &bin->segments[s];
    int64_t begin = bin->cu_seqlens[s], end = bin->cu_seqlens[s + 1];

    if (end <= begin)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "cu_seqlens[%zu] is %lld and cu_seqlens[%zu] is %lld: they must rise", s,
                        (long long)begin, s + 1, (long long)end);
    if (end > (int64_t)bin->token_count)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "cu_seqlens[%zu] is %lld, beyond the bin's %zu tokens", s + 1,
                        (long long)end, bin->token_count);
    if (segment->row != begin || segment->count != end - begin)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "segment %zu has rows [%u, +%u), cu_seqlens says [%lld, %lld)", s,
                        segment->row, segment->count, (long long)begin, (long long)end);
    if (segment->count > bin->longest)
        return wgi_fail(err, WG_ERR_ARGUMENT,
                        "segment %zu has %u rows, the longest was said to be %zu", s,
                        segment->count, bin->longest);
    for (int64_t i = begin; i < end; i++) {
        int64_t want = base + segment->position + (i - begin);
        if (bin->position_ids[i] != want)
            return wgi_fail(err, WG_ERR_ARGUMENT,
                            "position_ids[%lld] is %ld in segment %zu, expected %lld", (long long)i,
                            (long)bin->position_ids[i], s, (long long)want);
    }
    return WG_OK;
}

wg_status wgi_bin_check(const wgi_bin *bin, uint64_t vocabulary_count, wg_error *err)
{
    int64_t base;

    if (!bin || !bin->token_ids || !bin->position_ids || !bin->cu_seqlens || !bin->segments)
        return wgi_fail(err, WG_ERR_ARGUMENT, "the bin lacks an array");
    if (bin->token_count == 0 || bin->sequence_count == 0)
        return wgi_fail(err, WG_ERR_ARGUMENT, "the bin is empty: %zu tokens, %zu sequences",
                        bin->token_count, bin->sequence_count);
    if (bin->token_count > INT32_MAX || bin->sequence_count > bin->token_count)
        return wgi_fail(err, WG_ERR_ARGUMENT, "%zu sequences of %zu tokens cannot be a bin",
                        bin->sequence_count, bin->token_count);
    if (bin->cu_seqlens[0] != 0)
        return wgi_fail(err, WG_ERR_ARGUMENT, "cu_seqlens[0] is %ld, not 0",
                        (long)bin->cu_seqlens[0]);
    base = (int64_t)bin->position_ids[0] - bin->segments[0].position;
    if (base < 0)
        return wgi_fail(err, WG_ERR_ARGUMENT, "position_ids[0] is %ld, below its segment's %u",
                        (long)bin->position_ids[0], bin->segments[0].position);
    for (size_t s = 0; s < bin->sequence_count; s++) {
        wg_status status = check_segment(bin, s, base, err);
        if (status != WG_OK) return status;
    }
    if ((size_t)bin->cu_seqlens[bin->sequence_count] != bin->token_count)
        return wgi_fail(err, WG_ERR_ARGUMENT, "cu_seqlens ends at %ld, the bin has %zu tokens",
                        (long)bin->cu_seqlens[bin->sequence_count], bin->token_count);
    for (size_t i = 0; i < bin->token_count; i++) {
        if (bin->token_ids[i] < 0 || (uint64_t)bin->token_ids[i] >= vocabulary_count)
            return wgi_fail(err, WG_ERR_ARGUMENT,
                            "token_ids[%zu] is %ld, outside the vocabulary of %llu", i,
                            (long)bin->token_ids[i], (unsigned long long)vocabulary_count);
    }
    return WG_OK;
}
