/* ClassFact: that a class has the methods and bases that it had. */
#include "onegraph.h"

/* The class's version tag, which changes whenever an attribute of it or of a base does; 0: it has none. */
static unsigned int version_of(PyTypeObject *cls)
{
    return PyType_HasFeature(cls, Py_TPFLAGS_VALID_VERSION_TAG) ? cls->tp_version_tag : 0;
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
    return version_of(cls);
}

PyObject *module_class_version(PyObject *UNUSED(module), PyObject *cls)
{
    if (!PyType_Check(cls)) {
        return PyErr_Format(PyExc_TypeError, "class_version() takes a class, not %.200s", Py_TYPE(cls)->tp_name);
    }
    return PyLong_FromUnsignedLong(version_for((PyTypeObject *)cls));
}

/* The class is looked at again only if its version is another one: 1, 0, or -1 with an exception set. */
int class_fact_holds(ClassFactObject *self, PyObject *object)
{
    PyTypeObject *cls = (PyTypeObject *)object;
    if (!PyType_Check(object)) {
        return 0;
    }
    if (self->version != 0 && version_of(cls) == self->version) {
        return 1;
    }
    Py_INCREF(cls);
    unsigned int version = version_for(cls);
    PyObject *answer = PyObject_CallOneArg(self->check, object);
    int holds = answer == NULL ? -1 : answer == Py_True;
    self->version = holds == 1 ? version : 0;
    Py_XDECREF(answer);
    Py_DECREF(cls);
    return holds;
}

static PyObject *class_fact_new(PyTypeObject *type, PyObject *args, PyObject *UNUSED(kwargs))
{
    PyObject *check;
    if (!PyArg_ParseTuple(args, "O:ClassFact", &check)) {
        return NULL;
    }
    ClassFactObject *self = (ClassFactObject *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->check = Py_NewRef(check);
    }
    return (PyObject *)self;
}

static int class_fact_traverse(ClassFactObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->check);
    return 0;
}

static int class_fact_clear(ClassFactObject *self)
{
    Py_CLEAR(self->check);
    return 0;
}

static void class_fact_dealloc(ClassFactObject *self)
{
    PyObject_GC_UnTrack(self);
    class_fact_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject ClassFact_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.ClassFact",
    .tp_doc = PyDoc_STR("ClassFact(check): check(cls) is True, asked again only when the version of the class is new."),
    .tp_basicsize = sizeof(ClassFactObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = class_fact_new,
    .tp_traverse = (traverseproc)class_fact_traverse,
    .tp_clear = (inquiry)class_fact_clear,
    .tp_dealloc = (destructor)class_fact_dealloc,
};
