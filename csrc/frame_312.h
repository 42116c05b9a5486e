/* CPython 3.12 and later: the evaluator clears the frame itself; the frame's size is a field of the code object. */
#define code_get_extra PyUnstable_Code_GetExtra
#define code_set_extra PyUnstable_Code_SetExtra
#define code_request_extra PyUnstable_Eval_RequestCodeExtraIndex

#define FRAMES_LEFT py_recursion_remaining
#if PY_VERSION_HEX >= 0x030e0000
#include "frame_314.h"
#else
#define FRAME_FUNCTION f_funcobj
#if PY_VERSION_HEX < 0x030d0000
#define FRAME_CODE f_code
#define FRAME_NEXT prev_instr
#define FRAME_FIRST(code) (_PyCode_CODE(code) - 1)
#else /* an executable for a code object, and a pointer to the next instruction itself */
#define FRAME_CODE f_executable
#define FRAME_NEXT instr_ptr
#define FRAME_FIRST(code) _PyCode_CODE(code)
#endif
#include "frame_counted.h"
#endif

/* Unwinding clears the frame. It stands before its code, as one that has not begun: tracebacks are without it. */
static inline PyObject *frame_abandon(PyThreadState *tstate, Frame *frame)
{
    frame->FRAME_NEXT = _PyCode_CODE(frame_code(frame)) - 1;
    return _PyEval_EvalFrameDefault(tstate, frame, 1);
}

/* End a fresh frame that was not needed, unseen by tracing. */
static inline void frame_discard(PyThreadState *tstate, Frame *frame)
{
    PyThreadState_EnterTracing(tstate);
    PyErr_SetNone(PyExc_StopIteration);
    frame_abandon(tstate, frame);
    PyErr_Clear();
    PyThreadState_LeaveTracing(tstate);
}

static inline Py_ssize_t code_frame_size(PyCodeObject *code) { return code->co_framesize; }

static inline void code_grow_frame(PyCodeObject *code, Py_ssize_t by) { code->co_framesize += (int)by; }
