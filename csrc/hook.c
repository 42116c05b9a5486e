/* The frame hook (PEP 523). A frame that has not started yet gets the code of an entry that fits, in place: the
   evaluator then makes cells, traces and clears it as any other frame. */
#include "frame.h"

#define IS_FUNCTION (CO_OPTIMIZED | CO_NEWLOCALS)
#define OWN_FRAMES 500 /* what a callback may enter where the program is at its limit of recursion */
#define NEAR_LIMIT 64  /* what the code of an entry may need beyond what the program needs */
#define SUSPENDS (CO_GENERATOR | CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR)

_Thread_local HookState hook_state;

/* ---- asking Python ---- */

/* The first slots of a frame at its start; free variables as the cells that the function brings. */
static PyObject *start_values(Frame *frame)
{
    PyCodeObject *code = frame_code(frame);
    PyObject *closure = frame_function(frame)->func_closure;
    const FrameSlot *slots = frame_slots(frame);
    int n_bound = code->co_nlocalsplus - code->co_nfreevars;
    PyObject *values = PyTuple_New(code->co_nlocalsplus);
    if (values != NULL) {
        for (int i = 0; i < code->co_nlocalsplus; i++) {
            PyObject *value = i < n_bound ? frame_slot_get(slots[i]) : PyTuple_GET_ITEM(closure, i - n_bound);
            PyTuple_SET_ITEM(values, i, Py_NewRef(value == NULL ? og_null : value));
        }
    }
    return values;
}

/* callback(function, code, values); neither the user's tracing sees it, nor our hook, nor torch's. */
static PyObject *ask(PyThreadState *tstate, Frame *frame, PyObject *callback)
{
    PyObject *values = start_values(frame);
    if (values == NULL) {
        return NULL;
    }
    HookState *state = &hook_state;
    HookState saved = *state;
    state->context = NULL;
    state->tracer = NULL;
    PyObject *args[] = {(PyObject *)frame_function(frame), (PyObject *)frame_code(frame), values};
    Py_INCREF(callback);
    HookPlace place = chain_begin();
    PyThreadState_EnterTracing(tstate);
    PyObject *answer = PyObject_Vectorcall(callback, args, 3, NULL);
    PyThreadState_LeaveTracing(tstate);
    chain_end(place);
    Py_DECREF(callback);
    Py_DECREF(values);
    state->context = saved.context;
    state->tracer = saved.tracer;
    return answer;
}

/* The limit is the program's: it may stand at it, and must not see that we need more. */
static PyObject *ask_deeper(PyThreadState *tstate, Frame *frame, PyObject *callback)
{
    HookState *state = &hook_state;
    if (state->deepened) {
        return ask(tstate, frame, callback);
    }
    state->deepened = true;
    state->frames_left = *frames_left(tstate);
    *frames_left(tstate) += OWN_FRAMES;
    PyObject *answer = ask(tstate, frame, callback);
    *frames_left(tstate) -= OWN_FRAMES;
    state->deepened = false;
    return answer;
}

/* While a thread works on a frame, another that starts in it runs as it is written: a finalizer's, a backend's. It would
   wait for what the thread itself holds. An answer that a signal's handler puts aside is kept by who has given it. */
static PyObject *ask_region(PyThreadState *tstate, Frame *frame, PyObject *callback)
{
    HookState *state = &hook_state;
    if (state->working) {
        return Py_NewRef(og_eagerly);
    }
    state->working = true;
    bool waited = signals_defer();
    PyObject *answer = ask_deeper(tstate, frame, callback);
    state->working = false;
    if (signals_allow(waited) < 0) {
        Py_CLEAR(answer);
    }
    return answer;
}

PyObject *module_working(PyObject *UNUSED(module), PyObject *flag)
{
    HookState *state = &hook_state;
    bool previous = state->working;
    state->working = flag == Py_True;
    if (state->working) {
        signals_defer();
    } else if (signals_allow(false) < 0) {
        return NULL;
    }
    return PyBool_FromLong(previous);
}

PyObject *module_deepen(PyObject *UNUSED(module), PyObject *count)
{
    long more = PyLong_AsLong(count);
    if (more == -1 && PyErr_Occurred()) {
        return NULL;
    }
    *frames_left(PyThreadState_Get()) += (int)more;
    Py_RETURN_NONE;
}

PyObject *module_frames_left(PyObject *UNUSED(module), PyObject *UNUSED(ignored))
{
    HookState *state = &hook_state;
    return PyLong_FromLong(state->deepened ? state->frames_left : *frames_left(PyThreadState_Get()));
}

/* Close to its limit of recursion the program runs as it was written: it meets the limit where it would. */
static bool is_near_limit(PyThreadState *tstate, int levels)
{
    return *frames_left(tstate) < NEAR_LIMIT + levels;
}

/* The frame of a tail call leaves what it asks for to who has called it. */
static PyObject *run_residual(PyThreadState *tstate, Frame *frame, PyCodeObject *replacement, int opened, bool is_tail)
{
    *frames_left(tstate) -= opened;
    PyObject *result = frame_run_residual(tstate, frame, replacement);
    *frames_left(tstate) += opened;
    return is_tail ? result : resume_tail_calls(result);
}

/* Nothing of what the frame calls is looked at either. */
static PyObject *run_eagerly(PyThreadState *tstate, Frame *frame, HookState *state)
{
    ContextObject *context = state->context;
    state->context = NULL;
    PyObject *result = chain_run_below(tstate, frame, 0);
    state->context = context;
    return result;
}

static PyObject *run_as_answered(PyThreadState *tstate, Frame *frame, ContextObject *context, bool is_tail)
{
    PyCodeObject *code = frame_code(frame);
    PyObject *answer = ask_region(tstate, frame, context->callback);
    if (answer == NULL) {
        return frame_abandon(tstate, frame);
    }
    if (answer == og_eagerly) {
        Py_DECREF(answer);
        return run_eagerly(tstate, frame, &hook_state);
    }
    PyCodeObject *replacement = NULL;
    int opened = 0;
    bool failed = false;
    if (answer == og_skip) {
        failed = code_close(code, context) < 0;
    } else if (Py_IS_TYPE(answer, &Entry_Type)) {
        EntryObject *entry = (EntryObject *)answer;
        if (entry->context != context) {
            PyErr_SetString(PyExc_ValueError, "the entry belongs to another context");
            failed = true;
        } else {
            failed = code_add_entry(code, entry) < 0;
            opened = entry->opened;
            if (!is_near_limit(tstate, entry->levels)) {
                replacement = (PyCodeObject *)Py_NewRef(entry->code);
            }
        }
    } else if (answer != Py_None) {
        PyErr_Format(PyExc_TypeError, "the callback must return an Entry, SKIP, EAGERLY or None, not %.200s",
                     Py_TYPE(answer)->tp_name);
        failed = true;
    }
    Py_DECREF(answer);
    if (failed) {
        Py_XDECREF(replacement);
        return frame_abandon(tstate, frame);
    }
    return replacement == NULL ? chain_run_below(tstate, frame, 0)
                               : run_residual(tstate, frame, replacement, opened, is_tail);
}

/* ---- the hook ---- */

/* The first entry that fits, as a new reference; NULL when none does or, with an exception, on error. */
static EntryObject *find_entry(Frame *frame, PyObject *entries)
{
    PyCodeObject *code = frame_code(frame);
    EntryObject *found = NULL;
    Py_ssize_t n_slots = code->co_nlocalsplus - code->co_nfreevars;
    Py_INCREF(entries); /* guards may run Python, which may drop it */
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(entries); i++) {
        EntryObject *entry = (EntryObject *)PyTuple_GET_ITEM(entries, i);
        Py_ssize_t failing = entry->guards == NULL ? GUARD_PASSED
                                                   : guard_program_run(entry->guards, frame_function(frame),
                                                                       frame_slots(frame), n_slots);
        if (failing == GUARD_PASSED) {
            entry->hits++;
            found = (EntryObject *)Py_NewRef(entry);
            break;
        }
        if (failing == GUARD_ERROR) {
            break;
        }
    }
    Py_DECREF(entries);
    return found;
}

static PyObject *run_in_context(PyThreadState *tstate, Frame *frame, HookState *state)
{
    ContextObject *context = state->context;
    PyCodeObject *code = frame_code(frame);
    CodeRecord *record = code_records(code);
    bool is_tail = false;
    if (state->given == code) {
        is_tail = state->given_tail;
        state->given = NULL;
        resume_release(state->given_args, state->given_count);
    }
    /* A program that sets a trace function in compiled code wants to see the lines of what it calls then. */
    bool watched = tstate->c_traceobj != state->watching;
    if (record == CODE_SKIPPED || !frame_is_fresh(frame) || state->direct == code || watched || is_near_limit(tstate, 1)) {
        state->direct = NULL;
        return chain_run_below(tstate, frame, 0);
    }
    if (record == NULL && ((code->co_flags & SUSPENDS) || (code->co_flags & IS_FUNCTION) != IS_FUNCTION)) {
        if (code_skip(code) < 0) {
            PyErr_Clear(); /* no memory for the mark: ask again next time */
        }
        return chain_run_below(tstate, frame, 0);
    }
    while (record != NULL && record->context != context) {
        record = record->next_of_code;
    }
    if (record != NULL) {
        /* The record may be gone when the guards have run. Where breaks are errors, those of closed code are too. */
        bool closed = record->closed && state->settings[ERROR_ON_GRAPH_BREAK] <= 0;
        if (record->entries != NULL) {
            state->context = NULL;
            bool waited = signals_defer();
            EntryObject *entry = find_entry(frame, record->entries);
            if (signals_allow(waited) < 0) {
                Py_CLEAR(entry);
            }
            state->context = context;
            if (entry != NULL) {
                bool is_near = is_near_limit(tstate, entry->levels);
                PyCodeObject *replacement = is_near ? NULL : (PyCodeObject *)Py_NewRef(entry->code);
                int opened = entry->opened;
                Py_DECREF(entry);
                return is_near ? chain_run_below(tstate, frame, 0)
                               : run_residual(tstate, frame, replacement, opened, is_tail);
            }
            if (PyErr_Occurred()) {
                return frame_abandon(tstate, frame);
            }
        }
        if (closed) {
            return chain_run_below(tstate, frame, 0);
        }
    }
    return run_as_answered(tstate, frame, context, is_tail);
}

/* While the tracer runs native code, Python frames that start in there come to it. A frame that it replaces is its
   own code and is not traced. */
static PyObject *run_traced(PyThreadState *tstate, Frame *frame, HookState *state)
{
    PyCodeObject *code = frame_code(frame);
    if (!frame_is_fresh(frame) || (code->co_flags & IS_FUNCTION) != IS_FUNCTION) {
        return chain_run_below(tstate, frame, 0);
    }
    PyObject *answer = ask(tstate, frame, state->tracer);
    if (answer == NULL) {
        return frame_abandon(tstate, frame);
    }
    if (answer == Py_None) {
        Py_DECREF(answer);
        return chain_run_below(tstate, frame, 0);
    }
    if (!PyCode_Check(answer)) {
        PyErr_Format(PyExc_TypeError, "the trace callback must return a code object or None, not %.200s",
                     Py_TYPE(answer)->tp_name);
        Py_DECREF(answer);
        return frame_abandon(tstate, frame);
    }
    if (check_replacement(code, (PyCodeObject *)answer) < 0) {
        Py_DECREF(answer);
        return frame_abandon(tstate, frame);
    }
    HookState saved = *state;
    state->context = NULL;
    state->tracer = NULL;
    PyObject *result = frame_run_replaced(tstate, frame, (PyCodeObject *)answer);
    state->context = saved.context;
    state->tracer = saved.tracer;
    return result;
}

/* ---- what we ask the program's objects ---- */

static PyObject *getattribute_name, *class_name; /* interned */

PyObject *module_looking(PyObject *UNUSED(module), PyObject *flag)
{
    HookState *state = &hook_state;
    bool previous = state->looking;
    state->looking = flag == Py_True;
    return PyBool_FromLong(previous);
}

/* Whether the frame is that of a `__getattribute__(self, name)` that is asked for the class of an object: `isinstance`
   does so where the type alone does not answer. */
static bool is_asked_for_class(Frame *frame)
{
    PyCodeObject *code = frame_code(frame);
    const FrameSlot *slots = frame_slots(frame);
    return code->co_name == getattribute_name && code->co_argcount == 2 && frame_slot_get(slots[0]) != NULL &&
           frame_slot_get(slots[1]) == class_name && frame_is_fresh(frame);
}

/* Trace functions and audit hooks watch the program: they are not part of it, and run as they are written. */
static bool is_watcher(PyThreadState *tstate, const HookState *state) { return tstate->tracing > state->watchers; }

PyObject *hook_evaluate_frame(PyThreadState *tstate, Frame *frame, int throwing)
{
    HookState *state = &hook_state;
    if (state->passed_on == frame) {
        return _PyEval_EvalFrameDefault(tstate, frame, throwing);
    }
    if (!throwing) {
        bool seen = !is_watcher(tstate, state);
        if (state->tracer != NULL && seen) {
            return run_traced(tstate, frame, state);
        }
        if (state->context != NULL && seen) {
            return run_in_context(tstate, frame, state);
        }
        if (state->looking && is_asked_for_class(frame)) {
            PyObject *cls = Py_NewRef(Py_TYPE(frame_slot_get(frame_slots(frame)[0])));
            frame_discard(tstate, frame);
            return cls;
        }
        chain_rest();
    }
    return chain_run_below(tstate, frame, throwing);
}

int hook_init(void)
{
    getattribute_name = PyUnicode_InternFromString("__getattribute__");
    class_name = PyUnicode_InternFromString("__class__");
    return getattribute_name == NULL || class_name == NULL ? -1 : chain_init();
}
