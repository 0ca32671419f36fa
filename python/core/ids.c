/*
 * ids.c - integers from Python as arrays of C.
 *
 * Two roads: a buffer (NumPy, array.array, memoryview) is used in place when it is int32 and
 * converted when it is int64; a list or tuple is converted item by item from a copy of its
 * references, so that an __index__() that changes the list does no harm. Every value is checked:
 * what does not fit is an error that names the argument and the place, never cut off.
 *
 * Refused: any iterable and any object with __index__ inside a buffer of objects. They are slow,
 * and a float array given by mistake would be rounded silently.
 *
 * Threads: with the interpreter lock.
 */
#include "core.h"

#include <math.h>
#include <string.h>

typedef enum kind { KIND_NONE, KIND_I32, KIND_I64, KIND_U32, KIND_U64 } kind;

static kind kind_of(const Py_buffer *view)
{
    const char *format = view->format ? view->format : "B";

    if (*format == '@' || *format == '=' || *format == '<') format++;
    if (format[0] == '\0' || format[1] != '\0') return KIND_NONE;
    if (strchr("ilqn", format[0]))
        return view->itemsize == 4 ? KIND_I32 : view->itemsize == 8 ? KIND_I64 : KIND_NONE;
    if (strchr("ILQN", format[0]))
        return view->itemsize == 4 ? KIND_U32 : view->itemsize == 8 ? KIND_U64 : KIND_NONE;
    return KIND_NONE;
}

static int refuse_type(PyObject *object, const char *name)
{
    PyObject *type = PyType_GetQualName(Py_TYPE(object));

    if (!type) return -1;
    PyErr_Format(PyExc_TypeError,
                 "%s must be a list or tuple of ints or a one-dimensional, C-contiguous array of "
                 "int32 or int64, not %U (of a torch tensor pass tensor.numpy())",
                 name, type);
    Py_DECREF(type);
    return -1;
}

/* A buffer of integers. 1: it is one; 0: no buffer at all; -1: error. */
static int buffer_get(PyObject *object, const char *name, Py_buffer *view, kind *is)
{
    int is_dense, is_aligned;

    if (!PyObject_CheckBuffer(object)) return 0;
    if (PyObject_GetBuffer(object, view, PyBUF_ND | PyBUF_STRIDES | PyBUF_FORMAT) != 0) return -1;
    *is = kind_of(view);
    /* A dtype without fields has items of no bytes. */
    is_aligned = *is == KIND_NONE || (uintptr_t)view->buf % (uintptr_t)view->itemsize == 0;
    is_dense = PyBuffer_IsContiguous(view, 'C');
    if (view->ndim != 1 || *is == KIND_NONE || !is_dense || !is_aligned) {
        PyErr_Format(PyExc_TypeError,
                     "%s must be a one-dimensional, C-contiguous array of int32 or int64; this one "
                     "has %d dimensions and format '%s'%s%s",
                     name, view->ndim, view->format ? view->format : "B",
                     is_dense ? ""
                              : " and is not contiguous; numpy.ascontiguousarray() makes it so",
                     is_aligned ? "" : " and is not aligned");
        PyBuffer_Release(view);
        return -1;
    }
    return 1;
}

/* Values are positions of `name` in messages. */
static int refuse_value(const char *name, Py_ssize_t at, const char *what)
{
    PyErr_Format(wgpy_error[WGPY_ARGUMENT], "%s[%zd] %s", name, at, what);
    return -1;
}

static int item_failed(const char *name, Py_ssize_t at)
{
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        return refuse_value(name, at, "does not fit");
    }
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s[%zd] is not an int", name, at);
    }
    return -1;
}

/* ----------------------------------------------------------------------------------- token ids */

static int32_t *own_memory(wgpy_ids *ids)
{
    if (ids->count <= sizeof(ids->few) / sizeof(ids->few[0])) return ids->few;
    if (ids->count > PY_SSIZE_T_MAX / sizeof(int32_t)) {
        PyErr_NoMemory();
        return NULL;
    }
    ids->own = PyMem_Malloc((size_t)ids->count * sizeof(int32_t));
    if (!ids->own) PyErr_NoMemory();
    return ids->own;
}

static int ids_of_tuple(PyObject *tuple, const char *name, wgpy_ids *ids)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    int32_t *values;

    ids->count = (uint64_t)count;
    values = own_memory(ids);
    if (!values) return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        long value = PyLong_AsLong(PyTuple_GetItem(tuple, i));

        if (value == -1 && PyErr_Occurred()) return item_failed(name, i);
        if (value < INT32_MIN || value > INT32_MAX)
            return refuse_value(name, i, "is not within 32 bits");
        values[i] = (int32_t)value;
    }
    ids->values = values;
    return 0;
}

static int ids_of_wide(const Py_buffer *view, const char *name, wgpy_ids *ids)
{
    const int64_t *from = view->buf;
    int32_t *values = own_memory(ids);
    uint64_t i = 0;

    if (!values) return -1;
    for (; i < ids->count && from[i] >= INT32_MIN && from[i] <= INT32_MAX; i++)
        values[i] = (int32_t)from[i];
    if (i < ids->count) return refuse_value(name, (Py_ssize_t)i, "is not within 32 bits");
    ids->values = values;
    return 0;
}

int wgpy_ids_get(PyObject *object, const char *name, wgpy_ids *ids)
{
    kind is = KIND_NONE;
    int has_buffer;
    int result = -1;

    ids->values = NULL;
    ids->own = NULL;
    ids->view.obj = NULL;
    if (PyList_Check(object) || PyTuple_Check(object)) {
        PyObject *tuple = PySequence_Tuple(object);

        if (tuple) result = ids_of_tuple(tuple, name, ids);
        Py_XDECREF(tuple);
    } else {
        has_buffer = buffer_get(object, name, &ids->view, &is);
        if (has_buffer <= 0) {
            ids->view.obj = NULL;
            return has_buffer == 0 ? refuse_type(object, name) : -1;
        }
        ids->count = (uint64_t)(ids->view.len / ids->view.itemsize);
        if (is == KIND_I32) {
            ids->values = ids->view.buf;
            result = 0;
        } else if (is == KIND_I64) {
            result = ids_of_wide(&ids->view, name, ids);
        } else {
            PyErr_Format(PyExc_TypeError, "%s must be int32 or int64, not unsigned integers", name);
        }
    }
    if (result != 0) wgpy_ids_drop(ids);
    return result;
}

void wgpy_ids_drop(wgpy_ids *ids)
{
    if (ids->view.obj) PyBuffer_Release(&ids->view);
    ids->view.obj = NULL;
    PyMem_Free(ids->own);
    ids->own = NULL;
}

/* -------------------------------------------------------------------------------------- counts */

static int counts_of_tuple(PyObject *tuple, const char *name, uint64_t *values)
{
    Py_ssize_t count = PyTuple_Size(tuple);

    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *number = PyNumber_Index(PyTuple_GetItem(tuple, i));

        if (!number) return item_failed(name, i);
        values[i] = PyLong_AsUnsignedLongLong(number);
        Py_DECREF(number);
        if (values[i] == UINT64_MAX && PyErr_Occurred()) {
            PyErr_Clear();
            return refuse_value(name, i, "is not within 0 to 2^64 - 1");
        }
    }
    return 0;
}

static int counts_of_buffer(const Py_buffer *view, kind is, const char *name, uint64_t *values)
{
    Py_ssize_t count = view->len / view->itemsize;
    const void *from = view->buf;

    for (Py_ssize_t i = 0; i < count; i++) {
        int64_t value = 0;

        switch (is) {
        case KIND_U32:
            values[i] = ((const uint32_t *)from)[i];
            continue;
        case KIND_U64:
            values[i] = ((const uint64_t *)from)[i];
            continue;
        case KIND_I32:
            value = ((const int32_t *)from)[i];
            break;
        default:
            value = ((const int64_t *)from)[i];
            break;
        }
        if (value < 0) return refuse_value(name, i, "is negative");
        values[i] = (uint64_t)value;
    }
    return 0;
}

int wgpy_counts_get(PyObject *object, const char *name, uint64_t **values, uint64_t *count)
{
    PyObject *tuple = NULL;
    Py_buffer view = {.obj = NULL};
    kind is = KIND_NONE;
    Py_ssize_t length;
    int result = -1;

    *values = NULL;
    if (PyList_Check(object) || PyTuple_Check(object)) {
        tuple = PySequence_Tuple(object);
        if (!tuple) return -1;
        length = PyTuple_Size(tuple);
    } else {
        int has_buffer = buffer_get(object, name, &view, &is);

        if (has_buffer <= 0) return has_buffer == 0 ? refuse_type(object, name) : -1;
        length = view.len / view.itemsize;
    }
    *count = (uint64_t)length;
    if ((size_t)length <= PY_SSIZE_T_MAX / sizeof(uint64_t))
        *values = PyMem_Malloc((size_t)length * sizeof(uint64_t));
    if (!*values) {
        PyErr_NoMemory();
        goto cleanup;
    }
    result =
        tuple ? counts_of_tuple(tuple, name, *values) : counts_of_buffer(&view, is, name, *values);

cleanup:
    if (result != 0) {
        PyMem_Free(*values);
        *values = NULL;
    }
    if (view.obj) PyBuffer_Release(&view);
    Py_XDECREF(tuple);
    return result;
}

/* --------------------------------------------------------------------------------------- times */

int wgpy_seconds_get(PyObject *seconds, const char *name, uint64_t *ns)
{
    double value;

    *ns = WG_FOREVER;
    if (!seconds || seconds == Py_None) return 0;
    value = PyFloat_AsDouble(seconds);
    if (value == -1.0 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s must be a number of seconds or None", name);
        return -1;
    }
    if (isnan(value) || value < 0.0) {
        PyErr_Format(wgpy_error[WGPY_ARGUMENT], "%s must be a number of seconds, at least 0", name);
        return -1;
    }
    if (value < 1e9) *ns = (uint64_t)(value * 1e9); /* 30 years are forever */
    return 0;
}
