/*
 * tile_xsmm.c - the door to libxsmm (Heinecke et al., SC16): kernels for one small shape, made
 * when asked for.
 *
 * The law holds for output tiles of 32, 48 and 64 columns only: there every output is one chain of
 * fused multiply-adds over the depth, whatever the number of rows (with a remainder of 1 to 16
 * columns libxsmm keeps several partial sums, and their number depends on the rows). It is the
 * chain that kernels_body.h computes too, so a shape that libxsmm does not make may go there
 * without a bit changing; test_linear compares the two.
 *
 * libxsmm generates for one instruction set a process. The first caller settles it; who wants
 * another afterwards gets none and uses our own kernels.
 *
 * Threads: any; the lock guards `settled`. libxsmm's own registry is thread-safe.
 */
#include "backend/cpu/tile_xsmm.h"

#include <pthread.h>

#ifdef WGI_HAVE_LIBXSMM

#include <libxsmm.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static wg_isa settled = WG_ISA_AUTO; /* AUTO: not yet */

bool wgi_xsmm_start(wg_isa isa)
{
    bool is_ours;

    if (isa != WG_ISA_AVX2 && isa != WG_ISA_AVX512) return false;
    (void)pthread_mutex_lock(&lock);
    if (settled == WG_ISA_AUTO) {
        libxsmm_init();
        libxsmm_set_target_archid(isa == WG_ISA_AVX2 ? LIBXSMM_X86_AVX2 : LIBXSMM_X86_AVX512_CORE);
        settled = isa;
    }
    is_ours = settled == isa;
    (void)pthread_mutex_unlock(&lock);
    return is_ours;
}

wgi_xsmm_tile wgi_xsmm_find(size_t columns, size_t rows, size_t depth, size_t in_stride,
                            size_t out_stride, bool adds)
{
    /* libxsmm is column-major: its m is our columns, its n our rows. */
    const size_t most = 1u << 24;
    libxsmm_blasint m = (libxsmm_blasint)columns, n = (libxsmm_blasint)rows,
                    k = (libxsmm_blasint)depth, ldb = (libxsmm_blasint)in_stride,
                    ldc = (libxsmm_blasint)out_stride;
    float one = 1, beta = adds ? 1 : 0;
    int flags = LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_PREFETCH_NONE;

    if (columns != 32 && columns != 48 && columns != 64) return NULL;
    if (rows == 0 || depth == 0 || rows > most || depth > most || in_stride > most) return NULL;
    return libxsmm_smmdispatch(m, n, k, &m, &ldb, &ldc, &one, &beta, &flags, &prefetch);
}

const char *wgi_xsmm_version(void)
{
    return LIBXSMM_VERSION;
}

#else

bool wgi_xsmm_start(wg_isa isa)
{
    (void)isa;
    return false;
}

wgi_xsmm_tile wgi_xsmm_find(size_t columns, size_t rows, size_t depth, size_t in_stride,
                            size_t out_stride, bool adds)
{
    (void)adds;
    (void)columns, (void)rows, (void)depth, (void)in_stride, (void)out_stride;
    return NULL;
}

const char *wgi_xsmm_version(void)
{
    return NULL;
}

#endif
