/* Values made of tensors, and kept: see kept.c and kept_for_each.c. */
#ifndef ONEGRAPH_KEPT_H
#define ONEGRAPH_KEPT_H

#include "onegraph.h"

/* How many tensors a Kept takes. */
Py_ssize_t kept_size(PyObject *kept);
/* Whether it has no value. */
bool kept_is_free(PyObject *kept);
/* Whether the first tensor among the arguments is the one that the value was made of. There are as many as it takes. */
bool kept_is_of(PyObject *kept, PyObject *const *args);

extern PyTypeObject Kept_Type;
extern PyTypeObject KeptForEach_Type;

#endif
