/* The module onegraph._C: types, and functions over code objects. */
#include "onegraph.h"
#include "libtorch.h"
#include "plan.h"
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
    {"current_context", module_current_context, METH_NOARGS,
     "current_context()\n--\n\nThe Context of the region that runs in this thread, or None."},
    {"entries", module_entries, METH_VARARGS,
     "entries(code, context=None, /)\n--\n\nThe entries of a code object, of one context or of all."},
    {"exchange_setting", module_exchange_setting, METH_VARARGS,
     "exchange_setting(name, value=...)\n--\n\nSet what this thread says of graph breaks to True, False or None "
     "(nothing), and return what it said. Without a value nothing changes."},
    {"looking", module_looking, METH_O,
     "looking(flag, /)\n--\n\nSay whether this thread asks objects for their classes on its own behalf: then no "
     "__getattribute__ of the program is called for it. Returns what was said before."},
    {"deepen", module_deepen, METH_O,
     "deepen(count)\n--\n\nLet this thread enter so many more Python frames than its limit of recursion, or fewer again."},
    {"frames_left", module_frames_left, METH_NOARGS,
     "frames_left()\n--\n\nHow many more Python frames the program may enter in this thread."},
    {"float_tensor", module_float_tensor, METH_O,
     "float_tensor(number)\n--\n\nA tensor of type float64 without dimensions that holds the number. Raises RuntimeError "
     "if this torch does not make tensors as expected."},
    {"made_dict", module_made_dict, METH_O,
     "made_dict(object)\n--\n\nThe instance dictionary of an object, or None if it has none yet."},
    {"is_of", (PyCFunction)(void (*)(void))module_is_of, METH_FASTCALL,
     "is_of(value, kinds, /)\n--\n\nWhether the type of a value is one of the kinds, as issubclass() takes them."},
    {"class_version", module_class_version, METH_O,
     "class_version(cls, /)\n--\n\nA number that changes with the attributes of the class and its bases; 0: it has none."},
    {"answers_itself", module_answers_itself, METH_O,
     "answers_itself(cls, /)\n--\n\nWhether objects of the class say with code of the program what their class is."},
    {"force_eager", module_force_eager, METH_O,
     "force_eager(forced)\n--\n\nWhether regions run their functions as they are written, in all threads."},
    {"flush_denormals", module_flush_denormals, METH_O,
     "flush_denormals(flush)\n--\n\nHave this thread take denormal numbers for zero, or not; whether it did before."},
    {"can_watch", module_can_watch, METH_NOARGS,
     "can_watch()\n--\n\nWhether the kernel tells of writes to memory: Linux 6.7 and later, outside of sandboxes."},
    {"tensor_abi", (PyCFunction)(void (*)(void))libtorch_tensor_abi, METH_VARARGS | METH_KEYWORDS,
     "tensor_abi(use=None)\n--\n\nHow tensors are read: \"libtorch\" or \"python\". The first call with torch loaded "
     "compares the two; a test may choose one."},
    {"resume", resume_call, METH_O,
     "resume(call)\n--\n\nThe result of a TailCall. Its arguments live as long as the called function keeps them."},
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
    &Fact_Type,
};

PyMODINIT_FUNC PyInit__C(void)
{
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
    PyObject *hand_over = resume_hand_over_new(), *guard_ops = guard_op_rows();
    if (hand_over == NULL || PyModule_AddObjectRef(module, "hand_over", hand_over) < 0 ||
        guard_ops == NULL || PyModule_AddObjectRef(module, "GUARD_OPS", guard_ops) < 0 ||
        PyModule_AddObjectRef(module, "SKIP", og_skip) < 0 ||
        PyModule_AddObjectRef(module, "EAGERLY", og_eagerly) < 0 ||
        PyModule_AddObjectRef(module, "NULL", og_null) < 0) {
        Py_CLEAR(module);
    }
    Py_XDECREF(hand_over);
    Py_XDECREF(guard_ops);
    return module;
}
