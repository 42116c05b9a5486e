/* Ranges in the traces of torch's profiler, and the clock. */
#define _GNU_SOURCE
#include "observe.h"
#include "libtorch.h"
#include <time.h>

bool is_profiled(void)
{
    const Libtorch *torch = libtorch_checked();
    return torch != NULL && torch->thread_callbacks != NULL && torch->thread_callbacks();
}

/* The type of ranges, borrowed; NULL if this torch has none. The frames that find it are not the program's. */
static PyObject *range_type(void)
{
    static PyObject *type;
    if (type == NULL) {
        ContextObject *outer = hook_state.context;
        hook_state.context = NULL;
        type = ask_python(ABI, "range_type", "()");
        hook_state.context = outer;
    }
    PyErr_Clear();
    return type == Py_None ? NULL : type;
}

PyObject *range_begin(PyObject *name)
{
    PyObject *type = range_type();
    PyObject *range = type == NULL ? NULL : PyObject_CallOneArg(type, name);
    PyObject *begun = range == NULL ? NULL : PyObject_CallMethod(range, "__enter__", NULL);
    if (begun == NULL) {
        PyErr_Clear();
        Py_CLEAR(range);
    }
    Py_XDECREF(begun);
    return range;
}

void range_end(PyObject *range)
{
    if (range != NULL) {
        PyObject *kind, *error, *trace;
        PyErr_Fetch(&kind, &error, &trace);
        PyObject *ended = PyObject_CallMethod(range, "__exit__", "OOO", Py_None, Py_None, Py_None);
        Py_XDECREF(ended);
        Py_DECREF(range);
        PyErr_Restore(kind, error, trace);
    }
}

int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
