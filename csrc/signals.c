/* Signals wait while onegraph works on a frame.

   CPython runs Python handlers of signals in the thread that it takes for the main one, between two instructions of any
   Python code: also of code that torch's C++ or LLVM has called, and that must not raise. What a handler raises there
   ends the process, or is taken for an error of the work. So while a thread works, CPython is told of no main thread. It
   notes which signals come, and their handlers run when the work is done: outside of it, before the frame starts.

   Source of the field: `_Py_ThreadCanHandleSignals` in CPython's `Include/internal/pycore_pystate.h`, 3.11 to 3.14. */
#include "onegraph.h"

#undef _PyGC_FINALIZED /* CPython 3.12 has it as a macro, and as a function in what comes now */
#define Py_BUILD_CORE
#include <internal/pycore_runtime.h>
#undef Py_BUILD_CORE

#define NOBODY 0 /* no thread has this number */

/* The number under which this thread was the main one; NOBODY: its signals do not wait. */
static _Thread_local unsigned long main_before = NOBODY;

bool signals_defer(void)
{
    bool waited = main_before != NOBODY;
    if (!waited && _PyRuntime.main_thread == PyThread_get_thread_ident()) {
        main_before = _PyRuntime.main_thread;
        _PyRuntime.main_thread = NOBODY;
    }
    return waited;
}

static int do_nothing(void *UNUSED(argument)) { return 0; }

/* Run the handlers that have waited. An exception that is set stays, or is the context of what a handler raises. */
static int handle(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyErr_CheckSignals() == 0) {
        PyErr_Restore(type, value, traceback);
        return 0;
    }
    Py_AddPendingCall(do_nothing, NULL); /* where more signals wait, this makes the evaluator look for them */
    if (type != NULL) {
        PyErr_NormalizeException(&type, &value, &traceback);
        if (traceback != NULL) {
            PyException_SetTraceback(value, traceback);
        }
        PyObject *raised_type, *raised, *raised_traceback;
        PyErr_Fetch(&raised_type, &raised, &raised_traceback);
        PyErr_NormalizeException(&raised_type, &raised, &raised_traceback);
        PyException_SetContext(raised, value); /* it takes the reference */
        PyErr_Restore(raised_type, raised, raised_traceback);
        Py_DECREF(type);
        Py_XDECREF(traceback);
    }
    return -1;
}

int signals_allow(bool waited)
{
    if (waited || main_before == NOBODY) {
        return 0;
    }
    _PyRuntime.main_thread = main_before;
    main_before = NOBODY;
    HookState *state = &hook_state; /* what handlers do is not a part of the compiled program */
    HookState saved = *state;
    state->context = NULL;
    state->tracer = NULL;
    int handled = handle();
    state->context = saved.context;
    state->tracer = saved.tracer;
    return handled;
}
