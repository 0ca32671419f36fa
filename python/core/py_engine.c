/*
 * py_engine.c - type Engine: opening, taking bins, closing.
 *
 * Every call first tries without waiting, with the interpreter lock held: giving it up costs more
 * than a call that does not wait, and getting it back may cost 5 ms. Only a call that must wait
 * gives the lock up, for a slice at a time.
 *
 * Closing: who waits inside the engine is counted in `users`, and so is an ingest. close() stops
 * the engine, which wakes them; the last to leave frees it. So close() is safe at any moment and
 * never waits for other Python threads.
 *
 * A caller who keeps all bins would wait for ever for the next. The engine counts the slots that
 * are out; when all of them were out for a second, in which nothing was given back, next() says so.
 *
 * Refused: a consumer handle (wg_consumer) a Python thread. Bins here are given back when they are
 * dropped, so none is lost with a thread that ends.
 *
 * Threads: with the interpreter lock, which guards the object; waits and wg_engine_close without.
 */
#include "engine_object.h"

#define HELD_NS   UINT64_C(1000000000)
#define MS_NS     UINT64_C(1000000)
#define US_PER_MS 1000.0

static PyTypeObject *engine_type;

/* --------------------------------------------------------------------------------------- users */

wg_engine *wgpy_engine_handle(wgpy_engine *self)
{
    if (wgpy_check_generation(self->generation, "engine") != 0) return NULL;
    if (!self->is_closed) return self->engine;
    PyErr_SetString(wgpy_error[WGPY_CLOSED], "the engine was closed");
    return NULL;
}

static void close_if_unused(wgpy_engine *self)
{
    wg_engine *engine = self->engine;

    if (!self->is_closed || self->users > 0 || !engine) return;
    self->engine = NULL;
    Py_BEGIN_ALLOW_THREADS;
    wg_engine_close(engine); /* waits for the packer to leave, not for Python */
    Py_END_ALLOW_THREADS;
}

wg_engine *wgpy_engine_begin(wgpy_engine *self)
{
    wg_engine *engine = wgpy_engine_handle(self);

    if (engine) self->users++;
    return engine;
}

void wgpy_engine_end(wgpy_engine *self)
{
    self->users--;
    if (self->generation == wgpy_generation()) close_if_unused(self);
}

static wgpy_engine *engine_of(PyObject *object)
{
    if (PyObject_TypeCheck(object, engine_type)) return (wgpy_engine *)object;
    PyErr_SetString(PyExc_TypeError, "engine must be a warpgroup.Engine");
    return NULL;
}

wg_engine *wgpy_engine_of(PyObject *object)
{
    wgpy_engine *self = engine_of(object);

    return self ? wgpy_engine_handle(self) : NULL;
}

wg_engine *wgpy_engine_enter(PyObject *object)
{
    wgpy_engine *self = engine_of(object);

    return self ? wgpy_engine_begin(self) : NULL;
}

void wgpy_engine_leave(PyObject *object)
{
    wgpy_engine_end((wgpy_engine *)object);
}

/* ------------------------------------------------------------------------------------- opening */

/* A number of at least 0 and at most `most`; NULL leaves *out as it is. */
static int read_number(PyObject *object, const char *name, uint64_t most, uint64_t *out)
{
    PyObject *number = object ? PyNumber_Index(object) : NULL;
    unsigned long long value;

    if (!object) return 0;
    if (!number) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s must be an int, not %R", name, object);
        return -1;
    }
    value = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    if ((value == UINT64_MAX && PyErr_Occurred()) || value > most) {
        PyErr_Clear();
        PyErr_Format(wgpy_error[WGPY_ARGUMENT], "%s is %S: 0 to %llu are possible", name, object,
                     (unsigned long long)most);
        return -1;
    }
    *out = value;
    return 0;
}

static int read_window(PyObject *window, wg_engine_options *options)
{
    PyObject *sequences;
    uint64_t count = 0;
    double ms;

    if (!window) return 0;
    if (PyUnicode_Check(window) && PyUnicode_CompareWithASCIIString(window, "adaptive") == 0)
        return 0;
    if (!PyTuple_Check(window) || !PyArg_ParseTuple(window, "Od", &sequences, &ms)) {
        PyErr_Clear();
        PyErr_SetString(PyExc_TypeError, "window must be 'adaptive' or (sequences, milliseconds)");
        return -1;
    }
    if (read_number(sequences, "window: sequences", UINT32_MAX, &count) != 0) return -1;
    if (count < 1 || !(ms > 0.0) || ms * US_PER_MS > (double)UINT32_MAX) {
        PyErr_SetString(wgpy_error[WGPY_ARGUMENT],
                        "window: at least one sequence and more than 0 milliseconds");
        return -1;
    }
    options->window = WG_WINDOW_FIXED;
    options->window_sequences = (uint32_t)count;
    options->window_us = ms * US_PER_MS < 1.0 ? 1 : (uint32_t)(ms * US_PER_MS);
    return 0;
}

static int read_class(PyObject *item, Py_ssize_t i, wg_engine_class *out)
{
    static const char *const names[] = {"priority", "tokens per second", "burst in milliseconds"};
    PyObject *given[3] = {NULL};
    uint64_t numbers[3] = {0};

    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "O|OO", &given[0], &given[1], &given[2])) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError,
                     "classes[%zd] must be a tuple (priority, tokens per second, burst in "
                     "milliseconds), the last two optional",
                     i);
        return -1;
    }
    for (int k = 0; k < 3; k++) {
        char name[64];

        (void)PyOS_snprintf(name, sizeof(name), "classes[%zd]: %s", i, names[k]);
        if (read_number(given[k], name, k == 1 ? UINT64_MAX : UINT32_MAX, &numbers[k]) != 0)
            return -1;
    }
    *out = (wg_engine_class){.priority = (uint32_t)numbers[0],
                             .tokens_per_s = numbers[1],
                             .burst_ms = (uint32_t)numbers[2]};
    return 0;
}

static int read_classes(PyObject *object, wg_engine_class *classes, wg_engine_options *options)
{
    PyObject *tuple;
    Py_ssize_t count;
    int result = -1;

    if (!object || object == Py_None) return 0;
    tuple = PySequence_Tuple(object);
    if (!tuple) return -1;
    count = PyTuple_Size(tuple);
    if (count > WG_ENGINE_CLASSES_MAX) {
        PyErr_Format(wgpy_error[WGPY_ARGUMENT], "%zd classes: at most %d are possible", count,
                     WG_ENGINE_CLASSES_MAX);
        goto cleanup;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (read_class(PyTuple_GetItem(tuple, i), i, &classes[i]) != 0) goto cleanup;
    options->classes = count > 0 ? classes : NULL;
    options->class_count = (uint32_t)count;
    result = 0;

cleanup:
    Py_DECREF(tuple);
    return result;
}

static int read_options(PyObject *args, PyObject *keywords, wg_engine_options *options,
                        wg_engine_class *classes)
{
    static char *names[] = {
        "capacity",        "slots",    "workers", "max_sequences", "lookahead", "pending_bytes",
        "position_offset", "multiple", "window",  "classes",       NULL};
    enum { CAPACITY, SLOTS, WORKERS, SEQUENCES, LOOKAHEAD, PENDING, OFFSET, MULTIPLE, NUMBERS };
    PyObject *given[NUMBERS] = {NULL}, *window = NULL, *class_list = NULL;
    uint64_t numbers[NUMBERS] = {[WORKERS] = 1};

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$OOOOOOOOO:Engine", names, &given[CAPACITY],
                                     &given[SLOTS], &given[WORKERS], &given[SEQUENCES],
                                     &given[LOOKAHEAD], &given[PENDING], &given[OFFSET],
                                     &given[MULTIPLE], &window, &class_list))
        return -1;
    for (int i = 0; i < NUMBERS; i++) {
        int is_wide = i == SEQUENCES || i == LOOKAHEAD || i == PENDING;
        int is_signed = i == CAPACITY || i == OFFSET;
        uint64_t most = is_wide ? UINT64_MAX : is_signed ? INT32_MAX : UINT32_MAX;

        if (read_number(given[i], names[i], most, &numbers[i]) != 0) return -1;
    }
    options->bin_tokens = numbers[CAPACITY];
    options->slot_count = (uint32_t)numbers[SLOTS];
    options->worker_count = (uint32_t)numbers[WORKERS];
    options->bin_sequences = numbers[SEQUENCES];
    options->lookahead_tokens = numbers[LOOKAHEAD];
    options->pending_bytes = numbers[PENDING];
    options->position_offset = (uint32_t)numbers[OFFSET];
    options->token_multiple = (uint32_t)numbers[MULTIPLE];
    if (read_window(window, options) != 0) return -1;
    return read_classes(class_list, classes, options);
}

static PyObject *engine_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    wg_engine_class classes[WG_ENGINE_CLASSES_MAX];
    wg_engine_options options = {0};
    wg_engine *engine = NULL;
    wg_status status;
    wg_error err = {0};
    wgpy_engine *self;

    if (read_options(args, keywords, &options, classes) != 0) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = wg_engine_open(&engine, &options, &err);
    Py_END_ALLOW_THREADS;
    if (status != WG_OK) return wgpy_raise(&err);
    self = PyObject_New(wgpy_engine, type);
    if (!self) {
        wg_engine_close(engine);
        return NULL;
    }
    self->engine = engine;
    self->generation = wgpy_generation();
    self->class_count = options.class_count > 0 ? options.class_count : 1;
    self->users = 0;
    self->is_closed = 0;
    self->next_id = 0;
    self->watch = (wgpy_watch){0};
    self->bin_tokens = options.bin_tokens;
    if (options.token_multiple > 1) self->bin_tokens -= self->bin_tokens % options.token_multiple;
    return (PyObject *)self;
}

/* ------------------------------------------------------------------------------------- closing */

static void engine_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    wgpy_engine *self = (wgpy_engine *)object;

    self->is_closed = 1;
    if (self->generation == wgpy_generation()) close_if_unused(self);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *engine_close(PyObject *object, PyObject *none)
{
    wgpy_engine *self = (wgpy_engine *)object;
    wg_error err = {0};

    (void)none;
    if (wgpy_check_generation(self->generation, "engine") != 0) return NULL;
    if (!self->is_closed) {
        self->is_closed = 1;
        if (wg_engine_stop(self->engine, &err) != WG_OK) return wgpy_raise(&err);
        close_if_unused(self);
    }
    Py_RETURN_NONE;
}

static PyObject *engine_enter(PyObject *object, PyObject *none)
{
    (void)none;
    if (!wgpy_engine_handle((wgpy_engine *)object)) return NULL;
    return Py_NewRef(object);
}

static PyObject *engine_exit(PyObject *object, PyObject *args)
{
    (void)args;
    if (((wgpy_engine *)object)->generation != wgpy_generation()) Py_RETURN_NONE;
    return engine_close(object, NULL);
}

/* ------------------------------------------------------------------------------- short commands */

static PyObject *command(PyObject *object, wg_status (*call)(wg_engine *, wg_error *))
{
    wg_engine *engine = wgpy_engine_handle((wgpy_engine *)object);
    wg_error err = {0};

    if (!engine) return NULL;
    if (call(engine, &err) != WG_OK) return wgpy_raise(&err);
    Py_RETURN_NONE;
}

static PyObject *engine_finish(PyObject *object, PyObject *none)
{
    (void)none;
    return command(object, wg_engine_finish);
}

static PyObject *engine_flush(PyObject *object, PyObject *none)
{
    (void)none;
    return command(object, wg_engine_flush);
}

static PyObject *engine_stop(PyObject *object, PyObject *none)
{
    (void)none;
    return command(object, wg_engine_stop);
}

/* ------------------------------------------------------------------------------------ taking */

static int raise_held(const wg_engine_stats *stats)
{
    PyErr_Format(
        wgpy_error[WGPY_SLOTS_HELD],
        "all %u slots of the engine are kept and none is left for the next bin: %u by bins "
        "that were not given back, %u by arrays (or tensors made of them) of bins that "
        "were. Drop or copy them before the next bin is asked for, or open the engine "
        "with more slots=, or with workers= as many as there are consumers",
        (unsigned)stats->slot_count, (unsigned)stats->slots_taken, (unsigned)stats->slots_exported);
    return -1;
}

/* -1 with an exception set when nothing has moved for too long. */
static int check_slots(wg_engine *engine, wgpy_watch *seen, uint64_t now)
{
    wg_engine_stats stats;
    wg_error err = {0};

    if (wg_engine_statistics(engine, &stats, &err) != WG_OK) {
        (void)wgpy_raise(&err);
        return -1;
    }
    if (stats.slots_taken + stats.slots_exported < stats.slot_count ||
        stats.tokens_in == stats.tokens_out || seen->since == 0 ||
        stats.sequences_done != seen->done || stats.bins_out != seen->bins ||
        stats.bins_failed != seen->failed) {
        *seen = (wgpy_watch){now, stats.sequences_done, stats.bins_out, stats.bins_failed};
        return 0;
    }
    return now - seen->since >= HELD_NS ? raise_held(&stats) : 0;
}

/* 1: *bin was filled; 0: drained; -1: an exception is set. */
static int wait_for_bin(wg_engine *engine, wgpy_watch *seen, uint64_t timeout_ns, wg_bin *bin)
{
    uint64_t begin = wgpy_clock_ns(), now = begin;

    for (;;) {
        uint64_t left = timeout_ns == WG_FOREVER ? WG_FOREVER : timeout_ns - (now - begin);
        uint64_t slice = left < WGPY_SLICE_NS ? left : WGPY_SLICE_NS;
        wg_next next = WG_NEXT_NONE;
        wg_error err = {0};
        wg_status status;

        Py_BEGIN_ALLOW_THREADS;
        status = wg_engine_next(engine, NULL, slice, bin, &next, &err);
        Py_END_ALLOW_THREADS;
        if (status != WG_OK) {
            (void)wgpy_raise(&err);
            return -1;
        }
        if (next != WG_NEXT_NONE) return next == WG_NEXT_BIN;
        if (PyErr_CheckSignals() != 0) return -1;
        now = wgpy_clock_ns();
        if (check_slots(engine, seen, now) != 0) return -1;
        if (timeout_ns != WG_FOREVER && now - begin >= timeout_ns) {
            PyErr_SetString(PyExc_TimeoutError, "no bin was ready within the timeout");
            return -1;
        }
    }
}

/* A Bin; NULL without an exception when drained. */
static PyObject *take(wgpy_engine *self, uint64_t timeout_ns)
{
    wg_engine *engine = wgpy_engine_begin(self);
    PyObject *made = NULL;
    wg_next next;
    wg_error err = {0};
    wg_bin bin;
    int has_bin;

    if (!engine) return NULL;
    if (wg_engine_next(engine, NULL, 0, &bin, &next, &err) != WG_OK) {
        (void)wgpy_raise(&err);
        has_bin = -1;
    } else if (next == WG_NEXT_NONE) {
        has_bin = wait_for_bin(engine, &self->watch, timeout_ns, &bin);
    } else {
        has_bin = next == WG_NEXT_BIN;
    }
    if (has_bin > 0) made = wgpy_bin_new(engine, &bin);
    wgpy_engine_end(self);
    return made;
}

static PyObject *engine_next(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"timeout", NULL};
    PyObject *timeout = NULL, *bin;
    uint64_t timeout_ns;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:next", names, &timeout)) return NULL;
    if (wgpy_seconds_get(timeout, "timeout", &timeout_ns) != 0) return NULL;
    bin = take((wgpy_engine *)object, timeout_ns);
    if (!bin && !PyErr_Occurred()) Py_RETURN_NONE;
    return bin;
}

static PyObject *engine_iternext(PyObject *object)
{
    return take((wgpy_engine *)object, WG_FOREVER);
}

/* --------------------------------------------------------------------------------- attributes */

static PyObject *engine_is_drained(PyObject *object, void *none)
{
    wg_engine *engine = wgpy_engine_handle((wgpy_engine *)object);
    wg_engine_stats stats;
    wg_error err = {0};

    (void)none;
    if (!engine) return NULL;
    if (wg_engine_statistics(engine, &stats, &err) != WG_OK) return wgpy_raise(&err);
    return PyBool_FromLong(stats.is_drained);
}

static PyObject *engine_capacity(PyObject *object, void *none)
{
    (void)none;
    return PyLong_FromUnsignedLongLong(((wgpy_engine *)object)->bin_tokens);
}

static PyObject *engine_closed(PyObject *object, void *none)
{
    (void)none;
    return PyBool_FromLong(((wgpy_engine *)object)->is_closed);
}

static PyObject *engine_repr(PyObject *object)
{
    const wgpy_engine *self = (const wgpy_engine *)object;

    return PyUnicode_FromFormat("<warpgroup.Engine of bins of %llu tokens%s>",
                                (unsigned long long)self->bin_tokens,
                                self->is_closed ? ", closed" : "");
}

/* --------------------------------------------------------------------------------------- type */

PyDoc_STRVAR(
    engine_doc,
    "Engine(capacity, *, slots=0, workers=1, max_sequences=0, lookahead=0, pending_bytes=0,\n"
    "       position_offset=0, window='adaptive', classes=None, multiple=1)\n--\n\n"
    "Token ids in, packed bins out. The types in _core.pyi say what each argument is.");
PyDoc_STRVAR(submit_doc,
             "submit(ids, id=None, priority=0, deadline=None, type_ids=None)\n--\n\n"
             "Queues one sequence (copied) and returns its id; waits while the queue is full.");
PyDoc_STRVAR(submit_many_doc,
             "submit_many(ids, cu_seqlens, sequence_ids=None, priority=0, deadline=None, "
             "type_ids=None)\n--\n\n"
             "Queues many at once, without the interpreter lock; sequence i is\n"
             "ids[cu_seqlens[i]:cu_seqlens[i + 1]]. Returns the range of running numbers, or None\n"
             "with ids of the caller's.");
PyDoc_STRVAR(next_doc,
             "next(timeout=None)\n--\n\n"
             "The next Bin, or None when the input is finished and all bins were handed out.");

static PyMethodDef engine_methods[] = {
    {"submit", (PyCFunction)(void (*)(void))wgpy_engine_submit, METH_VARARGS | METH_KEYWORDS,
     submit_doc},
    {"submit_many", (PyCFunction)(void (*)(void))wgpy_engine_submit_many,
     METH_VARARGS | METH_KEYWORDS, submit_many_doc},
    {"next", (PyCFunction)(void (*)(void))engine_next, METH_VARARGS | METH_KEYWORDS, next_doc},
    {"finish", engine_finish, METH_NOARGS,
     "finish()\n--\n\nNo more input: what is pending is packed and handed out."},
    {"flush", engine_flush, METH_NOARGS,
     "flush()\n--\n\nWhat is pending goes out without waiting for company."},
    {"stop", engine_stop, METH_NOARGS,
     "stop()\n--\n\nGives up: submissions and next() raise ClosedError, who waits is woken."},
    {"stats", wgpy_engine_stats, METH_NOARGS, "stats()\n--\n\nA dict of counters."},
    {"close", engine_close, METH_NOARGS,
     "close()\n--\n\nStops and frees the engine. Bins and arrays that are held stay valid."},
    {"__enter__", engine_enter, METH_NOARGS, NULL},
    {"__exit__", engine_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef engine_attributes[] = {
    {"is_drained", engine_is_drained, NULL,
     "True once the input is finished and the last bin was handed out", NULL},
    {"capacity", engine_capacity, NULL, "tokens of a bin", NULL},
    {"closed", engine_closed, NULL, "whether close() was called", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot engine_slots[] = {
    {Py_tp_doc, (void *)engine_doc},
    WGPY_SLOT(Py_tp_new, engine_new),
    WGPY_SLOT(Py_tp_dealloc, engine_dealloc),
    WGPY_SLOT(Py_tp_repr, engine_repr),
    WGPY_SLOT(Py_tp_iter, PyObject_SelfIter),
    WGPY_SLOT(Py_tp_iternext, engine_iternext),
    {Py_tp_methods, engine_methods},
    {Py_tp_getset, engine_attributes},
    {0, NULL},
};

static PyType_Spec engine_spec = {
    .name = "warpgroup.Engine",
    .basicsize = sizeof(wgpy_engine),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = engine_slots,
};

int wgpy_add_engine(PyObject *module)
{
    engine_type = (PyTypeObject *)PyType_FromSpec(&engine_spec);
    if (!engine_type) return -1;
    return PyModule_AddObjectRef(module, "Engine", (PyObject *)engine_type);
}
