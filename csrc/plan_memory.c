/* The memory of one call of a plan. */
#include "plan_call.h"
#include "pool.h"
#include "tensor_make.h"
#include <stdlib.h>

enum {
    ALIGNMENT = 64,
    KEPT_SCRATCH = 16 << 20, /* larger memory may serve other plans after a call */
};

int slot_data(Slot *slot, void **data)
{
    if (slot->data == NULL) {
        if (slot->object == NULL) {
            PyErr_SetString(PyExc_RuntimeError, "a kernel is given an empty slot");
            return -1;
        }
        if (tensor_data(slot->object, &slot->data) < 0) {
            return -1;
        }
        slot->bytes = tensor_bytes(slot->object);
        if (slot->data == NULL && slot->bytes > 0) {
            PyErr_SetString(PyExc_RuntimeError, "a tensor with memory of its own is expected");
            return -1;
        }
    }
    *data = slot->data;
    return 0;
}

static PyObject *new_tensor(const Call *call, const TensorStep *step, const int64_t *sizes, const int64_t *strides)
{
    if (call->plan->sanitizer != NULL) {
        return sanitize_alloc(step, sizes, strides);
    }
    PyObject *tensor = tensor_empty(step->layout.ndim, sizes, strides, (int32_t)step->dtype, step->itemsize);
    if (tensor == NULL && pool_release() > 0) { /* it may be what is missing */
        PyErr_Clear();
        tensor = tensor_empty(step->layout.ndim, sizes, strides, (int32_t)step->dtype, step->itemsize);
    }
    return tensor;
}

int plan_alloc(Call *call, const TensorStep *step)
{
    int64_t ndim = step->layout.ndim, *sizes = call->numbers, *strides = sizes + ndim;
    read_numbers(call, step->layout.sizes, 2 * ndim, sizes);
    int64_t elements = tensor_span(ndim, sizes, strides);
    if (elements < 0) {
        return -1;
    }
    bool is_large = call->plan->sanitizer == NULL && elements >= POOLED / step->itemsize;
    PyObject *known = is_large ? pool_take(ndim, sizes, strides, (int32_t)step->dtype, elements) : NULL;
    PyObject *tensor = known != NULL || PyErr_Occurred() ? known : new_tensor(call, step, sizes, strides);
    if (tensor == NULL) {
        return -1;
    }
    Slot *slot = &call->slots[step->target];
    void *memory;
    slot_set(slot, tensor);
    if (slot_data(slot, &memory) < 0) {
        return -1;
    }
    if (is_large) {
        slot->elements = elements;
        slot->dtype = (int8_t)step->dtype;
        slot->itemsize = (int8_t)step->itemsize;
        call->asked += elements * step->itemsize;
    }
    if (call->plan->sanitizer != NULL && step->base) {
        slot->fenced = elements * step->itemsize;
        if (slot->fenced > 0) {
            sanitize_fill(memory, slot->fenced);
        }
    }
    if (known == NULL) {
        prefer_large_pages(memory, elements * step->itemsize);
    }
    return 0;
}

int plan_view(Call *call, const TensorStep *step)
{
    int64_t ndim = step->layout.ndim, *sizes = call->numbers, *strides = sizes + ndim;
    read_numbers(call, step->layout.sizes, 2 * ndim, sizes);
    PyObject *base = call->slots[step->base].object;
    if (base == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a view is made of an empty slot");
        return -1;
    }
    PyObject *tensor = tensor_view(base, ndim, sizes, strides, call->registers[step->offset]);
    if (tensor == NULL) {
        return -1;
    }
    slot_set(&call->slots[step->target], tensor);
    return 0;
}

int plan_scratch(Call *call, const TensorStep *step)
{
    int64_t ndim = step->layout.ndim, elements = 1;
    const int64_t *sizes = step->layout.sizes, *strides = sizes + ndim;
    for (int64_t i = 0; i < ndim; i++) {
        int64_t size = call->registers[sizes[i]], stride = call->registers[strides[i]], last;
        if (size <= 0) {
            elements = 0;
            break;
        }
        if (__builtin_mul_overflow(size - 1, stride, &last) || __builtin_add_overflow(elements, last, &elements)) {
            PyErr_NoMemory();
            return -1;
        }
    }
    size_t bytes, fence = call->plan->sanitizer != NULL ? FENCE : 0;
    if (__builtin_mul_overflow((size_t)elements, (size_t)step->itemsize, &bytes) || bytes > PTRDIFF_MAX / 2) {
        PyErr_NoMemory();
        return -1;
    }
    if (bytes > KEPT_SCRATCH && call->plan->sanitizer == NULL) {
        if (plan_alloc(call, step) < 0) {
            PyErr_Clear();
            PyErr_NoMemory();
            return -1;
        }
        call->slots[step->target].is_ours = true;
        return 0;
    }
    Scratch *scratch = &call->scratch[step->target];
    if (scratch->capacity < bytes + 2 * fence || scratch->memory == NULL) {
        free(scratch->memory);
        scratch->capacity = (bytes + 2 * fence + ALIGNMENT) & ~(size_t)(ALIGNMENT - 1);
        scratch->memory = aligned_alloc(ALIGNMENT, scratch->capacity);
        if (scratch->memory == NULL) {
            scratch->capacity = 0;
            PyErr_NoMemory();
            return -1;
        }
        prefer_large_pages(scratch->memory, (int64_t)scratch->capacity);
    }
    Slot *slot = &call->slots[step->target];
    *slot = (Slot){.data = (char *)scratch->memory + fence, .bytes = (int64_t)bytes};
    if (fence > 0) {
        slot->fenced = (int64_t)bytes;
        sanitize_fill(slot->data, slot->fenced);
    }
    return 0;
}

static void shrink(Scratch *scratch, size_t kept)
{
    if (scratch->capacity > kept) {
        free(scratch->memory);
        *scratch = (Scratch){0};
    }
}

/* What is large and certainly nobody else's serves again. */
static void let_go(const Call *call, Slot *slot)
{
    Slot was = *slot;
    if (was.is_ours && was.elements > 0) {
        *slot = (Slot){0};
        pool_give(was.object, was.data, was.dtype, was.elements, was.itemsize, call->asked);
    } else {
        slot_clear(slot);
    }
}

void plan_free(Call *call, const PlacesStep *step)
{
    for (int64_t i = 0; i < step->n; i++) {
        Slot *slot = &call->slots[step->places[i].number];
        bool for_good = step->step.kind == STEP_RELEASE;
        slot->is_ours = !for_good && (slot->is_ours || step->step.kind == STEP_RETIRE);
        let_go(call, slot);
        shrink(&call->scratch[step->places[i].number], for_good ? 0 : KEPT_SCRATCH);
    }
}

void scratch_free(Scratch *scratch, int n)
{
    for (int i = 0; scratch != NULL && i < n; i++) {
        free(scratch[i].memory);
    }
    PyMem_Free(scratch);
}

void plan_let_go(Call *call)
{
    PlanObject *plan = call->plan;
    for (int i = 0; i < plan->n_slots; i++) {
        if (call->slots[i].owned) {
            let_go(call, &call->slots[i]);
        }
        shrink(&call->scratch[i], KEPT_SCRATCH);
    }
    if (plan->scratch == NULL) {
        plan->scratch = call->scratch;
    } else {
        scratch_free(call->scratch, plan->n_slots);
    }
}
