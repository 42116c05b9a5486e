/* CPython 3.14: a frame has tagged references, and a pointer to the top of its stack. */
#define FRAME_NEXT instr_ptr
#define FRAME_FIRST(code) _PyCode_CODE(code)

_Static_assert(Py_TAG_REFCNT == FRAME_SLOT_TAG, "a slot's tag is the lowest bit");
_Static_assert(sizeof(_PyStackRef) == sizeof(FrameSlot), "a slot is a tagged reference");

static inline PyCodeObject *frame_code(Frame *frame)
{
    return (PyCodeObject *)PyStackRef_AsPyObjectBorrow(frame->f_executable);
}

static inline PyFunctionObject *frame_function(Frame *frame)
{
    return (PyFunctionObject *)PyStackRef_AsPyObjectBorrow(frame->f_funcobj);
}

static inline void frame_put_code(Frame *frame, PyCodeObject *code)
{
    _PyStackRef old = frame->f_executable;
    frame->f_executable = PyStackRef_FromPyObjectSteal((PyObject *)code);
    frame->stackpointer = frame->localsplus + code->co_nlocalsplus;
    PyStackRef_CLOSE(old);
}
