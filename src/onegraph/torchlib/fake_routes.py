"""How each operator runs on fakes whose sizes are plain numbers, and where its meta kernel must be corrected."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib import fake_convolution, private
from onegraph.torchlib.aten import has_device_argument
from onegraph.torchlib.private import (
    FakeTensor,
    FakeTensorConverter,
    OpOverload,
    UnsupportedFakeTensorException,
    decomposition_table,
    fake_impls,
)
from onegraph.torchlib.strides import suggested_format

aten = torch.ops.aten
LIFTS = frozenset({aten.lift_fresh.default, aten.lift_fresh_copy.default})  # they make tensors from literals
# The special implementations of these serve symbolic sizes only, and import sympy.
_SPECIAL_WHEN_SYMBOLIC = frozenset(
    {
        aten.view.default,
        aten._unsafe_view.default,
        aten.view_copy.default,
        aten._reshape_copy.default,
        aten.select.int,
        aten.slice.Tensor,
        aten.embedding.default,
        aten.copy.default,
        aten.copy_.default,
        aten.slice_scatter.default,
        aten.diagonal_scatter.default,
    }
)


def _batch_norm_statistics(result: Any, *args: Any, **kwargs: Any) -> Any:
    """The kernel for the CPU keeps statistics in the type of the weight, and none in evaluation."""
    training = args[5] if len(args) > 5 else kwargs["training"]
    return _with_statistics(result, training, *args[:5])


def _batch_norm_without_running_statistics(result: Any, *args: Any, **kwargs: Any) -> Any:
    training = args[3] if len(args) > 3 else kwargs["training"]
    return _with_statistics(result, training, *args[:3])


def _batch_norm_with_update(result: Any, *args: Any, **kwargs: Any) -> Any:
    """The same; it always trains, and has one more result, which only other devices use."""
    value, mean, scale, reserve, *running = result
    value, mean, scale, *running = _with_statistics((value, mean, scale, *running), True, *args[:5])
    return (value, mean, scale, reserve, *running)


def _with_statistics(result: Any, training: bool, x: Any, weight: Any, bias: Any, *running: Any) -> Any:
    if x.fake_device.type != "cpu":
        return result
    value, *saved = result
    dtype = x.dtype if weight is None else weight.dtype
    kept = [old.new_empty(old.shape if training else 0, dtype=dtype) for old in saved[:2]]
    updated = [new.to(old.dtype) for new, old in zip(saved[2:], running, strict=False)]
    return (_channels_last_as_input(value, x), *kept, *updated)


def _channels_last_as_input(result: Any, x: Any, *_: Any, **__: Any) -> Any:
    """Contiguous, with the channels last if the strides of the input say so, whether or not it fills its memory."""
    return result.contiguous(memory_format=suggested_format(x))


def _contiguous(result: Any, *_: Any, **__: Any) -> Any:
    return result.contiguous()


def _all_contiguous(result: Any, *_: Any, **__: Any) -> Any:
    return tuple(item.contiguous() for item in result)


def _first_contiguous(result: Any, *_: Any, **__: Any) -> Any:
    return (result[0].contiguous(), *result[1:])


def _as_input(result: Any, x: Any, *_: Any, **__: Any) -> Any:
    return torch.empty_like(x) if result.dim() == x.dim() else result


def _without_overlap(result: Any, x: Any, *_: Any, **__: Any) -> Any:
    """Written to a copy of the input, in which each element has memory of its own."""
    layout = zip(x.shape, x.stride(), strict=True)
    overlaps = any(isinstance(step, int) and step == 0 and size != 1 for size, step in layout)
    return torch.empty_like(x) if overlaps else result


def _rolled(result: Any, x: Any, shifts: Any, dims: Any = (), **_: Any) -> Any:
    """Cut and joined dimension by dimension: that keeps channels last."""
    if not dims or not x.numel():
        return result.contiguous() if x.numel() else result
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        start = (size - shift) % size
        x = torch.cat([x.narrow(dim, start, size - start), x.narrow(dim, 0, start)], dim)
    return x


def _in_bounds(result: Any, x: Any, *_: Any, **__: Any) -> Any:
    """The real operator refuses what lies beyond the storage."""
    size, strides = result.shape, result.stride()
    last = sum((n - 1) * step for n, step in zip(size, strides, strict=True))
    needed = (result.storage_offset() + last + 1) * x.element_size()
    if 0 not in size and needed > x.untyped_storage().nbytes():
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(strides)}, storage offset {result.storage_offset()}, and"
            f" itemsize {x.element_size()} requiring a storage size of {needed} are out of bounds for storage of size"
            f" {x.untyped_storage().nbytes()}"
        )
    return result


# Where the meta kernel and the real one disagree.
CORRECTIONS: dict[Any, Callable[..., Any]] = {
    aten.as_strided.default: _in_bounds,
    aten.as_strided_.default: _in_bounds,
    aten.as_strided_copy.default: _in_bounds,
    aten.native_batch_norm.default: _batch_norm_statistics,
    aten._native_batch_norm_legit_functional.default: _batch_norm_statistics,
    aten._batch_norm_with_update_functional.default: _batch_norm_with_update,
    aten._native_batch_norm_legit.default: _batch_norm_statistics,
    aten._native_batch_norm_legit.no_stats: _batch_norm_without_running_statistics,
    aten.binary_cross_entropy.default: _as_input,
    aten.max_unpool2d.default: _channels_last_as_input,
    aten.channel_shuffle.default: _channels_last_as_input,
    aten.diagonal_scatter.default: _without_overlap,
    aten.native_channel_shuffle.default: _channels_last_as_input,
    aten.index_fill.int_Scalar: _as_input,
    aten.index_fill.int_Tensor: _as_input,
    aten.isin.Tensor_Tensor: _contiguous,
    aten.isin.Tensor_Scalar: _contiguous,
    aten.log_sigmoid_forward.default: _all_contiguous,
    aten.nll_loss2d_forward.default: _first_contiguous,
    aten.normal.Tensor_float: _contiguous,
    aten.normal.float_Tensor: _contiguous,
    aten.normal.Tensor_Tensor: _contiguous,
    aten.pixel_shuffle.default: _channels_last_as_input,
    aten.poisson.default: _contiguous,
    aten.reflection_pad2d.default: _channels_last_as_input,
    aten.reflection_pad3d.default: _channels_last_as_input,
    aten.replication_pad2d.default: _channels_last_as_input,
    aten.replication_pad3d.default: _channels_last_as_input,
    aten.roll.default: _rolled,
    aten.rrelu_with_noise.default: _contiguous,
    aten.select_scatter.default: _without_overlap,
    aten.slice_scatter.default: _without_overlap,
    private.wait_tensor: lambda result, tensor: tensor,
}


@cache
def static_route(func: OpOverload) -> str:
    """How to run this operator on fakes whose sizes are all plain numbers."""
    if has_device_argument(func) and (
        fake_impls._is_tensor_constructor(func) or func in fake_impls._like_tensor_constructors
    ):
        return "constructor"
    if func is fake_convolution.FUNC:
        return "convolution"
    special = func in fake_impls.op_implementations_dict and func not in _SPECIAL_WHEN_SYMBOLIC
    if special or func.namespace == "prims" or func.namespace != "aten" or func in LIFTS:
        return "special"
    if any(accepts(func) for accepts, _ in fake_impls.op_implementations_checks[1:]):
        return "special"
    if private.has_kernel_for(func.name(), "CompositeImplicitAutograd"):
        return "decompose"
    if fake_impls.has_meta(func):
        return "meta"
    return "table" if func in decomposition_table else "special"


def is_plain(tensor: FakeTensor) -> bool:
    """A dense tensor on the CPU, neither conjugated nor negated."""
    return (
        tensor.fake_device.type == "cpu"
        and tensor.layout is torch.strided
        and not (tensor.is_conj() or tensor.is_neg())
    )


def common_device(func: OpOverload, tensors: list[FakeTensor]) -> torch.device:
    """The device of the result: that of the arguments, where zero-dimensional CPU tensors join any other."""
    devices = {tensor.fake_device for tensor in tensors}
    if len(devices) > 1:
        devices = {t.fake_device for t in tensors if t.dim() or t.fake_device.type != "cpu"}
    match list(devices):
        case [device]:
            return device
        case []:
            return torch.get_default_device()
        case [first, second, *_]:
            raise RuntimeError(f"Expected all tensors to be on the same device, but {func} found {first} and {second}")
    raise AssertionError(devices)


def is_foreign(tensor: Tensor) -> bool:
    """A tensor subclass with a dispatch of its own: it must see the call before this mode does."""
    kind = type(tensor)
    return not (
        kind is FakeTensor
        or kind is Tensor
        or kind is torch.nn.Parameter
        or kind.__torch_dispatch__ is Tensor.__torch_dispatch__
        or issubclass(kind, FakeTensor)
    )


def refuse_unsupported(tensor: Tensor) -> None:
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        raise UnsupportedFakeTensorException(f"no fake of a {tensor.layout} tensor of {tensor.dtype}")
    if is_foreign(tensor) or private.is_functorch_wrapped_tensor(tensor):
        raise UnsupportedFakeTensorException(f"no fake of a {type(tensor).__name__}")


class Converter(FakeTensorConverter):
    """What the table of special operators uses to turn results into fakes."""

    def __init__(self) -> None:
        super().__init__(copy_data=False, export=False)

    def from_real_tensor(self, fake_mode: Any, t: Tensor, make_constant: bool = False, *_: Any, **__: Any) -> Any:
        return fake_mode._constant(t) if make_constant else fake_mode.fakeify(t)

    def from_meta_and_device(self, fake_mode: Any, t: Tensor, device: torch.device, *_: Any, **__: Any) -> Any:
        return t if isinstance(t, FakeTensor) else FakeTensor(fake_mode, t, device)
