/* CPython 3.11: the caller of the evaluator clears the frame. */
#define code_get_extra _PyCode_GetExtra
#define code_set_extra _PyCode_SetExtra
#define code_request_extra _PyEval_RequestCodeExtraIndex

typedef struct _PyInterpreterFrame Frame;

static inline PyCodeObject *frame_code(Frame *frame) { return frame->f_code; }
static inline PyFunctionObject *frame_function(Frame *frame) { return frame->f_func; }
static inline PyFrameObject *frame_object(Frame *frame) { return frame->frame_obj; }
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
