/*
 * engine_object.h - the inside of type Engine, shared by py_engine.c, py_submit.c and py_stats.c.
 */
#ifndef WGPY_ENGINE_OBJECT_H
#define WGPY_ENGINE_OBJECT_H

#include "core.h"

/* Since when all slots are out, and sequences wait, without anything being given back. */
typedef struct wgpy_watch {
    uint64_t since, done, bins, failed;
} wgpy_watch;

typedef struct wgpy_engine {
    PyObject_HEAD wg_engine *engine; /* NULL: freed */
    uint32_t generation;
    uint32_t class_count;
    unsigned users; /* calls without the interpreter lock, and ingests; guarded by that lock */
    int is_closed;
    uint64_t next_id; /* the next running number */
    uint64_t bin_tokens;
    wgpy_watch watch; /* over calls: who asks with a short timeout, again and again, is told too */
} wgpy_engine;

/* NULL, with an exception set, when the engine cannot be called. */
wg_engine *wgpy_engine_handle(wgpy_engine *self);
wg_engine *wgpy_engine_begin(wgpy_engine *self);
void wgpy_engine_end(wgpy_engine *self);

PyObject *wgpy_engine_submit(PyObject *object, PyObject *args, PyObject *keywords);
PyObject *wgpy_engine_submit_many(PyObject *object, PyObject *args, PyObject *keywords);
PyObject *wgpy_engine_stats(PyObject *object, PyObject *none);

#endif
