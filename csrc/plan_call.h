/* The state of one call of a plan. */
#ifndef ONEGRAPH_PLAN_CALL_H
#define ONEGRAPH_PLAN_CALL_H

#include "plan.h"

typedef struct {
    PyObject *object; /* a tensor; NULL: scratch memory, or empty */
    void *data;       /* of its first element; NULL: not known yet */
    int64_t bytes;    /* about; an operand's weight */
    int64_t fenced;   /* bytes between fences; 0: there are none */
    int64_t elements; /* of large memory that was made here, which has this itemsize and dtype; else 0 */
    int8_t itemsize;
    int8_t dtype;
    bool owned;
    bool is_ours;   /* nobody else knows its memory */
    bool on_device; /* where the kernels of another device run: that was looked at */
} Slot;

typedef struct {
    PlanObject *plan;
    Slot *slots;
    int64_t *registers;
    void **pointers;
    int64_t *numbers; /* sizes and strides of one step */
    PyObject **args;  /* of one extern call, with a place in front */
    Scratch *scratch;
    bool consumes; /* the inputs are the call's own */
    bool profiled; /* by torch's profiler */
    int64_t asked; /* bytes of large tensors so far */
} Call;

static inline void slot_clear(Slot *slot)
{
    PyObject *object = slot->owned ? slot->object : NULL;
    *slot = (Slot){0};
    Py_XDECREF(object);
}

/* Takes the reference. */
static inline void slot_set(Slot *slot, PyObject *tensor)
{
    slot_clear(slot);
    slot->object = tensor;
    slot->owned = true;
}

static inline void read_numbers(const Call *call, const int64_t *registers, int64_t n, int64_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = call->registers[registers[i]];
    }
}

/* plan_sanitize.c */
enum { FENCE = 64 }; /* bytes before and behind */
/* Poison the memory between the fences, and raise these. */
void sanitize_fill(void *data, int64_t bytes);
/* A tensor between fences, or without them where it may not have them. */
PyObject *sanitize_alloc(const TensorStep *step, const int64_t *sizes, const int64_t *strides);
/* -1 with an exception set if an operand has too little memory. What is written first is poisoned. */
int sanitize_operands(Call *call, const LaunchStep *launch);
/* Raise for a wrong access. */
int sanitize_report(const Call *call, const LaunchStep *launch, int64_t code);
/* -1 with an exception set if a fence was written to. */
int sanitize_fences(Call *call, PyObject *culprit);

/* plan_memory.c; -1 with an exception set */
int slot_data(Slot *slot, void **data);
int plan_alloc(Call *call, const TensorStep *step);
int plan_view(Call *call, const TensorStep *step);
int plan_scratch(Call *call, const TensorStep *step);
void plan_free(Call *call, const PlacesStep *step);
/* At the end of a call: of what it still holds. */
void plan_let_go(Call *call);

/* plan_device.c; -1 or NULL with an exception set */
PyObject *device_empty(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int32_t device,
                       int32_t index);
int plan_device_alloc(Call *call, const TensorStep *step);
int plan_device_launch(Call *call, const LaunchStep *launch);

/* plan_extern.c */
/* A new reference to the value at a place, and what comes behind that. */
PyObject *plan_value(const Call *call, const Place **place);
int plan_run_extern(Call *call, const ExternStep *step);

#endif
