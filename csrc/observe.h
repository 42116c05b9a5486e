/* What profilers are told of a call. */
#ifndef ONEGRAPH_OBSERVE_H
#define ONEGRAPH_OBSERVE_H

#include "onegraph.h"

/* Whether torch's profiler watches this thread. */
bool is_profiled(void);

/* A range of this name (a str) begins in the profile; NULL if that cannot be. No exception is set, nor raised. */
PyObject *range_begin(PyObject *name);
/* Ends it, and takes the reference. An exception that is set stays. */
void range_end(PyObject *range);

int64_t nanoseconds(void);

#endif
