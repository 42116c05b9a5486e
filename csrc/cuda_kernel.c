/* CudaKernel: a kernel that a CUDA device has loaded, and how it is launched. */
#include "cuda.h"
#include <elf.h>
#include <stddef.h>
#include <stdlib.h>
#include <structmember.h>

enum {
    SHARED_AT_ONCE = 48 << 10, /* bytes that a block has without being asked for */
    MOST_ALONG_X = INT32_MAX,
    MOST_ALONG_YZ = 65535,
};

/* A module is not unloaded where its kernel dies: what was launched may still run, a capture may be going on, which bears no
   synchronization, and graphs that were captured may launch it again. The first two are over at some later load. */
typedef struct CudaModule {
    CUmodule handle;
    CUcontext context;
    bool stays; /* it was launched into a graph that is not ours */
    struct CudaModule *next;
} CudaModule;

typedef struct {
    PyObject_HEAD
    CudaKernel kernel;
    PyObject *name;
    int registers; /* of a thread */
    int local;     /* bytes of a thread that did not fit into them */
} CudaKernelObject;

/* ---- launching ---- */

static int grid_is_right(const CudaKernel *kernel, const int64_t *grid)
{
    if (grid[0] < 0 || grid[0] > MOST_ALONG_X || grid[1] < 0 || grid[1] > MOST_ALONG_YZ || grid[2] < 0 ||
        grid[2] > MOST_ALONG_YZ) {
        PyErr_Format(PyExc_RuntimeError, "launching %s: there is no grid of %lld x %lld x %lld programs", kernel->name,
                     (long long)grid[0], (long long)grid[1], (long long)grid[2]);
        return -1;
    }
    return grid[0] > 0 && grid[1] > 0 && grid[2] > 0;
}

/* The kernel for pointers that are no multiples of ALIGNMENT, which is made once; NULL with an exception set. */
static const CudaKernel *general_of(const CudaKernel *kernel)
{
    CudaKernel *known = (CudaKernel *)kernel;
    if (!Py_IS_TYPE(known->general, &CudaKernel_Type)) {
        ContextObject *outer = hook_state.context;
        hook_state.context = NULL; /* no frame of a compiler is the program's */
        PyObject *asked = Py_NewRef(known->general), *made = PyObject_CallNoArgs(asked);
        hook_state.context = outer;
        Py_DECREF(asked);
        if (made == NULL) {
            return NULL;
        }
        const CudaKernel *found = &((CudaKernelObject *)made)->kernel;
        if (!Py_IS_TYPE(made, &CudaKernel_Type) || found->general != NULL || found->device != kernel->device ||
            found->n_pointers != kernel->n_pointers || found->n_sizes != kernel->n_sizes) {
            PyErr_Format(PyExc_TypeError, "%R does not take any pointers in the place of %s", made, kernel->name);
            Py_DECREF(made);
            return NULL;
        }
        if (Py_IS_TYPE(known->general, &CudaKernel_Type)) { /* another thread was first */
            Py_DECREF(made);
        } else {
            Py_SETREF(known->general, made);
        }
    }
    return &((CudaKernelObject *)known->general)->kernel;
}

static bool are_aligned(const CudaKernel *kernel, const uint64_t *pointers)
{
    uint64_t bits = 0;
    for (int i = 0; i < kernel->n_pointers; i++) {
        bits |= pointers[i];
    }
    return bits % ALIGNMENT == 0;
}

int cuda_launch(const CudaKernel *kernel, uint64_t *parameters, const int64_t *grid)
{
    const CudaDriver *driver = kernel->driver;
    CUstream stream;
    CUcontext outer;
    int some = grid_is_right(kernel, grid), capture = CAPTURE_NONE;
    if (some <= 0) {
        return some;
    }
    if (kernel->general != NULL && !are_aligned(kernel, parameters)) {
        kernel = general_of(kernel);
        if (kernel == NULL) {
            return -1;
        }
    }
    if (cuda_stream(driver, kernel->device, &stream) < 0 || cuda_enter(driver, kernel->context, &outer) < 0) {
        return -1;
    }
    bool captured = driver->call.is_capturing(stream, &capture) != 0 || capture != CAPTURE_NONE;
    if (captured && cuda_own_captures == 0) {
        kernel->module->stays = true;
    }
    size_t count = (size_t)CUDA_PARAMETERS(kernel->n_pointers, kernel->n_sizes), bytes = count * sizeof(*parameters);
    parameters[count - 2] = parameters[count - 1] = 0;
    void *extra[] = {LAUNCH_BUFFER, parameters, LAUNCH_SIZE, &bytes, LAUNCH_END};
    CUresult code;
    Py_BEGIN_ALLOW_THREADS /* it waits where too much is waiting on the stream */
    code = driver->call.launch(kernel->function, (unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2],
                               kernel->threads, 1, 1, kernel->shared, stream, NULL, extra);
    Py_END_ALLOW_THREADS
    cuda_leave(driver, kernel->context, outer);
    return code == 0 ? 0 : cuda_raise(driver, code, "launching", kernel->name);
}

/* The items of a tuple of integers; -1 with an exception set. */
static int read_integers(PyObject *tuple, int64_t *out)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
        if (out[i] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

PyObject *module_launch_cuda_kernel(PyObject *UNUSED(module), PyObject *args)
{
    unsigned long long address;
    PyObject *along, *pointers, *sizes;
    int64_t grid[3] = {1, 1, 1};
    if (!PyArg_ParseTuple(args, "KO!O!O!:launch_cuda_kernel", &address, &PyTuple_Type, &along, &PyTuple_Type, &pointers,
                          &PyTuple_Type, &sizes)) {
        return NULL;
    }
    const CudaKernel *kernel = (const CudaKernel *)(uintptr_t)address;
    if (PyTuple_GET_SIZE(along) > 3 || PyTuple_GET_SIZE(pointers) != kernel->n_pointers ||
        PyTuple_GET_SIZE(sizes) != kernel->n_sizes) {
        return PyErr_Format(PyExc_ValueError, "%s takes %d pointers, %d sizes and a grid of three numbers at most",
                            kernel->name, kernel->n_pointers, kernel->n_sizes);
    }
    size_t count = (size_t)CUDA_PARAMETERS(kernel->n_pointers, kernel->n_sizes);
    int64_t *parameters = PyMem_Calloc(count, sizeof(*parameters));
    if (parameters == NULL) {
        return PyErr_NoMemory();
    }
    bool right = read_integers(along, grid) == 0 && read_integers(pointers, parameters) == 0 &&
                 read_integers(sizes, parameters + kernel->n_pointers) == 0 &&
                 cuda_launch(kernel, (uint64_t *)parameters, grid) == 0;
    PyMem_Free(parameters);
    return right ? Py_NewRef(Py_None) : NULL;
}

/* ---- loading ---- */

/* Unload what nobody can launch any more, when it has run. Nothing is, in a thread that captures. */
static void unload_retired(CudaDriver *driver, int device)
{
    CUstream stream;
    int capture = CAPTURE_NONE;
    if (driver->retired == NULL) {
        return;
    }
    if (cuda_stream(driver, device, &stream) < 0) {
        PyErr_Clear();
        return;
    }
    if (driver->call.is_capturing(stream, &capture) != 0 || capture != CAPTURE_NONE) {
        return;
    }
    CudaModule *modules = driver->retired;
    driver->retired = NULL;
    while (modules != NULL) {
        CudaModule *module = modules;
        CUcontext outer;
        modules = module->next;
        if (cuda_enter(driver, module->context, &outer) < 0) {
            PyErr_Clear();
        } else {
            if (cuda_synchronize(driver) == 0) { /* otherwise the context is lost, with all that is in it */
                driver->call.unload(module->handle);
            }
            cuda_leave(driver, module->context, outer);
        }
        free(module);
    }
}

/* Whether all that a cubin says it has is there: the driver is not told where it ends. */
static bool is_whole(PyObject *cubin)
{
    const char *image = PyBytes_AS_STRING(cubin);
    uint64_t size = (uint64_t)PyBytes_GET_SIZE(cubin);
    Elf64_Ehdr header;
    if (size < SELFMAG || memcmp(image, ELFMAG, SELFMAG) != 0) {
        return true; /* a text, which ends with a zero */
    }
    if (size < sizeof(header)) {
        return false;
    }
    memcpy(&header, image, sizeof(header));
    uint64_t sections = (uint64_t)header.e_shnum * sizeof(Elf64_Shdr);
    uint64_t segments = (uint64_t)header.e_phnum * header.e_phentsize;
    if (header.e_shoff > size || header.e_shentsize != sizeof(Elf64_Shdr) || sections > size - header.e_shoff ||
        header.e_phoff > size || segments > size - header.e_phoff) {
        return false;
    }
    for (int i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, image + header.e_shoff + (size_t)i * sizeof(section), sizeof(section));
        bool has_bytes = section.sh_type != SHT_NOBITS;
        if (has_bytes && (section.sh_offset > size || section.sh_size > size - section.sh_offset)) {
            return false;
        }
    }
    return true;
}

/* Whether the kernel's parameters lie as they are given to it, where the driver says so. */
static bool has_parameters(const CudaKernel *kernel)
{
    size_t count = (size_t)CUDA_PARAMETERS(kernel->n_pointers, kernel->n_sizes), offset, size;
    if (kernel->driver->call.parameter == NULL) {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        if (kernel->driver->call.parameter(kernel->function, i, &offset, &size) != 0 || offset != i * sizeof(uint64_t) ||
            size != sizeof(uint64_t)) {
            return false;
        }
    }
    return kernel->driver->call.parameter(kernel->function, count, &offset, &size) != 0;
}

/* Ask for the shared memory that a block needs; -1 with an exception set. */
static int ask_for_shared(const CudaKernel *kernel)
{
    const CudaFunctions *call = &kernel->driver->call;
    int fixed = 0, most = 0;
    CUdevice device;
    CUresult code = call->function_attribute(&fixed, STATIC_SHARED, kernel->function);
    code = code != 0 ? code : call->device_get(&device, kernel->device);
    code = code != 0 ? code : call->device_attribute(&most, SHARED_PER_BLOCK_OPTIN, device);
    if (code == 0 && (int64_t)fixed + kernel->shared > most) {
        PyErr_Format(PyExc_RuntimeError, "loading %s: a block needs %lld bytes of shared memory, and has at most %d on "
                     "this device", kernel->name, (long long)fixed + kernel->shared, most);
        return -1;
    }
    if (code == 0 && fixed + (int)kernel->shared > SHARED_AT_ONCE) {
        code = call->set_function_attribute(kernel->function, MAX_DYNAMIC_SHARED, (int)kernel->shared);
    }
    return code == 0 ? 0 : cuda_raise(kernel->driver, code, "asking for the shared memory of", kernel->name);
}

static int wrong_architecture(const CudaKernel *kernel)
{
    int major = 0, minor = 0;
    CUdevice device;
    if (kernel->driver->call.device_get(&device, kernel->device) == 0) {
        kernel->driver->call.device_attribute(&major, CAPABILITY_MAJOR, device);
        kernel->driver->call.device_attribute(&minor, CAPABILITY_MINOR, device);
    }
    char doing[96];
    PyOS_snprintf(doing, sizeof(doing), "loading, on a device of compute capability %d.%d,", major, minor);
    return cuda_raise(kernel->driver, CUDA_ERROR_NO_BINARY_FOR_GPU, doing, kernel->name);
}

/* Load the kernel, in whose context this thread is; -1 with an exception set. */
static int load(CudaKernelObject *self, const void *cubin)
{
    CudaKernel *kernel = &self->kernel;
    const CudaFunctions *call = &kernel->driver->call;
    CUresult code = call->load(&kernel->module->handle, cubin);
    if (code == CUDA_ERROR_NO_BINARY_FOR_GPU) {
        return wrong_architecture(kernel);
    }
    int threads = 0;
    code = code != 0 ? code : call->get_function(&kernel->function, kernel->module->handle, kernel->name);
    code = code != 0 ? code : call->function_attribute(&threads, MAX_THREADS, kernel->function);
    code = code != 0 ? code : call->function_attribute(&self->registers, REGISTERS, kernel->function);
    code = code != 0 ? code : call->function_attribute(&self->local, LOCAL_BYTES, kernel->function);
    if (code != 0) {
        return cuda_raise(kernel->driver, code, "loading", kernel->name);
    }
    if (kernel->threads > (unsigned)threads) {
        PyErr_Format(PyExc_RuntimeError, "loading %s: a block has %u threads, and with %d registers each at most %d on "
                     "this device", kernel->name, kernel->threads, self->registers, threads);
        return -1;
    }
    if (!has_parameters(kernel)) {
        PyErr_Format(PyExc_RuntimeError, "loading %s: its parameters are not %d pointers, %d sizes of 64 bits and %d "
                     "pointers more", kernel->name, kernel->n_pointers, kernel->n_sizes, SCRATCH_POINTERS);
        return -1;
    }
    return ask_for_shared(kernel);
}

/* The same in that context, and where others capture: what is loaded is no part of what they do. */
static int load_aside(CudaKernelObject *self, const void *cubin)
{
    CudaKernel *kernel = &self->kernel;
    CUcontext outer;
    int mode = CAPTURE_RELAXED;
    unload_retired(kernel->driver, kernel->device);
    if (cuda_enter(kernel->driver, kernel->context, &outer) < 0) {
        return -1;
    }
    kernel->driver->call.exchange_capture_mode(&mode);
    int status = load(self, cubin);
    kernel->driver->call.exchange_capture_mode(&mode);
    cuda_leave(kernel->driver, kernel->context, outer);
    return status;
}

/* ---- the type ---- */

static PyObject *kernel_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"cubin",  "name",   "threads", "shared",  "pointers",
                            "sizes", "driver", "device",  "general", NULL};
    PyObject *cubin, *name, *general = Py_None;
    const char *path = "libcuda.so.1";
    int threads, shared, pointers, sizes, device = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "SUiiii|siO:CudaKernel", names, &cubin, &name, &threads, &shared,
                                     &pointers, &sizes, &path, &device, &general)) {
        return NULL;
    }
    if (threads <= 0 || shared < 0 || pointers < 0 || sizes < 0) {
        return PyErr_Format(PyExc_ValueError, "no kernel has %d threads, %d bytes of shared memory, %d pointers and %d "
                            "sizes", threads, shared, pointers, sizes);
    }
    if (!is_whole(cubin)) {
        return PyErr_Format(PyExc_RuntimeError, "loading %U: the cubin is cut off", name);
    }
    const char *text = PyUnicode_AsUTF8(name);
    CudaDriver *driver = text == NULL ? NULL : cuda_driver(path);
    CUcontext context = driver == NULL ? NULL : cuda_context(driver, device);
    CudaKernelObject *self = context == NULL ? NULL : (CudaKernelObject *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    CudaModule *module = calloc(1, sizeof(*module));
    self->name = Py_NewRef(name);
    self->kernel = (CudaKernel){
        .driver = driver, .context = context, .module = module, .name = text, .device = device,
        .threads = (unsigned)threads, .shared = (unsigned)shared, .n_pointers = pointers, .n_sizes = sizes,
        .general = general == Py_None ? NULL : Py_NewRef(general),
    };
    if (module == NULL) {
        PyErr_NoMemory();
        Py_CLEAR(self);
    } else {
        module->context = context;
        if (load_aside(self, PyBytes_AS_STRING(cubin)) < 0) {
            Py_CLEAR(self);
        }
    }
    return (PyObject *)self;
}

static void kernel_dealloc(CudaKernelObject *self)
{
    CudaModule *module = self->kernel.module;
    if (module != NULL && module->handle != NULL && !module->stays) {
        module->next = self->kernel.driver->retired;
        self->kernel.driver->retired = module;
    } else {
        free(module);
    }
    Py_XDECREF(self->name);
    Py_XDECREF(self->kernel.general);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *kernel_repr(CudaKernelObject *self)
{
    return PyUnicode_FromFormat("<CudaKernel %U of %u threads>", self->name, self->kernel.threads);
}

static PyObject *kernel_address(CudaKernelObject *self, void *UNUSED(closure))
{
    return PyLong_FromVoidPtr(&self->kernel);
}

static PyGetSetDef kernel_getters[] = {
    {"address", (getter)kernel_address, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define IN_KERNEL(field) (offsetof(CudaKernelObject, kernel) + offsetof(CudaKernel, field))

static PyMemberDef kernel_members[] = {
    {"name", T_OBJECT_EX, offsetof(CudaKernelObject, name), READONLY, NULL},
    {"threads", T_UINT, IN_KERNEL(threads), READONLY, NULL},
    {"shared", T_UINT, IN_KERNEL(shared), READONLY, NULL},
    {"registers", T_INT, offsetof(CudaKernelObject, registers), READONLY, NULL},
    {"local", T_INT, offsetof(CudaKernelObject, local), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject CudaKernel_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "onegraph._C.CudaKernel",
    .tp_basicsize = sizeof(CudaKernelObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = kernel_new,
    .tp_dealloc = (destructor)kernel_dealloc,
    .tp_repr = (reprfunc)kernel_repr,
    .tp_getset = kernel_getters,
    .tp_members = kernel_members,
};
