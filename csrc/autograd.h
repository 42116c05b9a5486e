/* What a graph that records gradients asks of autograd (autograd.c). */
#ifndef ONEGRAPH_AUTOGRAD_H
#define ONEGRAPH_AUTOGRAD_H

#include "onegraph.h"

/* Whether this torch has what is asked here; checked once. The others are called only then. */
bool autograd_ready(void);

/* Whether what autograd saves goes through hooks, or anomaly mode looks at each operator. */
bool autograd_is_watched(void);
/* In a backward pass: whether it is an ordinary one, and no mode, tangent, cast or further derivative is on the way. */
bool autograd_is_plain_pass(void);
/* In a backward pass: whether another one may follow over the same graph. */
bool autograd_keeps_graph(void);

/* Whether a tensor has the dispatch keys of an ordinary dense one of the CPU: it is not conjugated, no zeros without
   memory, not one of a batch of `vmap`, not made in inference mode, and so has a version. */
bool tensor_is_ordinary(PyObject *tensor);
/* How often an ordinary tensor was written to. */
int64_t tensor_version(PyObject *tensor);

#endif
