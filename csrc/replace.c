/* Running other code in a frame that has not started. */
#include "frame.h"

static int count_positions(PyCodeObject *code) { return code->co_argcount + code->co_kwonlyargcount; }

static int count_arguments(PyCodeObject *code)
{
    return count_positions(code) + ((code->co_flags & CO_VARARGS) != 0) + ((code->co_flags & CO_VARKEYWORDS) != 0);
}

/* ---- beside the frame: rare, when the frame cannot grow ---- */

static PyObject *function_like(PyFunctionObject *function, PyCodeObject *code)
{
    PyObject *made = PyFunction_NewWithQualName((PyObject *)code, function->func_globals, function->func_qualname);
    if (made != NULL && code->co_nfreevars > 0) {
        PyObject *cells = PyTuple_GetSlice(function->func_closure, 0, code->co_nfreevars);
        if (cells == NULL || PyFunction_SetClosure(made, cells) < 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(cells);
    }
    return made;
}

static PyObject *positional_arguments(PyCodeObject *code, const FrameSlot *slots)
{
    PyObject *rest = code->co_flags & CO_VARARGS ? frame_slot_get(slots[count_positions(code)]) : NULL;
    Py_ssize_t n_rest = rest == NULL ? 0 : PyTuple_GET_SIZE(rest);
    PyObject *args = PyTuple_New(code->co_argcount + n_rest);
    if (args != NULL) {
        for (int i = 0; i < code->co_argcount; i++) {
            PyTuple_SET_ITEM(args, i, Py_NewRef(frame_slot_get(slots[i])));
        }
        for (Py_ssize_t i = 0; i < n_rest; i++) {
            PyTuple_SET_ITEM(args, code->co_argcount + i, Py_NewRef(PyTuple_GET_ITEM(rest, i)));
        }
    }
    return args;
}

static PyObject *keyword_arguments(PyCodeObject *code, const FrameSlot *slots)
{
    PyObject *rest = code->co_flags & CO_VARKEYWORDS ? frame_slot_get(slots[count_arguments(code) - 1]) : NULL;
    PyObject *kwargs = rest == NULL ? PyDict_New() : PyDict_Copy(rest);
    for (int i = code->co_argcount; kwargs != NULL && i < count_positions(code); i++) {
        if (PyDict_SetItem(kwargs, PyTuple_GET_ITEM(code->co_localsplusnames, i), frame_slot_get(slots[i])) < 0) {
            Py_CLEAR(kwargs);
        }
    }
    return kwargs;
}

static PyObject *run_beside(PyThreadState *tstate, Frame *frame, PyCodeObject *replacement)
{
    PyCodeObject *code = frame_code(frame);
    PyObject *function = function_like(frame_function(frame), replacement);
    PyObject *args = positional_arguments(code, frame_slots(frame));
    PyObject *kwargs = keyword_arguments(code, frame_slots(frame));
    PyObject *result = NULL;
    if (function != NULL && args != NULL && kwargs != NULL) {
        hook_state.direct = replacement;
        result = PyObject_Call(function, args, kwargs);
        hook_state.direct = NULL;
    }
    Py_XDECREF(function);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    if (result == NULL) {
        return frame_abandon(tstate, frame);
    }
    frame_discard(tstate, frame);
    return result;
}

/* ---- in the frame ---- */

PyObject *frame_run_replaced(PyThreadState *tstate, Frame *frame, PyCodeObject *replacement)
{
    PyCodeObject *code = frame_code(frame);
    FrameSlot *slots = frame_slots(frame);
    /* The frame is the top of the data stack, so it may grow. That it finds no room is rare, as the code object
       reserves room from its first entry on. A frame object that was made already has room for the original only. */
    PyObject **end = (PyObject **)frame + code_frame_size(replacement);
    bool fits = end < tstate->datastack_limit &&
                (frame_object(frame) == NULL ||
                 replacement->co_nlocalsplus <= code->co_nlocalsplus + code->co_stacksize);
    if (!fits) {
        PyObject *result = run_beside(tstate, frame, replacement);
        Py_DECREF(replacement);
        return result;
    }
    for (int i = count_arguments(code); i < replacement->co_nlocalsplus; i++) {
        slots[i] = frame_slot_of(NULL);
    }
    tstate->datastack_top = end;
    frame_set_code(frame, replacement);
    return _PyEval_EvalFrameDefault(tstate, frame, 0);
}

/* ---- where the graph fails ---- */

static _Thread_local struct {
    PyCodeObject *code; /* that ran in the frame; NULL: no graph has failed */
    PyObject *args;
    PyObject *kwargs;
} failed_frame;

static void failed_frame_clear(void)
{
    Py_CLEAR(failed_frame.code);
    Py_CLEAR(failed_frame.args);
    Py_CLEAR(failed_frame.kwargs);
}

void failed_frame_set(PyCodeObject *replacement, const FrameSlot *slots)
{
    failed_frame_clear();
    failed_frame.args = positional_arguments(replacement, slots);
    failed_frame.kwargs = keyword_arguments(replacement, slots);
    if (failed_frame.args == NULL || failed_frame.kwargs == NULL) {
        failed_frame_clear();
        return;
    }
    failed_frame.code = (PyCodeObject *)Py_NewRef(replacement);
}

/* Call the function with the arguments of the failed frame, with the hook off. */
static PyObject *run_as_written(PyFunctionObject *function)
{
    PyObject *args = failed_frame.args, *kwargs = failed_frame.kwargs;
    failed_frame.args = failed_frame.kwargs = NULL;
    failed_frame_clear();
    HookState *state = &hook_state;
    ContextObject *context = state->context;
    state->context = NULL;
    PyObject *result = PyObject_Call((PyObject *)function, args, kwargs);
    state->context = context;
    Py_DECREF(args);
    Py_DECREF(kwargs);
    return result;
}

PyObject *frame_run_residual(PyThreadState *tstate, Frame *frame, PyCodeObject *replacement)
{
    /* The frame is gone behind the call. */
    PyFunctionObject *function = (PyFunctionObject *)Py_NewRef(frame_function(frame));
    PyObject *code = Py_NewRef(frame_code(frame));
    PyObject *ran = (PyObject *)replacement;
    PyObject *result = frame_run_replaced(tstate, frame, replacement);
    if (failed_frame.code != NULL) {
        if (result == NULL && (PyObject *)failed_frame.code == ran && function->func_code == code) {
            PyErr_Clear();
            result = run_as_written(function);
        } else {
            failed_frame_clear();
        }
    }
    Py_DECREF(function);
    Py_DECREF(code);
    return result;
}
