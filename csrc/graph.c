/* Graph: a compiled graph as residual code calls it. Nothing of the frame has happened when its graph runs, so where
   the graph fails and can be undone, the frame runs as it was written: what comes before the failing operator then
   happens, and the program's own handlers see the error. */
#include "frame.h"
#include <stddef.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;
    PyObject *before; /* before(*args): what `failed` needs to know, asked before each call; or NULL */
    PyObject *failed; /* failed(error, known, *args): whether nothing is left of the failed call */
    PyObject *misfit; /* misfit(result): raises, for what is no tuple or list of `outputs` results; or NULL */
    Py_ssize_t outputs;
    bool whole; /* signals wait while it runs: what a handler raises would be taken for its failure, or leave a part */
} GraphObject;

/* The arguments are in the slots of the frame that called the graph: residual code assigns none before. */
static void give_up_frame(void)
{
    PyFrameObject *object = PyEval_GetFrame();
    if (object != NULL) {
        Frame *frame = ((struct _frame *)object)->f_frame;
        failed_frame_set(frame_code(frame), frame_slots(frame));
    }
}

static void ask_failed(GraphObject *self, PyObject *known, PyObject *const *args, Py_ssize_t count)
{
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    PyObject *given = PyTuple_New(2 + count);
    PyObject *answer = NULL;
    if (given != NULL) {
        PyTuple_SET_ITEM(given, 0, Py_NewRef(error));
        PyTuple_SET_ITEM(given, 1, Py_NewRef(known));
        for (Py_ssize_t i = 0; i < count; i++) {
            PyTuple_SET_ITEM(given, 2 + i, Py_NewRef(args[i]));
        }
        answer = PyObject_Call(self->failed, given, NULL);
        Py_DECREF(given);
    }
    if (answer == Py_True) {
        give_up_frame();
    }
    Py_XDECREF(answer);
    if (PyErr_Occurred()) {
        PyErr_WriteUnraisable(self->failed);
    }
    PyErr_Restore(kind, error, trace);
}

static bool fits(GraphObject *self, PyObject *result)
{
    return self->misfit == NULL
           || ((PyTuple_Check(result) || PyList_Check(result)) && PySequence_Fast_GET_SIZE(result) == self->outputs);
}

static PyObject *graph_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names)
{
    GraphObject *self = (GraphObject *)object;
    HookState *state = &hook_state;
    ContextObject *context = state->context;
    PyObject *tracer = state->tracer;
    state->context = NULL;
    state->tracer = NULL;
    bool waited = self->whole ? signals_defer() : true;
    PyObject *result = NULL;
    PyObject *known = self->before == NULL ? Py_NewRef(Py_None) : PyObject_Vectorcall(self->before, args, nargsf, names);
    if (known != NULL) {
        result = PyObject_Vectorcall(self->function, args, nargsf, names);
        if (result == NULL && PyErr_ExceptionMatches(PyExc_Exception)) {
            ask_failed(self, known, args, PyVectorcall_NARGS(nargsf));
        }
        Py_DECREF(known);
    } else if (PyErr_ExceptionMatches(PyExc_Exception)) { /* nothing has happened yet */
        give_up_frame();
    }
    if (result != NULL && !fits(self, result)) {
        Py_SETREF(result, PyObject_CallOneArg(self->misfit, result));
    }
    if (signals_allow(waited) < 0) {
        Py_CLEAR(result);
    }
    state->context = context;
    state->tracer = tracer;
    return result;
}

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "failed", "before", "outputs", "misfit", "whole", NULL};
    PyObject *function, *failed, *before = Py_None, *misfit = Py_None;
    Py_ssize_t outputs = 0;
    int whole = false;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OnOp:Graph", names, &function, &failed, &before, &outputs,
                                     &misfit, &whole)) {
        return NULL;
    }
    GraphObject *self = (GraphObject *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = graph_call;
        self->function = Py_NewRef(function);
        self->failed = Py_NewRef(failed);
        self->before = before == Py_None ? NULL : Py_NewRef(before);
        self->misfit = misfit == Py_None ? NULL : Py_NewRef(misfit);
        self->outputs = outputs;
        self->whole = whole;
    }
    return (PyObject *)self;
}

static int graph_traverse(GraphObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->failed);
    Py_VISIT(self->before);
    Py_VISIT(self->misfit);
    return 0;
}

/* No tp_clear: what it calls leads back to it only through the code that calls it, which its entry drops. */

static void graph_dealloc(GraphObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->function);
    Py_XDECREF(self->failed);
    Py_XDECREF(self->before);
    Py_XDECREF(self->misfit);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef graph_members[] = {
    {"function", T_OBJECT_EX, offsetof(GraphObject, function), READONLY, "the compiled graph"},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(GraphObject, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Graph_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.Graph",
    .tp_basicsize = sizeof(GraphObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = graph_new,
    .tp_traverse = (traverseproc)graph_traverse,
    .tp_dealloc = (destructor)graph_dealloc,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(GraphObject, vectorcall),
    .tp_members = graph_members,
};
