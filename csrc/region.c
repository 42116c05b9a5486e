/* Callables around a function: Region calls it with its frames seen by the hook, disabled with the hook off. */
#include "observe.h"
#include "onegraph.h"
#include <stddef.h>
#include <string.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;
    ContextObject *context; /* NULL in `disabled` */
    PyCodeObject *code;     /* of `disabled`: the only frame to be left alone; NULL: all frames */
    PyObject *refuse;       /* of `disabled`: called, and raises, where native code calls it while tracing; or NULL */
    PyObject *dict;
    PyObject *weakrefs;
} WrapperObject;

/* A range of the profile, by the name of what is called. */
static PyObject *region_range(PyObject *self)
{
    PyObject *own = PyObject_GetAttrString(self, "__qualname__");
    PyObject *name = own == NULL ? NULL : PyUnicode_FromFormat("onegraph region %S", own);
    PyObject *range = name == NULL ? NULL : range_begin(name);
    Py_XDECREF(own);
    Py_XDECREF(name);
    PyErr_Clear();
    return range;
}

/* What is told of the errors that leave compiled code; NULL: nobody. */
static PyObject *failure_listener;

PyObject *on_failure(PyObject *Py_UNUSED(module), PyObject *listener)
{
    Py_XSETREF(failure_listener, listener == Py_None ? NULL : Py_NewRef(listener));
    Py_RETURN_NONE;
}

bool failure_is_known(void)
{
    PyObject *kind, *error, *trace;
    if (failure_listener == NULL || !PyErr_ExceptionMatches(PyExc_RuntimeError)) {
        return false;
    }
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    if (trace != NULL) {
        PyException_SetTraceback(error, trace);
    }
    PyObject *listener = Py_NewRef(failure_listener);
    PyObject *answer = PyObject_CallOneArg(listener, error);
    Py_DECREF(listener);
    if (answer == NULL) {
        Py_XDECREF(kind);
        Py_XDECREF(error);
        Py_XDECREF(trace);
        return true;
    }
    bool known = answer == Py_True;
    Py_DECREF(answer);
    PyErr_Restore(kind, error, trace);
    return known;
}

static PyObject *region_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    WrapperObject *region = (WrapperObject *)self;
    HookState *state = &hook_state;
    HookState outer = *state;
    HookPlace place = hook_enter();
    PyThreadState *tstate = PyThreadState_Get();
    if (outer.context == NULL) {
        state->watching = tstate->c_traceobj;
    }
    state->watchers = tstate->tracing;
    PyObject *range = is_profiled() ? region_range(self) : NULL;
    state->context = eager_is_forced ? NULL : region->context;
    PyObject *result = PyObject_Vectorcall(region->function, args, nargsf, names);
    state->context = outer.context;
    state->watching = outer.watching;
    state->watchers = outer.watchers;
    memcpy(state->settings, outer.settings, sizeof(outer.settings));
    hook_leave(place);
    range_end(range);
    if (result == NULL && outer.context == NULL && outer.tracer == NULL) {
        failure_is_known();
    }
    return result;
}

static PyObject *disabled_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    WrapperObject *wrapper = (WrapperObject *)self;
    HookState *state = &hook_state;
    ContextObject *outer_context = state->context;
    PyObject *outer_tracer = state->tracer;
    if (outer_tracer != NULL && wrapper->refuse != NULL) {
        state->tracer = NULL;
        PyObject *nothing = PyObject_CallOneArg(wrapper->refuse, self);
        state->tracer = outer_tracer;
        if (nothing == NULL) {
            return NULL;
        }
        Py_DECREF(nothing);
    }
    if (wrapper->code == NULL) {
        state->context = NULL;
    } else {
        state->direct = wrapper->code;
    }
    state->tracer = NULL;
    PyObject *result = PyObject_Vectorcall(wrapper->function, args, nargsf, names);
    state->direct = NULL;
    state->context = outer_context;
    state->tracer = outer_tracer;
    return result;
}

/* ---- making and ending ---- */

static PyObject *wrapper_make(PyTypeObject *type, PyObject *function, ContextObject *context, vectorcallfunc call)
{
    if (!PyCallable_Check(function)) {
        return PyErr_Format(PyExc_TypeError, "%s needs a callable, not %.200s", _PyType_Name(type),
                            Py_TYPE(function)->tp_name);
    }
    WrapperObject *self = (WrapperObject *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = call;
    self->function = Py_NewRef(function);
    self->context = (ContextObject *)Py_XNewRef(context);
    self->dict = PyDict_New();
    if (self->dict == NULL || PyDict_SetItemString(self->dict, "__wrapped__", function) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyObject *region_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "context", NULL};
    PyObject *function, *context;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!:Region", names, &function, &Context_Type, &context)) {
        return NULL;
    }
    return wrapper_make(type, function, (ContextObject *)context, region_call);
}

static PyObject *disabled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "code", "refuse", NULL};
    PyObject *function, *code = Py_None, *refuse = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:disabled", names, &function, &code, &refuse)) {
        return NULL;
    }
    if (code != Py_None && !PyCode_Check(code)) {
        return PyErr_Format(PyExc_TypeError, "code must be a code object or None, not %.200s", Py_TYPE(code)->tp_name);
    }
    WrapperObject *self = (WrapperObject *)wrapper_make(type, function, NULL, disabled_call);
    if (self != NULL && code != Py_None) {
        self->code = (PyCodeObject *)Py_NewRef(code);
    }
    if (self != NULL && refuse != Py_None) {
        self->refuse = Py_NewRef(refuse);
    }
    return (PyObject *)self;
}

static int wrapper_traverse(WrapperObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->context);
    Py_VISIT(self->dict);
    Py_VISIT(self->refuse);
    return 0;
}

static int wrapper_clear(WrapperObject *self)
{
    /* A finalizer may still call it: what the call needs is replaced, never left NULL. */
    Py_CLEAR(self->dict);
    Py_SETREF(self->function, Py_NewRef(Py_None));
    return 0;
}

static void wrapper_dealloc(WrapperObject *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    Py_CLEAR(self->dict);
    Py_CLEAR(self->function);
    Py_CLEAR(self->context);
    Py_CLEAR(self->code);
    Py_CLEAR(self->refuse);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* ---- behaving as the function ---- */

static PyObject *wrapper_get(PyObject *self, PyObject *instance, PyObject *UNUSED(owner))
{
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyObject *wrapper_repr(WrapperObject *self)
{
    return PyUnicode_FromFormat("<%s of %R>", _PyType_Name(Py_TYPE(self)), self->function);
}

/* What it has none of itself it has from what it wraps. */
static PyObject *wrapper_getattro(PyObject *self, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(self, name);
    PyObject *dict = ((WrapperObject *)self)->dict;
    if (found != NULL || dict == NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return found;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *wrapped = PyDict_GetItemString(dict, "__wrapped__");
    if (wrapped == NULL || wrapped == self) {
        PyErr_Restore(type, value, traceback);
        return NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    Py_INCREF(wrapped);
    found = PyObject_GetAttr(wrapped, name);
    Py_DECREF(wrapped);
    return found;
}

static const char copies[] = "onegraph.base.copies";

static PyObject *wrapper_copy(PyObject *self, PyObject *UNUSED(ignored))
{
    return ask_python(copies, "copied", "(O)", self);
}

static PyObject *wrapper_deepcopy(PyObject *self, PyObject *memo)
{
    return ask_python(copies, "deepcopied", "(OO)", self, memo);
}

static PyObject *wrapper_reduce(PyObject *self, PyObject *UNUSED(ignored))
{
    return ask_python(copies, "reduced", "(O)", self);
}

static PyMethodDef wrapper_methods[] = {
    {"__copy__", wrapper_copy, METH_NOARGS, NULL},
    {"__deepcopy__", wrapper_deepcopy, METH_O, NULL},
    {"__reduce__", wrapper_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* What `onegraph.compile` has made a region of, borrowed; NULL for a region that is nobody's. */
static PyObject *compiled_from(PyObject *self)
{
    PyObject *dict = ((WrapperObject *)self)->dict;
    bool known = dict != NULL && PyDict_GetItemString(dict, "onegraph_region") != NULL;
    return known ? PyDict_GetItemString(dict, "__wrapped__") : NULL;
}

/* `isinstance` takes it for what it was made of: libraries ask so whether they have a function, and read its code. */
static PyObject *region_class(PyObject *self, void *UNUSED(closure))
{
    PyObject *made_of = compiled_from(self);
    return Py_NewRef(Py_TYPE(made_of == NULL ? self : made_of));
}

/* What torch's own compiler takes in the place of a region that it is given. */
static PyObject *region_for_torch(PyObject *self, void *UNUSED(closure))
{
    PyObject *made_of = compiled_from(self);
    return Py_NewRef(made_of == NULL ? self : made_of);
}

static PyObject *region_id_for_torch(PyObject *self, void *UNUSED(closure))
{
    return compiled_from(self) == NULL ? Py_NewRef(Py_None) : PyLong_FromVoidPtr(self);
}

static PyGetSetDef disabled_attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyGetSetDef region_attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"__class__", region_class, NULL, NULL, NULL},
    {"_torchdynamo_orig_callable", region_for_torch, NULL, NULL, NULL},
    {"_torchdynamo_wrapper_id", region_id_for_torch, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef disabled_members[] = {
    {"code", T_OBJECT, offsetof(WrapperObject, code), READONLY, "the code whose next frame is left alone, or None"},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(WrapperObject, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMemberDef region_members[] = {
    {"context", T_OBJECT_EX, offsetof(WrapperObject, context), READONLY, "the Context its frames run in"},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(WrapperObject, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

#define WRAPPER_SLOTS                                                                                            \
    .tp_basicsize = sizeof(WrapperObject),                                                                       \
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, \
    .tp_vectorcall_offset = offsetof(WrapperObject, vectorcall),                                                 \
    .tp_dictoffset = offsetof(WrapperObject, dict),                                                              \
    .tp_weaklistoffset = offsetof(WrapperObject, weakrefs),                                                      \
    .tp_call = PyVectorcall_Call,                                                                                \
    .tp_getattro = wrapper_getattro,                                                                             \
    .tp_descr_get = wrapper_get,                                                                                 \
    .tp_traverse = (traverseproc)wrapper_traverse,                                                               \
    .tp_clear = (inquiry)wrapper_clear,                                                                          \
    .tp_dealloc = (destructor)wrapper_dealloc,                                                                   \
    .tp_repr = (reprfunc)wrapper_repr,                                                                           \
    .tp_methods = wrapper_methods

PyTypeObject Region_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.Region",
    .tp_new = region_new,
    .tp_members = region_members,
    .tp_getset = region_attributes,
    WRAPPER_SLOTS,
};

PyTypeObject Disabled_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.disabled",
    .tp_new = disabled_new,
    .tp_members = disabled_members,
    .tp_getset = disabled_attributes,
    WRAPPER_SLOTS,
};
