/*
 * bin.c - type Bin: a bin that was handed out.
 *
 * A Bin gives its bin back once: by release(), at the end of a with block, by fail(), or when it is
 * dropped. Its numbers stay readable afterwards, and so do the Arrays that were taken from it, each
 * of which keeps the slot. Arrays are made on first access and kept, so that `bin.input_ids` costs
 * an export once.
 *
 * The engine's handle is borrowed without a reference to the Engine object: a bin that is out keeps
 * the engine's memory, whoever closes it (engine.h, wg_engine_close).
 *
 * Threads: with the interpreter lock. Giving back takes the engine's mutex, which no thread holds
 * for longer than a few stores, and never while it waits for the interpreter lock. After fork
 * nothing is given back in the child.
 */
#include "core.h"

#define ARRAY_COUNT ((int)WG_ARRAY_SEQUENCE_IDS + 1)

typedef struct bin {
    PyObject_HEAD wg_engine *engine;
    wg_bin view;
    uint32_t generation;
    int is_held; /* to be given back */
    PyObject *arrays[ARRAY_COUNT];
} bin;

static PyTypeObject *bin_type;

PyObject *wgpy_bin_new(wg_engine *engine, const wg_bin *view)
{
    bin *self = PyObject_New(bin, bin_type);

    if (!self) {
        int is_given_up = 0;
        wg_error err = {0};

        /* Its sequences come again; one that failed alone too often is given back as it is. */
        if (wg_engine_fail(engine, view, WG_FAULT_OTHER, &is_given_up, &err) == WG_OK &&
            is_given_up)
            (void)!wg_engine_release(engine, view, &err);
        return NULL;
    }
    self->engine = engine;
    self->view = *view;
    self->generation = wgpy_generation();
    self->is_held = 1;
    for (int i = 0; i < ARRAY_COUNT; i++)
        self->arrays[i] = NULL;
    return (PyObject *)self;
}

static void drop_arrays(bin *self)
{
    for (int i = 0; i < ARRAY_COUNT; i++)
        Py_CLEAR(self->arrays[i]);
}

static void bin_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    bin *self = (bin *)object;
    wg_error err;

    drop_arrays(self);
    if (self->is_held && self->generation == wgpy_generation())
        (void)!wg_engine_release(self->engine, &self->view, &err);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ------------------------------------------------------------------------------- giving back */

static int check_held(const bin *self)
{
    if (wgpy_check_generation(self->generation, "bin") != 0) return -1;
    if (self->is_held) return 0;
    PyErr_SetString(wgpy_error[WGPY_CLOSED],
                    "the bin was given back; take its arrays before, they stay valid");
    return -1;
}

static PyObject *bin_release(PyObject *object, PyObject *none)
{
    bin *self = (bin *)object;
    wg_error err = {0};

    (void)none;
    if (wgpy_check_generation(self->generation, "bin") != 0) return NULL;
    if (self->is_held) {
        self->is_held = 0;
        drop_arrays(self);
        if (wg_engine_release(self->engine, &self->view, &err) != WG_OK) return wgpy_raise(&err);
    }
    Py_RETURN_NONE;
}

static PyObject *bin_fail(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"memory", NULL};
    bin *self = (bin *)object;
    int is_memory = 0, is_given_up = 0;
    wg_error err = {0};

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|p:fail", names, &is_memory)) return NULL;
    if (check_held(self) != 0) return NULL;
    if (wg_engine_fail(self->engine, &self->view, is_memory ? WG_FAULT_MEMORY : WG_FAULT_OTHER,
                       &is_given_up, &err) != WG_OK)
        return wgpy_raise(&err);
    if (!is_given_up) {
        self->is_held = 0;
        drop_arrays(self);
    }
    return PyBool_FromLong(is_given_up);
}

static PyObject *bin_enter(PyObject *object, PyObject *none)
{
    (void)none;
    if (check_held((bin *)object) != 0) return NULL;
    return Py_NewRef(object);
}

static PyObject *bin_exit(PyObject *object, PyObject *args)
{
    (void)args;
    if (((bin *)object)->generation != wgpy_generation()) Py_RETURN_NONE;
    return bin_release(object, NULL);
}

/* --------------------------------------------------------------------------------- attributes */

static PyObject *bin_array(PyObject *object, void *which)
{
    bin *self = (bin *)object;
    int i = (int)(intptr_t)which;

    if (!self->arrays[i]) {
        if (check_held(self) != 0) return NULL;
        self->arrays[i] = wgpy_array_new(self->engine, &self->view, (wg_bin_array)i);
    }
    return Py_XNewRef(self->arrays[i]);
}

static PyObject *bin_max_seqlen(PyObject *object, void *none)
{
    (void)none;
    return PyLong_FromUnsignedLongLong(((bin *)object)->view.longest);
}

static PyObject *bin_token_count(PyObject *object, void *none)
{
    (void)none;
    return PyLong_FromUnsignedLongLong(((bin *)object)->view.token_count);
}

static PyObject *bin_row_count(PyObject *object, void *none)
{
    (void)none;
    return PyLong_FromUnsignedLongLong(((bin *)object)->view.row_count);
}

static PyObject *bin_is_released(PyObject *object, void *none)
{
    (void)none;
    return PyBool_FromLong(!((bin *)object)->is_held);
}

static Py_ssize_t bin_length(PyObject *object)
{
    return (Py_ssize_t)((bin *)object)->view.sequence_count;
}

/* A bin is true, whatever its length: `while bin := engine.next()` must not depend on it. */
static int bin_bool(PyObject *object)
{
    (void)object;
    return 1;
}

static PyObject *bin_repr(PyObject *object)
{
    const bin *self = (const bin *)object;

    return PyUnicode_FromFormat("<warpgroup.Bin of %zd sequences, %llu tokens, longest %llu%s>",
                                bin_length(object), (unsigned long long)self->view.token_count,
                                (unsigned long long)self->view.longest,
                                self->is_held ? "" : ", given back");
}

/* --------------------------------------------------------------------------------------- type */

PyDoc_STRVAR(
    bin_doc,
    "Sequences packed end to end: T tokens, S sequences (len(bin)), no padding between.\n\n"
    "A Bin is given back to the engine by release(), at the end of a with block, by fail(),\n"
    "or when it is dropped. Arrays taken from it stay valid and keep its slot.");
PyDoc_STRVAR(release_doc, "release()\n--\n\nThe bin is done. Again: no effect.");
PyDoc_STRVAR(
    fail_doc,
    "fail(memory=False)\n--\n\n"
    "The bin could not be done. False: it was taken back, and its sequences are handed out\n"
    "again: halved at once for memory=True, else whole first. True: it holds one sequence\n"
    "that fails alone; read its id, report it, and release the bin.");

static PyMethodDef bin_methods[] = {
    {"release", bin_release, METH_NOARGS, release_doc},
    {"fail", (PyCFunction)(void (*)(void))bin_fail, METH_VARARGS | METH_KEYWORDS, fail_doc},
    {"__enter__", bin_enter, METH_NOARGS, NULL},
    {"__exit__", bin_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

#define ARRAY(name, which, doc)                               \
    {                                                         \
        name, bin_array, NULL, doc, (void *)(intptr_t)(which) \
    }

static PyGetSetDef bin_attributes[] = {
    ARRAY("input_ids", WG_ARRAY_TOKEN_IDS, "token ids, int32 [row_count]"),
    ARRAY("token_type_ids", WG_ARRAY_TYPE_IDS, "token types, int32 [row_count]"),
    ARRAY("position_ids", WG_ARRAY_POSITION_IDS,
          "position_offset, position_offset + 1, ... anew in each sequence, int32 [row_count]"),
    ARRAY("cu_seqlens", WG_ARRAY_CU_SEQLENS,
          "where sequences begin, and the end of the last, int32 [S + 1]"),
    ARRAY("ids", WG_ARRAY_SEQUENCE_IDS, "ids of the sequences as submitted, uint64 [S]"),
    {"max_seqlen", bin_max_seqlen, NULL, "tokens of the longest sequence", NULL},
    {"token_count", bin_token_count, NULL, "T: tokens of all sequences", NULL},
    {"row_count", bin_row_count, NULL,
     "T rounded up to the engine's multiple; rows from T on are nobody's", NULL},
    {"is_released", bin_is_released, NULL, "whether the bin was given back", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot bin_slots[] = {
    {Py_tp_doc, (void *)bin_doc},    WGPY_SLOT(Py_tp_dealloc, bin_dealloc),
    WGPY_SLOT(Py_tp_repr, bin_repr), {Py_tp_methods, bin_methods},
    {Py_tp_getset, bin_attributes},  WGPY_SLOT(Py_sq_length, bin_length),
    WGPY_SLOT(Py_nb_bool, bin_bool), {0, NULL},
};

static PyType_Spec bin_spec = {
    .name = "warpgroup.Bin",
    .basicsize = sizeof(bin),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = bin_slots,
};

int wgpy_add_bin(PyObject *module)
{
    bin_type = (PyTypeObject *)PyType_FromSpec(&bin_spec);
    if (!bin_type) return -1;
    return PyModule_AddObjectRef(module, "Bin", (PyObject *)bin_type);
}
