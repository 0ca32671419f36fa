/*
 * array.c - type Array: one array of a bin, where it lies.
 *
 *     Array ──┐
 *     capsule ┼─▶ view (counted) ─▶ export of the engine ─▶ slot of the ring
 *     tensor ─┘
 *
 * An Array holds one export of the engine, through a view that counts its holders: the Array itself
 * and every DLPack tensor made from it. The last one to let go calls the engine's deleter, which
 * frees the slot once nothing else of the bin is out. Buffers (NumPy, memoryview) hold the Array.
 *
 * The memory is read-only. A consumer of DLPack older than 1.0 cannot be told so; it gets a copy
 * (copy=None allows one where memory cannot be shared), or a BufferError for copy=False.
 *
 * Refused: an export of the engine a capsule. There are 16 a bin, and none can be made after the
 * bin was given back, while an Array may live on.
 *
 * Threads: methods with the interpreter lock; deleters of tensors on any thread without it, so they
 * touch atomics, the heap and the engine only. After fork the memory stays readable in the child
 * and is leaked there, because the engine's lock may be held by a thread that is not in the child.
 */
#include "core.h"

#include "dlpack.h"

#include <stdatomic.h>
#include <string.h>

#define COPY_ALIGN      64u
#define NAME_PLAIN      "dltensor"
#define NAME_VERSIONED  "dltensor_versioned"
#define REPR_ITEMS_MOST 8

typedef struct view {
    atomic_uint holders;
    uint32_t generation;
    dl_managed_versioned *export;
} view;

typedef struct array {
    PyObject_HEAD view *view;
    Py_ssize_t shape[1], strides[1];
} array;

static PyTypeObject *array_type;

static void view_drop(view *dropped)
{
    if (atomic_fetch_sub(&dropped->holders, 1) != 1) return;
    if (dropped->generation == wgpy_generation()) dropped->export->deleter(dropped->export);
    wgpy_free(dropped);
}

static const dl_tensor *tensor_of(const array *self)
{
    return &self->view->export->tensor;
}

PyObject *wgpy_array_new(wg_engine *engine, const wg_bin *bin, wg_bin_array which)
{
    wg_error err = {0};
    dl_managed_versioned *export = NULL;
    view *made = wgpy_alloc(sizeof(*made));
    array *self;

    if (!made) return PyErr_NoMemory();
    if (wg_engine_export(engine, bin, which, &export, &err) != WG_OK) {
        wgpy_free(made);
        if (err.status != WG_ERR_BUSY) return wgpy_raise(&err);
        PyErr_Format(PyExc_BufferError, "%s; drop some of them, or keep one and use it again",
                     err.message);
        return NULL;
    }
    atomic_init(&made->holders, 1);
    made->generation = wgpy_generation();
    made->export = export;
    self = PyObject_New(array, array_type);
    if (!self) {
        view_drop(made);
        return NULL;
    }
    self->view = made;
    self->shape[0] = (Py_ssize_t) export->tensor.shape[0];
    self->strides[0] = export->tensor.dtype.bits / 8;
    return (PyObject *)self;
}

static void array_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);

    view_drop(((array *)object)->view);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* -------------------------------------------------------------------------------------- buffer */

/* Native formats of struct: int32_t, and the unsigned type of 64 bits that NumPy calls uint64. */
static char format_wide[] = {sizeof(long) == 8 ? 'L' : 'Q', '\0'};
static char format_id[] = "i";

static int array_getbuffer(PyObject *object, Py_buffer *out, int flags)
{
    array *self = (array *)object;
    const dl_tensor *tensor = tensor_of(self);

    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
        out->obj = NULL;
        PyErr_SetString(PyExc_BufferError, "an array of a bin is read-only; copy it to change it");
        return -1;
    }
    *out = (Py_buffer){
        .buf = tensor->data,
        .obj = Py_NewRef(object),
        .len = self->shape[0] * self->strides[0],
        .itemsize = self->strides[0],
        .readonly = 1,
        .ndim = 1,
    };
    if (flags & PyBUF_FORMAT) out->format = tensor->dtype.bits == 64 ? format_wide : format_id;
    if (flags & PyBUF_ND) out->shape = self->shape;
    if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) out->strides = self->strides;
    return 0;
}

/* -------------------------------------------------------------------------------------- DLPack */

/* What a capsule holds: one of the two structures, and the array's view or a copy of its items. */
typedef struct lent {
    union {
        dl_managed_versioned versioned;
        dl_managed plain;
    } managed;
    int64_t shape[1], strides[1];
    view *view; /* NULL: a copy, in the memory behind this */
} lent;

static void lent_free(lent *freed)
{
    if (freed->view) view_drop(freed->view);
    wgpy_free(freed);
}

static void plain_delete(dl_managed *self)
{
    lent_free(self->manager_ctx);
}

static void versioned_delete(dl_managed_versioned *self)
{
    lent_free(self->manager_ctx);
}

/* A capsule that a consumer took over has another name. */
static void plain_capsule_free(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, NAME_PLAIN))
        plain_delete(PyCapsule_GetPointer(capsule, NAME_PLAIN));
}

static void versioned_capsule_free(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, NAME_VERSIONED))
        versioned_delete(PyCapsule_GetPointer(capsule, NAME_VERSIONED));
}

/* NULL: no memory. */
static lent *lend(array *self, int is_copy, dl_tensor *tensor)
{
    size_t bytes = (size_t)(self->shape[0] * self->strides[0]);
    size_t room = is_copy ? bytes + COPY_ALIGN : 0;
    lent *made = wgpy_alloc(sizeof(*made) + room);

    if (!made) return NULL;
    *tensor = *tensor_of(self);
    made->shape[0] = self->shape[0];
    made->strides[0] = 1;
    tensor->shape = made->shape;
    tensor->strides = made->strides;
    made->view = NULL;
    if (is_copy) {
        uintptr_t after = (uintptr_t)(made + 1);

        tensor->data = (char *)(made + 1) + (COPY_ALIGN - after % COPY_ALIGN) % COPY_ALIGN;
        memcpy(tensor->data, tensor_of(self)->data, bytes);
    } else {
        made->view = self->view;
        atomic_fetch_add(&made->view->holders, 1);
    }
    return made;
}

static PyObject *capsule_of(array *self, int is_versioned, int is_copy)
{
    dl_tensor tensor;
    lent *made = lend(self, is_copy, &tensor);
    PyObject *capsule;

    if (!made) return PyErr_NoMemory();
    if (is_versioned) {
        made->managed.versioned = (dl_managed_versioned){
            .version = {DL_MAJOR, DL_MINOR},
            .manager_ctx = made,
            .deleter = versioned_delete,
            .flags = is_copy ? DL_FLAG_IS_COPIED : DL_FLAG_READ_ONLY,
            .tensor = tensor,
        };
        capsule = PyCapsule_New(&made->managed.versioned, NAME_VERSIONED, versioned_capsule_free);
    } else {
        made->managed.plain =
            (dl_managed){.tensor = tensor, .manager_ctx = made, .deleter = plain_delete};
        capsule = PyCapsule_New(&made->managed.plain, NAME_PLAIN, plain_capsule_free);
    }
    if (!capsule) lent_free(made);
    return capsule;
}

/* -1 with an exception set; else whether the consumer knows versions. */
static int knows_versions(PyObject *version)
{
    long major, minor;

    if (version == Py_None) return 0;
    if (!PyTuple_Check(version) || !PyArg_ParseTuple(version, "ll", &major, &minor)) {
        PyErr_Clear();
        PyErr_SetString(PyExc_TypeError, "max_version must be None or (major, minor)");
        return -1;
    }
    return major >= 1;
}

static int check_place(PyObject *stream, PyObject *device)
{
    if (stream != Py_None) {
        long number = PyLong_Check(stream) ? PyLong_AsLong(stream) : 0;

        if (number != -1 || PyErr_Occurred()) {
            PyErr_Clear();
            PyErr_SetString(PyExc_BufferError,
                            "this array is in the memory of the CPU, which has no streams: "
                            "stream must be None or -1");
            return -1;
        }
    }
    if (device != Py_None) {
        long type, index;

        if (!PyTuple_Check(device) || !PyArg_ParseTuple(device, "ll", &type, &index)) {
            PyErr_Clear();
            PyErr_SetString(PyExc_TypeError, "dl_device must be None or (device type, device id)");
            return -1;
        }
        if (type != DL_CPU || index != 0) {
            PyErr_Format(
                PyExc_BufferError,
                "this array is on the CPU, device (1, 0), and cannot be exported to device "
                "(%ld, %ld); import it, then move it",
                type, index);
            return -1;
        }
    }
    return 0;
}

static PyObject *array_dlpack(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    int is_versioned, is_copy = 0;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", names, &stream, &version,
                                     &device, &copy))
        return NULL;
    is_versioned = knows_versions(version);
    if (is_versioned < 0 || check_place(stream, device) != 0) return NULL;
    if (copy != Py_None) is_copy = PyObject_IsTrue(copy);
    if (is_copy < 0) return NULL;
    if (!is_versioned && !is_copy) {
        if (copy != Py_None) {
            PyErr_SetString(PyExc_BufferError,
                            "an array of a bin is read-only, which DLPack before 1.0 cannot say: "
                            "ask with max_version=(1, 0), or allow a copy");
            return NULL;
        }
        is_copy = 1;
    }
    return capsule_of((array *)object, is_versioned, is_copy);
}

static PyObject *array_dlpack_device(PyObject *object, PyObject *none)
{
    (void)object;
    (void)none;
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

/* ------------------------------------------------------------------------------------ sequence */

static Py_ssize_t array_length(PyObject *object)
{
    return ((array *)object)->shape[0];
}

static PyObject *array_item(PyObject *object, PyObject *key)
{
    PyObject *memory = PyMemoryView_FromObject(object);
    PyObject *item = memory ? PyObject_GetItem(memory, key) : NULL;

    Py_XDECREF(memory);
    return item;
}

static PyObject *array_iter(PyObject *object)
{
    PyObject *memory = PyMemoryView_FromObject(object);
    PyObject *iterator = memory ? PyObject_GetIter(memory) : NULL;

    Py_XDECREF(memory);
    return iterator;
}

static PyObject *array_tolist(PyObject *object, PyObject *none)
{
    PyObject *memory = PyMemoryView_FromObject(object);
    PyObject *list = memory ? PyObject_CallMethod(memory, "tolist", NULL) : NULL;

    (void)none;
    Py_XDECREF(memory);
    return list;
}

static PyObject *array_numpy(PyObject *object, PyObject *none)
{
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *made = numpy ? PyObject_CallMethod(numpy, "asarray", "O", object) : NULL;

    (void)none;
    Py_XDECREF(numpy);
    return made;
}

static const char *dtype_name(const array *self)
{
    return tensor_of(self)->dtype.bits == 64 ? "uint64" : "int32";
}

static PyObject *array_repr(PyObject *object)
{
    array *self = (array *)object;
    int is_long = self->shape[0] > REPR_ITEMS_MOST;
    PyObject *memory = PyMemoryView_FromObject(object);
    PyObject *part = memory ? PySequence_GetSlice(memory, 0, REPR_ITEMS_MOST) : NULL;
    PyObject *list = part ? PySequence_List(part) : NULL;
    PyObject *shown = list ? PyObject_Repr(list) : NULL;
    PyObject *text = NULL;

    if (shown && is_long) {
        PyObject *open = PyUnicode_Substring(shown, 0, PyUnicode_GetLength(shown) - 1);

        Py_DECREF(shown);
        shown = open ? PyUnicode_FromFormat("%U, ...]", open) : NULL;
        Py_XDECREF(open);
    }
    if (shown)
        text = PyUnicode_FromFormat("Array(%U, shape=(%zd,), dtype=%s)", shown, self->shape[0],
                                    dtype_name(self));
    Py_XDECREF(shown);
    Py_XDECREF(list);
    Py_XDECREF(part);
    Py_XDECREF(memory);
    return text;
}

static PyObject *array_shape(PyObject *object, void *none)
{
    (void)none;
    return Py_BuildValue("(n)", ((array *)object)->shape[0]);
}

static PyObject *array_dtype(PyObject *object, void *none)
{
    (void)none;
    return PyUnicode_FromString(dtype_name((array *)object));
}

/* ---------------------------------------------------------------------------------------- type */

PyDoc_STRVAR(array_doc,
             "One array of a bin, one-dimensional, read-only, in the bin's own memory.\n\n"
             "numpy.asarray(), memoryview() and from_dlpack() of torch, numpy, jax and cupy share\n"
             "that memory. While an Array or anything made from it lives, the bin's slot is kept,\n"
             "also after the bin was released and the engine closed.");
PyDoc_STRVAR(
    dlpack_doc,
    "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
    "A DLPack capsule. Shares memory, flagged read-only, with consumers that know\n"
    "max_version (1, 0); others get a copy, or a BufferError for copy=False. stream: None\n"
    "or -1; dl_device: None or (1, 0), the CPU.");

static PyMethodDef array_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS,
     dlpack_doc},
    {"__dlpack_device__", array_dlpack_device, METH_NOARGS, "(1, 0): the CPU."},
    {"tolist", array_tolist, METH_NOARGS, "A list of ints."},
    {"numpy", array_numpy, METH_NOARGS, "A read-only numpy.ndarray on the same memory."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef array_attributes[] = {
    {"shape", array_shape, NULL, "(length,)", NULL},
    {"dtype", array_dtype, NULL, "'int32' or 'uint64'", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot array_slots[] = {
    {Py_tp_doc, (void *)array_doc},
    WGPY_SLOT(Py_tp_dealloc, array_dealloc),
    WGPY_SLOT(Py_tp_repr, array_repr),
    WGPY_SLOT(Py_tp_iter, array_iter),
    {Py_tp_methods, array_methods},
    {Py_tp_getset, array_attributes},
    WGPY_SLOT(Py_sq_length, array_length),
    WGPY_SLOT(Py_mp_length, array_length),
    WGPY_SLOT(Py_mp_subscript, array_item),
    WGPY_SLOT(Py_bf_getbuffer, array_getbuffer),
    {0, NULL},
};

static PyType_Spec array_spec = {
    .name = "warpgroup.Array",
    .basicsize = sizeof(array),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = array_slots,
};

int wgpy_add_array(PyObject *module)
{
    array_type = (PyTypeObject *)PyType_FromSpec(&array_spec);
    if (!array_type) return -1;
    return PyModule_AddObjectRef(module, "Array", (PyObject *)array_type);
}
