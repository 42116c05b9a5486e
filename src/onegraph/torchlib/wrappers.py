"""Wrapper subclasses: tensors that hold others, and compute with them in a `__torch_dispatch__` of their own.

Torch's protocol (`__tensor_flatten__`, `__tensor_unflatten__`) says which others, and how one is made of them again. A
graph has the parts as inputs and outputs. What a wrapper computes runs on wrappers of fakes, whose class does it.

Source: torch.utils._python_dispatch, "traceable wrapper subclass".
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from onegraph.base.dataclass import dataclass
from onegraph.torchlib import private

_PROTOCOL = ("__tensor_flatten__", "__tensor_unflatten__")
_bases_of = vars(type)["__mro__"].__get__
#: The classes of nearly all tensors that are asked for.
_PLAIN = frozenset(map(id, (Tensor, torch.nn.Parameter, private.FakeTensor)))


def is_wrapper_class(cls: type) -> bool:
    """Whether tensors of a class say what they are made of. The class is not asked, which may be any."""
    if id(cls) in _PLAIN:
        return False
    bases = _bases_of(cls)
    return Tensor in bases and all(any(name in vars(base) for base in bases) for name in _PROTOCOL)


def is_wrapper(value: Any) -> bool:
    return isinstance(value, Tensor) and is_wrapper_class(type(value))


@dataclass(frozen=True, slots=True, eq=False)
class Wrapping:
    """How a wrapper is made of its parts: what `__tensor_flatten__` says of one without history, and its layout.

    Fields:
        names: the attributes that hold the parts.
        others: the attributes, and their values, that the class counts among the parts and are no tensors.
        context: what the class needs beside them.
        carries: whether gradients are recorded for it.
        expected: the context that a gradient of it has, where it is a result of a graph.
    """

    cls: type
    names: tuple[str, ...]
    others: tuple[tuple[str, Any], ...]
    context: Any
    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    carries: bool
    expected: Any

    @classmethod
    def of(cls, tensor: Tensor) -> Wrapping:
        names, others, context = flattened(tensor)
        size, stride = tuple(tensor.shape), tuple(tensor.stride())
        return cls(type(tensor), names, others, context, size, stride, tensor.requires_grad, context)

    @classmethod
    def of_result(cls, tensor: Tensor) -> Wrapping:
        """How a result of a graph is made. Its class may say that gradients of it have another context than it has."""
        wrapping = cls.of(tensor)
        usual = getattr(tensor, "__coerce_tangent_metadata__", None)
        if usual is None or not wrapping.carries:
            return wrapping
        return replace(wrapping, expected=flattened(tensor.detach().__coerce_tangent_metadata__())[2])  # type: ignore[attr-defined]

    @property
    def __name__(self) -> str:
        return self.cls.__name__

    @property
    def measures(self) -> tuple[Any, ...]:
        """Sizes and strides, with None for those that depend on how long each of several sequences is."""
        return measured((*self.size, *self.stride))

    def fits(self, tensor: Tensor) -> bool:
        """Whether a tensor of the class is made in this way, of whatever parts."""
        layout = measured((*tensor.shape, *tensor.stride())), tensor.requires_grad
        names, others, context = flattened(tensor)
        return layout == (self.measures, self.carries) and names == self.names and self.is_beside(others, context)

    def is_beside(self, others: Any, context: Any) -> bool:
        """Whether a wrapper of the class has the same beside its parts."""
        return bool(others == self.others and context == self.context)

    # ---- wrapping ----------------------------------------------------------------------------------------------------

    def made(self, parts: Sequence[Tensor]) -> Tensor:
        """A wrapper of these parts, of which autograd knows nothing."""
        return self._unflattened(parts, self.context)

    def _unflattened(self, parts: Sequence[Tensor], context: Any) -> Tensor:
        held = {**dict(zip(self.names, parts, strict=True)), **dict(self.others)}
        made: Tensor = self.cls.__tensor_unflatten__(held, context, self.size, self.stride)  # type: ignore[attr-defined]
        return made

    def __call__(self, *parts: Tensor) -> Tensor:
        """A wrapper of the parts that `parts_of` or `taken` has given; gradients are recorded through it."""
        if not self.carries:
            return self.made(parts)
        with torch.enable_grad():  # it is what it was outside, also where the program looks at it under no_grad
            wrapper: Tensor = _Wrap.apply(self, *parts)  # type: ignore[no-untyped-call]
        return wrapper

    def parts_of(self, wrapper: Tensor) -> tuple[Tensor, ...]:
        """The parts of a wrapper like this one.

        Where gradients are recorded, one more stands in front: a tensor of the wrapper's size that nobody reads. A
        gradient that is no wrapper of this class is that one's, and others are those of the parts.
        """
        if not self.carries:
            return tuple(getattr(wrapper, name) for name in self.names)
        with torch.enable_grad():
            parts: tuple[Tensor, ...] = _Unwrap.apply(self, wrapper, False)  # type: ignore[no-untyped-call]
        return parts

    def taken(self, wrapper: Tensor) -> tuple[Tensor, ...]:
        """The parts of a result of a graph. Those for which gradients are recorded are tensors of their own."""
        if not self.carries:
            return self.parts_of(wrapper)
        with torch.enable_grad():
            parts: tuple[Tensor, ...] = _Unwrap.apply(self, wrapper, True)  # type: ignore[no-untyped-call]
        return parts

    # ---- gradients ---------------------------------------------------------------------------------------------------

    def gradients_of(self, gradient: Tensor, carries: bool) -> tuple[Tensor | None, ...]:
        """A gradient of a wrapper, as those of what `parts_of` gives, or `taken` has given.

        Raises:
            RuntimeError: it has another context than the gradient of a result has, and the class cannot change it.
        """
        if carries:
            parts = self._parts_of_gradient(gradient) if self._is_like(gradient, self.context) else ()
            return (None, *parts) if parts else (gradient, *[None] * len(self.names))
        found: Tensor | None = gradient
        if not self._is_like(gradient, self.expected):
            convert = getattr(gradient, "__coerce_same_metadata_as_tangent__", None)
            kind = None if type(gradient) is self.cls else self.cls
            found = None if convert is None else convert(self.expected, kind)
        parts = () if found is None or type(found) is not self.cls else self._parts_of_gradient(found)
        if not parts:
            raise RuntimeError(
                f"the gradient of a {self.cls.__qualname__} is none, or has another context than the tensor: call what "
                "computes with it in a function that onegraph.disable marks"
            )
        return parts

    def _is_like(self, gradient: Tensor, context: Any) -> bool:
        """Whether a gradient is a wrapper of the class with this context."""
        if type(gradient) is not self.cls:
            return False
        _, others, beside = flattened(gradient)
        return bool(others == self.others and beside == context)

    def _parts_of_gradient(self, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The parts of a wrapper of the class that are gradients; none if there is no such part."""
        names = flattened(gradient)[0]
        found = [getattr(gradient, name) if name in names else None for name in self.names]
        parts = tuple([part if part is not None and is_float(part) else None for part in found])
        return parts if any(part is not None for part in parts) else ()

    def gradient_of(self, gradients: Sequence[Tensor | None], held: Sequence[Tensor], context: Any) -> Tensor | None:
        """The gradient of a wrapper that holds these parts, of those of what `parts_of` or `taken` has given."""
        whole, *parts = gradients if len(gradients) > len(held) else (None, *gradients)
        if all(part is None for part in parts):
            return whole
        filled = [part if part is not None else without_gradient(of) for part, of in zip(parts, held, strict=True)]
        made = self._unflattened(filled, context)
        return made if whole is None else made + whole


def is_float(part: Tensor) -> bool:
    """Whether gradients are computed for a part. One without elements may stand for a number, which is its size."""
    return (part.is_floating_point() or part.is_complex()) and 0 not in list(part.shape)


def release_masks(tensor: Tensor) -> int:
    """Forget what the placements of a sharded tensor have kept of the call that made it; how many have kept something.

    Rows of a table that is sharded are looked up in all processes. Which were found in this one is kept in an object of
    the placement, which later calls share, until the rows are added up.
    """
    with private.DisableTorchFunction():
        placements = getattr(tensor, "placements", ())
    masks = [placement.mask_buffer for placement in placements if hasattr(placement, "mask_buffer")]
    for mask in masks:
        mask.release_mask()
    return len(masks)


def plain_gradient(gradient: Tensor) -> Tensor:
    """The plain tensor that a gradient stands for, if its class says so: one that is on its way is waited for."""
    convert = getattr(gradient, "__coerce_same_metadata_as_tangent__", None)
    found: Tensor | None = None if convert is None else convert(None, Tensor)
    return gradient if found is None else found


def without_gradient(part: Tensor) -> Tensor:
    """What the gradient of a wrapper has in the place of a part that has none."""
    return torch.zeros_like(part) if is_float(part) else part


class _Wrap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, wrapping: Wrapping, *parts: Tensor) -> Tensor:
        ctx.wrapping, ctx.count = wrapping, len(parts)
        ctx.set_materialize_grads(False)
        return wrapping.made([part.detach() for part in parts[-len(wrapping.names) :]])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> Any:
        if gradient is None:
            return (None, *[None] * ctx.count)
        return (None, *ctx.wrapping.gradients_of(gradient, ctx.count > len(ctx.wrapping.names)))


class _Unwrap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, wrapping: Wrapping, wrapper: Tensor, is_result: bool) -> Any:
        # Ragged sizes are equal to themselves alone, and others each time that a graph is run on fakes.
        ctx.wrapping = replace(wrapping, size=tuple(wrapper.shape), stride=tuple(wrapper.stride()))
        ctx.set_materialize_grads(False)
        ctx.held = [getattr(wrapper, name) for name in wrapping.names]
        ctx.context = wrapping.expected if is_result else wrapping.context
        parts = [part.clone() if is_result and is_float(part) else part.detach() for part in ctx.held]
        ctx.mark_non_differentiable(*(part for part in parts if not is_float(part)))
        if is_result and any(map(is_float, parts)):
            return tuple(parts)
        size = () if None in wrapping.measures else wrapping.size
        empty = parts[0].new_empty(size if is_result else (), dtype=wrapper.dtype)
        return (empty if is_result else empty.expand(size), *parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        return None, ctx.wrapping.gradient_of(gradients, ctx.held, ctx.context), None


# ---- layouts -----------------------------------------------------------------------------------------------------


def ragged_size() -> torch.SymInt:
    """The length of several sequences, of which nothing is known, and which no other nested tensor has."""
    node = private.nested_int_node()
    return torch.SymInt(node(next(_RAGGED), 1))


#: Torch counts those of real tensors from 0.
_RAGGED = itertools.count(1 << 40)


def is_ragged(size: Any) -> bool:
    """Whether a size is that of each of several sequences, which no number says."""
    return isinstance(size, torch.SymInt) and size.node.is_nested_int()


def measured(sizes: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(None if is_ragged(size) else size for size in sizes)


def flattened(tensor: Tensor) -> tuple[tuple[str, ...], tuple[tuple[str, Any], ...], Any]:
    """The names of a wrapper's parts, what else it counts among them, and its context."""
    tensor = tensor.detach() if tensor.requires_grad else tensor
    names, context = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
    held = [(name, getattr(tensor, name)) for name in names]
    parts = tuple(name for name, value in held if isinstance(value, Tensor))
    return parts, tuple(item for item in held if not isinstance(item[1], Tensor)), context
