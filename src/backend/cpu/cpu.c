/*
 * cpu.c - the table of the CPU backend: which function stands where, and the embedding lookup.
 *
 * One table an instruction set, alike but for the kernels. They are filled once, because whether
 * libxsmm serves an instruction set is known at run time only.
 *
 * Threads: `lock` guards the filling; afterwards tables are constant.
 */
#include "backend/cpu/cpu.h"

#include <pthread.h>

#include "backend/cpu/cpu_isa.h"
#include "backend/cpu/tile_xsmm.h"

static size_t scratch_bytes(const wgi_backend *self, const wgi_attention *attention)
{
    size_t linear = wgi_cpu_linear_scratch_bytes();
    size_t attend = attention ? wgi_cpu_attention_scratch_bytes(attention) : 0;

    (void)self;
    return attend > linear ? attend : linear;
}

/* In chunks, so that a table in any type is added without room for a whole row. */
static void add_row(const wgi_tensor *table, size_t row, size_t count, float *out)
{
    float chunk[256];

    for (size_t at = 0; at < count; at += 256) {
        size_t have = count - at < 256 ? count - at : 256;
        wgi_tensor_widen(table, row * count + at, have, chunk);
        for (size_t i = 0; i < have; i++)
            out[at + i] += chunk[i];
    }
}

static void embed(const wgi_backend *self, const wgi_embedding *embedding, const int32_t *token_ids,
                  const int32_t *position_ids, const int32_t *type_ids, wgi_view out, size_t rows)
{
    size_t count = embedding->hidden_count;

    (void)self;
    for (size_t row = 0; row < rows; row++) {
        float *to = out.data + row * out.stride;

        wgi_tensor_widen(embedding->token, (size_t)token_ids[row] * count, count, to);
        if (embedding->type) add_row(embedding->type, (size_t)type_ids[row], count, to);
        if (embedding->position) add_row(embedding->position, (size_t)position_ids[row], count, to);
    }
}

static void layer_norm(const wgi_backend *self, const wgi_norm *norm, wgi_view inout, size_t rows)
{
    wgi_cpu_of(self)->kernels->layer_norm(norm, inout, rows);
}

static void rms_norm(const wgi_backend *self, const wgi_norm *norm, wgi_view in, wgi_view out,
                     size_t rows)
{
    wgi_cpu_of(self)->kernels->rms_norm(norm, in, out, rows);
}

static wgi_cpu tables[WG_ISA_AVX512 + 1];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void fill(wgi_cpu *cpu, wg_isa isa)
{
    const wgi_cpu_kernels *kernels = &wgi_cpu_kernels_plain;

#if defined(__x86_64__)
    if (isa == WG_ISA_AVX2) kernels = &wgi_cpu_kernels_avx2;
    if (isa == WG_ISA_AVX512) kernels = &wgi_cpu_kernels_avx512;
#endif
    *cpu = (wgi_cpu){.base = {.name = "cpu",
                              .isa = kernels->isa,
                              .block_rows = WGI_CPU_BLOCK_ROWS,
                              .attend_rows = WGI_CPU_ATTEND_ROWS,
                              .row_multiple = 1,
                              .bin_tokens = WGI_CPU_BIN_TOKENS,
                              .linear_pack = wgi_cpu_linear_pack,
                              .linear_pack_stored = wgi_cpu_linear_pack_stored,
                              .linear_free = wgi_cpu_linear_free,
                              .linear_bytes = wgi_cpu_linear_bytes,
                              .attention_pack = wgi_cpu_attention_pack,
                              .attention_free = wgi_cpu_attention_free,
                              .attention_bytes = wgi_cpu_attention_bytes,
                              .scratch_bytes = scratch_bytes,
                              .qkv_bytes = wgi_cpu_qkv_bytes,
                              .embed = embed,
                              .layer_norm = layer_norm,
                              .linear = wgi_cpu_linear,
                              .qkv = wgi_cpu_qkv,
                              .rms_norm = rms_norm,
                              .linear_product = wgi_cpu_linear_product,
                              .rotate = wgi_cpu_rotate,
                              .attend = wgi_cpu_attend},
                     .isa = isa,
                     .kernels = kernels,
                     .has_xsmm = wgi_xsmm_start(isa)};
}

const wgi_backend *wgi_cpu_backend(wg_isa isa)
{
    wgi_cpu *cpu = &tables[isa];

    (void)pthread_mutex_lock(&lock);
    if (!cpu->kernels) fill(cpu, isa);
    (void)pthread_mutex_unlock(&lock);
    return &cpu->base;
}
