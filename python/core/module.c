/*
 * module.c - warpgroup._core: puts the parts together.
 */
#include "core.h"

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "warpgroup._core",
    .m_doc = "The C side of warpgroup; use the package warpgroup.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
    int (*const parts[])(PyObject *) = {
        wgpy_add_errors, wgpy_add_array,     wgpy_add_bin,   wgpy_add_engine,   wgpy_add_pack,
        wgpy_add_ingest, wgpy_add_tokenizer, wgpy_add_model, wgpy_add_capacity, wgpy_add_attention};
    PyObject *module = PyModule_Create(&definition);

    if (!module) return NULL;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i](module) != 0) goto failed;
    if (PyModule_AddStringConstant(module, "__version__", wg_version()) != 0) goto failed;
    return module;

failed:
    Py_DECREF(module);
    return NULL;
}
