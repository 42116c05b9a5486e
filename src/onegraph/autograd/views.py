"""The inverse of each view operator: how a write to a view changes the tensor that it views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from onegraph.base.dataclass import dataclass
from onegraph.base.errors import CompileError
from onegraph.torchlib.fake import FakeTensor
from onegraph.torchlib.recorder import AtenRecorder

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class View:
    """How a tensor was made from its parent, the first argument: element `index` of `results` if there are several.

    One that `is_whole` is the parent, as it is.
    """

    op: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    index: int | None = None
    results: Any = None
    is_whole: bool = False


#: Views whose elements are not those of what they view: they do something else to positions.
_OTHER_ELEMENTS = frozenset(
    {
        aten.view_as_real.default,
        aten.view_as_complex.default,
        aten.view.dtype,
        aten._conj.default,
        aten._neg_view.default,
    }
)
Scatter = Callable[..., tuple[Any, tuple[Any, ...]]]
_SCATTERS: dict[Any, Scatter] = {}


def scatter(
    recorder: AtenRecorder,
    base: Node,
    base_tensor: FakeTensor,
    new: Node,
    view_tensor: FakeTensor,
    view: View,
    *more: View,
) -> Node:
    """A node for `base` with its view, or a view of that and so on, replaced by `new`; it lies as `base_tensor` does.

    `view_tensor` is what the last of the views gives.
    """
    if view.is_whole and not more:
        return new
    if more or view.op not in _SCATTERS:
        return _placed(recorder, base, base_tensor, new, (view, *more))
    op, args = _SCATTERS[view.op](base, base_tensor, new, view_tensor, view)
    return recorder.emit(op, args, {}, base_tensor)


def _inverts(*ops: Any) -> Callable[[Scatter], Scatter]:
    def register(function: Scatter) -> Scatter:
        for op in ops:
            _SCATTERS[op] = function
        return function

    return register


@_inverts(
    aten.view.default,
    aten._unsafe_view.default,
    aten._reshape_alias.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
)
def _reshaped(base: Node, base_tensor: FakeTensor, new: Node, view_tensor: FakeTensor, view: View) -> Any:
    return aten.reshape.default, (new, list(base_tensor.shape))


@_inverts(aten.permute.default)
def _permuted(base: Node, base_tensor: FakeTensor, new: Node, view_tensor: FakeTensor, view: View) -> Any:
    order = [dim % base_tensor.dim() for dim in view.args[0]]
    return aten.permute.default, (new, [order.index(dim) for dim in range(len(order))])


@_inverts(aten.transpose.int)
def _transposed(base: Node, base_tensor: FakeTensor, new: Node, view_tensor: FakeTensor, view: View) -> Any:
    return aten.transpose.int, (new, *view.args)


@_inverts(aten.t.default)
def _t(base: Node, base_tensor: FakeTensor, new: Node, view_tensor: FakeTensor, view: View) -> Any:
    return aten.t.default, (new,)


@_inverts(aten.select.int)
def _selected(base: Node, base_tensor: FakeTensor, new: Node, view_tensor: FakeTensor, view: View) -> Any:
    return aten.select_scatter.default, (base, new, *view.args)


@_inverts(aten.slice.Tensor)
def _sliced(base: Node, base_tensor: FakeTensor, new: Node, view_tensor: FakeTensor, view: View) -> Any:
    names = ("dim", "start", "end", "step")
    given = dict(zip(names, view.args, strict=False)) | dict(view.kwargs)
    defaults = {"dim": 0, "start": None, "end": None, "step": 1} | given
    return aten.slice_scatter.default, (base, new, *(defaults[name] for name in names))


@_inverts(aten.diagonal.default)
def _diagonal(base: Node, base_tensor: FakeTensor, new: Node, view_tensor: FakeTensor, view: View) -> Any:
    given = {"offset": 0, "dim1": 0, "dim2": 1} | dict(zip(("offset", "dim1", "dim2"), view.args, strict=False))
    given |= dict(view.kwargs)
    return aten.diagonal_scatter.default, (base, new, given["offset"], given["dim1"], given["dim2"])


@_inverts(aten.split.Tensor, aten.split_with_sizes.default)
def _split(base: Node, base_tensor: FakeTensor, new: Node, view_tensor: FakeTensor, view: View) -> Any:
    dim = view.args[1] if len(view.args) > 1 else view.kwargs.get("dim", 0)
    sizes = view.args[0]
    start = sum(sizes[: view.index]) if isinstance(sizes, (list, tuple)) else sizes * view.index
    return aten.slice_scatter.default, (base, new, dim, start, start + view_tensor.shape[dim], 1)


@_inverts(aten.unbind.int)
def _unbound(base: Node, base_tensor: FakeTensor, new: Node, view_tensor: FakeTensor, view: View) -> Any:
    dim = view.args[0] if view.args else view.kwargs.get("dim", 0)
    return aten.select_scatter.default, (base, new, dim, view.index)


@_inverts(aten.view_as_real.default)
def _as_complex(base: Node, base_tensor: FakeTensor, new: Node, view_tensor: FakeTensor, view: View) -> Any:
    return aten.view_as_complex.default, (new,)


@_inverts(aten.view_as_complex.default)
def _as_real(base: Node, base_tensor: FakeTensor, new: Node, view_tensor: FakeTensor, view: View) -> Any:
    return aten.view_as_real.default, (new,)


@_inverts(aten._conj.default)
def _conjugated(base: Node, base_tensor: FakeTensor, new: Node, view_tensor: FakeTensor, view: View) -> Any:
    return aten._conj_physical.default, (new,)


@_inverts(aten._neg_view.default)
def _negated(base: Node, base_tensor: FakeTensor, new: Node, view_tensor: FakeTensor, view: View) -> Any:
    return aten.neg.default, (new,)


@_inverts(aten.view.dtype)
def _retyped(base: Node, base_tensor: FakeTensor, new: Node, view_tensor: FakeTensor, view: View) -> Any:
    return aten.view.dtype, (new, base_tensor.dtype)


def _placed(recorder: AtenRecorder, base: Node, base_tensor: FakeTensor, new: Node, views: Sequence[View]) -> Node:
    """Any views, one of the other: what they do to the positions of all elements says where the new ones go."""
    if any(view.op in _OTHER_ELEMENTS for view in views):
        raise CompileError("functionalize", "a view of other elements is written to, of which several are at one place")
    with recorder:
        count = aten.arange.default(base_tensor.numel(), dtype=torch.int64, device=base_tensor.device)
        places = aten.view.default(count, list(base_tensor.shape))
        for view in views:
            if not view.is_whole:
                places = view.op(places, *view.args, **view.kwargs)
                places = places if view.index is None else places[view.index]
    return recorder.emit(aten.put.default, (base, recorder.node_of(places), new), {}, base_tensor)
