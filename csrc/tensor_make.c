/* Making tensors through libtorch, checked once against what Python says of them. */
#include "tensor_make.h"
#include "libtorch.h"
#include "tensor.h"

/* A small tensor comes from the function below the dispatcher. It throws when memory runs out, which C cannot catch,
   so large ones go through the C function that can fail. So do all where C++ returns an object at an address that C
   has no way to pass: in a first argument on x86-64, in a register of its own on AArch64. */
enum { LARGE_TENSOR = 1 << 20 };
#ifndef HAS_FAST_EMPTY
#ifdef __x86_64__
#define HAS_FAST_EMPTY 1
#else
#define HAS_FAST_EMPTY 0
#endif
#endif

typedef struct {
    const int64_t *data;
    size_t size;
} ArrayRef;

static struct {
#if HAS_FAST_EMPTY
    /* at::TensorBase is one pointer and is returned in memory */
    void *(*empty)(void **out, ArrayRef sizes, ArrayRef strides, int8_t dtype, bool pinned);
#endif
    int32_t (*empty_large)(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int32_t device_type,
                           int32_t device_index, void **out);
    int32_t (*view)(void *tensor, int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset,
                    void **out);
    int32_t (*delete_handle)(void *tensor);
    int32_t (*numel)(void *tensor, int64_t *out);
    PyObject *(*wrap)(void **tensor); /* takes the tensor out of the at::TensorBase that it is given */
    int (*threads)(void);
    uint64_t autograd_keys;
    uint64_t autocast_keys; /* those that are excluded by default: thread-local bits are stored inverted */
} torch;

static const struct {
    size_t field;
    const char *name;
} symbols[] = {
#if HAS_FAST_EMPTY
    {offsetof(typeof(torch), empty), "_ZN2at6detail17empty_strided_cpuEN3c108ArrayRefIlEES3_NS1_10ScalarTypeEb"},
#endif
    {offsetof(typeof(torch), empty_large), "aoti_torch_empty_strided"},
    {offsetof(typeof(torch), view), "aoti_torch__reinterpret_tensor"},
    {offsetof(typeof(torch), delete_handle), "aoti_torch_delete_tensor_object"},
    {offsetof(typeof(torch), numel), "aoti_torch_get_numel"},
    {offsetof(typeof(torch), wrap), "_Z16THPVariable_WrapON2at10TensorBaseE"},
    {offsetof(typeof(torch), threads), "_ZN2at15get_num_threadsEv"},
};

/* ---- tensors ---- */

static PyObject *wrap_handle(void *handle)
{
    PyObject *tensor = torch.wrap(handle);
    torch.delete_handle(handle);
    return tensor;
}

static PyObject *empty_large(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype)
{
    void *handle;
    if (torch.empty_large(ndim, sizes, strides, dtype, 0, -1, &handle) != 0) {
        PyErr_SetString(PyExc_RuntimeError, "torch could not allocate a tensor");
        return NULL;
    }
    return wrap_handle(handle);
}

/* The elements that the layout spans; -1 with an exception set for a negative size. */
static int64_t span(int64_t ndim, const int64_t *sizes, const int64_t *strides)
{
    int64_t last = 0;
    for (int64_t i = 0; i < ndim; i++) {
        if (sizes[i] < 0) {
            PyErr_Format(PyExc_RuntimeError, "a tensor of size %lld was asked for", (long long)sizes[i]);
            return -1;
        }
        if (sizes[i] == 0) {
            return 0;
        }
        last += (sizes[i] - 1) * strides[i];
    }
    return last + 1;
}

PyObject *tensor_empty(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int64_t itemsize)
{
    int64_t elements = span(ndim, sizes, strides);
    if (elements < 0) {
        return NULL;
    }
#if HAS_FAST_EMPTY
    if (elements < LARGE_TENSOR / itemsize) {
        void *base;
        torch.empty(&base, (ArrayRef){sizes, (size_t)ndim}, (ArrayRef){strides, (size_t)ndim}, (int8_t)dtype, false);
        return torch.wrap(&base);
    }
#else
    (void)itemsize;
#endif
    return empty_large(ndim, sizes, strides, dtype);
}

PyObject *tensor_view(PyObject *base, int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    void *handle;
    if (!is_tensor(base)) {
        return PyErr_Format(PyExc_TypeError, "a tensor is expected, not %.200s", Py_TYPE(base)->tp_name);
    }
    if (torch.view(tensor_handle(base), ndim, sizes, strides, offset, &handle) != 0) {
        PyErr_SetString(PyExc_RuntimeError, "torch could not make a view of a tensor");
        return NULL;
    }
    return wrap_handle(handle);
}

int tensor_data(PyObject *tensor, void **data)
{
    if (!is_tensor(tensor)) {
        PyErr_Format(PyExc_TypeError, "a tensor is expected, not %.200s", Py_TYPE(tensor)->tp_name);
        return -1;
    }
    if (libtorch_checked()->get_data_ptr(tensor_handle(tensor), data) != 0) {
        PyErr_SetString(PyExc_RuntimeError, "a tensor with memory of its own is expected");
        return -1;
    }
    return 0;
}

int tensor_bytes(PyObject *tensor, int64_t *bytes)
{
    *bytes = 0;
    int64_t numel;
    if (torch.numel(tensor_handle(tensor), &numel) == 0) {
        *bytes = numel * ORDINARY_ITEMSIZE; /* an estimate of the work */
    }
    return 0;
}

int64_t torch_threads(void) { return torch.threads(); }

/* ---- dispatch ---- */

uint64_t dispatch_below_autograd(void)
{
    uint64_t *excluded = (uint64_t *)libtorch_thread_keys() + 1;
    uint64_t saved = *excluded;
    *excluded = (saved | torch.autograd_keys) & ~torch.autocast_keys;
    return saved;
}

void dispatch_restore(uint64_t saved) { ((uint64_t *)libtorch_thread_keys())[1] = saved; }

/* ---- the check ---- */

static const char about_keys[] =
    "def bits(names):\n"
    "    keys = [getattr(torch._C.DispatchKey, name) for name in names]\n"
    "    return sum(torch._C.DispatchKeySet(key).raw_repr() for key in keys)\n"
    "autograd = bits(['AutogradFunctionality', 'AutogradOther', 'AutogradNestedTensor', 'ADInplaceOrView'])\n"
    "autocast = bits(name for name in dir(torch._C.DispatchKey) if name.startswith('Autocast'))\n"
    "excluded = torch._C._dispatch_tls_local_exclude_set().raw_repr()\n";

static const char about_tensors[] =
    "made.fill_(7)\n"
    "right = (type(made) is torch.Tensor and made.dtype is torch.float64 and tuple(made.shape) == (2, 3)\n"
    "         and made.stride() == (1, 2) and made.device.type == 'cpu' and not made.requires_grad\n"
    "         and torch._C._dispatch_keys(made) == torch._C._dispatch_keys(torch.empty(1))\n"
    "         and view.tolist() == [7.0, 7.0] and view.storage_offset() == 1\n"
    "         and view.untyped_storage().data_ptr() == made.untyped_storage().data_ptr())\n";

static const char about_dispatch[] =
    "right = (not (torch.ones(2, requires_grad=True) * 2).requires_grad and torch.ones(2).mul_(2)._version == 0\n"
    "         and not torch.is_autocast_enabled('cpu') and not torch.is_autocast_enabled('cuda'))\n";

static bool says_right(const char *statements, PyObject *names)
{
    bool right = names != NULL && libtorch_ask(statements, names) == 0 &&
                 PyDict_GetItemString(names, "right") == Py_True;
    Py_XDECREF(names);
    return right;
}

static bool check_tensors(void)
{
    const int64_t sizes[] = {2, 3}, strides[] = {1, 2}, view_size[] = {2}, view_stride[] = {2};
    bool right = true;
    for (int large = 0; large < 2 && right; large++) {
        PyObject *made = large ? empty_large(2, sizes, strides, 7) : tensor_empty(2, sizes, strides, 7, 8);
        PyObject *seen = made == NULL ? NULL : tensor_view(made, 1, view_size, view_stride, 1);
        right = seen != NULL && says_right(about_tensors, Py_BuildValue("{sOsO}", "made", made, "view", seen));
        Py_XDECREF(seen);
        Py_XDECREF(made);
    }
    return right;
}

static bool find_keys(void)
{
    PyObject *names = PyDict_New();
    uint64_t excluded = 0;
    bool found = names != NULL && libtorch_ask(about_keys, names) == 0;
    if (found) {
        torch.autograd_keys = PyLong_AsUnsignedLongLong(PyDict_GetItemString(names, "autograd"));
        torch.autocast_keys = PyLong_AsUnsignedLongLong(PyDict_GetItemString(names, "autocast"));
        excluded = PyLong_AsUnsignedLongLong(PyDict_GetItemString(names, "excluded"));
    }
    Py_XDECREF(names);
    uint64_t inverted = excluded ^ libtorch_thread_keys()[1];
    return found && (inverted & torch.autocast_keys) == torch.autocast_keys && (inverted & torch.autograd_keys) == 0;
}

static bool check_dispatch(void)
{
    uint64_t saved = dispatch_below_autograd();
    bool right = says_right(about_dispatch, PyDict_New());
    dispatch_restore(saved);
    return right;
}

static bool check(void)
{
    if (libtorch() == NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = libtorch_symbol(symbols[i].name);
        if (address == NULL) {
            return false;
        }
        memcpy((char *)&torch + symbols[i].field, &address, sizeof(address));
    }
    bool right = find_keys() && check_dispatch() && check_tensors();
    PyErr_Clear(); /* a torch that cannot even be asked is one that is not as expected */
    return right;
}

bool tensor_make_ready(void)
{
    static enum { UNTRIED, READY, MISSING } state = UNTRIED;
    if (state == UNTRIED && tensor_type() != NULL) {
        state = check() ? READY : MISSING;
    }
    return state == READY && libtorch() != NULL;
}
