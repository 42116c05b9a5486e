/* A stand-in for libcuda.so.1 where there is no GPU: it checks what it is asked for, and records what is launched.

   A kernel is a cubin, or text in the place of one (see kernels.c). It computes nothing, unless a test gives it a function.
   Device memory is memory of this process, which a test has made known. What a driver would refuse is refused with its
   error, and what it would not notice, but is wrong, is a complaint as well. Built with -DWITH_CUDA_H the compiler compares
   all declarations with NVIDIA's. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef WITH_CUDA_H
#include <cuda.h>
typedef unsigned long long Flags;
#else
typedef int CUresult, CUdevice, CUdevice_attribute, CUfunction_attribute, CUstreamCaptureStatus, CUstreamCaptureMode;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef unsigned long long CUdeviceptr, Flags;
#define cuStreamDestroy cuStreamDestroy_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2
#define cuStreamBeginCapture cuStreamBeginCapture_v2
#endif
#include "stand_in.h"

/* ---- what tests ask and say ---- */

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
Settings settings = {.devices = 1, .capability = 80, .shared = 166912};
static char *texts[2]; /* complaints; launches */
static size_t lengths[2], rooms[2];

static void note(int which, const char *format, va_list values)
{
    char line[4096];
    int length = vsnprintf(line, sizeof(line), format, values);
    length = length < (int)sizeof(line) ? length : (int)sizeof(line) - 1;
    if (lengths[which] + (size_t)length + 2 > rooms[which]) {
        rooms[which] = 2 * rooms[which] + sizeof(line) + 2;
        texts[which] = realloc(texts[which], rooms[which]);
    }
    memcpy(texts[which] + lengths[which], line, (size_t)length);
    lengths[which] += (size_t)length;
    texts[which][lengths[which]++] = '\n';
    texts[which][lengths[which]] = '\0';
}

int complain(int code, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    note(0, format, values);
    va_end(values);
    return code;
}

void record(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    note(1, format, values);
    va_end(values);
}

const char *stand_in_complaints(void) { return lengths[0] > 0 ? texts[0] : ""; }
const char *stand_in_launches(void) { return lengths[1] > 0 ? texts[1] : ""; }
void stand_in_forget(void) { lengths[0] = lengths[1] = 0; }

int stand_in_set(const char *name, int value)
{
    const struct {
        const char *name;
        int *setting;
    } all[] = {
        {"devices", &settings.devices}, {"capability", &settings.capability}, {"shared", &settings.shared},
        {"launch_fails", &settings.launch_fails}, {"load_fails", &settings.load_fails}, {"quiet", &settings.quiet},
        {"hold", &settings.hold},
        {"any_memory", &settings.any_memory}, {"instantiate_fails", &settings.instantiate_fails},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(all[i].name, name) == 0) {
            int was = *all[i].setting;
            *all[i].setting = value;
            return was;
        }
    }
    abort();
}

/* ---- errors ---- */

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing stream"},
};

static const char *of_error(int code, bool name)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].code == code) {
            return name ? errors[i].name : errors[i].text;
        }
    }
    return NULL;
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
    *name = of_error((int)code, true);
    return *name == NULL ? INVALID_VALUE : 0;
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
    *text = of_error((int)code, false);
    return *text == NULL ? INVALID_VALUE : 0;
}

/* ---- what is alive ---- */

/* All that ever were, by kind and by address: none is freed, so that what is dead is known. */
static Object *objects[N_KINDS];
static Object *table[1 << 20];

/* Where an object is in the table, or would be. */
static Object **place_of(const void *handle)
{
    size_t at = ((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15ull >> 44;
    while (table[at] != NULL && table[at] != handle) {
        at = (at + 1) % (sizeof(table) / sizeof(table[0]));
    }
    return &table[at];
}

void *make(Kind kind, size_t size)
{
    Object *object = calloc(1, size);
    object->kind = kind;
    object->alive = true;
    object->next = objects[kind];
    objects[kind] = *place_of(object) = object;
    return object;
}

void *found(const void *handle, Kind kind, const char *what)
{
    Object *object = *place_of(handle);
    if (object != NULL && object->kind == kind && object->alive) {
        return object;
    }
    complain(0, "%s is given %s", what,
             object == NULL         ? "something that was never made"
             : object->kind == kind ? "something that is dead"
                                    : "something else");
    return NULL;
}

Object *first_of(Kind kind) { return objects[kind]; }

int stand_in_alive(int kind)
{
    int count = 0;
    pthread_mutex_lock(&lock);
    for (Object *object = objects[kind]; object != NULL; object = object->next) {
        count += object->alive;
    }
    pthread_mutex_unlock(&lock);
    return count;
}

/* ---- memory ---- */

void stand_in_register(uint64_t begin, uint64_t size)
{
    pthread_mutex_lock(&lock);
    Memory *memory = make(MEMORY, sizeof(Memory));
    memory->begin = begin;
    memory->end = begin + size;
    pthread_mutex_unlock(&lock);
}

int stand_in_unregister(uint64_t begin)
{
    int code = INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (Object *object = objects[MEMORY]; object != NULL; object = object->next) {
        if (object->alive && ((Memory *)object)->begin == begin) {
            object->alive = false;
            code = 0;
        }
    }
    pthread_mutex_unlock(&lock);
    return code;
}

static int (*ask_memory)(uint64_t, uint64_t);

/* Somebody else knows the device's memory. */
void stand_in_ask_memory(int (*has)(uint64_t, uint64_t)) { ask_memory = has; }

bool is_memory(uint64_t begin, uint64_t size)
{
    if (ask_memory != NULL) { /* tensors without elements have no memory, and kernels that are given them read nothing */
        return begin == 0 || ask_memory(begin, size) != 0;
    }
    for (Object *object = objects[MEMORY]; object != NULL; object = object->next) {
        Memory *memory = (Memory *)object;
        if (object->alive && memory->begin <= begin && begin + size <= memory->end) {
            return true;
        }
    }
    unsigned char in_core;
    return settings.any_memory && mincore((void *)(uintptr_t)(begin & ~4095ull), 1, &in_core) == 0;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t size)
{
    *address = (uintptr_t)aligned_alloc(256, (size + 255) & ~(size_t)255);
    stand_in_register(*address, size);
    return 0;
}

CUresult cuMemFree(CUdeviceptr address)
{
    if (stand_in_unregister(address) != 0) {
        return complain(INVALID_VALUE, "cuMemFree of what was not allocated");
    }
    free((void *)(uintptr_t)address);
    return 0;
}

/* ---- devices and contexts ---- */

static bool initialized;
static Context *contexts[8];
static _Thread_local Context *current;

CUresult cuInit(unsigned flags)
{
    if (settings.devices == 0) {
        return 100;
    }
    initialized = true;
    return flags == 0 ? 0 : INVALID_VALUE;
}

CUresult cuDeviceGet(CUdevice *device, int number)
{
    if (!initialized) {
        return complain(NOT_INITIALIZED, "cuDeviceGet before cuInit");
    }
    *device = 100 + number; /* it is no number */
    return number >= 0 && number < settings.devices ? 0 : 101;
}

static bool is_device(CUdevice device) { return initialized && device >= 100 && device < 100 + settings.devices; }

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    switch ((int)attribute) {
    case 75: *value = settings.capability / 10; break;
    case 76: *value = settings.capability % 10; break;
    case 97: *value = settings.shared; break;
    default: return complain(INVALID_VALUE, "cuDeviceGetAttribute: %d is not known here", (int)attribute);
    }
    return is_device(device) ? 0 : complain(101, "cuDeviceGetAttribute of no device");
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    if (!is_device(device)) {
        return complain(101, "cuDevicePrimaryCtxRetain of no device");
    }
    pthread_mutex_lock(&lock);
    Context **slot = &contexts[device - 100];
    if (*slot == NULL) {
        *slot = make(CONTEXT, sizeof(Context));
    }
    *context = (CUcontext)*slot;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* A stream of this device, for somebody who makes its streams. */
uint64_t stand_in_stream(int device)
{
    CUcontext context;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 100 + device);
    pthread_mutex_lock(&lock);
    Stream *stream = make(STREAM, sizeof(Stream));
    stream->context = (Context *)context;
    pthread_mutex_unlock(&lock);
    return (uintptr_t)stream;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = (CUcontext)current;
    return 0;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    pthread_mutex_lock(&lock);
    bool right = context == NULL || found(context, CONTEXT, "cuCtxSetCurrent") != NULL;
    pthread_mutex_unlock(&lock);
    current = right ? (Context *)context : current;
    return right ? 0 : INVALID_CONTEXT;
}

Context *current_context(const char *what)
{
    if (current == NULL) {
        complain(0, "%s without a current context", what);
    }
    return current;
}
