/* Plan: a compiled graph as one native callable. */
#include "plan.h"
#include "tensor_make.h"
#include <stddef.h>
#include <structmember.h>

static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"inputs", "constants", "slots", "registers", "steps", "threads", "keep", NULL};
    PyObject *inputs, *constants, *registers, *steps, *keep = Py_None;
    int slots;
    long long threads = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!iO!O!|LO:Plan", names, &PyTuple_Type, &inputs, &PyTuple_Type,
                                     &constants, &slots, &PyTuple_Type, &registers, &PyTuple_Type, &steps, &threads,
                                     &keep)) {
        return NULL;
    }
    if (!tensor_make_ready()) {
        PyErr_SetString(PyExc_NotImplementedError, "this torch has not what the native launcher needs");
        return NULL;
    }
    if (slots < 0 || threads < 0) {
        PyErr_SetString(PyExc_ValueError, "slots and threads are counted from 0");
        return NULL;
    }
    PlanObject *self = (PlanObject *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = plan_call;
    self->keep = Py_NewRef(keep);
    self->n_slots = slots;
    self->threads = threads;
    if (plan_build(self, inputs, constants, registers, steps) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* ---- what a plan holds ---- */

static int visit_places(Place *places, int n, visitproc visit, void *arg)
{
    for (int i = 0; places != NULL && i < n; i++) {
        Py_VISIT(places[i].constant);
        if (places[i].kind == PLACE_LIST) {
            int status = visit_places(places[i].list, places[i].number, visit, arg);
            if (status != 0) {
                return status;
            }
        }
    }
    return 0;
}

static int plan_traverse(PlanObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->keep);
    for (Py_ssize_t i = 0; i < self->n_constants; i++) {
        Py_VISIT(self->constants[i].tensor);
    }
    for (Py_ssize_t i = 0; i < self->n_steps; i++) {
        Step *step = &self->steps[i];
        if (step->kind == STEP_EXTERN) {
            Py_VISIT(step->external.callable);
            Py_VISIT(step->external.names);
            int status = visit_places(step->external.args, step->external.n_args, visit, arg);
            if (status != 0) {
                return status;
            }
        } else if (step->kind == STEP_LAUNCH) {
            Py_VISIT(step->launch.errors);
        }
    }
    return 0;
}

static void free_places(Place *places, int n)
{
    for (int i = 0; places != NULL && i < n; i++) {
        Py_XDECREF(places[i].constant);
        if (places[i].kind == PLACE_LIST) {
            free_places(places[i].list, places[i].number);
        }
    }
    PyMem_Free(places);
}

static void free_layout(Layout *layout)
{
    PyMem_Free(layout->sizes);
    PyMem_Free(layout->strides);
}

static void free_step(Step *step)
{
    switch (step->kind) {
    case STEP_ALLOC:
    case STEP_SCRATCH:
    case STEP_VIEW: free_layout(&step->tensor.layout); break;
    case STEP_LAUNCH:
        PyMem_Free(step->launch.operands);
        PyMem_Free(step->launch.sizes);
        Py_XDECREF(step->launch.errors);
        break;
    case STEP_EXTERN:
        Py_XDECREF(step->external.callable);
        Py_XDECREF(step->external.names);
        free_places(step->external.args, step->external.n_args);
        free_places(step->external.outputs, step->external.n_outputs);
        for (int i = 0; step->external.expected != NULL && i < step->external.n_outputs; i++) {
            free_layout(&step->external.expected[i]);
        }
        PyMem_Free(step->external.expected);
        break;
    case STEP_FREE:
    case STEP_RELEASE:
    case STEP_RETURN: free_places(step->many.places, step->many.n); break;
    default: break;
    }
}

static void plan_dealloc(PlanObject *self)
{
    PyObject_GC_UnTrack(self);
    for (Py_ssize_t i = 0; i < self->n_steps; i++) {
        free_step(&self->steps[i]);
    }
    PyMem_Free(self->steps);
    for (Py_ssize_t i = 0; i < self->n_constants; i++) {
        Py_XDECREF(self->constants[i].tensor);
    }
    PyMem_Free(self->constants);
    free_places(self->inputs, (int)self->n_inputs);
    PyMem_Free(self->registers);
    scratch_free(self->scratch, self->n_slots);
    Py_XDECREF(self->keep);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *plan_repr(PlanObject *self)
{
    return PyUnicode_FromFormat("<Plan of %zd steps for %zd inputs>", self->n_steps, self->n_inputs);
}

static PyMethodDef plan_methods[] = {
    {"consume", plan_consume, METH_O,
     PyDoc_STR("consume(inputs): as a call with the inputs of a list, which are taken out of it: each lives as long as it "
               "is needed.")},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef plan_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(PlanObject, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Plan_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.Plan",
    .tp_doc = PyDoc_STR("Plan(inputs, constants, slots, registers, steps, threads=0, keep=None): a compiled graph; call it "
                        "with its inputs, it returns the tuple of its results. See onegraph.ir.plan for the steps."),
    .tp_basicsize = sizeof(PlanObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(PlanObject, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = plan_new,
    .tp_traverse = (traverseproc)plan_traverse,
    .tp_dealloc = (destructor)plan_dealloc,
    .tp_repr = (reprfunc)plan_repr,
    .tp_methods = plan_methods,
    .tp_members = plan_members,
};
