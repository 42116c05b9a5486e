/* Calling resume functions without growing the stack: a replacement that breaks returns what is to be called next, and
   the hook calls it when the frame has ended. So a loop with a break in its body runs in constant depth, the stack is
   as deep as that of the program as it was written, and tracebacks have its entries alone. */
#include "onegraph.h"
#include <stddef.h>

/* Call with arguments that are references of their own: the frame that is called has them to itself, and what it drops
   does not live on out here. Those that are left (of a call that is no frame's, or has not come to it) are released. */
static PyObject *call_giving(PyObject *callable, PyObject **args, Py_ssize_t count, PyObject *names, bool is_tail)
{
    HookState *state = &hook_state;
    if (PyFunction_Check(callable)) {
        state->given = (PyCodeObject *)PyFunction_GET_CODE(callable);
        state->given_args = args;
        state->given_count = count;
        state->given_tail = is_tail;
    }
    Py_ssize_t named = names == NULL ? 0 : PyTuple_GET_SIZE(names);
    PyObject *result = PyObject_Vectorcall(callable, args, (size_t)(count - named), names);
    state->given = NULL;
    resume_release(args, count);
    return result;
}

void resume_release(PyObject **args, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_CLEAR(args[i]);
    }
}

typedef struct {
    PyObject_VAR_HEAD
    PyObject *items[1]; /* the function and its arguments, which are NULL once they are given */
} TailCallObject;

static PyObject *tail_call_new(PyTypeObject *type, PyObject *args, PyObject *UNUSED(kwargs))
{
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    if (count < 1 || !PyFunction_Check(PyTuple_GET_ITEM(args, 0))) {
        PyErr_SetString(PyExc_TypeError, "TailCall needs a function written in Python");
        return NULL;
    }
    TailCallObject *self = (TailCallObject *)type->tp_alloc(type, count);
    for (Py_ssize_t i = 0; self != NULL && i < count; i++) {
        self->items[i] = Py_NewRef(PyTuple_GET_ITEM(args, i));
    }
    return (PyObject *)self;
}

static int tail_call_traverse(TailCallObject *self, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_VISIT(self->items[i]);
    }
    return 0;
}

static int tail_call_clear(TailCallObject *self)
{
    resume_release(self->items, Py_SIZE(self));
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
    .tp_basicsize = offsetof(TailCallObject, items),
    .tp_itemsize = sizeof(PyObject *),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = tail_call_new,
    .tp_traverse = (traverseproc)tail_call_traverse,
    .tp_clear = (inquiry)tail_call_clear,
    .tp_dealloc = (destructor)tail_call_dealloc,
};

/* What comes behind a replacement whose frame has ended: what it asks for is called, until there is a result. */
PyObject *resume_tail_calls(PyObject *result)
{
    while (result != NULL && Py_IS_TYPE(result, &TailCall_Type)) {
        TailCallObject *next = (TailCallObject *)result;
        result = call_giving(next->items[0], next->items + 1, Py_SIZE(next) - 1, NULL, true);
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

/* ---- calls in the place of the program's ---- */

/* Behind a frame hook CPython keeps the operands of a call on the stack until it returns; without one, the frame that is
   called has them to itself. Here they come in a list, which is emptied: it alone stays on the stack. This is an object
   with a vectorcall, not a function: calling a built-in function takes a level of the limit of recursion. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
} HandOverObject;

static PyObject *hand_over(PyObject *UNUSED(self), PyObject *const *args, size_t nargsf, PyObject *UNUSED(keywords))
{
    Py_ssize_t n_args = PyVectorcall_NARGS(nargsf);
    Py_ssize_t count = n_args > 0 && PyList_CheckExact(args[0]) ? PyList_GET_SIZE(args[0]) : 0;
    PyObject *names = n_args > 1 ? args[1] : NULL;
    if (count == 0 || (names != NULL && (!PyTuple_CheckExact(names) || PyTuple_GET_SIZE(names) >= count))) {
        PyErr_SetString(PyExc_TypeError, "hand_over needs a list of what is to be called and its arguments");
        return NULL;
    }
    PyObject *few[10], **items = count <= 10 ? few : PyMem_New(PyObject *, count);
    if (items == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        items[i] = Py_NewRef(PyList_GET_ITEM(args[0], i));
    }
    PyObject *result = NULL;
    if (PyList_SetSlice(args[0], 0, count, NULL) < 0) {
        resume_release(items, count);
    } else if (PyMethod_Check(items[0])) {
        PyObject *method = items[0], *function = Py_NewRef(PyMethod_GET_FUNCTION(method));
        items[0] = Py_NewRef(PyMethod_GET_SELF(method));
        Py_DECREF(method);
        result = call_giving(function, items, count, names, false);
        Py_DECREF(function);
    } else {
        result = call_giving(items[0], items + 1, count - 1, names, false);
        Py_DECREF(items[0]);
    }
    if (items != few) {
        PyMem_Free(items);
    }
    return result;
}

static PyTypeObject HandOver_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.HandOver",
    .tp_basicsize = sizeof(HandOverObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(HandOverObject, vectorcall),
};

PyObject *resume_hand_over_new(void)
{
    if (PyType_Ready(&HandOver_Type) < 0) {
        return NULL;
    }
    HandOverObject *self = PyObject_New(HandOverObject, &HandOver_Type);
    if (self != NULL) {
        self->vectorcall = hand_over;
    }
    return (PyObject *)self;
}
