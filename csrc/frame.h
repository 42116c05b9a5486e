/* The frame of the running CPython. Each version's header gives the same names:

   Frame                    the interpreter frame
   frame_code, frame_function
   frame_is_fresh           started, but has not run its first instruction, and lives on the thread's data stack
   frame_set_code           set the code and go to its first instruction (the reference is stolen)
   frame_object             the Python frame object, if one was made
   frame_slots              arguments, locals, cells and free variables
   frame_abandon            end a fresh frame with the exception that is set; returns NULL
   frame_discard            end a fresh frame that was not needed
   frames_left              how many more Python frames the thread may enter
   code_frame_size          words that a frame of this code takes on the data stack
   code_reserve_frame       let future frames of this code take at least so many words
   code_get_extra, code_set_extra, code_request_extra */
#ifndef ONEGRAPH_FRAME_H
#define ONEGRAPH_FRAME_H

#include "onegraph.h"

#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#if PY_VERSION_HEX < 0x030c0000
#include "frame_311.h"
#elif PY_VERSION_HEX < 0x030d0000
#include "frame_312.h"
#else
#include "frame_313.h"
#endif

/* Run `replacement` in a fresh frame; consumes the reference to it (replace.c). */
PyObject *frame_run_replaced(PyThreadState *tstate, Frame *frame, PyCodeObject *replacement);
/* The same for residual code: where its graph fails without a trace, the frame runs as it was written. */
PyObject *frame_run_residual(PyThreadState *tstate, Frame *frame, PyCodeObject *replacement);
/* Note that the graph of the running frame, of code `replacement`, has failed; `slots` holds its arguments. */
void failed_frame_set(PyCodeObject *replacement, PyObject **slots);

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
