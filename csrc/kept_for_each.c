/* KeptForEach: a Kept for each first tensor. One graph runs for several modules, each with weights of its own. */
#include "kept.h"
#include <stddef.h>
#include <structmember.h>

enum { MOST = 1024 }; /* from then on they take turns */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *weakrefs;
    PyObject *parts; /* a tuple: what a Kept is made of */
    PyObject *all;   /* a list */
    Py_ssize_t n;    /* tensors */
    Py_ssize_t last; /* the one that was called */
} KeptForEachObject;

/* A new reference to the Kept for these arguments: the one that has seen them, one without a value, or a new one. */
static PyObject *kept_for(KeptForEachObject *self, PyObject *const *args)
{
    Py_ssize_t count = PyList_GET_SIZE(self->all), free = -1;
    for (Py_ssize_t k = 0; k < count; k++) { /* from the last one on: modules run in turn */
        Py_ssize_t place = (self->last + k) % count;
        PyObject *kept = PyList_GET_ITEM(self->all, place);
        if (kept_is_free(kept)) {
            free = place;
        } else if (kept_is_of(kept, args)) {
            self->last = place;
            return Py_NewRef(kept);
        }
    }
    if (free < 0 && count < MOST) {
        PyObject *made = PyObject_Call((PyObject *)&Kept_Type, self->parts, NULL);
        if (made == NULL || PyList_Append(self->all, made) < 0) {
            Py_XDECREF(made);
            return NULL;
        }
        self->last = PyList_GET_SIZE(self->all) - 1;
        return made;
    }
    self->last = free < 0 ? (self->last + 1) % count : free;
    return Py_NewRef(PyList_GET_ITEM(self->all, self->last));
}

static PyObject *kept_for_each_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names)
{
    KeptForEachObject *self = (KeptForEachObject *)object;
    if (PyVectorcall_NARGS(nargsf) != self->n) {
        return PyErr_Format(PyExc_TypeError, "%zd tensors are expected", self->n);
    }
    PyObject *kept = kept_for(self, args);
    PyObject *value = kept == NULL ? NULL : PyObject_Vectorcall(kept, args, nargsf, names);
    Py_XDECREF(kept);
    return value;
}

static PyObject *kept_for_each_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *first = PyObject_Call((PyObject *)&Kept_Type, args, kwargs); /* which checks what it is made of */
    if (first == NULL) {
        return NULL;
    }
    KeptForEachObject *self = (KeptForEachObject *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = kept_for_each_call;
        self->parts = Py_NewRef(args);
        self->n = kept_size(first);
        self->all = PyList_New(0);
        if (self->all == NULL || PyList_Append(self->all, first) < 0) {
            Py_CLEAR(self);
        }
    }
    Py_DECREF(first);
    return (PyObject *)self;
}

static int kept_for_each_traverse(KeptForEachObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->parts);
    Py_VISIT(self->all);
    return 0;
}

/* It may still be called, by a finalizer: what a call needs stays. */
static int kept_for_each_clear(KeptForEachObject *self)
{
    return self->all == NULL ? 0 : PyList_SetSlice(self->all, 0, PyList_GET_SIZE(self->all), NULL);
}

static void kept_for_each_dealloc(KeptForEachObject *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    Py_XDECREF(self->parts);
    Py_XDECREF(self->all);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *kept_for_each_all(KeptForEachObject *self, void *UNUSED(closure)) { return PyList_AsTuple(self->all); }

static PyGetSetDef kept_for_each_getset[] = {
    {"all", (getter)kept_for_each_all, NULL, PyDoc_STR("each Kept that there is"), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef kept_for_each_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(KeptForEachObject, vectorcall), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(KeptForEachObject, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject KeptForEach_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.KeptForEach",
    .tp_basicsize = sizeof(KeptForEachObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(KeptForEachObject, vectorcall),
    .tp_weaklistoffset = offsetof(KeptForEachObject, weakrefs),
    .tp_call = PyVectorcall_Call,
    .tp_new = kept_for_each_new,
    .tp_traverse = (traverseproc)kept_for_each_traverse,
    .tp_clear = (inquiry)kept_for_each_clear,
    .tp_dealloc = (destructor)kept_for_each_dealloc,
    .tp_members = kept_for_each_members,
    .tp_getset = kept_for_each_getset,
};
