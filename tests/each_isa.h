/*
 * each_isa.h - runs a body once for every instruction set of this processor, each in a process of
 * its own, because libxsmm generates code for one of them a process.
 */
#ifndef WGT_EACH_ISA_H
#define WGT_EACH_ISA_H

#include <sys/wait.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/cpu/cpu_isa.h"
#include "harness.h"

/* Fails the test when a child fails; the seed is the same in every child. */
static inline void wgt_each_isa(void (*body)(const wgi_backend *backend))
{
    int ran = 0;

    for (wg_isa isa = WG_ISA_PLAIN; isa <= WG_ISA_AVX512; isa++) {
        int state = 0;

        if (!wgi_cpu_has(isa)) {
            fprintf(stderr, "skipped: this processor has no %s\n", wgi_isa_name(isa));
            continue;
        }
        ran++;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            const wgi_backend *backend = NULL;
            wg_error err;
            EXPECT_OK(wgi_backend_find(&backend, "cpu", isa, &err));
            if (backend) body(backend);
            if (wgt_failed)
                fprintf(stderr, "%s: failed, seed 0x%" PRIx64 "\n", wgi_isa_name(isa), wgt_seed);
            fflush(NULL);
            _exit(wgt_failed ? 1 : 0);
        }
        EXPECT(child > 0);
        EXPECT(child > 0 && waitpid(child, &state, 0) == child);
        EXPECT_EQ(WIFEXITED(state) ? WEXITSTATUS(state) : 1000 + WTERMSIG(state), 0);
    }
    EXPECT(ran >= 1);
}

/* Uniform in [-1, 1). */
static inline float wgt_float(void)
{
    return (float)(wgt_random() >> 40) * 0x1p-23f - 1.0f;
}

static inline float *wgt_floats(size_t count)
{
    float *values = aligned_alloc(64, (count * sizeof(float) + 127) / 64 * 64);

    if (!values) exit(1);
    for (size_t i = 0; i < count; i++)
        values[i] = wgt_float();
    return values;
}

/* A tensor [rows, columns] (columns 0: [rows]) over values that the caller frees. */
static inline wgi_tensor wgt_tensor(const float *values, uint64_t rows, uint64_t columns)
{
    return (wgi_tensor){.name = "a tensor",
                        .dtype_name = "F32",
                        .dtype = WGI_DTYPE_F32,
                        .rank = columns ? 2 : 1,
                        .shape = {rows, columns},
                        .data = values,
                        .bytes = (size_t)(rows * (columns ? columns : 1)) * sizeof(float)};
}

#endif
