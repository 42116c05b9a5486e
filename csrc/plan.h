/* The launcher: a compiled graph's execution plan as C data. See src/onegraph/ir/plan.py for what the steps mean. */
#ifndef ONEGRAPH_PLAN_H
#define ONEGRAPH_PLAN_H

#include "onegraph.h"

typedef enum {
    STEP_SIZE,
    STEP_ADD,
    STEP_SUB,
    STEP_MUL,
    STEP_FLOORDIV,
    STEP_MOD,
    STEP_MIN,
    STEP_MAX,
    STEP_ALLOC,   /* a tensor */
    STEP_SCRATCH, /* memory that only kernels see */
    STEP_VIEW,
    STEP_LAUNCH,
    STEP_EXTERN,
    STEP_FREE,
    STEP_RELEASE, /* of scratch memory too, whatever its size */
    STEP_RETURN,
    N_STEPS
} StepKind;

/* Where a value comes from or goes to. */
typedef enum { PLACE_NONE, PLACE_SLOT, PLACE_REGISTER, PLACE_CONSTANT, PLACE_LIST } PlaceKind;

typedef struct Place {
    PlaceKind kind;
    int number;         /* of a slot or register; the length of a list */
    PyObject *constant; /* owned */
    struct Place *list; /* owned */
} Place;

typedef int64_t (*Kernel)(void **pointers, const int64_t *sizes, int64_t threads);

typedef struct {
    int slot;
    int64_t offset; /* bytes */
} Operand;

/* Registers with the sizes and strides of a tensor; ndim -1: not given. */
typedef struct {
    int ndim;
    int *sizes; /* owned; the strides follow */
    int *strides;
} Layout;

typedef struct {
    PyObject *callable; /* owned */
    Place *args;        /* positional, then by keyword */
    int n_args;
    int n_positional;
    PyObject *names; /* of those by keyword: a tuple, or NULL */
    Place *outputs;
    Layout *expected;
    int n_outputs;
    bool several;
} ExternStep;

typedef struct {
    Kernel kernel;
    Operand *operands;
    int *sizes;
    int n_operands;
    int n_sizes;
    bool parallel;
    PyObject *errors; /* owned tuple of (exception type, message) */
} LaunchStep;

typedef struct {
    StepKind kind;
    int target; /* slot or register written */
    int a;      /* registers or a slot read */
    int b;
    union {
        struct {
            Layout layout;
            int32_t dtype;
            int64_t itemsize;
            int offset; /* register, of a view */
        } tensor;
        LaunchStep launch;
        ExternStep external;
        struct {
            Place *places; /* slots to free, values to return */
            int n;
        } many;
    };
} Step;

typedef struct {
    int slot;
    PyObject *tensor; /* owned */
} Constant;

/* Memory for scratch slots, kept from one call to the next. */
typedef struct {
    void *memory;
    size_t capacity;
} Scratch;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *keep; /* what owns the kernels' machine code */
    Place *inputs;
    Py_ssize_t n_inputs;
    Constant *constants;
    Py_ssize_t n_constants;
    Step *steps;
    Py_ssize_t n_steps;
    int64_t *registers; /* their first values */
    int n_registers;
    int n_slots;
    int max_operands; /* of one launch */
    int max_sizes;
    int max_args; /* of one extern call */
    int64_t threads; /* 0: torch's number */
    bool has_externs;
    Scratch *scratch; /* one for each slot; NULL while a call uses it */
} PlanObject;

/* plan_build.c */
int plan_build(PlanObject *plan, PyObject *inputs, PyObject *constants, PyObject *registers, PyObject *steps);

/* plan_run.c */
PyObject *plan_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names);
PyObject *plan_consume(PyObject *self, PyObject *inputs);
void scratch_free(Scratch *scratch, int n);

extern PyTypeObject Plan_Type;

/* kept.c */
extern PyTypeObject Kept_Type;

#endif
