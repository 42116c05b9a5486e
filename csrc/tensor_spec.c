/* TensorSpec: what a trace expects of a tensor. */
#include "libtorch.h"
#include "tensor.h"
#include <stddef.h>
#include <structmember.h>

#define ANY INT64_MIN

struct TensorSpecObject {
    PyObject_HEAD
    PyTypeObject *type;
    PyObject *description; /* (facts, sizes, strides), see src/onegraph/torchlib/abi.py */
    /* the same for libtorch */
    bool native;
    bool requires_grad;
    bool exact_sizes; /* no ANY among them */
    bool exact_strides;
    bool strided; /* it has strides */
    int32_t dtype;
    int32_t device_index;
    uint64_t keys;
    int64_t ndim;
    int64_t *sizes; /* ANY: not checked */
    int64_t *strides;
};

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
    if (torch != NULL) {
        return matches_natively(torch, spec, object);
    }
    PyObject *answer = ask_python(ABI, "matches", "(OO)", spec->description, object);
    Py_XDECREF(answer);
    return answer == NULL ? -1 : answer == Py_True;
}

/* ---- making a TensorSpec ---- */

/* The numbers of a tuple; whether none of them is ANY. */
static bool copy_numbers(PyObject *numbers, int64_t *out)
{
    bool exact = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers) && !PyErr_Occurred(); i++) {
        PyObject *number = PyTuple_GET_ITEM(numbers, i);
        exact = exact && number != Py_None;
        out[i] = number == Py_None ? ANY : PyLong_AsLongLong(number);
    }
    return exact;
}

static int spec_init(TensorSpecObject *self, PyObject *tensor, PyObject *sizes, PyObject *strides)
{
    const Libtorch *torch = libtorch();
    PyObject *facts, *own_sizes, *own_strides;
    self->native = torch != NULL;
    self->type = (PyTypeObject *)Py_NewRef(Py_TYPE(tensor));
    self->description = ask_python(ABI, "spec", "(OOO)", tensor, sizes, strides);
    if (self->description == NULL ||
        !PyArg_ParseTuple(self->description, "O!O!O", &PyTuple_Type, &facts, &PyTuple_Type, &own_sizes, &own_strides)) {
        return -1;
    }
    self->ndim = PyTuple_GET_SIZE(own_sizes);
    self->strided = own_strides != Py_None;
    self->sizes = PyMem_Calloc(2 * (size_t)self->ndim + 1, sizeof(int64_t));
    if (self->sizes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->strides = self->sizes + self->ndim;
    self->exact_sizes = copy_numbers(own_sizes, self->sizes);
    self->exact_strides = self->strided && copy_numbers(own_strides, self->strides);
    if (torch != NULL) {
        void *handle = tensor_handle(tensor);
        if (torch->get_dtype(handle, &self->dtype) || torch->get_device_index(handle, &self->device_index)) {
            PyErr_SetString(PyExc_ValueError, "the tensor cannot be read");
        }
        self->keys = tensor_keys(torch, tensor);
        self->requires_grad = torch->requires_grad(tensor_impl(tensor));
    }
    return PyErr_Occurred() ? -1 : 0;
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
    Py_XDECREF(self->description);
    PyMem_Free(self->sizes);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* ---- showing it ---- */

static PyObject *fact(TensorSpecObject *self, Py_ssize_t index)
{
    return PyTuple_GET_ITEM(PyTuple_GET_ITEM(self->description, 0), index);
}

static PyObject *spec_dtype(TensorSpecObject *self, void *UNUSED(closure)) { return PyObject_Str(fact(self, 0)); }
static PyObject *spec_device(TensorSpecObject *self, void *UNUSED(closure)) { return PyObject_Str(fact(self, 1)); }
static PyObject *spec_grad(TensorSpecObject *self, void *UNUSED(closure)) { return Py_NewRef(fact(self, 5)); }

static PyObject *spec_numbers(TensorSpecObject *self, void *index)
{
    return Py_NewRef(PyTuple_GET_ITEM(self->description, (intptr_t)index));
}

/* All that is compared, but for the type. */
static PyObject *spec_parts(TensorSpecObject *self, void *UNUSED(closure))
{
    return Py_BuildValue("(OK)", self->description, self->native ? (unsigned long long)self->keys : 0ULL);
}

static PyObject *spec_repr(TensorSpecObject *self)
{
    return PyUnicode_FromFormat("<TensorSpec %s: %S, %S, sizes %S, strides %S%s>", _PyType_Name(self->type),
                                fact(self, 0), fact(self, 1), PyTuple_GET_ITEM(self->description, 1),
                                PyTuple_GET_ITEM(self->description, 2),
                                fact(self, 5) == Py_True ? ", requires_grad" : "");
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
    {"requires_grad", (getter)spec_grad, NULL, NULL, NULL},
    {"sizes", (getter)spec_numbers, NULL, "a tuple; None in it: not checked", (void *)1},
    {"strides", (getter)spec_numbers, NULL, "a tuple; None in it: not checked; None: it has none", (void *)2},
    {"parts", (getter)spec_parts, NULL, "all that is compared, but for the type", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef spec_members[] = {
    {"type", T_OBJECT_EX, offsetof(TensorSpecObject, type), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject TensorSpec_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.TensorSpec",
    .tp_basicsize = sizeof(TensorSpecObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = spec_new,
    .tp_dealloc = (destructor)spec_dealloc,
    .tp_repr = (reprfunc)spec_repr,
    .tp_methods = spec_methods,
    .tp_getset = spec_attributes,
    .tp_members = spec_members,
};
