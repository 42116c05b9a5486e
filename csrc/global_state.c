/* GlobalState: a snapshot of what a trace depends on in torch, of the thread and of the process. What the libraries
   read themselves when they are called (the precision of matrix products, the number of threads) is not part of it. */
#include "libtorch.h"
#include "tensor.h"
#include <stddef.h>
#include <structmember.h>

enum { CPU = 0, CUDA = 1 };

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
    PyObject *values;  /* what Python says, one value for each question */
    PyObject *devices; /* those that modes of torch functions give to new tensors, outermost first */
};

/* ---- through Python ---- */

typedef struct {
    const char *name;
    const char *function; /* of torch, or a number that is kept there */
    const char *argument;
} Question;

static const Question questions[] = {
    {"grad_mode", "is_grad_enabled", NULL},
    {"inference_mode", "is_inference_mode_enabled", NULL},
    {"default_dtype", "get_default_dtype", NULL},
    {"autocast_cpu", "is_autocast_enabled", "cpu"},
    {"autocast_cpu_dtype", "get_autocast_dtype", "cpu"},
    {"autocast_cuda", "is_autocast_enabled", "cuda"},
    {"autocast_cuda_dtype", "get_autocast_dtype", "cuda"},
    {"deterministic", "are_deterministic_algorithms_enabled", NULL},
    {"deterministic_warn_only", "is_deterministic_algorithms_warn_only_enabled", NULL},
    {"deterministic_fill", "_C._get_deterministic_fill_uninitialized_memory", NULL},
    {"function_modes", "_C._len_torch_function_stack", NULL},
    {"dispatch_modes", "_C._len_torch_dispatch_stack", NULL},
    {"functorch_level", "_C._functorch.maybe_current_level", NULL},
    {"forward_level", "autograd.forward_ad._current_level", NULL},
    {"tracing", "_C._is_tracing", NULL},
};
enum { N_QUESTIONS = sizeof(questions) / sizeof(questions[0]), FORWARD_LEVEL = N_QUESTIONS - 2 };

static PyObject *answer(PyObject *torch, const Question *question)
{
    PyObject *function = Py_NewRef(torch);
    PyObject *path = PyUnicode_FromString(question->function);
    PyObject *dot = PyUnicode_FromString(".");
    PyObject *names = path == NULL || dot == NULL ? NULL : PyUnicode_Split(path, dot, -1);
    for (Py_ssize_t i = 0; names != NULL && function != NULL && i < PyList_GET_SIZE(names); i++) {
        Py_SETREF(function, PyObject_GetAttr(function, PyList_GET_ITEM(names, i)));
    }
    PyObject *value = NULL;
    if (names != NULL && function != NULL && PyLong_Check(function)) {
        value = Py_NewRef(function);
    } else if (names != NULL && function != NULL) {
        value = question->argument == NULL ? PyObject_CallNoArgs(function)
                                           : PyObject_CallFunction(function, "s", question->argument);
    }
    Py_XDECREF(names);
    Py_XDECREF(dot);
    Py_XDECREF(path);
    Py_XDECREF(function);
    return value;
}

static PyObject *ask_python(void)
{
    PyObject *torch = PyImport_ImportModule("torch");
    PyObject *values = torch == NULL ? NULL : PyTuple_New(N_QUESTIONS);
    for (int i = 0; values != NULL && i < N_QUESTIONS; i++) {
        PyObject *value = answer(torch, &questions[i]);
        if (value == NULL) {
            Py_CLEAR(values);
        } else {
            PyTuple_SET_ITEM(values, i, value);
        }
    }
    Py_XDECREF(torch);
    return values;
}

/* ---- devices of new tensors ---- */

/* What a mode gives to new tensors: its device for one of `torch.device` or `torch.set_default_device`, else itself. */
static PyObject *device_of(PyObject *mode)
{
    static PyObject *device_type;
    if (device_type == NULL) {
        PyObject *module = PyImport_ImportModule("torch.utils._device");
        device_type = module == NULL ? NULL : PyObject_GetAttrString(module, "DeviceContext");
        Py_XDECREF(module);
        if (device_type == NULL) {
            return NULL;
        }
    }
    return Py_IS_TYPE(mode, (PyTypeObject *)device_type) ? PyObject_GetAttrString(mode, "device") : Py_NewRef(mode);
}

static PyObject *mode_devices(void)
{
    static PyObject *length, *at;
    if (at == NULL) {
        PyObject *native = PyImport_ImportModule("torch._C");
        length = native == NULL ? NULL : PyObject_GetAttrString(native, "_len_torch_function_stack");
        at = length == NULL ? NULL : PyObject_GetAttrString(native, "_get_function_stack_at");
        Py_XDECREF(native);
        if (at == NULL) {
            return NULL;
        }
    }
    PyObject *count = PyObject_CallNoArgs(length);
    PyObject *devices = count == NULL ? NULL : PyTuple_New(PyLong_AsSsize_t(count));
    Py_XDECREF(count);
    for (Py_ssize_t i = 0; devices != NULL && i < PyTuple_GET_SIZE(devices); i++) {
        PyObject *mode = PyObject_CallFunction(at, "n", i);
        PyObject *device = mode == NULL ? NULL : device_of(mode);
        Py_XDECREF(mode);
        if (device == NULL) {
            Py_CLEAR(devices);
        } else {
            PyTuple_SET_ITEM(devices, i, device);
        }
    }
    return devices;
}

static int same_devices(GlobalStateObject *self)
{
    PyObject *devices = mode_devices();
    int same = devices == NULL ? -1 : PyObject_RichCompareBool(devices, self->devices, Py_EQ);
    Py_XDECREF(devices);
    return same;
}

/* ---- through libtorch ---- */

/* Of forward-mode differentiation: PyTorch has it in a global of Python. Borrowed. */
static PyObject *forward_level(void)
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
    out->cpu_autocast_dtype = torch->autocast_enabled(CPU) ? torch->autocast_dtype(CPU) : -1;
    out->cuda_autocast_dtype = torch->autocast_enabled(CUDA) ? torch->autocast_dtype(CUDA) : -1;
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
    return keys[0] == state->included && keys[1] == state->excluded && torch->grad_mode() == state->grad_mode &&
           torch->inference_mode() == state->inference_mode && torch->function_modes() == state->function_modes &&
           torch->functions_disabled() == state->functions_disabled && torch->default_dtype() == state->default_dtype &&
           torch->deterministic(context) == state->deterministic &&
           torch->deterministic_warns(context) == state->deterministic_warns &&
           torch->deterministic_fills(context) == state->deterministic_fills &&
           /* the excluded keys have told whether autocast is on */
           (state->cpu_autocast_dtype < 0 || torch->autocast_dtype(CPU) == state->cpu_autocast_dtype) &&
           (state->cuda_autocast_dtype < 0 || torch->autocast_dtype(CUDA) == state->cuda_autocast_dtype);
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
        return !is_state(torch, &self->state) || forward_level() != PyTuple_GET_ITEM(self->values, FORWARD_LEVEL)
                   ? 0
                   : self->state.function_modes == 0 || same_devices(self);
    }
    PyObject *values = ask_python();
    if (values == NULL) {
        return -1;
    }
    int same = PyObject_RichCompareBool(values, self->values, Py_EQ);
    Py_DECREF(values);
    return same == 1 ? same_devices(self) : same;
}

/* ---- the type ---- */

static PyObject *state_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":GlobalState", names)) {
        return NULL;
    }
    PyObject *values = ask_python();
    PyObject *devices = values == NULL ? NULL : mode_devices();
    GlobalStateObject *self = devices == NULL ? NULL : (GlobalStateObject *)type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_XDECREF(values);
        Py_XDECREF(devices);
        return NULL;
    }
    self->values = values;
    self->devices = devices;
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
    Py_XDECREF(self->devices);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *state_values(GlobalStateObject *self, void *UNUSED(closure))
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict != NULL && i < N_QUESTIONS; i++) {
        if (PyDict_SetItemString(dict, questions[i].name, PyTuple_GET_ITEM(self->values, i)) < 0) {
            Py_CLEAR(dict);
        }
    }
    if (dict != NULL && PyDict_SetItemString(dict, "default_device", self->devices) < 0) {
        Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *state_repr(GlobalStateObject *self)
{
    PyObject *dict = state_values(self, NULL);
    PyObject *text = dict == NULL ? NULL : PyUnicode_FromFormat("<GlobalState %R>", dict);
    Py_XDECREF(dict);
    return text;
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
    {"lenient", T_BOOL, offsetof(GlobalStateObject, lenient), 0,
     "whether it does not hold where the program wants an error for each graph break"},
    {"unhandled", T_BOOL, offsetof(GlobalStateObject, unhandled), 0,
     "whether it does not hold where an exception is being handled"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef state_attributes[] = {
    {"values", (getter)state_values, NULL, "the state as a dict", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject GlobalState_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.GlobalState",
    .tp_doc = PyDoc_STR("GlobalState(): torch's state now: grad and inference mode, autocast, default dtype and device, "
                        "determinism, active modes and transforms."),
    .tp_basicsize = sizeof(GlobalStateObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = state_new,
    .tp_dealloc = (destructor)state_dealloc,
    .tp_repr = (reprfunc)state_repr,
    .tp_methods = state_methods,
    .tp_members = state_members,
    .tp_getset = state_attributes,
};
