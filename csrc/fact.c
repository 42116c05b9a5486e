/* Fact: that a class has the methods and bases that it had, or a namespace the names. */
#include "onegraph.h"

/* The class's version tag, which changes whenever an attribute of it or of a base does; 0: it has none. From 3.13 on no
   flag says whether the tag is valid: one that is not is 0. */
static unsigned int class_version(PyTypeObject *cls)
{
    bool is_valid = PY_VERSION_HEX >= 0x030d0000 || PyType_HasFeature(cls, Py_TPFLAGS_VALID_VERSION_TAG);
    return is_valid ? cls->tp_version_tag : 0;
}

/* The version of a class or a dict; 0: it has none. */
static uint64_t version_of(PyObject *object)
{
    return PyDict_Check(object) ? dict_version(object) : class_version((PyTypeObject *)object);
}

/* The same, of a class that gets a version if it has none: looking something up gives it one. */
static unsigned int version_for(PyTypeObject *cls)
{
    static PyObject *name;
    if (name == NULL && (name = PyUnicode_InternFromString("__class__")) == NULL) {
        PyErr_Clear(); /* it stays without one, and is looked at each time */
        return 0;
    }
    _PyType_Lookup(cls, name);
    return class_version(cls);
}

PyObject *module_class_version(PyObject *UNUSED(module), PyObject *cls)
{
    if (!PyType_Check(cls)) {
        return PyErr_Format(PyExc_TypeError, "class_version() takes a class, not %.200s", Py_TYPE(cls)->tp_name);
    }
    return PyLong_FromUnsignedLong(version_for((PyTypeObject *)cls));
}

/* The object is looked at again only if its version is another one: 1, 0, or -1 with an exception set. */
int fact_holds(FactObject *self, PyObject *object)
{
    if (!PyType_Check(object) && !PyDict_Check(object)) {
        return 0;
    }
    if (self->version != 0 && version_of(object) == self->version) {
        return 1;
    }
    Py_INCREF(object);
    uint64_t version = PyDict_Check(object) ? dict_version(object) : version_for((PyTypeObject *)object);
    PyObject *answer = PyObject_CallOneArg(self->check, object);
    int holds = answer == NULL ? -1 : answer == Py_True;
    self->version = holds == 1 ? version : 0;
    Py_XDECREF(answer);
    Py_DECREF(object);
    return holds;
}

static PyObject *fact_new(PyTypeObject *type, PyObject *args, PyObject *UNUSED(kwargs))
{
    PyObject *check;
    if (!PyArg_ParseTuple(args, "O:Fact", &check)) {
        return NULL;
    }
    FactObject *self = (FactObject *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->check = Py_NewRef(check);
    }
    return (PyObject *)self;
}

static int fact_traverse(FactObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->check);
    return 0;
}

static int fact_clear(FactObject *self)
{
    Py_CLEAR(self->check);
    return 0;
}

static void fact_dealloc(FactObject *self)
{
    PyObject_GC_UnTrack(self);
    fact_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Fact_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.Fact",
    .tp_basicsize = sizeof(FactObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = fact_new,
    .tp_traverse = (traverseproc)fact_traverse,
    .tp_clear = (inquiry)fact_clear,
    .tp_dealloc = (destructor)fact_dealloc,
};
