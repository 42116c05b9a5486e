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

from onegraph.base.dataclass import dataclass
from onegraph.capture import breaks as b
from onegraph.capture.breaks import GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.graph.late_guards import relates_to_call
from onegraph.capture.graph.slots import Slots, cut
from onegraph.capture.pyobject.exact_types import defined, isinstance
from onegraph.torchlib.custom_function import Applied, CustomFunction, Pattern, TracedBackward
from onegraph.torchlib.histories import is_recorded, version_of
from onegraph.torchlib.primals import tangent
from onegraph.torchlib.private import DisableTorchFunction, set_grad_enabled
from onegraph.torchlib.state import without_autocast


class Context(FunctionCtx):
    """The `ctx` of a custom function that is traced."""

    unpacked = False
    to_save: tuple[Any, ...] = ()
    dirty_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    materialize_grads = True

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        self.unpacked = True
        return self.to_save


#: What methods of the context note on it.
OWN = frozenset(
    """needs_input_grad unpacked to_save saved_for_forward dirty_tensors non_differentiable
    materialize_grads""".split()
)
#: Modules of torch that wrap methods of custom functions.
WRAPPING = ("torch.autograd.function", "torch.amp.autocast_mode")
#: For how many results that may have no gradient each combination is traced.
COMBINED = 3


#: A class method in Python; of torch 2.14 and later, one in C.
APPLY = vars(Function)["apply"]


@policy(getattr(APPLY, "__func__", APPLY))
def apply(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a custom function. Where no gradients are recorded, it is its forward."""
    cls, given = args[0], list(args[1:])
    apart = cls.setup_context is not Function.setup_context
    if apart:
        given, kwargs = with_defaults(tracer, tracer.getattr(cls, "forward"), given, kwargs)
    inputs = tuple(map(tracer.recorder.as_traced, given))
    needs_input_grad = tuple(isinstance(value, torch.Tensor) and is_recorded(value) for value in inputs)
    recorded = torch.is_grad_enabled() and any(needs_input_grad)
    application = Application(tracer, cls, Context(needs_input_grad), inputs)
    application.refuse_unusual(recorded, kwargs)
    with without_gradients():
        result = application.call("forward", inputs if apart else (application.context, *inputs))
        if apart:
            application.call("setup_context", (application.context, inputs, result))
    outputs = result if isinstance(result, tuple) else (result,)
    if not recorded and (tracer.open_levels or not any(is_viewed(item, inputs) for item in outputs)):
        return result
    found = application.with_history(outputs, recorded)
    return found if isinstance(result, tuple) else found[0]


def with_defaults(
    tracer: Tracing, function: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call, by position as far as they have one, with those that are not given."""
    if not isinstance(function, FunctionType):
        return list(args), kwargs
    named = tracer.bind(function, tuple(args), kwargs)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    given = [*(named[name] for name in names), *args[len(names) :]]
    return given, {name: value for name, value in kwargs.items() if name not in names}


@contextmanager
def without_gradients() -> Iterator[None]:
    """Record that gradients are not recorded in here."""
    enabled = torch.is_grad_enabled()
    if enabled:
        set_grad_enabled(False)
    try:
        yield
    finally:
        if enabled:
            set_grad_enabled(True)


@dataclass(frozen=True, slots=True)
class Application:
    """One call of a custom function."""

    tracer: Tracing
    cls: Any
    context: Context
    inputs: tuple[Any, ...]

    def refused(self, why: str) -> GraphBreak:
        return GraphBreak(b.CUSTOM_FUNCTION, name=f"{self.cls.__name__}.apply", why=why)

    def refuse_unusual(self, recorded: bool, kwargs: dict[str, Any]) -> None:
        """Break the graph for classes that run in other ways than by `forward` and `backward`, and for wrong calls."""
        cls = self.cls
        if kwargs:
            raise self.refused("which has arguments without a position")
        if self.tracer.open_levels and torch.is_grad_enabled():  # whose tensors do not tell what is recorded
            raise self.refused("under a transform of torch.func")
        boxed = getattr(cls, "boxed_grads_call", False)
        unusual = boxed or type(cls) is not FunctionMeta or defined(cls, "vjp") is not defined(Function, "vjp")
        if recorded and (unusual or id(cls) in self.tracer.world.made_classes):
            raise self.refused("which has no `backward` of the usual kind")

    def call(self, name: str, args: tuple[Any, ...]) -> Any:
        """Call a method of the class. What torch wraps around it is interpreted, too, to see what it wraps."""
        method = self.tracer.getattr(self.cls, name)
        wraps = isinstance(method, FunctionType) and hasattr(method, "__wrapped__")
        if wraps and method.__globals__["__name__"] in WRAPPING:
            return self.tracer.interpret(method, args, {})
        return self.tracer.call(method, args, {})

    def with_history(self, outputs: tuple[Any, ...], recorded: bool) -> tuple[Any, ...]:
        """The outputs with their history. One that is an input becomes a view of it."""
        recorder, context = self.tracer.recorder, self.context
        if any(isinstance(value, torch.Tensor) and recorder.inputs_in(value) for value in context.dirty_tensors):
            raise self.refused("which writes to an input of the graph")
        slots = Slots(recorder, self.tracer.world, self.refused)
        attributes = {key: value for key, value in vars(context).items() if key not in OWN}
        parts: tuple[Any, ...] = (
            only_tensors(self.inputs),
            only_tensors(outputs),
            context.to_save,
            attributes,
            context.dirty_tensors,
            context.non_differentiable,
        )
        with DisableTorchFunction():
            template = Applied(*(*map(slots.template, parts), bool(context.materialize_grads)))
            try:
                results = CustomFunction(self.cls, template)(*slots.values)
            except Exception as raised:
                raise self.refused(f"which raises {type(raised).__name__}") from None
        backwards = self.traced_backwards(template, slots, results) if recorded else {}
        node = recorder.graph.call_function(CustomFunction(self.cls, template, backwards), tuple(slots.nodes))
        recorder.rebind(node, results)
        return tuple(o if r is None else r for o, r in zip(outputs, results, strict=True))

    def traced_backwards(
        self, template: Applied, slots: Slots, results: Sequence[Any]
    ) -> dict[Pattern, TracedBackward]:
        """What backward does, for each combination of results that may have gradients."""
        lazy = not self.context.materialize_grads
        possible = tuple(isinstance(r, torch.Tensor) and (is_recorded(r) or not lazy) for r in results)
        backwards = {possible: self.traced_backward(template, slots, results, possible)}
        for pattern in itertools.product(*((False, True) if p else (False,) for p in possible)):
            if lazy and sum(possible) <= COMBINED and any(pattern) and pattern != possible:
                backwards[pattern] = self.traced_backward(template, slots, results, pattern)
        return backwards

    def traced_backward(
        self, template: Applied, slots: Slots, results: Sequence[Any], pattern: Pattern
    ) -> TracedBackward:
        """What backward does with gradients for some results, as a graph of these and of values."""
        recorder = self.tracer.recorder
        start = next(iter(reversed(recorder.graph.nodes)))
        with DisableTorchFunction():
            gradients = [tangent(r) if given else None for r, given in zip(results, pattern, strict=True)]
        given = [gradient for gradient in gradients if gradient is not None]
        for gradient in given:
            node = recorder.graph.placeholder("gradient")
            node.meta["example_value"] = gradient
            recorder.bind(gradient, node)
        recorder.told_layouts = self.context.unpacked = False
        try:
            with self.changing_nothing([*slots.values, *given]), backward_mode():
                found = self.call("backward", (self.context, *gradients))
        except GraphBreak as inner:
            nested = inner.reason is not b.CUSTOM_FUNCTION
            raise self.refused(f"whose backward breaks the graph: {inner.summary}") if nested else inner from None
        except Exception as raised:
            raise self.refused(f"whose backward raises {type(raised).__name__}") from None
        count = len(slots.nodes)
        with DisableTorchFunction():
            graph = cut(slots, start, self.wanted(found if isinstance(found, tuple) else (found,)))
        taken = any(node.op == "placeholder" or isinstance(value, torch.Tensor) for node, value in slots.added(count))
        if taken or not slots.outside_numbers(count) <= slots.outside_numbers(0, count):
            raise self.refused("whose backward takes what forward has not kept")
        places = [node for node in graph.graph.nodes if node.op == "placeholder"][len(given) :]
        used = frozenset(i for i, node in enumerate(places) if node.users and is_tensor(node))
        strides = tuple(tuple(g.stride()) for g in given) if recorder.told_layouts else None
        return TracedBackward(graph, strides, len(slots.nodes), used, self.context.unpacked)

    def wanted(self, found: tuple[Any, ...]) -> list[Any]:
        """The gradients that autograd takes of those that backward gives, None for inputs that need none."""
        needed = self.context.needs_input_grad
        extra = [item for item in found[len(needed) :] if item is not None]
        others = [item for item in found if item is not None and not isinstance(item, torch.Tensor)]
        if len(found) < len(needed) or extra or others:
            raise self.refused("whose backward gives other gradients than it has inputs")
        return [item if wanted else None for item, wanted in zip(found, needed, strict=False)]

    @contextmanager
    def changing_nothing(self, tensors: Sequence[Any]) -> Iterator[None]:
        """Break the graph if what runs in here changes anything that was there before, or reads it from arguments."""
        world = self.tracer.world
        outer, world.touched = world.touched, set()
        before, known = state_of(self.tracer, self.context, tensors), len(world.guards)
        with self.tracer.late.noted(world) as problems:
            yield
        if any(map(relates_to_call, itertools.islice(world.guards, known, None))):
            problems.append("whose backward takes what forward has not kept")
        touched, world.touched = world.touched, outer | world.touched
        if touched or state_of(self.tracer, self.context, tensors) != before:
            problems.append("whose backward changes more than gradients")
        if problems:
            raise self.refused(problems[-1])


def is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("example_value"), torch.Tensor)


def is_viewed(output: Any, inputs: Sequence[Any]) -> bool:
    """Whether an output is an input or a view, to which autograd lets nobody write."""
    with DisableTorchFunction():
        return isinstance(output, torch.Tensor) and (output._is_view() or any(output is value for value in inputs))


def only_tensors(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(value if isinstance(value, torch.Tensor) else None for value in values)


@contextmanager
def backward_mode() -> Iterator[None]:
    """Operators run as in a backward pass. Nothing of it is recorded: a graph is called in such a state."""
    try:
        with DisableTorchFunction():
            set_grad_enabled(False)
        with without_autocast():
            yield
    finally:
        with DisableTorchFunction():
            set_grad_enabled(True)


def state_of(tracer: Tracing, context: Context, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """What the program has changed so far."""
    world = tracer.world
    versions = [version_of(value) for value in tensors if isinstance(value, torch.Tensor)]
    return (
        versions,
        {given.name: given.written for given in tracer.recorder.inputs if given.written is not None},
        {key: identities(value) for key, value in vars(context).items() if key != "unpacked"},
        [(id(shadow), member, id(value)) for shadow, member, value in world.changed_slots()],
        [(key, name, id(value)) for key, space in world.namespaces.items() for name, value in space.written.items()],
        len(tracer.effects),
        world.hooks.state(),
        len(tracer.logged),
        len(world.draws.made),
        dict(tracer.settings),
        dict(tracer.settings_of_torch),
        tracer.chosen_device,
        len(tracer.random.made),
        len(tracer.open_contexts),
    )


def identities(value: Any) -> Any:
    """What a value of the context consists of."""
    match value:
        case list() | tuple():
            return id(value), [identities(item) for item in value]
        case dict():
            return id(value), {key: identities(item) for key, item in value.items()}
    return id(value)
