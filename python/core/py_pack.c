/*
 * py_pack.c - function pack_lengths: wg_pack on a list of lengths.
 *
 * Gives the bin of each length and the numbers of the result; warpgroup.pack makes lists of bins.
 *
 * Threads: packs without the interpreter lock.
 */
#include "core.h"

#include <string.h>

static int read_policy(const char *name, wg_pack_policy *policy)
{
    static const char *const names[] = {[WG_PACK_FIRST_FIT] = "first_fit",
                                        [WG_PACK_BEST_FIT] = "best_fit",
                                        [WG_PACK_BALANCED] = "balanced"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *policy = (wg_pack_policy)i;
        return 0;
    }
    PyErr_Format(wgpy_error[WGPY_ARGUMENT],
                 "policy '%s' is not known: 'first_fit', 'best_fit' or 'balanced'", name);
    return -1;
}

/* uint32 of the lengths, and as many for the bins behind them. */
static uint32_t *narrow(const uint64_t *lengths, uint64_t count)
{
    uint32_t *both = NULL;

    for (uint64_t i = 0; i < count; i++) {
        if (lengths[i] <= UINT32_MAX) continue;
        PyErr_Format(wgpy_error[WGPY_ARGUMENT], "lengths[%llu] is above 2^32 - 1",
                     (unsigned long long)i);
        return NULL;
    }
    if (count <= PY_SSIZE_T_MAX / (2 * sizeof(*both)))
        both = PyMem_Malloc((size_t)count * 2 * sizeof(*both));
    if (!both) {
        PyErr_NoMemory();
        return NULL;
    }
    for (uint64_t i = 0; i < count; i++)
        both[i] = (uint32_t)lengths[i];
    return both;
}

static PyObject *answer(const uint32_t *bin_of, uint64_t count, const wg_pack_result *result)
{
    return Py_BuildValue("y#{s:K,s:K,s:K,s:d,s:d,s:d}", (const char *)bin_of,
                         (Py_ssize_t)(count * sizeof(*bin_of)), "bin_count",
                         (unsigned long long)result->bin_count, "bin_count_least",
                         (unsigned long long)result->bin_count_least, "token_count",
                         (unsigned long long)result->token_count, "fill", result->fill, "cost_most",
                         result->cost_most, "cost_mean", result->cost_mean);
}

static PyObject *pack_lengths(PyObject *module, PyObject *args)
{
    PyObject *list, *result = NULL;
    const char *policy;
    unsigned long long tokens, sequences, squares, multiple, bins;
    wg_pack_options options = {0};
    wg_pack_result packed = {0};
    uint64_t *lengths = NULL, count;
    uint32_t *both = NULL;
    wg_error err = {0};
    wg_status status;

    (void)module;
    if (!PyArg_ParseTuple(args, "OsKKKKKdd:pack_lengths", &list, &policy, &tokens, &sequences,
                          &squares, &multiple, &bins, &options.cost_linear, &options.cost_square))
        return NULL;
    if (read_policy(policy, &options.policy) != 0) return NULL;
    options.tokens = tokens;
    options.sequences = sequences;
    options.squares = squares;
    options.multiple = multiple;
    options.bin_count = bins;
    if (wgpy_counts_get(list, "lengths", &lengths, &count) != 0) return NULL;
    both = narrow(lengths, count);
    if (!both) goto cleanup;
    Py_BEGIN_ALLOW_THREADS;
    status = wg_pack(both + count, both, count, &options, &packed, &err);
    Py_END_ALLOW_THREADS;
    result = status == WG_OK ? answer(both + count, count, &packed) : wgpy_raise(&err);

cleanup:
    PyMem_Free(both);
    PyMem_Free(lengths);
    return result;
}

int wgpy_add_pack(PyObject *module)
{
    static PyMethodDef functions[] = {
        {"pack_lengths", pack_lengths, METH_VARARGS,
         "pack_lengths(lengths, policy, tokens, sequences, squares, multiple, bins, cost_linear,\n"
         "             cost_square)\n--\n\nuint32 bin of each length as bytes, and a dict."},
        {NULL, NULL, 0, NULL},
    };

    return PyModule_AddFunctions(module, functions);
}
