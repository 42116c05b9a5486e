/* Large memory between two uses (pool.c). */
#ifndef ONEGRAPH_POOL_H
#define ONEGRAPH_POOL_H

#include "onegraph.h"

enum { POOLED = 1 << 20 }; /* bytes of a tensor whose memory is worth it */

/* A tensor in memory that waits, as many elements as it spans; NULL if there is none, or with an exception set. */
PyObject *pool_take(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int64_t elements);
/* Takes the reference to a tensor whose memory nobody else knows. `asked`: bytes that its call has asked for so far. */
void pool_give(PyObject *tensor, void *data, int32_t dtype, int64_t elements, int64_t itemsize, int64_t asked);
/* Gives back what waits; how many bytes. */
int64_t pool_release(void);
PyObject *module_release_memory(PyObject *module, PyObject *ignored);

#endif
