/* Reading a plan from the tuples that describe it. Every number is checked here, none at the call. */
#include "plan.h"
#include "tensor_make.h"

static const char *const step_names[N_STEPS] = {
    "size", "add", "sub", "mul", "floordiv", "mod", "min", "max", "alloc", "scratch", "view", "launch", "extern", "free",
    "release", "return",
};

static int bad(const char *what, PyObject *value)
{
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "in a plan, %s is expected, not %R", what, value);
    }
    return -1;
}

/* ---- parts ---- */

static int read_number(PyObject *value, int limit, const char *what, int *out)
{
    long number = PyLong_Check(value) ? PyLong_AsLong(value) : -1;
    if (number < 0 || number >= limit) {
        PyErr_Clear();
        return bad(what, value);
    }
    *out = (int)number;
    return 0;
}

static int read_slot(PlanObject *plan, PyObject *value, int *out)
{
    return read_number(value, plan->n_slots, "the number of a slot", out);
}

static int read_register(PlanObject *plan, PyObject *value, int *out)
{
    return read_number(value, plan->n_registers, "the number of a register", out);
}

/* The registers in a tuple as a new array. */
static int *read_registers(PlanObject *plan, PyObject *tuple, int *n)
{
    if (!PyTuple_Check(tuple)) {
        bad("a tuple of registers", tuple);
        return NULL;
    }
    *n = (int)PyTuple_GET_SIZE(tuple);
    int *registers = PyMem_Calloc((size_t)*n + 1, sizeof(int));
    for (int i = 0; registers != NULL && i < *n; i++) {
        if (read_register(plan, PyTuple_GET_ITEM(tuple, i), &registers[i]) < 0) {
            PyMem_Free(registers);
            return NULL;
        }
    }
    return registers == NULL ? (int *)PyErr_NoMemory() : registers;
}

static int read_layout(PlanObject *plan, PyObject *sizes, PyObject *strides, Layout *out)
{
    int n_sizes, n_strides;
    out->sizes = read_registers(plan, sizes, &n_sizes);
    out->strides = out->sizes == NULL ? NULL : read_registers(plan, strides, &n_strides);
    if (out->strides == NULL) {
        return -1;
    }
    out->ndim = n_sizes;
    plan->max_sizes = Py_MAX(plan->max_sizes, 2 * n_sizes);
    return n_sizes == n_strides ? 0 : bad("as many strides as sizes", strides);
}

static int read_place(PlanObject *plan, PyObject *value, Place *out);

static Place *read_places(PlanObject *plan, PyObject *tuple, int *n)
{
    if (!PyTuple_Check(tuple)) {
        bad("a tuple of places", tuple);
        return NULL;
    }
    int size = (int)PyTuple_GET_SIZE(tuple);
    Place *places = PyMem_Calloc((size_t)size + 1, sizeof(Place));
    if (places == NULL) {
        return (Place *)PyErr_NoMemory();
    }
    *n = size;
    for (int i = 0; i < size; i++) {
        if (read_place(plan, PyTuple_GET_ITEM(tuple, i), &places[i]) < 0) {
            *n = i + 1; /* the caller frees them */
            return places;
        }
    }
    return places;
}

static int read_place(PlanObject *plan, PyObject *value, Place *out)
{
    const char *kind;
    PyObject *what;
    if (value == Py_None) {
        return 0;
    }
    if (!PyTuple_Check(value) || !PyArg_ParseTuple(value, "sO", &kind, &what)) {
        return bad("a place", value);
    }
    if (strcmp(kind, "slot") == 0) {
        out->kind = PLACE_SLOT;
        return read_slot(plan, what, &out->number);
    }
    if (strcmp(kind, "register") == 0) {
        out->kind = PLACE_REGISTER;
        return read_register(plan, what, &out->number);
    }
    if (strcmp(kind, "constant") == 0) {
        out->kind = PLACE_CONSTANT;
        out->constant = Py_NewRef(what);
        return 0;
    }
    if (strcmp(kind, "list") == 0) {
        out->kind = PLACE_LIST;
        out->list = read_places(plan, what, &out->number);
        return PyErr_Occurred() ? -1 : 0;
    }
    return bad("a place", value);
}

/* ---- steps ---- */

static int read_launch(PlanObject *plan, PyObject *tuple, LaunchStep *out)
{
    unsigned long long address;
    PyObject *operands, *sizes, *errors;
    int parallel;
    if (!PyArg_ParseTuple(tuple, "sKO!OpO!", &(const char *){NULL}, &address, &PyTuple_Type, &operands, &sizes, &parallel,
                          &PyTuple_Type, &errors)) {
        return -1;
    }
    out->kernel = (Kernel)(uintptr_t)address;
    out->parallel = parallel;
    out->errors = Py_NewRef(errors);
    out->n_operands = (int)PyTuple_GET_SIZE(operands);
    out->operands = PyMem_Calloc((size_t)out->n_operands + 1, sizeof(Operand));
    out->sizes = out->operands == NULL ? NULL : read_registers(plan, sizes, &out->n_sizes);
    if (out->sizes == NULL) {
        return out->operands == NULL ? (PyErr_NoMemory(), -1) : -1;
    }
    for (int i = 0; i < out->n_operands; i++) {
        PyObject *slot;
        long long offset;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(operands, i), "OL", &slot, &offset) ||
            read_slot(plan, slot, &out->operands[i].slot) < 0) {
            return -1;
        }
        out->operands[i].offset = offset;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(errors); i++) {
        PyObject *error = PyTuple_GET_ITEM(errors, i);
        if (!PyTuple_Check(error) || PyTuple_GET_SIZE(error) != 2 ||
            !PyExceptionClass_Check(PyTuple_GET_ITEM(error, 0))) {
            return bad("an exception type and a message", error);
        }
    }
    if (address == 0) {
        return bad("the address of a kernel", tuple);
    }
    plan->max_operands = Py_MAX(plan->max_operands, out->n_operands);
    plan->max_sizes = Py_MAX(plan->max_sizes, out->n_sizes);
    return 0;
}

static int read_extern(PlanObject *plan, PyObject *tuple, ExternStep *out)
{
    PyObject *callable, *args, *names, *outputs, *expected;
    int several;
    if (!PyArg_ParseTuple(tuple, "sOO!O!O!O!p", &(const char *){NULL}, &callable, &PyTuple_Type, &args, &PyTuple_Type,
                          &names, &PyTuple_Type, &outputs, &PyTuple_Type, &expected, &several)) {
        return -1;
    }
    if (!PyCallable_Check(callable)) {
        return bad("a callable", callable);
    }
    out->callable = Py_NewRef(callable);
    out->several = several;
    out->names = PyTuple_GET_SIZE(names) == 0 ? NULL : Py_NewRef(names);
    out->args = read_places(plan, args, &out->n_args);
    if (PyErr_Occurred()) {
        return -1;
    }
    out->outputs = read_places(plan, outputs, &out->n_outputs);
    if (PyErr_Occurred()) {
        return -1;
    }
    for (int i = 0; i < out->n_outputs; i++) {
        if (out->outputs[i].kind > PLACE_REGISTER) {
            return bad("a slot, a register or None for each output", outputs);
        }
    }
    out->n_positional = out->n_args - (int)PyTuple_GET_SIZE(names);
    if (out->n_positional < 0 || PyTuple_GET_SIZE(expected) != out->n_outputs || (!several && out->n_outputs != 1)) {
        return bad("a call whose parts agree in number", tuple);
    }
    out->expected = PyMem_Calloc((size_t)out->n_outputs + 1, sizeof(Layout));
    if (out->expected == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < out->n_outputs; i++) {
        PyObject *layout = PyTuple_GET_ITEM(expected, i), *sizes, *strides;
        out->expected[i].ndim = -1;
        if (layout != Py_None && (!PyArg_ParseTuple(layout, "OO", &sizes, &strides) ||
                                  read_layout(plan, sizes, strides, &out->expected[i]) < 0)) {
            return -1;
        }
    }
    plan->max_args = Py_MAX(plan->max_args, out->n_args);
    plan->has_externs = true;
    return 0;
}

static int read_tensor(PlanObject *plan, PyObject *tuple, Step *step)
{
    PyObject *target, *from, *sizes, *strides, *offset = NULL;
    bool view = step->kind == STEP_VIEW;
    if (!PyArg_ParseTuple(tuple, view ? "sOOOOO" : "sOOOO", &(const char *){NULL}, &target, &from, &sizes, &strides,
                          &offset) ||
        read_slot(plan, target, &step->target) < 0 || read_layout(plan, sizes, strides, &step->tensor.layout) < 0) {
        return -1;
    }
    if (view) {
        return read_slot(plan, from, &step->a) < 0 ? -1 : read_register(plan, offset, &step->tensor.offset);
    }
    return dtype_read(from, &step->tensor.dtype, &step->tensor.itemsize);
}

static int read_integer(PlanObject *plan, PyObject *tuple, Step *step)
{
    PyObject *target, *a, *b;
    if (!PyArg_ParseTuple(tuple, "sOOO", &(const char *){NULL}, &target, &a, &b) ||
        read_register(plan, target, &step->target) < 0) {
        return -1;
    }
    if (step->kind == STEP_SIZE) {
        return read_slot(plan, a, &step->a) < 0 ? -1 : read_number(b, 64, "a dimension", &step->b);
    }
    return read_register(plan, a, &step->a) < 0 ? -1 : read_register(plan, b, &step->b);
}

static int read_many(PlanObject *plan, PyObject *tuple, Step *step)
{
    PyObject *places;
    if (!PyArg_ParseTuple(tuple, "sO", &(const char *){NULL}, &places)) {
        return -1;
    }
    step->many.places = read_places(plan, places, &step->many.n);
    if (PyErr_Occurred()) {
        return -1;
    }
    for (int i = 0; (step->kind == STEP_FREE || step->kind == STEP_RELEASE) && i < step->many.n; i++) {
        if (step->many.places[i].kind != PLACE_SLOT) {
            return bad("slots to free", places);
        }
    }
    return 0;
}

static int read_step(PlanObject *plan, PyObject *tuple, Step *step)
{
    const char *name = NULL;
    if (PyTuple_Check(tuple) && PyTuple_GET_SIZE(tuple) > 0 && PyUnicode_Check(PyTuple_GET_ITEM(tuple, 0))) {
        name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, 0));
    }
    if (name == NULL) {
        return bad("a step", tuple);
    }
    for (int kind = 0; kind < N_STEPS; kind++) {
        if (strcmp(name, step_names[kind]) != 0) {
            continue;
        }
        step->kind = (StepKind)kind;
        switch (step->kind) {
        case STEP_ALLOC:
        case STEP_SCRATCH:
        case STEP_VIEW: return read_tensor(plan, tuple, step);
        case STEP_LAUNCH: return read_launch(plan, tuple, &step->launch);
        case STEP_EXTERN: return read_extern(plan, tuple, &step->external);
        case STEP_FREE:
        case STEP_RELEASE:
        case STEP_RETURN: return read_many(plan, tuple, step);
        default: return read_integer(plan, tuple, step);
        }
    }
    return bad("a step", tuple);
}

/* ---- the plan ---- */

static int read_values(PlanObject *plan, PyObject *constants, PyObject *registers)
{
    plan->n_registers = (int)PyTuple_GET_SIZE(registers);
    plan->registers = PyMem_Calloc((size_t)plan->n_registers + 1, sizeof(int64_t));
    plan->constants = PyMem_Calloc((size_t)PyTuple_GET_SIZE(constants) + 1, sizeof(Constant));
    if (plan->registers == NULL || plan->constants == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < plan->n_registers; i++) {
        plan->registers[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(registers, i));
        if (PyErr_Occurred()) {
            return -1;
        }
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); i++) {
        PyObject *slot, *tensor;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(constants, i), "OO", &slot, &tensor) ||
            read_slot(plan, slot, &plan->constants[i].slot) < 0) {
            return -1;
        }
        plan->constants[i].tensor = Py_NewRef(tensor);
        plan->n_constants++;
    }
    return 0;
}

int plan_build(PlanObject *plan, PyObject *inputs, PyObject *constants, PyObject *registers, PyObject *steps)
{
    if (read_values(plan, constants, registers) < 0) {
        return -1;
    }
    int n_inputs = 0;
    plan->inputs = read_places(plan, inputs, &n_inputs);
    plan->n_inputs = n_inputs;
    if (PyErr_Occurred()) {
        return -1;
    }
    for (int i = 0; i < n_inputs; i++) {
        if (plan->inputs[i].kind != PLACE_SLOT && plan->inputs[i].kind != PLACE_REGISTER) {
            return bad("a slot or register for each input", inputs);
        }
    }
    Py_ssize_t n = PyTuple_GET_SIZE(steps);
    plan->steps = PyMem_Calloc((size_t)n + 1, sizeof(Step));
    if (plan->steps == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (; plan->n_steps < n; plan->n_steps++) {
        if (read_step(plan, PyTuple_GET_ITEM(steps, plan->n_steps), &plan->steps[plan->n_steps]) < 0) {
            plan->n_steps++; /* what was read of it is freed */
            return -1;
        }
    }
    if (n == 0 || plan->steps[n - 1].kind != STEP_RETURN) {
        return bad("a return at the end", steps);
    }
    return 0;
}
