/* Pair: calls a graph that records gradients. It makes one node of autograd, which keeps what the backward graph takes.
   Where anything is unusual (hooks see what autograd saves, a tensor is no ordinary one), Python makes the call. */
#include "pair.h"
#include "autograd.h"
#include "libtorch.h"
#include "tensor.h"
#include "tensor_make.h"
#include <stddef.h>
#include <structmember.h>

/* ---- the call ---- */

static bool is_usual(const PairObject *self, PyObject *const *args)
{
    if (!tensor_abi_native() || autograd_is_watched()) {
        return false;
    }
    for (Py_ssize_t i = 0; i < self->n_inputs; i++) {
        if (is_tensor(args[i]) && !tensor_is_ordinary(args[i])) {
            return false;
        }
    }
    return true;
}

/* The forward graph runs as autograd runs operators: they see that gradients are recorded, and nothing records them. */
static PyObject *run_forward(PairObject *self, PyObject *const *args)
{
    uint64_t keys = dispatch_below_autograd();
    bool recorded = gradients_recorded(true);
    PyObject *results = plan_call((PyObject *)self->forward, args, (size_t)self->n_inputs, NULL);
    gradients_recorded(recorded);
    dispatch_restore(keys);
    return results;
}

/* The followed results, with their history. */
static PyObject *record(PairObject *self, RecordedObject *recorded, PyObject *const *inputs)
{
    PyObject *few[17], **args = few;
    Py_ssize_t n = self->reached.n;
    if (n + 2 > (Py_ssize_t)(sizeof(few) / sizeof(few[0])) &&
        (args = PyMem_Malloc((size_t)(n + 2) * sizeof(PyObject *))) == NULL) {
        return PyErr_NoMemory();
    }
    args[1] = (PyObject *)recorded; /* the one in front is for the callee */
    for (Py_ssize_t i = 0; i < n; i++) {
        args[i + 2] = inputs[self->reached.at[i]];
    }
    PyObject *passed = PyObject_Vectorcall(self->record, args + 1, (size_t)(n + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (args != few) {
        PyMem_Free(args);
    }
    if (passed != NULL && !(PyTuple_CheckExact(passed) && PyTuple_GET_SIZE(passed) == self->followed.n)) {
        PyErr_SetString(PyExc_SystemError, "autograd gives other results than it was given");
        Py_CLEAR(passed);
    }
    return passed;
}

/* The outputs: `results`, of which autograd has passed on those that it follows. */
static PyObject *outputs_of(const PairObject *self, PyObject *results, PyObject *passed)
{
    PyObject *outputs = PyTuple_New(self->outputs.n);
    for (Py_ssize_t i = 0; outputs != NULL && i < self->outputs.n; i++) {
        PyObject *output = PyTuple_GET_ITEM(results, self->outputs.at[i]);
        for (Py_ssize_t n = 0; n < self->followed.n; n++) {
            if (self->followed.at[n] == self->outputs.at[i]) {
                output = PyTuple_GET_ITEM(passed, n);
            }
        }
        PyTuple_SET_ITEM(outputs, i, Py_NewRef(output));
    }
    return outputs;
}

static PyObject *pair_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names)
{
    PairObject *self = (PairObject *)object;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (n != self->n_inputs || names != NULL || !is_usual(self, args)) {
        return PyObject_Vectorcall(self->otherwise, args, nargsf, names);
    }
    PyObject *inputs = PyTuple_New(n), *passed = NULL, *outputs = NULL;
    for (Py_ssize_t i = 0; inputs != NULL && i < n; i++) {
        PyTuple_SET_ITEM(inputs, i, Py_NewRef(args[i]));
    }
    PyObject *random = self->draws == Py_None ? Py_NewRef(Py_None) : PyObject_CallNoArgs(self->draws);
    PyObject *results = inputs == NULL || random == NULL ? NULL : run_forward(self, args);
    RecordedObject *recorded = results == NULL ? NULL : recorded_new(self, inputs, results, random);
    if (recorded != NULL) {
        recorded->results = results;
        passed = record(self, recorded, args);
        recorded->results = NULL;
    }
    if (passed != NULL) {
        outputs = outputs_of(self, results, passed);
    }
    Py_XDECREF(passed);
    Py_XDECREF(recorded);
    Py_XDECREF(results);
    Py_XDECREF(random);
    Py_XDECREF(inputs);
    return outputs;
}

/* ---- the type ---- */

/* What a tuple of numbers says: each is at least `low`, and less than `high`. */
static bool take_indices(PyObject *tuple, Py_ssize_t low, Py_ssize_t high, Indices *out)
{
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    out->at = PyMem_Calloc((size_t)n + 1, sizeof(Py_ssize_t));
    if (out->at == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (out->n = 0; out->n < n; out->n++) {
        Py_ssize_t index = PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, out->n));
        if (index < low || index >= high) {
            if (!PyErr_Occurred()) {
                PyErr_Format(PyExc_ValueError, "%zd is no position", index);
            }
            return false;
        }
        out->at[out->n] = index;
    }
    return true;
}

static Py_ssize_t plan_results(const PlanObject *plan)
{
    const int64_t *words = words_of(plan->steps);
    while (words[0] != STEP_RETURN) {
        words += words[1];
    }
    return (Py_ssize_t)((const PlacesStep *)words)->n;
}

static PyObject *pair_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"forward", "record", "otherwise", "later", "probe", "laid_out", "gradient", "draws", "owner", "outputs",
                            "followed", "reached", "kept", "shown", "probed", "gradients", "parts", "frees", NULL};
    PyObject *forward, *record, *otherwise, *later, *probe, *laid_out, *gradient, *draws, *owner, *parts;
    PyObject *outputs, *followed, *reached, *kept, *shown, *probed, *gradients;
    int frees;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$O!OOOOOOOOO!O!O!O!O!O!O!O!p:Pair", names, &Plan_Type, &forward, &record,
                                     &otherwise, &later, &probe, &laid_out, &gradient, &draws, &owner, &PyTuple_Type, &outputs,
                                     &PyTuple_Type, &followed, &PyTuple_Type, &reached, &PyTuple_Type, &kept,
                                     &PyTuple_Type, &shown, &PyTuple_Type, &probed, &PyTuple_Type, &gradients,
                                     &PyTuple_Type, &parts, &frees)) {
        return NULL;
    }
    if (!autograd_ready()) {
        PyErr_SetString(PyExc_NotImplementedError, "this torch has not what native nodes of autograd need");
        return NULL;
    }
    PairObject *self = (PairObject *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = pair_call;
    self->forward = (PlanObject *)Py_NewRef(forward);
    self->backward = Py_NewRef(Py_None);
    self->record = Py_NewRef(record);
    self->otherwise = Py_NewRef(otherwise);
    self->later = Py_NewRef(later);
    self->probe = Py_NewRef(probe);
    self->laid_out = Py_NewRef(laid_out);
    self->gradient = Py_NewRef(gradient);
    self->draws = Py_NewRef(draws);
    self->owner = Py_NewRef(owner);
    self->parts = Py_NewRef(parts);
    self->frees = frees;
    Py_ssize_t inputs = self->n_inputs = words_count(self->forward->inputs, sizeof(Place));
    Py_ssize_t results = plan_results(self->forward), tangents = PyTuple_GET_SIZE(followed);
    if (!take_indices(outputs, 0, results, &self->outputs) || !take_indices(followed, 0, results, &self->followed) ||
        !take_indices(reached, 0, inputs, &self->reached) || !take_indices(kept, -results, inputs, &self->kept) ||
        !take_indices(shown, 0, self->kept.n, &self->shown) || !take_indices(probed, 0, results, &self->probed) ||
        !take_indices(gradients, -tangents, PY_SSIZE_T_MAX, &self->gradients)) {
        Py_CLEAR(self);
    } else if (self->gradients.n != self->reached.n || PyTuple_GET_SIZE(parts) != self->reached.n) {
        PyErr_SetString(PyExc_ValueError, "each input that is reached has one gradient");
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int pair_traverse(PairObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->forward);
    Py_VISIT(self->backward);
    Py_VISIT(self->record);
    Py_VISIT(self->otherwise);
    Py_VISIT(self->later);
    Py_VISIT(self->probe);
    Py_VISIT(self->laid_out);
    Py_VISIT(self->gradient);
    Py_VISIT(self->draws);
    Py_VISIT(self->owner);
    Py_VISIT(self->parts);
    return 0;
}

static void pair_dealloc(PairObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->forward);
    Py_XDECREF(self->backward);
    Py_XDECREF(self->record);
    Py_XDECREF(self->otherwise);
    Py_XDECREF(self->later);
    Py_XDECREF(self->probe);
    Py_XDECREF(self->laid_out);
    Py_XDECREF(self->gradient);
    Py_XDECREF(self->draws);
    Py_XDECREF(self->owner);
    Py_XDECREF(self->parts);
    Indices *all[] = {&self->outputs, &self->followed, &self->reached, &self->kept, &self->shown, &self->probed,
                      &self->gradients};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        PyMem_Free(all[i]->at);
    }
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* differentiate_by(plan): what makes the ordinary passes from now on. */
static PyObject *pair_differentiate_by(PairObject *self, PyObject *plan)
{
    if (Py_TYPE(plan) != &Plan_Type) {
        return PyErr_Format(PyExc_TypeError, "a plan is expected, not %.200s", Py_TYPE(plan)->tp_name);
    }
    Py_ssize_t results = plan_results((PlanObject *)plan);
    bool fits = words_count(((PlanObject *)plan)->inputs, sizeof(Place)) == self->kept.n + self->followed.n;
    for (Py_ssize_t i = 0; i < self->gradients.n; i++) {
        fits = fits && self->gradients.at[i] < results;
    }
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "it is no backward graph of this pair");
        return NULL;
    }
    Py_XSETREF(self->backward, Py_NewRef(plan));
    Py_RETURN_NONE;
}

static PyMethodDef pair_methods[] = {
    {"differentiate_by", (PyCFunction)pair_differentiate_by, METH_O,
     PyDoc_STR("differentiate_by(plan): it computes the gradients of ordinary passes from now on.")},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef pair_members[] = {
    {"owner", T_OBJECT_EX, offsetof(PairObject, owner), READONLY, NULL},
    {"backward", T_OBJECT_EX, offsetof(PairObject, backward), READONLY, NULL},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(PairObject, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Pair_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.Pair",
    .tp_basicsize = sizeof(PairObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(PairObject, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = pair_new,
    .tp_traverse = (traverseproc)pair_traverse,
    .tp_dealloc = (destructor)pair_dealloc,
    .tp_methods = pair_methods,
    .tp_members = pair_members,
};
