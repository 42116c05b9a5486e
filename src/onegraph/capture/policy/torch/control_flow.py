"""The control flow operators of torch: their functions become graphs of their own, the bodies of a region.

`torch.cond`, `while_loop`, `scan` and `map` are Python functions that take their containers apart and call operators
which are handled here. A body may take whatever the program has: what it takes besides its arguments is a value of the
region. It may change nothing but what it has made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch.fx import GraphModule

from onegraph.base.dataclass import dataclass
from onegraph.capture.breaks import CONTROL_FLOW_OPERATOR, GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.directives.skipped_code import BESIDE
from onegraph.capture.graph.slots import Slots, cut
from onegraph.capture.policy.torch.custom_functions import state_of
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.ir.index import Index
from onegraph.torchlib import private
from onegraph.torchlib.histories import recorded_as
from onegraph.torchlib.private import DisableTorchFunction
from onegraph.torchlib.pytree import flattened, unflattened
from onegraph.torchlib.regions import Body, Choice, Region, Repetition, Scan, Shape, shape_of
from onegraph.torchlib.size_node import SizeNode
from onegraph.torchlib.state import AUTOCAST_DEVICES

#: How many turns of a loop a graph has under a transform, where it has a call for each.
MOST_STEPS = 100


@policy(private.COND)
def cond(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`cond(pred, true_fn, false_fn, operands)`: a predicate that is no tensor chooses while tracing."""
    predicate, *functions, operands = (*args, *kwargs.values())
    operands = tuple(tracer.iterate(operands))
    if not isinstance(predicate, torch.Tensor):
        return tracer.call(functions[0 if tracer.truth(predicate) else 1], operands, {})
    bodies = Bodies(tracer, "torch.cond")
    if private.is_batched(predicate):
        return selected(bodies, predicate, functions, operands)
    found = [bodies.traced(function, operands, ()) for function in functions]
    if found[0].kind != found[1].kind or found[0].shapes != found[1].shapes:
        raise bodies.refused("whose branches give different things")
    region = Choice(bodies.of_graphs(found), found[0].shapes, (True, *bodies.takes()), bodies.is_random)
    return unflattened(found[0].kind, bodies.called(region, predicate))


def selected(bodies: Bodies, predicate: torch.Tensor, functions: Sequence[Any], operands: tuple[Any, ...]) -> Any:
    """Under `vmap`, where each element has its predicate: both branches, and what each element takes of them."""
    kinds, found, was_random = [], [], bodies.is_random
    for function in functions:
        with bodies.changing_nothing():
            leaves, kind = flattened(bodies.tracer.world.realize_deep(bodies.tracer.call(function, operands, {})))
        if not leaves or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            raise bodies.refused("whose function gives something that is no tensor")
        kinds.append(kind)
        found.append(leaves)
    if bodies.is_random is not was_random:
        raise bodies.refused("whose branches draw random numbers, under torch.func.vmap")
    with DisableTorchFunction():
        shapes = [[(tuple(leaf.shape), leaf.dtype) for leaf in leaves] for leaves in found]
    if kinds[0] != kinds[1] or shapes[0] != shapes[1]:
        raise bodies.refused("whose branches give different things")
    chosen = [bodies.tracer.call(torch.where, (predicate, *pair), {}) for pair in zip(*found, strict=True)]
    return unflattened(kinds[0], chosen)


class Refused(GraphBreak):
    """Raised for functions that are no bodies of a region."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(CONTROL_FLOW_OPERATOR, name=name, why=why)
        self.why = why


def call_whole(function: Any, name: str, tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A public function. If it breaks the graph, it does so as a whole: in its own frame it has been told already that
    it is compiled."""
    try:
        return tracer.interpret(function, args, kwargs)
    except Refused as inner:
        why = inner.why
    except GraphBreak as inner:
        why = f"which breaks the graph: {inner.summary}"
    raise Refused(name, why)


for _name, _function in private.CONTROL_FLOW_FUNCTIONS.items():
    policy(_function)(partial(call_whole, _function, _name))
    BESIDE.add(_function.__code__)  # where it runs for real, torch's own compiler does


@policy(private.call_control_flow)
def call_operator(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return tracer.interpret(args[0], args[1:], kwargs)


@policy(private.WHILE_LOOP)
def while_loop(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`while_loop(cond_fn, body_fn, carried, others)`"""
    *functions, carried, others = (*args, *kwargs.values())
    carried = tuple(tracer.iterate(carried))
    bodies = Bodies(tracer, "torch.while_loop")
    if tracer.open_levels or not all(isinstance(value, torch.Tensor) for value in carried):
        return counted(bodies, functions, carried, tuple(tracer.iterate(others)))
    given = bodies.fresh(carried, carried)
    found = [bodies.traced(function, (*given, *tracer.iterate(others)), given) for function in functions]
    shapes = [shape_of(value) for value in carried]
    if len(found[0].shapes) != 1 or found[1].shapes != shapes:
        raise bodies.refused("whose body gives other things than it takes")
    region = Repetition(bodies.of_graphs(found), shapes, (*map(always, carried), *bodies.takes()), bodies.is_random)
    return unflattened(found[1].kind, bodies.called(region, *carried))


def counted(bodies: Bodies, functions: Sequence[Any], carried: tuple[Any, ...], others: tuple[Any, ...]) -> Any:
    """A loop that carries numbers of Python, or is under a transform: if no tensor ends it, its turns, one by one."""
    tracer, kinds, container = bodies.tracer, kinds_of(carried), None
    for _ in range(MOST_STEPS + 1):
        with bodies.changing_nothing():
            goes_on = tracer.call(functions[0], (*carried, *others), {})
        if isinstance(goes_on, torch.Tensor):
            where = "under a transform of torch.func" if tracer.open_levels else "and carries a number of Python"
            raise bodies.refused(f"which a tensor ends, {where}")
        is_over = not tracer.truth(goes_on)
        if is_over and container is not None:
            ends = [tracer.call(torch.clone, (v,), {}) if isinstance(v, torch.Tensor) else v for v in carried]
            return unflattened(container, ends)
        with bodies.changing_nothing():
            found = tracer.call(functions[1], (*carried, *others), {})
        values, container = flattened(tracer.world.realize_deep(found))
        if kinds_of(values) != kinds:
            raise bodies.refused("whose body gives other things than it takes")
        if not is_over:  # else there is no turn, and the body only tells the container
            carried = tuple(values)
    raise bodies.refused(f"of more than {MOST_STEPS} turns that numbers of Python count")


def kinds_of(values: Sequence[Any]) -> list[Any]:
    """What a loop must not change of what it carries."""
    with DisableTorchFunction():
        return [(v.shape, v.dtype) if isinstance(v, torch.Tensor) else type(v) for v in values]


@policy(private.SCAN)
def scan(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`scan(combine_fn, init, xs, others)`: the function gives what it carries on, then what is collected."""
    function, init, xs, others = (*args, *kwargs.values())
    init, xs = tuple(tracer.iterate(init)), tuple(tracer.iterate(xs))
    return scanned(tracer, "scan", function, init, xs, tuple(tracer.iterate(others)))


@policy(private.MAP)
def map_over(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`map_impl(f, xs, others)`"""
    function, xs, others = (*args, *kwargs.values())
    return scanned(tracer, "map", function, (), tuple(tracer.iterate(xs)), tuple(tracer.iterate(others)))


def scanned(
    tracer: Tracing, name: str, function: Any, init: tuple[Any, ...], xs: tuple[Any, ...], others: tuple[Any, ...]
) -> Any:
    """What a scan gives, in the container of its function: what is carried, and what is collected behind it."""
    bodies = Bodies(tracer, name)
    if tracer.open_levels:
        return unrolled(bodies, function, init, xs, others)
    given = bodies.fresh((*init, *xs), (*init, *bodies.parts(xs)))
    turn = bodies.traced(function, (*given, *others), given)
    carried = [shape_of(value) for value in init]
    if turn.shapes[: len(init)] != carried:
        raise bodies.refused("whose function gives another value to carry on than it takes")
    steps = xs[0].shape[0]
    collected = [Shape((steps, *shape.size), shape.dtype, shape.device) for shape in turn.shapes[len(init) :]]
    takes = (*map(always, given), *bodies.takes())
    (body,) = bodies.of_graphs([turn])
    region = Scan(body, len(init), len(xs), [*carried, *collected], takes, bodies.is_random)
    return unflattened(turn.kind, bodies.called(region, *init, *xs))


def unrolled(bodies: Bodies, function: Any, init: tuple[Any, ...], xs: tuple[Any, ...], others: tuple[Any, ...]) -> Any:
    """Under a transform: a call for each part, if there are few."""
    tracer = bodies.tracer
    with DisableTorchFunction():
        steps = xs[0].shape[0]
    if type(steps) is not int or not 0 < steps <= MOST_STEPS:
        raise bodies.refused(
            f"under a transform of torch.func, of a number of steps that is not from 1 to {MOST_STEPS}"
        )
    carried, collected, kind = init, [], None
    for step in range(steps):
        parts = [tracer.call(torch.Tensor.select, (x, 0, step), {}) for x in xs]
        with bodies.changing_nothing():
            found = tracer.call(function, (*carried, *parts, *others), {})
        leaves, kind = flattened(tracer.world.realize_deep(found))
        if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            raise bodies.refused("whose function gives something that is no tensor")
        if kinds_of(leaves[: len(init)]) != kinds_of(init):
            raise bodies.refused("whose function gives another value to carry on than it takes")
        carried = tuple(leaves[: len(init)])
        collected.append(leaves[len(init) :])
    stacked = [tracer.call(torch.stack, (items,), {}) for items in map(list, zip(*collected, strict=True))]
    return unflattened(kind, [*(tracer.call(torch.clone, (each,), {}) for each in carried), *stacked])


def always(_: object) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Traced:
    """A function as a graph: the container that it gives, what is known of the leaves, the slots that it takes."""

    graph: GraphModule
    kind: Any
    shapes: list[Shape]
    given: Sequence[Any]
    slots: int


@dataclass(slots=True)
class Bodies:
    """The bodies of one region, while they are traced."""

    tracer: Tracing
    name: str
    slots: Slots = field(init=False)
    is_random: bool = False

    def __post_init__(self) -> None:
        self.slots = Slots(self.tracer.recorder, self.tracer.world, self.refused)

    def refused(self, why: str) -> GraphBreak:
        return Refused(self.name, why)

    def parts(self, xs: Sequence[Any]) -> list[torch.Tensor]:
        """Fakes of the first parts of tensors."""
        with unseen(self.tracer):
            return [x.select(0, 0) for x in xs]

    def fresh(self, values: Sequence[Any], examples: Sequence[Any]) -> list[Any]:
        """What a body takes that runs again and again: fakes like the examples, of which gradients are recorded like
        those of the values."""
        if not all(isinstance(value, torch.Tensor) for value in values):
            raise self.refused("which carries something that is no tensor")
        with DisableTorchFunction():
            return [recorded_as(value, self.made(example)) for value, example in zip(values, examples, strict=True)]

    def made(self, value: Any) -> Any:
        """A contiguous fake of a tensor; a number as it is."""
        if not isinstance(value, torch.Tensor):
            return value
        with unseen(self.tracer):
            return shape_of(value).made()

    def traced(self, function: Any, args: Sequence[Any], given: Sequence[Any]) -> Traced:
        """A function as a graph of what is given, and of values in the slots."""
        if self.tracer.open_levels:
            raise self.refused("under a transform of torch.func")
        tracer, recorder = self.tracer, self.tracer.recorder
        start = next(iter(reversed(recorder.graph.nodes)))
        for value in given:
            node = recorder.graph.placeholder("value")
            node.meta["example_value"] = value
            recorder.bind(value, node)
        around = [recorder.graph.call_function(private.enter_autocast, values) for values in autocasts()]
        try:
            with self.changing_nothing():
                found = tracer.call(function, tuple(args), {})
                leaves, kind = flattened(tracer.world.realize_deep(found))
                if not leaves or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
                    raise self.refused("whose function gives something that is no tensor")
        except Refused:
            raise
        except GraphBreak as inner:
            raise self.refused(f"whose function breaks the graph: {inner.summary}") from None
        for node in reversed(around):
            recorder.graph.call_function(private.exit_autocast, (node,))
        with DisableTorchFunction():
            shapes = [shape_of(leaf) for leaf in leaves]
        graph = cut(self.slots, start, leaves)
        self.add_sizes(graph)
        if any(value is None for value in self.slots.values):
            raise self.refused("whose function computes with sizes")
        return Traced(graph, kind, shapes, tuple(given), len(self.slots.values))

    def add_sizes(self, graph: GraphModule) -> None:
        """Let the body take the sizes of its values that are only parts of sums and products there."""
        recorder = self.tracer.recorder
        places = graph.graph.find_nodes(op="placeholder")
        values = [place.meta.get("example_value") for place in places]
        with DisableTorchFunction():
            numbers = [n for value in values for n in (value.shape if isinstance(value, torch.Tensor) else (value,))]
        indices = [number.node.index for number in numbers if isinstance(number, torch.SymInt)]
        used = {symbol for index in indices for symbol in index.symbols}
        for symbol in sorted(used.difference(index.symbol for index in indices), key=lambda symbol: symbol.name):
            number = torch.SymInt(SizeNode(recorder.fake.sizes, Index.of(symbol)))
            node = recorder.as_argument(number)
            self.slots.add(node, number)
            with graph.graph.inserting_after(places[-1]):
                places.append(graph.graph.placeholder(node.name))
            places[-1].meta["example_value"] = number

    @contextmanager
    def changing_nothing(self) -> Iterator[None]:
        """Break the graph if what runs in here changes anything that was there before."""
        tracer = self.tracer
        recorder, world, random = tracer.recorder, tracer.world, tracer.recorder.fake.effects
        outer, world.touched, drawn, random.random = world.touched, set(), random.random, False
        values = [node.meta.get("example_value") for node in recorder.nodes.values()]
        known = [value for value in values if isinstance(value, torch.Tensor)]
        before = state_of(tracer, NOTHING, known)
        try:
            yield
        finally:
            self.is_random, random.random = self.is_random or random.random, drawn or random.random
            touched, world.touched = world.touched, outer | world.touched
        if touched or state_of(tracer, NOTHING, known) != before:
            raise self.refused("whose function changes something that was there before")

    def takes(self) -> list[bool]:
        """Whether the values in the slots are tensors."""
        return [isinstance(value, torch.Tensor) for value in self.slots.values]

    def of_graphs(self, found: Sequence[Traced]) -> list[Body]:
        made = list(map(self.made, self.slots.values))
        return [Body(each.graph, [*map(self.made, each.given), *made[: each.slots]]) for each in found]

    def called(self, region: Region, *first: Any) -> list[Any]:
        """The results of the region, as a node of the graph."""
        recorder = self.tracer.recorder
        with DisableTorchFunction():
            results = region(*first, *self.slots.values)
        node = recorder.graph.call_function(region, (*map(recorder.as_argument, first), *self.slots.nodes))
        recorder.bind_result(node, results)
        return list(results)


def autocasts() -> list[tuple[Any, ...]]:
    """The autocasts that are on, by what enters them: a body has them in it, wherever it runs."""
    devices = [device for device in AUTOCAST_DEVICES if torch.is_autocast_enabled(device)]
    cached = torch.is_autocast_cache_enabled()
    return [(device, torch.get_autocast_dtype(device), True, cached) for device in devices]


NOTHING: Any = SimpleNamespace()


@contextmanager
def unseen(tracer: Tracing) -> Iterator[None]:
    """Fakes are made in here, and no operator is recorded."""
    with DisableTorchFunction(), torch.no_grad(), tracer.recorder.fake:
        yield
