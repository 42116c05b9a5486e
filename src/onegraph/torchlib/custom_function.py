"""Calls of custom functions (`torch.autograd.Function`) in a graph.

    x ──► what forward does, without gradients ──► mul ──► Square(x, mul, x) ──► the result, with its history

Operators of `forward` are nodes of the graph as all others. The call behind them gives their results the history that
the program's function gives them, whose backward pass is the function's own `backward`. While a joint graph is traced,
that is run as the graph which capture has made of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from onegraph.base.dataclass import dataclass
from onegraph.torchlib.primals import seen_by_hooks
from onegraph.torchlib.private import FakeTensor


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a value that each call has anew: a tensor or a symbolic number."""

    index: int


@dataclass(frozen=True, slots=True)
class SizeOf:
    """A `torch.Size` of such values."""

    sizes: tuple[Any, ...]


def filled(template: Any, values: Sequence[Any]) -> Any:
    """What the template is with these values in its slots."""
    match template:
        case Slot(index):
            return values[index]
        case SizeOf(sizes):
            return torch.Size(filled(sizes, values))
        case tuple() if not isinstance(template, torch.Size):
            items = [filled(item, values) for item in template]
            return type(template)(*items) if hasattr(template, "_fields") else tuple(items)
        case list():
            return [filled(item, values) for item in template]
        case dict():
            return {key: filled(item, values) for key, item in template.items()}
        case slice():
            return slice(*filled((template.start, template.stop, template.step), values))
        case _:
            return template


@dataclass(frozen=True, slots=True)
class Applied:
    """What a call of a custom function has been given, has computed, and has left on its context."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    saved: tuple[Any, ...]
    attributes: Mapping[str, Any]
    dirty: tuple[Any, ...]
    non_differentiable: tuple[Any, ...]
    materialize_grads: bool

    def parts(self) -> tuple[Any, ...]:
        return self.inputs, self.outputs, self.saved, self.attributes, self.dirty, self.non_differentiable


@dataclass(frozen=True, slots=True)
class TracedBackward:
    """`backward` as a graph, of gradients and of the first `taken` values of the call.

    It gives a gradient for each input. `strides` are those that it takes for granted of its gradients, if it has looked
    at them. `used` are the places of the values that it looks at; `unpacks` tells whether it looks at what was saved.
    """

    graph: torch.fx.GraphModule
    strides: tuple[tuple[Any, ...], ...] | None
    taken: int
    used: frozenset[int]
    unpacks: bool


#: Which of the results have a gradient.
Pattern = tuple[bool, ...]


class CustomFunction:
    """Gives results the history of a custom function. `template` is filled with the values of each call.

    `unchanged` tells whether the world is still what the traced backward pass assumes. A real one assumes nothing: it
    is the function's own.
    """

    def __init__(
        self, cls: type[Function], template: Applied, backwards: Mapping[Pattern, TracedBackward] = {}
    ) -> None:
        self.__name__ = self.__qualname__ = cls.__name__
        self.__module__ = cls.__module__
        self.template, self.backwards = template, backwards or {}
        #: Places of values: of those that are saved for the backward pass, and of those that it looks at elsewhere.
        self.saved = sorted({item.index for item in template.saved if isinstance(item, Slot)})
        looks = [b.used.difference(self.saved if b.unpacks else ()) for b in self.backwards.values()]
        self.kept = sorted(frozenset().union(*looks))
        self.unchanged: Callable[[], bool] = lambda: True
        self.cls = weakref.ref(cls)  # guards let the graph run only as long as it lives
        methods = {"forward": forward, "backward": self.differentiate, "jvp": differentiate_forward}
        self.function: Any = type(cls.__name__, (Function,), {name: staticmethod(f) for name, f in methods.items()})

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """The outputs, with their history. Behind what the template needs are values that the traced backward takes."""
        applied = Applied(*(*filled(self.template.parts(), values), self.template.materialize_grads))
        found: tuple[Any, ...] = self.function.apply(*applied.inputs, (self, applied, values))
        return found

    def differentiate(self, ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        if any(isinstance(gradient, FakeTensor) for gradient in gradients):
            return *self.traced(ctx, gradients), None
        found = ctx.onegraph_class.backward(ctx, *gradients)
        found = found if isinstance(found, tuple) else (found,)
        count = len(self.template.inputs)
        return *found[:count], None, *found[count:]

    def traced(self, ctx: Any, gradients: Sequence[Any]) -> Sequence[Any]:
        backward = self.backwards.get(tuple(gradient is not None for gradient in gradients))
        if backward is None or torch.is_grad_enabled():
            raise RuntimeError(f"the backward pass of {self.__name__} is not captured for these gradients")
        values = list(ctx.onegraph_values[: backward.taken])
        if backward.unpacks:
            for place, value in zip(self.saved, ctx.saved_tensors, strict=True):
                values[place] = value
        for place, look in zip(self.kept, ctx.onegraph_kept, strict=True):
            if place in backward.used:
                values[place] = look()
        given = [gradient for gradient in gradients if gradient is not None]
        if backward.strides is not None:
            given = list(map(laid_out, given, backward.strides))
        found: Sequence[Any] = backward.graph(*given, *values)
        return found


def forward(ctx: Any, *inputs: Any) -> tuple[Any, ...]:
    """The end of a forward pass: what it has computed, and what it leaves on the context."""
    applied: Applied
    function, applied, values = inputs[-1]
    ctx.needs_input_grad = ctx.needs_input_grad[:-1]
    ctx.set_materialize_grads(applied.materialize_grads)
    if applied.dirty:
        ctx.mark_dirty(*applied.dirty)
    if applied.non_differentiable:
        ctx.mark_non_differentiable(*applied.non_differentiable)
    for name, value in applied.attributes.items():
        setattr(ctx, name, value)
    if any(isinstance(value, FakeTensor) for value in values):
        ctx.onegraph_values = values
        ctx.onegraph_kept = [seen_by_hooks(values[place]) for place in function.kept]
        ctx.save_for_backward(*[values[place] for place in function.saved])
    else:
        ctx.onegraph_class = function.cls()
        ctx.save_for_backward(*applied.saved)
    return applied.outputs


def differentiate_forward(ctx: Any, *tangents: Any) -> Any:
    return ctx.onegraph_class.jvp(ctx, *tangents[:-1])


def laid_out(gradient: Tensor, stride: Sequence[Any]) -> Tensor:
    """The gradient with these strides, which capture has shown the program."""
    if gradient.stride() == tuple(stride):
        return gradient
    return gradient.new_empty_strided(gradient.size(), stride).copy_(gradient)


def applied_in(graph: torch.fx.Graph) -> list[CustomFunction]:
    """The custom functions whose backward is a part of that of the graph."""
    return [node.target for node in graph.nodes if isinstance(node.target, CustomFunction)]
