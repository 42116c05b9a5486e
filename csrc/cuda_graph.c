/* CudaGraph: what a function has a stream do, captured once and launched again as a whole. */
#include "cuda.h"
#include "tensor_make.h"

_Thread_local int cuda_own_captures;

/* A place that is filled before each launch, with what the caller gives. */
typedef struct {
    CUdeviceptr at;
    size_t bytes; /* 0: nothing is copied */
} StaticPlace;

typedef struct CudaGraphObject {
    PyObject_HEAD
    CudaDriver *driver;
    CUcontext context;
    int device;
    CUgraphExec exec; /* NULL: nothing was captured */
    StaticPlace *places;
    Py_ssize_t n_places;
    PyObject *keep; /* what was captured launches, and its memory */
    struct CudaGraphObject *beside; /* the one whose memory it shares: all of them run in order; NULL: it has its own */
    CUstream stream; /* of the last launch in this memory; another one does not wait for it, and would share the places */
    bool launched;
} CudaGraphObject;

static int failed(const CudaGraphObject *self, CUresult code, const char *doing)
{
    return code == 0 ? 0 : cuda_raise(self->driver, code, doing, "of launches");
}

static void destroy(CudaGraphObject *self)
{
    if (self->exec != NULL) { /* if it still runs, the driver waits for that */
        self->driver->call.graph_exec_destroy(self->exec);
        self->exec = NULL;
    }
    self->launched = false;
    Py_CLEAR(self->keep);
}

/* End the capture of the stream, whatever has become of the function; -1 with an exception set. */
static int end_capture(CudaGraphObject *self, CUstream stream, bool instantiate)
{
    const CudaFunctions *call = &self->driver->call;
    CUgraph graph = NULL;
    CUresult code = call->end_capture(stream, &graph);
    int status = instantiate ? failed(self, code, "ending the capture of a graph") : 0;
    if (status == 0 && instantiate) {
        status = failed(self, call->graph_instantiate(&self->exec, graph, 0), "making a graph");
    }
    if (graph != NULL) {
        call->graph_destroy(graph);
    }
    return status;
}

static PyObject *capture(CudaGraphObject *self, CUstream stream, PyObject *function)
{
    CUresult code = self->driver->call.begin_capture(stream, CAPTURE_THREAD_LOCAL);
    if (failed(self, code, "beginning the capture of a graph") < 0) {
        return NULL;
    }
    cuda_own_captures++;
    PyObject *result = PyObject_CallNoArgs(function), *kind, *error, *trace;
    cuda_own_captures--;
    PyErr_Fetch(&kind, &error, &trace);
    if (end_capture(self, stream, result != NULL) < 0) {
        Py_CLEAR(result);
    } else {
        PyErr_Restore(kind, error, trace);
    }
    return result;
}

static PyObject *graph_capture(CudaGraphObject *self, PyObject *args)
{
    PyObject *function, *keep;
    CUstream stream;
    CUcontext outer;
    if (!PyArg_ParseTuple(args, "OO:capture", &function, &keep) || cuda_stream(self->driver, self->device, &stream) < 0) {
        return NULL;
    }
    if (stream == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the default stream cannot be captured: another one must be current");
        return NULL;
    }
    if (cuda_enter(self->driver, self->context, &outer) < 0) {
        return NULL;
    }
    destroy(self);
    PyObject *result = capture(self, stream, function);
    cuda_leave(self->driver, self->context, outer);
    if (result != NULL) {
        self->keep = Py_NewRef(keep);
    }
    return result;
}

static int fill_places(const CudaGraphObject *self, PyObject *const *tensors, CUstream stream)
{
    for (Py_ssize_t i = 0; i < self->n_places; i++) {
        const StaticPlace *place = &self->places[i];
        void *data;
        if (place->bytes == 0) {
            continue;
        }
        if (tensor_data(tensors[i], &data) < 0) {
            return -1;
        }
        CUdeviceptr from = (CUdeviceptr)(uintptr_t)data;
        if (from != place->at &&
            failed(self, self->driver->call.copy(place->at, from, place->bytes, stream), "copying an input") < 0) {
            return -1;
        }
    }
    return 0;
}

static PyObject *graph_replay(CudaGraphObject *self, PyObject *const *tensors, Py_ssize_t count)
{
    CUstream stream;
    CUcontext outer;
    if (self->exec == NULL || count != self->n_places) {
        return PyErr_Format(PyExc_ValueError, "a graph that was captured takes %zd inputs, got %zd", self->n_places, count);
    }
    if (cuda_stream(self->driver, self->device, &stream) < 0 ||
        cuda_enter(self->driver, self->context, &outer) < 0) {
        return NULL;
    }
    int status = 0;
    CudaGraphObject *last = self->beside != NULL ? self->beside : self;
    if (last->launched && last->stream != stream) { /* which may be gone: all of them are waited for */
        status = failed(self, cuda_synchronize(self->driver), "changing the stream of a graph");
    }
    status = status < 0 ? status : fill_places(self, tensors, stream);
    if (status == 0) {
        CUresult code;
        Py_BEGIN_ALLOW_THREADS
        code = self->driver->call.graph_launch(self->exec, stream);
        Py_END_ALLOW_THREADS
        status = failed(self, code, "launching a graph");
        last->stream = stream;
        last->launched = true;
    }
    cuda_leave(self->driver, self->context, outer);
    return status < 0 ? NULL : Py_NewRef(Py_None);
}

PyObject *module_captures_cuda(PyObject *UNUSED(module), PyObject *args)
{
    const char *path;
    int device, status = CAPTURE_NONE;
    CUstream stream;
    if (!PyArg_ParseTuple(args, "si:captures_cuda", &path, &device)) {
        return NULL;
    }
    CudaDriver *driver = cuda_driver(path);
    if (driver == NULL || cuda_stream(driver, device, &stream) < 0) {
        return NULL;
    }
    CUresult code = driver->call.is_capturing(stream, &status); /* an error: a launch on the default stream would be one */
    return PyBool_FromLong(code != 0 || status != CAPTURE_NONE);
}

/* ---- the type ---- */

static int read_places(CudaGraphObject *self, PyObject *places)
{
    Py_ssize_t count = PyTuple_GET_SIZE(places);
    self->places = PyMem_Calloc((size_t)count + 1, sizeof(*self->places));
    if (self->places == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->n_places = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        unsigned long long address;
        Py_ssize_t bytes;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(places, i), "Kn", &address, &bytes)) {
            return -1;
        }
        self->places[i] = (StaticPlace){address, (size_t)bytes};
    }
    return 0;
}

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"places", "driver", "device", "beside", NULL};
    PyObject *places, *beside = Py_None;
    const char *path = "libcuda.so.1";
    int device = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|siO:CudaGraph", names, &PyTuple_Type, &places, &path, &device, &beside)) {
        return NULL;
    }
    if (beside != Py_None && (Py_TYPE(beside) != type || ((CudaGraphObject *)beside)->beside != NULL)) {
        PyErr_SetString(PyExc_TypeError, "a graph shares the memory of one that has its own");
        return NULL;
    }
    CudaDriver *driver = cuda_driver(path);
    CUcontext context = driver == NULL ? NULL : cuda_context(driver, device);
    CudaGraphObject *self = context == NULL ? NULL : (CudaGraphObject *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->driver = driver;
        self->context = context;
        self->device = device;
        self->beside = beside == Py_None ? NULL : (CudaGraphObject *)Py_NewRef(beside);
        if (read_places(self, places) < 0) {
            Py_CLEAR(self);
        }
    }
    return (PyObject *)self;
}

static int graph_traverse(CudaGraphObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->keep);
    Py_VISIT(self->beside);
    return 0;
}

static void graph_dealloc(CudaGraphObject *self)
{
    PyObject_GC_UnTrack(self);
    destroy(self);
    Py_XDECREF(self->beside);
    PyMem_Free(self->places);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef graph_methods[] = {
    {"capture", (PyCFunction)graph_capture, METH_VARARGS, NULL},
    {"replay", (PyCFunction)(void (*)(void))graph_replay, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject CudaGraph_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.CudaGraph",
    .tp_basicsize = sizeof(CudaGraphObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = graph_new,
    .tp_traverse = (traverseproc)graph_traverse,
    .tp_dealloc = (destructor)graph_dealloc,
    .tp_methods = graph_methods,
};
