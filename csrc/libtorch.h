/* The functions of libtorch that the extension calls, found in the process at run time: nothing of torch is needed to
   build it. They are trusted only after a comparison with what Python says about a few tensors. */
#ifndef ONEGRAPH_LIBTORCH_H
#define ONEGRAPH_LIBTORCH_H

#include "onegraph.h"
#include <stddef.h>

/* Kinds of devices, as c10::DeviceType numbers them. */
enum { TORCH_CPU = 0, TORCH_CUDA = 1 };

typedef struct {
    /* of a tensor handle; each returns 0 on success */
    int32_t (*get_dtype)(void *tensor, int32_t *out);
    int32_t (*get_device_type)(void *tensor, int32_t *out);
    int32_t (*get_device_index)(void *tensor, int32_t *out);
    int32_t (*get_layout)(void *tensor, int32_t *out);
    int32_t (*get_dim)(void *tensor, int64_t *out);
    int32_t (*get_sizes)(void *tensor, int64_t **out);
    int32_t (*get_strides)(void *tensor, int64_t **out);
    int32_t (*get_storage_offset)(void *tensor, int64_t *out);
    int32_t (*get_data_ptr)(void *tensor, void **out);
    /* of a TensorImpl */
    bool (*requires_grad)(const void *impl);
    /* of the thread or the process */
    bool (*grad_mode)(void);
    bool (*inference_mode)(void);
    int64_t (*function_modes)(void);
    int (*functions_disabled)(void);
    int8_t (*default_dtype)(void);
    bool (*autocast_enabled)(int8_t device_type);
    int8_t (*autocast_dtype)(int8_t device_type);
    void *(*global_context)(void);
    bool (*deterministic)(const void *context);
    bool (*deterministic_warns)(const void *context);
    bool (*deterministic_fills)(const void *context);
    /* whether a profiler watches the thread; NULL: this torch does not tell */
    bool (*thread_callbacks)(void);
    /* where a TensorImpl keeps its dispatch keys, in 64-bit words */
    Py_ssize_t keys_at;
    /* the key of tensors whose dimensions have names; 0: there are none */
    uint64_t names_key;
} Libtorch;

/* NULL if torch is not loaded, or is not as expected: then use Python attributes. */
const Libtorch *libtorch(void);
/* The functions that were checked, also while a test has chosen Python attributes. */
const Libtorch *libtorch_checked(void);

/* The dispatch keys that this thread includes and excludes: the address of the two words. */
const uint64_t *libtorch_thread_keys(void);

/* The address of an exported function; libtorch() has been called. */
void *libtorch_symbol(const char *name);

/* The module that is asked what libtorch does not answer: src/onegraph/torchlib/abi.py. */
#define ABI "onegraph.torchlib.abi"

/* torch.Tensor, borrowed; NULL if torch is not loaded. */
PyTypeObject *tensor_type(void);

/* A THPVariable is an object header and an at::Tensor, which is a pointer to a TensorImpl; the at::Tensor's address
   serves as a handle. */
static inline void *tensor_handle(PyObject *tensor) { return (char *)tensor + sizeof(PyObject); }
static inline void *tensor_impl(PyObject *tensor) { return *(void **)tensor_handle(tensor); }
static inline uint64_t tensor_keys(const Libtorch *torch, PyObject *tensor)
{
    return ((const uint64_t *)tensor_impl(tensor))[torch->keys_at];
}

/* tensor_abi(use=None): "libtorch" or "python"; tests may choose. */
PyObject *libtorch_tensor_abi(PyObject *module, PyObject *args, PyObject *kwargs);

#endif
