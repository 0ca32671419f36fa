/*
 * errors.c - statuses as exceptions, and the generation of the process.
 */
#include "core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

PyObject *wgpy_error[WGPY_KIND_COUNT];

static atomic_uint generation;

static void forked(void)
{
    atomic_fetch_add(&generation, 1);
}

uint32_t wgpy_generation(void)
{
    return atomic_load(&generation);
}

int wgpy_check_generation(uint32_t of, const char *what)
{
    if (of == wgpy_generation()) return 0;
    PyErr_Format(
        wgpy_error[WGPY_ERROR],
        "this %s is not valid after fork: its threads live in the parent process; open one "
        "in the child, or start children with the spawn method",
        what);
    return -1;
}

static wgpy_kind kind_of(wg_status status)
{
    switch (status) {
    case WG_ERR_ARGUMENT:
        return WGPY_ARGUMENT;
    case WG_ERR_FORMAT:
        return WGPY_FORMAT;
    case WG_ERR_IO:
        return WGPY_IO;
    case WG_ERR_NO_MEMORY:
        return WGPY_MEMORY;
    case WG_ERR_LIMIT:
        return WGPY_LIMIT;
    case WG_ERR_CLOSED:
        return WGPY_CLOSED;
    case WG_ERR_UNSUPPORTED:
        return WGPY_UNSUPPORTED;
    default:
        return WGPY_ERROR;
    }
}

PyObject *wgpy_message(const char *message)
{
    return PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "backslashreplace");
}

PyObject *wgpy_raise(const wg_error *err)
{
    PyObject *message = wgpy_message(err->message);

    if (!message) return NULL;
    PyErr_SetObject(wgpy_error[kind_of(err->status)], message);
    Py_DECREF(message);
    return NULL;
}

int wgpy_add_errors(PyObject *module)
{
    const struct {
        const char *name, *doc;
        PyObject *also; /* borrowed; NULL: none */
    } kinds[WGPY_KIND_COUNT] = {
        [WGPY_ERROR] = {"Error", "Something in warpgroup failed; the base of its exceptions.",
                        PyExc_RuntimeError},
        [WGPY_ARGUMENT] = {"ArgumentError", "An argument cannot be used.", PyExc_ValueError},
        [WGPY_FORMAT] = {"FormatError", "A file is malformed.", PyExc_ValueError},
        [WGPY_IO] = {"FileError", "A file could not be read or written.", PyExc_OSError},
        [WGPY_MEMORY] = {"OutOfMemoryError", "There is no memory for it.", PyExc_MemoryError},
        [WGPY_LIMIT] = {"LimitError", "A limit was exceeded.", PyExc_ValueError},
        [WGPY_CLOSED] = {"ClosedError", "The handle was closed, or its input is finished.", NULL},
        [WGPY_SLOTS_HELD] =
            {"SlotsHeldError",
             "Bins or arrays of them are kept, and no slot is left for the next bin.", NULL},
        [WGPY_UNSUPPORTED] = {"UnsupportedError", "Known, but not supported.",
                              PyExc_NotImplementedError},
    };

    if (pthread_atfork(NULL, NULL, forked) != 0) {
        PyErr_SetString(PyExc_MemoryError, "no memory for a fork handler");
        return -1;
    }
    for (int kind = 0; kind < WGPY_KIND_COUNT; kind++) {
        char name[64];
        PyObject *bases;

        if (kind == WGPY_ERROR)
            bases = Py_BuildValue("(O)", kinds[kind].also);
        else
            bases = kinds[kind].also
                        ? Py_BuildValue("(OO)", wgpy_error[WGPY_ERROR], kinds[kind].also)
                        : Py_BuildValue("(O)", wgpy_error[WGPY_ERROR]);
        if (!bases) return -1;
        (void)PyOS_snprintf(name, sizeof(name), "warpgroup.%s", kinds[kind].name);
        wgpy_error[kind] = PyErr_NewExceptionWithDoc(name, kinds[kind].doc, bases, NULL);
        Py_DECREF(bases);
        if (!wgpy_error[kind]) return -1;
        if (PyModule_AddObjectRef(module, kinds[kind].name, wgpy_error[kind]) != 0) return -1;
    }
    return 0;
}
