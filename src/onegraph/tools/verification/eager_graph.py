"""What a call computes in eager mode, as one graph: the functions of torch that it calls, in their order.

Where capture is at fault, its graphs are no help; this one is made without it, and fails when it is captured.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from operator import getitem
from pathlib import Path
from types import FrameType, MethodDescriptorType, MethodWrapperType
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.overrides import TorchFunctionMode

from onegraph.base.events import Location
from onegraph.capture.directives.stance import set_stance
from onegraph.capture.examined import as_given
from onegraph.capture.verified import copies_of
from onegraph.tools.verification.call import Call
from onegraph.tools.verification.graphs import GraphCall
from onegraph.torchlib.pytree import map_leaves_of

LIBRARIES = tuple(f"{Path(file).parent}/" for file in (torch.__file__, sys.modules["onegraph"].__file__) if file)


class Recording(TorchFunctionMode):
    """Makes a node of every call that gives tensors. Tensors that none has given are inputs, as they were then."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = Graph()
        self.inputs: list[Any] = []
        self.nodes: dict[int, Node] = {}
        self.kept: list[Any] = []  # `nodes` is keyed by id

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = map_leaves_of(self.argument, (args, dict(kwargs)))
        result = func(*args, **kwargs)
        if isinstance(func, MethodDescriptorType):
            node = self.graph.call_method(func.__name__, *given)
        elif isinstance(func, MethodWrapperType):  # a property: what it gives is an input
            return result
        else:
            node = self.graph.call_function(func, *given)
        node.meta["location"] = user_line(sys._getframe(1))
        self.bind(node, result)
        return result

    def argument(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in self.nodes:
            places = self.graph.find_nodes(op="placeholder")
            first = next(iter(self.graph.nodes), None)
            with self.graph.inserting_after(places[-1]) if places else self.graph.inserting_before(first):
                self.nodes[id(leaf)] = self.graph.placeholder(f"input_{len(self.inputs)}")
            self.kept.append(leaf)
            self.inputs.append(as_given(copies_of([leaf])[0], leaf))
        return self.nodes[id(leaf)]

    def bind(self, node: Node, result: Any) -> None:
        if isinstance(result, torch.Tensor):
            self.nodes[id(result)] = node
            self.kept.append(result)
        elif isinstance(result, tuple | list):
            for number, item in enumerate(result):
                if isinstance(item, torch.Tensor | tuple | list):
                    part = self.graph.call_function(getitem, (node, number))
                    part.meta["location"] = node.meta["location"]
                    self.bind(part, item)


def user_line(frame: FrameType | None) -> Location | None:
    """The innermost line that is none of torch's or ours."""
    while frame is not None and frame.f_code.co_filename.startswith(LIBRARIES):
        frame = frame.f_back
    return None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def eager_graph(call: Call) -> GraphCall:
    """The graph of a call that eager mode can do."""
    recording = Recording()

    def run(*args: Any, **kwargs: Any) -> Any:
        with recording:
            return call.target(*args, **kwargs)

    with set_stance("force_eager"):
        call.run(run)
    operators = [node for node in recording.graph.nodes if node.op != "placeholder"]
    recording.graph.output(tuple(operators[-1:]))
    module = GraphModule(torch.nn.Module(), recording.graph)
    return GraphCall(1, module, tuple(recording.inputs), None, torch.is_grad_enabled())
