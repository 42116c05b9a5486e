// CUDA devices in ordinary memory, for a torch that was built without CUDA. Tensors on them are real: only their
// operators are those of the CPU.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "operators.h"

// ---- what torch.cuda asks of torch._C ----

static PyObject *get_device(PyObject *, PyObject *) { return PyLong_FromLong(current.device); }
static PyObject *get_count(PyObject *, PyObject *) { return PyLong_FromLong(COUNT); }
static PyObject *do_nothing(PyObject *, PyObject *) { Py_RETURN_NONE; }
static PyObject *say_no(PyObject *, PyObject *) { Py_RETURN_FALSE; }

static PyObject *exchange_device(PyObject *, PyObject *index)
{
    long before = current.device, wanted = PyLong_AsLong(index);
    if (wanted >= COUNT) {
        return PyErr_Format(PyExc_RuntimeError, "CUDA error: invalid device ordinal");
    }
    if (wanted >= 0) {
        current.device = (DeviceIndex)wanted;
    }
    return PyLong_FromLong(wanted < 0 ? -1 : before);
}

static PyObject *set_device(PyObject *module, PyObject *index)
{
    PyObject *before = exchange_device(module, index);
    Py_XDECREF(before);
    return before == NULL ? NULL : Py_NewRef(Py_None);
}

static PyObject *synchronize(PyObject *, PyObject *)
{
    Guard().synchronizeDevice(current.device);
    Py_RETURN_NONE;
}

static PyObject *stream_of(StreamId id, long index)
{
    return Py_BuildValue("(Lll)", (long long)id, index, (long)DeviceType::CUDA);
}

static PyObject *get_current_stream(PyObject *, PyObject *index)
{
    long device = PyLong_AsLong(index);
    return stream_of(current.streams[device], device);
}

static PyObject *get_raw_stream(PyObject *, PyObject *index)
{
    return PyLong_FromLongLong(current.streams[PyLong_AsLong(index)]);
}

static PyObject *get_default_stream(PyObject *, PyObject *index) { return stream_of(0, PyLong_AsLong(index)); }

static PyObject *set_stream(PyObject *, PyObject *args, PyObject *kwargs)
{
    static const char *names[] = {"stream_id", "device_index", "device_type", NULL};
    long long id;
    long index, type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Lll", (char **)names, &id, &index, &type)) {
        return NULL;
    }
    current.device = (DeviceIndex)index;
    current.streams[index] = id;
    Py_RETURN_NONE;
}

static std::map<long, std::shared_ptr<Pool>> pools;

static PyObject *make_pool(PyObject *, PyObject *)
{
    static long last = 0;
    pools[++last] = std::make_shared<Pool>();
    return PyLong_FromLong(last);
}

static PyObject *drop_pool(PyObject *, PyObject *id)
{
    std::shared_ptr<Pool> dropped = pools.at(PyLong_AsLong(id));
    pools.erase(PyLong_AsLong(id));
    dropped->is_gone = true;
    for (auto &[size, data] : dropped->free) {
        device_memory.forget(data.get());
    }
    dropped->free.clear();
    Py_RETURN_NONE;
}

static PyObject *enter_pool(PyObject *, PyObject *args)
{
    long index, id;
    if (!PyArg_ParseTuple(args, "ll", &index, &id)) {
        return NULL;
    }
    pool = pools.at(id);
    Py_RETURN_NONE;
}

static PyObject *leave_pool(PyObject *, PyObject *)
{
    pool = nullptr;
    Py_RETURN_NONE;
}

static PyObject *take_log(PyObject *, PyObject *on)
{
    std::lock_guard<std::mutex> lock(log_lock);
    PyObject *lines = PyList_New(0);
    for (const std::string &line : logged) {
        PyObject *text = PyUnicode_FromString(line.c_str());
        PyList_Append(lines, text);
        Py_DECREF(text);
    }
    logged.clear();
    logging = PyObject_IsTrue(on);
    return lines;
}

static PyMethodDef functions[] = {
    {"_cuda_getDeviceCount", get_count, METH_NOARGS, NULL},
    {"_cuda_getDevice", get_device, METH_NOARGS, NULL},
    {"_cuda_setDevice", set_device, METH_O, NULL},
    {"_cuda_exchangeDevice", exchange_device, METH_O, NULL},
    {"_cuda_maybeExchangeDevice", exchange_device, METH_O, NULL},
    {"_cuda_init", do_nothing, METH_NOARGS, NULL},
    {"_cuda_isInBadFork", say_no, METH_NOARGS, NULL},
    {"_cuda_synchronize", synchronize, METH_NOARGS, NULL},
    {"_cuda_getCurrentStream", get_current_stream, METH_O, NULL},
    {"_cuda_getCurrentRawStream", get_raw_stream, METH_O, NULL},
    {"_cuda_getDefaultStream", get_default_stream, METH_O, NULL},
    {"_cuda_setStream", (PyCFunction)(void (*)(void))set_stream, METH_VARARGS | METH_KEYWORDS, NULL},
    {"_cuda_isCurrentStreamCapturing", say_no, METH_NOARGS, NULL},
    {"_cuda_makePool", make_pool, METH_NOARGS, NULL},
    {"_cuda_dropPool", drop_pool, METH_O, NULL},
    {"_cuda_beginAllocateToPool", enter_pool, METH_VARARGS, NULL},
    {"_cuda_beginAllocateCurrentThreadToPool", enter_pool, METH_VARARGS, NULL},
    {"_cuda_endAllocateToPool", leave_pool, METH_VARARGS, NULL},
    {"_cuda_releasePool", leave_pool, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef log_function = {"take_log", take_log, METH_O, NULL};

// What a driver that launches kernels here asks, and is asked for.
extern "C" {
__attribute__((visibility("default"))) void make_streams(uint64_t (*make)(int)) { make_stream = make; }

__attribute__((visibility("default"))) void *current_stream(int32_t index)
{
    return (void *)(intptr_t)current.streams[index];
}

__attribute__((visibility("default"))) int has_memory(uint64_t begin, uint64_t size)
{
    return device_memory.has((const void *)(uintptr_t)begin, size);
}
}

// Called while torch is imported, before torch.cuda is: the function that takes the log, or NULL with an exception.
extern "C" __attribute__((visibility("default"))) PyObject *install(PyObject *torch_C)
{
    if (PyModule_AddFunctions(torch_C, functions) < 0) {
        return NULL;
    }
    try {
        static impl::DeviceGuardImplRegistrar guard(DeviceType::CUDA, new Guard());
        SetAllocator(DeviceType::CUDA, &device_memory);
        register_operators();
        TORCH_CHECK(at::detail::getCUDAHooks().hasCUDA(), "torch has asked for CUDA's hooks before");
    } catch (const std::exception &error) {
        return PyErr_Format(PyExc_ImportError, "%s", error.what());
    }
    return PyCFunction_New(&log_function, NULL);
}
