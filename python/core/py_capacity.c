/*
 * py_capacity.c - capacity_measure(): the search for the largest bin, with a Python function that
 * tries a size; memory_available().
 *
 * The function runs on the caller's thread with the interpreter lock held, as the search itself
 * takes no time. What it raises ends the search and is raised to the caller as it is, Ctrl-C too.
 */
#include "core.h"

#include "warpgroup/capacity.h"

/* Tries a size: run(tokens) gives (fits, seconds). */
static wg_fit run_python(void *context, uint64_t tokens, double *seconds)
{
    PyObject *run = context, *result;
    int fits = 0;

    if (PyErr_CheckSignals() != 0) return WG_FIT_ERROR;
    result = PyObject_CallFunction(run, "K", (unsigned long long)tokens);
    if (!result) return WG_FIT_ERROR;
    if (!PyTuple_Check(result))
        PyErr_SetString(PyExc_TypeError, "run must return (fits, seconds)");
    else
        (void)PyArg_ParseTuple(result, "pd;run must return (fits, seconds)", &fits, seconds);
    Py_DECREF(result);
    if (PyErr_Occurred()) return WG_FIT_ERROR;
    return fits ? WG_FIT_YES : WG_FIT_NO;
}

static PyObject *tries_of(const wg_capacity *found)
{
    PyObject *tries = PyList_New((Py_ssize_t)found->try_count);

    if (!tries) return NULL;
    for (uint32_t i = 0; i < found->try_count; i++) {
        const wg_capacity_try *t = &found->tries[i];
        PyObject *item =
            Py_BuildValue("(KdNN)", (unsigned long long)t->tokens, t->seconds,
                          PyBool_FromLong(t->did_fit), PyBool_FromLong(t->is_for_knee));
        if (!item || PyList_SetItem(tries, (Py_ssize_t)i, item) != 0) {
            Py_DECREF(tries);
            return NULL;
        }
    }
    return tries;
}

PyDoc_STRVAR(measure_doc,
             "capacity_measure(run, is_step, start_tokens, tokens_max, resolution, reserve_tokens, "
             "step_tokens, keep, skip_knee, knee_from_tokens, knee_runs, knee_share)\n--\n\n"
             "Searches the largest size for which run(tokens) gives (True, seconds); 0 is the "
             "default of each number (include/warpgroup/capacity.h).\n\n"
             "Gives (tokens, fitted_tokens, refused_tokens, knee_tokens, knee_tokens_per_s, "
             "best_tokens_per_s, tries), a try being (tokens, seconds, did_fit, is_for_knee). "
             "What run raises is raised here.");

static PyObject *measure(PyObject *module, PyObject *args)
{
    PyObject *run, *tries;
    wg_capacity_options options = {.run = run_python};
    wg_capacity found;
    wg_error err = {0};
    unsigned long long start, most, reserve, step, knee_from;
    unsigned int knee_runs;
    int is_step;

    (void)module;
    if (!PyArg_ParseTuple(args, "OpKKdKKdpKId:capacity_measure", &run, &is_step, &start, &most,
                          &options.resolution, &reserve, &step, &options.keep, &options.skip_knee,
                          &knee_from, &knee_runs, &options.knee_share))
        return NULL;
    options.context = run;
    options.mode = is_step ? WG_CAPACITY_STEP : WG_CAPACITY_DOUBLE;
    options.start_tokens = start;
    options.tokens_max = most;
    options.reserve_tokens = reserve;
    options.step_tokens = step;
    options.knee_from_tokens = knee_from;
    options.knee_runs = knee_runs;

    wg_status status = wg_capacity_measure(&found, &options, &err);
    if (PyErr_Occurred()) return NULL;
    if (status != WG_OK) return wgpy_raise(&err);
    tries = tries_of(&found);
    if (!tries) return NULL;
    return Py_BuildValue(
        "(KKKKddN)", (unsigned long long)found.tokens, (unsigned long long)found.fitted_tokens,
        (unsigned long long)found.refused_tokens, (unsigned long long)found.knee_tokens,
        found.knee_tokens_per_s, found.best_tokens_per_s, tries);
}

PyDoc_STRVAR(available_doc, "memory_available()\n--\n\n"
                            "Bytes that this process can still take: the least of what machine, "
                            "cgroups and resource limits leave.");

static PyObject *available(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(wg_memory_available());
}

int wgpy_add_capacity(PyObject *module)
{
    static PyMethodDef functions[] = {
        {"capacity_measure", measure, METH_VARARGS, measure_doc},
        {"memory_available", available, METH_NOARGS, available_doc},
        {NULL, NULL, 0, NULL},
    };

    return PyModule_AddFunctions(module, functions);
}
