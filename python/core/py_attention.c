/*
 * py_attention.c - part "attention" of the extension module: wg_attention_varlen on addresses.
 *
 * Addresses come as ints, so that tensors of any framework will do: what data_ptr() says of a torch
 * tensor, what __array_interface__ says of an array. The caller answers for them: that the memory
 * is there, float32 (int32 for cu_seqlens), in the strides given, and stays until the call returns.
 * warpgroup.attention_varlen checks arrays first; a buffer argument would do so here, but torch
 * tensors do not give buffers.
 *
 * Threads: the interpreter lock is given up during the work; calls do not meet.
 */
#include "core.h"

#include "warpgroup/attention.h"

/* For "O&": an address as an int. */
static int to_address(PyObject *object, void *out)
{
    void *address = PyLong_AsVoidPtr(object);

    if (!address && PyErr_Occurred()) return 0;
    *(void **)out = address;
    return 1;
}

/* For "O&": a count that fits into 32 bits. */
static int to_count(PyObject *object, void *out)
{
    size_t count = PyLong_AsSize_t(object);

    if (count == (size_t)-1 && PyErr_Occurred()) return 0;
    if (count > UINT32_MAX) {
        PyErr_Format(PyExc_OverflowError, "%zu does not fit into 32 bits", count);
        return 0;
    }
    *(uint32_t *)out = (uint32_t)count;
    return 1;
}

/* For "O&": a stride in floats. */
static int to_stride(PyObject *object, void *out)
{
    size_t stride = PyLong_AsSize_t(object);

    if (stride == (size_t)-1 && PyErr_Occurred()) return 0;
    *(size_t *)out = stride;
    return 1;
}

PyDoc_STRVAR(
    varlen_doc,
    "attention_varlen(query_ptr, key_ptr, value_ptr, out_ptr, query_strides, key_strides,\n"
    "                 value_strides, out_strides, cu_seqlens_ptr, sequence_count, head_count,\n"
    "                 key_head_count, head_dim, scale=0.0, is_causal=False, window=0,\n"
    "                 threads=0, isa=0)\n"
    "--\n\n"
    "Attention of packed sequences, on addresses.\n\n"
    "query and out are float32 [T, head_count, head_dim], key and value\n"
    "[T, key_head_count, head_dim], each with (row, head) strides in floats; cu_seqlens is\n"
    "int32 [sequence_count + 1] and says T. The caller guarantees that the addresses hold what\n"
    "is said of them until the call returns. scale 0: 1 / sqrt(head_dim); window 0: any\n"
    "distance; threads 0: cores of the affinity mask, the calling one included.\n\n"
    "Raises ArgumentError for shapes, strides and cu_seqlens that cannot be, OutOfMemoryError.");

static PyObject *attention_varlen(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"query_ptr",
                            "key_ptr",
                            "value_ptr",
                            "out_ptr",
                            "query_strides",
                            "key_strides",
                            "value_strides",
                            "out_strides",
                            "cu_seqlens_ptr",
                            "sequence_count",
                            "head_count",
                            "key_head_count",
                            "head_dim",
                            "scale",
                            "is_causal",
                            "window",
                            "threads",
                            "isa",
                            NULL};
    wg_varlen o = {0};
    wg_status status;
    wg_error err;
    int isa = 0;

    (void)module;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords,
            "O&O&O&O&(O&O&)(O&O&)(O&O&)(O&O&)O&O&O&O&O&|fpO&O&i:attention_varlen", names,
            to_address, &o.query.data, to_address, &o.key.data, to_address, &o.value.data,
            to_address, &o.out, to_stride, &o.query.row_stride, to_stride, &o.query.head_stride,
            to_stride, &o.key.row_stride, to_stride, &o.key.head_stride, to_stride,
            &o.value.row_stride, to_stride, &o.value.head_stride, to_stride, &o.out_row_stride,
            to_stride, &o.out_head_stride, to_address, &o.cu_seqlens, to_count, &o.sequence_count,
            to_count, &o.head_count, to_count, &o.key_head_count, to_count, &o.head_dim, &o.scale,
            &o.is_causal, to_count, &o.window, to_count, &o.thread_count, &isa))
        return NULL;
    o.isa = (wg_isa)isa;
    Py_BEGIN_ALLOW_THREADS status = wg_attention_varlen(&o, &err);
    Py_END_ALLOW_THREADS if (status != WG_OK) return wgpy_raise(&err);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"attention_varlen", (PyCFunction)(void (*)(void))attention_varlen,
     METH_VARARGS | METH_KEYWORDS, varlen_doc},
    {NULL, NULL, 0, NULL},
};

int wgpy_add_attention(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
