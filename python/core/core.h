/*
 * core.h - what the parts of the extension module share: errors, waiting, life after fork.
 *
 * The module is a thin coat over include/warpgroup/: it turns Python objects into the structs of
 * the public headers and back, holds no logic of its own, and gives up the interpreter lock around
 * every call that may take long. A part is one file with one wgpy_add_<part>() that puts its types
 * and functions into the module.
 *
 * The C library knows nothing of Python, and its threads never touch a Python object: callbacks run
 * on the thread that called in, or put plain memory aside that Python code fetches.
 *
 * Blocking calls wait in slices of WGPY_SLICE_NS and look for signals in between, so that Ctrl-C is
 * seen soon; a call that was interrupted left nothing half done.
 *
 * fork: a child has none of the parent's threads. Every handle notes the generation of the process
 * it was opened in, and calls on a handle of an earlier generation raise; dropping such a handle
 * leaks it, because closing would wait for threads that are not there.
 *
 * One interpreter a process: state is static.
 */
#ifndef WGPY_CORE_H
#define WGPY_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

#include "warpgroup/engine.h"
#include "warpgroup/warpgroup.h"

/* A function in a PyType_Slot; C has no conversion of functions to void pointers, POSIX does. */
#define WGPY_SLOT(slot, function)           \
    {                                       \
        slot, (void *)(uintptr_t)(function) \
    }

#define WGPY_SLICE_NS UINT64_C(50000000)

/* Sets the exception that belongs to err->status; returns NULL, for `return wgpy_raise(&err)`. */
PyObject *wgpy_raise(const wg_error *err);

/* A str of a message of the library: UTF-8, but a file's name in it need not be, and the end may be
 * cut within a character; such bytes are shown as \xff. */
PyObject *wgpy_message(const char *message);

/* The exception types, borrowed: wgpy_error[WGPY_CLOSED]. */
typedef enum wgpy_kind {
    WGPY_ERROR,       /* Error(RuntimeError): everything else, and the base of all */
    WGPY_ARGUMENT,    /* ArgumentError(Error, ValueError) */
    WGPY_FORMAT,      /* FormatError(Error, ValueError) */
    WGPY_IO,          /* FileError(Error, OSError) */
    WGPY_MEMORY,      /* OutOfMemoryError(Error, MemoryError) */
    WGPY_LIMIT,       /* LimitError(Error, ValueError) */
    WGPY_CLOSED,      /* ClosedError(Error) */
    WGPY_SLOTS_HELD,  /* SlotsHeldError(Error): every slot of the ring is kept by the caller */
    WGPY_UNSUPPORTED, /* UnsupportedError(Error, NotImplementedError) */
    WGPY_KIND_COUNT
} wgpy_kind;
extern PyObject *wgpy_error[WGPY_KIND_COUNT];

/* Grows by one in every forked child. */
uint32_t wgpy_generation(void);

/* 0 when a handle of this generation may be used; else -1 and an Error that names `what`. */
int wgpy_check_generation(uint32_t generation, const char *what);

/* ---------------------------------------------------------------------------------- integers */

/*
 * Integers that came from Python: a list or tuple of ints, or a one-dimensional C-contiguous buffer
 * of int32 or int64 (for wgpy_counts_get also uint32 or uint64). `name` is the argument's, for
 * messages. -1 with an exception set; after 0 the matching _drop.
 */
typedef struct wgpy_ids {
    const int32_t *values; /* [count]; the caller's own memory if that was int32 already */
    uint64_t count;
    Py_buffer view; /* view.obj NULL: none */
    int32_t *own;
    int32_t few[256];
} wgpy_ids;
int wgpy_ids_get(PyObject *object, const char *name, wgpy_ids *ids);
void wgpy_ids_drop(wgpy_ids *ids);

/* Integers of at least 0, copied; freed with PyMem_Free. */
int wgpy_counts_get(PyObject *object, const char *name, uint64_t **values, uint64_t *count);

/* Nanoseconds for seconds at least 0; None: WG_FOREVER. -1 with an exception set. */
int wgpy_seconds_get(PyObject *seconds, const char *name, uint64_t *ns);

/* Memory that may be freed without the interpreter lock; NULL: there is none, and no exception is
 * set. */
void *wgpy_alloc(size_t bytes);
void wgpy_free(void *memory);

/* Monotonic. */
uint64_t wgpy_clock_ns(void);

/* ------------------------------------------------------------------------- engines and bins */

/*
 * Use of an Engine by others (ingest). wgpy_engine_of() borrows the handle, for calls that are made
 * with the interpreter lock held; it is NULL, with an exception set, when `engine` is no Engine,
 * was closed, or came over a fork. Who uses the handle without the lock enters first, keeps a
 * reference to `engine`, and leaves once with the lock held: Engine.close() in between stops the
 * engine (calls answer WG_ERR_CLOSED), and the last who leaves frees it.
 */
wg_engine *wgpy_engine_of(PyObject *engine);
wg_engine *wgpy_engine_enter(PyObject *engine);
void wgpy_engine_leave(PyObject *engine);

/* Takes the bin, also when it fails: then the bin was given back as failed, to come again. */
PyObject *wgpy_bin_new(wg_engine *engine, const wg_bin *bin);
/* An array of a bin that is handed out. */
PyObject *wgpy_array_new(wg_engine *engine, const wg_bin *bin, wg_bin_array array);

/* The handle of a Tokenizer, borrowed; NULL with an exception set when it is none. */
wg_tokenizer *wgpy_tokenizer_of(PyObject *tokenizer);
/* "head", "tail", "error"; -1 with an exception set for another name. */
int wgpy_truncate_get(const char *name, wg_truncate *out);

/* Parts: 0, or -1 with an exception set. */
int wgpy_add_errors(PyObject *module);
int wgpy_add_array(PyObject *module);
int wgpy_add_bin(PyObject *module);
int wgpy_add_engine(PyObject *module);
int wgpy_add_pack(PyObject *module);
int wgpy_add_ingest(PyObject *module);
int wgpy_add_tokenizer(PyObject *module);
int wgpy_add_model(PyObject *module);
int wgpy_add_capacity(PyObject *module);
int wgpy_add_attention(PyObject *module);

#endif
