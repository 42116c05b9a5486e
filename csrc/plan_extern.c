/* Library calls within a plan. */
#include "libtorch.h"
#include "plan_call.h"
#include "tensor.h"
#include "tensor_make.h"

PyObject *plan_value(const Call *call, const Place **place)
{
    const Place *here = (*place)++;
    switch ((PlaceKind)here->kind) {
    case PLACE_NONE: return Py_NewRef(Py_None);
    case PLACE_REGISTER: return PyLong_FromLongLong(call->registers[here->number]);
    case PLACE_OBJECT: return Py_NewRef(plan_object(call->plan, here->number));
    case PLACE_SLOT: {
        PyObject *object = call->slots[here->number].object;
        if (object == NULL) {
            PyErr_SetString(PyExc_RuntimeError, "an empty slot is used");
        }
        return Py_XNewRef(object);
    }
    case PLACE_LIST: break;
    }
    PyObject *list = PyList_New(here->number);
    for (int64_t i = 0; list != NULL && i < here->number; i++) {
        PyObject *item = plan_value(call, place);
        if (item == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, i, item);
        }
    }
    return list;
}

/* Whether the strides differ in a dimension of more than one element. */
static bool layout_differs(const Call *call, PyObject *tensor, const Layout *layout)
{
    const Libtorch *torch = libtorch_checked();
    void *handle = tensor_handle(tensor);
    int64_t ndim, *sizes, *strides;
    int32_t kind;
    bool differs = false;
    if (torch->get_layout(handle, &kind) || kind != 0 || torch->get_dim(handle, &ndim) || ndim != layout->ndim ||
        torch->get_sizes(handle, &sizes) || torch->get_strides(handle, &strides)) {
        return false;
    }
    for (int64_t i = 0; i < ndim; i++) {
        if (sizes[i] == 0) {
            return false;
        }
        differs = differs || (sizes[i] > 1 && strides[i] != call->registers[layout->sizes[ndim + i]]);
    }
    return differs;
}

/* The tensor with the layout that the plan was made for; consumes the reference. */
static PyObject *with_layout(Call *call, PyObject *tensor, const Layout *layout)
{
    if (layout->ndim < 0 || !is_tensor(tensor) || !layout_differs(call, tensor, layout)) {
        return tensor;
    }
    const Libtorch *torch = libtorch_checked();
    void *handle = tensor_handle(tensor);
    int32_t dtype, device, index;
    int64_t *sizes = call->numbers, *strides = sizes + layout->ndim;
    read_numbers(call, layout->sizes, 2 * layout->ndim, sizes);
    PyObject *copy = NULL;
    if (torch->get_dtype(handle, &dtype) == 0 && torch->get_device_type(handle, &device) == 0 &&
        torch->get_device_index(handle, &index) == 0) {
        copy = device == ON_CPU ? tensor_empty(layout->ndim, sizes, strides, dtype, LARGEST_ITEMSIZE)
                                : device_empty(layout->ndim, sizes, strides, dtype, device, index);
    }
    if (copy != NULL) {
        PyObject *done = PyObject_CallMethod(copy, "copy_", "O", tensor);
        if (done == NULL) {
            Py_CLEAR(copy);
        }
        Py_XDECREF(done);
    }
    Py_DECREF(tensor);
    return copy;
}

/* Consumes the reference to the value. */
static int store_result(Call *call, const Place *target, const Layout *expected, PyObject *value)
{
    if (target->kind == PLACE_SLOT) {
        value = with_layout(call, value, expected);
        if (value == NULL) {
            return -1;
        }
        slot_set(&call->slots[target->number], value);
        return 0;
    }
    int status = 0;
    if (target->kind == PLACE_REGISTER) {
        PyObject *number = PyNumber_Index(value);
        call->registers[target->number] = number == NULL ? 0 : PyLong_AsLongLong(number);
        Py_XDECREF(number);
        status = PyErr_Occurred() ? -1 : 0;
    }
    Py_DECREF(value);
    return status;
}

/* Consumes the reference to the result. */
static int store_results(Call *call, const ExternStep *step, const Place *output, PyObject *result)
{
    bool several = step->several;
    PyObject *values = several ? PySequence_Fast(result, "an operator is expected to give several results") : result;
    int status = values == NULL ? -1 : 0;
    if (status == 0 && several && PySequence_Fast_GET_SIZE(values) != step->n_outputs) {
        PyErr_Format(PyExc_RuntimeError, "%R gave %zd results, not %lld", plan_object(call->plan, step->callable),
                     PySequence_Fast_GET_SIZE(values), (long long)step->n_outputs);
        status = -1;
    }
    for (int64_t i = 0; status == 0 && i < step->n_outputs; i++) {
        const Layout *expected = (const Layout *)(output + 1);
        PyObject *value = several ? PySequence_Fast_GET_ITEM(values, i) : result;
        status = store_result(call, output, expected, Py_NewRef(value));
        output = (const Place *)(expected->sizes + 2 * Py_MAX(expected->ndim, 0));
    }
    if (several) {
        Py_XDECREF(values);
    }
    Py_DECREF(result);
    return status;
}

int plan_run_extern(Call *call, const ExternStep *step)
{
    PyObject **args = call->args + 1;
    const Place *place = step->args;
    int n = 0;
    while (n < step->n_args && (args[n] = plan_value(call, &place)) != NULL) {
        n++;
    }
    PyObject *result = NULL;
    if (n == step->n_args) {
        PyObject *names = plan_object(call->plan, step->names);
        size_t positional = (size_t)step->n_positional | PY_VECTORCALL_ARGUMENTS_OFFSET;
        /* An operator may be written in Python: its frames are not the program's. */
        ContextObject *outer = hook_state.context;
        hook_state.context = NULL;
        bool recorded = step->inference && gradients_recorded(false);
        result = PyObject_Vectorcall(plan_object(call->plan, step->callable), args, positional,
                                     names == Py_None ? NULL : names);
        if (recorded) {
            gradients_recorded(true);
        }
        hook_state.context = outer;
    }
    while (n > 0) {
        Py_DECREF(args[--n]);
    }
    if (result != NULL && call->plan->sanitizer != NULL &&
        sanitize_fences(call, plan_object(call->plan, step->callable)) < 0) {
        Py_CLEAR(result);
    }
    return result == NULL ? -1 : store_results(call, step, place, result);
}
