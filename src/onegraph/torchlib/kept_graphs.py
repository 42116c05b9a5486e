"""Captured graphs as data: nodes with the names of what they call, and back. What has no name has no such form."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from onegraph.base.codec import Codec, Named, Unkept
from onegraph.base.dataclass import dataclass
from onegraph.torchlib import private
from onegraph.torchlib.aten import OpOverload, OpOverloadPacket, operator_named
from onegraph.torchlib.graph import LazyGraphModule
from onegraph.torchlib.object_names import name_of, named


@dataclass(frozen=True, slots=True)
class At:
    """The value of the node of that number."""

    node: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function by its module and its name in that."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list, a slice, a dict as pairs, or a torch.Size."""

    kind: str
    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeptNode:
    op: str
    target: Any
    args: Any
    kwargs: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class KeptNodes:
    nodes: tuple[KeptNode, ...]


def _torch_name(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _of_torch(name: str) -> object:
    return getattr(torch, name)


def device_named(name: str) -> torch.device:
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ValueError(str(error)) from None


#: What is found by its name wherever arguments of operators are kept.
OF_TORCH: dict[type, Named] = {
    torch.dtype: Named(_torch_name, _of_torch),
    torch.layout: Named(_torch_name, _of_torch),
    torch.memory_format: Named(_torch_name, _of_torch),
    torch.device: Named(str, device_named),
    OpOverload: Named(str, operator_named),
    type(...): Named(lambda value: "", lambda name: ...),
}
_CODEC = Codec(KeptNodes, KeptNode, At, Function, Items, named=OF_TORCH)


def kept_nodes(module: GraphModule) -> bytes:
    """The graph as bytes.

    Raises:
        Unkept: for a graph that calls what has no name, or holds tensors of its own.
    """
    numbers = {node: number for number, node in enumerate(module.graph.nodes)}
    made = []
    for node in module.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            raise Unkept("a constant of the graph")
        kwargs = tuple((name, _kept(value, numbers)) for name, value in node.kwargs.items())
        target = node.target if node.op != "call_function" else _called(node.target)
        made.append(KeptNode(node.op, target, _kept(node.args, numbers), kwargs))
    try:
        return _CODEC.encode(KeptNodes(tuple(made)))
    except ValueError as error:
        raise Unkept(str(error)) from None


def graph_of(data: bytes) -> GraphModule:
    """The graph of these bytes."""
    found = _CODEC.decode(data)
    graph, nodes = Graph(), list[Node]()
    for kept in found.nodes:
        target = named(kept.target.module, kept.target.name) if isinstance(kept.target, Function) else kept.target
        kwargs = {name: _value(value, nodes) for name, value in kept.kwargs}
        if kept.op == "output":
            nodes.append(graph.output(_value(kept.args, nodes)[0]))
        else:
            nodes.append(graph.create_node(kept.op, target, _value(kept.args, nodes), kwargs))
    return LazyGraphModule(torch.nn.Module(), graph)


def _called(target: Any) -> Any:
    if isinstance(target, OpOverloadPacket) and target.overloads() == ["default"]:
        target = target.default
    if isinstance(target, OpOverload):
        return target
    if target in (operator.getitem,):
        return Function("operator", "getitem")
    name = name_of(target)
    if name is None or not callable(target):
        raise Unkept(f"a call of {getattr(target, '__qualname__', type(target).__qualname__)}")
    if isinstance(target, private.HigherOrderOperator):
        raise Unkept(f"a call of {target}")
    return Function(*name)


def _kept(value: Any, numbers: dict[Node, int]) -> Any:
    kind = type(value)
    if isinstance(value, Node):
        return At(numbers[value])
    if kind is tuple:
        return tuple([_kept(item, numbers) for item in value])
    if isinstance(value, torch.Size):
        return Items("size", tuple([_kept(item, numbers) for item in value]))
    if isinstance(value, list):
        return Items("list", tuple([_kept(item, numbers) for item in value]))
    if isinstance(value, dict):
        return Items("dict", tuple((_kept(key, numbers), _kept(item, numbers)) for key, item in value.items()))
    if kind is slice:
        return Items("slice", tuple([_kept(item, numbers) for item in (value.start, value.stop, value.step)]))
    if isinstance(value, tuple):
        raise Unkept(f"an argument of type {kind.__qualname__}")
    return value


def _value(kept: Any, nodes: list[Node]) -> Any:
    match kept:
        case At(number):
            return nodes[number]
        case tuple():
            return tuple([_value(item, nodes) for item in kept])
        case Items("list", items):
            return [_value(item, nodes) for item in items]
        case Items("dict", items):
            return {_value(key, nodes): _value(item, nodes) for key, item in items}
        case Items("slice", items):
            return slice(*[_value(item, nodes) for item in items])
        case Items("size", items):
            return torch.Size([_value(item, nodes) for item in items])
    return kept
