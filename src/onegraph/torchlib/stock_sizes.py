"""A captured graph in the form that torch's own compiler gives to its backends.

    x: f32[s0, 4] ─ sym_size(x, 0) ─► mul         becomes         s0, x: f32[s0, 4] ─ mul(.., s0)

Each symbolic size is an input, before the tensors. Backends that trace the graph again make fake tensors of its example
inputs in the mode that torch's tracing context names, where the same sizes are symbols. What a backend asks of these
holds for what it has compiled: each question is asked again of our own sizes, which makes a guard of it.

All of it is looked up where a program has imported torch's compiler; it is never imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.torchlib.private import FakeTensorMode

COMPILER = "torch._dynamo"


def stock_compiler() -> Any:
    """torch's own compiler, if the program has imported it, else None."""
    return sys.modules.get(COMPILER)


def has_symbolic_sizes(module: torch.fx.GraphModule) -> bool:
    """Whether an input of a captured graph has one."""
    values = (node.meta.get("example_value") for node in module.graph.nodes if node.op == "placeholder")
    return any(isinstance(size, torch.SymInt) for value in values for size in getattr(value, "shape", ()))


@dataclass(frozen=True, slots=True)
class Size:
    """Where a symbol is read in a call: `shape` or `stride` of a dimension of an input."""

    given: int
    of: str
    dim: int

    def read(self, inputs: Sequence[Any]) -> int:
        found = inputs[self.given]
        return int(found.shape[self.dim] if self.of == "shape" else found.stride()[self.dim])


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of torch's: where it is read, what it is among our sizes, and as `torch.SymInt` of torch's."""

    size: Size
    ours: Any
    theirs: Any


@dataclass(frozen=True, slots=True)
class StockGraph:
    """The graph, with its example inputs: the symbols as torch has them, then those of the real inputs that it uses."""

    module: torch.fx.GraphModule
    examples: list[Any]
    sizes: tuple[Size, ...]
    used: tuple[int, ...]

    def around(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """What was compiled of it, as a function of the inputs of the captured graph."""
        if not self.sizes and self.used == tuple(range(len(self.examples))):
            return compiled
        sizes, used = self.sizes, self.used

        def run(*inputs: Any) -> Any:
            return compiled(*(size.read(inputs) for size in sizes), *(inputs[i] for i in used))

        return run


class WatchedMode(FakeTensorMode):
    """Torch's mode, which knows whether anybody has asked for the fake of a real tensor."""

    asked = False

    def from_tensor(self, *args: Any, **kwargs: Any) -> Any:
        self.asked = True
        return super().from_tensor(*args, **kwargs)


@contextmanager
def stock_tracing(module: torch.fx.GraphModule, examples: Sequence[Any], given: bool = True) -> Iterator[StockGraph]:
    """Within it, torch's compiler traces the graph with symbolic sizes where our fakes have them.

    At its end our sizes are held to what was asked of theirs, if these were `given` to the backend or asked for.

    Args:
        module: the captured graph; `example_value` of its inputs are their fakes.
        examples: the real inputs.
        given: whether the backend is given the graph that this yields, or the captured one.
    """
    shapes, guards = sys.modules["torch.fx.experimental.symbolic_shapes"], sys.modules["torch._guards"]
    environment = shapes.ShapeEnv(duck_shape=False)
    mode = WatchedMode(shape_env=environment, allow_non_fake_inputs=True)
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    ours = [node.meta["example_value"] for node in inputs]
    theirs = [fake_of(shapes, mode, *pair) for pair in zip(ours, examples, strict=True)]  # the mode holds them weakly
    symbols: dict[Any, Symbol] = {}
    numbers: list[tuple[Any, int]] = []
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        match_sizes(number, mine, other, symbols, numbers)
    mode.asked = given
    with guards.tracing(guards.TracingContext(mode)):
        yield stock_graph(module, theirs, examples, symbols)
    if mode.asked:
        hold(environment, {name: symbol.ours for name, symbol in symbols.items()}, numbers)
    environment.freeze()


def fake_of(shapes: Any, mode: FakeTensorMode, ours: Any, example: Any) -> Any:
    """The fake of an example in torch's mode, with symbols where ours has them."""
    if not isinstance(example, torch.Tensor):
        return example
    dynamic, static = shapes.DimDynamic.DYNAMIC, shapes.DimDynamic.STATIC
    kinds = [dynamic if isinstance(size, torch.SymInt) else static for size in ours.shape]
    return mode.from_tensor(example, symbolic_context=shapes.StatelessSymbolicContext(kinds))


def match_sizes(
    number: int, ours: Any, theirs: Any, symbols: dict[Any, Symbol], numbers: list[tuple[Any, int]]
) -> None:
    """Enter the symbols that an input has in torch's mode, and which of our sizes are numbers there."""
    if not isinstance(theirs, torch.Tensor):
        return
    for of, mine, others in (("shape", ours.shape, theirs.shape), ("stride", ours.stride(), theirs.stride())):
        for dim, (size, other) in enumerate(zip(mine, others, strict=True)):
            if isinstance(other, torch.SymInt) and other.node.expr.is_symbol:
                symbols.setdefault(other.node.expr, Symbol(Size(number, of, dim), size, other))
            elif isinstance(size, torch.SymInt) and not isinstance(other, torch.SymInt):
                numbers.append((size, other))


def stock_graph(
    module: torch.fx.GraphModule, theirs: list[Any], examples: Sequence[Any], symbols: dict[Any, Symbol]
) -> StockGraph:
    """The captured graph over sizes as inputs."""
    graph = torch.fx.Graph()
    sizes: dict[Any, torch.fx.Node] = {}
    for name, symbol in symbols.items():
        sizes[name] = graph.placeholder(str(name))
        sizes[name].meta["example_value"] = symbol.theirs
    inputs: dict[Any, Any] = {}
    used: list[int] = []
    new: dict[torch.fx.Node, Any] = {}
    for node in module.graph.nodes:
        number = len(inputs)
        if node.op == "placeholder":
            inputs[node] = theirs[number]
            if all(map(is_size, node.users)):
                continue
            used.append(number)
        elif is_size(node) and node.args[0] in inputs:
            size = inputs[node.args[0]].shape[node.args[1]]
            new[node] = sizes[size.node.expr] if isinstance(size, torch.SymInt) else size
            continue
        copied = new[node] = graph.node_copy(node, new.__getitem__)
        copied.meta = {"example_value": theirs[number]} if node.op == "placeholder" else {}
    values = [symbol.theirs for symbol in symbols.values()] + [examples[number] for number in used]
    where = tuple(symbol.size for symbol in symbols.values())
    return StockGraph(torch.fx.GraphModule(module, graph), values, where, tuple(used))


def is_size(node: torch.fx.Node) -> bool:
    return node.target is torch.ops.aten.sym_size.int


def hold(environment: Any, symbols: dict[Any, Any], numbers: list[tuple[Any, int]]) -> None:
    """Guard our sizes by what their symbols were found to be: 2 and more, numbers, and whatever was asked."""
    interpret = sys.modules["torch.utils._sympy.interp"].sympy_interp
    rules: Callable[..., Any] = sys.modules["torch.utils._sympy.reference"].PythonReferenceAnalysis
    asked = [bool(mine == number) for mine, number in numbers]
    asked += [bool(mine >= 2) for mine in symbols.values()]
    for guard in environment.guards:
        if guard.expr.free_symbols <= symbols.keys():
            asked.append(bool(interpret(rules, symbols, guard.expr)))
        else:  # of what is no size of an input: the sizes are those of this call
            asked += [bool(mine == int(mine)) for mine in symbols.values()]
    if not all(asked):
        raise RuntimeError("the backend asked of sizes what does not hold of them")
