"""What the rest of the package uses of torch that is private to torch: to be looked at for each release of torch."""

from __future__ import annotations

import torch
import torch.fx._symbolic_trace as _fx
from torch import _C
from torch._C import DisableTorchFunction, ScriptFunction, ScriptMethod, TensorBase
from torch._functorch import predispatch
from torch._functorch.autograd_function import custom_function_call
from torch.utils import _device

__all__ = [
    "FUNCTORCH",
    "NATIVE",
    "AutoDispatchBelowAutograd",
    "DisableTorchFunction",
    "ScriptFunction",
    "ScriptMethod",
    "TensorBase",
    "custom_function_call",
    "predispatch",
]

#: All of torch's native functions, and those of torch.func.
NATIVE = _C
FUNCTORCH = _C._functorch

AutoDispatchBelowAutograd = _C._AutoDispatchBelowAutograd
assert_async = torch._assert_async
call_impl = torch.nn.Module._call_impl
check_tensor_all = torch._check_tensor_all
foreach_copy_ = torch._foreach_copy_
DeviceContext = _device.DeviceContext
count_function_modes = _C._len_torch_function_stack
has_function_modes = _C._is_torch_function_mode_enabled
has_torch_function = _C._has_torch_function
has_torch_function_unary = _C._has_torch_function_unary
has_torch_function_variadic = _C._has_torch_function_variadic
increment_version = _C._increment_version
is_compiling = torch._utils.is_compiling
is_functorch_wrapped_tensor = _C._functorch.is_functorch_wrapped_tensor
is_scripting = torch._jit_internal.is_scripting
is_tracing = torch.jit._trace.is_tracing
make_subclass = torch.Tensor._make_subclass
make_wrapper_subclass = torch.Tensor._make_wrapper_subclass
native_multi_head_attention = torch._native_multi_head_attention
profiler_enabled = _C._autograd._profiler_enabled
set_grad_enabled = _C._set_grad_enabled
to_dlpack = _C._to_dlpack
typed_storage = torch.Tensor._typed_storage
vmap_increment_nesting = _C._functorch._vmap_increment_nesting


def is_traced_by_fx() -> bool:
    """Whether FX traces symbolically in this thread. (torch's public function that tells warns.)"""
    asked = getattr(_fx, "_get_is_fx_tracing", None)  # torch 2.14 and later: a state of the thread
    return bool(_fx._is_fx_tracing_flag if asked is None else asked())
