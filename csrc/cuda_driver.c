/* Opening CUDA's driver: its functions, the contexts of devices, its errors. */
#define _GNU_SOURCE
#include "cuda.h"
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOL(field, name) {offsetof(CudaFunctions, field), name}

/* The versions of the functions that are declared in cuda.h: the names behind its macros. */
static const struct {
    size_t field;
    const char *name;
} symbols[] = {
    SYMBOL(init, "cuInit"),
    SYMBOL(error_name, "cuGetErrorName"),
    SYMBOL(error_string, "cuGetErrorString"),
    SYMBOL(device_get, "cuDeviceGet"),
    SYMBOL(device_attribute, "cuDeviceGetAttribute"),
    SYMBOL(retain_context, "cuDevicePrimaryCtxRetain"),
    SYMBOL(get_context, "cuCtxGetCurrent"),
    SYMBOL(set_context, "cuCtxSetCurrent"),
    SYMBOL(synchronize, "cuCtxSynchronize"),
    SYMBOL(load, "cuModuleLoadData"),
    SYMBOL(unload, "cuModuleUnload"),
    SYMBOL(get_function, "cuModuleGetFunction"),
    SYMBOL(function_attribute, "cuFuncGetAttribute"),
    SYMBOL(set_function_attribute, "cuFuncSetAttribute"),
    SYMBOL(launch, "cuLaunchKernel"),
    SYMBOL(is_capturing, "cuStreamIsCapturing"),
    SYMBOL(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode"),
    SYMBOL(begin_capture, "cuStreamBeginCapture_v2"),
    SYMBOL(end_capture, "cuStreamEndCapture"),
    SYMBOL(graph_instantiate, "cuGraphInstantiateWithFlags"),
    SYMBOL(graph_launch, "cuGraphLaunch"),
    SYMBOL(graph_destroy, "cuGraphDestroy"),
    SYMBOL(graph_exec_destroy, "cuGraphExecDestroy"),
    SYMBOL(copy, "cuMemcpyDtoDAsync_v2"),
};

static CudaDriver *drivers;

/* ---- errors ---- */

static PyObject *out_of_memory(void)
{
    PyObject *torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
    PyObject *type = torch == NULL ? NULL : PyObject_GetAttrString(torch, "OutOfMemoryError");
    PyErr_Clear();
    return type != NULL ? type : Py_NewRef(PyExc_MemoryError);
}

int cuda_raise(const CudaDriver *driver, CUresult code, const char *doing, const char *name)
{
    const char *title = NULL, *text = NULL;
    if (driver->call.error_name(code, &title) != 0 || title == NULL) {
        title = "CUDA error";
    }
    if (driver->call.error_string(code, &text) != 0 || text == NULL) {
        text = "the driver does not know this error";
    }
    PyObject *type = code == CUDA_ERROR_OUT_OF_MEMORY ? out_of_memory() : Py_NewRef(PyExc_RuntimeError);
    PyErr_Format(type, "%s %s: %s (%s, %d)", doing, name, text, title, code);
    Py_DECREF(type);
    return -1;
}

/* ---- opening ---- */

static bool find_symbols(CudaDriver *driver, void *library)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(library, symbols[i].name);
        if (address == NULL) {
            PyErr_Format(PyExc_RuntimeError,
                         "NVIDIA's driver %s is too old: it has no %s. CUDA 11.4 or later is needed: install a newer "
                         "driver", driver->path, symbols[i].name);
            return false;
        }
        memcpy((char *)&driver->call + symbols[i].field, &address, sizeof(address));
    }
    *(void **)&driver->call.parameter = dlsym(library, "cuFuncGetParamInfo");
    return true;
}

/* Where a torch with CUDA is loaded, kernels follow its streams: without that they would run beside it. */
static bool find_stream(CudaDriver *driver)
{
    void *torch = dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
    if (torch == NULL) {
        return true;
    }
    *(void **)&driver->current_stream = dlsym(torch, "aoti_torch_get_current_cuda_stream");
    if (driver->current_stream == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this torch does not tell on which CUDA stream it works");
    }
    return driver->current_stream != NULL;
}

static bool driver_open(CudaDriver *driver, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        PyErr_Format(PyExc_RuntimeError,
                     "NVIDIA's driver cannot be opened: %s. Install it, or name the library in the option cuda_driver",
                     dlerror());
        return false;
    }
    driver->path = strdup(path);
    if (driver->path == NULL) {
        PyErr_NoMemory();
        return false;
    }
    if (!find_symbols(driver, library) || !find_stream(driver)) {
        return false;
    }
    CUresult code = driver->call.init(0);
    return code == 0 || cuda_raise(driver, code, "NVIDIA's driver cannot be used:", path) == 0;
}

CudaDriver *cuda_driver(const char *path)
{
    for (CudaDriver *driver = drivers; driver != NULL; driver = driver->next) {
        if (strcmp(driver->path, path) == 0) {
            return driver;
        }
    }
    CudaDriver *driver = calloc(1, sizeof(*driver));
    if (driver == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (!driver_open(driver, path)) { /* a library that was opened stays: closing a driver is not safe */
        free(driver->path);
        free(driver);
        return NULL;
    }
    driver->next = drivers;
    drivers = driver;
    return driver;
}

/* ---- contexts and streams ---- */

CUcontext cuda_context(CudaDriver *driver, int device)
{
    if (device < 0 || device >= MAX_DEVICES) {
        PyErr_Format(PyExc_ValueError, "there is no CUDA device %d", device);
        return NULL;
    }
    if (driver->contexts[device] == NULL) {
        CUdevice found;
        char name[24];
        PyOS_snprintf(name, sizeof(name), "%d", device);
        CUresult code = driver->call.device_get(&found, device);
        code = code != 0 ? code : driver->call.retain_context(&driver->contexts[device], found);
        if (code != 0) {
            driver->contexts[device] = NULL;
            cuda_raise(driver, code, "taking CUDA device", name);
        }
    }
    return driver->contexts[device];
}

int cuda_stream(const CudaDriver *driver, int device, CUstream *stream)
{
    void *found = NULL; /* the null stream, on which all wait */
    if (driver->current_stream != NULL && driver->current_stream(device, &found) != 0) {
        PyErr_SetString(PyExc_RuntimeError, "torch does not tell its current CUDA stream");
        return -1;
    }
    *stream = found;
    return 0;
}

int cuda_enter(const CudaDriver *driver, CUcontext context, CUcontext *outer)
{
    CUresult code = driver->call.get_context(outer);
    if (code == 0 && *outer != context) {
        code = driver->call.set_context(context);
    }
    return code == 0 ? 0 : cuda_raise(driver, code, "entering", "the context of a CUDA device");
}

void cuda_leave(const CudaDriver *driver, CUcontext context, CUcontext outer)
{
    if (outer != context) {
        driver->call.set_context(outer);
    }
}

CUresult cuda_synchronize(const CudaDriver *driver)
{
    CUresult code;
    Py_BEGIN_ALLOW_THREADS
    code = driver->call.synchronize();
    Py_END_ALLOW_THREADS
    return code;
}
