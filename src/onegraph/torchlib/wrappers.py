"""Wrapper subclasses: tensors that hold others, and compute with them in a `__torch_dispatch__` of their own.

Torch's protocol (`__tensor_flatten__`, `__tensor_unflatten__`) says which others, and how one is made of them again. A
graph has the parts as inputs and outputs. What a wrapper computes runs on wrappers of fakes, whose class does it.

Source: torch.utils._python_dispatch, "traceable wrapper subclass".
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib import private


def is_wrapper_class(cls: type) -> bool:
    """Whether tensors of a class say what they are made of."""
    return hasattr(cls, "__tensor_flatten__") and hasattr(cls, "__tensor_unflatten__") and issubclass(cls, Tensor)


def is_wrapper(value: Any) -> bool:
    return isinstance(value, Tensor) and is_wrapper_class(type(value))


@dataclass(frozen=True, slots=True, eq=False)
class Wrapping:
    """How a wrapper is made of its parts: what `__tensor_flatten__` says of one, and its layout.

    Fields:
        names: the attributes that hold the parts.
        others: the attributes, and their values, that the class counts among the parts and are no tensors.
        context: what the class needs beside them.
        carries: whether gradients are recorded for it.
    """

    cls: type
    names: tuple[str, ...]
    others: tuple[tuple[str, Any], ...]
    context: Any
    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    carries: bool

    @classmethod
    def of(cls, tensor: Tensor) -> Wrapping:
        names, others, context = flattened(tensor)
        size, stride = tuple(tensor.shape), tuple(tensor.stride())
        return cls(type(tensor), names, others, context, size, stride, tensor.requires_grad)

    def fits(self, tensor: Tensor) -> bool:
        """Whether a tensor of the class is made in this way, of whatever parts."""
        layout = measured(tensor.shape), measured(tensor.stride()), tensor.requires_grad
        expected = measured(self.size), measured(self.stride), self.carries
        return layout == expected and self.is_context_of(tensor)

    @property
    def is_of_known_size(self) -> bool:
        """Whether the layout can be written down: its numbers are known, or ragged, which the parts say."""
        return not any(isinstance(size, torch.SymInt) for size in (*measured(self.size), *measured(self.stride)))

    def is_context_of(self, tensor: Tensor) -> bool:
        """Whether a tensor of the class has such parts, and the same beside them."""
        return bool(flattened(tensor) == (self.names, self.others, self.context))

    @property
    def __name__(self) -> str:
        return self.cls.__name__

    def made(self, parts: Sequence[Tensor]) -> Tensor:
        """A wrapper of these parts, of which autograd knows nothing."""
        held = {**dict(zip(self.names, parts, strict=True)), **dict(self.others)}
        made: Tensor = self.cls.__tensor_unflatten__(held, self.context, self.size, self.stride)  # type: ignore[attr-defined]
        return made

    def __call__(self, *parts: Tensor) -> Tensor:
        """A wrapper of the parts that `parts_of` has given; gradients are recorded through it."""
        if not self.carries:
            return self.made(parts)
        wrapper: Tensor = _Wrap.apply(self, *parts)  # type: ignore[no-untyped-call]
        return wrapper

    def parts_of(self, wrapper: Tensor) -> tuple[Tensor, ...]:
        """The parts of a wrapper like this one.

        Where gradients are recorded, one more stands in front: a tensor of the wrapper's size without memory of its
        own. A gradient that is no wrapper of this class is that one's, and others are those of the parts.
        """
        if not self.carries:
            return tuple(getattr(wrapper, name) for name in self.names)
        parts: tuple[Tensor, ...] = _Unwrap.apply(self, wrapper)  # type: ignore[no-untyped-call]
        return parts

    def gradients_of(self, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """A gradient of a wrapper, as those of what `parts_of` gives."""
        if type(gradient) is not self.cls:
            return (gradient, *[None] * len(self.names))
        if not self.is_context_of(gradient):
            raise RuntimeError(
                f"the gradient of a {self.cls.__qualname__} is one of other parts or another context: call what "
                "computes with it in onegraph.disable"
            )
        return (None, *(getattr(gradient, name) for name in self.names))

    def gradient_of(self, gradients: Sequence[Tensor | None]) -> Tensor | None:
        """The gradient of a wrapper, of those of what `parts_of` has given."""
        whole, *parts = gradients
        if all(part is None for part in parts):
            return whole
        return self.made([part for part in parts if part is not None])


def ragged_size() -> torch.SymInt:
    """The length of several sequences, of which nothing is known, and which no other nested tensor has."""
    node = private.nested_int_node()
    return torch.SymInt(node(next(_RAGGED), 1))


#: Torch counts those of real tensors from 0.
_RAGGED = itertools.count(1 << 40)


def measured(sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Sizes or strides with None for those that depend on how long each of several sequences is."""
    return tuple(None if isinstance(n, torch.SymInt) and n.node.is_nested_int() else n for n in sizes)


def flattened(tensor: Tensor) -> tuple[tuple[str, ...], tuple[tuple[str, Any], ...], Any]:
    """The names of a wrapper's parts, what else it counts among them, and its context."""
    names, context = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
    held = [(name, getattr(tensor, name)) for name in names]
    parts = tuple(name for name, value in held if isinstance(value, Tensor))
    return parts, tuple(item for item in held if not isinstance(item[1], Tensor)), context


class _Wrap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, wrapping: Wrapping, carrier: Tensor, *parts: Tensor) -> Tensor:
        ctx.wrapping = wrapping
        ctx.set_materialize_grads(False)
        return wrapping.made([part.detach() for part in parts])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> Any:
        if gradient is None:
            return (None, None, *[None] * len(ctx.wrapping.names))
        return (None, *ctx.wrapping.gradients_of(gradient))


class _Unwrap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, wrapping: Wrapping, wrapper: Tensor) -> Any:
        ctx.wrapping = wrapping
        ctx.set_materialize_grads(False)
        parts = [getattr(wrapper, name).detach() for name in wrapping.names]
        carrier = parts[0].new_empty(()).to(wrapper.dtype).expand(wrapping.size)
        ctx.mark_non_differentiable(*(p for p in parts if not (p.is_floating_point() or p.is_complex())))
        return (carrier, *parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        return None, ctx.wrapping.gradient_of(gradients)
