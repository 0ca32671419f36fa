/*
 * machine.c - what is inside this build and what this machine can run.
 */
#include <libxsmm_config.h>
#include <utf8proc.h>
#include <zlib.h>

#include "backend/cpu/cpu_isa.h"
#include "warpgroup/warpgroup.h"

#define TEXT_OF(x)  #x
#define VALUE_OF(x) TEXT_OF(x)

const char *wg_libraries(void)
{
    return "libxsmm " LIBXSMM_CONFIG_VERSION "\nzlib " ZLIB_VERSION
           "\nutf8proc " VALUE_OF(UTF8PROC_VERSION_MAJOR) "." VALUE_OF(
               UTF8PROC_VERSION_MINOR) "." VALUE_OF(UTF8PROC_VERSION_PATCH);
}

const char *const *wg_isa_names(void)
{
    /* Each set holds the one before it, so the best that runs here names them all. */
    static const char *const plain[] = {"plain", NULL};
    static const char *const avx2[] = {"plain", "avx2", NULL};
    static const char *const avx512[] = {"plain", "avx2", "avx512", NULL};

    switch (wgi_cpu_best()) {
    case WG_ISA_AVX512:
        return avx512;
    case WG_ISA_AVX2:
        return avx2;
    default:
        return plain;
    }
}
