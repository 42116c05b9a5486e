/* Context: the identity of one compiled region, and the owner of the entries compiled for it. */
#include "onegraph.h"
#include <stddef.h>
#include <structmember.h>

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"callback", NULL};
    PyObject *callback;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Context", names, &callback)) {
        return NULL;
    }
    if (!PyCallable_Check(callback)) {
        return PyErr_Format(PyExc_TypeError, "the callback must be callable, not %.200s", Py_TYPE(callback)->tp_name);
    }
    ContextObject *self = (ContextObject *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->callback = Py_NewRef(callback);
    }
    return (PyObject *)self;
}

static int context_traverse(ContextObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->callback);
    for (CodeRecord *record = self->records; record != NULL; record = record->next_of_context) {
        Py_VISIT(record->entries);
    }
    return 0;
}

static void drop_records(ContextObject *self)
{
    Py_INCREF(self); /* dropping an entry may run arbitrary code */
    while (self->records != NULL) {
        code_record_drop(self->records);
    }
    Py_DECREF(self);
}

static int context_tp_clear(ContextObject *self)
{
    /* The callback stays until the end: a region that is being finalized may still be called. */
    drop_records(self);
    return 0;
}

static void context_dealloc(ContextObject *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    while (self->records != NULL) {
        code_record_drop(self->records);
    }
    Py_XDECREF(self->callback);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *context_clear(ContextObject *self, PyObject *args)
{
    PyCodeObject *code = NULL;
    if (!PyArg_ParseTuple(args, "|O!:clear", &PyCode_Type, &code)) {
        return NULL;
    }
    if (code == NULL) {
        drop_records(self);
        Py_RETURN_NONE;
    }
    CodeRecord *record = self->records;
    while (record != NULL && record->code != code) {
        record = record->next_of_context;
    }
    if (record != NULL) {
        code_record_drop(record);
    }
    Py_RETURN_NONE;
}

static PyObject *context_codes(ContextObject *self, PyObject *UNUSED(ignored))
{
    PyObject *codes = PyList_New(0);
    if (codes == NULL) {
        return NULL;
    }
    for (CodeRecord *record = self->records; record != NULL; record = record->next_of_context) {
        if (PyList_Append(codes, (PyObject *)record->code) < 0) {
            Py_DECREF(codes);
            return NULL;
        }
    }
    Py_SETREF(codes, PyList_AsTuple(codes));
    return codes;
}

static PyMethodDef context_methods[] = {
    {"clear", (PyCFunction)context_clear, METH_VARARGS,
     "Forget the entries and skip marks of this context, or those of one code object."},
    {"codes", (PyCFunction)context_codes, METH_NOARGS, "The code objects that this context knows, newest first."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef context_members[] = {
    {"callback", T_OBJECT_EX, offsetof(ContextObject, callback), READONLY, "asked about frames that fit no entry"},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ContextObject, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Context_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.Context",
    .tp_basicsize = sizeof(ContextObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = context_new,
    .tp_traverse = (traverseproc)context_traverse,
    .tp_clear = (inquiry)context_tp_clear,
    .tp_dealloc = (destructor)context_dealloc,
    .tp_weaklistoffset = offsetof(ContextObject, weakrefs),
    .tp_methods = context_methods,
    .tp_members = context_members,
};
