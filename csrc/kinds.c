/* What an object is, told by its type alone: neither the object nor its class is asked. */
#include "onegraph.h"

static int is_of(PyTypeObject *type, PyObject *kinds)
{
    if (PyTuple_Check(kinds)) {
        int found = 0;
        for (Py_ssize_t i = 0; found == 0 && i < PyTuple_GET_SIZE(kinds); i++) {
            found = is_of(type, PyTuple_GET_ITEM(kinds, i));
        }
        return found;
    }
    if (Py_IS_TYPE(kinds, &PyType_Type)) {
        return PyType_IsSubtype(type, (PyTypeObject *)kinds);
    }
    return PyObject_IsSubclass((PyObject *)type, kinds); /* a union, or a class that says what its subclasses are */
}

PyObject *module_is_of(PyObject *UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2) {
        return PyErr_Format(PyExc_TypeError, "is_of() takes 2 arguments, not %zd", count);
    }
    int found = is_of(Py_TYPE(args[0]), args[1]);
    return found < 0 ? NULL : PyBool_FromLong(found);
}

static bool answers(PyTypeObject *cls, const char *name, PyTypeObject *native)
{
    PyObject *key = PyUnicode_InternFromString(name);
    PyObject *found = key == NULL ? NULL : _PyType_Lookup(cls, key);
    Py_XDECREF(key);
    PyErr_Clear();
    return found == NULL || !Py_IS_TYPE(found, native);
}

PyObject *module_answers_itself(PyObject *UNUSED(module), PyObject *cls)
{
    if (!PyType_Check(cls)) {
        return PyErr_Format(PyExc_TypeError, "answers_itself() takes a class, not %.200s", Py_TYPE(cls)->tp_name);
    }
    PyTypeObject *type = (PyTypeObject *)cls;
    bool own = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && (answers(type, "__getattribute__", &PyWrapperDescr_Type) ||
                                                                answers(type, "__class__", &PyGetSetDescr_Type));
    bool stands = type == &Region_Type || type == &_PyWeakref_ProxyType || type == &_PyWeakref_CallableProxyType;
    return PyBool_FromLong(own || stands);
}

/* What a class has under a name, itself or by inheritance, not bound to anything; or the last argument. */
PyObject *module_look_up(PyObject *UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyType_Check(args[0]) || !PyUnicode_Check(args[1])) {
        return PyErr_Format(PyExc_TypeError, "look_up() takes a class, a name, and what stands for nothing");
    }
    PyObject *found = _PyType_Lookup((PyTypeObject *)args[0], args[1]);
    PyErr_Clear();
    return Py_NewRef(found == NULL ? args[2] : found);
}

/* Whether a special method is that of `object`, which other native classes have as one of their own. */
PyObject *module_is_generic(PyObject *UNUSED(module), PyObject *method)
{
    if (!Py_IS_TYPE(method, &PyWrapperDescr_Type)) {
        Py_RETURN_FALSE;
    }
    void *wrapped = ((PyWrapperDescrObject *)method)->d_wrapped;
    return PyBool_FromLong(wrapped == (void *)PyObject_GenericGetAttr || wrapped == (void *)PyObject_GenericSetAttr);
}
