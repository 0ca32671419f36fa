/*
 * py_tokenizer.c - type Tokenizer: texts to token ids, and back, without the interpreter lock.
 *
 * A Python str lends its UTF-8 (it keeps a copy for that), so the references that a call holds are
 * what the C side reads while the lock is given up. A batch comes back as two blocks of int32, ids
 * and boundaries, as Engine.submit_many() takes them.
 *
 * Ids to decode may lie in a buffer that another thread writes to: what is read without the lock is
 * a copy.
 *
 * Buffers of encoder and decoder are kept between calls: a call takes the spare one, with the lock
 * held, or makes its own. Refused: a lock around it, which would let threads of Python wait for
 * each other.
 *
 * A tokenizer has no threads and is read-only, so it stays valid over a fork.
 */
#include "core.h"

#include <string.h>

#include "warpgroup/warpgroup.h"

#define LOCK_BYTES  2048          /* shorter texts are not worth giving the lock up for */
#define LOCK_COUNT  256           /* and fewer ids are not worth it either */
#define SPARE_COUNT (1u << 20)    /* tokens; larger buffers are not kept */
#define SPARE_BYTES (1u << 23)    /* of decoded text, likewise */
#define FIRST_COUNT ((size_t)256) /* ids that a batch has room for at first */

typedef struct tokenizer {
    PyObject_HEAD /* */
        wg_tokenizer *handle;
    wg_encoding spare;
    wg_decoding spare_decoding;
} tokenizer;

static PyTypeObject *tokenizer_type;

wg_tokenizer *wgpy_tokenizer_of(PyObject *object)
{
    if (PyObject_TypeCheck(object, tokenizer_type)) return ((tokenizer *)object)->handle;
    PyErr_SetString(PyExc_TypeError, "tokenizer must be a warpgroup.Tokenizer");
    return NULL;
}

int wgpy_truncate_get(const char *name, wg_truncate *out)
{
    static const char *const names[] = {
        [WG_TRUNCATE_HEAD] = "head", [WG_TRUNCATE_TAIL] = "tail", [WG_TRUNCATE_ERROR] = "error"};

    for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (wg_truncate)i;
        return 0;
    }
    PyErr_Format(wgpy_error[WGPY_ARGUMENT], "truncate '%s': use 'head', 'tail' or 'error'", name);
    return -1;
}

/* --------------------------------------------------------------------------------------- texts */

typedef struct text {
    const char *bytes;
    Py_ssize_t count;
} text;

/* Borrowed from the str; `what` names it in messages. */
static int text_get(PyObject *object, const char *what, text *out)
{
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s must be a str", what);
        return -1;
    }
    out->bytes = PyUnicode_AsUTF8AndSize(object, &out->count);
    if (!out->bytes && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear();
        PyErr_Format(wgpy_error[WGPY_ARGUMENT],
                     "%s holds a lone surrogate, which is no character; replace it: "
                     "text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')",
                     what);
    }
    return out->bytes ? 0 : -1;
}

/* The texts of a sequence, borrowed from *owner, which is handed over. Freed with wgpy_free. */
static text *texts_get(PyObject *sequence, const char *what, PyObject **owner, Py_ssize_t *count)
{
    text *texts = NULL;

    if (PyUnicode_Check(sequence)) {
        PyErr_Format(PyExc_TypeError, "%s must be a sequence of str, not one str", what);
        return NULL;
    }
    *owner = PySequence_Tuple(sequence);
    if (!*owner) return NULL;
    *count = PyTuple_Size(*owner);
    texts = wgpy_alloc((size_t)*count * sizeof(*texts));
    if (!texts) (void)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < *count && texts; i++) {
        char name[64];

        (void)PyOS_snprintf(name, sizeof(name), "%s[%zd]", what, i);
        if (text_get(PyTuple_GetItem(*owner, i), name, &texts[i]) == 0) continue;
        wgpy_free(texts);
        texts = NULL;
    }
    if (!texts) Py_CLEAR(*owner);
    return texts;
}

/* ------------------------------------------------------------------------------------- options */

static int options_get(Py_ssize_t max_length, const char *truncate, int add_special_tokens,
                       wg_encode_options *out)
{
    *out = (wg_encode_options){.no_special_tokens = !add_special_tokens};
    if (max_length < 0) {
        PyErr_Format(wgpy_error[WGPY_ARGUMENT], "max_length %zd is below 0", max_length);
        return -1;
    }
    out->token_count_max = (size_t)max_length;
    return wgpy_truncate_get(truncate, &out->truncate);
}

static wg_encoding take_spare(tokenizer *self)
{
    wg_encoding encoding = self->spare;

    self->spare = (wg_encoding){0};
    return encoding;
}

static void give_spare(tokenizer *self, wg_encoding *encoding)
{
    if (self->spare.capacity == 0 && encoding->capacity <= SPARE_COUNT)
        self->spare = *encoding;
    else
        wg_encoding_fini(encoding);
}

/* -------------------------------------------------------------------------------------- encode */

static PyObject *list_of(const int32_t *ids, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);

    for (size_t i = 0; i < count && list; i++) {
        PyObject *id = PyLong_FromLong(ids[i]);

        if (id)
            (void)PyList_SetItem(list, (Py_ssize_t)i, id);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *tokenizer_encode(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"text", "pair", "max_length", "truncate", "add_special_tokens", NULL};
    tokenizer *self = (tokenizer *)object;
    PyObject *text_object, *pair_object = Py_None, *list = NULL;
    Py_ssize_t max_length = 0;
    const char *truncate = "head";
    int add_special_tokens = 1;
    wg_encode_options options;
    text first, second = {0};
    wg_encoding encoding;
    wg_status status;
    wg_error err = {0};

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O$nsp:encode", names, &text_object,
                                     &pair_object, &max_length, &truncate, &add_special_tokens))
        return NULL;
    if (options_get(max_length, truncate, add_special_tokens, &options) != 0) return NULL;
    if (text_get(text_object, "text", &first) != 0) return NULL;
    if (pair_object != Py_None && text_get(pair_object, "pair", &second) != 0) return NULL;
    encoding = take_spare(self);
    if (first.count + second.count < LOCK_BYTES) {
        status = wg_tokenizer_encode(self->handle, first.bytes, (size_t)first.count, second.bytes,
                                     (size_t)second.count, &options, &encoding, &err);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        status = wg_tokenizer_encode(self->handle, first.bytes, (size_t)first.count, second.bytes,
                                     (size_t)second.count, &options, &encoding, &err);
        Py_END_ALLOW_THREADS;
    }
    list = status == WG_OK ? list_of(encoding.token_ids, encoding.token_count) : wgpy_raise(&err);
    give_spare(self, &encoding);
    return list;
}

/* --------------------------------------------------------------------------------------- batch */

typedef struct batch {
    int32_t *ids;
    size_t count, capacity;
    int32_t *cu_seqlens; /* [texts + 1] */
} batch;

static int batch_append(batch *all, const wg_encoding *encoding, Py_ssize_t i, wg_error *err)
{
    size_t need = all->count + encoding->token_count;

    if (need > INT32_MAX) {
        err->status = WG_ERR_LIMIT;
        (void)PyOS_snprintf(err->message, sizeof(err->message),
                            "more than 2147483647 tokens: encode fewer texts at once");
        return -1;
    }
    if (need > all->capacity) {
        size_t capacity = all->capacity > need / 2 ? 2 * all->capacity : need + FIRST_COUNT;
        int32_t *grown = wgpy_alloc(capacity * sizeof(*grown));

        if (!grown) {
            err->status = WG_ERR_NO_MEMORY;
            (void)PyOS_snprintf(err->message, sizeof(err->message), "no memory for %zu tokens",
                                capacity);
            return -1;
        }
        if (all->count) memcpy(grown, all->ids, all->count * sizeof(*grown));
        wgpy_free(all->ids);
        all->ids = grown;
        all->capacity = capacity;
    }
    if (encoding->token_count)
        memcpy(all->ids + all->count, encoding->token_ids,
               encoding->token_count * sizeof(*all->ids));
    all->count = need;
    all->cu_seqlens[i + 1] = (int32_t)need;
    return 0;
}

/* Without the interpreter lock. 0, or -1 with err filled, naming the text. */
static int encode_all(const wg_tokenizer *handle, const text *texts, const text *pairs,
                      Py_ssize_t count, const wg_encode_options *options, wg_encoding *encoding,
                      batch *all, wg_error *err)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        wg_error why = {0};
        wg_status status = wg_tokenizer_encode(
            handle, texts[i].bytes, (size_t)texts[i].count, pairs ? pairs[i].bytes : NULL,
            pairs ? (size_t)pairs[i].count : 0, options, encoding, &why);

        if (status != WG_OK) {
            err->status = status;
            (void)PyOS_snprintf(err->message, sizeof(err->message), "text %zd: %.480s", i,
                                why.message);
            return -1;
        }
        if (batch_append(all, encoding, i, err) != 0) return -1;
    }
    return 0;
}

static PyObject *batch_pair(const batch *all, Py_ssize_t count)
{
    PyObject *ids = PyByteArray_FromStringAndSize((const char *)all->ids,
                                                  (Py_ssize_t)(all->count * sizeof(int32_t)));
    PyObject *cu_seqlens = PyByteArray_FromStringAndSize(
        (const char *)all->cu_seqlens, (Py_ssize_t)((size_t)(count + 1) * sizeof(int32_t)));
    PyObject *pair = ids && cu_seqlens ? PyTuple_Pack(2, ids, cu_seqlens) : NULL;

    Py_XDECREF(ids);
    Py_XDECREF(cu_seqlens);
    return pair;
}

static PyObject *tokenizer_encode_flat(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"texts", "pairs", "max_length", "truncate", "add_special_tokens", NULL};
    tokenizer *self = (tokenizer *)object;
    PyObject *texts_object, *pairs_object = Py_None, *made = NULL;
    PyObject *texts_owner = NULL, *pairs_owner = NULL;
    Py_ssize_t max_length = 0, count = 0, pair_count = 0;
    const char *truncate = "head";
    int add_special_tokens = 1, result;
    wg_encode_options options;
    text *texts = NULL, *pairs = NULL;
    wg_encoding encoding;
    batch all = {0};
    wg_error err = {0};

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O$nsp:encode_flat", names, &texts_object,
                                     &pairs_object, &max_length, &truncate, &add_special_tokens))
        return NULL;
    if (options_get(max_length, truncate, add_special_tokens, &options) != 0) return NULL;
    texts = texts_get(texts_object, "texts", &texts_owner, &count);
    if (!texts) goto cleanup;
    if (pairs_object != Py_None) {
        pairs = texts_get(pairs_object, "pairs", &pairs_owner, &pair_count);
        if (!pairs) goto cleanup;
        if (pair_count != count) {
            PyErr_Format(wgpy_error[WGPY_ARGUMENT], "%zd texts and %zd pairs", count, pair_count);
            goto cleanup;
        }
    }
    all.cu_seqlens = wgpy_alloc((size_t)(count + 1) * sizeof(*all.cu_seqlens));
    if (!all.cu_seqlens) {
        (void)PyErr_NoMemory();
        goto cleanup;
    }
    all.cu_seqlens[0] = 0;
    encoding = take_spare(self);
    Py_BEGIN_ALLOW_THREADS;
    result = encode_all(self->handle, texts, pairs, count, &options, &encoding, &all, &err);
    Py_END_ALLOW_THREADS;
    give_spare(self, &encoding);
    made = result == 0 ? batch_pair(&all, count) : wgpy_raise(&err);

cleanup:
    wgpy_free(all.ids);
    wgpy_free(all.cu_seqlens);
    wgpy_free(texts);
    wgpy_free(pairs);
    Py_XDECREF(texts_owner);
    Py_XDECREF(pairs_owner);
    return made;
}

/* -------------------------------------------------------------------------------------- decode */

static wg_decoding take_decoding(tokenizer *self)
{
    wg_decoding decoding = self->spare_decoding;

    self->spare_decoding = (wg_decoding){0};
    return decoding;
}

static void give_decoding(tokenizer *self, wg_decoding *decoding, uint64_t id_count)
{
    int is_small = id_count <= SPARE_COUNT && decoding->text_bytes <= SPARE_BYTES;

    if (!self->spare_decoding.scratch && is_small)
        self->spare_decoding = *decoding;
    else
        wg_decoding_fini(decoding);
}

/* Without the interpreter lock, of a copy where the ids are the caller's own memory. */
static wg_status decode_unlocked(const wg_tokenizer *handle, const wgpy_ids *ids, int skip,
                                 wg_decoding *decoding, wg_error *err)
{
    size_t bytes = (size_t)ids->count * sizeof(*ids->values);
    const int32_t *values = ids->values;
    int32_t *copy = NULL;
    wg_status status;

    if (ids->view.obj && values == ids->view.buf) {
        copy = wgpy_alloc(bytes);
        if (!copy) {
            err->status = WG_ERR_NO_MEMORY;
            (void)PyOS_snprintf(err->message, sizeof(err->message),
                                "no memory for %zu bytes of ids", bytes);
            return WG_ERR_NO_MEMORY;
        }
        memcpy(copy, values, bytes);
        values = copy;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = wg_tokenizer_decode(handle, values, (size_t)ids->count, skip, decoding, err);
    Py_END_ALLOW_THREADS;
    wgpy_free(copy);
    return status;
}

static PyObject *tokenizer_decode(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"ids", "skip_special_tokens", NULL};
    tokenizer *self = (tokenizer *)object;
    PyObject *ids_object, *made;
    int skip_special_tokens = 1;
    wg_decoding decoding;
    wg_status status;
    wg_error err = {0};
    wgpy_ids ids;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|p:decode", names, &ids_object,
                                     &skip_special_tokens))
        return NULL;
    if (wgpy_ids_get(ids_object, "ids", &ids) != 0) return NULL;
    decoding = take_decoding(self);
    if (ids.count < LOCK_COUNT)
        status = wg_tokenizer_decode(self->handle, ids.values, (size_t)ids.count,
                                     skip_special_tokens, &decoding, &err);
    else
        status = decode_unlocked(self->handle, &ids, skip_special_tokens, &decoding, &err);
    made = status == WG_OK
               ? PyUnicode_DecodeUTF8(decoding.text, (Py_ssize_t)decoding.text_bytes, NULL)
               : wgpy_raise(&err);
    give_decoding(self, &decoding, ids.count);
    wgpy_ids_drop(&ids);
    return made;
}

/* ---------------------------------------------------------------------------------------- type */

static PyObject *tokenizer_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"path", NULL};
    allocfunc allocate = (allocfunc)(uintptr_t)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *path = NULL;
    wg_tokenizer *handle = NULL;
    tokenizer *self;
    wg_status status;
    wg_error err = {0};

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&:Tokenizer", names, PyUnicode_FSConverter,
                                     &path))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = wg_tokenizer_open(&handle, PyBytes_AsString(path), &err);
    Py_END_ALLOW_THREADS;
    Py_DECREF(path);
    if (status != WG_OK) return wgpy_raise(&err);
    self = (tokenizer *)allocate(type, 0);
    if (self)
        self->handle = handle;
    else
        wg_tokenizer_close(handle);
    return (PyObject *)self;
}

static void tokenizer_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)(uintptr_t)PyType_GetSlot(type, Py_tp_free);
    tokenizer *self = (tokenizer *)object;

    wg_encoding_fini(&self->spare);
    wg_decoding_fini(&self->spare_decoding);
    wg_tokenizer_close(self->handle);
    release(object);
    Py_DECREF(type);
}

static PyObject *tokenizer_vocab_size(PyObject *object, void *none)
{
    (void)none;
    return PyLong_FromSize_t(wg_tokenizer_vocabulary_count(((tokenizer *)object)->handle));
}

PyDoc_STRVAR(tokenizer_doc,
             "Tokenizer(path)\n--\n\n"
             "Text to token ids and back. path: a model directory that holds tokenizer.json, that "
             "file, or a GGUF file.");
PyDoc_STRVAR(encode_doc,
             "encode(text, pair=None, *, max_length=0, truncate='head', add_special_tokens=True)\n"
             "--\n\n"
             "Token ids of one text, or of a pair, as a list of int.");
PyDoc_STRVAR(encode_flat_doc,
             "encode_flat(texts, pairs=None, *, max_length=0, truncate='head',\n"
             "            add_special_tokens=True)\n--\n\n"
             "(ids, cu_seqlens) of many texts as bytearrays of int32: text i has the ids\n"
             "cu_seqlens[i] to cu_seqlens[i + 1]. Without the interpreter lock.");

PyDoc_STRVAR(decode_doc, "decode(ids, skip_special_tokens=True)\n--\n\n"
                         "The text that token ids stand for.");

static PyMethodDef tokenizer_methods[] = {
    {"encode", (PyCFunction)(void (*)(void))tokenizer_encode, METH_VARARGS | METH_KEYWORDS,
     encode_doc},
    {"encode_flat", (PyCFunction)(void (*)(void))tokenizer_encode_flat,
     METH_VARARGS | METH_KEYWORDS, encode_flat_doc},
    {"decode", (PyCFunction)(void (*)(void))tokenizer_decode, METH_VARARGS | METH_KEYWORDS,
     decode_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef tokenizer_attributes[] = {
    {"vocab_size", tokenizer_vocab_size, NULL, "Tokens of the vocabulary, added ones included.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot tokenizer_slots[] = {
    {Py_tp_doc, (void *)tokenizer_doc},          WGPY_SLOT(Py_tp_new, tokenizer_new),
    WGPY_SLOT(Py_tp_dealloc, tokenizer_dealloc), {Py_tp_methods, tokenizer_methods},
    {Py_tp_getset, tokenizer_attributes},        {0, NULL},
};

static PyType_Spec tokenizer_spec = {
    .name = "warpgroup._core.Tokenizer",
    .basicsize = sizeof(tokenizer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = tokenizer_slots,
};

int wgpy_add_tokenizer(PyObject *module)
{
    tokenizer_type = (PyTypeObject *)PyType_FromSpec(&tokenizer_spec);
    if (!tokenizer_type) return -1;
    return PyModule_AddObjectRef(module, "Tokenizer", (PyObject *)tokenizer_type);
}
