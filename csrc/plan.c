/* Plan: a compiled graph as one native callable. */
#include "plan.h"
#include "tensor_make.h"
#include <stddef.h>
#include <structmember.h>

static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"steps", "inputs", "constants", "registers", "objects", "slots", "room", "threads", "keep",
                            "sanitizer", "name", "times", NULL};
    PyObject *steps, *inputs, *constants, *registers, *objects, *keep = Py_None, *sanitizer = Py_None;
    PyObject *name = NULL, *times = Py_None;
    int slots, pointers, numbers, call_args;
    long long threads = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "SSSSO!i(iii)|LOOUO:Plan", names, &steps, &inputs, &constants,
                                     &registers, &PyTuple_Type, &objects, &slots, &pointers, &numbers, &call_args,
                                     &threads, &keep, &sanitizer, &name, &times)) {
        return NULL;
    }
    if (!tensor_make_ready()) {
        PyErr_SetString(PyExc_NotImplementedError, "this torch has not what the native launcher needs");
        return NULL;
    }
    PlanObject *self = (PlanObject *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = plan_call;
        self->keep = Py_NewRef(keep);
        self->sanitizer = sanitizer == Py_None ? NULL : Py_NewRef(sanitizer);
        self->name = name == NULL ? PyUnicode_FromString("a graph") : Py_NewRef(name);
        self->objects = Py_NewRef(objects);
        self->steps = Py_NewRef(steps);
        self->inputs = Py_NewRef(inputs);
        self->constants = Py_NewRef(constants);
        self->registers = Py_NewRef(registers);
        self->n_slots = slots;
        self->n_pointers = pointers;
        self->n_numbers = numbers;
        self->n_args = call_args;
        self->threads = threads;
        if (self->name == NULL || (times != Py_None && PyObject_GetBuffer(times, &self->times, PyBUF_WRITABLE) < 0)) {
            Py_CLEAR(self);
        }
    }
    return (PyObject *)self;
}

static int plan_traverse(PlanObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->keep);
    Py_VISIT(self->objects);
    Py_VISIT(self->sanitizer);
    Py_VISIT(self->trial);
    return 0;
}

static void plan_dealloc(PlanObject *self)
{
    PyObject_GC_UnTrack(self);
    scratch_free(self->scratch, self->n_slots);
    Py_XDECREF(self->keep);
    Py_XDECREF(self->objects);
    Py_XDECREF(self->sanitizer);
    Py_XDECREF(self->trial);
    Py_XDECREF(self->steps);
    Py_XDECREF(self->inputs);
    Py_XDECREF(self->constants);
    Py_XDECREF(self->registers);
    Py_XDECREF(self->name);
    PyBuffer_Release(&self->times);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *plan_repr(PlanObject *self)
{
    return PyUnicode_FromFormat("<Plan for %zd inputs>", words_count(self->inputs, sizeof(Place)));
}

static PyObject *plan_on_trial(PlanObject *self, PyObject *trial)
{
    Py_XSETREF(self->trial, Py_NewRef(trial));
    Py_RETURN_NONE;
}

static PyMethodDef plan_methods[] = {
    {"consume", plan_consume, METH_O,
     PyDoc_STR("consume(inputs): as a call with the inputs of a list, which are taken out of it: each lives as long as it "
               "is needed.")},
    {"on_trial", (PyCFunction)plan_on_trial, METH_O,
     PyDoc_STR("on_trial(trial): until a call has gone well, trial.begin(inputs) is asked before it, and may raise, and "
               "trial.failed() is told.")},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef plan_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(PlanObject, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Plan_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.Plan",
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
