/* Finding libtorch's functions and checking them. */
#define _GNU_SOURCE
#include "libtorch.h"
#include "tensor.h"
#include <dlfcn.h>

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
    found.thread_callbacks = (bool (*)(void))dlsym(library, "_ZN2at23hasThreadLocalCallbacksEv");
    return true;
}

/* ---- the check ---- */

/* read_tensor(tensor, words): what libtorch says of it, and so many words of its TensorImpl. */
static PyObject *read_tensor(PyObject *UNUSED(self), PyObject *args)
{
    PyObject *tensor;
    Py_ssize_t n_words;
    if (!PyArg_ParseTuple(args, "On", &tensor, &n_words)) {
        return NULL;
    }
    void *handle = tensor_handle(tensor), *data;
    int32_t dtype, device, index, layout;
    int64_t dim, offset, *sizes, *strides;
    if (found.get_dtype(handle, &dtype) || found.get_device_type(handle, &device) ||
        found.get_device_index(handle, &index) || found.get_layout(handle, &layout) || layout != 0 ||
        found.get_dim(handle, &dim) || found.get_sizes(handle, &sizes) || found.get_strides(handle, &strides) ||
        found.get_storage_offset(handle, &offset) || found.get_data_ptr(handle, &data)) {
        return PyErr_Format(PyExc_RuntimeError, "libtorch cannot read a tensor");
    }
    const uint64_t *words = tensor_impl(tensor);
    return Py_BuildValue("iiNLKNNN", dtype, device, PyBool_FromLong(found.requires_grad(words)), (long long)offset,
                         (unsigned long long)(uintptr_t)data, numbers_tuple(sizes, dim), numbers_tuple(strides, dim),
                         numbers_tuple((const int64_t *)words, n_words));
}

static PyObject *read_state(PyObject *UNUSED(self), PyObject *UNUSED(ignored))
{
    const void *context = found.global_context();
    const int64_t numbers[] = {found.grad_mode(), found.inference_mode(), found.deterministic(context),
                               found.deterministic_warns(context), found.deterministic_fills(context),
                               found.autocast_enabled(0), found.function_modes()};
    return numbers_tuple(numbers, sizeof(numbers) / sizeof(numbers[0]));
}

static PyMethodDef readers[] = {
    {"read_tensor", read_tensor, METH_VARARGS, NULL},
    {"read_state", read_state, METH_NOARGS, NULL},
};

static bool check(void)
{
    PyObject *place = ask_python(ABI, "keys_at", "(NN)", PyCFunction_New(&readers[0], NULL),
                                 PyCFunction_New(&readers[1], NULL));
    found.keys_at = place == NULL ? -1 : PyLong_AsSsize_t(place);
    PyObject *names = place == NULL ? NULL : ask_python(ABI, "names_key", "()");
    found.names_key = names == NULL ? 0 : PyLong_AsUnsignedLongLong(names);
    bool asked = names != NULL && !PyErr_Occurred();
    PyErr_Clear(); /* a torch that cannot even be asked is one that is not as expected */
    Py_XDECREF(place);
    Py_XDECREF(names);
    return asked && found.keys_at >= 0;
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
