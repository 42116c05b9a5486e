/* Autograd's state and the versions of tensors, read through libtorch and checked once against what Python says. */
#include "autograd.h"
#include "libtorch.h"
#include "tensor.h"

/* What torch saves tensors through is a stack: a deque of libstdc++, whose first and past-the-last elements are the third
   and the seventh of its words. */
enum { STACK_FIRST = 2, STACK_LAST = 6 };

static struct {
    const uintptr_t *(*saved_hooks)(void);
    int64_t (*dispatch_modes)(void);
    bool (*keeps_graph)(void);
    int64_t (*version)(const void *tensor);
    const bool *anomaly;
    uint64_t ordinary_keys;
} torch;

static const struct {
    size_t field;
    const char *name;
} symbols[] = {
    {offsetof(typeof(torch), saved_hooks), "_ZN2at23SavedTensorDefaultHooks13get_tls_stateEv"},
    {offsetof(typeof(torch), dispatch_modes), "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"},
    {offsetof(typeof(torch), keeps_graph), "_ZN5torch8autograd33get_current_graph_task_keep_graphEv"},
    {offsetof(typeof(torch), version), "_ZNK2at10TensorBase8_versionEv"},
    {offsetof(typeof(torch), anomaly), "_ZN5torch8autograd11AnomalyMode8_enabledE"},
};

static bool saves_through_hooks(void)
{
    const uintptr_t *stack = torch.saved_hooks();
    return stack[STACK_FIRST] != stack[STACK_LAST];
}

bool autograd_is_watched(void) { return *torch.anomaly || saves_through_hooks(); }

bool autograd_is_plain_pass(void)
{
    const Libtorch *known = libtorch();
    PyObject *level = known == NULL ? NULL : forward_level();
    return level != NULL && PyLong_AsLong(level) < 0 && !known->grad_mode() && !known->autocast_enabled(TORCH_CPU) &&
           !known->autocast_enabled(TORCH_CUDA) && torch.dispatch_modes() == 0 && !*torch.anomaly;
}

bool autograd_keeps_graph(void) { return torch.keeps_graph(); }

bool tensor_is_ordinary(PyObject *tensor)
{
    const Libtorch *known = libtorch();
    return known != NULL && tensor_keys(known, tensor) == torch.ordinary_keys;
}

int64_t tensor_version(PyObject *tensor) { return torch.version(tensor_handle(tensor)); }

/* ---- the check ---- */

/* read_autograd(tensor): what is read here of it, and of the state. */
static PyObject *read_autograd(PyObject *UNUSED(self), PyObject *tensor)
{
    return Py_BuildValue("LLNNN", (long long)tensor_version(tensor), (long long)torch.dispatch_modes(),
                         PyBool_FromLong(saves_through_hooks()), PyBool_FromLong(*torch.anomaly),
                         PyBool_FromLong(torch.keeps_graph()));
}

static PyMethodDef reader = {"read_autograd", read_autograd, METH_O, NULL};

static bool check(void)
{
    if (libtorch() == NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = libtorch_symbol(symbols[i].name);
        if (address == NULL) {
            return false;
        }
        memcpy((char *)&torch + symbols[i].field, &address, sizeof(address));
    }
    PyObject *keys = ask_python(ABI, "ordinary_keys", "(N)", PyCFunction_New(&reader, NULL));
    torch.ordinary_keys = keys == NULL ? 0 : PyLong_AsUnsignedLongLong(keys);
    Py_XDECREF(keys);
    bool right = !PyErr_Occurred() && torch.ordinary_keys != 0;
    PyErr_Clear(); /* a torch that cannot even be asked is one that is not as expected */
    return right;
}

bool autograd_ready(void)
{
    static enum { UNTRIED, READY, MISSING } state = UNTRIED;
    if (state == UNTRIED && tensor_type() != NULL) {
        state = check() ? READY : MISSING;
    }
    return state == READY && libtorch() != NULL;
}
