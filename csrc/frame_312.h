/* CPython 3.12: the evaluator clears the frame itself; the frame's size is a field of the code object. */
#define code_get_extra PyUnstable_Code_GetExtra
#define code_set_extra PyUnstable_Code_SetExtra
#define code_request_extra PyUnstable_Eval_RequestCodeExtraIndex

typedef struct _PyInterpreterFrame Frame;

static inline PyCodeObject *frame_code(Frame *frame) { return frame->f_code; }
static inline PyFunctionObject *frame_function(Frame *frame) { return (PyFunctionObject *)frame->f_funcobj; }
static inline PyFrameObject *frame_object(Frame *frame) { return frame->frame_obj; }
static inline PyObject **frame_slots(Frame *frame) { return frame->localsplus; }

static inline int *frames_left(PyThreadState *tstate) { return &tstate->py_recursion_remaining; }

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

static inline PyObject *frame_abandon(PyThreadState *tstate, Frame *frame)
{
    return _PyEval_EvalFrameDefault(tstate, frame, 1); /* unwinds, and clears the frame */
}

/* End a fresh frame that was not needed, unseen by tracing. */
static inline void frame_discard(PyThreadState *tstate, Frame *frame)
{
    PyThreadState_EnterTracing(tstate);
    PyErr_SetNone(PyExc_StopIteration);
    _PyEval_EvalFrameDefault(tstate, frame, 1);
    PyErr_Clear();
    PyThreadState_LeaveTracing(tstate);
}

static inline Py_ssize_t code_frame_size(PyCodeObject *code) { return code->co_framesize; }

static inline void code_reserve_frame(PyCodeObject *code, Py_ssize_t size)
{
    if (code->co_framesize < size) {
        code->co_framesize = (int)size;
    }
}
