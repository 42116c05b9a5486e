/* What a running program says of its compilation: of graph breaks, for its thread; to compile nothing, for all. */
#include "onegraph.h"
#include <string.h>

bool eager_is_forced;

static const char *const names[N_SETTINGS] = {"error_on_graph_break", "nested_graph_breaks"};

PyObject *module_exchange_setting(PyObject *UNUSED(module), PyObject *args)
{
    const char *name;
    PyObject *value = NULL;
    if (!PyArg_ParseTuple(args, "s|O:exchange_setting", &name, &value)) {
        return NULL;
    }
    if (value != NULL && value != Py_None && !PyBool_Check(value)) {
        return PyErr_Format(PyExc_TypeError, "a setting is True, False or None, not %R", value);
    }
    for (int i = 0; i < N_SETTINGS; i++) {
        if (strcmp(name, names[i]) == 0) {
            int8_t *setting = &hook_state.settings[i];
            PyObject *previous = *setting == 0 ? Py_None : *setting > 0 ? Py_True : Py_False;
            if (value != NULL) {
                *setting = value == Py_None ? 0 : value == Py_True ? 1 : -1;
            }
            return Py_NewRef(previous);
        }
    }
    return PyErr_Format(PyExc_ValueError, "there is no setting %s", name);
}

PyObject *module_force_eager(PyObject *UNUSED(module), PyObject *forced)
{
    int truth = PyObject_IsTrue(forced);
    if (truth < 0) {
        return NULL;
    }
    eager_is_forced = truth;
    Py_RETURN_NONE;
}
