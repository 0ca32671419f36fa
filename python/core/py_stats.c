/*
 * py_stats.c - Engine.stats: the counters of an engine as a dict.
 *
 * A table says which field of the struct has which name, so that the names stand in one place.
 *
 * Threads: any Python thread.
 */
#include "engine_object.h"

#include <stddef.h>

#define NS_PER_S 1e9

typedef struct counter {
    const char *name;
    size_t offset;
} counter;

#define COUNTER(field)                           \
    {                                            \
#field, offsetof(wg_engine_stats, field) \
    }
#define CUT(name, field)                                    \
    {                                                       \
        "cuts_" name, offsetof(wg_engine_stats, cuts.field) \
    }
#define SECONDS(name, field)                   \
    {                                          \
        name, offsetof(wg_engine_stats, field) \
    }

static const counter counters[] = {
    COUNTER(sequences_in),       COUNTER(tokens_in),          COUNTER(sequences_out),
    COUNTER(tokens_out),         COUNTER(bins_out),           COUNTER(bin_tokens_offered),
    COUNTER(sequences_done),     COUNTER(sequences_given_up), COUNTER(bins_failed),
    COUNTER(capacity_tokens),    COUNTER(deadlines_met),      COUNTER(deadlines_missed),
    COUNTER(pending_bytes_peak), CUT("full", full),           CUT("idle", idle),
    CUT("deadline", deadline),   CUT("window", window),       CUT("pressed", pressed),
    CUT("again", again),
};

static const counter seconds[] = {
    SECONDS("submit_wait_s", submit_wait_ns),
    SECONDS("next_wait_s", next_wait_ns),
};

static uint64_t field_of(const wg_engine_stats *stats, const counter *which)
{
    return *(const uint64_t *)(const void *)((const char *)stats + which->offset);
}

/* Takes the reference to value, which may be NULL after an error. */
static int put(PyObject *dict, const char *name, PyObject *value)
{
    int result = value ? PyDict_SetItemString(dict, name, value) : -1;

    Py_XDECREF(value);
    return result;
}

static PyObject *classes_of(const wg_engine_stats *stats, uint32_t count)
{
    PyObject *list = PyList_New(0);

    for (uint32_t i = 0; list && i < count; i++) {
        PyObject *one =
            Py_BuildValue("{s:K,s:d}", "sequences", (unsigned long long)stats->class_sequences[i],
                          "wait_s", (double)stats->class_wait_ns[i] / NS_PER_S);

        if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

PyObject *wgpy_engine_stats(PyObject *object, PyObject *none)
{
    wgpy_engine *self = (wgpy_engine *)object;
    wg_engine *engine = wgpy_engine_handle(self);
    wg_engine_stats stats;
    wg_error err = {0};
    PyObject *dict;
    double fill = 0.0;

    (void)none;
    if (!engine) return NULL;
    if (wg_engine_statistics(engine, &stats, &err) != WG_OK) return wgpy_raise(&err);
    dict = PyDict_New();
    if (!dict) return NULL;
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        if (put(dict, counters[i].name,
                PyLong_FromUnsignedLongLong(field_of(&stats, &counters[i]))) != 0)
            goto failed;
    for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++)
        if (put(dict, seconds[i].name,
                PyFloat_FromDouble((double)field_of(&stats, &seconds[i]) / NS_PER_S)) != 0)
            goto failed;
    if (stats.bin_tokens_offered > 0)
        fill = (double)stats.tokens_out / (double)stats.bin_tokens_offered;
    if (put(dict, "fill", PyFloat_FromDouble(fill)) != 0 ||
        put(dict, "slots", PyLong_FromUnsignedLong(stats.slot_count)) != 0 ||
        put(dict, "slots_taken", PyLong_FromUnsignedLong(stats.slots_taken)) != 0 ||
        put(dict, "slots_exported", PyLong_FromUnsignedLong(stats.slots_exported)) != 0 ||
        put(dict, "is_drained", PyBool_FromLong(stats.is_drained)) != 0 ||
        put(dict, "classes", classes_of(&stats, self->class_count)) != 0)
        goto failed;
    return dict;

failed:
    Py_DECREF(dict);
    return NULL;
}
