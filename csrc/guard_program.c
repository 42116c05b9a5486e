/* GuardProgram: what src/onegraph/capture/guards/encode.py has made of a frame's guards, for the evaluator. */
#include "onegraph.h"

PyObject *guard_op_rows(void)
{
    return Py_BuildValue("("
#define GUARD_OP(name, operands, runs_code, ...) "(ssi)"
#include "guard_ops.def"
#undef GUARD_OP
                         ")"
#define GUARD_OP(name, operands, runs_code, ...) , #name, operands, runs_code
#include "guard_ops.def"
#undef GUARD_OP
    );
}

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", "owned", "consts", "registers", NULL};
    PyObject *code, *owned, *consts;
    int objects, integers;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "SSO!(ii):GuardProgram", names, &code, &owned, &PyTuple_Type,
                                     &consts, &objects, &integers)) {
        return NULL;
    }
    GuardProgramObject *self = (GuardProgramObject *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->code = Py_NewRef(code);
        self->owned = Py_NewRef(owned);
        self->consts = Py_NewRef(consts);
        self->n_objects = objects;
        self->n_integers = integers;
    }
    return (PyObject *)self;
}

static int program_traverse(GuardProgramObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->consts);
    return 0;
}

static void program_dealloc(GuardProgramObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->code);
    Py_XDECREF(self->owned);
    Py_XDECREF(self->consts);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

Py_ssize_t guard_program_size(GuardProgramObject *self)
{
    return PyBytes_GET_SIZE(self->code) / (Py_ssize_t)sizeof(GuardInstruction) - 1; /* without the END */
}

/* Evaluate on the values that a callback was given. */
static Py_ssize_t run_on_values(GuardProgramObject *self, PyObject *args)
{
    PyObject *function, *values;
    if (!PyArg_ParseTuple(args, "O!O!", &PyFunction_Type, &function, &PyTuple_Type, &values)) {
        return GUARD_ERROR;
    }
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
    Py_ssize_t n_slots = Py_MIN(PyTuple_GET_SIZE(values), code->co_nlocalsplus - code->co_nfreevars);
    FrameSlot *slots = PyMem_Calloc((size_t)n_slots + 1, sizeof(FrameSlot));
    if (slots == NULL) {
        PyErr_NoMemory();
        return GUARD_ERROR;
    }
    for (Py_ssize_t i = 0; i < n_slots; i++) {
        PyObject *value = PyTuple_GET_ITEM(values, i);
        slots[i] = frame_slot_of(value == og_null ? NULL : value);
    }
    Py_ssize_t failing = guard_program_run(self, (PyFunctionObject *)function, slots, n_slots);
    PyMem_Free(slots);
    return failing;
}

static PyObject *program_check(GuardProgramObject *self, PyObject *args)
{
    Py_ssize_t failing = run_on_values(self, args);
    return failing == GUARD_ERROR ? NULL : PyBool_FromLong(failing == GUARD_PASSED);
}

static PyObject *program_failing(GuardProgramObject *self, PyObject *args)
{
    Py_ssize_t failing = run_on_values(self, args);
    return failing == GUARD_ERROR ? NULL : PyLong_FromSsize_t(failing);
}

static PyMethodDef program_methods[] = {
    {"check", (PyCFunction)program_check, METH_VARARGS, "check(function, values, /)\n--\n\nWhether all checks pass."},
    {"failing", (PyCFunction)program_failing, METH_VARARGS,
     "failing(function, values, /)\n--\n\nThe index of the first instruction that fails, or -1."},
    {NULL, NULL, 0, NULL},
};

static PySequenceMethods program_sequence = {.sq_length = (lenfunc)guard_program_size};

PyTypeObject GuardProgram_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.GuardProgram",
    .tp_basicsize = sizeof(GuardProgramObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = program_new,
    .tp_traverse = (traverseproc)program_traverse,
    .tp_dealloc = (destructor)program_dealloc,
    .tp_as_sequence = &program_sequence,
    .tp_methods = program_methods,
};
