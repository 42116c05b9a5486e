/* Tensors as C sees them: through libtorch's exported functions, or else through Python attributes. */
#ifndef ONEGRAPH_TENSOR_H
#define ONEGRAPH_TENSOR_H

#include "onegraph.h"

/* What is expected of a tensor (tensor_spec.c). */
extern PyTypeObject TensorSpec_Type;
typedef struct TensorSpecObject TensorSpecObject;

/* 1, 0, or -1 with an exception set. */
int tensor_spec_matches(TensorSpecObject *spec, PyObject *object);

bool is_tensor(PyObject *object);

/* Where a tensor lies, as Python says. `numbers` is owned and owns the others; -1 with an exception set. */
typedef struct {
    PyObject *numbers;
    unsigned long long address;
    long long offset;
    PyObject *sizes; /* tuples */
    PyObject *strides;
} TensorPlace;
int tensor_place(PyObject *tensor, TensorPlace *out);

/* A tuple of so many numbers; NULL with an exception set. */
PyObject *numbers_tuple(const int64_t *numbers, Py_ssize_t n);

/* One number of a tensor (tensor_numbers.c). 1, 0 if it has none (no tensor, no such dimension), or -1 with an exception set. */
int tensor_number(PyObject *object, bool strides, int64_t dim, int64_t *out);
int tensor_size(PyObject *object, int64_t dim, int64_t *out);
int tensor_stride(PyObject *object, int64_t dim, int64_t *out);

/* How tensors lie to each other in memory (memory.c). */
extern PyTypeObject Memory_Type;
typedef struct MemoryObject MemoryObject;

/* Whether the same of these tensors meet, in the same way: 1, 0, or -1 with an exception set. */
int memory_holds(MemoryObject *memory, PyObject *const *tensors);
Py_ssize_t memory_count(MemoryObject *memory);

/* A snapshot of torch's state that a trace depends on (global_state.c). */
extern PyTypeObject GlobalState_Type;
typedef struct GlobalStateObject GlobalStateObject;

int global_state_holds(GlobalStateObject *state);
/* Of forward-mode differentiation: PyTorch has it in a global of Python. Borrowed; NULL with an exception set. */
PyObject *forward_level(void);

/* Tensors are read through libtorch's functions, which never run Python code (libtorch.c). */
bool tensor_abi_native(void);

#endif
