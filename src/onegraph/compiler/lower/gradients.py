"""Gradients of the normalizations and of softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.arguments import static
from onegraph.compiler.lower.lowerer import Cell, Lowerer, is_empty
from onegraph.compiler.lower.reduction import converted, reduce
from onegraph.compiler.lower.registry import lower
from onegraph.compiler.lower.scalars import Scalar
from onegraph.compiler.lower.views import Shape, View
from onegraph.ir.index import ZERO, Index, product
from onegraph.ir.types import DType

aten = torch.ops.aten


class Normalized:
    """Values that were normalized in groups: `group` and `channel` are where an element's statistics and weight are."""

    def __init__(self, g: Lowerer, gradient: View, x: View, mean: View, scale: View, weight: View | None) -> None:
        self.g = g
        self.shape = x.shape
        self.dtype: DType = x.dtype.compute
        self.gradient, self.x, self.mean, self.scale, self.weight = gradient, x, mean, scale, weight

    def group(self, at: Sequence[Index]) -> Sequence[Index]:
        raise NotImplementedError

    def channel(self, at: Sequence[Index]) -> Sequence[Index]:
        raise NotImplementedError

    def value(self, cell: Cell) -> Scalar:
        """The normalized value, before weight and bias."""
        at = self.group(cell.position)
        centred = cell.load(self.x).to(self.dtype) - cell.load(self.mean, at).to(self.dtype)
        return centred * cell.load(self.scale, at).to(self.dtype)

    def weighted(self, cell: Cell) -> Scalar:
        value = cell.load(self.gradient).to(self.dtype)
        if self.weight is None:
            return value
        return value * cell.load(self.weight, self.channel(cell.position)).to(self.dtype)

    def sums(self, dims: Sequence[int], groups: Shape | None = None) -> tuple[View, View]:
        """Sums over dimensions of the gradient, and of it times the normalized value; of elements seen as `groups`."""
        g = self.g
        plain = g.pointwise(self.shape, self.dtype, self.weighted)
        times = g.pointwise(self.shape, self.dtype, lambda cell: self.weighted(cell) * self.value(cell))
        if groups is not None:
            plain, times = plain.reshaped(groups), times.reshaped(groups)
        return (
            reduce(g, "sum", plain, list(dims), self.dtype, keepdim=True),
            reduce(g, "sum", times, list(dims), self.dtype, keepdim=True),
        )

    def input(self, count: Index, plain: View, times: View) -> View:
        """The gradient of the input, from the sums over its group."""

        def compute(cell: Cell) -> Scalar:
            at = self.group(cell.position)
            number = cell.index(count).to(self.dtype)
            # In this order, values that are opposite give gradients that are: their sum is nothing, not some rounding.
            centred = self.weighted(cell) - cell.load(plain, at) / number
            value = centred - self.value(cell) * (cell.load(times, at) / number)
            return value * cell.load(self.scale, at).to(self.dtype)

        return self.g.pointwise(self.shape, self.x.dtype, compute)

    def weights(self, dims: Sequence[int], like: Shape, results: Sequence[Any]) -> list[View | None]:
        """The gradients of weight and bias: sums over everything else."""
        g, dtype = self.g, self.dtype
        given = self.gradient

        def times(cell: Cell) -> Scalar:
            return cell.load(given).to(dtype) * self.value(cell)

        def plain(cell: Cell) -> Scalar:
            return cell.load(given).to(dtype)

        found: list[View | None] = []
        for term, result in zip((times, plain), results, strict=True):
            if result is None:
                found.append(None)
                continue
            total = g.pointwise(self.shape, dtype, term)
            if dims:  # to reduce over no dimension is to reduce over all
                total = reduce(g, "sum", total, list(dims), dtype)
            found.append(converted(g, total.reshaped(like), self.x.dtype if self.weight is None else self.weight.dtype))
        return found


class Layers(Normalized):
    """Layer norm: the groups are what the last dimensions hold."""

    def __init__(self, *args: Any, first: int) -> None:
        super().__init__(*args)
        self.first = first

    def group(self, at: Sequence[Index]) -> Sequence[Index]:
        return [*at[: self.first], *[ZERO] * (len(at) - self.first)]

    def channel(self, at: Sequence[Index]) -> Sequence[Index]:
        return at[self.first :]


class Channels(Normalized):
    """Batch norm: one group for each place along dimension 1."""

    def group(self, at: Sequence[Index]) -> Sequence[Index]:
        return [at[1]]

    channel = group


class Groups(Channels):
    """Group norm: one for each sample and some channels."""

    def __init__(self, *args: Any, each: Index) -> None:
        super().__init__(*args)
        self.each = each

    def group(self, at: Sequence[Index]) -> Sequence[Index]:
        return [at[0], at[1] // self.each]


@lower(aten.native_layer_norm_backward.default)
def layer_norm_backward(
    g: Lowerer, gradient: View, x: View, shape: Any, mean: View, scale: View, weight: Any, bias: Any, mask: Any
) -> Any:
    if is_empty(x.shape):
        return NotImplemented
    results = g.node.meta["val"]
    first = x.rank - len(shape)
    layers = Layers(g, gradient, x, mean, scale, weight, first=first)
    inner = list(range(first, x.rank))
    found: View | None = None
    if results[0] is not None:
        found = layers.input(product(x.shape[first:]), *layers.sums(inner))
    return found, *layers.weights(range(first), x.shape[first:], results[1:])


@lower(aten.native_group_norm_backward.default)
def group_norm_backward(
    g: Lowerer,
    gradient: View,
    x: View,
    mean: View,
    scale: View,
    weight: View | None,
    n: Any,
    c: Any,
    hw: Any,
    count: Any,
    mask: Any,
) -> Any:
    if is_empty(x.shape):
        return NotImplemented
    results = g.node.meta["val"]
    groups = Index.of(count)
    each = x.shape[1] // groups
    grouped = (x.shape[0], groups, each * Index.of(hw))
    statistics = (view.reshaped(grouped[:2]) for view in (mean, scale))
    parts = Groups(g, gradient, x, *statistics, weight, each=each)
    found: View | None = None
    if results[0] is not None:
        plain, times = (total.reshaped(grouped[:2]) for total in parts.sums([2], grouped))
        found = parts.input(grouped[2], plain, times)
    others = [d for d in range(x.rank) if d != 1]
    return found, *parts.weights(others, (x.shape[1],), results[1:])


@lower(aten.native_batch_norm_backward.default)
def batch_norm_backward(
    g: Lowerer,
    gradient: View,
    x: View,
    weight: View | None,
    running_mean: View | None,
    running_var: View | None,
    mean: View | None,
    scale: View | None,
    train: bool,
    eps: float,
    mask: Any,
) -> Any:
    if is_empty(x.shape) or x.rank < 2:
        return NotImplemented
    results = g.node.meta["val"]
    dtype = x.dtype.compute
    if not train:
        if running_mean is None or running_var is None:
            return NotImplemented
        variance = running_var
        mean = running_mean
        scale = g.pointwise(mean.shape, dtype, lambda cell: s.rsqrt(cell.load(variance).to(dtype) + eps))
    if mean is None or scale is None:
        return NotImplemented
    channels = Channels(g, gradient, x, mean, scale, weight)
    others = [d for d in range(x.rank) if d != 1]
    found: View | None = None
    if results[0] is not None and train:
        plain, times = (total.reshaped((x.shape[1],)) for total in channels.sums(others))
        count = product([x.shape[d] for d in others])
        found = channels.input(count, plain, times)
    elif results[0] is not None:
        found = g.pointwise(
            x.shape, x.dtype, lambda cell: channels.weighted(cell) * cell.load(scale, [cell.position[1]]).to(dtype)
        )
    return found, *channels.weights(others, (x.shape[1],), results[1:])


@lower(aten._softmax_backward_data.default)
def softmax_backward(g: Lowerer, gradient: View, output: View, dim: Any, input_dtype: Any) -> View:
    result = g.result
    dtype = result.dtype.compute

    def weighted(cell: Cell) -> Scalar:
        return cell.load(gradient).to(dtype) * cell.load(output).to(dtype)

    total = reduce(g, "sum", g.pointwise(output.shape, dtype, weighted), dim, dtype, keepdim=True)

    def compute(cell: Cell) -> Scalar:
        return (cell.load(gradient).to(dtype) - cell.load(total)) * cell.load(output).to(dtype)

    return g.pointwise(result.shape, result.dtype, compute)


@lower(aten._log_softmax_backward_data.default)
def log_softmax_backward(g: Lowerer, gradient: View, output: View, dim: Any, input_dtype: Any) -> View:
    result = g.result
    dtype = result.dtype.compute
    total = reduce(g, "sum", gradient, dim, dtype, keepdim=True)

    def compute(cell: Cell) -> Scalar:
        return cell.load(gradient).to(dtype) - s.exp(cell.load(output).to(dtype)) * cell.load(total)

    return g.pointwise(result.shape, result.dtype, compute)


@lower(aten.native_dropout_backward.default)
def dropout_backward(g: Lowerer, gradient: View, mask: View, scale: Any) -> View:
    result = g.result
    factor = float(static(scale) if isinstance(scale, Index) else scale)  # type: ignore[arg-type]
    dtype = result.dtype.compute
    return g.pointwise(
        result.shape,
        result.dtype,
        lambda cell: cell.load(gradient).to(dtype) * (cell.load(mask).to(dtype) * factor),
    )
