/* Streams, captures and graphs of the stand-in. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef WITH_CUDA_H
#include <cuda.h>
typedef unsigned long long Flags;
#undef cuGraphInstantiate
#else
typedef int CUresult, CUstreamCaptureStatus, CUstreamCaptureMode;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef unsigned long long CUdeviceptr, Flags;
#define cuStreamDestroy cuStreamDestroy_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2
#define cuStreamBeginCapture cuStreamBeginCapture_v2
#endif
#include "stand_in.h"
#include "streams.h"

enum { GLOBAL, THREAD_LOCAL, RELAXED, MOST_PENDING = 1 << 16 };
static _Thread_local int thread_mode = GLOBAL;

/* ---- what runs ---- */

static struct {
    Function *function;
    Stream *stream;
} running[MOST_PENDING];
static int n_running;

void pending(Function *function, Stream *stream)
{
    for (int i = 0; i < n_running; i++) {
        if (running[i].function == function && running[i].stream == stream) {
            return;
        }
    }
    running[n_running].function = function;
    running[n_running++].stream = stream;
}

static void has_run(const Context *context, const Stream *stream, bool all)
{
    int left = 0;
    for (int i = 0; i < n_running; i++) {
        if (!(all ? running[i].function->module->context == context : running[i].stream == stream)) {
            running[left++] = running[i];
        }
    }
    n_running = left;
    for (Object *object = first_of(EXEC); object != NULL; object = object->next) {
        Graph *graph = (Graph *)object;
        if (all || graph->stream == stream) {
            graph->running = false;
        }
    }
}

static bool launches(const Graph *graph, const Function *function)
{
    for (const Node *node = graph->first; node != NULL; node = node->next) {
        if (node->function == function) {
            return true;
        }
    }
    return false;
}

void still_used(const Function *function)
{
    for (int i = 0; i < n_running; i++) {
        if (running[i].function == function) {
            complain(0, "%s is unloaded while it may still run", function->is.name);
        }
    }
    for (Kind kind = GRAPH; kind <= EXEC; kind++) {
        for (Object *object = first_of(kind); object != NULL; object = object->next) {
            if (object->alive && launches((Graph *)object, function)) {
                complain(0, "%s is unloaded, and a graph may launch it", function->is.name);
            }
        }
    }
}

/* ---- captures ---- */

/* A stream that captures, and with which the null stream goes in step. */
static Stream *capturing_beside(void)
{
    for (Object *object = first_of(STREAM); object != NULL; object = object->next) {
        Stream *stream = (Stream *)object;
        if (object->alive && stream->blocking && stream->capture != NULL) {
            return stream;
        }
    }
    return NULL;
}

int is_stream(const void *handle, const char *what, Stream **stream)
{
    *stream = NULL;
    if (handle != NULL) {
        *stream = found(handle, STREAM, what);
        return *stream == NULL ? INVALID_HANDLE : 0;
    }
    Stream *other = capturing_beside();
    if (other != NULL) {
        other->invalid = true;
        return complain(906, "%s on the null stream while another one captures", what);
    }
    return 0;
}

int unsafe_call(const char *what)
{
    int code = 0;
    for (Object *object = first_of(STREAM); object != NULL && thread_mode != RELAXED; object = object->next) {
        Stream *stream = (Stream *)object;
        if (!object->alive || stream->capture == NULL || stream->mode == RELAXED) {
            continue;
        }
        bool mine = pthread_equal(stream->thread, pthread_self()) != 0;
        if (mine || (stream->mode == GLOBAL && thread_mode == GLOBAL)) {
            stream->invalid = true;
            code = complain(900, "%s while a stream captures", what);
        }
    }
    return code;
}

int add_node(Stream *stream, const Node *node)
{
    if (stream->invalid) {
        return 901;
    }
    Node *copy = malloc(sizeof(*copy));
    *copy = *node;
    copy->next = NULL;
    *stream->capture->last = copy;
    stream->capture->last = &copy->next;
    return 0;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    int was = thread_mode;
    thread_mode = (int)*mode;
    *mode = (CUstreamCaptureMode)was;
    return thread_mode >= GLOBAL && thread_mode <= RELAXED ? 0 : INVALID_VALUE;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    Stream *stream = NULL;
    if (settings.quiet) {
        *status = (CUstreamCaptureStatus)0;
        return 0;
    }
    pthread_mutex_lock(&lock);
    int code = handle != NULL ? is_stream(handle, "cuStreamIsCapturing", &stream) : capturing_beside() != NULL ? 906 : 0;
    bool captures = code == 0 && stream != NULL && stream->capture != NULL;
    *status = (CUstreamCaptureStatus)(captures ? (stream->invalid ? 2 : 1) : 0);
    pthread_mutex_unlock(&lock);
    return code;
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode)
{
    Stream *stream;
    pthread_mutex_lock(&lock);
    int code = is_stream(handle, "cuStreamBeginCapture", &stream);
    if (code == 0 && (stream == NULL || stream->capture != NULL || (int)mode < GLOBAL || (int)mode > RELAXED)) {
        code = complain(900, "cuStreamBeginCapture on the null stream, or twice, or in no mode");
    } else if (code == 0) {
        stream->capture = make(GRAPH, sizeof(Graph));
        stream->capture->last = &stream->capture->first;
        stream->mode = (int)mode;
        stream->invalid = false;
        stream->thread = pthread_self();
    }
    pthread_mutex_unlock(&lock);
    return code;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
    Stream *stream;
    pthread_mutex_lock(&lock);
    int code = is_stream(handle, "cuStreamEndCapture", &stream);
    *graph = NULL;
    if (code == 0 && (stream == NULL || stream->capture == NULL)) {
        code = complain(INVALID_VALUE, "cuStreamEndCapture of a stream that does not capture");
    } else if (code == 0) {
        if (stream->mode != RELAXED && !pthread_equal(stream->thread, pthread_self())) {
            complain(0, "cuStreamEndCapture in another thread");
        }
        code = stream->invalid ? 901 : 0;
        stream->capture->object.alive = code == 0;
        *graph = code == 0 ? (CUgraph)stream->capture : NULL;
        stream->capture = NULL;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- streams and events ---- */

CUresult cuStreamCreate(CUstream *handle, unsigned flags)
{
    pthread_mutex_lock(&lock);
    Context *context = current_context("cuStreamCreate");
    Stream *stream = make(STREAM, sizeof(Stream));
    stream->context = context;
    stream->blocking = flags == 0;
    *handle = (CUstream)stream;
    pthread_mutex_unlock(&lock);
    return context == NULL ? INVALID_CONTEXT : 0;
}

CUresult cuStreamDestroy(CUstream handle)
{
    pthread_mutex_lock(&lock);
    Stream *stream = found(handle, STREAM, "cuStreamDestroy");
    if (stream != NULL) {
        if (stream->capture != NULL) {
            complain(0, "cuStreamDestroy of a stream that captures");
        }
        stream->object.alive = false;
    }
    pthread_mutex_unlock(&lock);
    return stream == NULL ? INVALID_HANDLE : 0;
}

CUresult cuStreamSynchronize(CUstream handle)
{
    Stream *stream;
    pthread_mutex_lock(&lock);
    int code = is_stream(handle, "cuStreamSynchronize", &stream);
    if (code == 0 && stream != NULL && stream->capture != NULL) {
        stream->invalid = true;
        code = complain(900, "cuStreamSynchronize of a stream that captures");
    } else if (code == 0) {
        has_run(NULL, stream, false);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

CUresult cuCtxSynchronize(void)
{
    int code = 0;
    pthread_mutex_lock(&lock);
    Context *context = current_context("cuCtxSynchronize");
    for (Object *object = first_of(STREAM); object != NULL; object = object->next) {
        Stream *stream = (Stream *)object;
        if (object->alive && stream->context == context && stream->capture != NULL) {
            stream->invalid = true;
            code = complain(900, "cuCtxSynchronize while a stream captures");
        }
    }
    if (code == 0) {
        has_run(context, NULL, true);
        record("synchronize");
    }
    pthread_mutex_unlock(&lock);
    return context == NULL ? INVALID_CONTEXT : code;
}

CUresult cuEventCreate(CUevent *handle, unsigned flags)
{
    pthread_mutex_lock(&lock);
    Context *context = current_context("cuEventCreate");
    *handle = make(EVENT, sizeof(Object));
    pthread_mutex_unlock(&lock);
    return context == NULL ? INVALID_CONTEXT : flags > 7 ? INVALID_VALUE : 0;
}

CUresult cuEventDestroy(CUevent handle)
{
    pthread_mutex_lock(&lock);
    Object *event = found(handle, EVENT, "cuEventDestroy");
    if (event != NULL) {
        event->alive = false;
    }
    pthread_mutex_unlock(&lock);
    return event == NULL ? INVALID_HANDLE : 0;
}

static CUresult event_and_stream(CUevent event, CUstream handle, const char *what)
{
    Stream *stream;
    pthread_mutex_lock(&lock);
    int code = is_stream(handle, what, &stream);
    code = code != 0 ? code : found(event, EVENT, what) == NULL ? INVALID_HANDLE : 0;
    if (code == 0) {
        record("%s %llu", what, (unsigned long long)(uintptr_t)stream);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

CUresult cuEventRecord(CUevent event, CUstream stream) { return event_and_stream(event, stream, "cuEventRecord"); }

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    return flags != 0 ? INVALID_VALUE : event_and_stream(event, stream, "cuStreamWaitEvent");
}

/* ---- copies and graphs ---- */

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle)
{
    Stream *stream;
    pthread_mutex_lock(&lock);
    int code = is_stream(handle, "cuMemcpyDtoDAsync", &stream);
    if (code == 0 && !(is_memory(to, bytes) && is_memory(from, bytes))) {
        code = complain(INVALID_VALUE, "cuMemcpyDtoDAsync of %zu bytes in memory that is not the device's", bytes);
    }
    if (code == 0 && stream != NULL && stream->capture != NULL) {
        Node node = {.parameters = {to, from, bytes}};
        code = add_node(stream, &node);
    } else if (code == 0) {
        memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
        record("copy %llu %llu %zu %llu", (unsigned long long)to, (unsigned long long)from, bytes,
               (unsigned long long)(uintptr_t)stream);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph handle, Flags flags)
{
    pthread_mutex_lock(&lock);
    Graph *graph = found(handle, GRAPH, "cuGraphInstantiateWithFlags");
    int code = graph == NULL || flags != 0 ? INVALID_VALUE : settings.instantiate_fails;
    settings.instantiate_fails = 0;
    if (code == 0) {
        Graph *made = make(EXEC, sizeof(Graph));
        made->first = graph->first;
        *exec = (CUgraphExec)made;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle)
{
    Stream *stream;
    pthread_mutex_lock(&lock);
    int code = is_stream(stream_handle, "cuGraphLaunch", &stream);
    Graph *graph = found(handle, EXEC, "cuGraphLaunch");
    code = graph == NULL ? INVALID_HANDLE : code;
    if (code == 0 && current_context("cuGraphLaunch") == NULL) {
        code = INVALID_CONTEXT;
    }
    if (code == 0 && graph->running && graph->stream != stream) {
        complain(0, "a graph is launched on two streams, of which none waits for the other");
    }
    if (code == 0) {
        graph->running = true;
        graph->stream = stream;
    }
    for (Node *node = code == 0 ? graph->first : NULL; node != NULL; node = node->next) {
        if (node->function == NULL) {
            memmove((void *)(uintptr_t)node->parameters[0], (const void *)(uintptr_t)node->parameters[1],
                    node->parameters[2]);
            continue;
        }
        for (int i = 0; i < node->function->is.count; i++) {
            if (node->function->is.types[i] == 'p' && !is_memory(node->parameters[i], 1)) {
                complain(0, "%s is replayed, and the memory of parameter %d is gone", node->function->is.name, i);
            }
        }
        record_launch(node, stream, "replay");
        pending(node->function, stream);
        pthread_mutex_unlock(&lock);
        compute(node);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

static CUresult destroy(const void *handle, Kind kind, const char *what)
{
    pthread_mutex_lock(&lock);
    Object *object = found(handle, kind, what);
    if (object != NULL) {
        object->alive = false;
    }
    pthread_mutex_unlock(&lock);
    return object == NULL ? INVALID_HANDLE : 0;
}

CUresult cuGraphDestroy(CUgraph graph) { return destroy(graph, GRAPH, "cuGraphDestroy"); }
CUresult cuGraphExecDestroy(CUgraphExec exec) { return destroy(exec, EXEC, "cuGraphExecDestroy"); }
