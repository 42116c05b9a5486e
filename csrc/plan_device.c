/* What a plan does on a device that is not the processor: tensors there, and kernels that begin on its stream. */
#include "cuda.h"
#include "libtorch.h"
#include "plan_call.h"
#include "tensor.h"
#include "tensor_make.h"

#define LAUNCHER "onegraph.compiler.runtime.launcher"

PyObject *device_empty(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int32_t device,
                       int32_t index)
{
    if (tensor_span(ndim, sizes, strides) < 0) {
        return NULL;
    }
    PyObject *tensor = tensor_empty_on(ndim, sizes, strides, dtype, device, index);
    if (tensor == NULL) { /* torch's C interface does not say why: its Python one raises what eager does */
        PyErr_Clear();
        ContextObject *outer = hook_state.context;
        hook_state.context = NULL;
        tensor = ask_python(LAUNCHER, "empty_on", "(NNiii)", numbers_tuple(sizes, ndim),
                            numbers_tuple(strides, ndim), (int)dtype, (int)device, (int)index);
        hook_state.context = outer;
    }
    return tensor;
}

int plan_device_alloc(Call *call, const TensorStep *step)
{
    int64_t ndim = step->layout.ndim, *sizes = call->numbers, *strides = sizes + ndim;
    read_numbers(call, step->layout.sizes, 2 * ndim, sizes);
    PyObject *tensor = device_empty(ndim, sizes, strides, (int32_t)step->dtype, (int32_t)step->base,
                                    (int32_t)step->offset);
    if (tensor == NULL) {
        return -1;
    }
    slot_set(&call->slots[step->target], tensor);
    return 0;
}

/* The memory of an operand, which lies on the device of the kernel: to any other address it would end the context. */
static int operand_data(const CudaKernel *kernel, int64_t kind, Slot *slot, void **data)
{
    const Libtorch *torch = libtorch_checked();
    if (slot_data(slot, data) < 0) {
        return -1;
    }
    if (slot->on_device) {
        return 0;
    }
    void *handle = slot->object == NULL ? NULL : tensor_handle(slot->object);
    int32_t type = ON_CPU, index = -1;
    if (handle != NULL && (torch->get_device_type(handle, &type) != 0 || torch->get_device_index(handle, &index) != 0)) {
        PyErr_SetString(PyExc_RuntimeError, "torch does not tell on which device a tensor is");
        return -1;
    }
    if (type != kind || (index >= 0 && index != kernel->device)) {
        PyObject *device = handle == NULL ? NULL : PyObject_GetAttrString(slot->object, "device");
        PyErr_Format(PyExc_RuntimeError, "%s, a kernel on CUDA device %d, is given memory on %S", kernel->name,
                     kernel->device, device == NULL ? Py_None : device);
        Py_XDECREF(device);
        return -1;
    }
    slot->on_device = true;
    return 0;
}

int plan_device_launch(Call *call, const LaunchStep *launch)
{
    const CudaKernel *kernel = (const CudaKernel *)(uintptr_t)launch->kernel;
    if (launch->n_operands != kernel->n_pointers || launch->n_sizes != kernel->n_sizes) {
        PyErr_Format(PyExc_SystemError, "%s is given %lld pointers and %lld sizes, and takes %d and %d", kernel->name,
                     (long long)launch->n_operands, (long long)launch->n_sizes, kernel->n_pointers, kernel->n_sizes);
        return -1;
    }
    for (int64_t i = 0; i < launch->n_operands; i++) {
        void *data;
        if (operand_data(kernel, launch->parallel, &call->slots[launch->operands[i].slot], &data) < 0) {
            return -1;
        }
        call->pointers[i] = (char *)data + launch->operands[i].offset;
    }
    const int64_t *sizes = (const int64_t *)(launch->operands + launch->n_operands), *along = sizes + launch->n_sizes;
    int64_t grid[3];
    read_numbers(call, sizes, launch->n_sizes, (int64_t *)(call->pointers + launch->n_operands));
    read_numbers(call, along, 3, grid);
    return cuda_launch(kernel, (uint64_t *)call->pointers, grid);
}
