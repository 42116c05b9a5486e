"""`torch.autograd.Function`: what its forward does is recorded as it is; its backward becomes a graph of its own.

The node behind the operators of forward gives the results their history (`onegraph.torchlib.custom_function`). A
backward that does more than to compute gradients breaks the graph: it runs later, and maybe never.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, FunctionMeta

from onegraph.capture import breaks as b
from onegraph.capture.breaks import GraphBreak
from onegraph.capture.kinds import isinstance
from onegraph.capture.late_guards import is_of_call
from onegraph.capture.policy.registry import policy
from onegraph.capture.record import is_recorded
from onegraph.capture.slots import Slots, cut
from onegraph.torchlib.custom_function import Applied, CustomFunction, Slot, TracedBackward
from onegraph.torchlib.primals import tangent
from onegraph.torchlib.state import without_autocast


class Context(FunctionCtx):
    """The `ctx` of a custom function that is traced."""

    saved_tensors: tuple[Any, ...] = ()
    to_save = dirty_tensors = non_differentiable = ()
    materialize_grads = True

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad


#: What methods of the context note on it.
OWN = frozenset(
    """needs_input_grad saved_tensors to_save saved_for_forward dirty_tensors non_differentiable
    materialize_grads""".split()
)


@policy(Function.apply.__func__)
def apply(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a custom function. Where no gradients are recorded, it is its forward."""
    cls, *given = args
    name = f"{cls.__name__}.apply"
    apart = cls.setup_context is not Function.setup_context
    if apart:
        given, kwargs = with_defaults(tracer, tracer.getattr(cls, "forward"), given, kwargs)
    inputs = tuple(map(tracer.recorder.as_traced, given))
    context = Context(tuple(isinstance(value, torch.Tensor) and is_recorded(value) for value in inputs))
    recorded = torch.is_grad_enabled() and any(context.needs_input_grad)
    if recorded:
        refuse_class(cls, name)
    with without_gradients():
        result = call_method(tracer, cls, "forward", inputs if apart else (context, *inputs), kwargs)
        if apart:
            call_method(tracer, cls, "setup_context", (context, inputs, result), {})
    outputs = result if isinstance(result, tuple) else (result,)
    returned = any(item is value for item in outputs for value in inputs if isinstance(value, torch.Tensor))
    if not (recorded or returned):
        return result
    found = with_history(tracer, cls, name, context, inputs, outputs, recorded)
    return found if isinstance(result, tuple) else found[0]


def with_defaults(
    tracer: Any, function: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments of a call, with those that are not given."""
    if not isinstance(function, FunctionType):
        return args, kwargs
    named = tracer.bind(function, tuple(args), kwargs)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    given = (*(named[name] for name in names), *args[len(names) :])
    return given, {name: value for name, value in kwargs.items() if name not in names}


def refuse_class(cls: Any, name: str) -> None:
    """Break the graph for classes that run in other ways than by `forward` and `backward`."""
    if type(cls) is not FunctionMeta or cls.vjp is not Function.vjp or getattr(cls, "boxed_grads_call", False):
        raise GraphBreak(b.CUSTOM_FUNCTION, name=name, why="which has no `backward` of the usual kind")


@contextmanager
def without_gradients() -> Iterator[None]:
    """Record that gradients are not recorded in here."""
    enabled = torch.is_grad_enabled()
    if enabled:
        torch._C._set_grad_enabled(False)
    try:
        yield
    finally:
        if enabled:
            torch._C._set_grad_enabled(True)


def call_method(tracer: Any, cls: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method of the class. What torch wraps around it is interpreted, too, to see what it wraps."""
    method = tracer.getattr(cls, name)
    wraps = isinstance(method, FunctionType) and hasattr(method, "__wrapped__")
    if wraps and method.__globals__["__name__"] in ("torch.autograd.function", "torch.amp.autocast_mode"):
        return tracer.interpret(method, args, kwargs)
    return tracer.call(method, args, kwargs)


def with_history(
    tracer: Any,
    cls: Any,
    name: str,
    context: Context,
    inputs: tuple[Any, ...],
    outputs: tuple[Any, ...],
    recorded: bool,
) -> tuple[Any, ...]:
    """The outputs of a custom function with their history. One that is an input becomes a view of it."""
    if context.dirty_tensors:
        raise GraphBreak(b.CUSTOM_FUNCTION, name=name, why="which writes to its inputs")
    slots = Slots(tracer.recorder, tracer.world, name)
    attributes = {key: value for key, value in vars(context).items() if key not in OWN}
    parts = (inputs, outputs, context.to_save, attributes, context.dirty_tensors, context.non_differentiable)
    template = Applied(*map(slots.template, parts), bool(context.materialize_grads))
    with torch._C.DisableTorchFunction():
        results = CustomFunction(cls, template)(*slots.values)
    backward = traced_backward(tracer, cls, name, context, template, slots, results) if recorded else None
    function = CustomFunction(cls, template, backward)
    node = tracer.recorder.graph.call_function(function, tuple(slots.nodes))
    tracer.recorder.rebind(node, results)
    return results


def traced_backward(
    tracer: Any, cls: Any, name: str, context: Context, template: Applied, slots: Slots, results: Sequence[Any]
) -> TracedBackward:
    """What backward does, as a graph of gradients and values."""
    recorder = tracer.recorder
    start = next(iter(reversed(recorder.graph.nodes)))
    gradients = [gradient_for(result, context.materialize_grads) for result in results]
    given = [gradient for gradient in gradients if gradient is not None]
    for gradient in given:
        recorder.bind(gradient, recorder.graph.create_node("placeholder", "gradient"))
    context.saved_tensors = context.to_save
    try:
        with changing_nothing(tracer, name, context, [*slots.values, *given]), backward_mode(tracer):
            found = call_method(tracer, cls, "backward", (context, *gradients), {})
    except GraphBreak as inner:
        if inner.reason is b.CUSTOM_FUNCTION:
            raise
        why = f"whose backward breaks the graph: {inner.summary}"
        raise GraphBreak(b.CUSTOM_FUNCTION, name=name, why=why) from None
    except Exception as raised:
        why = f"whose backward raises {type(raised).__name__}"
        raise GraphBreak(b.CUSTOM_FUNCTION, name=name, why=why) from None
    wanted = wanted_of(found if isinstance(found, tuple) else (found,), context.needs_input_grad, name)
    count = len(slots.nodes)
    graph = cut(slots, start, wanted)
    if any(node.op == "placeholder" or isinstance(v, torch.Tensor) for node, v in slots.added(count)):
        raise GraphBreak(b.CUSTOM_FUNCTION, name=name, why="whose backward takes what forward has not kept")
    used = {index for index, node in enumerate(graph.graph.nodes) if node.op == "placeholder" and node.users}
    saved = {
        slot.index: index
        for index, slot in enumerate(template.saved)
        if isinstance(slot, Slot) and slot.index + len(given) in used
    }
    strides = tuple(None if gradient is None else tuple(gradient.stride()) for gradient in gradients)
    return TracedBackward(graph, strides, saved)


def gradient_for(result: Any, materialize: bool) -> torch.Tensor | None:
    """What stands for the gradient of a result; None for what backward is given no gradient for."""
    if not isinstance(result, torch.Tensor) or not (materialize or is_recorded(result)):
        return None
    with torch._C.DisableTorchFunction():
        return tangent(result)


@contextmanager
def backward_mode(tracer: Any) -> Iterator[None]:
    """Operators run as in a backward pass. Nothing of it is recorded: a graph is called in such a state."""
    tracer.in_backward = True
    try:
        with torch._C.DisableTorchFunction():
            torch._C._set_grad_enabled(False)
        with without_autocast():
            yield
    finally:
        tracer.in_backward = False
        with torch._C.DisableTorchFunction():
            torch._C._set_grad_enabled(True)


@contextmanager
def changing_nothing(tracer: Any, name: str, context: Context, tensors: Sequence[Any]) -> Iterator[None]:
    """Break the graph if what runs in here changes anything that was there before, or reads it from arguments."""
    world = tracer.world
    outer, world.touched = world.touched, set()
    before, known = state_of(tracer, context, tensors), len(world.guards)
    yield
    if any(map(is_of_call, itertools.islice(world.guards, known, None))):
        raise GraphBreak(b.CUSTOM_FUNCTION, name=name, why="whose backward takes what forward has not kept")
    touched, world.touched = world.touched, outer | world.touched
    if touched or state_of(tracer, context, tensors) != before:
        raise GraphBreak(b.CUSTOM_FUNCTION, name=name, why="whose backward changes more than gradients")


def state_of(tracer: Any, context: Context, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """What the program has changed so far."""
    world = tracer.world
    with torch._C.DisableTorchFunction():
        versions = [value._version for value in tensors if isinstance(value, torch.Tensor)]
    return (
        versions,
        dict(tracer.recorder.written),
        {key: identities(value) for key, value in vars(context).items()},
        [(id(shadow), member, id(value)) for shadow, member, value in world.changed_slots()],
        [(key, name, id(value)) for key, space in world.namespaces.items() for name, value in space.written.items()],
        len(tracer.effects),
        len(tracer.logged),
        len(world.draws.made),
        dict(tracer.settings),
        dict(tracer.settings_of_torch),
        len(tracer.open_autocasts),
    )


def identities(value: Any) -> Any:
    """What a value of the context consists of."""
    match value:
        case list() | tuple():
            return id(value), [identities(item) for item in value]
        case dict():
            return id(value), {key: identities(item) for key, item in value.items()}
    return id(value)


def wanted_of(found: tuple[Any, ...], needed: tuple[bool, ...], name: str) -> list[Any]:
    """The gradients that autograd takes, None for inputs that need none."""
    count = len(needed)
    extra = [item for item in found[count:] if item is not None]
    others = [item for item in found if item is not None and not isinstance(item, torch.Tensor)]
    if len(found) < count or extra or others:
        raise GraphBreak(b.CUSTOM_FUNCTION, name=name, why="whose backward gives other gradients than it has inputs")
    return [item if wanted else None for item, wanted in zip(found, needed, strict=False)]
