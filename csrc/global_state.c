/* GlobalState: a snapshot of what a trace depends on in torch, of the thread and of the process. What the libraries
   read themselves when they are called (the precision of matrix products, the number of threads) is not part of it. */
#include "libtorch.h"
#include "tensor.h"
#include <stddef.h>
#include <structmember.h>


typedef struct {
    uint64_t included; /* dispatch keys of the thread: autocast, functorch, Python dispatch modes, inference mode */
    uint64_t excluded;
    int64_t function_modes;
    int functions_disabled;
    int8_t default_dtype;
    int8_t cpu_autocast_dtype; /* -1: autocast is off */
    int8_t cuda_autocast_dtype;
    bool grad_mode;
    bool inference_mode;
    bool deterministic;
    bool deterministic_warns;
    bool deterministic_fills; /* new tensors, where determinism is wanted */
} NativeState;

struct GlobalStateObject {
    PyObject_HEAD
    bool native;
    char lenient;   /* does not hold where graph breaks are errors */
    char unhandled; /* does not hold where an exception is being handled */
    NativeState state;
    PyObject *values; /* a dict of what Python says, see src/onegraph/torchlib/abi.py */
    PyObject *forward_level; /* borrowed from it */
};

PyObject *forward_level(void)
{
    static PyObject *globals, *name;
    if (name == NULL) {
        PyObject *module = PyImport_ImportModule("torch.autograd.forward_ad");
        globals = module == NULL ? NULL : Py_XNewRef(PyModule_GetDict(module));
        name = globals == NULL ? NULL : PyUnicode_InternFromString("_current_level");
        Py_XDECREF(module);
        if (name == NULL) {
            return NULL;
        }
    }
    return PyDict_GetItemWithError(globals, name);
}

static void read_state(const Libtorch *torch, NativeState *out)
{
    const uint64_t *keys = libtorch_thread_keys();
    const void *context = torch->global_context();
    out->included = keys[0];
    out->excluded = keys[1];
    out->function_modes = torch->function_modes();
    out->functions_disabled = torch->functions_disabled();
    out->default_dtype = torch->default_dtype();
    out->cpu_autocast_dtype = torch->autocast_enabled(TORCH_CPU) ? torch->autocast_dtype(TORCH_CPU) : -1;
    out->cuda_autocast_dtype = torch->autocast_enabled(TORCH_CUDA) ? torch->autocast_dtype(TORCH_CUDA) : -1;
    out->grad_mode = torch->grad_mode();
    out->inference_mode = torch->inference_mode();
    out->deterministic = torch->deterministic(context);
    out->deterministic_warns = torch->deterministic_warns(context);
    out->deterministic_fills = torch->deterministic_fills(context);
}

static bool is_state(const Libtorch *torch, const NativeState *state)
{
    const uint64_t *keys = libtorch_thread_keys();
    const void *context = torch->global_context();
    /* no tensor of a graph has names, and backward passes may exclude the key of those that have */
    uint64_t excluded = (keys[1] ^ state->excluded) & ~torch->names_key;
    return keys[0] == state->included && excluded == 0 && torch->grad_mode() == state->grad_mode &&
           torch->inference_mode() == state->inference_mode && torch->function_modes() == state->function_modes &&
           torch->functions_disabled() == state->functions_disabled && torch->default_dtype() == state->default_dtype &&
           torch->deterministic(context) == state->deterministic &&
           torch->deterministic_warns(context) == state->deterministic_warns &&
           torch->deterministic_fills(context) == state->deterministic_fills &&
           /* the excluded keys have told whether autocast is on */
           (state->cpu_autocast_dtype < 0 || torch->autocast_dtype(TORCH_CPU) == state->cpu_autocast_dtype) &&
           (state->cuda_autocast_dtype < 0 || torch->autocast_dtype(TORCH_CUDA) == state->cuda_autocast_dtype);
}

/* Consumes the reference to what is now; -1 if that is NULL. */
static int is_as_before(PyObject *now, PyObject *before)
{
    int same = now == NULL ? -1 : PyObject_RichCompareBool(now, before, Py_EQ);
    Py_XDECREF(now);
    return same;
}

int global_state_holds(GlobalStateObject *self)
{
    if (self->lenient && hook_state.settings[ERROR_ON_GRAPH_BREAK] > 0) {
        return 0;
    }
    if (self->unhandled) {
        PyObject *handled = PyErr_GetHandledException();
        Py_XDECREF(handled); /* somebody else holds it */
        if (handled != NULL && handled != Py_None) {
            return 0;
        }
    }
    const Libtorch *torch = self->native ? libtorch() : NULL;
    if (torch != NULL) {
        /* small numbers are one object each */
        if (!is_state(torch, &self->state) || forward_level() != self->forward_level) {
            return 0;
        }
        return self->state.function_modes == 0 ||
               is_as_before(ask_python(ABI, "devices", "()"), PyDict_GetItemString(self->values, "default_device"));
    }
    return is_as_before(ask_python(ABI, "state", "()"), self->values);
}

/* ---- the type ---- */

static PyObject *state_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":GlobalState", names)) {
        return NULL;
    }
    PyObject *values = ask_python(ABI, "state", "()");
    GlobalStateObject *self = values == NULL ? NULL : (GlobalStateObject *)type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_XDECREF(values);
        return NULL;
    }
    self->values = values;
    self->forward_level = PyDict_GetItemString(values, "forward_level");
    const Libtorch *torch = libtorch();
    self->native = torch != NULL;
    if (self->native) {
        read_state(torch, &self->state);
    }
    return (PyObject *)self;
}

static void state_dealloc(GlobalStateObject *self)
{
    Py_XDECREF(self->values);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *state_repr(GlobalStateObject *self)
{
    return PyUnicode_FromFormat("<GlobalState %R>", self->values);
}

static PyObject *state_holds(GlobalStateObject *self, PyObject *UNUSED(ignored))
{
    int holds = global_state_holds(self);
    return holds < 0 ? NULL : PyBool_FromLong(holds);
}

static PyMethodDef state_methods[] = {
    {"holds", (PyCFunction)state_holds, METH_NOARGS, "holds()\n--\n\nWhether the state is the same now."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef state_members[] = {
    {"values", T_OBJECT_EX, offsetof(GlobalStateObject, values), READONLY, "the state as a dict"},
    {"lenient", T_BOOL, offsetof(GlobalStateObject, lenient), 0,
     "whether it does not hold where the program wants an error for each graph break"},
    {"unhandled", T_BOOL, offsetof(GlobalStateObject, unhandled), 0,
     "whether it does not hold where an exception is being handled"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject GlobalState_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.GlobalState",
    .tp_basicsize = sizeof(GlobalStateObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = state_new,
    .tp_dealloc = (destructor)state_dealloc,
    .tp_repr = (reprfunc)state_repr,
    .tp_methods = state_methods,
    .tp_members = state_members,
};
