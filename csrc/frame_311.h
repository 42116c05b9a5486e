/* CPython 3.11: the caller of the evaluator clears the frame. */
#define code_get_extra _PyCode_GetExtra
#define code_set_extra _PyCode_SetExtra
#define code_request_extra _PyEval_RequestCodeExtraIndex

typedef struct _PyInterpreterFrame Frame;

static inline PyCodeObject *frame_code(Frame *frame) { return frame->f_code; }
static inline PyFunctionObject *frame_function(Frame *frame) { return frame->f_func; }
static inline PyFrameObject *frame_object(Frame *frame) { return frame->frame_obj; }
static inline Frame *running_frame(PyThreadState *tstate) { return tstate->cframe->current_frame; }
static inline PyObject **frame_slots(Frame *frame) { return frame->localsplus; }

static inline int *frames_left(PyThreadState *tstate) { return &tstate->recursion_remaining; }

static inline bool frame_is_fresh(Frame *frame)
{
    return frame->owner == FRAME_OWNED_BY_THREAD && frame->prev_instr == _PyCode_CODE(frame->f_code) - 1;
}

static inline void frame_set_code(Frame *frame, PyCodeObject *code)
{
    PyCodeObject *old = frame->f_code;
    frame->f_code = code;
    frame->prev_instr = _PyCode_CODE(code) - 1;
    frame->stacktop = code->co_nlocalsplus;
    Py_DECREF(old);
}

static inline PyObject *frame_abandon(PyThreadState *UNUSED(tstate), Frame *UNUSED(frame)) { return NULL; }

/* End a fresh frame that was not needed: nothing to do, its caller clears it. */
static inline void frame_discard(PyThreadState *UNUSED(tstate), Frame *UNUSED(frame)) {}

/* Let the frame object have what the frame on the stack has, as the caller of the evaluator would do later. */
static inline void frame_end(Frame *frame)
{
    PyFrameObject *object = frame->frame_obj;
    if (object == NULL || Py_REFCNT(object) == 1) {
        return;
    }
    Frame *own = (Frame *)object->_f_frame_data;
    PyFrameObject *back = PyFrame_GetBack(object);
    memcpy(own, frame, (size_t)((char *)&frame->localsplus[frame->stacktop] - (char *)frame));
    own->owner = FRAME_OWNED_BY_FRAME_OBJECT;
    own->previous = NULL;
    own->frame_obj = NULL;
    object->f_frame = own;
    Py_XSETREF(object->f_back, back);
    memset(frame->localsplus, 0, (size_t)frame->stacktop * sizeof(PyObject *));
    frame->f_locals = NULL;
    frame->frame_obj = NULL;
    Py_INCREF(frame->f_func);
    Py_INCREF(frame->f_code);
    if (!PyObject_GC_IsTracked((PyObject *)object)) {
        PyObject_GC_Track(object);
    }
    Py_DECREF(object);
}

static inline Py_ssize_t code_frame_size(PyCodeObject *code)
{
    return code->co_nlocalsplus + code->co_stacksize + (Py_ssize_t)FRAME_SPECIALS_SIZE;
}

static inline void code_reserve_frame(PyCodeObject *code, Py_ssize_t size)
{
    if (code_frame_size(code) < size) {
        code->co_stacksize += (int)(size - code_frame_size(code));
    }
}
