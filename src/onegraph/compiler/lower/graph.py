"""From a functional aten graph to a loop program: one kernel or library call per operator, views folded away.

placeholder x: f32[4, 8]                      program (x):
y = aten.mul.Tensor(x, 2)                       kernel k_b1(i0: 4, i1: 8):
z = aten.sum.dim_IntList(y, [-1])                 t0: f32 = load x[i0, i1]
return (z,)                                       t1: f32 = mul(t0, 2.0)
                                                  store b1[i0, i1] = t1
                                                kernel k_b2(i0: 4):
                                                  for r0: 8:
                                                    t0: f32 = load b1[i0, r0]
                                                    t1: f32 = sum over t0
                                                  store b2[i0] = t1
                                                return b2
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.compiler.kernels import is_ordered
from onegraph.compiler.library.recipe import Recipe
from onegraph.compiler.lower import families  # noqa: F401 - they register their lowerings
from onegraph.compiler.lower.arguments import Fraction, dtype_of, index_of, specialized, storage_of, tensor_type
from onegraph.compiler.lower.elsewhere import brought, why_elsewhere, with_brought
from onegraph.compiler.lower.left import Left, announce, cost_left, reason_left
from onegraph.compiler.lower.lowerer import Lowerer
from onegraph.compiler.lower.refused import is_refused, minds_determinism
from onegraph.compiler.lower.registry import DRAWS, FRACTIONAL, LOWERINGS, POINTWISE, Lowering
from onegraph.compiler.lower.views import View
from onegraph.compiler.target import Machine
from onegraph.ir.index import Index, Symbol
from onegraph.ir.loop import Extern, Kernel, Loop, Program, SizeOf, Step
from onegraph.ir.types import F64
from onegraph.torchlib.aten import OpOverload, has_effect, is_random, may_view, opened
from onegraph.torchlib.data_sizes import BORN
from onegraph.torchlib.strides import memory_order


@dataclass(frozen=True, slots=True)
class Lowered:
    """The program, the tensors and the recipes that are part of it, the operators that were left to the library, and of
    which operator each buffer is the result."""

    program: Program
    constants: Mapping[str, torch.Tensor]
    recipes: Mapping[str, Recipe]
    left: tuple[Left, ...]
    origins: Mapping[str, str]

    @property
    def calls(self) -> tuple[str, ...]:
        """The operators that the program calls."""
        return tuple(dict.fromkeys(step.operator for step in self.program.steps if isinstance(step, Extern)))


def lower_graph(module: GraphModule, cx: Context, device: str, machine: Machine) -> Lowered:
    """Lower every node. An operator without a lowering, or with tensors elsewhere, becomes a library call."""
    g = Lowerer(cx, device, machine)
    values: dict[Node, Any] = {}
    inputs: list[str | Symbol] = []
    sizes: dict[str, SizeOf] = {}
    outputs: tuple[str | Index | None, ...] = ()
    given: set[str] = set()  # the names of numbers among the inputs, and of those that only the data say
    for node in module.graph.nodes:
        g.node = node
        match node.op:
            case "placeholder":
                values[node] = _placeholder(g, node, inputs, sizes)
                given.update(symbol.name for symbol in inputs if isinstance(symbol, Symbol))
            case "get_attr":
                values[node] = _constant(g, module, node)
            case "output":
                outputs = _outputs(g, _flat(node.args[0]), values)
            case _:
                values[node] = _call(g, node, values)
                if BORN in node.meta:
                    given.update(sizes)
                    _expect(g, node, given)
    bound = {symbol.name for symbol in inputs if isinstance(symbol, Symbol)}
    needed = (*(size for name, size in sizes.items() if name not in bound), *g.sizes)
    announce(g.left, cx)
    program = Program(tuple(inputs), outputs, tuple(g.buffers.values()), tuple(g.steps), needed)
    return Lowered(program, g.constants, g.recipes, tuple(g.left), g.origins)


def _expect(g: Lowerer, node: Node, known: set[str]) -> None:
    """Check what is expected of the sizes that are known behind the node, as it makes some."""
    known.update(birth.symbol.name for birth in node.meta[BORN])
    value, *_ = opened([node.meta["val"]])
    sizes = value.node.sizes if isinstance(value, torch.SymInt) else value.fake_mode.sizes
    g.expect(sizes.checks, known)


def is_of_check(node: Node) -> bool:
    """Whether a node computes what is asked of sizes."""
    return node.meta["val"] is None and not isinstance(node.target, OpOverload)


def _placeholder(g: Lowerer, node: Node, inputs: list[str | Symbol], sizes: dict[str, SizeOf]) -> View | Index:
    value = node.meta["val"]
    if isinstance(value, torch.SymInt | int):
        index = index_of(value)
        symbol = index.symbol or Symbol(f"unused{len(inputs)}")
        inputs.append(symbol)
        return index
    name = g.buffer(tensor_type(value), name=f"arg{len(inputs)}", device=g.elsewhere(value))
    for dim, size in enumerate(g.buffers[name].type.shape):
        if size.symbol is not None:
            sizes.setdefault(size.symbol.name, SizeOf(size.symbol.name, name, dim))
    inputs.append(name)
    elements: View = _elements(g, g.whole(name), value)
    return elements


def _constant(g: Lowerer, module: GraphModule, node: Node) -> View:
    tensor: Any = module
    for part in str(node.target).split("."):
        tensor = getattr(tensor, part)
    return g.constant(tensor)


def _call(g: Lowerer, node: Node, values: Mapping[Node, Any]) -> Any:
    if node.target is operator.getitem:
        source, position = node.args
        return values[source][position]  # type: ignore[index]
    if isinstance(node.target, Recipe):
        return g.made(node.target, [_argument(arg, values) for arg in node.args])
    births = node.meta.get(BORN, ())
    if node.target is torch.ops.aten._assert_scalar.default or "val" in node.meta and is_of_check(node):
        return None  # what is checked stands behind the calls that give the sizes
    match node.meta.get("val"):
        case torch.SymInt() if births:
            g.number_in(values[node.all_input_nodes[0]], births[0])
            return index_of(node.meta["val"])
        case torch.SymInt() as size:
            return index_of(size)
        case torch.SymFloat() as number:
            value = number.node.value
            if node.target is torch.ops.aten._local_scalar_dense.default:
                tensor = node.all_input_nodes[0]
                g.taken[value] = brought(g, values[tensor], tensor.meta["val"])
            else:  # computed once, and not for each element that it is used for
                g.taken[value] = g.pointwise((), F64, lambda cell: cell.fraction(Fraction(number, g.taken)))
            return Fraction(number, g.taken)
    lowering = _lowering_of(g, node.target)
    reason = ""
    if lowering is not None:
        reason = why_elsewhere(g, node, values)
        reason = reason or ("" if _is_native(node) else "an element type is not native")
        reason = "it refuses this element type" if is_refused(node) else reason
        reason = "algorithms are to be deterministic" if minds_determinism(node) else reason
        reason = "the option skipped_lowerings names it" if is_disabled(node.target, g.cx.config) else reason
        if not reason:
            args, kwargs = _arguments(node, with_brought(g, node, values))
            before = len(g.steps)
            result = lowering(g, *args, **kwargs)
            if result is NotImplemented:
                reason = "its lowering does not cover this use"
            elif g.machine.runs_in_order or not _run_in_order(g.steps[before:]):
                return result
            else:
                reason = "its loop runs in order"
                del g.steps[before:]
    args, kwargs = _arguments(node, values)
    g.left.append(Left(str(node.target), reason or reason_left(node.target), *cost_left(node)))
    if is_random(node.target):
        args = [_in_its_order(g, arg, value) for arg, value in zip(node.args, args, strict=True)]
    results = g.extern(str(node.target), args, kwargs, node.meta["val"], ordered=has_effect(node.target))
    if births:
        return g.sized(births, results)
    inputs = (arg.meta.get("val") for arg in node.all_input_nodes)
    if any(isinstance(value, torch.Tensor) and not g.elsewhere(value) and _is_negated(value) for value in inputs):
        return results  # the operator was given the elements themselves, and its result holds such
    return _elements(g, results, node.meta["val"])


def _lowering_of(g: Lowerer, target: Any) -> Lowering | None:
    """The lowering of an operator. Numbers are drawn in kernels where the device's generator has a stream for each."""
    found = LOWERINGS.get(target) if isinstance(target, OpOverload) else None
    if target in DRAWS and (g.cx.config.fallback_random or not g.machine.drawing_threads):
        return None
    return found


def _arguments(node: Node, values: Mapping[Node, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What a call is given. Lowerings take some numbers that change; for others they are what they are at present."""
    args = [_argument(arg, values) for arg in node.args]
    kwargs = {name: _argument(arg, values) for name, arg in node.kwargs.items()}
    if node.target in POINTWISE or node.target in FRACTIONAL:
        return args, kwargs
    return [specialized(arg) for arg in args], {name: specialized(arg) for name, arg in kwargs.items()}


def is_disabled(target: Any, config: Config) -> bool:
    """Whether an operator is named by the option `skipped_lowerings`, with or without its overload."""
    return bool(config.skipped_lowerings) and not {str(target), str(target.overloadpacket)}.isdisjoint(
        config.skipped_lowerings
    )


def _elements(g: Lowerer, memory: Any, fake: Any) -> Any:
    """What a tensor holds whose memory may hold the negative of it (`torch._neg_view`): kernels read memory.

    Operators with several results give no such tensors. Those of other devices only operators look at.
    """
    if not isinstance(fake, torch.Tensor) or not _is_negated(fake) or g.elsewhere(fake):
        return memory
    return g.pointwise(
        memory.shape, tensor_type(fake).dtype, lambda cell: -cell.load(memory), tensor_type(fake).strides
    )


def _is_negated(fake: torch.Tensor) -> bool:
    return fake.is_neg() and not fake.is_complex()


def _in_its_order(g: Lowerer, arg: Any, value: Any) -> Any:
    """A tensor that random numbers are drawn into, or for: they go in the order in which its elements are in memory."""
    if isinstance(value, View) and isinstance(arg, Node) and memory_order(arg.meta["val"]) is not None:
        return g.whole(g.tensor(value, tensor_type(arg.meta["val"]).strides))
    return value


def _is_native(node: Node) -> bool:
    """Whether kernels can compute with all tensors of the node, where these are on their device."""
    values = [node.meta["val"], *(arg.meta["val"] for arg in node.all_input_nodes)]
    return all(
        item.layout is torch.strided and dtype_of(item.dtype).is_native
        for value in values
        for item in (value if isinstance(value, (tuple, list)) else (value,))
        if isinstance(item, torch.Tensor)
    )


def _run_in_order(steps: Iterable[Step]) -> bool:
    kernels = (step for step in steps if isinstance(step, Kernel))
    return any(isinstance(s, Loop) and is_ordered(s) for kernel in kernels for s in kernel.body)


def _argument(value: Any, values: Mapping[Node, Any]) -> Any:
    if isinstance(value, Node):
        return values[value]
    if isinstance(value, (list, tuple)):
        return [_argument(item, values) for item in value]
    if isinstance(value, torch.SymInt) or type(value) is int:
        return index_of(value)
    return value


def _flat(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _outputs(g: Lowerer, items: Sequence[Any], values: Mapping[Node, Any]) -> tuple[str | Index | None, ...]:
    """The results for the outputs of the graph, with the strides and the aliasing that their fakes have."""
    storages = {
        value.buffer: storage_of(node.meta["val"])
        for node, value in values.items()
        if node.op == "placeholder" and isinstance(value, View)
    }
    return tuple(_output(g, item, values, storages) for item in items)


def _output(g: Lowerer, item: Any, values: Mapping[Node, Any], storages: dict[str, int | None]) -> str | Index | None:
    """The result for one output. `storages` says which storage of the fakes each buffer of earlier ones stands for."""
    if item is None:
        return None
    value = _argument(item, values)
    if isinstance(value, Index):
        return value
    if not isinstance(value, View):
        raise NotImplementedError(f"an output of the graph is neither a tensor nor an integer: {item!r}")
    if _is_negated(item.meta["val"]) and not g.elsewhere(item.meta["val"]):
        return _negated(g, value, item.meta["val"])
    origin = _origin(item)
    fake, whole = item.meta["val"], origin.meta["val"]
    if origin is item or origin.op != "call_function" or not _reads_alike(fake, whole):
        return _in_memory(g, item, values, storages)
    base = _in_memory(g, origin, values, storages)
    return g.view(base, tensor_type(fake), index_of(fake.storage_offset() - whole.storage_offset()))


def _negated(g: Lowerer, value: View, fake: torch.Tensor) -> str:
    """An output whose memory holds the negative of its elements."""
    memory = _elements(g, value, fake)
    buffer: str = g.extern(str(torch.ops.aten._neg_view.default), [memory], {}, fake).buffer
    return buffer


def _reads_alike(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether equal memory means equal elements in both."""
    return (x.dtype, x.is_conj(), x.is_neg()) == (y.dtype, y.is_conj(), y.is_neg())


def _origin(node: Node) -> Node:
    """The node that made the memory of a node's tensor, of which that one may be a view."""
    storage, origin = storage_of(node.meta["val"]), node
    while node.op == "call_function" and (may_view(node.target) or node.target is operator.getitem):
        node = node.all_input_nodes[0]
        if storage is None or storage not in _storages(node):
            break
        if isinstance(node.meta["val"], torch.Tensor):
            origin = node
    return origin


def _in_memory(g: Lowerer, node: Node, values: Mapping[Node, Any], storages: dict[str, int | None]) -> str:
    """The buffer of a tensor that leaves the graph, in memory of its own where that is so in eager.

    What only moves elements about is a view here and a copy in eager: flipped along a dimension of size 1, a tensor
    is the same elements in the same order, and yet another tensor.
    """
    value, fake = values[node], node.meta["val"]
    strides, storage = tensor_type(fake).strides, storage_of(fake)
    name = g.tensor(value, strides)
    memory = g.memory_of(name)
    is_constant = memory in g.constants and node.op != "get_attr"
    if is_constant or storages.setdefault(memory, storage) != storage:
        name = g.copied(value, strides)
    return name


def _storages(node: Node) -> set[int | None]:
    """The identities of the storages of a node's tensors."""
    return {storage_of(value) for value in opened([node.meta.get("val")]) if isinstance(value, torch.Tensor)}
