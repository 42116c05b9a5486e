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
    void (*set_grad_mode)(bool enabled);
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
    {offsetof(typeof(torch), set_grad_mode), "_ZN3c108GradMode11set_enabledEb"},
};

/* ---- tensors ---- */

static PyObject *wrap_handle(void *handle)
{
    PyObject *tensor = torch.wrap(handle);
    torch.delete_handle(handle);
    return tensor;
}

PyObject *tensor_empty_on(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int32_t device,
                          int32_t index)
{
    void *handle;
    if (torch.empty_large(ndim, sizes, strides, dtype, device, index, &handle) != 0) {
        PyErr_SetString(PyExc_RuntimeError, "torch could not allocate a tensor");
        return NULL;
    }
    return wrap_handle(handle);
}

static PyObject *empty_large(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype)
{
    return tensor_empty_on(ndim, sizes, strides, dtype, ON_CPU, -1);
}

int64_t tensor_span(int64_t ndim, const int64_t *sizes, const int64_t *strides)
{
    int64_t last = 0, more;
    bool empty = false, fits = true;
    for (int64_t i = 0; i < ndim; i++) {
        if (sizes[i] < 0 || strides[i] < 0) { /* for which libtorch throws, and C cannot catch */
            PyErr_Format(PyExc_RuntimeError, "a tensor of size %lld and stride %lld was asked for", (long long)sizes[i],
                         (long long)strides[i]);
            return -1;
        }
        empty = empty || sizes[i] == 0;
        fits = fits && !__builtin_mul_overflow(sizes[i] - 1, strides[i], &more) &&
               !__builtin_add_overflow(last, more, &last) && last < INT64_MAX;
    }
    if (empty) {
        return 0;
    }
    if (!fits) {
        PyErr_NoMemory();
        return -1;
    }
    return last + 1;
}

PyObject *tensor_empty(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int64_t itemsize)
{
    int64_t elements = tensor_span(ndim, sizes, strides);
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

int64_t tensor_bytes(PyObject *tensor)
{
    int64_t numel;
    return torch.numel(tensor_handle(tensor), &numel) == 0 ? numel * ORDINARY_ITEMSIZE : 0;
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

bool gradients_recorded(bool are)
{
    bool were = libtorch_checked()->grad_mode();
    if (were != are) {
        torch.set_grad_mode(are);
    }
    return were;
}

/* ---- the check ---- */

static bool says_yes(PyObject *answer)
{
    Py_XDECREF(answer);
    return answer == Py_True;
}

static bool check_tensors(void)
{
    const int64_t sizes[] = {2, 3}, strides[] = {1, 2}, view_size[] = {2}, view_stride[] = {2};
    bool right = true;
    for (int large = 0; large < 2 && right; large++) {
        PyObject *made = large ? empty_large(2, sizes, strides, 7) : tensor_empty(2, sizes, strides, 7, 8);
        PyObject *seen = made == NULL ? NULL : tensor_view(made, 1, view_size, view_stride, 1);
        right = seen != NULL && says_yes(ask_python(ABI, "is_made_right", "(OO)", made, seen));
        Py_XDECREF(seen);
        Py_XDECREF(made);
    }
    return right;
}

static bool find_keys(void)
{
    PyObject *sets = ask_python(ABI, "key_sets", "()");
    unsigned long long autograd, autocast, excluded;
    bool found = sets != NULL && PyArg_ParseTuple(sets, "KKK", &autograd, &autocast, &excluded);
    Py_XDECREF(sets);
    if (found) {
        torch.autograd_keys = autograd;
        torch.autocast_keys = autocast;
        uint64_t inverted = excluded ^ libtorch_thread_keys()[1];
        found = (inverted & autocast) == autocast && (inverted & autograd) == 0;
    }
    return found;
}

static bool check_dispatch(void)
{
    uint64_t saved = dispatch_below_autograd();
    bool right = says_yes(ask_python(ABI, "is_below_autograd", "()"));
    dispatch_restore(saved);
    bool recorded = gradients_recorded(false);
    right = right && !says_yes(ask_python(ABI, "gradients_recorded", "()"));
    gradients_recorded(true);
    right = right && says_yes(ask_python(ABI, "gradients_recorded", "()"));
    gradients_recorded(recorded);
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
