/* Finding libtorch's functions and checking them. */
#define _GNU_SOURCE
#include "libtorch.h"
#include "tensor.h"
#include <dlfcn.h>

enum { IMPL_WORDS = 22 }; /* how far the dispatch keys are searched for; a TensorImpl is longer */

typedef struct {
    size_t field;
    const char *name;
} Symbol;

#define SYMBOL(field, name) {offsetof(Libtorch, field), name}

static const Symbol symbols[] = {
    SYMBOL(get_dtype, "aoti_torch_get_dtype"),
    SYMBOL(get_device_type, "aoti_torch_get_device_type"),
    SYMBOL(get_device_index, "aoti_torch_get_device_index"),
    SYMBOL(get_layout, "aoti_torch_get_layout"),
    SYMBOL(get_dim, "aoti_torch_get_dim"),
    SYMBOL(get_sizes, "aoti_torch_get_sizes"),
    SYMBOL(get_strides, "aoti_torch_get_strides"),
    SYMBOL(get_storage_offset, "aoti_torch_get_storage_offset"),
    SYMBOL(get_data_ptr, "aoti_torch_get_data_ptr"),
    SYMBOL(requires_grad, "_ZNK3c1010TensorImpl13requires_gradEv"),
    SYMBOL(grad_mode, "_ZN3c108GradMode10is_enabledEv"),
    SYMBOL(inference_mode, "_ZN3c1013InferenceMode10is_enabledEv"),
    SYMBOL(function_modes, "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv"),
    SYMBOL(functions_disabled, "_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv"),
    SYMBOL(default_dtype, "_ZN3c1031get_default_dtype_as_scalartypeEv"),
    SYMBOL(autocast_enabled, "_ZN2at8autocast19is_autocast_enabledEN3c1010DeviceTypeE"),
    SYMBOL(autocast_dtype, "_ZN2at8autocast18get_autocast_dtypeEN3c1010DeviceTypeE"),
    SYMBOL(global_context, "_ZN2at13globalContextEv"),
    SYMBOL(deterministic, "_ZNK2at7Context23deterministicAlgorithmsEv"),
    SYMBOL(deterministic_warns, "_ZNK2at7Context31deterministicAlgorithmsWarnOnlyEv"),
    SYMBOL(deterministic_fills, "_ZNK2at7Context36deterministicFillUninitializedMemoryEv"),
};

static const char thread_keys_symbol[] = "_ZN3c104impl26raw_local_dispatch_key_setE";

static enum { UNTRIED, NATIVE, PYTHON } state = UNTRIED;
static bool checked; /* `found` may be used */
static Libtorch found = {.keys_at = -1};
static void *library;
static PyTypeObject *type_of_tensors;
static _Thread_local const uint64_t *thread_keys;

const uint64_t *libtorch_thread_keys(void)
{
    if (thread_keys == NULL) {
        thread_keys = dlsym(library, thread_keys_symbol);
    }
    return thread_keys;
}

void *libtorch_symbol(const char *name) { return dlsym(library, name); }

PyTypeObject *tensor_type(void)
{
    if (type_of_tensors == NULL) {
        PyObject *modules = PyImport_GetModuleDict();
        PyObject *torch = PyDict_GetItemString(modules, "torch");
        PyObject *type = torch == NULL ? NULL : PyObject_GetAttrString(torch, "Tensor");
        if (type == NULL) { /* not loaded, or still loading */
            PyErr_Clear();
            return NULL;
        }
        type_of_tensors = (PyTypeObject *)type;
    }
    return type_of_tensors;
}

static bool find_symbols(void)
{
    library = dlopen("libtorch_python.so", RTLD_NOLOAD | RTLD_LAZY);
    if (library == NULL || libtorch_thread_keys() == NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(library, symbols[i].name);
        if (address == NULL) {
            return false;
        }
        memcpy((char *)&found + symbols[i].field, &address, sizeof(address));
    }
    return true;
}

/* ---- the check ---- */

/* What Python says about a few tensors, and about the state of the thread. */
static const char python_view[] =
    "made = (\n"
    "    (torch.empty_strided((2, 3), (3, 1), dtype=torch.float32), 6),\n"
    "    (torch.empty_strided((4, 5), (1, 4), dtype=torch.int64).as_strided((2, 2), (3, 1), 5), 4),\n"
    "    (torch.empty((), dtype=torch.bfloat16, device='meta'), 15),\n"
    "    (torch.empty((7,), dtype=torch.float64).requires_grad_(), 7),\n"
    "    (torch.empty((1, 0), dtype=torch.complex64).conj(), 9),\n"
    ")\n"
    "tensors = [(t, dtype, 14 * t.is_meta, t.storage_offset(), t.requires_grad, t.data_ptr(),\n"
    "            torch._C._dispatch_keys(t).raw_repr(), tuple(t.shape), t.stride()) for t, dtype in made]\n"
    "context = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch._C._len_torch_function_stack(),\n"
    "           torch.are_deterministic_algorithms_enabled(),\n"
    "           torch.is_deterministic_algorithms_warn_only_enabled(), torch.is_autocast_enabled('cpu'),\n"
    "           torch._C._get_deterministic_fill_uninitialized_memory())\n";

static bool same_numbers(PyObject *tuple, const int64_t *numbers)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        if (PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)) != numbers[i]) {
            return false;
        }
    }
    return true;
}

/* Clears in `candidates` the words that cannot be the keys. */
static bool check_tensor(PyObject *row, bool *candidates)
{
    PyObject *tensor, *shape, *stride;
    int dtype, device, requires_grad;
    long long offset;
    unsigned long long data, keys;
    if (!PyArg_ParseTuple(row, "OiiLpKKO!O!", &tensor, &dtype, &device, &offset, &requires_grad, &data, &keys,
                          &PyTuple_Type, &shape, &PyTuple_Type, &stride)) {
        return false;
    }
    void *handle = tensor_handle(tensor);
    const uint64_t *words = tensor_impl(tensor);
    int32_t got_dtype, got_device, got_index, got_layout;
    int64_t dim, got_offset, *sizes, *strides;
    void *got_data;
    if (found.get_dtype(handle, &got_dtype) || got_dtype != dtype || found.get_device_type(handle, &got_device) ||
        got_device != device || found.get_device_index(handle, &got_index) || found.get_layout(handle, &got_layout) ||
        got_layout != 0 || found.get_dim(handle, &dim) || dim != PyTuple_GET_SIZE(shape) ||
        found.get_sizes(handle, &sizes) || !same_numbers(shape, sizes) || found.get_strides(handle, &strides) ||
        !same_numbers(stride, strides) || found.get_storage_offset(handle, &got_offset) || got_offset != offset ||
        found.requires_grad(words) != (bool)requires_grad || found.get_data_ptr(handle, &got_data) ||
        (unsigned long long)(uintptr_t)got_data != data) {
        return false;
    }
    for (int i = 0; i < IMPL_WORDS; i++) {
        candidates[i] = candidates[i] && words[i] == keys;
    }
    return true;
}

static bool check_context(PyObject *expected)
{
    int grad, inference, deterministic, warns, autocast, fills;
    long long modes;
    if (!PyArg_ParseTuple(expected, "ppLpppp", &grad, &inference, &modes, &deterministic, &warns, &autocast,
                          &fills)) {
        return false;
    }
    void *context = found.global_context();
    return found.grad_mode() == (bool)grad && found.inference_mode() == (bool)inference &&
           found.function_modes() == modes && found.deterministic(context) == (bool)deterministic &&
           found.deterministic_warns(context) == (bool)warns && found.autocast_enabled(0) == (bool)autocast &&
           found.deterministic_fills(context) == (bool)fills;
}

static bool check_against(PyObject *view)
{
    PyObject *tensors = PyDict_GetItemString(view, "tensors");
    PyObject *context = PyDict_GetItemString(view, "context");
    if (tensors == NULL || context == NULL || !PyList_Check(tensors)) {
        return false;
    }
    bool candidates[IMPL_WORDS];
    memset(candidates, true, sizeof(candidates));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tensors); i++) {
        if (!check_tensor(PyList_GET_ITEM(tensors, i), candidates)) {
            return false;
        }
    }
    for (int i = 0; i < IMPL_WORDS; i++) {
        if (candidates[i]) {
            if (found.keys_at >= 0) {
                return false; /* not unique */
            }
            found.keys_at = i;
        }
    }
    return found.keys_at >= 0 && check_context(context);
}

int libtorch_ask(const char *statements, PyObject *names)
{
    static const char with_modes_off[] = "with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():\n"
                                         "    exec(statements)\n";
    PyObject *torch = PyImport_ImportModule("torch");
    PyObject *text = PyUnicode_FromString(statements);
    PyObject *done = NULL;
    if (torch != NULL && text != NULL && PyDict_SetItemString(names, "torch", torch) == 0 &&
        PyDict_SetItemString(names, "statements", text) == 0 &&
        PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) == 0) {
        done = PyRun_String(with_modes_off, Py_file_input, names, names);
    }
    Py_XDECREF(text);
    Py_XDECREF(torch);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static bool check(void)
{
    PyObject *names = PyDict_New();
    bool right = names != NULL && libtorch_ask(python_view, names) == 0 && check_against(names);
    PyErr_Clear(); /* a torch that cannot even be asked is one that is not as expected */
    Py_XDECREF(names);
    return right;
}

const Libtorch *libtorch(void)
{
    if (state == UNTRIED) {
        if (tensor_type() == NULL) {
            return NULL;
        }
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        state = PYTHON; /* what the check itself runs must not come back here */
        checked = find_symbols() && check();
        state = checked ? NATIVE : PYTHON;
        PyErr_Restore(type, value, traceback);
    }
    return state == NATIVE ? &found : NULL;
}

const Libtorch *libtorch_checked(void) { return checked ? &found : NULL; }

bool tensor_abi_native(void) { return libtorch() != NULL; }

PyObject *libtorch_tensor_abi(PyObject *UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"use", NULL};
    const char *use = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|z:tensor_abi", names, &use)) {
        return NULL;
    }
    if (use != NULL) {
        libtorch();
        if (strcmp(use, "python") == 0) {
            state = PYTHON;
        } else if (strcmp(use, "libtorch") == 0 && checked) {
            state = NATIVE;
        } else {
            return PyErr_Format(PyExc_ValueError, "the tensor ABI is \"python\" or, where libtorch is as expected, "
                                                  "\"libtorch\", not \"%s\"", use);
        }
    }
    return PyUnicode_FromString(libtorch() == NULL ? "python" : "libtorch");
}
