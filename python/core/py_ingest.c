/*
 * py_ingest.c - type Ingest: files into an Engine by the threads of the C library.
 *
 * What became of each document is told on a thread that must not touch Python: it is copied into
 * plain memory, and poll() hands it over as tuples. The package makes names and numbers of them.
 *
 * An ingest is a user of its engine (see core.h): Engine.close() stops the engine, the ingest ends
 * with that status, and the engine is freed when the ingest is. Closing asks the threads to stop
 * and waits for them without the interpreter lock, so it cannot wait for a Python thread; who waits
 * in wait() meanwhile is counted in `users`, and the last to leave frees.
 *
 * Refused: handing Python objects over as they come. Every document would wait for the lock.
 *
 * Threads: with the interpreter lock, which guards the object; the told documents have a lock of
 * their own.
 */
#include "core.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "warpgroup/ingest.h"

/* One document; its three texts follow it. */
typedef struct told {
    struct told *next;
    uint64_t sequence_id, place, token_count;
    size_t id_bytes, source_bytes, reason_bytes;
    wg_place place_kind;
    wg_failure failure;
    int is_truncated;
    char text[];
} told;

typedef struct told_list {
    told *first, **end; /* end: where the next one is hung */
    Py_ssize_t count;
} told_list;

typedef struct ingest {
    PyObject_HEAD wg_ingest *handle; /* NULL: freed */
    PyObject *engine, *tokenizer;    /* kept alive; tokenizer may be NULL */
    PyObject *kept;                  /* list of what the options point into */
    char **inputs;                   /* borrowed from `kept` */
    uint32_t generation;
    unsigned users; /* calls without the interpreter lock; guarded by it */
    int is_closed, has_engine, is_done;
    wg_ingest_counts counts; /* when it was freed */
    wg_error end;            /* status and sentence then */

    int has_lock;
    pthread_mutex_t lock;
    told_list list;  /* guarded by `lock` */
    uint64_t untold; /* guarded by `lock`: there was no memory to tell them */
} ingest;

/* ------------------------------------------------------------------------- told on a C thread */

static char *put(char *at, const char *bytes, size_t count)
{
    if (count) memcpy(at, bytes, count);
    return at + count;
}

static void tell(void *context, const wg_ingested *document)
{
    ingest *self = context;
    size_t reason_bytes = strlen(document->reason);
    told *item =
        wgpy_alloc(sizeof(*item) + document->id_bytes + document->source_bytes + reason_bytes);

    if (item) {
        *item = (told){.sequence_id = document->sequence_id,
                       .place = document->place,
                       .token_count = document->token_count,
                       .id_bytes = document->id_bytes,
                       .source_bytes = document->source_bytes,
                       .reason_bytes = reason_bytes,
                       .place_kind = document->place_kind,
                       .failure = document->failure,
                       .is_truncated = document->is_truncated};
        char *at = put(item->text, document->id, document->id_bytes);
        at = put(at, document->source, document->source_bytes);
        (void)put(at, document->reason, reason_bytes);
    }
    (void)pthread_mutex_lock(&self->lock);
    if (item) {
        *self->list.end = item;
        self->list.end = &item->next;
        self->list.count++;
    } else {
        self->untold++;
    }
    (void)pthread_mutex_unlock(&self->lock);
}

static void list_free(told *item)
{
    while (item) {
        told *next = item->next;

        wgpy_free(item);
        item = next;
    }
}

/* --------------------------------------------------------------------------------------- users */

static wg_ingest *begin(ingest *self)
{
    if (wgpy_check_generation(self->generation, "ingest") != 0) return NULL;
    if (self->is_closed) {
        PyErr_SetString(wgpy_error[WGPY_CLOSED], "the ingest was closed");
        return NULL;
    }
    self->users++;
    return self->handle;
}

static void close_if_unused(ingest *self)
{
    wg_ingest *handle = self->handle;

    if (!self->is_closed || self->users > 0) return;
    self->handle = NULL;
    if (handle) {
        wg_ingest_counts counts;
        wg_error why = {0};
        int is_done = 0;

        Py_BEGIN_ALLOW_THREADS;
        wg_ingest_stop(handle);
        why.status = wg_ingest_wait(handle, WG_FOREVER, &is_done, &why);
        counts = wg_ingest_counted(handle);
        wg_ingest_close(handle);
        Py_END_ALLOW_THREADS;
        self->counts = counts;
        self->end = why;
        self->is_done = is_done;
    }
    if (self->has_engine) wgpy_engine_leave(self->engine);
    self->has_engine = 0;
}

static void end(ingest *self)
{
    self->users--;
    if (self->generation == wgpy_generation()) close_if_unused(self);
}

/* ------------------------------------------------------------------------------------- opening */

/* UTF-8 of a str or None; kept alive by the object. -1 with an exception set. */
static int keep_text(ingest *self, PyObject *object, const char *name, const char **out)
{
    *out = NULL;
    if (!object || object == Py_None) return 0;
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s must be a str or None", name);
        return -1;
    }
    Py_ssize_t count;
    *out = PyUnicode_AsUTF8AndSize(object, &count);
    if (!*out) return -1;
    if (strlen(*out) != (size_t)count) {
        PyErr_Format(wgpy_error[WGPY_ARGUMENT], "%s holds a NUL character", name);
        return -1;
    }
    return PyList_Append(self->kept, object);
}

static int keep_paths(ingest *self, PyObject *paths, wg_reader_options *input)
{
    PyObject *tuple = PySequence_Tuple(paths);
    Py_ssize_t count;
    int result = -1;

    if (!tuple) return -1;
    count = PyTuple_Size(tuple);
    self->inputs = wgpy_alloc((size_t)count * sizeof(*self->inputs));
    if (!self->inputs) {
        (void)PyErr_NoMemory();
        goto cleanup;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *bytes = NULL;

        if (!PyUnicode_FSConverter(PyTuple_GetItem(tuple, i), &bytes)) goto cleanup;
        self->inputs[i] = PyBytes_AsString(bytes);
        result = PyList_Append(self->kept, bytes);
        Py_DECREF(bytes);
        if (result != 0) goto cleanup;
        result = -1;
    }
    input->inputs = (const char *const *)self->inputs;
    input->input_count = (size_t)count;
    result = 0;

cleanup:
    Py_DECREF(tuple);
    return result;
}

static int format_get(const char *name, wg_format *out)
{
    static const char *const names[] = {[WG_FORMAT_AUTO] = "auto",
                                        [WG_FORMAT_TEXT] = "text",
                                        [WG_FORMAT_JSONL] = "jsonl",
                                        [WG_FORMAT_PDF] = "pdf"};

    for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (wg_format)i;
        return 0;
    }
    PyErr_Format(wgpy_error[WGPY_ARGUMENT], "format '%s': use 'auto', 'text', 'jsonl' or 'pdf'",
                 name);
    return -1;
}

/* What the caller gave, checked as far as Python's types go. */
typedef struct arguments {
    PyObject *engine, *tokenizer, *paths;
    PyObject *text_field, *id_field, *ids_field, *prompt, *pdf_password;
    const char *truncate, *format;
    Py_ssize_t max_length;
    int lines, keep_open, no_special_tokens, plain_specials;
    unsigned threads, class_index;
    unsigned long long first_id;
} arguments;

static int arguments_get(PyObject *args, PyObject *keywords, arguments *a)
{
    static char *names[] = {
        "engine",         "paths",      "tokenizer",    "text_field", "id_field",
        "ids_field",      "max_length", "truncate",     "prompt",     "lines",
        "format",         "threads",    "first_id",     "keep_open",  "no_special_tokens",
        "plain_specials", "priority",   "pdf_password", NULL};

    *a = (arguments){.truncate = "head", .format = "auto"};
    return PyArg_ParseTupleAndKeywords(
        args, keywords, "OOO|$OOOnsOpsIKpppIO:Ingest", names, &a->engine, &a->paths, &a->tokenizer,
        &a->text_field, &a->id_field, &a->ids_field, &a->max_length, &a->truncate, &a->prompt,
        &a->lines, &a->format, &a->threads, &a->first_id, &a->keep_open, &a->no_special_tokens,
        &a->plain_specials, &a->class_index, &a->pdf_password);
}

/* Fills the options; everything that they point into is the object's. */
static int options_get(ingest *self, const arguments *a, wg_ingest_options *options)
{
    *options = (wg_ingest_options){
        .input = {.lines = a->lines},
        .encode = {.no_special_tokens = a->no_special_tokens, .plain_specials = a->plain_specials},
        .first_id = a->first_id,
        .class_index = a->class_index,
        .thread_count = a->threads,
        .keep_open = a->keep_open,
        .document = tell,
        .context = self,
    };
    if (a->max_length < 0) {
        PyErr_Format(wgpy_error[WGPY_ARGUMENT], "max_length %zd is below 0", a->max_length);
        return -1;
    }
    options->encode.token_count_max = (size_t)a->max_length;
    if (wgpy_truncate_get(a->truncate, &options->encode.truncate) != 0 ||
        format_get(a->format, &options->input.format) != 0 ||
        keep_paths(self, a->paths, &options->input) != 0 ||
        keep_text(self, a->text_field, "text_field", &options->input.text_field) != 0 ||
        keep_text(self, a->id_field, "id_field", &options->input.id_field) != 0 ||
        keep_text(self, a->ids_field, "ids_field", &options->input.ids_field) != 0 ||
        keep_text(self, a->pdf_password, "pdf_password", &options->input.pdf_password) != 0 ||
        keep_text(self, a->prompt, "prompt", &options->prompt) != 0)
        return -1;
    if (a->tokenizer == Py_None) return 0;
    options->tokenizer = wgpy_tokenizer_of(a->tokenizer);
    if (!options->tokenizer) return -1;
    self->tokenizer = Py_NewRef(a->tokenizer);
    return 0;
}

static PyObject *ingest_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    allocfunc allocate = (allocfunc)(uintptr_t)PyType_GetSlot(type, Py_tp_alloc);
    wg_ingest_options options;
    wg_status status;
    wg_error err = {0};
    arguments given;
    ingest *self;

    if (!arguments_get(args, keywords, &given)) return NULL;
    self = (ingest *)allocate(type, 0);
    if (!self) return NULL;
    self->generation = wgpy_generation();
    self->is_closed = 1;
    self->list.end = &self->list.first;
    if (pthread_mutex_init(&self->lock, NULL) != 0) {
        (void)PyErr_NoMemory();
        goto failed;
    }
    self->has_lock = 1;
    self->kept = PyList_New(0);
    if (!self->kept || options_get(self, &given, &options) != 0) goto failed;
    options.engine = wgpy_engine_enter(given.engine);
    if (!options.engine) goto failed;
    self->engine = Py_NewRef(given.engine);
    self->has_engine = 1;
    Py_BEGIN_ALLOW_THREADS;
    status = wg_ingest_open(&self->handle, &options, &err);
    Py_END_ALLOW_THREADS;
    if (status != WG_OK) {
        (void)wgpy_raise(&err);
        goto failed;
    }
    self->is_closed = 0;
    return (PyObject *)self;

failed:
    Py_DECREF(self);
    return NULL;
}

/* ------------------------------------------------------------------------------------- closing */

static void ingest_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)(uintptr_t)PyType_GetSlot(type, Py_tp_free);
    ingest *self = (ingest *)object;
    int is_ours = self->generation == wgpy_generation();

    self->is_closed = 1;
    if (is_ours) {
        close_if_unused(self);
        if (self->has_lock) (void)pthread_mutex_destroy(&self->lock);
        list_free(self->list.first);
        wgpy_free(self->inputs);
    }
    Py_XDECREF(self->engine);
    Py_XDECREF(self->tokenizer);
    Py_XDECREF(self->kept);
    release(object);
    Py_DECREF(type);
}

static PyObject *ingest_close(PyObject *object, PyObject *none)
{
    ingest *self = (ingest *)object;

    (void)none;
    if (wgpy_check_generation(self->generation, "ingest") != 0) return NULL;
    if (!self->is_closed) {
        wg_ingest_stop(self->handle);
        self->is_closed = 1;
        close_if_unused(self);
    }
    Py_RETURN_NONE;
}

static PyObject *ingest_stop(PyObject *object, PyObject *none)
{
    ingest *self = (ingest *)object;

    (void)none;
    if (wgpy_check_generation(self->generation, "ingest") != 0) return NULL;
    if (!self->is_closed) wg_ingest_stop(self->handle);
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------------------------- waiting */

static PyObject *answer(int is_done, wg_status status, const wg_error *err)
{
    if (is_done && status != WG_OK) return wgpy_raise(err);
    return PyBool_FromLong(is_done);
}

static PyObject *ingest_wait(PyObject *object, PyObject *args)
{
    ingest *self = (ingest *)object;
    uint64_t timeout_ns, began = wgpy_clock_ns();
    PyObject *timeout = Py_None, *result = NULL;
    wg_ingest *handle;

    if (!PyArg_ParseTuple(args, "|O:wait", &timeout)) return NULL;
    if (wgpy_seconds_get(timeout, "timeout", &timeout_ns) != 0) return NULL;
    if (self->is_closed && !self->handle)
        return answer(self->is_done, self->end.status, &self->end);
    handle = begin(self);
    if (!handle) return NULL;
    for (;;) {
        uint64_t spent = wgpy_clock_ns() - began;
        uint64_t left = timeout_ns == WG_FOREVER ? WG_FOREVER
                        : spent < timeout_ns     ? timeout_ns - spent
                                                 : 0;
        wg_error err = {0};
        wg_status status;
        int is_done = 0;

        Py_BEGIN_ALLOW_THREADS;
        status =
            wg_ingest_wait(handle, left < WGPY_SLICE_NS ? left : WGPY_SLICE_NS, &is_done, &err);
        Py_END_ALLOW_THREADS;
        if (PyErr_CheckSignals() != 0) break;
        if (!is_done && left > 0) continue;
        result = answer(is_done, status, &err);
        break;
    }
    end(self);
    return result;
}

/* --------------------------------------------------------------------------------- handing over */

static PyObject *tuple_of(const told *item)
{
    const char *id = item->text, *source = id + item->id_bytes;
    const char *reason = source + item->source_bytes;

    return Py_BuildValue(
        "(Ks#s#iKKNsN)", (unsigned long long)item->sequence_id, id, (Py_ssize_t)item->id_bytes,
        source, (Py_ssize_t)item->source_bytes, (int)item->place_kind,
        (unsigned long long)item->place, (unsigned long long)item->token_count,
        PyBool_FromLong(item->is_truncated), wg_failure_code(item->failure),
        PyUnicode_DecodeUTF8(reason, (Py_ssize_t)item->reason_bytes, "backslashreplace"));
}

static PyObject *ingest_poll(PyObject *object, PyObject *none)
{
    ingest *self = (ingest *)object;
    told_list taken;
    uint64_t untold;
    PyObject *list;
    told *item;

    (void)none;
    if (wgpy_check_generation(self->generation, "ingest") != 0) return NULL;
    (void)pthread_mutex_lock(&self->lock);
    taken = self->list;
    self->list = (told_list){.end = &self->list.first};
    untold = self->untold;
    (void)pthread_mutex_unlock(&self->lock);
    if (untold > 0) {
        PyErr_Format(wgpy_error[WGPY_MEMORY],
                     "there was no memory to note what became of %llu documents",
                     (unsigned long long)untold);
        list_free(taken.first);
        return NULL;
    }
    list = PyList_New(taken.count);
    item = taken.first;
    for (Py_ssize_t i = 0; i < taken.count && list; i++, item = item->next) {
        PyObject *tuple = tuple_of(item);

        if (tuple)
            (void)PyList_SetItem(list, i, tuple);
        else
            Py_CLEAR(list);
    }
    list_free(taken.first);
    return list;
}

static PyObject *ingest_counts(PyObject *object, PyObject *none)
{
    ingest *self = (ingest *)object;
    wg_ingest_counts c;

    (void)none;
    if (wgpy_check_generation(self->generation, "ingest") != 0) return NULL;
    c = self->handle ? wg_ingest_counted(self->handle) : self->counts;
    return Py_BuildValue(
        "{sKsKsKsKsKsKsKsKsKsK}", "documents", (unsigned long long)c.reader.documents, "submitted",
        (unsigned long long)c.submitted, "failed", (unsigned long long)c.failed, "truncated",
        (unsigned long long)c.truncated, "tokens", (unsigned long long)c.tokens, "unreadable",
        (unsigned long long)c.reader.failures, "warnings", (unsigned long long)c.reader.warnings,
        "files", (unsigned long long)c.reader.files, "files_skipped",
        (unsigned long long)c.reader.files_skipped, "bytes", (unsigned long long)c.reader.bytes);
}

static PyObject *ingest_engine(PyObject *object, void *none)
{
    (void)none;
    return Py_NewRef(((ingest *)object)->engine);
}

static PyObject *ingest_closed(PyObject *object, void *none)
{
    (void)none;
    return PyBool_FromLong(((ingest *)object)->is_closed);
}

/* ---------------------------------------------------------------------------------------- type */

PyDoc_STRVAR(ingest_doc, "Ingest(engine, paths, tokenizer, *, ...)\n--\n\n"
                         "Files into an engine; use warpgroup.ingest().");

static PyMethodDef ingest_methods[] = {
    {"poll", ingest_poll, METH_NOARGS,
     "poll()\n--\n\nTuples (sequence id, id as JSON, source as JSON without quotes, kind of place, "
     "place, tokens,\ntruncated, code, reason) of the documents told since the last call."},
    {"wait", ingest_wait, METH_VARARGS,
     "wait(timeout=None)\n--\n\nTrue once all was submitted; False after timeout seconds. Raises "
     "what ended it early."},
    {"counts", ingest_counts, METH_NOARGS, "counts()\n--\n\nA dict of counters."},
    {"stop", ingest_stop, METH_NOARGS, "stop()\n--\n\nAsks it to stop; returns at once."},
    {"close", ingest_close, METH_NOARGS,
     "close()\n--\n\nStops it, waits for its threads and frees what it holds."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef ingest_attributes[] = {
    {"engine", ingest_engine, NULL, "The engine it feeds.", NULL},
    {"closed", ingest_closed, NULL, "Whether close() was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot ingest_slots[] = {
    {Py_tp_doc, (void *)ingest_doc},          WGPY_SLOT(Py_tp_new, ingest_new),
    WGPY_SLOT(Py_tp_dealloc, ingest_dealloc), {Py_tp_methods, ingest_methods},
    {Py_tp_getset, ingest_attributes},        {0, NULL},
};

static PyType_Spec ingest_spec = {
    .name = "warpgroup._core.Ingest",
    .basicsize = sizeof(ingest),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = ingest_slots,
};

int wgpy_add_ingest(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&ingest_spec);
    int result;

    if (!type) return -1;
    result = PyModule_AddObjectRef(module, "Ingest", type);
    Py_DECREF(type);
    return result;
}
