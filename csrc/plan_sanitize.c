/* What `sanitize` adds to a call: the memory of operands is checked, poisoned and fenced. It is slow and shares no path
   with ordinary calls. src/onegraph/compiler/runtime/sanitizer.py writes the messages. */
#include "libtorch.h"
#include "plan_call.h"
#include "tensor_make.h"

enum {
    POISON = 0xFF, /* a NaN, -1, or no truth value */
    RAISED = 0xA5,
};

static int raised_by(PyObject *told)
{
    Py_XDECREF(told); /* it raises */
    if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_SystemError, "the sanitizer was told of a wrong access, and has not raised");
    }
    return -1;
}

void sanitize_fill(void *data, int64_t bytes)
{
    memset((char *)data - FENCE, RAISED, FENCE);
    memset(data, POISON, (size_t)bytes);
    memset((char *)data + bytes, RAISED, FENCE);
}

PyObject *sanitize_alloc(const TensorStep *step, const int64_t *sizes, const int64_t *strides)
{
    int64_t ndim = step->layout.ndim, around = FENCE / step->itemsize, one = 1;
    int64_t elements = tensor_span(ndim, sizes, strides);
    if (elements < 0) {
        return NULL;
    }
    if (!step->base || elements == 0) {
        return tensor_empty(ndim, sizes, strides, (int32_t)step->dtype, step->itemsize);
    }
    int64_t all = elements + 2 * around;
    PyObject *memory = tensor_empty(1, &all, &one, (int32_t)step->dtype, step->itemsize);
    PyObject *tensor = memory == NULL ? NULL : tensor_view(memory, ndim, sizes, strides, around);
    Py_XDECREF(memory);
    return tensor;
}

/* Bytes from the first element of a slot to the end of its memory; INT64_MAX where torch does not say. */
static int64_t room_of(const Slot *slot, int64_t itemsize)
{
    static int32_t (*storage_size)(void *tensor, int64_t *out);
    if (slot->fenced > 0 || slot->object == NULL) {
        return slot->fenced;
    }
    if (storage_size == NULL) {
        *(void **)&storage_size = libtorch_symbol("aoti_torch_get_storage_size");
    }
    int64_t size, offset;
    void *handle = tensor_handle(slot->object);
    if (storage_size == NULL || storage_size(handle, &size) != 0 ||
        libtorch_checked()->get_storage_offset(handle, &offset) != 0) {
        return INT64_MAX;
    }
    return size - offset * itemsize;
}

int sanitize_operands(Call *call, const LaunchStep *launch)
{
    int64_t n = launch->n_operands;
    const WatchedOperand *watched = (const WatchedOperand *)((const int64_t *)(launch->operands + n) + launch->n_sizes);
    for (int64_t i = 0; i < n; i++) {
        Operand at = launch->operands[i];
        int64_t span = call->registers[watched[i].span], room = room_of(&call->slots[at.slot], watched[i].itemsize);
        if (at.offset < 0 || (span > 0 && (room < at.offset || room - at.offset < span))) {
            PyObject *watch = plan_object(call->plan, launch->watch);
            return raised_by(PyObject_CallMethod(watch, "too_small", "LLLL", (long long)i, (long long)span,
                                                 (long long)at.offset, (long long)room));
        }
        if (watched[i].fresh && span > 0) {
            memset(call->pointers[i], POISON, (size_t)span);
        }
        call->pointers[n + i] = (void *)(intptr_t)Py_MAX(span, 0);
    }
    call->pointers[2 * n] = NULL;
    return 0;
}

int sanitize_report(const Call *call, const LaunchStep *launch, int64_t code)
{
    int64_t n = launch->n_operands, index = (int64_t)(intptr_t)call->pointers[2 * n];
    PyObject *spans = PyTuple_New(n);
    for (int64_t i = 0; spans != NULL && i < n; i++) {
        PyTuple_SET_ITEM(spans, i, PyLong_FromLongLong((long long)(intptr_t)call->pointers[n + i]));
    }
    if (spans == NULL) {
        return -1;
    }
    PyObject *watch = plan_object(call->plan, launch->watch);
    return raised_by(PyObject_CallMethod(watch, "outside", "LLN", (long long)(-1 - code), (long long)index, spans));
}

static bool is_intact(const unsigned char *fence)
{
    for (int i = 0; i < FENCE; i++) {
        if (fence[i] != RAISED) {
            return false;
        }
    }
    return true;
}

int sanitize_fences(Call *call, PyObject *culprit)
{
    for (int i = 0; i < call->plan->n_slots; i++) {
        const Slot *slot = &call->slots[i];
        const unsigned char *data = slot->data;
        if (slot->fenced > 0 && !(is_intact(data - FENCE) && is_intact(data + slot->fenced))) {
            return raised_by(PyObject_CallFunction(call->plan->sanitizer, "OL", culprit, (long long)slot->fenced));
        }
    }
    return 0;
}
