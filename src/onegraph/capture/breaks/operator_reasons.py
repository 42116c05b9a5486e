"""Why an operator of torch is not recorded: by its name, and by what it raised when it was run on fakes."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from onegraph.capture import breaks as b
from onegraph.capture.breaks import GraphBreak, Reason
from onegraph.capture.breaks.reason import named
from onegraph.capture.interp.functions import row_of
from onegraph.capture.pyobject.contents import holds
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.torchlib.aten import OpOverload, OpOverloadPacket
from onegraph.torchlib.fake import DATA_DEPENDENT_ERRORS, UNSUPPORTED_ERRORS, DynamicOutputShapeException
from onegraph.torchlib.overlaps import OverlappingWrite
from onegraph.torchlib.wrappers import is_wrapper, release_masks

#: Functions and properties of tensors that tell or need what only the real tensor has: they are not run on fakes.
REAL_ONLY = {
    **named(b.TENSOR_MEMORY, "data_ptr storage untyped_storage _typed_storage is_set_to _cdata __dlpack__ _base"),
    **named(b.TENSOR_MEMORY, "__cuda_array_interface__ _version _is_view is_inference"),
    **named(b.TENSOR_HISTORY, "grad_fn output_nr retains_grad grad_dtype _backward_hooks _post_accumulate_grad_hooks"),
    **named(b.TENSOR_PLACE, "share_memory_ is_shared pin_memory is_pinned"),
    **named(b.MEMORY_CHANGE, "set_ resize_ resize_as_ resize_as_sparse_ sparse_resize_"),
    **named(b.TENSOR_TO_LIST, "tolist"),
    **named(b.TENSOR_TO_NUMPY, "numpy __array__"),
    **named(b.DATA_DEPENDENT_VALUE, "_nested_tensor_from_mask_left_aligned _choose_qparams_per_tensor"),
}
#: Methods that give the tensor itself another shape.
SHAPE_CHANGES = frozenset("unsqueeze_ squeeze_ t_ transpose_ swapaxes_ swapdims_ as_strided_".split())
#: Operators that give an empty tensor to which they write the size that they need.
ENLARGING = frozenset({"fused_moving_avg_obs_fake_quant", "_fused_moving_avg_obs_fq_helper"})
#: What gives other results for tensors that are in another place of their storage.
PLACES = frozenset({"storage_offset", "as_strided", "as_strided_"})
#: Operators that need the contents of a tensor for a Python value.
VALUES = {
    **named(b.TENSOR_ITEM, "item _local_scalar_dense"),
    **named(b.TENSOR_TO_NUMBER, "__float__ __int__ __complex__"),
    **named(b.TENSOR_AS_INDEX, "__index__"),
    **named(b.DATA_DEPENDENT_TRUTH, "__bool__"),
    **named(b.DATA_DEPENDENT_VALUE, "equal allclose is_nonzero"),
}
#: Operators the size of whose result depends on contents.
SIZES = {
    **named(b.BOOLEAN_MASK, "__getitem__ masked_select"),
    **named(b.NONZERO, "nonzero argwhere where"),
    **named(b.UNIQUE, "unique unique_consecutive _unique2 unique_dim"),
    **named(b.REPEAT_INTERLEAVE, "repeat_interleave"),
    **named(b.COUNTS, "one_hot bincount"),
}
#: The namespaces of torch's own operators.
LIBRARIES = frozenset({"aten", "prims", "prim"})
LAYOUT_CHANGES = frozenset(
    """to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc to_mkldnn sparse_coo_tensor
    sparse_csr_tensor sparse_compressed_tensor quantize_per_tensor quantize_per_channel""".split()
)
FROM_NUMBERS = frozenset({"tensor", "as_tensor", "asarray", "new_tensor"})


def refused_at_once(func: Any, args: Any, kwargs: Any, is_input: Callable[[Any], bool]) -> GraphBreak | None:
    """The graph break of an operator that must not even be run on fakes; `is_input` tells the inputs of the graph."""
    name = short_name(func)
    if name in SHAPE_CHANGES and is_input(args[0]):
        return operator_break(b.INPUT_SHAPE_CHANGE, func)
    if name in REAL_ONLY:
        return operator_break(REAL_ONLY[name], func)
    if kwargs and kwargs.get("pin_memory"):
        return operator_break(b.TENSOR_PLACE, func)
    if name in ENLARGING and any(map(is_empty, (*args, *(kwargs or {}).values()))):
        return operator_break(b.MEMORY_CHANGE, func)
    if is_data_setter(func):
        return operator_break(b.MEMORY_CHANGE, func)
    if is_unknown_differentiation(func):
        return GraphBreak(b.BACKWARD_CALL, name="backward", what=name, why="by a function that replaces torch's")
    if name in FROM_NUMBERS and args and isinstance(args[-1], list | tuple) and contains_tensor(args[-1]):
        return operator_break(b.TENSOR_OF_TENSORS, func)
    return None


def is_unknown_differentiation(func: Any) -> bool:
    """Whether a function differentiates that has no handler, since the program had put another one in its place when
    the handlers were registered; or is that one, which torch names. It would change the fakes alone."""
    if not isinstance(func, FunctionType) or row_of(func).handler is not None:
        return False
    named = func.__module__ == "torch.autograd" and func.__name__ in ("backward", "grad")
    return named or func is torch.autograd.backward or func is torch.autograd.grad


def depends_on_place(func: Any) -> bool:
    return short_name(func) in PLACES


def refused_after(func: Any, args: Any, error: BaseException) -> GraphBreak:
    """The graph break of an operator that has raised this on fakes."""
    name = short_name(func)
    if isinstance(error, DynamicOutputShapeException):
        return operator_break(SIZES.get(name, b.DYNAMIC_SIZE), func)
    if isinstance(error, DATA_DEPENDENT_ERRORS):
        if name == "__getitem__":
            return operator_break(b.TENSOR_AS_INDEX if isinstance(args[1], torch.Tensor) else b.TENSOR_AS_SIZE, func)
        return operator_break(VALUES.get(name) or SIZES.get(name, b.TENSOR_AS_SIZE), func)
    if isinstance(error, OverlappingWrite):
        return operator_break(b.OVERLAPPING_WRITE, func)
    if name in LAYOUT_CHANGES:
        return operator_break(b.SPARSE_RESULT, func)
    if isinstance(error, UNSUPPORTED_ERRORS) or "no fake impl registered" in str(error):
        return operator_break(b.UNTRACEABLE_OPERATOR, func, first_line(error))
    return operator_break(b.FAILED_OPERATOR, func, f"{type(error).__name__}: {first_line(error)}")


def refused_result(func: Any, result: Any) -> GraphBreak | None:
    """The graph break of a custom operator with results that its fake implementation has only made up, or of one whose
    result has a part that is no tensor."""
    if is_wrapper(result) and release_masks(result):
        return GraphBreak(b.COMMUNICATION, name=f"{function_name(func)} of a table with sharded rows")
    if not isinstance(func, OpOverload | OpOverloadPacket) or str(func).partition(".")[0] in LIBRARIES:
        return None
    results = [result]
    while results:
        match results.pop():
            case tuple() | list() as items:
                results.extend(items)
            case torch.Tensor() | None:
                pass
            case _:
                return operator_break(b.NUMBER_OF_OPERATOR, func)
    return None


def operator_break(reason: Reason, func: Any, error: str = "") -> GraphBreak:
    name = function_name(func)
    return GraphBreak(reason, name=name, what=name, error=error)


def contains_tensor(value: Any) -> bool:
    """Whether the value is a tensor, or holds one in tuples, lists and dicts."""
    return holds(value, lambda each: isinstance(each, torch.Tensor))


def is_empty(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.shape == (0,)


def is_data_setter(func: Any) -> bool:
    """Whether the call is `tensor.data = ...`, after which the tensor has other memory."""
    return getattr(func, "__name__", "") == "__set__" and func.__self__ is torch.Tensor.data


def short_name(func: Any) -> str:
    """The name of a torch function without its overload; of a property's getter, the property's."""
    name = getattr(func, "__name__", "").partition(".")[0]
    return func.__self__.__name__ if name == "__get__" and hasattr(func, "__self__") else name


def function_name(func: Any) -> str:
    """The name of a torch function as the user writes it."""
    name = getattr(func, "__name__", None) or str(func)
    owner = getattr(func, "__self__", None)
    if name in ("__get__", "__set__") and owner is not None:
        return f"Tensor.{owner.__name__}"
    if getattr(torch.Tensor, name, None) is func:
        return f"Tensor.{name}"
    module = getattr(func, "__module__", None) or "torch"
    full = f"{module}.{name}".replace("torch._VariableFunctions", "torch")
    return OWN.get(full, full).replace("torch._C._nn.", "torch.nn.functional.").replace("torch._ops.", "torch.ops.")


#: What stands in a graph for a function of torch.
OWN = {
    "onegraph.torchlib.hooked.gradients_given": "torch.autograd.grad",
    "onegraph.torchlib.parameters.parameter": "torch.nn.Parameter",
}


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
