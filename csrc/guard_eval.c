/* The evaluator of guard programs. */
#include "tensor.h"

typedef enum {
#define GUARD_OP(name, operands, runs_code, ...) OP_##name,
#include "guard_ops.def"
#undef GUARD_OP
} GuardOp;

enum { FEW_REGISTERS = 256 };

/* ---- equality ---- */

static bool same_bits(double a, double b)
{
    uint64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

/* Python compares code by what it does, not by where tracebacks say that it is. */
static bool same_place(PyCodeObject *a, PyCodeObject *b)
{
    return PyUnicode_Compare(a->co_filename, b->co_filename) == 0 &&
           PyUnicode_Compare(a->co_qualname, b->co_qualname) == 0;
}

/* The same exact type and the same value, floats bit by bit. -1 with an exception set on error. */
static int same_value(PyObject *a, PyObject *b)
{
    if (a == b) {
        return 1;
    }
    if (Py_TYPE(a) != Py_TYPE(b)) {
        return 0;
    }
    if (PyUnicode_CheckExact(a)) {
        return PyUnicode_GET_LENGTH(a) == PyUnicode_GET_LENGTH(b) && PyUnicode_Compare(a, b) == 0;
    }
    if (PyFloat_CheckExact(a)) {
        return same_bits(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
    }
    if (PyComplex_CheckExact(a)) {
        Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
        return same_bits(x.real, y.real) && same_bits(x.imag, y.imag);
    }
    if (PyType_CheckExact(a) || PyBool_Check(a)) {
        return 0;
    }
    if (PyTuple_CheckExact(a)) {
        if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) {
            return 0;
        }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++) {
            int same = same_value(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i));
            if (same != 1) {
                return same;
            }
        }
        return 1;
    }
    if (PyCode_Check(a) && !same_place((PyCodeObject *)a, (PyCodeObject *)b)) {
        return 0;
    }
    return PyObject_RichCompareBool(a, b, Py_EQ);
}

/* ---- single checks; each gives 1, 0, or -1 with an exception set ---- */

/* An error of the guarded program's own making means that the guard fails; what is not its fault goes on. */
static Py_ssize_t failed_or_error(Py_ssize_t index)
{
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError) ||
            PyErr_ExceptionMatches(PyExc_RecursionError)) {
            return GUARD_ERROR;
        }
        PyErr_Clear();
    }
    return index;
}

/* Borrowed; NULL, perhaps with an exception, if there is none. */
static PyObject *dict_of(PyObject *object)
{
    if (PyType_Check(object)) {
        PyObject *dict;
#if PY_VERSION_HEX >= 0x030c0000
        dict = PyType_GetDict((PyTypeObject *)object);
        Py_XDECREF(dict);
#else
        dict = ((PyTypeObject *)object)->tp_dict;
#endif
        return dict;
    }
    PyObject **slot = _PyObject_GetDictPtr(object);
    if (slot == NULL) {
        return NULL;
    }
    if (*slot == NULL) {
        PyObject *dict = PyObject_GenericGetDict(object, NULL); /* makes an empty one, which the object keeps */
        Py_XDECREF(dict);
        return dict;
    }
    return *slot;
}

/* Borrowed; NULL, perhaps with an exception, if there is none. */
static PyObject *item_of(PyObject *container, PyObject *key)
{
    if (PyDict_Check(container)) {
        return PyDict_GetItemWithError(container, key);
    }
    bool list = PyList_Check(container);
    if ((!list && !PyTuple_Check(container)) || !PyLong_CheckExact(key)) {
        return NULL;
    }
    Py_ssize_t index = PyLong_AsSsize_t(key);
    if (index == -1 && PyErr_Occurred()) {
        return NULL;
    }
    Py_ssize_t size = Py_SIZE(container);
    index += index < 0 ? size : 0;
    if (index < 0 || index >= size) {
        return NULL;
    }
    return list ? PyList_GET_ITEM(container, index) : PyTuple_GET_ITEM(container, index);
}

/* The registers are in a bytes object of 16-bit numbers. */
static bool is_none_of(PyObject *object, PyObject *registers, PyObject *const *r)
{
    const uint16_t *others = (const uint16_t *)PyBytes_AS_STRING(registers);
    Py_ssize_t count = PyBytes_GET_SIZE(registers) / (Py_ssize_t)sizeof(uint16_t);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (r[others[i]] == object) {
            return false;
        }
    }
    return true;
}

static int has_length(PyObject *object, int64_t length)
{
    if (PyList_Check(object) || PyTuple_Check(object)) {
        return Py_SIZE(object) == length;
    }
    if (PyDict_Check(object)) {
        return PyDict_GET_SIZE(object) == length;
    }
    Py_ssize_t size = PyObject_Size(object);
    return size < 0 ? -1 : size == length;
}

/* OrderedDict keeps its order outside the dict's own. */
static int has_keys_by_iteration(PyObject *dict, PyObject *keys)
{
    PyObject *iterator = PyObject_GetIter(dict);
    if (iterator == NULL) {
        return -1;
    }
    int same = 1;
    for (Py_ssize_t i = 0; same == 1 && i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *key = PyIter_Next(iterator);
        same = key != NULL ? same_value(key, PyTuple_GET_ITEM(keys, i)) : PyErr_Occurred() ? -1 : 0;
        Py_XDECREF(key);
    }
    Py_DECREF(iterator);
    return same;
}

static int has_keys(PyObject *dict, PyObject *keys)
{
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) {
        return 0;
    }
    if (PyODict_Check(dict)) {
        return has_keys_by_iteration(dict, keys);
    }
    Py_ssize_t position = 0;
    PyObject *key;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); i++) {
        if (!PyDict_Next(dict, &position, &key, NULL)) {
            return 0; /* changed by a comparison */
        }
        PyObject *expected = PyTuple_GET_ITEM(keys, i);
        if (key == expected) {
            continue;
        }
        Py_INCREF(key);
        int same = same_value(key, expected);
        Py_DECREF(key);
        if (same != 1) {
            return same;
        }
    }
    return 1;
}

static int contains(PyObject *container, PyObject *key)
{
    if (PyDict_Check(container)) {
        return PyDict_Contains(container, key);
    }
    if (PyAnySet_Check(container)) {
        return PySet_Contains(container, key);
    }
    PyErr_SetString(PyExc_TypeError, "neither a dict nor a set");
    return -1;
}

static int lacks_attribute(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    if (value != NULL) {
        Py_DECREF(value);
        return 0;
    }
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return -1;
    }
    PyErr_Clear();
    return 1;
}

static int satisfies(PyObject *callable, PyObject *object)
{
    PyObject *answer = PyObject_CallOneArg(callable, object);
    if (answer == NULL) {
        return -1;
    }
    Py_DECREF(answer);
    return answer == Py_True;
}

/* `places` is a Memory and the registers of its tensors. */
static int meets_as_before(PyObject *places, PyObject *const *r)
{
    PyObject *few[FEW_REGISTERS];
    Py_ssize_t count = PyTuple_GET_SIZE(places) - 1;
    PyObject **tensors = count <= FEW_REGISTERS ? few : PyMem_Malloc((size_t)count * sizeof(PyObject *));
    if (tensors == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int same = count == memory_count((MemoryObject *)PyTuple_GET_ITEM(places, 0));
    for (Py_ssize_t i = 0; same == 1 && i < count; i++) {
        tensors[i] = r[PyLong_AsSsize_t(PyTuple_GET_ITEM(places, i + 1))];
        same = is_tensor(tensors[i]);
    }
    if (same == 1) {
        same = memory_holds((MemoryObject *)PyTuple_GET_ITEM(places, 0), tensors);
    }
    if (tensors != few) {
        PyMem_Free(tensors);
    }
    return same;
}

static bool integer_of(PyObject *object, int64_t *out)
{
    int overflow = 1;
    if (PyLong_CheckExact(object)) {
        *out = PyLong_AsLongLongAndOverflow(object, &overflow);
    }
    return overflow == 0;
}

/* False on division by zero and overflow. */
static bool floor_divide(int64_t a, int64_t b, int64_t *quotient, int64_t *remainder)
{
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        return false;
    }
    int64_t q = a / b, r = a % b;
    bool adjust = r != 0 && (r < 0) != (b < 0);
    *quotient = q - adjust;
    *remainder = r + (adjust ? b : 0);
    return true;
}

/* Borrowed; NULL if it is dead. */
static PyObject *referent(PyObject *reference)
{
#if PY_VERSION_HEX >= 0x030d0000
    PyObject *object = NULL;
    if (PyWeakref_GetRef(reference, &object) == 1) {
        Py_DECREF(object); /* somebody else holds it, and no code runs meanwhile */
    }
    return object;
#else
    PyObject *object = PyWeakref_GET_OBJECT(reference);
    return object == Py_None ? NULL : object;
#endif
}

/* Borrowed; NULL if there is none. */
static PyObject *cell_at(PyFunctionObject *function, int64_t index)
{
    PyObject *closure = function->func_closure;
    return closure != NULL && index < PyTuple_GET_SIZE(closure) ? PyTuple_GET_ITEM(closure, index) : NULL;
}

/* Borrowed; NULL if it is empty, or no cell. */
static PyObject *contents_of(PyObject *cell)
{
    return cell != NULL && PyCell_Check(cell) ? PyCell_GET(cell) : NULL;
}

/* ---- the loop ---- */

/* Fail unless `condition`; keep what was loaded, if it must be. */
#define REQUIRE(condition)                                                                                        \
    do {                                                                                                          \
        if ((condition) != 1) {                                                                                   \
            return ip - code;                                                                            \
        }                                                                                                         \
    } while (0)
#define LOAD(value)                                                                                               \
    do {                                                                                                          \
        PyObject *loaded = (value);                                                                               \
        REQUIRE(loaded != NULL);                                                                                  \
        r[ip->d] = ip->owns ? Py_NewRef(loaded) : loaded;                                                         \
    } while (0)
#define MAKE(value)                                                                                               \
    r[ip->d] = (value);                                                                                           \
    REQUIRE(r[ip->d] != NULL)
#define R(operand) r[ip->operand]
#define I(operand) i[ip->operand]
#define K consts[ip->v]
#define V ip->v

static Py_ssize_t evaluate(GuardProgramObject *program, PyFunctionObject *function, const FrameSlot *slots,
                           Py_ssize_t n_slots, PyObject **r, int64_t *i)
{
    int64_t scratch;
    PyObject *const *consts = ((PyTupleObject *)program->consts)->ob_item;
    const GuardInstruction *code = (const GuardInstruction *)PyBytes_AS_STRING(program->code);
    for (const GuardInstruction *ip = code;; ip++) {
        switch ((GuardOp)ip->op) {
#define GUARD_OP(name, operands, runs_code, ...)                                                                     \
        case OP_##name: __VA_ARGS__; break;
#include "guard_ops.def"
#undef GUARD_OP
        }
    }
}

Py_ssize_t guard_program_run(GuardProgramObject *program, PyFunctionObject *function, const FrameSlot *slots,
                             Py_ssize_t n_slots)
{
    PyObject *few_objects[FEW_REGISTERS];
    int64_t few_integers[FEW_REGISTERS];
    PyObject **objects = few_objects;
    int64_t *integers = few_integers;
    bool many = program->n_objects > FEW_REGISTERS || program->n_integers > FEW_REGISTERS;
    if (many) {
        size_t bytes = (size_t)program->n_objects * sizeof(PyObject *) + (size_t)program->n_integers * sizeof(int64_t);
        objects = PyMem_Malloc(bytes);
        if (objects == NULL) {
            PyErr_NoMemory();
            return GUARD_ERROR;
        }
        integers = (int64_t *)(objects + program->n_objects);
    }
    const uint16_t *owned = (const uint16_t *)PyBytes_AS_STRING(program->owned);
    Py_ssize_t n_owned = PyBytes_GET_SIZE(program->owned) / (Py_ssize_t)sizeof(uint16_t);
    for (Py_ssize_t i = 0; i < n_owned; i++) {
        objects[owned[i]] = NULL;
    }
    Py_ssize_t failing = evaluate(program, function, slots, n_slots, objects, integers);
    if (failing != GUARD_PASSED) {
        failing = failed_or_error(failing);
    }
    for (Py_ssize_t i = 0; i < n_owned; i++) {
        Py_XDECREF(objects[owned[i]]);
    }
    if (many) {
        PyMem_Free(objects);
    }
    return failing;
}
