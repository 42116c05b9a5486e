/* CPython 3.11: the caller of the evaluator clears the frame. */
#define code_get_extra _PyCode_GetExtra
#define code_set_extra _PyCode_SetExtra
#define code_request_extra _PyEval_RequestCodeExtraIndex

#define FRAME_CODE f_code
#define FRAME_FUNCTION f_func
#define FRAME_NEXT prev_instr
#define FRAME_FIRST(code) (_PyCode_CODE(code) - 1)
#define FRAMES_LEFT recursion_remaining

#include "frame_counted.h"

static inline PyObject *frame_abandon(PyThreadState *UNUSED(tstate), Frame *UNUSED(frame)) { return NULL; }

/* End a fresh frame that was not needed: nothing to do, its caller clears it. */
static inline void frame_discard(PyThreadState *UNUSED(tstate), Frame *UNUSED(frame)) {}

static inline Py_ssize_t code_frame_size(PyCodeObject *code)
{
    return code->co_nlocalsplus + code->co_stacksize + (Py_ssize_t)FRAME_SPECIALS_SIZE;
}

static inline void code_grow_frame(PyCodeObject *code, Py_ssize_t by) { code->co_stacksize += (int)by; }
