/* Pool: large memory that calls have made and nobody knows any more; it serves the allocations that come next.

   malloc has large memory from the system and gives it back as soon as it is free. The next call would get every page of
   it anew, zeroed and at the price of a fault: a third of the time of a step of training. While memory waits here the
   system may take its pages, if it needs them. At most as much waits as one call has asked for. */
#include "pool.h"
#include "tensor_make.h"
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 1024 };

typedef struct {
    PyObject *tensor;
    void *data;
    int64_t elements;
    int64_t bytes;
    int32_t dtype;
} Waiting;

static struct {
    Waiting waiting[ROOM]; /* the oldest first */
    int n;
    int64_t bytes; /* of all that wait */
    int64_t most;  /* bytes that a call has asked for */
} pool;

static Waiting take_out(int at)
{
    Waiting found = pool.waiting[at];
    pool.n--;
    pool.bytes -= found.bytes;
    memmove(&pool.waiting[at], &pool.waiting[at + 1], (size_t)(pool.n - at) * sizeof(Waiting));
    return found;
}

PyObject *pool_take(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int64_t elements)
{
    for (int at = pool.n - 1; at >= 0; at--) {
        if (pool.waiting[at].dtype == dtype && pool.waiting[at].elements == elements) {
            PyObject *known = take_out(at).tensor;
            PyObject *fresh = tensor_view(known, ndim, sizes, strides, 0); /* nothing was ever written to this one */
            Py_DECREF(known);
            return fresh;
        }
    }
    return NULL;
}

static void may_be_taken(void *data, int64_t bytes)
{
#ifdef MADV_FREE
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)data + page - 1) & ~(page - 1), end = ((uintptr_t)data + (uintptr_t)bytes) & ~(page - 1);
    if (begin < end) {
        (void)madvise((void *)begin, end - begin, MADV_FREE);
    }
#else
    (void)data, (void)bytes;
#endif
}

void pool_give(PyObject *tensor, void *data, int32_t dtype, int64_t elements, int64_t itemsize, int64_t asked)
{
    int64_t bytes = elements * itemsize;
    pool.most = asked > pool.most ? asked : pool.most;
    if (Py_REFCNT(tensor) > 1 || bytes > pool.most) {
        Py_DECREF(tensor);
        return;
    }
    while (pool.n == ROOM || pool.bytes + bytes > pool.most) {
        Py_DECREF(take_out(0).tensor);
    }
    may_be_taken(data, bytes);
    pool.waiting[pool.n++] = (Waiting){tensor, data, elements, bytes, dtype};
    pool.bytes += bytes;
}

int64_t pool_release(void)
{
    int64_t released = pool.bytes;
    while (pool.n > 0) {
        Py_DECREF(take_out(pool.n - 1).tensor);
    }
    pool.most = 0;
    return released;
}

PyObject *module_release_memory(PyObject *UNUSED(module), PyObject *UNUSED(ignored))
{
    return PyLong_FromLongLong(pool_release());
}
