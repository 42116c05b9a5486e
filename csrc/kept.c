/* Kept: a value that is made of tensors, kept while they are as they were. */
#include "digest.h"
#include "libtorch.h"
#include "tensor.h"
#include "tensor_make.h"
#include <stddef.h>
#include <structmember.h>

enum { LONG = 64 * 1024 }; /* bytes from which on other threads may run Python meanwhile */

/* One tensor as it was when the value was made. */
typedef struct {
    PyObject *reference; /* weak; NULL: None was given, or there is no value */
    PyObject *version;   /* of an identity that is trusted; else NULL */
    void *data;
    Digest digest;
} Seen;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *weakrefs;
    PyObject *make;
    PyObject *value; /* NULL: there is none */
    Seen *seen;
    int64_t *itemsizes;
    Py_ssize_t n;
    bool trusting;
} KeptObject;

static void forget(KeptObject *self)
{
    for (Py_ssize_t i = 0; i < self->n && self->seen != NULL; i++) {
        Py_CLEAR(self->seen[i].reference);
        Py_CLEAR(self->seen[i].version);
    }
    Py_CLEAR(self->value);
}

/* Called when a tensor dies. */
static PyObject *kept_clear_value(KeptObject *self, PyObject *UNUSED(ignored))
{
    forget(self);
    Py_RETURN_NONE;
}

/* The version counter, or NULL for a tensor that has none. */
static PyObject *version_of(PyObject *tensor)
{
    PyObject *version = PyObject_GetAttrString(tensor, "_version");
    if (version == NULL) {
        PyErr_Clear();
    }
    return version;
}

static int digest_tensor(const KeptObject *self, Py_ssize_t i, PyObject *tensor, Digest *out)
{
    void *data;
    int64_t elements = 1, ndim, *sizes;
    const Libtorch *torch = libtorch_checked();
    if (tensor_data(tensor, &data) < 0) {
        return -1;
    }
    if (torch->get_dim(tensor_handle(tensor), &ndim) || torch->get_sizes(tensor_handle(tensor), &sizes)) {
        PyErr_SetString(PyExc_RuntimeError, "a tensor with sizes is expected");
        return -1;
    }
    for (int64_t d = 0; d < ndim; d++) {
        elements *= sizes[d];
    }
    size_t bytes = (size_t)(elements * self->itemsizes[i]);
    PyThreadState *released = bytes >= LONG ? PyEval_SaveThread() : NULL;
    digest_of(data, bytes, out);
    if (released != NULL) {
        PyEval_RestoreThread(released);
    }
    return 0;
}

/* 1 if the tensor is as it was, 0 if not, -1 with an exception set. */
static int is_as_before(KeptObject *self, Py_ssize_t i, PyObject *tensor)
{
    Seen *seen = &self->seen[i];
    if (seen->reference == NULL || tensor == Py_None) {
        return seen->reference == NULL && tensor == Py_None;
    }
    bool is_same = false;
    if (seen->version != NULL) {
        PyObject *known = PyObject_CallNoArgs(seen->reference);
        if (known == NULL) {
            return -1;
        }
        is_same = known == tensor;
        Py_DECREF(known);
    }
    if (is_same) {
        void *data;
        if (tensor_data(tensor, &data) < 0) {
            return -1;
        }
        PyObject *version = version_of(tensor);
        int same = version == NULL || data != seen->data ? 0 : PyObject_RichCompareBool(version, seen->version, Py_EQ);
        Py_XDECREF(version);
        return same;
    }
    if (self->trusting && seen->version != NULL) {
        return 0;
    }
    Digest now;
    if (digest_tensor(self, i, tensor, &now) < 0) {
        return -1;
    }
    /* While the digest was taken, another thread may have made the value anew. */
    return seen->reference != NULL && memcmp(&now, &seen->digest, sizeof(now)) == 0;
}

static int look_at(const KeptObject *self, Py_ssize_t i, PyObject *tensor, PyObject *clear, Seen *out)
{
    if (tensor == Py_None) {
        return 0;
    }
    if (digest_tensor(self, i, tensor, &out->digest) < 0 || tensor_data(tensor, &out->data) < 0) {
        return -1;
    }
    out->reference = PyWeakref_NewRef(tensor, clear);
    out->version = self->trusting ? version_of(tensor) : NULL;
    return out->reference == NULL ? -1 : 0;
}

static void drop(Seen *seen, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; seen != NULL && i < n; i++) {
        Py_XDECREF(seen[i].reference);
        Py_XDECREF(seen[i].version);
    }
    PyMem_Free(seen);
}

/* make(digests, *tensors) */
static PyObject *call_make(const KeptObject *self, const Seen *seen, PyObject *const *args)
{
    PyObject *digests = PyBytes_FromStringAndSize(NULL, self->n * (Py_ssize_t)sizeof(Digest));
    PyObject **call = PyMem_Calloc((size_t)self->n + 1, sizeof(PyObject *));
    PyObject *value = NULL;
    if (digests != NULL && call != NULL) {
        for (Py_ssize_t i = 0; i < self->n; i++) {
            char *place = PyBytes_AS_STRING(digests) + i * (Py_ssize_t)sizeof(Digest);
            memcpy(place, &seen[i].digest, sizeof(Digest));
            call[i + 1] = args[i];
        }
        call[0] = digests;
        value = PyObject_Vectorcall(self->make, call, (size_t)self->n + 1, NULL);
    }
    PyMem_Free(call);
    Py_XDECREF(digests);
    return value;
}

/* Other threads may do the same meanwhile: the value and what it was made of are put in place together. */
static PyObject *make_value(KeptObject *self, PyObject *const *args)
{
    PyObject *clear = PyObject_GetAttrString((PyObject *)self, "clear");
    Seen *seen = PyMem_Calloc((size_t)self->n + 1, sizeof(Seen));
    int status = clear == NULL || seen == NULL ? -1 : 0;
    if (seen == NULL) {
        PyErr_NoMemory();
    }
    forget(self); /* its memory is free before new memory is taken */
    for (Py_ssize_t i = 0; status == 0 && i < self->n; i++) {
        status = look_at(self, i, args[i], clear, &seen[i]);
    }
    PyObject *value = status < 0 ? NULL : call_make(self, seen, args);
    Py_XDECREF(clear);
    if (value == NULL) {
        drop(seen, self->n);
        return NULL;
    }
    Seen *before = self->seen;
    PyObject *value_before = self->value;
    self->seen = seen;
    self->value = Py_NewRef(value);
    drop(before, self->n);
    Py_XDECREF(value_before);
    return value;
}

static PyObject *kept_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names)
{
    KeptObject *self = (KeptObject *)object;
    if (PyVectorcall_NARGS(nargsf) != self->n || (names != NULL && PyTuple_GET_SIZE(names) != 0)) {
        return PyErr_Format(PyExc_TypeError, "%zd tensors are expected", self->n);
    }
    for (Py_ssize_t i = 0; i < self->n; i++) {
        if (args[i] != Py_None && !is_tensor(args[i])) {
            return PyErr_Format(PyExc_TypeError, "a tensor is expected, not %.200s", Py_TYPE(args[i])->tp_name);
        }
    }
    /* Held while digests are taken, when other threads run. */
    PyObject *value = Py_XNewRef(self->value);
    for (Py_ssize_t i = 0; value != NULL && i < self->n; i++) {
        int same = is_as_before(self, i, args[i]);
        if (same < 0) {
            Py_DECREF(value);
            return NULL;
        }
        if (same == 0 || self->value != value) {
            Py_CLEAR(value);
        }
    }
    return value != NULL ? value : make_value(self, args);
}

static PyObject *kept_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"make", "itemsizes", "trusting", NULL};
    PyObject *make, *itemsizes;
    int trusting;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!p:Kept", names, &make, &PyTuple_Type, &itemsizes, &trusting)) {
        return NULL;
    }
    if (!tensor_make_ready()) {
        PyErr_SetString(PyExc_NotImplementedError, "this torch has not what the native launcher needs");
        return NULL;
    }
    KeptObject *self = (KeptObject *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = kept_call;
    self->make = Py_NewRef(make);
    self->trusting = trusting;
    self->n = PyTuple_GET_SIZE(itemsizes);
    self->seen = PyMem_Calloc((size_t)self->n + 1, sizeof(Seen));
    self->itemsizes = PyMem_Calloc((size_t)self->n + 1, sizeof(int64_t));
    if (self->seen == NULL || self->itemsizes == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < self->n; i++) {
        self->itemsizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(itemsizes, i));
        if (PyErr_Occurred()) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static int kept_traverse(KeptObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->make);
    Py_VISIT(self->value);
    for (Py_ssize_t i = 0; i < self->n && self->seen != NULL; i++) {
        Py_VISIT(self->seen[i].reference);
    }
    return 0;
}

static int kept_clear(KeptObject *self)
{
    forget(self);
    Py_CLEAR(self->make);
    return 0;
}

static void kept_dealloc(KeptObject *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    kept_clear(self);
    PyMem_Free(self->seen);
    PyMem_Free(self->itemsizes);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef kept_methods[] = {
    {"clear", (PyCFunction)kept_clear_value, METH_VARARGS, "clear(*ignored)\n--\n\nForget the value."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef kept_members[] = {
    {"value", T_OBJECT, offsetof(KeptObject, value), READONLY, "the value, or None"},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(KeptObject, vectorcall), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(KeptObject, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Kept_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.Kept",
    .tp_doc = PyDoc_STR("Kept(make, itemsizes, trusting): called with dense tensors (or None), gives "
                        "make(digests, *tensors), kept until their contents change or one of them dies. When trusting, "
                        "a tensor's contents are taken to change with its identity, its memory and its version only."),
    .tp_basicsize = sizeof(KeptObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(KeptObject, vectorcall),
    .tp_weaklistoffset = offsetof(KeptObject, weakrefs),
    .tp_call = PyVectorcall_Call,
    .tp_new = kept_new,
    .tp_traverse = (traverseproc)kept_traverse,
    .tp_clear = (inquiry)kept_clear,
    .tp_dealloc = (destructor)kept_dealloc,
    .tp_methods = kept_methods,
    .tp_members = kept_members,
};
