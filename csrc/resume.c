/* Calling resume functions without growing the stack: a replacement that breaks returns what is to be called next, and
   the hook calls it when the frame has ended. So a loop with a break in its body runs in constant depth, the stack is
   as deep as that of the program as it was written, and tracebacks have its entries alone. */
#include "onegraph.h"
#include <stddef.h>

typedef struct {
    PyObject_HEAD
    PyObject *function;
    PyObject *args; /* tuple */
} TailCallObject;

static PyObject *tail_call_new(PyTypeObject *type, PyObject *args, PyObject *UNUSED(kwargs))
{
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    if (count == 0 || !PyFunction_Check(PyTuple_GET_ITEM(args, 0))) {
        PyErr_SetString(PyExc_TypeError, "TailCall needs a function written in Python");
        return NULL;
    }
    TailCallObject *self = (TailCallObject *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->function = Py_NewRef(PyTuple_GET_ITEM(args, 0));
        self->args = PyTuple_GetSlice(args, 1, count);
        if (self->args == NULL) {
            Py_CLEAR(self);
        }
    }
    return (PyObject *)self;
}

static int tail_call_traverse(TailCallObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->args);
    return 0;
}

static int tail_call_clear(TailCallObject *self)
{
    Py_CLEAR(self->function);
    Py_CLEAR(self->args);
    return 0;
}

static void tail_call_dealloc(TailCallObject *self)
{
    PyObject_GC_UnTrack(self);
    tail_call_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject TailCall_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.TailCall",
    .tp_doc = PyDoc_STR("TailCall(function, *args): what a resume function returns to have it called in its place."),
    .tp_basicsize = sizeof(TailCallObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = tail_call_new,
    .tp_traverse = (traverseproc)tail_call_traverse,
    .tp_clear = (inquiry)tail_call_clear,
    .tp_dealloc = (destructor)tail_call_dealloc,
};

/* The frame of the tail call has its arguments: what it drops from now on must not live on in here. */
void resume_release_args(PyObject *args)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        Py_SETREF(PyTuple_GET_ITEM(args, i), Py_NewRef(Py_None));
    }
}

/* What comes behind a replacement whose frame has ended: what it asks for is called, until there is a result. */
PyObject *resume_tail_calls(PyObject *result)
{
    while (result != NULL && Py_IS_TYPE(result, &TailCall_Type)) {
        TailCallObject *next = (TailCallObject *)result;
        hook_state.tail = (PyCodeObject *)PyFunction_GET_CODE(next->function);
        hook_state.tail_args = next->args;
        result = PyObject_Call(next->function, next->args, NULL);
        hook_state.tail = NULL;
        hook_state.tail_args = NULL;
        Py_DECREF(next);
    }
    return result;
}

PyObject *resume_call(PyObject *UNUSED(module), PyObject *call)
{
    if (!Py_IS_TYPE(call, &TailCall_Type)) {
        PyErr_SetString(PyExc_TypeError, "resume needs a TailCall");
        return NULL;
    }
    return resume_tail_calls(Py_NewRef(call));
}
