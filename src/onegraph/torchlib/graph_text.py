"""FX graphs as text: one line for each node, with the type and shape of what it makes.

graph(x: f32[64, 48], weight: f32[48]):
  mean: f32[64, 1] = x.mean(-1, keepdim=True)
  sub: f32[64, 48] = x.sub(mean)
  return (sub,)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from onegraph.base.text import Printer
from onegraph.ir.types import dtype_of_torch
from onegraph.torchlib import private
from onegraph.torchlib.custom_function import CustomFunction


def nodes_text(graph: Graph) -> str:
    """A graph without its submodules, which may be unfinished."""
    out = Printer()
    _write_nodes(out, graph)
    return out.text()


def _write_nodes(out: Printer, graph: Graph) -> None:
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    out.line(f"graph({', '.join(_declared(node) for node in inputs)}):")
    with out.indented():
        for node in graph.nodes:
            if node.op == "output":
                out.line(f"return {_argument(node.args[0])}")
            elif node.op != "placeholder":
                out.line(node_text(node))


def node_text(node: Node) -> str:
    """The line of a node that computes."""
    return f"{_declared(node)} = {_value(node)}"


def operator_name(node: Node) -> str:
    """What a node calls: the name of a method, or of a function with its module."""
    return node.target if isinstance(node.target, str) else _function_name(node.target)


def graph_text(module: GraphModule) -> str:
    """The graph of a module, at torch level or at aten level. Graphs of submodules, and of custom backwards, follow."""
    out = Printer()
    _write_nodes(out, module.graph)
    for name, child in module.named_children():
        if isinstance(child, GraphModule):
            out.line(f"{name} = {graph_text(child)}")
    for node in module.graph.nodes:
        if isinstance(node.target, CustomFunction):
            for backward in node.target.backwards.values():
                out.line(f"{node.name}.backward = {graph_text(backward.graph)}")
    return out.text()


def _declared(node: Node) -> str:
    kind = type_text(node.meta.get("val", node.meta.get("example_value")))
    return f"{node.name}: {kind}" if kind else node.name


def type_text(value: Any) -> str:
    """What a value of a graph is: `f32[s0, 4]`; empty for what is no tensor and no size."""
    match value:
        case torch.Tensor():
            name = dtype_of_torch(str(value.dtype).removeprefix("torch."), value.dtype.itemsize)
            return f"{name}[{', '.join(map(_size, value.shape))}]"
        case torch.SymInt():
            return "int"
        case tuple() | list():
            return f"({', '.join(type_text(item) or '...' for item in value)})"
    return ""


def _size(size: Any) -> str:
    """A size; a symbolic one by its expression (its own text would be that of the number)."""
    return str(size.node if isinstance(size, torch.SymInt) else size)


def _value(node: Node) -> str:
    args = [_argument(arg) for arg in node.args]
    keywords = [f"{name}={_argument(arg)}" for name, arg in node.kwargs.items()]
    match node.op:
        case "get_attr":
            return f"self.{node.target}"
        case "call_method":
            return f"{args[0]}.{node.target}({', '.join([*args[1:], *keywords])})"
        case "call_module":
            return f"self.{node.target}({', '.join([*args, *keywords])})"
    return f"{_function_name(node.target)}({', '.join([*args, *keywords])})"


def _function_name(function: Callable[..., Any] | str) -> str:
    if isinstance(function, private.OpOverload):
        return str(function)
    name = getattr(function, "__name__", None) or repr(function)
    module = getattr(function, "__module__", None) or ""
    return name if module in ("builtins", "_operator", "") or module.startswith("torch._C") else f"{module}.{name}"


def _argument(value: Any) -> str:
    match value:
        case Node():
            return value.name
        case tuple():
            return f"({', '.join(map(_argument, value))}{',' * (len(value) == 1)})"
        case list():
            return f"[{', '.join(map(_argument, value))}]"
        case dict():
            return f"{{{', '.join(f'{key!r}: {_argument(item)}' for key, item in value.items())}}}"
        case slice():
            return f"slice({', '.join(map(_argument, (value.start, value.stop, value.step)))})"
    return _function_name(value) if callable(value) else repr(value)
