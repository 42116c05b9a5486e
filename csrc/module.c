/* The module onegraph._C: types, and functions over code objects. */
#include "onegraph.h"
#include "cuda.h"
#include "kept.h"
#include "libtorch.h"
#include "pair.h"
#include "plan.h"
#include "pool.h"
#include "tensor.h"
#include "tensor_make.h"
#include "watch.h"

/* ---- markers ---- */

typedef struct {
    PyObject_HEAD
    const char *name;
} MarkerObject;

static PyObject *marker_repr(MarkerObject *self) { return PyUnicode_FromString(self->name); }

static PyTypeObject Marker_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.Marker",
    .tp_basicsize = sizeof(MarkerObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_repr = (reprfunc)marker_repr,
};

static MarkerObject skip = {PyObject_HEAD_INIT(&Marker_Type) "SKIP"};
static MarkerObject eagerly = {PyObject_HEAD_INIT(&Marker_Type) "EAGERLY"};
static MarkerObject null = {PyObject_HEAD_INIT(&Marker_Type) "NULL"};
PyObject *const og_skip = (PyObject *)&skip;
PyObject *const og_eagerly = (PyObject *)&eagerly;
PyObject *const og_null = (PyObject *)&null;

PyObject *ask_python(const char *module_name, const char *question, const char *format, ...)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *function = module == NULL ? NULL : PyObject_GetAttrString(module, question);
    va_list values;
    va_start(values, format);
    PyObject *args = function == NULL ? NULL : Py_VaBuildValue(format, values);
    va_end(values);
    PyObject *answer = args == NULL ? NULL : PyObject_CallObject(function, args);
    Py_XDECREF(args);
    Py_XDECREF(function);
    Py_XDECREF(module);
    return answer;
}

/* ---- functions ---- */

static PyObject *module_entries(PyObject *UNUSED(module), PyObject *args)
{
    PyCodeObject *code;
    ContextObject *context = NULL;
    if (!PyArg_ParseTuple(args, "O!|O!:entries", &PyCode_Type, &code, &Context_Type, &context)) {
        return NULL;
    }
    PyObject *found = PyList_New(0);
    CodeRecord *record = code_records(code);
    if (record == CODE_SKIPPED) {
        record = NULL;
    }
    for (; found != NULL && record != NULL; record = record->next_of_code) {
        if (record->entries != NULL && (context == NULL || record->context == context)) {
            Py_ssize_t end = PyList_GET_SIZE(found);
            if (PyList_SetSlice(found, end, end, record->entries) < 0) {
                Py_CLEAR(found);
            }
        }
    }
    if (found != NULL) {
        Py_SETREF(found, PyList_AsTuple(found));
    }
    return found;
}

static PyObject *module_current_context(PyObject *UNUSED(module), PyObject *UNUSED(ignored))
{
    ContextObject *context = hook_state.context;
    return Py_NewRef(context == NULL ? Py_None : (PyObject *)context);
}

static PyObject *module_float_tensor(PyObject *Py_UNUSED(module), PyObject *number)
{
    enum { DOUBLE = 7 }; /* at::ScalarType */
    double value = PyFloat_AsDouble(number);
    if (value == -1.0 && PyErr_Occurred()) {
        return NULL;
    }
    if (!tensor_make_ready()) {
        PyErr_SetString(PyExc_RuntimeError, "this torch does not make tensors as expected");
        return NULL;
    }
    void *data;
    PyObject *tensor = tensor_empty(0, NULL, NULL, DOUBLE, sizeof(double));
    if (tensor == NULL || tensor_data(tensor, &data) < 0) {
        Py_XDECREF(tensor);
        return NULL;
    }
    *(double *)data = value;
    return tensor;
}

/* Reading `__dict__` would make one. */
static PyObject *module_made_dict(PyObject *UNUSED(module), PyObject *object)
{
    PyObject **dict = _PyObject_GetDictPtr(object);
    return Py_NewRef(dict == NULL || *dict == NULL ? Py_None : *dict);
}

static PyObject *module_can_watch(PyObject *UNUSED(module), PyObject *UNUSED(ignored))
{
    return PyBool_FromLong(can_watch());
}

static PyMethodDef module_functions[] = {
    {"current_context", module_current_context, METH_NOARGS, NULL},
    {"entries", module_entries, METH_VARARGS, NULL},
    {"exchange_setting", module_exchange_setting, METH_VARARGS, NULL},
    {"looking", module_looking, METH_O, NULL},
    {"working", module_working, METH_O, NULL},
    {"deepen", module_deepen, METH_O, NULL},
    {"frames_left", module_frames_left, METH_NOARGS, NULL},
    {"float_tensor", module_float_tensor, METH_O, NULL},
    {"made_dict", module_made_dict, METH_O, NULL},
    {"cached_result", (PyCFunction)(void (*)(void))cached_result, METH_FASTCALL, NULL},
    {"is_of", (PyCFunction)(void (*)(void))module_is_of, METH_FASTCALL, NULL},
    {"class_version", module_class_version, METH_O, NULL},
    {"answers_itself", module_answers_itself, METH_O, NULL},
    {"look_up", (PyCFunction)(void (*)(void))module_look_up, METH_FASTCALL, NULL},
    {"is_generic", module_is_generic, METH_O, NULL},
    {"force_eager", module_force_eager, METH_O, NULL},
    {"flush_denormals", module_flush_denormals, METH_O, NULL},
    {"prefer_large_pages", module_prefer_large_pages, METH_VARARGS, NULL},
    {"release_memory", module_release_memory, METH_NOARGS, NULL},
    {"move_to_large_pages", module_move_to_large_pages, METH_VARARGS, NULL},
    {"can_watch", module_can_watch, METH_NOARGS, NULL},
    {"tensor_abi", (PyCFunction)(void (*)(void))libtorch_tensor_abi, METH_VARARGS | METH_KEYWORDS, NULL},
    {"resume", resume_call, METH_O, NULL},
    {"on_failure", on_failure, METH_O, NULL},
    {"captures_cuda", module_captures_cuda, METH_VARARGS, NULL},
    {"launch_cuda_kernel", module_launch_cuda_kernel, METH_VARARGS, NULL},
    {"record", (PyCFunction)(void (*)(void))recorded_forward, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

/* ---- the module ---- */

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "onegraph._C",
    .m_doc = "The frame hook, the guard evaluator and the graph launcher.",
    .m_size = -1,
    .m_methods = module_functions,
};

static PyTypeObject *const module_types[] = {
    &Context_Type, &Entry_Type, &GuardProgram_Type, &Region_Type, &Disabled_Type, &TraceHook_Type,
    &TensorSpec_Type, &Memory_Type, &GlobalState_Type, &Plan_Type, &TailCall_Type, &Graph_Type, &Kept_Type,
    &KeptForEach_Type, &Fact_Type, &Pair_Type, &Recorded_Type,
    &CudaKernel_Type, &CudaGraph_Type,
};

PyMODINIT_FUNC PyInit__C(void)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "onegraph._C cannot be loaded in a subinterpreter");
        return NULL;
    }
    if (PyType_Ready(&Marker_Type) < 0 || hook_init() < 0 || code_records_init() < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&module_definition);
    if (module == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(module_types) / sizeof(module_types[0]); i++) {
        if (PyModule_AddType(module, module_types[i]) < 0) {
            Py_DECREF(module);
            return NULL;
        }
    }
    PyObject *hand_over = resume_hand_over_new(), *guard_ops = guard_op_rows(), *differentiate = recorded_backward_new();
    if (hand_over == NULL || PyModule_AddObjectRef(module, "hand_over", hand_over) < 0 ||
        guard_ops == NULL || PyModule_AddObjectRef(module, "GUARD_OPS", guard_ops) < 0 ||
        differentiate == NULL || PyModule_AddObjectRef(module, "differentiate", differentiate) < 0 ||
        PyModule_AddObjectRef(module, "SKIP", og_skip) < 0 ||
        PyModule_AddObjectRef(module, "EAGERLY", og_eagerly) < 0 ||
        PyModule_AddObjectRef(module, "NULL", og_null) < 0) {
        Py_CLEAR(module);
    }
    Py_XDECREF(hand_over);
    Py_XDECREF(guard_ops);
    Py_XDECREF(differentiate);
    return module;
}
