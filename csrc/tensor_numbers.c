/* Sizes, strides and offset of a tensor. */
#include "libtorch.h"
#include "tensor.h"

/* The numbers of shape or stride(): a tuple, or NULL with an exception. */
PyObject *tensor_numbers(PyObject *tensor, bool strides)
{
    PyObject *numbers =
        strides ? PyObject_CallMethod(tensor, "stride", NULL) : PyObject_GetAttrString(tensor, "shape");
    if (numbers != NULL && !PyTuple_Check(numbers)) {
        Py_SETREF(numbers, PySequence_Tuple(numbers));
    }
    return numbers;
}

static int number_in_python(PyObject *tensor, bool strides, int64_t dim, int64_t *out)
{
    PyObject *numbers = tensor_numbers(tensor, strides);
    if (numbers == NULL) {
        return -1;
    }
    int got = dim < PyTuple_GET_SIZE(numbers);
    if (got) {
        *out = PyLong_AsLongLong(PyTuple_GET_ITEM(numbers, dim));
    }
    Py_DECREF(numbers);
    return PyErr_Occurred() ? -1 : got;
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
        return number_in_python(object, strides, dim, out);
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

int tensor_offset(PyObject *object, int64_t *out)
{
    if (!is_tensor(object)) {
        return 0;
    }
    const Libtorch *torch = libtorch();
    if (torch != NULL) {
        return torch->get_storage_offset(tensor_handle(object), out) == 0;
    }
    PyObject *offset = PyObject_CallMethod(object, "storage_offset", NULL);
    if (offset == NULL) {
        return -1;
    }
    *out = PyLong_AsLongLong(offset);
    Py_DECREF(offset);
    return PyErr_Occurred() ? -1 : 1;
}
