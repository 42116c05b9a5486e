/* Entry: one compiled version of a code object: what to run, and when it fits. */
#include "onegraph.h"
#include <stddef.h>
#include <structmember.h>

static PyObject *entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", "guards", "context", "levels", "opened", NULL};
    PyObject *code, *guards, *context;
    int levels = 1, opened = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO!|ii:Entry", names, &PyCode_Type, &code, &guards,
                                     &Context_Type, &context, &levels, &opened)) {
        return NULL;
    }
    if (guards != Py_None && !Py_IS_TYPE(guards, &GuardProgram_Type)) {
        return PyErr_Format(PyExc_TypeError, "guards must be a GuardProgram or None, not %.200s",
                            Py_TYPE(guards)->tp_name);
    }
    EntryObject *self = (EntryObject *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->code = (PyCodeObject *)Py_NewRef(code);
        self->guards = guards == Py_None ? NULL : (GuardProgramObject *)Py_NewRef(guards);
        self->context = (ContextObject *)Py_NewRef(context);
        self->levels = levels;
        self->opened = opened;
    }
    return (PyObject *)self;
}

static int entry_traverse(EntryObject *self, visitproc visit, void *arg)
{
    /* The collector does not look into code objects, but the constants hold the compiled graph, which may lead back
       here. While nobody else holds the code, its constants are as good as ours. */
    if (self->code != NULL && Py_REFCNT(self->code) == 1) {
        Py_VISIT(self->code->co_consts);
    }
    Py_VISIT(self->guards);
    Py_VISIT(self->context);
    return 0;
}

/* No tp_clear: every cycle through an entry goes through its context's records, which the context drops. */

static void entry_dealloc(EntryObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->code);
    Py_XDECREF(self->guards);
    Py_XDECREF(self->context);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *entry_repr(EntryObject *self)
{
    return PyUnicode_FromFormat("<Entry %U: %zd guards, %llu hits>", self->code->co_qualname,
                                self->guards == NULL ? (Py_ssize_t)0 : guard_program_size(self->guards), self->hits);
}

static PyMemberDef entry_members[] = {
    {"code", T_OBJECT_EX, offsetof(EntryObject, code), READONLY, "the code that runs instead"},
    {"guards", T_OBJECT, offsetof(EntryObject, guards), READONLY, "the GuardProgram, or None if it always fits"},
    {"context", T_OBJECT_EX, offsetof(EntryObject, context), READONLY, "the context it was compiled for"},
    {"hits", T_ULONGLONG, offsetof(EntryObject, hits), READONLY, "how often its guards have passed in a call"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Entry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.Entry",
    .tp_basicsize = sizeof(EntryObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = entry_new,
    .tp_traverse = (traverseproc)entry_traverse,
    .tp_dealloc = (destructor)entry_dealloc,
    .tp_repr = (reprfunc)entry_repr,
    .tp_members = entry_members,
};
