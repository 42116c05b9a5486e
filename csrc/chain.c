/* The chain of frame hooks: ours is on top while a region or a tracing is open, beside others that come and go.

   torch's own compiler puts its hook on top when a thread starts to use it, and when none does any more sets what was
   there before, whatever stands on top by then. So our place is looked after wherever it matters, and torch's hook rests
   in a thread while a region of ours runs there: what one of the two compiles is not compiled by the other again. */
#include "frame.h"
#include <pthread.h>

static PyInterpreterState *interpreter;
static Py_ssize_t users;            /* regions and tracings that are open, in all threads */
static _PyFrameEvalFunction below;  /* what stood on top when ours was put there */
static bool linked;                 /* ours is in the chain, as far as we know */

static PyObject *torch_hook_name, *set_name; /* interned */

PyObject *chain_run_below(PyThreadState *tstate, Frame *frame, int throwing)
{
    if (below == _PyEval_EvalFrameDefault) {
        return _PyEval_EvalFrameDefault(tstate, frame, throwing);
    }
    /* What is below may also stand above: the frame then comes back to us. */
    HookState *state = &hook_state;
    void *outer = state->passed_on;
    state->passed_on = frame;
    PyObject *result = below(tstate, frame, throwing);
    state->passed_on = outer;
    return result;
}

static void put_on_top(HookPlace *place)
{
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (current != hook_evaluate_frame) {
        place->put = true;
        place->again = linked && current != _PyEval_EvalFrameDefault;
        place->below = below;
        below = current;
        linked = true;
        _PyInterpreterState_SetEvalFrameFunc(interpreter, hook_evaluate_frame);
    }
}

static bool is_on_top(void) { return _PyInterpreterState_GetEvalFrameFunc(interpreter) == hook_evaluate_frame; }

/* Where ours stands in the chain a second time, the upper one goes with who has put it there. If another one has come
   above it, that stays where it is, and passes frames on to ours: the lower one. */
static void take_off(const HookPlace *place)
{
    if (place->put && place->again) {
        if (is_on_top()) {
            _PyInterpreterState_SetEvalFrameFunc(interpreter, below);
        }
        below = place->below;
    }
    chain_rest();
}

void chain_rest(void)
{
    if (users == 0 && is_on_top()) {
        _PyInterpreterState_SetEvalFrameFunc(interpreter, below);
        linked = false;
    }
}

/* ---- torch's hook in this thread ---- */

/* Exchange what torch's hook calls; NULL if it is not loaded. An exception that is set stays. */
static PyObject *exchange_torch(PyObject *callback)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *module = PyImport_GetModule(torch_hook_name);
    PyObject *before = module == NULL ? NULL : PyObject_CallMethodOneArg(module, set_name, callback);
    Py_XDECREF(module);
    PyErr_Restore(type, value, traceback);
    return before;
}

HookPlace chain_begin(void)
{
    HookPlace place = {.torch = exchange_torch(Py_None)};
    if (place.torch == Py_None) {
        Py_CLEAR(place.torch);
    }
    put_on_top(&place);
    return place;
}

void chain_end(HookPlace place)
{
    take_off(&place);
    if (place.torch != NULL) {
        Py_XDECREF(exchange_torch(place.torch));
        Py_DECREF(place.torch);
    }
}

/* ---- regions ---- */

HookPlace hook_enter(void)
{
    users++;
    hook_state.entered++;
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (current == hook_evaluate_frame ? below != _PyEval_EvalFrameDefault : current != _PyEval_EvalFrameDefault) {
        return chain_begin();
    }
    HookPlace place = {.torch = NULL};
    put_on_top(&place);
    return place;
}

void hook_leave(HookPlace place)
{
    users--;
    hook_state.entered--;
    chain_end(place);
}

/* Of all threads, only the one that has forked goes on in the child. */
static void forked(void) { users = hook_state.entered; }

int chain_init(void)
{
    interpreter = PyInterpreterState_Get();
    torch_hook_name = PyUnicode_InternFromString("torch._C._dynamo.eval_frame");
    set_name = PyUnicode_InternFromString("set_eval_frame");
    if (torch_hook_name == NULL || set_name == NULL) {
        return -1;
    }
    if (pthread_atfork(NULL, NULL, forked) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}
