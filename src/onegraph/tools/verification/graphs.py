"""The captured graphs of a call with what they were called with, and graphs that end early."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from onegraph.base.dataclass import dataclass
from onegraph.base.events import GraphCaptured, Location
from onegraph.capture.verified import copies_of
from onegraph.compile import EVENTS, compile
from onegraph.tools.record import recording
from onegraph.tools.verification.call import Call, Outcome
from onegraph.torchlib.graph_text import operator_name
from onegraph.torchlib.private import is_functorch_wrapped_tensor

#: The names of operators that make tensors without elements.
UNWRITTEN = re.compile(r"(^|\.)(new_)?empty(_|$)")


@dataclass(frozen=True, slots=True)
class GraphCall:
    """One captured graph, and copies of its inputs at its first call; `gradients` says whether they were recorded."""

    number: int
    module: GraphModule
    inputs: tuple[Any, ...]
    frame: Location | None
    gradients: bool


@dataclass(slots=True)
class GraphRecorder:
    """A backend that runs captured graphs as they are, and keeps them in the order of their first calls."""

    frames: Callable[[GraphModule], Location | None]
    calls: list[GraphCall] = field(default_factory=list)

    def __call__(self, module: GraphModule, examples: list[Any]) -> Callable[..., Any]:
        is_first = True

        def run(*inputs: Any) -> Any:
            nonlocal is_first
            if is_first:
                is_first = False
                copies = tuple(as_given(*pair) for pair in zip(copies_of(inputs), inputs, strict=True))
                number = len(self.calls) + 1
                self.calls.append(GraphCall(number, module, copies, self.frames(module), torch.is_grad_enabled()))
            return module.forward(*inputs)

        return run


def as_given(copy: Any, given: Any) -> Any:
    """The copy of an input as what the input was: a parameter, a leaf, or what autograd has made."""
    if isinstance(given, torch.nn.Parameter):
        return torch.nn.Parameter(copy.detach(), requires_grad=given.requires_grad)
    if isinstance(given, torch.Tensor) and given.requires_grad and not given.is_leaf:
        with torch.enable_grad():
            return copy.clone()
    return copy


def captured(call: Call, keywords: Mapping[str, Any]) -> tuple[Outcome, list[GraphCall]]:
    """The call with its graphs run as they are captured, and these graphs."""
    with recording(EVENTS, (GraphCaptured,)) as recorded:

        def frame_of(module: GraphModule) -> Location | None:
            events = [each.event for each in recorded if isinstance(each.event, GraphCaptured)]
            return next((event.frame for event in events if event.module is module), None)

        recorder = GraphRecorder(frame_of)
        outcome = call.run(compile(call.target, **{**keywords, "backend": recorder}))
    return outcome, recorder.calls


def operators(module: GraphModule) -> list[Node]:
    """The nodes that compute."""
    return [node for node in module.graph.nodes if node.op not in ("placeholder", "output")]


def copy_of(module: GraphModule, writes: Sequence[int]) -> GraphModule:
    """The same graph for a backend, which may change it; `writes` says how often it writes to each of its inputs."""
    graph = Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    for node, count in zip(graph.find_nodes(op="placeholder"), writes, strict=True):
        node.meta["writes"] = min(node.meta.get("writes", 0), count)  # less if the graph ends early
    return GraphModule(module, graph)


class GraphFunction:
    """A graph as a function that gives a tuple (backends may give a list).

    `writes` counts how often each input is written to by the first call.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        self.__wrapped__ = run
        self.writes: tuple[int, ...] = ()

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        before = list(map(version_of, inputs))
        results = tuple(self.__wrapped__(*inputs))
        after = map(version_of, inputs)
        self.writes = self.writes or tuple(now - then for now, then in zip(after, before, strict=True))
        return results


def version_of(value: object) -> int:
    """How often a tensor was written to; 0 for what has no such count."""
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else 0


def ending_early(module: GraphModule, count: int) -> GraphModule:
    """The graph with its first `count` operators only, which gives what the others would have used of them.

    What leaves a setting behind those, as the end of autocast does, is kept.
    """
    graph = Graph()
    copied: dict[Node, Node] = {}
    kept = frozenset(operators(module)[:count])
    for node in module.graph.nodes:
        if node.op == "placeholder" or node in kept or (node.op != "output" and is_setting(node, copied)):
            copied[node] = graph.node_copy(node, copied.__getitem__)
    made = [node for node in copied if node in kept]
    results = [node for node in made if is_result(node) and (node is made[-1] or not set(node.users) <= kept)]
    graph.output(tuple(copied[node] for node in results))
    return GraphModule(module, graph)


def is_setting(node: Node, copied: Mapping[Node, Node]) -> bool:
    """Whether a node computes nothing, and stands on nothing that is left out."""
    value = node.meta.get("example_value")
    return node.op == "call_function" and value is None and all(each in copied for each in node.all_input_nodes)


def is_result(node: Node) -> bool:
    """Whether a graph can give what a node does: a tensor with elements, which is not of a transform's level."""
    value = node.meta.get("example_value")
    is_plain = isinstance(value, torch.Tensor) and not is_functorch_wrapped_tensor(value)
    return is_plain and not UNWRITTEN.search(operator_name(node))
