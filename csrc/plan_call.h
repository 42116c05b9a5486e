/* The state of one call of a plan. */
#ifndef ONEGRAPH_PLAN_CALL_H
#define ONEGRAPH_PLAN_CALL_H

#include "plan.h"

typedef struct {
    PyObject *object; /* a tensor; NULL: scratch memory, or empty */
    void *data;       /* of its first element; NULL: not known yet */
    int64_t bytes;    /* about; an operand's weight */
    bool owned;
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

/* plan_extern.c */
/* A new reference to the value at a place, and what comes behind that. */
PyObject *plan_value(const Call *call, const Place **place);
int plan_run_extern(Call *call, const ExternStep *step);

#endif
