/* Making tensors, and running torch below autograd and autocast (tensor_make.c). */
#ifndef ONEGRAPH_TENSOR_MAKE_H
#define ONEGRAPH_TENSOR_MAKE_H

#include "onegraph.h"

/* Whether this torch has what the launcher needs; checked once. */
bool tensor_make_ready(void);

/* A new tensor on the CPU with uninitialized memory; `itemsize`: no less than that of the dtype. */
PyObject *tensor_empty(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int64_t itemsize);
enum { ON_CPU = 0 }; /* torch's number of a kind of device */
/* The same anywhere, of sizes and strides that fit; an index of -1 is that of the current device. */
PyObject *tensor_empty_on(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int32_t device,
                          int32_t index);
/* The elements that the layout spans; -1 with an exception set for a negative size. */
int64_t tensor_span(int64_t ndim, const int64_t *sizes, const int64_t *strides);
/* The memory of `base` seen otherwise; `offset` counts elements from its first. */
PyObject *tensor_view(PyObject *base, int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset);
/* -1 with an exception set if it has no memory. */
int tensor_data(PyObject *tensor, void **data);
/* About, as an estimate of the work: as if its elements were ordinary ones. */
enum { ORDINARY_ITEMSIZE = 4, LARGEST_ITEMSIZE = 16 };
int64_t tensor_bytes(PyObject *tensor);

int64_t torch_threads(void);

/* Take autograd and autocast out of dispatch in this thread; gives what to restore. */
uint64_t dispatch_below_autograd(void);
void dispatch_restore(uint64_t saved);
/* Say whether gradients are recorded in this thread; gives whether they were. */
bool gradients_recorded(bool are);

#endif
