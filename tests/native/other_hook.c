/* Another frame hook, as a debugger or another compiler might bring one: counts frames and calls the hook below. */
#define Py_BUILD_CORE
#include <Python.h>
#include <internal/pycore_frame.h>

static _PyFrameEvalFunction below;
static long frames;

static PyObject *count_frame(PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwing)
{
    frames++;
    return below(tstate, frame, throwing);
}

static PyObject *install(PyObject *module, PyObject *ignored)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) != count_frame) {
        below = _PyInterpreterState_GetEvalFrameFunc(interpreter);
        _PyInterpreterState_SetEvalFrameFunc(interpreter, count_frame);
    }
    Py_RETURN_NONE;
}

static PyObject *uninstall(PyObject *module, PyObject *ignored)
{
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), below);
    Py_RETURN_NONE;
}

static PyObject *drop_all(PyObject *module, PyObject *ignored)
{
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), _PyEval_EvalFrameDefault);
    Py_RETURN_NONE;
}

static PyObject *is_clean(PyObject *module, PyObject *ignored)
{
    return PyBool_FromLong(_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == _PyEval_EvalFrameDefault);
}

static PyObject *count(PyObject *module, PyObject *ignored) { return PyLong_FromLong(frames); }

static PyMethodDef functions[] = {
    {"install", install, METH_NOARGS, NULL},   {"uninstall", uninstall, METH_NOARGS, NULL},
    {"drop_all", drop_all, METH_NOARGS, NULL}, {"is_clean", is_clean, METH_NOARGS, NULL},
    {"count", count, METH_NOARGS, NULL},       {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "other_hook", .m_methods = functions};

PyMODINIT_FUNC PyInit_other_hook(void) { return PyModule_Create(&definition); }
