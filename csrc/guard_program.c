/* GuardProgram: checks the instructions it is given and assembles them for the evaluator. */
#include "guard.h"
#include "tensor.h"
#include <stddef.h>
#include <structmember.h>

typedef struct {
    const char *name;
    const char *operands;
    int runs_code;
} OpRow;

static const OpRow ops[N_GUARD_OPS] = {
#define GUARD_OP(name, operands, runs_code, ...) {#name, operands, runs_code},
#include "guard_ops.def"
#undef GUARD_OP
};

enum { MAX_REGISTERS = 65535 };

/* ---- operands ---- */

/* The state of one assembly. `*_use` holds, for each register, 1 + the last instruction that uses it; 0: not set. */
typedef struct {
    GuardProgramObject *program;
    Py_ssize_t at;
    Py_ssize_t *object_use;
    Py_ssize_t *integer_use;
} Assembly;

static int bad(Assembly *assembly, const char *what, PyObject *operand)
{
    PyObject *instruction = PySequence_Fast_GET_ITEM(assembly->program->instructions, assembly->at);
    PyErr_Format(PyExc_ValueError, "instruction %zd %R: %s, not %R", assembly->at, instruction, what, operand);
    return -1;
}

static int write_register(Assembly *assembly, PyObject *operand, Py_ssize_t *uses, int *count, uint16_t *field)
{
    Py_ssize_t number = PyLong_Check(operand) ? PyLong_AsSsize_t(operand) : -1;
    if (number < 0 || number >= MAX_REGISTERS) {
        PyErr_Clear();
        return bad(assembly, "a register is expected", operand);
    }
    if (uses[number] != 0) {
        return bad(assembly, "a register that is written once is expected", operand);
    }
    uses[number] = assembly->at + 1;
    *count = number >= *count ? (int)number + 1 : *count;
    *field = (uint16_t)number;
    return 0;
}

static int read_register(Assembly *assembly, PyObject *operand, Py_ssize_t *uses, uint16_t *field)
{
    Py_ssize_t number = PyLong_Check(operand) ? PyLong_AsSsize_t(operand) : -1;
    if (number < 0 || number >= MAX_REGISTERS || uses[number] == 0) {
        PyErr_Clear();
        return bad(assembly, "a register that was written before is expected", operand);
    }
    uses[number] = assembly->at + 1;
    *field = (uint16_t)number;
    return 0;
}

static int read_constant(Assembly *assembly, char kind, PyObject *operand, PyObject **field)
{
    Py_ssize_t number = PyLong_Check(operand) ? PyLong_AsSsize_t(operand) : -1;
    if (number < 0 || number >= PyTuple_GET_SIZE(assembly->program->consts)) {
        PyErr_Clear();
        return bad(assembly, "the index of a constant is expected", operand);
    }
    PyObject *constant = PyTuple_GET_ITEM(assembly->program->consts, number);
    *field = constant;
    switch (kind) {
    case 'A':
        return PyUnicode_Check(constant) ? 0 : bad(assembly, "a constant that is an attribute name is expected", constant);
    case 'Y':
        return PyType_Check(constant) ? 0 : bad(assembly, "a constant that is a type is expected", constant);
    case 'K':
        return PyTuple_Check(constant) ? 0 : bad(assembly, "a constant that is a tuple is expected", constant);
    case 'R':
        return PyBytes_Check(constant) && PyBytes_GET_SIZE(constant) % (Py_ssize_t)sizeof(uint16_t) == 0
                   ? 0
                   : bad(assembly, "a constant that is bytes of registers is expected", constant);
    case 'C':
        return PyCallable_Check(constant) ? 0 : bad(assembly, "a constant that is callable is expected", constant);
    case 'W':
        return PyWeakref_Check(constant) ? 0
                                         : bad(assembly, "a constant that is a weak reference is expected", constant);
    case 'T':
        return Py_IS_TYPE(constant, &TensorSpec_Type) ? 0
                                                      : bad(assembly, "a constant TensorSpec is expected", constant);
    case 'F':
        return Py_IS_TYPE(constant, &Fact_Type) ? 0
                                                     : bad(assembly, "a constant Fact is expected", constant);
    case 'G':
        return Py_IS_TYPE(constant, &GlobalState_Type) ? 0
                                                       : bad(assembly, "a constant GlobalState is expected", constant);
    default:
        return 0;
    }
}

/* A tuple of a Memory and registers. */
static int read_places(Assembly *assembly, PyObject *operand, PyObject **field)
{
    if (read_constant(assembly, 'K', operand, field) < 0) {
        return -1;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(*field) - 1;
    PyObject *memory = count < 0 ? NULL : PyTuple_GET_ITEM(*field, 0);
    if (memory == NULL || !Py_IS_TYPE(memory, &Memory_Type) || memory_count((MemoryObject *)memory) != count) {
        return bad(assembly, "a constant that is a Memory and its registers is expected", *field);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        uint16_t ignored;
        if (read_register(assembly, PyTuple_GET_ITEM(*field, i + 1), assembly->object_use, &ignored) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Bytes of register numbers. */
static int read_registers(Assembly *assembly, PyObject *operand, PyObject **field)
{
    if (read_constant(assembly, 'R', operand, field) < 0) {
        return -1;
    }
    const uint16_t *registers = (const uint16_t *)PyBytes_AS_STRING(*field);
    for (Py_ssize_t i = 0; i < PyBytes_GET_SIZE(*field) / (Py_ssize_t)sizeof(uint16_t); i++) {
        if (registers[i] >= MAX_REGISTERS || assembly->object_use[registers[i]] == 0) {
            return bad(assembly, "registers that were written before are expected", *field);
        }
        assembly->object_use[registers[i]] = assembly->at + 1;
    }
    return 0;
}

static int read_number(Assembly *assembly, char kind, PyObject *operand, int64_t *field)
{
    int overflow = 0;
    long long value = PyLong_Check(operand) ? PyLong_AsLongLongAndOverflow(operand, &overflow) : -1;
    if (!PyLong_Check(operand) || overflow != 0 || (kind == 'n' && (value < 0 || value > INT32_MAX))) {
        PyErr_Clear();
        return bad(assembly, kind == 'n' ? "a small number from 0 is expected" : "a 64-bit number is expected", operand);
    }
    *field = value;
    return 0;
}

static int assemble_operands(Assembly *assembly, const char *kinds, PyObject *tuple, GuardInstruction *out)
{
    GuardProgramObject *program = assembly->program;
    uint16_t *next_read = &out->s;
    Py_ssize_t written = 0; /* registers are written after the others are read */
    for (Py_ssize_t i = 0; kinds[i] != '\0'; i++) {
        PyObject *operand = PyTuple_GET_ITEM(tuple, i + 1);
        int status = 0;
        switch (kinds[i]) {
        case 'd':
        case 'e':
            written = i + 1;
            break;
        case 's':
        case 'i':
            status = read_register(assembly, operand, kinds[i] == 's' ? assembly->object_use : assembly->integer_use,
                                   next_read);
            next_read = &out->t;
            break;
        case 'n':
        case 'v':
            status = read_number(assembly, kinds[i], operand, &out->v);
            break;
        case 'R':
            status = read_registers(assembly, operand, &out->k);
            break;
        case 'M':
            status = read_places(assembly, operand, &out->k);
            break;
        default:
            status = read_constant(assembly, kinds[i], operand, &out->k);
        }
        if (status < 0) {
            return -1;
        }
    }
    if (written == 0) {
        return 0;
    }
    bool object = kinds[written - 1] == 'd';
    return write_register(assembly, PyTuple_GET_ITEM(tuple, written), object ? assembly->object_use : assembly->integer_use,
                          object ? &program->n_objects : &program->n_integers, &out->d);
}

static int assemble_instruction(Assembly *assembly, PyObject *tuple, GuardInstruction *out)
{
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) == 0 || !PyUnicode_Check(PyTuple_GET_ITEM(tuple, 0))) {
        return bad(assembly, "a tuple that begins with a name is expected", tuple);
    }
    PyObject *name = PyTuple_GET_ITEM(tuple, 0);
    for (int op = 0; op < OP_END; op++) {
        if (PyUnicode_CompareWithASCIIString(name, ops[op].name) == 0) {
            if ((size_t)PyTuple_GET_SIZE(tuple) != 1 + strlen(ops[op].operands)) {
                return bad(assembly, "another number of operands is expected", tuple);
            }
            out->op = (uint8_t)op;
            return assemble_operands(assembly, ops[op].operands, tuple, out);
        }
    }
    return bad(assembly, "a known name is expected", name);
}

/* ---- ownership ---- */

static bool runs_code(const GuardInstruction *instruction, const uint8_t *namespaces)
{
    switch (instruction->op) {
    case OP_EQ:
        return !is_plain_value(instruction->k);
    case OP_KEYS:
        return !is_plain_value(instruction->k);
    case OP_ITEM:
    case OP_HAS:
    case OP_LACKS:
        /* Looking up a string runs code only if another key has its hash and a Python __eq__. In the dicts that hold
           attributes and globals, keys are strings. */
        return !(PyUnicode_CheckExact(instruction->k) && namespaces[instruction->s]);
    case OP_TENSOR:
    case OP_MEMORY:
    case OP_ISIZE:
    case OP_ISTRIDE:
    case OP_IOFFSET:
    case OP_STATE:
        return !tensor_abi_native();
    default:
        return ops[instruction->op].runs_code != 0;
    }
}

/* What an instruction loads must be kept alive if code runs after the load, up to and including its last use. ATTR
   and CALL make new references; arguments, globals and constants are kept by the frame and the program. */
static int assign_ownership(Assembly *assembly)
{
    GuardProgramObject *program = assembly->program;
    Py_ssize_t *runner_from = PyMem_Calloc((size_t)program->size + 1, sizeof(Py_ssize_t));
    uint8_t *namespaces = PyMem_Calloc((size_t)program->n_objects + 1, 1);
    program->owned = PyMem_Calloc((size_t)program->n_objects + 1, sizeof(uint16_t));
    if (runner_from == NULL || namespaces == NULL || program->owned == NULL) {
        PyMem_Free(runner_from);
        PyMem_Free(namespaces);
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < program->size; i++) {
        uint8_t op = program->code[i].op;
        if (op == OP_DICTOF || op == OP_GLOBALS) {
            namespaces[program->code[i].d] = 1;
        }
    }
    /* runner_from[i]: the first instruction at or after i that runs code, or the size */
    runner_from[program->size] = program->size;
    for (Py_ssize_t i = program->size - 1; i >= 0; i--) {
        runner_from[i] = runs_code(&program->code[i], namespaces) ? i : runner_from[i + 1];
    }
    for (Py_ssize_t i = 0; i < program->size; i++) {
        GuardInstruction *instruction = &program->code[i];
        if (ops[instruction->op].operands[0] != 'd') {
            continue;
        }
        Py_ssize_t last_use = assembly->object_use[instruction->d] - 1;
        bool always = instruction->op == OP_ATTR || instruction->op == OP_CALL || instruction->op == OP_PAIR;
        bool never = instruction->op == OP_ARG || instruction->op == OP_GLOBALS || instruction->op == OP_CONST;
        if (always || (!never && runner_from[i + 1] <= last_use)) {
            instruction->owns = 1;
            program->owned[program->n_owned++] = instruction->d;
        }
    }
    PyMem_Free(runner_from);
    PyMem_Free(namespaces);
    return 0;
}

static int assemble(GuardProgramObject *program)
{
    program->size = PySequence_Fast_GET_SIZE(program->instructions);
    program->code = PyMem_Calloc((size_t)program->size + 1, sizeof(GuardInstruction));
    Assembly assembly = {
        .program = program,
        .object_use = PyMem_Calloc(MAX_REGISTERS, sizeof(Py_ssize_t)),
        .integer_use = PyMem_Calloc(MAX_REGISTERS, sizeof(Py_ssize_t)),
    };
    int status = 0;
    if (program->code == NULL || assembly.object_use == NULL || assembly.integer_use == NULL) {
        PyErr_NoMemory();
        status = -1;
    }
    for (; status == 0 && assembly.at < program->size; assembly.at++) {
        PyObject *tuple = PySequence_Fast_GET_ITEM(program->instructions, assembly.at);
        status = assemble_instruction(&assembly, tuple, &program->code[assembly.at]);
    }
    if (status == 0) {
        program->code[program->size].op = OP_END;
        status = assign_ownership(&assembly);
    }
    PyMem_Free(assembly.object_use);
    PyMem_Free(assembly.integer_use);
    return status;
}

/* ---- the type ---- */

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"instructions", "consts", NULL};
    PyObject *instructions, *consts;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:GuardProgram", names, &instructions, &consts)) {
        return NULL;
    }
    GuardProgramObject *self = (GuardProgramObject *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->instructions = PySequence_Tuple(instructions);
    self->consts = self->instructions == NULL ? NULL : PySequence_Tuple(consts);
    if (self->consts == NULL || assemble(self) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int program_traverse(GuardProgramObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->instructions);
    Py_VISIT(self->consts);
    return 0;
}

static void program_dealloc(GuardProgramObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->instructions);
    Py_XDECREF(self->consts);
    PyMem_Free(self->code);
    PyMem_Free(self->owned);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static Py_ssize_t program_length(GuardProgramObject *self) { return self->size; }

/* Evaluate on the values that a callback was given. */
static Py_ssize_t run_on_values(GuardProgramObject *self, PyObject *args)
{
    PyObject *function, *values;
    if (!PyArg_ParseTuple(args, "O!O!", &PyFunction_Type, &function, &PyTuple_Type, &values)) {
        return GUARD_ERROR;
    }
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
    Py_ssize_t n_slots = Py_MIN(PyTuple_GET_SIZE(values), code->co_nlocalsplus - code->co_nfreevars);
    PyObject **slots = PyMem_Calloc((size_t)n_slots + 1, sizeof(PyObject *));
    if (slots == NULL) {
        PyErr_NoMemory();
        return GUARD_ERROR;
    }
    for (Py_ssize_t i = 0; i < n_slots; i++) {
        PyObject *value = PyTuple_GET_ITEM(values, i);
        slots[i] = value == og_null ? NULL : value;
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

static PyMemberDef program_members[] = {
    {"instructions", T_OBJECT_EX, offsetof(GuardProgramObject, instructions), READONLY, NULL},
    {"consts", T_OBJECT_EX, offsetof(GuardProgramObject, consts), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PySequenceMethods program_sequence = {.sq_length = (lenfunc)program_length};

PyTypeObject GuardProgram_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.GuardProgram",
    .tp_doc = PyDoc_STR("GuardProgram(instructions, consts): checks to run before a frame, as tuples of an instruction's "
                        "name and its operands; see csrc/guard_ops.def."),
    .tp_basicsize = sizeof(GuardProgramObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = program_new,
    .tp_traverse = (traverseproc)program_traverse,
    .tp_dealloc = (destructor)program_dealloc,
    .tp_as_sequence = &program_sequence,
    .tp_methods = program_methods,
    .tp_members = program_members,
};
