/* Calling resume functions without growing the stack: a replacement that breaks returns what is to be called next, and
   the hook calls it when the frame has ended. So a loop with a break in its body runs in constant depth, the stack is
   as deep as that of the program as it was written, and tracebacks have its entries alone.

   The frames that run in the place of one of the program are one to whoever holds on to one of them: a traceback, or a
   frame that it has called. What the last one has in its variables lives as long as the first. So each that is held has
   its rest in its last variable: the cell in which that one is which runs then, and the frames of calls that it was in. */
#include "frame.h"
#include <stddef.h>

typedef struct {
    PyObject_HEAD
    PyObject *function;
    PyObject *args;   /* tuple */
    PyObject *frame;  /* that ends with it, if others hold on to it; or NULL */
    Py_ssize_t holds; /* how many references there were to that frame */
    Py_ssize_t held;  /* how many of the program's frames that go on, from the outermost on, are held with it */
    Py_ssize_t known; /* how many of them had been there when that frame began */
} TailCallObject;

/* Where a frame has its list; NULL if it has no place for one. */
static PyObject **place_of_rest(Frame *frame)
{
    PyCodeObject *code = frame_code(frame);
    int last = code->co_nlocals - 1;
    if (last < 0 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_localsplusnames, last), ".rest") != 0) {
        return NULL;
    }
    return &frame_slots(frame)[last];
}

static PyObject *tail_call_new(PyTypeObject *type, PyObject *args, PyObject *UNUSED(kwargs))
{
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    if (count < 3 || !PyFunction_Check(PyTuple_GET_ITEM(args, 2))) {
        PyErr_SetString(PyExc_TypeError, "TailCall needs two numbers of frames and a function written in Python");
        return NULL;
    }
    Py_ssize_t held = PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 0));
    Py_ssize_t known = PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 1));
    if (PyErr_Occurred()) {
        return NULL;
    }
    TailCallObject *self = (TailCallObject *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->held = held;
        self->known = known;
        self->function = Py_NewRef(PyTuple_GET_ITEM(args, 2));
        self->args = PyTuple_GetSlice(args, 3, count);
        if (self->args == NULL) {
            Py_CLEAR(self);
            return NULL;
        }
        Frame *frame = running_frame(PyThreadState_Get());
        PyObject *object = frame == NULL ? NULL : (PyObject *)frame_object(frame);
        if (object != NULL && Py_REFCNT(object) > 1 && place_of_rest(frame) != NULL) {
            self->holds = Py_REFCNT(object);
            self->frame = Py_NewRef(object);
        }
    }
    return (PyObject *)self;
}

static int tail_call_traverse(TailCallObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->args);
    Py_VISIT(self->frame);
    return 0;
}

static int tail_call_clear(TailCallObject *self)
{
    Py_CLEAR(self->function);
    Py_CLEAR(self->args);
    Py_CLEAR(self->frame);
    return 0;
}

static void tail_call_dealloc(TailCallObject *self)
{
    PyObject_GC_UnTrack(self);
    tail_call_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject TailCall_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.TailCall",
    .tp_doc = PyDoc_STR("TailCall(held, known, function, *args): what a resume function returns to have it called in its "
                        "place."),
    .tp_basicsize = sizeof(TailCallObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = tail_call_new,
    .tp_traverse = (traverseproc)tail_call_traverse,
    .tp_clear = (inquiry)tail_call_clear,
    .tp_dealloc = (destructor)tail_call_dealloc,
};

/* The frame of the tail call has its arguments: what it drops from now on must not live on in here. */
void resume_release_args(PyObject *args)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        Py_SETREF(PyTuple_GET_ITEM(args, i), Py_NewRef(Py_None));
    }
}

/* What is known of the frames that tail calls run in the place of one. */
struct Rest {
    PyObject *cell;          /* the one that runs now; NULL: nobody holds on to those before it */
    struct RestObject *held; /* borrowed: of the last of those that are held; or NULL */
    Py_ssize_t begun;        /* how many frames have begun: the one that runs, and then those of calls */
};

/* The rest of a frame: it ends with the frame, and with it those frames that nobody else holds on to. */
typedef struct RestObject {
    PyObject_HEAD
    PyObject *frames;          /* list: the cell, and those of calls */
    struct Rest *owner;        /* the call that is still to add to it; or NULL */
    struct RestObject *before; /* borrowed: of a frame that ended before, and is held; or NULL */
    Py_ssize_t depth;          /* how many of the program's frames are held with it, as far as they are not over */
} RestObject;

static int rest_traverse(RestObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->frames);
    return 0;
}

/* The call has ended: nothing is added any more. */
static void rest_let_go(struct Rest *rest)
{
    while (rest->held != NULL) {
        RestObject *last = rest->held;
        rest->held = last->before;
        last->owner = NULL;
        last->before = NULL;
    }
}

static int rest_clear(RestObject *self)
{
    if (self->owner != NULL) {
        RestObject **place = &self->owner->held;
        while (*place != NULL && *place != self) {
            place = &(*place)->before;
        }
        if (*place != NULL) {
            *place = self->before;
        }
        self->owner = NULL;
        self->before = NULL;
    }
    Py_CLEAR(self->frames);
    return 0;
}

static void rest_dealloc(RestObject *self)
{
    PyObject_GC_UnTrack(self);
    rest_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Rest_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.Rest",
    .tp_doc = PyDoc_STR("What a frame that has ended keeps of those that run in its place: the cell with the last one, "
                        "those of calls."),
    .tp_basicsize = sizeof(RestObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = (traverseproc)rest_traverse,
    .tp_clear = (inquiry)rest_clear,
    .tp_dealloc = (destructor)rest_dealloc,
};

/* A rest with the cell of the frame that comes next. Its owner adds to it. */
static RestObject *rest_new(struct Rest *owner, Py_ssize_t depth)
{
    RestObject *self = (RestObject *)Rest_Type.tp_alloc(&Rest_Type, 0);
    if (self != NULL) {
        self->frames = Py_BuildValue("[O]", owner->cell);
        if (self->frames == NULL) {
            Py_CLEAR(self);
        } else {
            self->owner = owner;
            self->depth = depth;
            self->before = owner->held;
            owner->held = self;
        }
    }
    return self;
}

/* The frame that has ended with this call gets a rest, if others hold on to it. */
static void rest_note_end(struct Rest *rest, TailCallObject *call)
{
    rest->begun = 0;
    for (RestObject *held = rest->held; held != NULL; held = held->before) {
        held->depth = Py_MIN(held->depth, call->known);
    }
    if (rest->cell != NULL && Py_REFCNT(rest->cell) == 1) {
        Py_CLEAR(rest->cell); /* nobody holds on to them any more */
    }
    if (call->frame == NULL) {
        return;
    }
    bool in_cell = rest->cell != NULL && PyCell_GET(rest->cell) == call->frame;
    if (call->holds > 1 + in_cell) {
        rest->cell = rest->cell == NULL ? PyCell_New(NULL) : rest->cell;
        RestObject *made = rest->cell == NULL ? NULL : rest_new(rest, call->held);
        if (made == NULL) {
            PyErr_Clear();
        } else {
            Py_XSETREF(*place_of_rest(((PyFrameObject *)call->frame)->f_frame), (PyObject *)made);
        }
    }
    Py_CLEAR(call->frame);
}

/* What comes behind a replacement whose frame has ended: what it asks for is called, until there is a result. */
PyObject *resume_tail_calls(PyObject *result)
{
    if (result == NULL || !Py_IS_TYPE(result, &TailCall_Type)) {
        return result;
    }
    struct Rest rest = {NULL, NULL, 0}, *outer = hook_state.rest;
    hook_state.rest = &rest;
    while (result != NULL && Py_IS_TYPE(result, &TailCall_Type)) {
        TailCallObject *next = (TailCallObject *)result;
        rest_note_end(&rest, next);
        hook_state.tail = (PyCodeObject *)PyFunction_GET_CODE(next->function);
        hook_state.tail_args = next->args;
        result = PyObject_Call(next->function, next->args, NULL);
        hook_state.tail = NULL;
        hook_state.tail_args = NULL;
        Py_DECREF(next);
    }
    hook_state.rest = outer;
    rest_let_go(&rest);
    Py_XDECREF(rest.cell);
    return result;
}

PyObject *resume_call(PyObject *UNUSED(module), PyObject *call)
{
    if (!Py_IS_TYPE(call, &TailCall_Type)) {
        PyErr_SetString(PyExc_TypeError, "resume needs a TailCall");
        return NULL;
    }
    return resume_tail_calls(Py_NewRef(call));
}

/* ---- calls in the place of the program's ---- */

/* Behind a frame hook CPython keeps the operands of a call on the stack until it returns; without one, the frame that is
   called has them to itself. Here the operands are taken from the stack, and released when the frame starts. This is an
   object with a vectorcall, not a function: calling a built-in function takes a level of the limit of recursion. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
} HandOverObject;

static PyObject *hand_over(PyObject *UNUSED(self), PyObject *const *args, size_t nargsf, PyObject *names)
{
    PyObject **stack = (PyObject **)args;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    Py_ssize_t total = count + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
    if (count == 0) {
        PyErr_SetString(PyExc_TypeError, "hand_over needs what is to be called");
        return NULL;
    }
    PyObject *few[10], **given = total < 10 ? few : PyMem_New(PyObject *, total + 1);
    if (given == NULL) {
        return PyErr_NoMemory();
    }
    bool is_method = PyMethod_Check(stack[0]);
    PyObject *callable = Py_NewRef(is_method ? PyMethod_GET_FUNCTION(stack[0]) : stack[0]);
    Py_ssize_t filled = 0;
    if (is_method) {
        given[filled++] = Py_NewRef(PyMethod_GET_SELF(stack[0]));
    }
    for (Py_ssize_t i = 0; i < total; i++) {
        if (i > 0) {
            given[filled++] = Py_NewRef(stack[i]);
        }
        Py_SETREF(stack[i], Py_NewRef(Py_None));
    }
    HookState *state = &hook_state;
    if (PyFunction_Check(callable)) {
        state->given = (PyCodeObject *)PyFunction_GET_CODE(callable);
        state->given_args = given;
        state->given_count = filled;
    }
    PyObject *result = PyObject_Vectorcall(callable, given, (size_t)(count - 1 + is_method), names);
    state->given = NULL;
    for (Py_ssize_t i = 0; i < filled; i++) {
        Py_XDECREF(given[i]);
    }
    Py_DECREF(callable);
    if (given != few) {
        PyMem_Free(given);
    }
    return result;
}

static PyTypeObject HandOver_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.HandOver",
    .tp_doc = PyDoc_STR("hand_over(function, *args, **kwargs): call a function that has its arguments to itself: the "
                        "calling frame has not."),
    .tp_basicsize = sizeof(HandOverObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(HandOverObject, vectorcall),
};

PyObject *resume_hand_over_new(void)
{
    if (PyType_Ready(&HandOver_Type) < 0) {
        return NULL;
    }
    HandOverObject *self = PyObject_New(HandOverObject, &HandOver_Type);
    if (self != NULL) {
        self->vectorcall = hand_over;
    }
    return (PyObject *)self;
}

/* The first rest from `held` on that holds the program's frame which begins now. */
static RestObject *holding(RestObject *held, struct Rest *rest)
{
    while (held != NULL && held->depth <= rest->begun) {
        held = held->before;
    }
    return held;
}

bool resume_is_held(void)
{
    struct Rest *rest = hook_state.rest;
    return rest != NULL && rest->cell != NULL && (rest->begun == 0 || holding(rest->held, rest) != NULL);
}

PyObject *resume_take_over(PyObject *UNUSED(module), PyObject *UNUSED(ignored))
{
    struct Rest *rest = hook_state.rest;
    if (rest == NULL || rest->cell == NULL) {
        Py_RETURN_NONE;
    }
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    if (rest->begun == 0 && PyCell_Set(rest->cell, frame) < 0) {
        return NULL;
    }
    RestObject *held = rest->begun == 0 ? NULL : holding(rest->held, rest);
    for (; held != NULL; held = holding(held->before, rest)) {
        if (PyList_Append(held->frames, frame) < 0) {
            return NULL;
        }
    }
    rest->begun++;
    Py_RETURN_NONE;
}

/* ---- frames of tracebacks ---- */

PyObject *resume_set_back(PyObject *UNUSED(module), PyObject *args)
{
    PyFrameObject *frame;
    PyObject *back;
    if (!PyArg_ParseTuple(args, "O!O:set_back", &PyFrame_Type, &frame, &back)) {
        return NULL;
    }
    if (back != Py_None && !PyFrame_Check(back)) {
        PyErr_SetString(PyExc_TypeError, "a frame goes back to a frame or to nothing");
        return NULL;
    }
    Py_XSETREF(frame->f_back, back == Py_None ? NULL : (PyFrameObject *)Py_NewRef(back));
    Py_RETURN_NONE;
}
