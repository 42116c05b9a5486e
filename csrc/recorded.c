/* Recorded: what a node of autograd keeps of one call of a Pair, and its backward pass. An ordinary pass is made here;
   for anything else Python takes over what is kept (src/onegraph/autograd/native.py), and this node stays with it. */
#include "autograd.h"
#include "libtorch.h"
#include "pair.h"
#include "tensor.h"
#include "tensor_make.h"
#include <stddef.h>
#include <structmember.h>

enum { SMALL_PROBE = 16 << 10 }; /* bytes, about */

static const char name_of_recorded[] = "recorded"; /* the attribute of the node that has it */

static PyObject *recorded_name(void)
{
    static PyObject *name;
    return name != NULL ? name : (name = PyUnicode_InternFromString(name_of_recorded));
}

/* ---- a call ---- */

static PyObject *followed_result(const PairObject *pair, PyObject *results, Py_ssize_t n)
{
    return PyTuple_GET_ITEM(results, pair->followed.at[n]);
}

static Py_ssize_t layout_of(PyObject *tensor, const int64_t **strides)
{
    const Libtorch *torch = libtorch_checked();
    int64_t ndim, *found;
    if (!is_tensor(tensor) || torch->get_dim(tensor_handle(tensor), &ndim) != 0 ||
        torch->get_strides(tensor_handle(tensor), &found) != 0) {
        PyErr_SetString(PyExc_TypeError, "a tensor with gradients is expected of the graph");
        return -1;
    }
    *strides = found;
    return (Py_ssize_t)ndim;
}

/* The same without the history that it will get; both count their writes together. */
static PyObject *detached(PyObject *result)
{
    static PyObject *name;
    if (name == NULL && (name = PyUnicode_InternFromString("detach")) == NULL) {
        return NULL;
    }
    return PyObject_CallMethodNoArgs(result, name);
}

/* What is kept: results that the caller is given without their history, in which the node would keep itself. */
static PyObject *kept_of(const PairObject *pair, PyObject *inputs, PyObject *results)
{
    PyObject *kept = PyTuple_New(pair->kept.n);
    for (Py_ssize_t i = 0; kept != NULL && i < pair->kept.n; i++) {
        Py_ssize_t at = pair->kept.at[i];
        PyTuple_SET_ITEM(kept, i, Py_NewRef(at >= 0 ? PyTuple_GET_ITEM(inputs, at) : PyTuple_GET_ITEM(results, -at - 1)));
    }
    for (Py_ssize_t i = 0; kept != NULL && i < pair->shown.n; i++) {
        PyObject *value = PyTuple_GET_ITEM(kept, pair->shown.at[i]);
        if (is_tensor(value)) {
            PyObject *other = detached(value);
            if (other == NULL) {
                Py_CLEAR(kept);
                break;
            }
            PyTuple_SET_ITEM(kept, pair->shown.at[i], other);
            Py_DECREF(value);
        }
    }
    return kept;
}

/* What counts the writes to results that are not kept. A small one is kept for that, which costs less than a tensor
   without its memory. */
static PyObject *probes_of(const PairObject *pair, PyObject *results)
{
    PyObject *probes = PyTuple_New(pair->probed.n);
    for (Py_ssize_t i = 0; probes != NULL && i < pair->probed.n; i++) {
        PyObject *result = PyTuple_GET_ITEM(results, pair->probed.at[i]);
        bool small = is_tensor(result) && tensor_bytes(result) <= SMALL_PROBE;
        PyObject *probe = small ? detached(result) : PyObject_CallOneArg(pair->probe, result);
        if (probe == NULL) {
            Py_CLEAR(probes);
        } else {
            PyTuple_SET_ITEM(probes, i, probe);
        }
    }
    return probes;
}

static int64_t version_of(PyObject *value) { return is_tensor(value) ? tensor_version(value) : 0; }

/* The versions now, of what is not let go of. */
static void read_versions(const RecordedObject *self, int64_t *out)
{
    const PairObject *pair = self->pair;
    for (Py_ssize_t i = 0; i < pair->n_inputs; i++) {
        *out++ = version_of(PyTuple_GET_ITEM(self->inputs, i));
    }
    for (Py_ssize_t i = 0; i < pair->shown.n; i++) {
        *out++ = version_of(PyTuple_GET_ITEM(self->kept, pair->shown.at[i]));
    }
    for (Py_ssize_t i = 0; i < pair->probed.n; i++) {
        PyObject *probe = PyTuple_GET_ITEM(self->probes, i);
        *out++ = version_of(PyTuple_CheckExact(probe) ? PyTuple_GET_ITEM(probe, 0) : probe);
    }
}

static Py_ssize_t count_versions(const PairObject *pair) { return pair->n_inputs + pair->shown.n + pair->probed.n; }

RecordedObject *recorded_new(PairObject *pair, PyObject *inputs, PyObject *results, PyObject *random)
{
    Py_ssize_t numbers = count_versions(pair);
    const int64_t *strides;
    for (Py_ssize_t i = 0; i < pair->followed.n; i++) {
        Py_ssize_t ndim = layout_of(followed_result(pair, results, i), &strides);
        if (ndim < 0) {
            return NULL;
        }
        numbers += 1 + ndim;
    }
    RecordedObject *self = (RecordedObject *)Recorded_Type.tp_alloc(&Recorded_Type, numbers);
    if (self == NULL) {
        return NULL;
    }
    self->pair = (PairObject *)Py_NewRef(pair);
    self->inputs = Py_NewRef(inputs);
    self->random = Py_NewRef(random);
    self->kept = kept_of(pair, inputs, results);
    self->probes = self->kept == NULL ? NULL : probes_of(pair, results);
    if (self->probes == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    read_versions(self, self->numbers);
    int64_t *next = self->numbers + count_versions(pair);
    for (Py_ssize_t i = 0; i < pair->followed.n; i++) {
        Py_ssize_t ndim = layout_of(followed_result(pair, results, i), &strides);
        *next++ = ndim;
        memcpy(next, strides, (size_t)ndim * sizeof(int64_t));
        next += ndim;
    }
    return self;
}

static RecordedObject *as_recorded(PyObject *object)
{
    if (object != NULL && Py_TYPE(object) == &Recorded_Type) {
        return (RecordedObject *)object;
    }
    if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "this node was made by no graph");
    }
    return NULL;
}

PyObject *recorded_forward(PyObject *UNUSED(module), PyObject *const *args, Py_ssize_t n)
{
    RecordedObject *self = as_recorded(n < 2 ? NULL : args[1]);
    static PyObject *materialize;
    if (materialize == NULL) {
        materialize = PyUnicode_InternFromString("materialize_grads");
    }
    if (self == NULL || materialize == NULL || PyObject_SetAttr(args[0], recorded_name(), args[1]) < 0 ||
        PyObject_SetAttr(args[0], materialize, Py_False) < 0) {
        return NULL;
    }
    if (self->results == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the call of this node is over");
        return NULL;
    }
    PyObject *followed = PyTuple_New(self->pair->followed.n);
    for (Py_ssize_t i = 0; followed != NULL && i < self->pair->followed.n; i++) {
        PyTuple_SET_ITEM(followed, i, Py_NewRef(followed_result(self->pair, self->results, i)));
    }
    return followed;
}

/* ---- the backward pass ---- */

static bool is_untouched(const RecordedObject *self)
{
    enum { FEW = 64 };
    int64_t few[FEW];
    Py_ssize_t n = count_versions(self->pair);
    int64_t *now = n <= FEW ? few : PyMem_Malloc((size_t)n * sizeof(int64_t));
    bool same = now != NULL;
    if (same) {
        read_versions(self, now);
        same = memcmp(now, self->numbers, (size_t)n * sizeof(int64_t)) == 0;
    }
    if (now != few) {
        PyMem_Free(now);
    }
    return same;
}

/* The tangents as the backward graph takes them; NULL if it cannot take one. */
static PyObject *laid_tangents(const RecordedObject *self, PyObject *const *tangents)
{
    const PairObject *pair = self->pair;
    const int64_t *wanted = self->numbers + count_versions(pair), *strides;
    for (Py_ssize_t i = 0; i < pair->followed.n; i++) {
        if (Py_TYPE(tangents[i]) != tensor_type() || !tensor_is_ordinary(tangents[i])) {
            return NULL;
        }
    }
    PyObject *laid = PyTuple_New(pair->followed.n);
    for (Py_ssize_t i = 0; laid != NULL && i < pair->followed.n; i++) {
        Py_ssize_t ndim = layout_of(tangents[i], &strides);
        PyObject *tensor = NULL;
        if (ndim == *wanted && memcmp(strides, wanted + 1, (size_t)ndim * sizeof(int64_t)) == 0) {
            tensor = Py_NewRef(tangents[i]);
        } else if (ndim == *wanted) {
            PyObject *layout = numbers_tuple(wanted + 1, ndim);
            tensor = layout == NULL ? NULL : PyObject_CallFunctionObjArgs(pair->laid_out, tangents[i], layout, NULL);
            Py_XDECREF(layout);
        }
        if (tensor == NULL) {
            Py_CLEAR(laid);
        } else {
            PyTuple_SET_ITEM(laid, i, tensor);
            wanted += 1 + ndim;
        }
    }
    return laid;
}

static PyObject *gradient_of(const PairObject *pair, Py_ssize_t n, PyObject *results, PyObject *laid, PyObject *given)
{
    PyObject *part = PyTuple_GET_ITEM(pair->parts, n);
    Py_ssize_t at = pair->gradients.at[n];
    if (part != Py_None) {
        return PyObject_CallFunctionObjArgs(pair->gradient, part, results, laid, given, NULL);
    }
    return Py_NewRef(at >= 0 ? PyTuple_GET_ITEM(results, at) : PyTuple_GET_ITEM(given, -at - 1));
}

/* What the engine is given: nothing for the Recorded, and the gradients. */
static PyObject *gradients_of(const PairObject *pair, PyObject *results, PyObject *laid, PyObject *given)
{
    PyObject *gradients = PyTuple_New(1 + pair->reached.n);
    if (gradients != NULL) {
        PyTuple_SET_ITEM(gradients, 0, Py_NewRef(Py_None));
    }
    for (Py_ssize_t i = 0; gradients != NULL && i < pair->reached.n; i++) {
        PyObject *gradient = gradient_of(pair, i, results, laid, given);
        if (gradient == NULL) {
            Py_CLEAR(gradients);
        } else {
            PyTuple_SET_ITEM(gradients, 1 + i, gradient);
        }
    }
    return gradients;
}

static void let_go(RecordedObject *self)
{
    PyObject *all[] = {self->inputs, self->kept, self->probes, self->random};
    self->inputs = self->kept = self->probes = self->random = NULL; /* all at once: what dies may look */
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        Py_XDECREF(all[i]);
    }
}

/* Python tries once more, and says why it fails. An interrupt is no failure, and where processes could not communicate,
   this one does not begin to communicate again. */
static void forget_failure(void)
{
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception) && !failure_is_known()) {
        PyErr_Clear();
    }
}

/* The gradients by the backward graph; NULL without an exception where Python is to make the pass. */
static PyObject *differentiate(RecordedObject *self, PyObject *const *tangents)
{
    PairObject *pair = self->pair;
    if (self->taken_over || pair->backward == Py_None || !tensor_abi_native() || !autograd_is_plain_pass()) {
        return NULL;
    }
    PyObject *laid = laid_tangents(self, tangents), *gradients = NULL;
    if (laid == NULL || self->kept == NULL || !is_untouched(self)) { /* Python of torch has run, and may do anything */
        Py_XDECREF(laid);
        forget_failure();
        return NULL;
    }
    Py_ssize_t n_kept = pair->kept.n, n_tangents = pair->followed.n;
    PlanObject *plan = (PlanObject *)Py_NewRef(pair->backward);
    PyObject *given = PyTuple_New(n_tangents);
    PyObject **args = PyMem_Malloc((size_t)(n_kept + n_tangents + 1) * sizeof(PyObject *));
    bool last = pair->frees && !autograd_keeps_graph();
    if (given != NULL && args != NULL) {
        for (Py_ssize_t i = 0; i < n_kept; i++) {
            args[i] = Py_NewRef(PyTuple_GET_ITEM(self->kept, i));
        }
        for (Py_ssize_t i = 0; i < n_tangents; i++) {
            args[n_kept + i] = Py_NewRef(PyTuple_GET_ITEM(laid, i));
            PyTuple_SET_ITEM(given, i, Py_NewRef(tangents[i]));
        }
        if (last) {
            let_go(self);
        }
        PyObject *results = plan_take(plan, args);
        gradients = results == NULL ? NULL : gradients_of(pair, results, laid, given);
        Py_XDECREF(results);
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    PyMem_Free(args);
    Py_XDECREF(given);
    Py_DECREF(plan);
    Py_DECREF(laid);
    if (gradients == NULL && !last) {
        forget_failure();
    }
    return gradients;
}

/* backward(ctx, *tangents), in the middle of whatever runs: no frame of it is the program's, as in graph_call. */
static PyObject *recorded_backward(PyObject *UNUSED(module), PyObject *const *args, Py_ssize_t n)
{
    PyObject *object = n == 0 ? NULL : PyObject_GetAttr(args[0], recorded_name());
    RecordedObject *self = as_recorded(object);
    if (self == NULL) {
        Py_XDECREF(object);
        return NULL;
    }
    HookState *state = &hook_state;
    ContextObject *context = state->context;
    PyObject *tracer = state->tracer;
    state->context = NULL;
    state->tracer = NULL;
    bool waited = signals_defer();
    PyObject *gradients = n - 1 == self->pair->followed.n ? differentiate(self, args + 1) : NULL;
    if (gradients == NULL && !PyErr_Occurred()) {
        gradients = PyObject_Vectorcall(self->pair->later, args, (size_t)n, NULL);
    }
    if (signals_allow(waited) < 0) {
        Py_CLEAR(gradients);
    }
    state->context = context;
    state->tracer = tracer;
    Py_DECREF(self);
    return gradients;
}

static PyMethodDef backward_definition = {"backward", (PyCFunction)(void (*)(void))recorded_backward, METH_FASTCALL, NULL};

PyObject *recorded_backward_new(void)
{
    PyObject *function = PyCFunction_New(&backward_definition, NULL);
    PyObject *method = function == NULL ? NULL : PyInstanceMethod_New(function); /* bound to the node, as Python's are */
    Py_XDECREF(function);
    return method;
}

/* ---- Python takes over ---- */

static PyObject *layouts_of(const RecordedObject *self)
{
    const int64_t *next = self->numbers + count_versions(self->pair);
    PyObject *layouts = PyTuple_New(self->pair->followed.n);
    for (Py_ssize_t i = 0; layouts != NULL && i < self->pair->followed.n; i++) {
        PyObject *layout = numbers_tuple(next + 1, *next);
        if (layout == NULL) {
            Py_CLEAR(layouts);
        } else {
            PyTuple_SET_ITEM(layouts, i, layout);
            next += 1 + *next;
        }
    }
    return layouts;
}

static PyObject *or_none(PyObject *object) { return object == NULL ? Py_None : object; }

static PyObject *recorded_values(RecordedObject *self, PyObject *UNUSED(ignored))
{
    if (self->taken_over) {
        Py_RETURN_NONE;
    }
    PyObject *versions = numbers_tuple(self->numbers, count_versions(self->pair)), *layouts = layouts_of(self);
    PyObject *found = NULL;
    if (versions != NULL && layouts != NULL) {
        found = PyTuple_Pack(6, or_none(self->inputs), or_none(self->kept), or_none(self->probes), versions, layouts,
                             or_none(self->random));
    }
    Py_XDECREF(versions);
    Py_XDECREF(layouts);
    return found;
}

static PyObject *recorded_take_over(RecordedObject *self, PyObject *UNUSED(ignored))
{
    self->taken_over = true;
    let_go(self);
    Py_RETURN_NONE;
}

/* ---- the type ---- */

static int recorded_traverse(RecordedObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->pair);
    Py_VISIT(self->inputs);
    Py_VISIT(self->kept);
    Py_VISIT(self->probes);
    Py_VISIT(self->random);
    return 0;
}

static int recorded_clear(RecordedObject *self)
{
    let_go(self);
    return 0;
}

static void recorded_dealloc(RecordedObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, recorded_dealloc) /* inputs have nodes, which have kept theirs, and so on */
    let_go(self);
    Py_XDECREF(self->pair);
    Py_TYPE(self)->tp_free((PyObject *)self);
    Py_TRASHCAN_END
}

static PyMethodDef recorded_methods[] = {
    {"values", (PyCFunction)recorded_values, METH_NOARGS, NULL},
    {"take_over", (PyCFunction)recorded_take_over, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef recorded_members[] = {
    {"pair", T_OBJECT_EX, offsetof(RecordedObject, pair), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Recorded_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.Recorded",
    .tp_basicsize = offsetof(RecordedObject, numbers),
    .tp_itemsize = sizeof(int64_t),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = (traverseproc)recorded_traverse,
    .tp_clear = (inquiry)recorded_clear,
    .tp_dealloc = (destructor)recorded_dealloc,
    .tp_methods = recorded_methods,
    .tp_members = recorded_members,
};
