/* Sizes, strides and offset of a tensor. */
#include "libtorch.h"
#include "tensor.h"

PyObject *numbers_tuple(const int64_t *numbers, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *number = PyLong_FromLongLong(numbers[i]);
        if (number == NULL) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SET_ITEM(tuple, i, number);
        }
    }
    return tuple;
}

int tensor_place(PyObject *tensor, TensorPlace *out)
{
    *out = (TensorPlace){.numbers = ask_python(ABI, "place", "(O)", tensor)};
    return out->numbers != NULL && PyArg_ParseTuple(out->numbers, "KLO!O!", &out->address, &out->offset, &PyTuple_Type,
                                                    &out->sizes, &PyTuple_Type, &out->strides) ? 0 : -1;
}

bool is_tensor(PyObject *object)
{
    PyTypeObject *type = tensor_type();
    return type != NULL && PyType_IsSubtype(Py_TYPE(object), type);
}

int tensor_number(PyObject *object, bool strides, int64_t dim, int64_t *out)
{
    if (!is_tensor(object)) {
        return 0;
    }
    const Libtorch *torch = libtorch();
    if (torch == NULL) {
        TensorPlace place;
        int got = tensor_place(object, &place);
        PyObject *numbers = strides ? place.strides : place.sizes;
        if (got == 0 && (got = dim < PyTuple_GET_SIZE(numbers)) == 1) {
            *out = PyLong_AsLongLong(PyTuple_GET_ITEM(numbers, dim));
        }
        Py_XDECREF(place.numbers);
        return PyErr_Occurred() ? -1 : got;
    }
    int64_t ndim, *numbers;
    void *handle = tensor_handle(object);
    if (torch->get_dim(handle, &ndim) || dim >= ndim ||
        (strides ? torch->get_strides(handle, &numbers) : torch->get_sizes(handle, &numbers))) {
        return 0;
    }
    *out = numbers[dim];
    return 1;
}

int tensor_size(PyObject *object, int64_t dim, int64_t *out) { return tensor_number(object, false, dim, out); }
int tensor_stride(PyObject *object, int64_t dim, int64_t *out) { return tensor_number(object, true, dim, out); }
