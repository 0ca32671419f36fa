/*
 * py_submit.c - Engine.submit and Engine.submit_many.
 *
 * One sequence is offered with the interpreter lock held, because a submission that need not wait
 * takes less time than giving the lock up; only a full queue makes it wait without. Many are
 * checked and turned into descriptions with the lock, and copied into the queue without.
 *
 * A deadline is a point in time: what waited for room has that much less left.
 *
 * Interrupted in submit_many: what was taken stays taken, the rest is not; stats() counts.
 *
 * Threads: any Python thread.
 */
#include "engine_object.h"

typedef struct batch {
    wg_sequence *sequences; /* [count] */
    uint64_t count, taken;
    uint64_t deadline_ns; /* monotonic; 0: none */
} batch;

static uint64_t deadline_left(uint64_t deadline_ns)
{
    uint64_t now = wgpy_clock_ns();

    return deadline_ns > now ? deadline_ns - now : 1;
}

static void age(batch *rest)
{
    uint64_t left;

    if (rest->deadline_ns == 0) return;
    left = deadline_left(rest->deadline_ns);
    for (uint64_t i = rest->taken; i < rest->count; i++)
        rest->sequences[i].deadline_ns = left;
}

static int raise_refused(const batch *refused, const wg_error *err)
{
    if (err->status == WG_ERR_CLOSED && refused->taken > 0)
        PyErr_Format(
            wgpy_error[WGPY_CLOSED], "the first %llu of %llu sequences were taken, then: %s",
            (unsigned long long)refused->taken, (unsigned long long)refused->count, err->message);
    else
        (void)wgpy_raise(err);
    return -1;
}

/* Until all are taken. 0, or -1 with an exception set. */
static int push(wgpy_engine *self, batch *pushed, int may_hold_lock)
{
    wg_engine *engine = wgpy_engine_begin(self);
    int result = 0;

    if (!engine) return -1;
    while (result == 0 && pushed->taken < pushed->count) {
        wg_sequence *from = pushed->sequences + pushed->taken;
        uint64_t count = pushed->count - pushed->taken, taken = 0;
        wg_error err = {0};
        wg_status status;

        if (may_hold_lock) {
            status = wg_engine_submit_within(engine, from, count, 0, &taken, &err);
        } else {
            Py_BEGIN_ALLOW_THREADS;
            status = wg_engine_submit_within(engine, from, count, WGPY_SLICE_NS, &taken, &err);
            Py_END_ALLOW_THREADS;
        }
        may_hold_lock = 0;
        pushed->taken += taken;
        if (status != WG_OK) {
            result = raise_refused(pushed, &err);
        } else if (pushed->taken < pushed->count) {
            result = PyErr_CheckSignals();
            age(pushed);
        }
    }
    wgpy_engine_end(self);
    return result;
}

/* Numbers that were reserved and not used are free again, unless others came after. */
static void give_numbers_back(wgpy_engine *self, uint64_t first, const batch *failed)
{
    if (self->next_id == first + failed->count) self->next_id = first + failed->taken;
}

/* ----------------------------------------------------------------------- what both understand */

typedef struct manner {
    uint32_t class_index;
    uint64_t deadline_ns; /* monotonic; 0: none */
} manner;

/* An exception is set; a TypeError becomes one that names the argument. */
static int refuse_number(const char *name, PyObject *object)
{
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s must be an int, not %R", name, object);
    return -1;
}

static int read_manner(const wgpy_engine *self, PyObject *priority, PyObject *deadline, manner *out)
{
    uint64_t ns;

    *out = (manner){0};
    if (priority) {
        long long index = PyLong_AsLongLong(priority);

        if (index == -1 && PyErr_Occurred()) {
            if (!PyErr_ExceptionMatches(PyExc_OverflowError))
                return refuse_number("priority", priority);
            PyErr_Clear();
        }
        if (index < 0 || index >= self->class_count) {
            PyErr_Format(wgpy_error[WGPY_ARGUMENT],
                         "priority %S: the engine has %u class%s, 0 to %u (see classes=)", priority,
                         (unsigned)self->class_count, self->class_count == 1 ? "" : "es",
                         (unsigned)self->class_count - 1);
            return -1;
        }
        out->class_index = (uint32_t)index;
    }
    if (wgpy_seconds_get(deadline, "deadline", &ns) != 0) return -1;
    if (ns != WG_FOREVER) out->deadline_ns = wgpy_clock_ns() + (ns > 0 ? ns : 1);
    return 0;
}

static int read_types(PyObject *object, const wgpy_ids *ids, wgpy_ids *types)
{
    if (!object || object == Py_None) return 0;
    if (wgpy_ids_get(object, "type_ids", types) != 0) return -1;
    if (types->count == ids->count) return 0;
    PyErr_Format(wgpy_error[WGPY_ARGUMENT], "type_ids has %llu items, ids has %llu",
                 (unsigned long long)types->count, (unsigned long long)ids->count);
    wgpy_ids_drop(types);
    return -1;
}

/* ------------------------------------------------------------------------------------------ one */

static int read_id(PyObject *object, uint64_t *id)
{
    PyObject *number = PyNumber_Index(object);

    if (!number) return refuse_number("id", object);
    *id = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    if (*id != UINT64_MAX || !PyErr_Occurred()) return 0;
    PyErr_Clear();
    PyErr_Format(wgpy_error[WGPY_ARGUMENT], "id %S is not within 0 to 2^64 - 1", object);
    return -1;
}

static PyObject *submit_one(wgpy_engine *self, const wgpy_ids *ids, const wgpy_ids *types,
                            PyObject *id, const manner *how)
{
    wg_sequence sequence = {
        .token_ids = ids->values,
        .type_ids = types->values,
        .token_count = ids->count,
        .class_index = how->class_index,
    };
    batch one = {.sequences = &sequence, .count = 1, .deadline_ns = how->deadline_ns};
    int is_numbered = !id || id == Py_None;

    if (is_numbered)
        sequence.id = self->next_id++;
    else if (read_id(id, &sequence.id) != 0)
        return NULL;
    age(&one);
    if (push(self, &one, 1) == 0) return PyLong_FromUnsignedLongLong(sequence.id);
    if (is_numbered) give_numbers_back(self, sequence.id, &one);
    return NULL;
}

PyObject *wgpy_engine_submit(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"ids", "id", "priority", "deadline", "type_ids", NULL};
    wgpy_engine *self = (wgpy_engine *)object;
    PyObject *list, *id = NULL, *priority = NULL, *deadline = NULL, *type_list = NULL;
    PyObject *result = NULL;
    wgpy_ids ids, types = {0};
    manner how;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|OOOO:submit", names, &list, &id, &priority,
                                     &deadline, &type_list))
        return NULL;
    if (!wgpy_engine_handle(self) || read_manner(self, priority, deadline, &how) != 0 ||
        wgpy_ids_get(list, "ids", &ids) != 0)
        return NULL;
    if (read_types(type_list, &ids, &types) == 0) {
        result = submit_one(self, &ids, &types, id, &how);
        wgpy_ids_drop(&types);
    }
    wgpy_ids_drop(&ids);
    return result;
}

/* ----------------------------------------------------------------------------------------- many */

/* cu_seqlens, and ids if there are any, were read; everything is checked here. */
static int check_bounds(const uint64_t *bounds, uint64_t bound_count, uint64_t id_count,
                        uint64_t token_count)
{
    if (bound_count == 0 || bounds[0] != 0 || bounds[bound_count - 1] != token_count) {
        PyErr_Format(wgpy_error[WGPY_ARGUMENT],
                     "cu_seqlens must begin with 0 and end with the number of ids, %llu",
                     (unsigned long long)token_count);
        return -1;
    }
    for (uint64_t i = 1; i < bound_count; i++) {
        if (bounds[i] > bounds[i - 1]) continue;
        PyErr_Format(wgpy_error[WGPY_ARGUMENT],
                     bounds[i] == bounds[i - 1]
                         ? "cu_seqlens[%llu] equals the one before: sequence %llu is empty"
                         : "cu_seqlens[%llu] is below the one before, at sequence %llu",
                     (unsigned long long)i, (unsigned long long)(i - 1));
        return -1;
    }
    if (id_count == bound_count - 1) return 0;
    PyErr_Format(wgpy_error[WGPY_ARGUMENT], "sequence_ids has %llu items for %llu sequences",
                 (unsigned long long)id_count, (unsigned long long)(bound_count - 1));
    return -1;
}

static wg_sequence *describe(const wgpy_ids *ids, const wgpy_ids *types, const uint64_t *bounds,
                             uint64_t count, const manner *how)
{
    uint64_t left = how->deadline_ns ? deadline_left(how->deadline_ns) : 0;
    wg_sequence *sequences = NULL;

    if (count <= PY_SSIZE_T_MAX / sizeof(*sequences))
        sequences = PyMem_Malloc((size_t)count * sizeof(*sequences));
    if (!sequences) {
        PyErr_NoMemory();
        return NULL;
    }
    for (uint64_t i = 0; i < count; i++)
        sequences[i] = (wg_sequence){
            .token_ids = ids->values + bounds[i],
            .type_ids = types->values ? types->values + bounds[i] : NULL,
            .token_count = bounds[i + 1] - bounds[i],
            .class_index = how->class_index,
            .deadline_ns = left,
        };
    return sequences;
}

static PyObject *range_of(uint64_t first, uint64_t count)
{
    return PyObject_CallFunction((PyObject *)&PyRange_Type, "KK", (unsigned long long)first,
                                 (unsigned long long)(first + count));
}

static PyObject *submit_batch(wgpy_engine *self, batch *many, const uint64_t *numbers)
{
    uint64_t first = self->next_id;
    PyObject *result = numbers ? Py_NewRef(Py_None) : range_of(first, many->count);

    if (!result) return NULL;
    for (uint64_t i = 0; i < many->count; i++)
        many->sequences[i].id = numbers ? numbers[i] : first + i;
    if (!numbers) self->next_id += many->count;
    if (push(self, many, 0) == 0) return result;
    Py_DECREF(result);
    if (!numbers) give_numbers_back(self, first, many);
    return NULL;
}

PyObject *wgpy_engine_submit_many(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"ids",      "cu_seqlens", "sequence_ids", "priority", "deadline",
                            "type_ids", NULL};
    wgpy_engine *self = (wgpy_engine *)object;
    PyObject *list, *bound_list, *number_list = NULL, *priority = NULL, *deadline = NULL;
    PyObject *type_list = NULL, *result = NULL;
    wgpy_ids ids, types = {0};
    uint64_t *bounds = NULL, *numbers = NULL, bound_count, number_count;
    batch many = {0};
    manner how;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|OOOO:submit_many", names, &list,
                                     &bound_list, &number_list, &priority, &deadline, &type_list))
        return NULL;
    if (!wgpy_engine_handle(self) || read_manner(self, priority, deadline, &how) != 0 ||
        wgpy_ids_get(list, "ids", &ids) != 0)
        return NULL;
    if (read_types(type_list, &ids, &types) != 0 ||
        wgpy_counts_get(bound_list, "cu_seqlens", &bounds, &bound_count) != 0)
        goto cleanup;
    number_count = bound_count - 1;
    if (number_list && number_list != Py_None &&
        wgpy_counts_get(number_list, "sequence_ids", &numbers, &number_count) != 0)
        goto cleanup;
    if (check_bounds(bounds, bound_count, number_count, ids.count) != 0) goto cleanup;
    many.count = bound_count - 1;
    many.deadline_ns = how.deadline_ns;
    many.sequences = describe(&ids, &types, bounds, many.count, &how);
    if (many.sequences) result = submit_batch(self, &many, numbers);

cleanup:
    PyMem_Free(many.sequences);
    PyMem_Free(numbers);
    PyMem_Free(bounds);
    wgpy_ids_drop(&types);
    wgpy_ids_drop(&ids);
    return result;
}
