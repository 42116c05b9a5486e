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
    STEP_ALLOC,        /* a tensor */
    STEP_SCRATCH,      /* memory that only kernels see */
    STEP_DEVICE_ALLOC, /* a tensor on another device than the processor */
    STEP_VIEW,
    STEP_LAUNCH,
    STEP_DEVICE_LAUNCH,
    STEP_EXTERN,
    STEP_FREE,
    STEP_RETIRE,       /* of memory that nobody else knows */
    STEP_RELEASE,      /* of scratch memory too, whatever its size */
    STEP_RETURN,
    N_STEPS
} StepKind;

/* The parts of a plan are words that src/onegraph/compiler/runtime/launcher.py writes, which checks every number. */

/* Where a value comes from or goes to. */
typedef enum { PLACE_NONE, PLACE_SLOT, PLACE_REGISTER, PLACE_OBJECT, PLACE_LIST } PlaceKind;

typedef struct {
    int64_t kind;
    int64_t number; /* of a slot, a register or an object of the plan; of a list: how many places behind this one */
} Place;

typedef struct {
    int64_t slot;
    int64_t object;
} Constant;

typedef struct {
    int64_t slot;
    int64_t offset; /* bytes */
} Operand;

/* The registers of a tensor's sizes, and behind them of its strides; ndim -1: not given. */
typedef struct {
    int64_t ndim;
    int64_t sizes[];
} Layout;

/* What each step begins with. */
typedef struct {
    int64_t kind;
    int64_t words; /* of the whole step */
} Step;

typedef struct {
    Step step;
    int64_t target; /* a register */
    int64_t a;      /* registers; of a size a slot and a dimension */
    int64_t b;
} IntegerStep;

typedef struct {
    Step step;
    int64_t target; /* a slot */
    int64_t dtype;
    int64_t itemsize;
    int64_t base; /* of a view: a slot, and a register; of a tensor: whether nobody else asks for its storage; of one on
                     another device: the kind of device, and its index, in torch's numbers */
    int64_t offset;
    Layout layout;
} TensorStep;

typedef struct {
    Step step;
    int64_t kernel; /* its address: that of a Kernel, or of a CudaKernel */
    int64_t parallel; /* on another device: its kind, in torch's numbers */
    int64_t errors; /* an object: a tuple of (exception type, message) */
    int64_t n_sizes;
    int64_t n_operands;
    int64_t watch;      /* an object, which is told of wrong accesses; -1: they are not checked */
    int64_t name;       /* an object: for profilers */
    int64_t number;     /* among the launches and calls of the plan */
    Operand operands[]; /* behind them the registers of the sizes; then what is watched of each operand, or those of a
                           grid along x, y and z */
} LaunchStep;

typedef struct {
    int64_t span; /* a register: bytes */
    int64_t itemsize;
    int64_t fresh; /* nothing was written to it before */
} WatchedOperand;

/* Behind the arguments come the outputs, each a Place and a Layout. */
typedef struct {
    Step step;
    int64_t callable; /* objects */
    int64_t names;    /* of the arguments by keyword, which are the last ones: a tuple, or None */
    int64_t several;
    int64_t inference; /* the library is told that no gradients are recorded */
    int64_t n_positional;
    int64_t n_args;
    int64_t n_outputs;
    int64_t number; /* among the launches and calls of the plan */
    Place args[];
} ExternStep;

typedef struct {
    Step step;
    int64_t n;
    Place places[]; /* slots to free, values to return */
} PlacesStep;

typedef int64_t (*Kernel)(void **pointers, const int64_t *sizes, int64_t threads);

/* Memory for scratch slots, kept from one call to the next. */
typedef struct {
    void *memory;
    size_t capacity;
} Scratch;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *keep;      /* what owns the kernels' machine code */
    PyObject *objects;   /* a tuple: what the words speak of */
    PyObject *steps;     /* bytes of the words of all steps, the last one a return */
    PyObject *inputs;    /* of places */
    PyObject *constants; /* of Constants */
    PyObject *registers; /* of their first values */
    int n_slots;
    int n_pointers; /* of the launch with the most operands */
    int n_numbers;  /* of the step with the most sizes and strides */
    int n_args;     /* of the call with the most arguments, and one; 0: there are no calls */
    int64_t threads; /* 0: torch's number */
    PyObject *sanitizer; /* is told who wrote over a fence; NULL: there are none */
    PyObject *name;      /* for profilers */
    Py_buffer times;     /* for each launch and call how often it ran, and its nanoseconds; obj NULL: not measured */
    Scratch *scratch; /* one for each slot; NULL while a call uses it */
    PyObject *trial;  /* of a plan that was read, till a call has gone well: what looks at the first one; or NULL */
} PlanObject;

/* The words, and how many things there are among them. */
static inline const void *words_of(PyObject *bytes) { return PyBytes_AS_STRING(bytes); }
static inline Py_ssize_t words_count(PyObject *bytes, size_t size)
{
    return PyBytes_GET_SIZE(bytes) / (Py_ssize_t)size;
}
static inline PyObject *plan_object(const PlanObject *plan, int64_t number)
{
    return PyTuple_GET_ITEM(plan->objects, number);
}

/* plan_run.c */
PyObject *plan_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names);
PyObject *plan_consume(PyObject *self, PyObject *inputs);
/* The same of as many inputs as it takes, whose references it takes. */
PyObject *plan_take(PlanObject *plan, PyObject *const *args);
void scratch_free(Scratch *scratch, int n);

extern PyTypeObject Plan_Type;

#endif
