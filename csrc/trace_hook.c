/* trace_hook: while it is open, Python frames that start in this thread come to its callback. */
#include "onegraph.h"
#include <pythread.h>

typedef struct {
    PyObject_HEAD
    PyObject *callback; /* None: tracing is suspended */
    PyObject *outer;    /* borrowed from the trace_hook around this one */
    int outer_watchers;
    HookPlace place;
    unsigned long thread;
    bool open;
} TraceHookObject;

static PyObject *trace_hook_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"callback", NULL};
    PyObject *callback;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:trace_hook", names, &callback)) {
        return NULL;
    }
    if (callback != Py_None && !PyCallable_Check(callback)) {
        return PyErr_Format(PyExc_TypeError, "the callback must be callable or None, not %.200s",
                            Py_TYPE(callback)->tp_name);
    }
    TraceHookObject *self = (TraceHookObject *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->callback = Py_NewRef(callback);
    }
    return (PyObject *)self;
}

static PyObject *trace_hook_enter(TraceHookObject *self, PyObject *UNUSED(ignored))
{
    if (self->open) {
        PyErr_SetString(PyExc_RuntimeError, "this trace_hook is open already");
        return NULL;
    }
    Py_INCREF(self); /* until it is closed: the thread's state borrows the callback */
    self->open = true;
    self->thread = PyThread_get_thread_ident();
    self->outer = hook_state.tracer;
    self->outer_watchers = hook_state.watchers;
    hook_state.watchers = PyThreadState_Get()->tracing;
    hook_state.tracer = self->callback == Py_None ? NULL : self->callback;
    self->place = hook_enter();
    return Py_NewRef(self);
}

static PyObject *trace_hook_exit(TraceHookObject *self, PyObject *UNUSED(args))
{
    if (!self->open || self->thread != PyThread_get_thread_ident()) {
        PyErr_SetString(PyExc_RuntimeError, "this trace_hook is not open in this thread");
        return NULL;
    }
    hook_leave(self->place);
    hook_state.tracer = self->outer;
    hook_state.watchers = self->outer_watchers;
    self->open = false;
    Py_DECREF(self);
    Py_RETURN_NONE;
}

static int trace_hook_traverse(TraceHookObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->callback);
    return 0;
}

static void trace_hook_dealloc(TraceHookObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->callback);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef trace_hook_methods[] = {
    {"__enter__", (PyCFunction)trace_hook_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)trace_hook_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject TraceHook_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.trace_hook",
    .tp_basicsize = sizeof(TraceHookObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = trace_hook_new,
    .tp_traverse = (traverseproc)trace_hook_traverse,
    .tp_dealloc = (destructor)trace_hook_dealloc,
    .tp_methods = trace_hook_methods,
};
