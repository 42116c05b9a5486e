/* CPython up to 3.13: a frame counts all of its references, and knows its stack by an index. */
static inline PyCodeObject *frame_code(Frame *frame) { return (PyCodeObject *)frame->FRAME_CODE; }
static inline PyFunctionObject *frame_function(Frame *frame) { return (PyFunctionObject *)frame->FRAME_FUNCTION; }

static inline void frame_put_code(Frame *frame, PyCodeObject *code)
{
    PyCodeObject *old = frame_code(frame);
    frame->FRAME_CODE = (void *)code;
    frame->stacktop = code->co_nlocalsplus;
    Py_DECREF(old);
}
