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
    if (count < 1 || !PyFunction_Check(PyTuple_GET_ITEM(args, 0))) {
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

/* ---- calls in the place of the program's ---- */

/* Behind a frame hook CPython keeps the operands of a call on the stack until it returns; without one, the frame that is
   called has them to itself. Here the operands are taken from the stack, and released when the frame starts. This is an
   object with a vectorcall, not a function: calling a built-in function takes a level of the limit of recursion. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
} HandOverObject;

static PyObject *hand_over(PyObject *UNUSED(self), PyObject *const *args, size_t nargsf, PyObject *names)
{
    PyObject **stack = (PyObject **)args;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    Py_ssize_t total = count + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
    if (count == 0) {
        PyErr_SetString(PyExc_TypeError, "hand_over needs what is to be called");
        return NULL;
    }
    PyObject *few[10], **given = total < 10 ? few : PyMem_New(PyObject *, total + 1);
    if (given == NULL) {
        return PyErr_NoMemory();
    }
    bool is_method = PyMethod_Check(stack[0]);
    PyObject *callable = Py_NewRef(is_method ? PyMethod_GET_FUNCTION(stack[0]) : stack[0]);
    Py_ssize_t filled = 0;
    if (is_method) {
        given[filled++] = Py_NewRef(PyMethod_GET_SELF(stack[0]));
    }
    for (Py_ssize_t i = 0; i < total; i++) {
        if (i > 0) {
            given[filled++] = Py_NewRef(stack[i]);
        }
        Py_SETREF(stack[i], Py_NewRef(Py_None));
    }
    HookState *state = &hook_state;
    if (PyFunction_Check(callable)) {
        state->given = (PyCodeObject *)PyFunction_GET_CODE(callable);
        state->given_args = given;
        state->given_count = filled;
    }
    PyObject *result = PyObject_Vectorcall(callable, given, (size_t)(count - 1 + is_method), names);
    state->given = NULL;
    for (Py_ssize_t i = 0; i < filled; i++) {
        Py_XDECREF(given[i]);
    }
    Py_DECREF(callable);
    if (given != few) {
        PyMem_Free(given);
    }
    return result;
}

static PyTypeObject HandOver_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.HandOver",
    .tp_doc = PyDoc_STR("hand_over(function, *args, **kwargs): call a function that has its arguments to itself: the "
                        "calling frame has not."),
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
