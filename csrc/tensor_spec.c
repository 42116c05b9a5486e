/* TensorSpec: what a trace expects of a tensor. */
#include "libtorch.h"
#include "tensor.h"
#include <stddef.h>
#include <structmember.h>

#define ANY INT64_MIN

struct TensorSpecObject {
    PyObject_HEAD
    PyTypeObject *type;
    bool native;        /* which of the two following parts holds */
    bool requires_grad; /* in both */
    bool exact_sizes;   /* no ANY among them */
    bool exact_strides;
    int32_t dtype;
    int32_t device_type;
    int32_t device_index;
    int32_t layout;
    uint64_t keys;
    PyObject *attributes; /* (dtype, device, layout, is_conj, is_neg) as Python objects */
    int64_t ndim;         /* in both */
    bool strided;         /* it has strides */
    int64_t *sizes;       /* ANY: not checked */
    int64_t *strides;
};

/* ---- reading a tensor through Python ---- */

static PyObject *attributes_of(PyObject *tensor)
{
    PyObject *dtype = PyObject_GetAttrString(tensor, "dtype");
    PyObject *device = dtype == NULL ? NULL : PyObject_GetAttrString(tensor, "device");
    PyObject *layout = device == NULL ? NULL : PyObject_GetAttrString(tensor, "layout");
    PyObject *conj = layout == NULL ? NULL : PyObject_CallMethod(tensor, "is_conj", NULL);
    PyObject *neg = conj == NULL ? NULL : PyObject_CallMethod(tensor, "is_neg", NULL);
    PyObject *all = neg == NULL ? NULL : PyTuple_Pack(5, dtype, device, layout, conj, neg);
    Py_XDECREF(dtype);
    Py_XDECREF(device);
    Py_XDECREF(layout);
    Py_XDECREF(conj);
    Py_XDECREF(neg);
    return all;
}

static int requires_grad_of(PyObject *tensor)
{
    PyObject *flag = PyObject_GetAttrString(tensor, "requires_grad");
    if (flag == NULL) {
        return -1;
    }
    int truth = PyObject_IsTrue(flag);
    Py_DECREF(flag);
    return truth;
}

static int matches_numbers(PyObject *tensor, bool strides, int64_t ndim, const int64_t *expected)
{
    PyObject *numbers = tensor_numbers(tensor, strides);
    if (numbers == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) {
            return -1;
        }
        PyErr_Clear(); /* a nested tensor has none */
        return 0;
    }
    int same = PyTuple_GET_SIZE(numbers) == ndim;
    for (int64_t i = 0; same && i < ndim; i++) {
        same = expected[i] == ANY || PyLong_AsLongLong(PyTuple_GET_ITEM(numbers, i)) == expected[i];
    }
    Py_DECREF(numbers);
    return PyErr_Occurred() ? -1 : same;
}

static int matches_in_python(TensorSpecObject *spec, PyObject *tensor)
{
    PyObject *attributes = attributes_of(tensor);
    if (attributes == NULL) {
        return -1;
    }
    int same = PyObject_RichCompareBool(attributes, spec->attributes, Py_EQ);
    Py_DECREF(attributes);
    if (same == 1) {
        same = matches_numbers(tensor, false, spec->ndim, spec->sizes);
    }
    if (same == 1 && spec->strided) {
        same = matches_numbers(tensor, true, spec->ndim, spec->strides);
    }
    if (same == 1) {
        int requires_grad = requires_grad_of(tensor);
        same = requires_grad < 0 ? -1 : requires_grad == spec->requires_grad;
    }
    return same;
}

/* ---- reading a tensor through libtorch ---- */

static inline bool matches_each(const int64_t *expected, const int64_t *got, int64_t n, bool exact)
{
    for (int64_t i = 0; i < n; i++) {
        if (got[i] != expected[i] && (exact || expected[i] != ANY)) {
            return false;
        }
    }
    return true;
}

static bool matches_natively(const Libtorch *torch, TensorSpecObject *spec, PyObject *tensor)
{
    void *handle = tensor_handle(tensor);
    int32_t dtype, device_index;
    int64_t dim, *sizes, *strides;
    /* The keys tell device type, layout, conj and neg. */
    return tensor_keys(torch, tensor) == spec->keys && torch->get_dtype(handle, &dtype) == 0 && dtype == spec->dtype &&
           torch->get_device_index(handle, &device_index) == 0 && device_index == spec->device_index &&
           torch->get_dim(handle, &dim) == 0 && dim == spec->ndim && torch->get_sizes(handle, &sizes) == 0 &&
           matches_each(spec->sizes, sizes, dim, spec->exact_sizes) &&
           (!spec->strided || (torch->get_strides(handle, &strides) == 0 &&
                               matches_each(spec->strides, strides, dim, spec->exact_strides))) &&
           torch->requires_grad(tensor_impl(tensor)) == spec->requires_grad;
}

int tensor_spec_matches(TensorSpecObject *spec, PyObject *object)
{
    if (Py_TYPE(object) != spec->type) {
        return 0;
    }
    const Libtorch *torch = spec->native ? libtorch() : NULL;
    return torch != NULL ? matches_natively(torch, spec, object) : matches_in_python(spec, object);
}

/* ---- making a TensorSpec ---- */

/* Numbers given by the caller, where None is ANY; `have` has been filled with the tensor's own. */
static int override_numbers(PyObject *given, const char *name, int64_t ndim, int64_t *have, bool *exact)
{
    PyObject *numbers = PySequence_Fast(given, "sizes and strides must be sequences of int or None");
    if (numbers == NULL) {
        return -1;
    }
    if (PySequence_Fast_GET_SIZE(numbers) != ndim) {
        PyErr_Format(PyExc_ValueError, "%s has %zd entries, but the tensor has %lld dimensions", name,
                     PySequence_Fast_GET_SIZE(numbers), (long long)ndim);
        Py_DECREF(numbers);
        return -1;
    }
    for (int64_t i = 0; i < ndim && !PyErr_Occurred(); i++) {
        PyObject *number = PySequence_Fast_GET_ITEM(numbers, i);
        if (number == Py_None) {
            have[i] = ANY;
            *exact = false;
        } else {
            have[i] = PyLong_AsLongLong(number);
        }
    }
    Py_DECREF(numbers);
    return PyErr_Occurred() ? -1 : 0;
}

/* Fills `have` with the numbers of the tensor's shape or strides. */
static int own_numbers(PyObject *tensor, bool strides, int64_t ndim, int64_t *have)
{
    for (int64_t i = 0; i < ndim; i++) {
        int got = tensor_number(tensor, strides, i, &have[i]);
        if (got != 1) {
            if (got == 0) {
                PyErr_SetString(PyExc_ValueError, "the tensor's shape cannot be read");
            }
            return -1;
        }
    }
    return 0;
}

static void refuse_nested(void)
{
    PyErr_SetString(PyExc_ValueError, "a tensor without sizes that are numbers (a nested tensor) cannot be described");
}

static int read_natively(const Libtorch *torch, TensorSpecObject *self, PyObject *tensor)
{
    void *handle = tensor_handle(tensor);
    int64_t *ignored;
    if (torch->get_dtype(handle, &self->dtype) || torch->get_device_type(handle, &self->device_type) ||
        torch->get_device_index(handle, &self->device_index) || torch->get_layout(handle, &self->layout)) {
        PyErr_SetString(PyExc_ValueError, "the tensor cannot be read");
        return -1;
    }
    self->keys = tensor_keys(torch, tensor);
    self->requires_grad = torch->requires_grad(tensor_impl(tensor));
    self->strided = self->layout == 0;
    if (torch->get_dim(handle, &self->ndim) || torch->get_sizes(handle, &ignored)) {
        refuse_nested();
        return -1;
    }
    return 0;
}

static int read_in_python(TensorSpecObject *self, PyObject *tensor)
{
    int requires_grad = requires_grad_of(tensor);
    self->attributes = requires_grad < 0 ? NULL : attributes_of(tensor);
    if (self->attributes == NULL) {
        return -1;
    }
    self->requires_grad = requires_grad;
    PyObject *shape = tensor_numbers(tensor, false);
    bool numeric = shape != NULL;
    for (Py_ssize_t i = 0; numeric && i < PyTuple_GET_SIZE(shape); i++) {
        numeric = PyLong_CheckExact(PyTuple_GET_ITEM(shape, i));
    }
    if (!numeric) {
        Py_XDECREF(shape);
        refuse_nested();
        return -1;
    }
    self->ndim = PyTuple_GET_SIZE(shape);
    Py_DECREF(shape);
    PyObject *layout = PyObject_Str(PyTuple_GET_ITEM(self->attributes, 2));
    self->strided = layout != NULL && PyUnicode_CompareWithASCIIString(layout, "torch.strided") == 0;
    Py_XDECREF(layout);
    return layout == NULL ? -1 : 0;
}

static int spec_init(TensorSpecObject *self, PyObject *tensor, PyObject *sizes, PyObject *strides)
{
    const Libtorch *torch = libtorch();
    self->native = torch != NULL;
    self->type = (PyTypeObject *)Py_NewRef(Py_TYPE(tensor));
    if ((self->native ? read_natively(torch, self, tensor) : read_in_python(self, tensor)) < 0) {
        return -1;
    }
    size_t n = (size_t)self->ndim;
    self->exact_sizes = self->exact_strides = true;
    self->sizes = PyMem_Calloc(2 * n + 1, sizeof(int64_t));
    if (self->sizes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->strides = self->sizes + n;
    if (own_numbers(tensor, false, self->ndim, self->sizes) < 0 ||
        (sizes != Py_None &&
         override_numbers(sizes, "sizes", self->ndim, self->sizes, &self->exact_sizes) < 0)) {
        return -1;
    }
    if (self->strided && (own_numbers(tensor, true, self->ndim, self->strides) < 0 ||
                          (strides != Py_None && override_numbers(strides, "strides", self->ndim, self->strides,
                                                                  &self->exact_strides) < 0))) {
        return -1;
    }
    return 0;
}

static PyObject *spec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"tensor", "sizes", "strides", NULL};
    PyObject *tensor, *sizes = Py_None, *strides = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:TensorSpec", names, &tensor, &sizes, &strides)) {
        return NULL;
    }
    if (!is_tensor(tensor)) {
        return PyErr_Format(PyExc_TypeError, "a tensor is expected, not %.200s", Py_TYPE(tensor)->tp_name);
    }
    TensorSpecObject *self = (TensorSpecObject *)type->tp_alloc(type, 0);
    if (self != NULL && spec_init(self, tensor, sizes, strides) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void spec_dealloc(TensorSpecObject *self)
{
    Py_XDECREF(self->type);
    Py_XDECREF(self->attributes);
    PyMem_Free(self->sizes);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* ---- showing it ---- */

static PyObject *numbers_tuple(int64_t n, const int64_t *numbers)
{
    PyObject *tuple = PyTuple_New(n);
    for (int64_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *number = numbers[i] == ANY ? Py_NewRef(Py_None) : PyLong_FromLongLong(numbers[i]);
        if (number == NULL) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SET_ITEM(tuple, i, number);
        }
    }
    return tuple;
}

static PyObject *spec_sizes(TensorSpecObject *self, void *UNUSED(closure))
{
    return numbers_tuple(self->ndim, self->sizes);
}

static PyObject *spec_strides(TensorSpecObject *self, void *UNUSED(closure))
{
    return self->strided ? numbers_tuple(self->ndim, self->strides) : Py_NewRef(Py_None);
}

static PyObject *spec_dtype(TensorSpecObject *self, void *UNUSED(closure))
{
    static const char *const names[] = {"uint8",     "int8",       "int16",     "int32",      "int64",    "float16",
                                        "float32",   "float64",    "complex32", "complex64",  "complex128", "bool",
                                        "qint8",     "quint8",     "qint32",    "bfloat16"};
    const int count = sizeof(names) / sizeof(names[0]);
    return !self->native ? PyObject_Str(PyTuple_GET_ITEM(self->attributes, 0))
                         : PyUnicode_FromFormat("torch.%s", self->dtype < count ? names[self->dtype] : "dtype");
}

static PyObject *spec_device(TensorSpecObject *self, void *UNUSED(closure))
{
    static const char *const names[] = {"cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip",
                                        "fpga", "maia", "xla", "vulkan", "metal", "xpu", "mps", "meta"};
    const int count = sizeof(names) / sizeof(names[0]);
    if (!self->native) {
        return PyObject_Str(PyTuple_GET_ITEM(self->attributes, 1));
    }
    const char *name = self->device_type < count ? names[self->device_type] : "device";
    return self->device_index < 0 ? PyUnicode_FromString(name)
                                  : PyUnicode_FromFormat("%s:%d", name, self->device_index);
}

static PyObject *spec_repr(TensorSpecObject *self)
{
    PyObject *parts[] = {spec_dtype(self, NULL), spec_device(self, NULL), spec_sizes(self, NULL),
                         spec_strides(self, NULL)};
    PyObject *text = NULL;
    if (parts[0] != NULL && parts[1] != NULL && parts[2] != NULL && parts[3] != NULL) {
        text = PyUnicode_FromFormat("<TensorSpec %s: %U, %U, sizes %R, strides %R%s>", _PyType_Name(self->type),
                                    parts[0], parts[1], parts[2], parts[3],
                                    self->requires_grad ? ", requires_grad" : "");
    }
    for (int i = 0; i < 4; i++) {
        Py_XDECREF(parts[i]);
    }
    return text;
}

static PyObject *spec_matches(TensorSpecObject *self, PyObject *object)
{
    int same = tensor_spec_matches(self, object);
    return same < 0 ? NULL : PyBool_FromLong(same);
}

static PyMethodDef spec_methods[] = {
    {"matches", (PyCFunction)spec_matches, METH_O, "matches(object, /)\n--\n\nWhether the object is such a tensor."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef spec_attributes[] = {
    {"dtype", (getter)spec_dtype, NULL, "as text", NULL},
    {"device", (getter)spec_device, NULL, "as text", NULL},
    {"sizes", (getter)spec_sizes, NULL, "a tuple; None in it: not checked", NULL},
    {"strides", (getter)spec_strides, NULL, "a tuple; None in it: not checked; None: it has none", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef spec_members[] = {
    {"type", T_OBJECT_EX, offsetof(TensorSpecObject, type), READONLY, NULL},
    {"requires_grad", T_BOOL, offsetof(TensorSpecObject, requires_grad), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject TensorSpec_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.TensorSpec",
    .tp_doc = PyDoc_STR("TensorSpec(tensor, sizes=None, strides=None): a tensor of the same Python type, dtype, device, "
                        "layout, dispatch keys, requires_grad, sizes and strides. `sizes` and `strides` replace the "
                        "tensor's own; None in them is not checked."),
    .tp_basicsize = sizeof(TensorSpecObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = spec_new,
    .tp_dealloc = (destructor)spec_dealloc,
    .tp_repr = (reprfunc)spec_repr,
    .tp_methods = spec_methods,
    .tp_getset = spec_attributes,
    .tp_members = spec_members,
};
