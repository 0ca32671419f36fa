/*
 * backend.c - finds a backend by name and instruction set.
 *
 * Threads: any.
 */
#include "backend/backend.h"

#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_isa.h"
#include "backend/reference/reference.h"

wg_status wgi_backend_find(const wgi_backend **out, const char *name, wg_isa isa, wg_error *err)
{
    *out = NULL;
    if (name && strcmp(name, "reference") == 0) {
        *out = wgi_reference_backend();
        return WG_OK;
    }
    if (name && strcmp(name, "cpu") != 0)
        return wgi_fail(err, WG_ERR_BACKEND, "there is no backend '%s'; this build has: cpu", name);
    if (!wgi_isa_name(isa))
        return wgi_fail(err, WG_ERR_ARGUMENT, "%d is no instruction set", (int)isa);
    if (!wgi_cpu_has(isa))
        return wgi_fail(err, WG_ERR_BACKEND,
                        "this processor (or its operating system) has no %s; the best here is %s",
                        wgi_isa_name(isa), wgi_isa_name(wgi_cpu_best()));
    *out = wgi_cpu_backend(isa == WG_ISA_AUTO ? wgi_cpu_best() : isa);
    return WG_OK;
}
