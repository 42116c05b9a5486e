"""The values of the trace that a node takes, wherever in its objects they are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from onegraph.capture.breaks import GraphBreak
from onegraph.capture.graph.record import Recorder
from onegraph.capture.guards.source import Through
from onegraph.capture.heap.world import World
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import isinstance, plain
from onegraph.capture.symbolic.changing import carried
from onegraph.torchlib.custom_function import SizeOf, Slot
from onegraph.torchlib.graph import LazyGraphModule
from onegraph.torchlib.shapes import Computed
from onegraph.torchlib.size_expression import symbols_in

#: What a template holds as it is.
CONSTANTS = (torch.dtype, torch.device, torch.layout, torch.memory_format)


class Slots:
    """Collects values, each once, and makes templates with slots for them."""

    def __init__(self, recorder: Recorder, world: World, refused: Callable[[str], GraphBreak]) -> None:
        self.recorder, self.world, self.refused = recorder, world, refused
        self.nodes: list[torch.fx.Node] = []
        self.values: list[Any] = []

    def add(self, node: torch.fx.Node, value: Any) -> Slot:
        if node not in self.nodes:
            self.nodes.append(node)
            self.values.append(value)
        return Slot(self.nodes.index(node))

    def added(self, count: int) -> Iterator[tuple[torch.fx.Node, Any]]:
        """The slots behind the first ones."""
        return zip(self.nodes[count:], self.values[count:], strict=True)

    def template(self, value: Any) -> Any:
        """The value with slots in the place of what differs from call to call."""
        match plain(value):
            case torch.Tensor() | torch.SymInt() | torch.SymFloat() | torch.SymBool():
                node = self.recorder.as_argument(value)
                return self.add(node, value) if isinstance(node, torch.fx.Node) else node
            case torch.Size():
                sizes = tuple(map(self.template, value))
                return SizeOf(sizes) if any(isinstance(size, Slot) for size in sizes) else torch.Size(sizes)
            case tuple() if type(value) is tuple:
                return tuple(map(self.template, value))
            case tuple() if hasattr(value, "_fields"):
                return type(value)(*map(self.template, value))
            case list() if type(value) is list and not self.world.is_outside(value):
                return list(map(self.template, value))
            case dict() if type(value) is dict and not self.world.is_outside(value):
                return {self.template(key): self.template(item) for key, item in value.items()}
            case slice():
                return slice(*map(self.template, (value.start, value.stop, value.step)))
        if type(value) in ATOMS or isinstance(value, CONSTANTS) or self.world.is_pinned(value):
            return value
        raise self.refused(f"whose context keeps a {type(self.world.real(value)).__qualname__}")

    def outside_numbers(self, first: int, end: int | None = None) -> set[Any]:
        """The numbers from outside, symbolic ones, from which those in some of the slots are computed."""
        sources = {given.name: given.source for given in self.recorder.inputs}
        found: set[Any] = set()
        todo = self.nodes[first:end]
        while todo:
            node = todo.pop()
            match sources.get(str(node.target)) if node.op == "placeholder" else None:
                case Computed() as value:
                    found.update(symbols_in(value))
                case Through(source, function) if function is carried:
                    found.add(source)
            if self.recorder.is_number(node):
                todo += node.all_input_nodes
        return found


def cut(slots: Slots, start: torch.fx.Node, results: Sequence[Any]) -> torch.fx.GraphModule:
    """What was recorded behind a node, taken out of the graph as one of its own, which gives these results.

    It takes what the placeholders behind that node stand for, and the values in the slots. Values that it takes besides
    get slots, as do numbers that are computed from sizes: those stay in the graph, which may want them again.
    """
    recorder = slots.recorder
    returned = recorder.as_argument(tuple(results))
    behind = itertools.takewhile(lambda node: node is not start, reversed(recorder.graph.nodes))
    inputs = {given.name for given in recorder.inputs}
    recorded = dict.fromkeys(
        n for n in behind if not (recorder.is_number(n) or n.op == "placeholder" and n.name in inputs)
    )
    nodes = list(reversed(recorded))
    given, calls = [n for n in nodes if n.op == "placeholder"], [n for n in nodes if n.op != "placeholder"]
    taken = [argument for node in calls for argument in node.all_input_nodes]
    for node in (*taken, *(node for node in returned if node is not None)):
        if node not in recorded:
            slots.add(node, node.meta.get("example_value"))
    inner, places = torch.fx.Graph(), {}
    for node in (*given, *slots.nodes):
        places[node] = inner.placeholder(node.name)
        places[node].meta = dict(node.meta)
    for node in calls:
        places[node] = inner.node_copy(node, places.__getitem__)
    inner.output(torch.fx.map_arg(returned, places.__getitem__))
    recorder.forget_nodes(recorded)
    return LazyGraphModule(torch.nn.Module(), inner)
