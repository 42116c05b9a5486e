/* The frame of the running CPython. Each version's header says where its code, its function and its next instruction
   are, and what that is before the first one runs (FRAME_...), and gives

   frame_code, frame_function   borrowed
   frame_put_code           exchange the code, with an empty stack; the reference is stolen
   frame_abandon            end a fresh frame with the exception that is set; returns NULL
   frame_discard            end a fresh frame that was not needed
   code_frame_size          words that a frame of this code takes on the data stack
   code_grow_frame          let future frames of this code take so many words more
   code_get_extra, code_set_extra, code_request_extra */
#ifndef ONEGRAPH_FRAME_H
#define ONEGRAPH_FRAME_H

#include "onegraph.h"

#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe.h>
#endif
#undef Py_BUILD_CORE

typedef struct _PyInterpreterFrame Frame;

#if PY_VERSION_HEX < 0x030c0000
#include "frame_311.h"
#else
#include "frame_312.h"
#endif

/* The Python frame object, if one was made. */
static inline PyFrameObject *frame_object(Frame *frame) { return frame->frame_obj; }
/* Arguments, locals, cells and free variables. */
static inline FrameSlot *frame_slots(Frame *frame) { return (FrameSlot *)frame->localsplus; }
/* How many more Python frames the thread may enter. */
static inline int *frames_left(PyThreadState *tstate) { return &tstate->FRAMES_LEFT; }

/* Started, but has not run its first instruction, and lives on the thread's data stack. */
static inline bool frame_is_fresh(Frame *frame)
{
    return frame->owner == FRAME_OWNED_BY_THREAD && frame->FRAME_NEXT == FRAME_FIRST(frame_code(frame));
}

/* Set the code and go to its first instruction; the reference is stolen. */
static inline void frame_set_code(Frame *frame, PyCodeObject *code)
{
    frame->FRAME_NEXT = FRAME_FIRST(code);
    frame_put_code(frame, code);
}

/* Let future frames of this code take at least so many words. */
static inline void code_reserve_frame(PyCodeObject *code, Py_ssize_t size)
{
    if (code_frame_size(code) < size) {
        code_grow_frame(code, size - code_frame_size(code));
    }
}

/* Run `replacement` in a fresh frame; consumes the reference to it (replace.c). */
PyObject *frame_run_replaced(PyThreadState *tstate, Frame *frame, PyCodeObject *replacement);
/* The same for residual code: where its graph fails without a trace, the frame runs as it was written. */
PyObject *frame_run_residual(PyThreadState *tstate, Frame *frame, PyCodeObject *replacement);
/* Note that the graph of the running frame, of code `replacement`, has failed; `slots` holds its arguments. */
void failed_frame_set(PyCodeObject *replacement, const FrameSlot *slots);

/* ---- the chain of hooks (chain.c) ---- */
PyObject *hook_evaluate_frame(PyThreadState *tstate, Frame *frame, int throwing);
int chain_init(void);
/* Run the frame as the hooks below ours do. */
PyObject *chain_run_below(PyThreadState *tstate, Frame *frame, int throwing);
/* Put our hook on top, with torch's at rest in this thread; chain_end takes the result. */
HookPlace chain_begin(void);
void chain_end(HookPlace place);
/* Nothing is asked of our hook in this thread: take it out, if nothing is anywhere. */
void chain_rest(void);

#endif
