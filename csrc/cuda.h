/* CUDA's driver, opened when the first kernel for it is loaded. Nothing of CUDA is needed to build this: the few types and
   numbers of cuda.h that are used are declared here. */
#ifndef ONEGRAPH_CUDA_H
#define ONEGRAPH_CUDA_H

#include "onegraph.h"

typedef int CUresult; /* 0: success */
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef uint64_t CUdeviceptr;

enum {
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    /* of devices */
    SHARED_PER_BLOCK_OPTIN = 97,
    CAPABILITY_MAJOR = 75,
    CAPABILITY_MINOR = 76,
    /* of functions */
    MAX_THREADS = 0,
    STATIC_SHARED = 1,
    LOCAL_BYTES = 3,
    REGISTERS = 4,
    MAX_DYNAMIC_SHARED = 8,
    /* of captures */
    CAPTURE_NONE = 0,
    CAPTURE_THREAD_LOCAL = 1,
    CAPTURE_RELAXED = 2,
};

/* What a launch is given in the place of pointers to its parameters: them, in one buffer. */
#define LAUNCH_END ((void *)0)
#define LAUNCH_BUFFER ((void *)1)
#define LAUNCH_SIZE ((void *)2)

typedef struct {
    CUresult (*init)(unsigned flags);
    CUresult (*error_name)(CUresult code, const char **name);
    CUresult (*error_string)(CUresult code, const char **text);
    CUresult (*device_get)(CUdevice *device, int number);
    CUresult (*device_attribute)(int *value, int attribute, CUdevice device);
    CUresult (*retain_context)(CUcontext *context, CUdevice device);
    CUresult (*get_context)(CUcontext *context);
    CUresult (*set_context)(CUcontext context);
    CUresult (*synchronize)(void);
    CUresult (*load)(CUmodule *module, const void *image);
    CUresult (*unload)(CUmodule module);
    CUresult (*get_function)(CUfunction *function, CUmodule module, const char *name);
    CUresult (*function_attribute)(int *value, int attribute, CUfunction function);
    CUresult (*set_function_attribute)(CUfunction function, int attribute, int value);
    CUresult (*launch)(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **parameters,
                       void **extra);
    CUresult (*is_capturing)(CUstream stream, int *status);
    CUresult (*exchange_capture_mode)(int *mode);
    CUresult (*begin_capture)(CUstream stream, int mode);
    CUresult (*end_capture)(CUstream stream, CUgraph *graph);
    CUresult (*graph_instantiate)(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
    CUresult (*graph_launch)(CUgraphExec exec, CUstream stream);
    CUresult (*graph_destroy)(CUgraph graph);
    CUresult (*graph_exec_destroy)(CUgraphExec exec);
    CUresult (*copy)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
    /* NULL: this driver is older than CUDA 12.4, which has it */
    CUresult (*parameter)(CUfunction function, size_t index, size_t *offset, size_t *size);
} CudaFunctions;

enum { MAX_DEVICES = 64 };
struct CudaModule;

/* A driver lives to the end of the process. */
typedef struct CudaDriver {
    CudaFunctions call;
    char *path;
    CUcontext contexts[MAX_DEVICES]; /* the primary ones, which torch uses too; NULL: not asked for */
    CUresult (*current_stream)(int32_t device, void **stream); /* torch's; NULL: it knows of no streams */
    struct CudaModule *retired;      /* whose kernels are gone */
    struct CudaDriver *next;
} CudaDriver;

/* cuda_driver.c */
/* The driver of this path; NULL with an exception set. */
CudaDriver *cuda_driver(const char *path);
/* The primary context of a device; NULL with an exception set. */
CUcontext cuda_context(CudaDriver *driver, int device);
/* Raise for a call that failed: torch's OutOfMemoryError, or a RuntimeError. Gives -1. */
int cuda_raise(const CudaDriver *driver, CUresult code, const char *doing, const char *name);
/* The stream on which torch works in this thread; -1 with an exception set. */
int cuda_stream(const CudaDriver *driver, int device, CUstream *stream);
/* Make the context this thread's, and give the one that was; -1 with an exception set. */
int cuda_enter(const CudaDriver *driver, CUcontext context, CUcontext *outer);
void cuda_leave(const CudaDriver *driver, CUcontext context, CUcontext outer);
/* Wait for all that the current context runs, while other threads of Python go on. */
CUresult cuda_synchronize(const CudaDriver *driver);

/* A kernel that is loaded; its address stands in plans in the place of a function's. Its parameters are the pointers, the
   sizes as 64-bit integers, and two null pointers: memory that Triton's kernels may ask for, and ours do not. */
typedef struct {
    CudaDriver *driver;
    CUcontext context;
    CUfunction function;
    struct CudaModule *module;
    const char *name;
    int device;
    unsigned threads; /* of a block */
    unsigned shared;  /* bytes that a block asks for */
    int n_pointers;
    int n_sizes;
    PyObject *general; /* NULL: it takes all pointers. Otherwise they are multiples of ALIGNMENT, and for others there is this
                          CudaKernel, or a callable that makes it when it is needed */
} CudaKernel;

enum { SCRATCH_POINTERS = 2, ALIGNMENT = 16 };
#define CUDA_PARAMETERS(n_pointers, n_sizes) ((n_pointers) + (n_sizes) + SCRATCH_POINTERS)

/* cuda_kernel.c */
extern PyTypeObject CudaKernel_Type;
/* Begin a kernel on torch's current stream. `parameters` has the room of CUDA_PARAMETERS, and the pointers and the sizes in
   it; what is behind them is written here. -1 with an exception set. */
int cuda_launch(const CudaKernel *kernel, uint64_t *parameters, const int64_t *grid);
PyObject *module_launch_cuda_kernel(PyObject *module, PyObject *args);

/* cuda_graph.c */
extern PyTypeObject CudaGraph_Type;
/* How many graphs of ours this thread captures: they keep what they launch. */
extern _Thread_local int cuda_own_captures;
PyObject *module_captures_cuda(PyObject *module, PyObject *args);

#endif
