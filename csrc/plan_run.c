/* One call of a plan. */
#include "observe.h"
#include "plan_call.h"
#include "tensor.h"
#include "tensor_make.h"

enum {
    HEAVY_LAUNCH = 256 * 1024, /* bytes of operands from which on other threads may run Python meanwhile */
    FEW = 64,
};

/* ---- integers ---- */

static int run_integer(Call *call, const IntegerStep *step)
{
    int64_t kind = step->step.kind;
    int64_t *out = &call->registers[step->target];
    if (kind == STEP_SIZE) {
        PyObject *tensor = call->slots[step->a].object;
        int got = tensor == NULL ? 0 : tensor_size(tensor, step->b, out);
        if (got == 0) {
            PyErr_Format(PyExc_TypeError, "an input has no dimension %lld", (long long)step->b);
        }
        return got == 1 ? 0 : -1;
    }
    int64_t a = call->registers[step->a], b = call->registers[step->b];
    bool overflow = false;
    switch (kind) {
    case STEP_ADD: overflow = __builtin_add_overflow(a, b, out); break;
    case STEP_SUB: overflow = __builtin_sub_overflow(a, b, out); break;
    case STEP_MUL: overflow = __builtin_mul_overflow(a, b, out); break;
    case STEP_MIN: *out = Py_MIN(a, b); break;
    case STEP_MAX: *out = Py_MAX(a, b); break;
    default: {
        if (b == 0) {
            PyErr_SetString(PyExc_ZeroDivisionError, "integer division or modulo by zero");
            return -1;
        }
        if (b == -1) { /* INT64_MIN / -1 overflows */
            overflow = kind == STEP_FLOORDIV && __builtin_sub_overflow((int64_t)0, a, out);
            if (kind == STEP_MOD) {
                *out = 0;
            }
            break;
        }
        int64_t quotient = a / b, remainder = a % b;
        bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
        *out = kind == STEP_FLOORDIV ? quotient - adjust : remainder + (adjust ? b : 0);
    }
    }
    if (overflow) {
        PyErr_SetString(PyExc_OverflowError, "a size does not fit into 64 bits");
        return -1;
    }
    return 0;
}

/* ---- kernels ---- */

static int run_launch(Call *call, const LaunchStep *launch)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < launch->n_operands; i++) {
        Slot *slot = &call->slots[launch->operands[i].slot];
        void *data;
        if (slot_data(slot, &data) < 0) {
            return -1;
        }
        call->pointers[i] = (char *)data + launch->operands[i].offset;
        bytes += slot->bytes;
    }
    read_numbers(call, (const int64_t *)(launch->operands + launch->n_operands), launch->n_sizes, call->numbers);
    if (launch->watch >= 0 && sanitize_operands(call, launch) < 0) {
        return -1;
    }
    bool alone = !launch->parallel || flushes_denormals(); /* which other threads do not know of */
    int64_t threads = alone ? 1 : call->plan->threads > 0 ? call->plan->threads : torch_threads();
    PyThreadState *released = bytes >= HEAVY_LAUNCH ? PyEval_SaveThread() : NULL;
    int64_t code = ((Kernel)(uintptr_t)launch->kernel)(call->pointers, call->numbers, threads);
    if (released != NULL) {
        PyEval_RestoreThread(released);
    }
    if (launch->watch >= 0 && code < 0) {
        return sanitize_report(call, launch, code);
    }
    if (code == 0) {
        return launch->watch >= 0 ? sanitize_fences(call, plan_object(call->plan, launch->watch)) : 0;
    }
    PyObject *errors = plan_object(call->plan, launch->errors);
    if (code < 0 || code > PyTuple_GET_SIZE(errors)) {
        PyErr_Format(PyExc_SystemError, "a kernel gave the unknown code %lld", (long long)code);
    } else {
        PyObject *error = PyTuple_GET_ITEM(errors, code - 1);
        PyErr_SetObject(PyTuple_GET_ITEM(error, 0), PyTuple_GET_ITEM(error, 1));
    }
    return -1;
}

/* ---- what profilers are told ---- */

/* How often something ran, and its nanoseconds since `begin`. The whole call has the number 0. */
static void measure(const PlanObject *plan, int64_t number, int64_t begin)
{
    int64_t *times = plan->times.buf;
    times[2 * number]++;
    times[2 * number + 1] += nanoseconds() - begin;
}

/* A kernel or a library's call, of which torch's profiler knows the second. */
static int run_observed(Call *call, const Step *step)
{
    const LaunchStep *launch = step->kind == STEP_EXTERN ? NULL : (const LaunchStep *)step;
    const ExternStep *external = (const ExternStep *)step;
    bool is_range = call->profiled && launch != NULL, is_measured = call->plan->times.obj != NULL;
    PyObject *range = is_range ? range_begin(plan_object(call->plan, launch->name)) : NULL;
    int64_t begin = is_measured ? nanoseconds() : 0;
    int status = launch == NULL                       ? plan_run_extern(call, external)
                 : step->kind == STEP_DEVICE_LAUNCH ? plan_device_launch(call, launch)
                                                    : run_launch(call, launch);
    if (is_measured) {
        measure(call->plan, launch != NULL ? launch->number : external->number, begin);
    }
    range_end(range);
    return status;
}

/* ---- the call ---- */

static PyObject *give_results(const Call *call, const PlacesStep *step)
{
    const Place *place = step->places;
    PyObject *results = PyTuple_New(step->n);
    for (int64_t i = 0; results != NULL && i < step->n; i++) {
        PyObject *value = plan_value(call, &place);
        if (value == NULL) {
            Py_CLEAR(results);
        } else {
            PyTuple_SET_ITEM(results, i, value);
        }
    }
    return results;
}

static PyObject *run_steps(Call *call)
{
    bool observed = call->profiled || call->plan->times.obj != NULL;
    const int64_t *words = words_of(call->plan->steps);
    for (;;) {
        const Step *step = (const Step *)words;
        int status = 0;
        switch ((StepKind)step->kind) {
        case STEP_ALLOC: status = plan_alloc(call, (const TensorStep *)step); break;
        case STEP_SCRATCH: status = plan_scratch(call, (const TensorStep *)step); break;
        case STEP_DEVICE_ALLOC: status = plan_device_alloc(call, (const TensorStep *)step); break;
        case STEP_VIEW: status = plan_view(call, (const TensorStep *)step); break;
        case STEP_LAUNCH:
            status = observed ? run_observed(call, step) : run_launch(call, (const LaunchStep *)step);
            break;
        case STEP_DEVICE_LAUNCH:
            status = observed ? run_observed(call, step) : plan_device_launch(call, (const LaunchStep *)step);
            break;
        case STEP_EXTERN:
            status = observed ? run_observed(call, step) : plan_run_extern(call, (const ExternStep *)step);
            break;
        case STEP_FREE:
        case STEP_RETIRE:
        case STEP_RELEASE: plan_free(call, (const PlacesStep *)step); break;
        case STEP_RETURN: return give_results(call, (const PlacesStep *)step);
        default: status = run_integer(call, (const IntegerStep *)step);
        }
        if (status < 0) {
            return NULL;
        }
        words += step->words;
    }
}

static int bind_inputs(Call *call, PyObject *const *args)
{
    const PlanObject *plan = call->plan;
    const Place *place = words_of(plan->inputs);
    for (Py_ssize_t n = words_count(plan->inputs, sizeof(Place)); n > 0; n--, place++, args++) {
        if (place->kind == PLACE_SLOT) {
            call->slots[place->number].object = *args;
            call->slots[place->number].owned = call->consumes;
        } else {
            PyObject *number = PyErr_Occurred() ? NULL : PyNumber_Index(*args);
            call->registers[place->number] = number == NULL ? 0 : PyLong_AsLongLong(number);
            Py_XDECREF(number);
            if (call->consumes) {
                Py_DECREF(*args);
            }
        }
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    const Constant *constant = words_of(plan->constants);
    for (Py_ssize_t n = words_count(plan->constants, sizeof(Constant)); n > 0; n--, constant++) {
        call->slots[constant->slot].object = plan_object(plan, constant->object);
    }
    return 0;
}

static PyObject *run(Call *call, PyObject *const *args)
{
    PlanObject *plan = call->plan;
    memset(call->slots, 0, (size_t)plan->n_slots * sizeof(Slot));
    memcpy(call->registers, words_of(plan->registers), (size_t)PyBytes_GET_SIZE(plan->registers));
    call->scratch = plan->scratch; /* another call may run at the same time: it makes its own */
    plan->scratch = NULL;
    if (call->scratch == NULL && (call->scratch = PyMem_Calloc((size_t)plan->n_slots + 1, sizeof(Scratch))) == NULL) {
        return PyErr_NoMemory();
    }
    uint64_t keys = plan->n_args > 0 ? dispatch_below_autograd() : 0;
    PyObject *results = bind_inputs(call, args) < 0 ? NULL : run_steps(call);
    if (plan->n_args > 0) {
        dispatch_restore(keys);
    }
    plan_let_go(call);
    return results;
}

/* ---- the first call of a plan that was read ---- */

/* Python of ours: its frames are not the program's. */
static PyObject *ask_trial(PyObject *trial, const char *method, PyObject *inputs)
{
    ContextObject *outer = hook_state.context;
    hook_state.context = NULL;
    PyObject *answer = inputs == NULL ? PyObject_CallMethod(trial, method, NULL)
                                      : PyObject_CallMethod(trial, method, "(O)", inputs);
    hook_state.context = outer;
    return answer;
}

static int trial_begin(PlanObject *plan, PyObject *const *args, Py_ssize_t n)
{
    PyObject *inputs = PyTuple_New(n);
    for (Py_ssize_t i = 0; inputs != NULL && i < n; i++) {
        PyTuple_SET_ITEM(inputs, i, Py_NewRef(args[i]));
    }
    PyObject *trial = Py_NewRef(plan->trial);
    PyObject *answer = inputs == NULL ? NULL : ask_trial(trial, "begin", inputs);
    Py_DECREF(trial);
    Py_XDECREF(inputs);
    Py_XDECREF(answer);
    return answer == NULL ? -1 : 0;
}

static void trial_end(PlanObject *plan, PyObject *results)
{
    PyObject *trial = plan->trial;
    plan->trial = NULL;
    if (results == NULL && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyObject *kind, *error, *trace;
        PyErr_Fetch(&kind, &error, &trace);
        PyObject *answer = ask_trial(trial, "failed", NULL);
        if (answer == NULL) {
            PyErr_WriteUnraisable(trial);
        }
        Py_XDECREF(answer);
        PyErr_Restore(kind, error, trace);
    }
    Py_DECREF(trial);
}

/* ---- calls ---- */

static PyObject *call_with(PlanObject *plan, PyObject *const *args, bool consumes)
{
    Call call = {.plan = plan, .consumes = consumes, .profiled = is_profiled()};
    size_t bytes = (size_t)plan->n_slots * sizeof(Slot) + (size_t)PyBytes_GET_SIZE(plan->registers) +
                   (size_t)plan->n_pointers * sizeof(void *) + (size_t)plan->n_numbers * sizeof(int64_t) +
                   (size_t)plan->n_args * sizeof(PyObject *);
    int64_t few[FEW * 8];
    char *memory = bytes <= sizeof(few) ? (char *)few : PyMem_Malloc(bytes);
    if (memory == NULL) {
        return PyErr_NoMemory(); /* what was to be consumed is lost, as all is */
    }
    call.slots = (Slot *)memory;
    call.registers = (int64_t *)(call.slots + plan->n_slots);
    call.pointers = (void **)((char *)call.registers + PyBytes_GET_SIZE(plan->registers));
    call.numbers = (int64_t *)(call.pointers + plan->n_pointers);
    call.args = (PyObject **)(call.numbers + plan->n_numbers);
    PyObject *range = call.profiled ? range_begin(plan->name) : NULL;
    int64_t begin = plan->times.obj != NULL ? nanoseconds() : 0;
    PyObject *results = run(&call, args);
    if (plan->times.obj != NULL) {
        measure(plan, 0, begin);
    }
    range_end(range);
    if (memory != (char *)few) {
        PyMem_Free(memory);
    }
    if (plan->trial != NULL) {
        trial_end(plan, results);
    }
    return results;
}

PyObject *plan_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    PlanObject *plan = (PlanObject *)self;
    Py_ssize_t n_inputs = words_count(plan->inputs, sizeof(Place));
    if (PyVectorcall_NARGS(nargsf) != n_inputs || (names != NULL && PyTuple_GET_SIZE(names) != 0)) {
        return PyErr_Format(PyExc_TypeError, "the graph takes %zd inputs, got %zd", n_inputs,
                            PyVectorcall_NARGS(nargsf) + (names == NULL ? 0 : PyTuple_GET_SIZE(names)));
    }
    if (plan->trial != NULL && trial_begin(plan, args, n_inputs) < 0) {
        return NULL;
    }
    return call_with(plan, args, false);
}

PyObject *plan_take(PlanObject *plan, PyObject *const *args)
{
    return call_with(plan, args, true);
}

PyObject *plan_consume(PyObject *self, PyObject *inputs)
{
    PlanObject *plan = (PlanObject *)self;
    Py_ssize_t n_inputs = words_count(plan->inputs, sizeof(Place));
    if (!PyList_CheckExact(inputs) || PyList_GET_SIZE(inputs) != n_inputs) {
        return PyErr_Format(PyExc_TypeError, "the graph takes a list of %zd inputs", n_inputs);
    }
    if (plan->trial != NULL && trial_begin(plan, PySequence_Fast_ITEMS(inputs), n_inputs) < 0) {
        return NULL;
    }
    PyObject **args = PyMem_Malloc((size_t)(n_inputs + 1) * sizeof(PyObject *));
    if (args == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < n_inputs; i++) {
        args[i] = Py_NewRef(PyList_GET_ITEM(inputs, i));
    }
    PyObject *results = PyList_SetSlice(inputs, 0, n_inputs, NULL) < 0 ? NULL : call_with(plan, args, true);
    PyMem_Free(args);
    return results;
}
