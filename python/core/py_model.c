/*
 * py_model.c - type Model: an open model, and texts in, floats out.
 *
 * embed() takes references to every text, gathers pointers to their UTF-8 bytes, and hands the
 * whole list to wg_model_embed() with the interpreter lock given up; the vectors go straight into
 * the caller's buffer. The only times that Python runs in between are the library's tick (signals,
 * progress) and a text that failed, both on the calling thread, which takes the lock back for them.
 * A chunk of texts a call with the lock held in between was refused: bins would end at each chunk.
 *
 * Text: an ASCII str lends its own bytes. Any other str is encoded for the call, because the bytes
 * that a str keeps of itself would stay in memory with the caller's list. A str with surrogates
 * goes through UTF-16: pairs become the character they stand for, a lone one becomes U+FFFD, as in
 * the reader of JSON files.
 *
 * Threads: a model is read-only, so any number of threads may call embed() at once. It has no
 * threads of its own between calls, but a child process does not get to use it: see core.h.
 *
 * The end of the interpreter: a thread that asks for the lock then is ended where it stands, and
 * the library's threads would go on with what is on its stack. So calls that still run (in daemon
 * threads) are stopped before, by a function given to atexit, and do not ask for the lock
 * meanwhile.
 */
#include "core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define LEAVE_MS_MAX 10000

typedef struct model_object {
    PyObject_HEAD wg_model *model;
    uint32_t generation;
} model_object;

/* ------------------------------------------------------------------------------------- words */

typedef struct word {
    const char *name;
    int value;
} word;

static const word isa_words[] = {
    {"auto", WG_ISA_AUTO},
    {"plain", WG_ISA_PLAIN},
    {"avx2", WG_ISA_AVX2},
    {"avx512", WG_ISA_AVX512},
    {NULL, 0},
};
static const word truncate_words[] = {
    {"head", WG_TRUNCATE_HEAD},
    {"tail", WG_TRUNCATE_TAIL},
    {"error", WG_TRUNCATE_ERROR},
    {NULL, 0},
};
static const word pooling_words[] = {
    {"model", WG_POOLING_MODEL},
    {"mean", WG_POOLING_MEAN},
    {"cls", WG_POOLING_CLS},
    {"last", WG_POOLING_LAST},
    {"max", WG_POOLING_MAX},
    {"none", WG_POOLING_NONE},
    {"weightedmean", WG_POOLING_WEIGHTED_MEAN},
    {"mean_sqrt_len_tokens", WG_POOLING_SQRT_LENGTH_MEAN},
    {NULL, 0},
};

/* None, or a str without NUL, which C would end at. *out is borrowed from the object. */
static int text_of(PyObject *object, const char *name, const char **out)
{
    Py_ssize_t length;

    *out = NULL;
    if (!object || object == Py_None) return 0;
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s must be a str or None, not %R", name, object);
        return -1;
    }
    *out = PyUnicode_AsUTF8AndSize(object, &length);
    if (!*out) return -1;
    if (strlen(*out) == (size_t)length) return 0;
    PyErr_Format(wgpy_error[WGPY_ARGUMENT], "%s holds a NUL character", name);
    return -1;
}

/* One of the words, or None for the first one. */
static int word_of(PyObject *object, const char *name, const word *words, int *out)
{
    const char *text;
    char list[128] = "";

    if (text_of(object, name, &text) != 0) return -1;
    *out = words[0].value;
    if (!text) return 0;
    for (const word *w = words; w->name; w++) {
        if (strcmp(w->name, text) == 0) {
            *out = w->value;
            return 0;
        }
        size_t used = strlen(list);
        (void)PyOS_snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", w->name);
    }
    PyErr_Format(wgpy_error[WGPY_ARGUMENT], "%s %R is not known: %s", name, object, list);
    return -1;
}

/* None (0: the default) or a whole number of [least, most]. */
static int number_of(PyObject *object, const char *name, uint64_t least, uint64_t most,
                     uint64_t *out)
{
    PyObject *whole;

    *out = 0;
    if (!object || object == Py_None) return 0;
    whole = PyNumber_Index(object);
    if (!whole) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s must be an int or None, not %R", name, object);
        return -1;
    }
    *out = PyLong_AsUnsignedLongLong(whole);
    Py_DECREF(whole);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_OverflowError)) return -1;
    if (!PyErr_Occurred() && *out >= least && *out <= most) return 0;
    PyErr_Clear();
    PyErr_Format(wgpy_error[WGPY_ARGUMENT], "%s is %R, it must be from %llu to %llu", name, object,
                 (unsigned long long)least, (unsigned long long)most);
    return -1;
}

/* ------------------------------------------------------------------------------ open and close */

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "backend", "isa", NULL};
    PyObject *path = NULL, *backend = NULL, *isa = NULL;
    wg_model_options options = {0};
    model_object *self = NULL;
    wg_error err = {0};
    wg_status status;
    int isa_value;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$OO:Model", names, PyUnicode_FSConverter,
                                     &path, &backend, &isa))
        return NULL;
    if (text_of(backend, "backend", &options.backend_name) != 0 ||
        word_of(isa, "isa", isa_words, &isa_value) != 0)
        goto cleanup;
    options.path = PyBytes_AsString(path);
    options.isa = (wg_isa)isa_value;
    self = (model_object *)PyType_GenericNew(type, args, kwargs);
    if (!self || !options.path) goto cleanup;
    self->generation = wgpy_generation();

    Py_BEGIN_ALLOW_THREADS status = wg_model_open(&self->model, &options, &err);
    Py_END_ALLOW_THREADS

        if (status != WG_OK)
    {
        Py_CLEAR(self);
        (void)wgpy_raise(&err);
    }

cleanup:
    Py_DECREF(path);
    return (PyObject *)self;
}

static void model_dealloc(PyObject *object)
{
    model_object *self = (model_object *)object;
    PyTypeObject *type = Py_TYPE(object);

    if (self->generation == wgpy_generation()) wg_model_close(self->model);
    PyObject_Free(object);
    Py_DECREF(type);
}

static const char *pooling_name(wg_pooling pooling)
{
    for (const word *w = pooling_words; w->name; w++)
        if (w->value == (int)pooling) return w->name;
    return "";
}

static PyObject *model_info(PyObject *object, void *closure)
{
    const model_object *self = (const model_object *)object;
    const wg_model_info *info;

    (void)closure;
    if (wgpy_check_generation(self->generation, "model") != 0) return NULL;
    info = wg_model_describe(self->model);
    return Py_BuildValue(
        "{s:N,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:K,s:K,s:K,s:K,s:I,s:I,s:I,s:s,s:N,s:s,s:s,s:s,s:d}",
        "path", PyUnicode_DecodeFSDefault(info->path), "architecture", info->architecture,
        "backend", info->backend, "isa", info->isa, "hash", info->hash, "layer_count",
        info->layer_count, "head_count", info->head_count, "hidden_count", info->hidden_count,
        "feed_forward_count", info->feed_forward_count, "vocabulary_count",
        (unsigned long long)info->vocabulary_count, "parameter_count",
        (unsigned long long)info->parameter_count, "weight_bytes",
        (unsigned long long)info->weight_bytes, "packed_bytes",
        (unsigned long long)info->packed_bytes, "position_count", info->position_count,
        "token_count_default", info->token_count_default, "dim", info->dim, "pooling",
        pooling_name(info->pooling), "normalize", PyBool_FromLong(info->normalize), "pooling_rule",
        info->pooling_rule, "normalize_rule", info->normalize_rule, "length_rule",
        info->length_rule, "load_seconds", info->load_seconds);
}

/* --------------------------------------------------------------------------------- the texts */

/* Texts as C sees them; `held` and `encoded` keep the bytes alive. */
typedef struct texts {
    PyObject *held;    /* tuple: a list may change while the lock is given up */
    PyObject *encoded; /* list of bytes */
    const char **data; /* [count] */
    size_t *bytes;     /* [count] */
    size_t count;
} texts;

static void texts_fini(texts *t)
{
    Py_CLEAR(t->held);
    Py_CLEAR(t->encoded);
    PyMem_Free((void *)t->data);
    PyMem_Free(t->bytes);
}

/* UTF-8 of a str, U+FFFD for what is not a character. */
static PyObject *encode(PyObject *text)
{
    char *data;
    Py_ssize_t length;
    PyObject *wide, *clean, *narrow = PyUnicode_AsUTF8String(text);

    if (narrow || !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return narrow;
    PyErr_Clear();
    wide = PyUnicode_AsEncodedString(text, "utf-16-le", "surrogatepass");
    if (!wide) return NULL;
    clean = PyBytes_AsStringAndSize(wide, &data, &length) != 0
                ? NULL
                : PyUnicode_Decode(data, length, "utf-16-le", "replace");
    Py_DECREF(wide);
    if (!clean) return NULL;
    narrow = PyUnicode_AsUTF8String(clean);
    Py_DECREF(clean);
    return narrow;
}

/* 1 for a str of ASCII only, 0 for another, -1 with an exception. */
static int is_ascii(PyObject *text, PyObject *name)
{
    PyObject *answer = PyObject_CallMethodObjArgs(text, name, NULL);
    int is = answer ? PyObject_IsTrue(answer) : -1;

    Py_XDECREF(answer);
    return is;
}

static int texts_add(texts *t, PyObject *text, PyObject *isascii)
{
    PyObject *bytes;
    Py_ssize_t length = 0;
    char *data;
    int ascii;

    if (!PyUnicode_Check(text) && !PyBytes_Check(text)) {
        PyErr_Format(PyExc_TypeError, "text %zu must be a str or bytes, not %R", t->count,
                     (PyObject *)Py_TYPE(text));
        return -1;
    }
    ascii = PyUnicode_Check(text) ? is_ascii(text, isascii) : 0;
    if (ascii < 0) return -1;
    if (ascii) {
        t->data[t->count] = PyUnicode_AsUTF8AndSize(text, &length);
        if (!t->data[t->count]) return -1;
    } else {
        bytes = PyBytes_Check(text) ? Py_NewRef(text) : encode(text);
        if (!bytes) return -1;
        int kept = PyList_Append(t->encoded, bytes);
        Py_DECREF(bytes);
        if (kept != 0 || PyBytes_AsStringAndSize(bytes, &data, &length) != 0) return -1;
        t->data[t->count] = data;
    }
    t->bytes[t->count++] = (size_t)length;
    return 0;
}

static int texts_init(texts *t, PyObject *sequence)
{
    PyObject *isascii = NULL;
    Py_ssize_t count;

    if (PyUnicode_Check(sequence) || PyBytes_Check(sequence)) {
        PyErr_SetString(PyExc_TypeError, "texts must be a list of str or bytes, not one text");
        return -1;
    }
    t->held = PySequence_Tuple(sequence);
    if (!t->held) return -1;
    count = PyTuple_Size(t->held);
    t->encoded = PyList_New(0);
    t->data = PyMem_Calloc((size_t)count + 1, sizeof(*t->data));
    t->bytes = PyMem_Calloc((size_t)count + 1, sizeof(*t->bytes));
    isascii = PyUnicode_InternFromString("isascii");
    if (!t->encoded || !t->data || !t->bytes || !isascii) {
        if (!PyErr_Occurred()) PyErr_NoMemory();
        Py_XDECREF(isascii);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (texts_add(t, PyTuple_GetItem(t->held, i), isascii) == 0) continue;
        Py_DECREF(isascii);
        return -1;
    }
    Py_DECREF(isascii);
    return 0;
}

/* -------------------------------------------------------------------------- while it is running */

static atomic_bool is_leaving; /* the interpreter ends: nobody may ask for its lock */
static atomic_int call_count;  /* inside wg_model_embed */

static void forget_calls(void)
{
    atomic_store(&call_count, 0); /* a child has none of the threads that made them */
}

/* For atexit: stops the calls that run, and waits until they have; sleep() gives the lock up. */
static PyObject *leave(PyObject *module, PyObject *nothing)
{
    PyObject *time = PyImport_ImportModule("time"), *slept = time;

    (void)module;
    (void)nothing;
    atomic_store(&is_leaving, true);
    for (int ms = 0; ms < LEAVE_MS_MAX && slept && atomic_load(&call_count) > 0; ms++) {
        slept = PyObject_CallMethod(time, "sleep", "d", 0.001);
        Py_XDECREF(slept);
    }
    Py_XDECREF(time);
    return slept ? Py_NewRef(Py_None) : NULL;
}

typedef struct running {
    PyThreadState *thread; /* of the caller, while the lock is given up */
    PyObject *tick;        /* borrowed, or NULL */
    PyObject *failures;    /* list, or NULL */
    bool is_raised;        /* a Python exception waits to be raised */
    bool has_failed;       /* text failed_index ends the call */
    uint64_t failed_index;
} running;

static int look_up(void *context, uint64_t done, uint64_t count)
{
    running *r = context;
    PyObject *answer;

    if (atomic_load(&is_leaving)) return 1;
    PyEval_RestoreThread(r->thread);
    r->is_raised = r->is_raised || PyErr_CheckSignals() != 0;
    if (r->tick && !r->is_raised) {
        answer = PyObject_CallFunction(r->tick, "KK", (unsigned long long)done,
                                       (unsigned long long)count);
        r->is_raised = !answer;
        Py_XDECREF(answer);
    }
    r->thread = PyEval_SaveThread();
    return r->is_raised;
}

static int note_failure(void *context, uint64_t index, wg_failure failure, const char *reason)
{
    running *r = context;
    PyObject *entry;

    if (atomic_load(&is_leaving)) return 1;
    if (!r->failures) {
        r->has_failed = true;
        r->failed_index = index;
        return 1;
    }
    PyEval_RestoreThread(r->thread);
    entry = Py_BuildValue("(KsN)", (unsigned long long)index, wg_failure_code(failure),
                          wgpy_message(reason));
    r->is_raised = r->is_raised || !entry || PyList_Append(r->failures, entry) != 0;
    Py_XDECREF(entry);
    r->thread = PyEval_SaveThread();
    return r->is_raised;
}

/* ------------------------------------------------------------------------------------- embed */

typedef struct embed_arguments {
    PyObject *texts, *out, *max_length, *truncate, *pooling, *normalize, *truncate_dim, *prompt,
        *prompt_name, *plain_specials, *batch_tokens, *memory, *threads, *tick, *failures;
} embed_arguments;

static int truth_of(PyObject *object, int unset, int no, int *out)
{
    int is;

    *out = unset;
    if (!object || object == Py_None) return 0;
    is = PyObject_IsTrue(object);
    if (is < 0) return -1;
    *out = is ? 1 : no;
    return 0;
}

static int options_of(const embed_arguments *a, wg_embed_options *options)
{
    uint64_t length, dim, threads;
    int truncate, pooling;

    if (number_of(a->max_length, "max_length", 1, UINT32_MAX, &length) != 0 ||
        number_of(a->truncate_dim, "truncate_dim", 1, UINT32_MAX, &dim) != 0 ||
        number_of(a->threads, "threads", 0, UINT32_MAX, &threads) != 0 ||
        number_of(a->batch_tokens, "batch_tokens", 0, UINT64_MAX, &options->batch_tokens) != 0 ||
        number_of(a->memory, "memory", 0, UINT64_MAX, &options->memory_bytes) != 0 ||
        word_of(a->truncate, "truncate", truncate_words, &truncate) != 0 ||
        word_of(a->pooling, "pooling", pooling_words, &pooling) != 0 ||
        truth_of(a->normalize, 0, -1, &options->normalize) != 0 ||
        truth_of(a->plain_specials, 0, 0, &options->plain_specials) != 0 ||
        text_of(a->prompt, "prompt", &options->prompt) != 0 ||
        text_of(a->prompt_name, "prompt_name", &options->prompt_name) != 0)
        return -1;
    options->token_count_max = (uint32_t)length;
    options->truncate_dim = (uint32_t)dim;
    options->thread_count = (uint32_t)threads;
    options->truncate = (wg_truncate)truncate;
    options->pooling = (wg_pooling)pooling;
    if (a->tick && a->tick != Py_None && !PyCallable_Check(a->tick)) {
        PyErr_SetString(PyExc_TypeError, "tick must be callable or None");
        return -1;
    }
    if (a->failures && a->failures != Py_None && !PyList_Check(a->failures)) {
        PyErr_SetString(PyExc_TypeError, "failures must be a list or None");
        return -1;
    }
    return 0;
}

/* Gives the exception that is set an attribute `index`: the text that it is about. */
static void add_index(uint64_t index)
{
    PyObject *type, *value, *trace, *number = PyLong_FromUnsignedLongLong(index);

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (!number || PyObject_SetAttrString(value, "index", number) != 0) PyErr_Clear();
    Py_XDECREF(number);
    PyErr_Restore(type, value, trace);
}

/* float32 [count, dim], C order; refused before anything runs. */
static int check_out(const Py_buffer *out, size_t count, size_t dim)
{
    const char *format = out->format ? out->format : "B";

    if (*format == '@' || *format == '=') format++;
    if (strcmp(format, "f") != 0 || out->itemsize != (Py_ssize_t)sizeof(float)) {
        PyErr_Format(wgpy_error[WGPY_ARGUMENT], "out must be of float32, its format is \"%s\"",
                     out->format ? out->format : "B");
        return -1;
    }
    if (out->ndim == 2 && out->shape && (size_t)out->shape[0] == count &&
        (size_t)out->shape[1] == dim)
        return 0;
    PyErr_Format(wgpy_error[WGPY_ARGUMENT], "out must be of shape (%zu, %zu)", count, dim);
    return -1;
}

static PyObject *embed_run(const model_object *self, const texts *t, const Py_buffer *out,
                           wg_embed_options *options, running *r)
{
    wg_error err = {0};
    wg_status status;

    options->tick = look_up;
    options->tick_context = r;
    options->failed = note_failure;
    options->failed_context = r;
    atomic_fetch_add(&call_count, 1);
    r->thread = PyEval_SaveThread();
    status = wg_model_embed(self->model, t->data, t->bytes, t->count, out->buf, (size_t)out->len,
                            options, &err);
    atomic_fetch_sub(&call_count, 1);
    PyEval_RestoreThread(r->thread);
    if (r->is_raised) return NULL;
    if (status == WG_OK) return Py_NewRef(Py_None);
    (void)wgpy_raise(&err);
    if (r->has_failed) add_index(r->failed_index);
    return NULL;
}

static PyObject *model_embed(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"texts",        "out",
                            "max_length",   "truncate",
                            "pooling",      "normalize",
                            "truncate_dim", "prompt",
                            "prompt_name",  "plain_specials",
                            "batch_tokens", "memory",
                            "threads",      "tick",
                            "failures",     NULL};
    const model_object *self = (const model_object *)object;
    embed_arguments a = {0};
    wg_embed_options options = {0};
    PyObject *answer = NULL;
    Py_buffer out = {0};
    texts t = {0};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$OOOOOOOOOOOOO:embed", names, &a.texts,
                                     &a.out, &a.max_length, &a.truncate, &a.pooling, &a.normalize,
                                     &a.truncate_dim, &a.prompt, &a.prompt_name, &a.plain_specials,
                                     &a.batch_tokens, &a.memory, &a.threads, &a.tick, &a.failures))
        return NULL;
    if (wgpy_check_generation(self->generation, "model") != 0 || options_of(&a, &options) != 0 ||
        texts_init(&t, a.texts) != 0 ||
        PyObject_GetBuffer(a.out, &out, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0)
        goto cleanup;
    uint32_t dim =
        options.truncate_dim ? options.truncate_dim : wg_model_describe(self->model)->dim;
    if (check_out(&out, t.count, dim) == 0)
        answer = embed_run(self, &t, &out, &options,
                           &(running){.tick = a.tick == Py_None ? NULL : a.tick,
                                      .failures = a.failures == Py_None ? NULL : a.failures});

cleanup:
    if (out.obj) PyBuffer_Release(&out);
    texts_fini(&t);
    return answer;
}

/* ------------------------------------------------------------------------------------- the type */

PyDoc_STRVAR(
    model_doc,
    "Model(path, *, backend=None, isa=None)\n--\n\n"
    "A model, open and read-only: path is a Hugging Face or sentence-transformers directory\n"
    "or one .gguf file. backend: \"cpu\", \"reference\", or None for the best that this machine\n"
    "has; isa: \"plain\", \"avx2\", \"avx512\", or None for the best that the CPU has.\n"
    "Raises Error or one of its kinds when the model cannot be used. Any thread may use it.");

PyDoc_STRVAR(
    embed_doc,
    "embed($self, texts, out, *, max_length=None, truncate=None, pooling=None, normalize=None, "
    "truncate_dim=None, prompt=None, prompt_name=None, plain_specials=False, batch_tokens=None, "
    "memory=None, threads=0, tick=None, failures=None)\n--\n\n"
    "Writes the vectors of n texts into out, row i for texts[i], without the interpreter lock.\n\n"
    "texts: list of str (a lone surrogate counts as U+FFFD) or bytes (UTF-8).\n"
    "out: writable C-contiguous float32 buffer [n, dim], dim after truncate_dim.\n"
    "max_length: tokens a text, special ones included; truncate: \"head\", \"tail\" or \"error\".\n"
    "normalize: None as the model says, True, False. batch_tokens: tokens of a bin, None or 0: "
    "auto.\n"
    "memory: bytes that the process may take; threads: 0: one a core.\n"
    "tick(done, count) is called a few times a second; what it raises stops the call, as Ctrl-C "
    "does.\n"
    "failures: a list; texts that fail are appended to it as (index, code, reason) and get a row "
    "of\n"
    "NaN. Without it the first text that fails raises an error that names its index, which is\n"
    "also its attribute `index`.");

static PyMethodDef model_methods[] = {
    {"embed", (PyCFunction)(void (*)(void))model_embed, METH_VARARGS | METH_KEYWORDS, embed_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef model_getters[] = {
    {"info", model_info, NULL, "What is known of the model, a new dict.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static int leave_at_exit(void)
{
    static PyMethodDef method = {"_leave", leave, METH_NOARGS, NULL};
    PyObject *atexit = PyImport_ImportModule("atexit"), *function = NULL, *answer = NULL;

    if (atexit) function = PyCFunction_New(&method, NULL);
    if (function) answer = PyObject_CallMethod(atexit, "register", "O", function);
    Py_XDECREF(answer);
    Py_XDECREF(function);
    Py_XDECREF(atexit);
    return answer ? 0 : -1;
}

int wgpy_add_model(PyObject *module)
{
    /* By way of an integer: ISO C has no conversion of a function pointer to void *. */
    PyType_Slot slots[] = {
        {Py_tp_new, (void *)(uintptr_t)model_new},
        {Py_tp_dealloc, (void *)(uintptr_t)model_dealloc},
        {Py_tp_methods, model_methods},
        {Py_tp_getset, model_getters},
        {Py_tp_doc, (void *)(uintptr_t)model_doc},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "warpgroup._core.Model",
        .basicsize = sizeof(model_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    PyObject *type = NULL;

    if (pthread_atfork(NULL, NULL, forget_calls) != 0) {
        PyErr_SetString(PyExc_MemoryError, "no memory for a fork handler");
        return -1;
    }
    if (leave_at_exit() == 0) type = PyType_FromSpec(&spec);
    if (!type) return -1;
    int status = PyModule_AddObjectRef(module, "Model", type);
    Py_DECREF(type);
    return status;
}
