/* Memory: how tensors lie to each other in memory, as far as one of a pair is written to. */
#include "libtorch.h"
#include "tensor.h"
#include <stddef.h>
#include <structmember.h>

enum { MAX_DIMS = 64, MAX_STEPS = 10000 };

/* One tensor: `extent` is the number of bytes from its first to behind its last one, -1 where its sizes may change. */
typedef struct {
    bool written;
    int64_t itemsize;
    int64_t extent;
} Member;

/* Two members with common bytes: the distance of their first bytes, and of the ends. */
typedef struct {
    int a, b;
    int64_t begin, end;
} Meeting;

struct MemoryObject {
    PyObject_HEAD
    PyObject *written; /* tuples: of each tensor */
    PyObject *varying;
    int count;
    Member *members;
    int *order; /* of the addresses at the last look: most do not change */
    int n_meetings;
    Meeting *meetings;
};

/* The bytes of one tensor in a call; none if they are empty. */
typedef struct {
    uint64_t begin, end;
} Span;

typedef struct {
    int64_t ndim;
    int64_t sizes[MAX_DIMS], strides[MAX_DIMS];
} Layout;

/* ---- reading ---- */

/* 1, 0 if the tensor has none, or -1 with an exception set. */
static int read_address(PyObject *tensor, uint64_t *out)
{
    const Libtorch *torch = libtorch();
    if (torch != NULL) {
        void *data;
        bool has = torch->get_data_ptr(tensor_handle(tensor), &data) == 0 && data != NULL;
        *out = has ? (uint64_t)(uintptr_t)data : 0;
        return has;
    }
    TensorPlace place;
    int got = tensor_place(tensor, &place);
    Py_XDECREF(place.numbers);
    *out = place.address;
    return got < 0 ? -1 : *out != 0;
}

static int read_layout(PyObject *tensor, Layout *out)
{
    const Libtorch *torch = libtorch();
    if (torch != NULL) {
        int64_t *sizes, *strides;
        void *handle = tensor_handle(tensor);
        if (torch->get_dim(handle, &out->ndim) || out->ndim > MAX_DIMS || torch->get_sizes(handle, &sizes) ||
            torch->get_strides(handle, &strides)) {
            return 0;
        }
        memcpy(out->sizes, sizes, (size_t)out->ndim * sizeof(int64_t));
        memcpy(out->strides, strides, (size_t)out->ndim * sizeof(int64_t));
        return 1;
    }
    TensorPlace place;
    int got = tensor_place(tensor, &place) < 0 ? -1 : PyTuple_GET_SIZE(place.sizes) <= MAX_DIMS;
    out->ndim = got == 1 ? PyTuple_GET_SIZE(place.sizes) : 0;
    for (Py_ssize_t i = 0; i < out->ndim; i++) {
        out->sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(place.sizes, i));
        out->strides[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(place.strides, i));
    }
    Py_XDECREF(place.numbers);
    return PyErr_Occurred() ? -1 : got;
}

static int64_t extent_of(const Layout *layout, int64_t itemsize)
{
    int64_t last = 0;
    for (int64_t i = 0; i < layout->ndim; i++) {
        if (layout->sizes[i] == 0) {
            return 0;
        }
        last += (layout->sizes[i] - 1) * layout->strides[i];
    }
    return (last + 1) * itemsize;
}

static int read_span(const Member *member, PyObject *tensor, Span *out)
{
    *out = (Span){0};
    int64_t extent = member->extent;
    if (extent < 0) {
        Layout layout;
        int got = read_layout(tensor, &layout);
        if (got != 1) {
            return got;
        }
        extent = extent_of(&layout, member->itemsize);
    }
    if (extent > 0) {
        int got = read_address(tensor, &out->begin);
        if (got != 1) {
            return got;
        }
        out->end = out->begin + (uint64_t)extent;
    }
    return 1;
}

/* ---- whether two tensors have common bytes ---- */

/* A sum of multiples of `step`, from `low` to `high` times. `least` and `most`: of this term and those behind it. */
typedef struct {
    int64_t step, low, high;
    int64_t least, most;
} Term;

typedef struct {
    Term terms[2 * MAX_DIMS + 2];
    int count;
    int steps; /* how often a term was tried */
} Sum;

static void add_term(Sum *sum, int64_t step, int64_t low, int64_t high)
{
    if (step == 0 || low == high) {
        return;
    }
    int place = 0;
    while (place < sum->count && sum->terms[place].step > step) {
        place++;
    }
    if (place < sum->count && sum->terms[place].step == step) {
        sum->terms[place].low += low;
        sum->terms[place].high += high;
        return;
    }
    memmove(&sum->terms[place + 1], &sum->terms[place], (size_t)(sum->count - place) * sizeof(Term));
    sum->terms[place] = (Term){step, low, high, 0, 0};
    sum->count++;
}

static int64_t divide_down(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* Whether the terms from `at` on can add up to `rest`; also if that takes long to find out. */
static bool can_be(Sum *sum, int at, int64_t rest)
{
    if (at == sum->count) {
        return rest == 0;
    }
    const Term *term = &sum->terms[at];
    if (rest < term->least || rest > term->most || ++sum->steps > MAX_STEPS) {
        return sum->steps > MAX_STEPS;
    }
    bool last = at + 1 == sum->count;
    int64_t least = last ? 0 : term[1].least, most = last ? 0 : term[1].most;
    int64_t from = Py_MAX(term->low, -divide_down(most - rest, term->step));
    int64_t to = Py_MIN(term->high, divide_down(rest - least, term->step));
    for (int64_t times = from; times <= to; times++) {
        if (can_be(sum, at + 1, rest - times * term->step)) {
            return true;
        }
    }
    return false;
}

/* `distance`: from the first byte of `a` to that of `b`. */
static bool layouts_meet(const Layout *a, int64_t a_size, const Layout *b, int64_t b_size, int64_t distance)
{
    Sum sum = {.count = 0, .steps = 0};
    for (int64_t i = 0; i < a->ndim; i++) {
        add_term(&sum, a->strides[i] * a_size, 0, a->sizes[i] - 1);
    }
    for (int64_t i = 0; i < b->ndim; i++) {
        add_term(&sum, b->strides[i] * b_size, 1 - b->sizes[i], 0);
    }
    add_term(&sum, 1, 1 - b_size, a_size - 1);
    for (int at = sum.count - 1; at >= 0; at--) {
        Term *term = &sum.terms[at];
        bool last = at + 1 == sum.count;
        term->least = term->low * term->step + (last ? 0 : term[1].least);
        term->most = term->high * term->step + (last ? 0 : term[1].most);
    }
    return can_be(&sum, 0, distance);
}

static int tensors_meet(const MemoryObject *memory, int a, int b, PyObject *const *tensors, const Span *spans)
{
    Layout first, second;
    int got = read_layout(tensors[a], &first);
    got = got == 1 ? read_layout(tensors[b], &second) : got;
    return got != 1 ? got
                    : layouts_meet(&first, memory->members[a].itemsize, &second, memory->members[b].itemsize,
                                   (int64_t)(spans[b].begin - spans[a].begin));
}

/* ---- looking at all of them ---- */

static void sort_by_address(MemoryObject *memory, const Span *spans)
{
    for (int i = 1; i < memory->count; i++) {
        int moved = memory->order[i], place = i;
        for (; place > 0 && spans[memory->order[place - 1]].begin > spans[moved].begin; place--) {
            memory->order[place] = memory->order[place - 1];
        }
        memory->order[place] = moved;
    }
}

/* Calls `found` for each pair with common bytes of which one is written to, until it does not return 1. */
static int each_meeting(MemoryObject *memory, PyObject *const *tensors,
                        int (*found)(MemoryObject *, const Meeting *, void *), void *state)
{
    size_t bytes = (size_t)memory->count * (sizeof(Span) + sizeof(int)) + 1;
    Span *spans = PyMem_Malloc(bytes);
    if (spans == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int going = 1;
    for (int i = 0; going == 1 && i < memory->count; i++) {
        going = read_span(&memory->members[i], tensors[i], &spans[i]) < 0 ? -1 : 1;
    }
    if (going == 1) {
        sort_by_address(memory, spans);
    }
    int *order = (int *)(spans + memory->count);
    memcpy(order, memory->order, (size_t)memory->count * sizeof(int)); /* reading in Python may come back here */
    for (int i = 0; going == 1 && i < memory->count; i++) {
        const Span *span = &spans[order[i]];
        for (int j = i + 1; going == 1 && j < memory->count && spans[order[j]].begin < span->end; j++) {
            int a = Py_MIN(order[i], order[j]), b = Py_MAX(order[i], order[j]);
            if (memory->members[a].written || memory->members[b].written) {
                going = tensors_meet(memory, a, b, tensors, spans);
                if (going == 1) {
                    Meeting meeting = {a, b, (int64_t)(spans[b].begin - spans[a].begin),
                                       (int64_t)(spans[b].end - spans[a].end)};
                    going = found(memory, &meeting, state);
                } else if (going == 0) {
                    going = 1;
                }
            }
        }
    }
    PyMem_Free(spans);
    return going;
}

static int is_known(MemoryObject *memory, const Meeting *meeting, void *state)
{
    for (int i = 0; i < memory->n_meetings; i++) {
        const Meeting *known = &memory->meetings[i];
        if (known->a == meeting->a && known->b == meeting->b) {
            ++*(int *)state;
            /* Operators ask whether all of their operands' memory is the same, which they have ends for. */
            return known->begin == meeting->begin && (known->end == 0) == (meeting->end == 0);
        }
    }
    return 0;
}

int memory_holds(MemoryObject *memory, PyObject *const *tensors)
{
    int met = 0;
    int same = each_meeting(memory, tensors, is_known, &met);
    return same == 1 ? met == memory->n_meetings : same;
}

Py_ssize_t memory_count(MemoryObject *memory) { return memory->count; }

/* ---- the type ---- */

static int note_meeting(MemoryObject *memory, const Meeting *meeting, void *state)
{
    Meeting *grown = PyMem_Realloc(memory->meetings, ((size_t)memory->n_meetings + 1) * sizeof(Meeting));
    (void)state;
    if (grown == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memory->meetings = grown;
    memory->meetings[memory->n_meetings++] = *meeting;
    return 1;
}

static int read_member(Member *member, PyObject *tensor, PyObject *written, PyObject *varies)
{
    if (!is_tensor(tensor)) {
        PyErr_Format(PyExc_TypeError, "a tensor is expected, not %.200s", Py_TYPE(tensor)->tp_name);
        return -1;
    }
    PyObject *itemsize = PyObject_CallMethod(tensor, "element_size", NULL);
    if (itemsize == NULL) {
        return -1;
    }
    *member = (Member){PyObject_IsTrue(written) == 1, PyLong_AsLongLong(itemsize), -1};
    Py_DECREF(itemsize);
    if (PyObject_IsTrue(varies) == 1) {
        return PyErr_Occurred() ? -1 : 0;
    }
    Layout layout;
    int got = read_layout(tensor, &layout);
    member->extent = got == 1 ? extent_of(&layout, member->itemsize) : 0;
    return got < 0 || PyErr_Occurred() ? -1 : 0;
}

static PyObject *memory_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"tensors", "written", "varying", NULL};
    PyObject *tensors, *written, *varying;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!:Memory", names, &PyTuple_Type, &tensors, &PyTuple_Type,
                                     &written, &PyTuple_Type, &varying)) {
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(tensors);
    if (PyTuple_GET_SIZE(written) != count || PyTuple_GET_SIZE(varying) != count) {
        return PyErr_Format(PyExc_ValueError, "what is said of %zd tensors must be said of each", count);
    }
    MemoryObject *self = (MemoryObject *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->written = Py_NewRef(written);
    self->varying = Py_NewRef(varying);
    self->count = (int)count;
    self->members = PyMem_Calloc((size_t)count + 1, sizeof(Member));
    self->order = PyMem_Calloc((size_t)count + 1, sizeof(int));
    int status = self->members == NULL || self->order == NULL ? (PyErr_NoMemory(), -1) : 0;
    for (Py_ssize_t i = 0; status == 0 && i < count; i++) {
        self->order[i] = (int)i;
        status = read_member(&self->members[i], PyTuple_GET_ITEM(tensors, i), PyTuple_GET_ITEM(written, i),
                             PyTuple_GET_ITEM(varying, i));
    }
    if (status < 0 || each_meeting(self, ((PyTupleObject *)tensors)->ob_item, note_meeting, NULL) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void memory_dealloc(MemoryObject *self)
{
    Py_XDECREF(self->written);
    Py_XDECREF(self->varying);
    PyMem_Free(self->members);
    PyMem_Free(self->order);
    PyMem_Free(self->meetings);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *memory_check(MemoryObject *self, PyObject *tensors)
{
    if (!PyTuple_Check(tensors) || PyTuple_GET_SIZE(tensors) != self->count) {
        return PyErr_Format(PyExc_TypeError, "a tuple of %d tensors is expected", self->count);
    }
    for (int i = 0; i < self->count; i++) {
        if (!is_tensor(PyTuple_GET_ITEM(tensors, i))) {
            return PyErr_Format(PyExc_TypeError, "a tuple of %d tensors is expected", self->count);
        }
    }
    int same = memory_holds(self, ((PyTupleObject *)tensors)->ob_item);
    return same < 0 ? NULL : PyBool_FromLong(same);
}

static PyObject *memory_meetings(MemoryObject *self, void *Py_UNUSED(closure))
{
    PyObject *pairs = PyTuple_New(self->n_meetings);
    for (int i = 0; pairs != NULL && i < self->n_meetings; i++) {
        PyObject *pair = Py_BuildValue("(ii)", self->meetings[i].a, self->meetings[i].b);
        if (pair == NULL) {
            Py_CLEAR(pairs);
        } else {
            PyTuple_SET_ITEM(pairs, i, pair);
        }
    }
    return pairs;
}

static PyMethodDef memory_methods[] = {
    {"holds", (PyCFunction)memory_check, METH_O,
     "holds(tensors, /)\n--\n\nWhether the same pairs of these tensors meet, in the same way."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef memory_members[] = {
    {"written", T_OBJECT_EX, offsetof(MemoryObject, written), READONLY, "whether each of the tensors is written to"},
    {"varying", T_OBJECT_EX, offsetof(MemoryObject, varying), READONLY, "whether the sizes of each may change"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef memory_attributes[] = {
    {"meetings", (getter)memory_meetings, NULL, "the pairs of positions whose tensors have common bytes", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject Memory_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.Memory",
    .tp_basicsize = sizeof(MemoryObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = memory_new,
    .tp_dealloc = (destructor)memory_dealloc,
    .tp_methods = memory_methods,
    .tp_members = memory_members,
    .tp_getset = memory_attributes,
};
