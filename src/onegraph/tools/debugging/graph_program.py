"""A captured graph as a Python program that runs by itself, on random inputs of the shapes that it was captured with.

It needs torch alone, and onegraph where operators of that are in the graph. What no import gives (an object of the
program) is named, and the program says so where it is run.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import reduce
from types import ModuleType

import torch
from torch.fx import GraphModule, Node

from onegraph.base.text import Printer
from onegraph.torchlib.private import OpOverload, OpOverloadPacket

_HEAD = '''"""The graph of %s.

It runs by itself, with random inputs: python THIS_FILE
Integers are 0 or 1, so that they can be indices.
"""

import torch
'''
_TENSOR = '''

def tensor(shape, stride, dtype, device, requires_grad):
    """A tensor that lies like this in memory, with random values."""
    count = 1 + sum((size - 1) * step for size, step in zip(shape, stride)) if 0 not in shape else 0
    if dtype.is_floating_point or dtype.is_complex:
        memory = torch.randn(count, dtype=dtype if dtype.is_complex else torch.float32, device=device)
    else:
        memory = torch.randint(0, 2, (count,), device=device)
    return memory.to(dtype).as_strided(shape, stride).requires_grad_(requires_grad)
'''
_MISSING = '''

def missing(name, what):
    """What no import gives: the graph can be read, and not be run."""

    def call(*args, **kwargs):
        raise NotImplementedError(f"{name} is {what}, which this file cannot hold: put something in its place")

    return call
'''
_MAIN = """

if __name__ == "__main__":
    for result in graph(*inputs()):
        print(result)
"""


def graph_program(module: GraphModule, title: str) -> str:
    """The program of a graph whose inputs carry fake values in `meta["example_value"]`.

    Args:
        module: the graph.
        title: what it is the graph of, in words.
    """
    code = module.graph.python_code("self")
    words = set(re.findall(r"\w+", code.src))
    used = {name: value for name, value in code.globals.items() if name in words and name != "torch"}
    given = {name: _given(name, value) for name, value in used.items()}
    lost = [f'{name} = missing("{name}", "a {type(used[name]).__name__}")' for name in used if given[name] is None]
    out = Printer()
    out.line(_HEAD.rstrip("\n") % title)
    out.lines(sorted(line for line in given.values() if line is not None))
    out.lines(_libraries(module))
    out.line(_TENSOR.rstrip("\n"))
    if lost:
        out.line(_MISSING.rstrip("\n"))
        out.lines(["", "", *lost])
    out.lines(["", "", *_function(code.src)])
    out.lines(["", "", *_inputs(module)])
    out.line(_MAIN.rstrip("\n"))
    return out.text() + "\n"


def _given(name: str, value: object) -> str | None:
    """The line that gives a name its value; None if there is none."""
    if isinstance(value, float):
        return f'{name} = float("{value}")'
    if value is type(None):
        return f"{name} = type(None)"
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module == "torch" and path == name:
        return f"from torch import {name}"
    if not isinstance(module, str) or not isinstance(path, str) or module == "__main__":
        return None
    return f"import {module}; {name} = {module}.{path}" if _found(module, path) is value else None


def _found(module: str, path: str) -> object:
    """What stands at a place of a module, if there is such a place."""
    try:
        return reduce(getattr, path.split("."), sys.modules.get(module))
    except AttributeError:
        return None


def _libraries(module: GraphModule) -> Iterator[str]:
    """What makes the operators known that are not torch's own."""
    targets = [node.target for node in module.graph.nodes if node.op == "call_function"]
    names = {str(target).partition(".")[0] for target in targets if isinstance(target, OpOverload | OpOverloadPacket)}
    for name in sorted(names - {"aten", "prim", "prims"}):
        yield "import onegraph.compile" if name == "onegraph" else f"# Import here what defines torch.ops.{name}."


def _function(source: str) -> Iterator[str]:
    """The function of a graph, from the method that FX writes."""
    for line in source.strip().splitlines():
        yield line.replace("def forward(self, ", "def graph(").replace("def forward(self", "def graph(").rstrip()


def _inputs(module: GraphModule) -> Iterator[str]:
    yield "def inputs():"
    yield '    """Random values for the inputs of the graph, in their order."""'
    yield "    return ("
    for node in module.graph.nodes:
        if node.op == "placeholder":
            yield f"        {_input(node)},  # {node.name}"
    yield "    )"


def _input(node: Node) -> str:
    value = node.meta.get("example_value")
    if not isinstance(value, torch.Tensor):
        number = _number(value)
        return repr(number) if isinstance(number, int) else "None"
    if value.layout is not torch.strided or value.is_nested:
        return f"torch.randn({_sizes(value.shape)})"
    facts = f"{_sizes(value.shape)}, {_sizes(value.stride())}, {value.dtype}, {str(value.device)!r}"
    return f"tensor({facts}, {value.requires_grad and value.is_leaf})"


def _sizes(sizes: tuple[int | torch.SymInt, ...]) -> str:
    return repr(tuple(map(_number, sizes)))


def _number(value: object) -> object:
    """A number; that of the captured call where it is a symbol."""
    return value.node.hint if isinstance(value, torch.SymInt) else value
