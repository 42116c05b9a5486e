"""Records aten operators, as they run on fake tensors, into an FX graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from onegraph.base.errors import UNEXPECTED
from onegraph.ir.index import Call, Index, Symbol
from onegraph.torchlib import private
from onegraph.torchlib.aten import is_composite, leaves, map_leaves
from onegraph.torchlib.data_sizes import BORN, Birth
from onegraph.torchlib.fake import DispatchMode, FakeMode
from onegraph.torchlib.foreach import over_each
from onegraph.torchlib.shapes import Condition, Float, SizeNode, Sizes
from onegraph.torchlib.wrappers import is_wrapper_class

aten = torch.ops.aten
Rule = Callable[..., Any]

# Questions about a tensor that the trace answers itself.
_QUERIES = frozenset({*private.META_HANDLERS, *private.HANDLED_DIRECTLY})
_DEVICE = torch.ops.prim.device.default
_device_of = private.META_HANDLERS[_DEVICE]


class AtenRecorder(DispatchMode):
    """While active above a `FakeMode`, every aten call becomes a node whose `meta["val"]` is the fake result.

    `rules` maps an operator to a function that is run, and recorded, in its place; it may return NotImplemented.
    """

    def __init__(self, fake: FakeMode, rules: Mapping[Any, Rule]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fake = fake
        self.rules = rules
        self.graph = Graph()
        self.constants: dict[str, Tensor] = {}
        self.stamp: dict[str, object] = {}  # what is said of the calls that are recorded now, in the `meta` of nodes
        self._nodes: dict[int, Node] = {}
        self._alive: list[Any] = []  # `_nodes` is keyed by id
        self._symbols: dict[Index, Node] = {}
        self._taken: dict[Float, Node] = {}
        self._dimensions: dict[Index, tuple[Node, int]] = {}  # where a symbol is the size of a tensor
        #: What the graph around this one has checked, of sizes that only the data say.
        self.checked: tuple[Condition, ...] = ()
        self._of_data: dict[Symbol, Node] = {}  # the nodes of numbers that only the data say

    # --- building ------------------------------------------------------------------------------------------------

    def placeholder(self, value: Any, name: str) -> Node:
        """A graph input for a fake tensor or a symbolic integer."""
        node = self.graph.placeholder(name)
        node.meta["val"] = value
        if isinstance(value, torch.SymInt):
            self._symbols[value.node.index] = node
        if isinstance(value, Tensor):
            self.bind(value, node)
            for dim, size in enumerate(value.size()):
                if isinstance(size, torch.SymInt):
                    self._dimensions.setdefault(size.node.index, (node, dim))
        return node

    def taken(self, number: torch.SymInt | torch.SymFloat, tensor: Tensor) -> torch.SymInt | torch.SymFloat:
        """A number that is found in a tensor."""
        node = self.emit(aten._local_scalar_dense.default, (tensor,), {}, number)
        if isinstance(number, torch.SymFloat):
            self._taken[number.node.value] = node
            return number
        symbol = self.fake.sizes.data.reborn.pop(0)
        node.meta[BORN] = (Birth(symbol),)
        self._of_data[symbol] = self._symbols[Index.of(symbol)] = node
        return number

    def expect(self, condition: Condition) -> None:
        """A node that checks what the graph is made for, of sizes that only the data say."""
        sides = self._measured(condition.left), self._measured(condition.right)
        holds = self._call(CHECKS[condition.op], sides, None)
        self._call(aten._assert_scalar.default, (holds, f"{UNEXPECTED}: {condition}"), None)

    def _measured(self, value: Index) -> Any:
        """A number computed from sizes as they are, and not as they are expected to be."""
        total: Any = None
        for monomial, coefficient in value.terms:
            term: Any = coefficient
            for atom in monomial:
                if isinstance(atom, Call):
                    parts = self._measured(atom.a), self._measured(atom.b)
                    factor = self._call(_INDEX_FUNCTIONS[atom.op], parts, None)
                else:
                    factor = self._of_data.get(atom) or self._computed(Index.of(atom), self.fake.sizes)
                term = self._call(operator.mul, (term, factor), None)
            total = term if total is None else self._call(operator.add, (total, term), None)
        return 0 if total is None else total

    def constant(self, value: Tensor) -> Node:
        """A tensor whose value is part of the graph."""
        name = f"constant{len(self.constants)}"
        self.constants[name] = value
        return self.graph.get_attr(name)

    def emit(self, op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], value: Any) -> Node:
        """A node that calls `op`; arguments may be tensors, symbolic numbers or nodes."""
        node = self.graph.call_function(op, self.as_argument(args), self.as_argument(dict(kwargs)))
        node.meta["val"] = value
        node.meta.update(self.stamp)
        return node

    def as_argument(self, value: Any) -> Any:
        return map_leaves(self._leaf, value)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.node_of(value)
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return self._symbolic(value)
        return value

    def bind(self, tensor: Tensor, node: Node) -> None:
        self._nodes[id(tensor)] = node
        self._alive.append(tensor)

    def node_of(self, tensor: Tensor) -> Node:
        """The node that computes this tensor."""
        return self._nodes[id(tensor)]

    # --- dispatch ------------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _DEVICE and type(args[0]) is private.FakeTensor:  # most calls: autograd asks at every step
            return _device_of(args)
        kwargs = kwargs or {}
        if any(kind is not private.FakeTensor and is_wrapper_class(kind) for kind in types):
            return NotImplemented  # its class is asked, and what that calls is recorded
        if func in _QUERIES:
            return func(*args, **kwargs)
        if func is aten._to_copy.default and isinstance(args[0], torch.SymInt | torch.SymFloat):
            # A batching rule converts a number as the tensor that it is for native code, which holds another number.
            kind = torch.int64 if isinstance(args[0], torch.SymInt) else torch.float64
            with self:
                return func(aten.scalar_tensor.default(args[0], dtype=kind), *args[1:], **kwargs)
        rule = self.rules.get(func) or over_each(func)
        if rule is not None:
            with self:
                result = followed(rule, func, args, kwargs)
            if result is not NotImplemented:
                return result
        elif is_composite(func):  # seen whole in inference mode only
            with self:
                return func.decompose(*args, **kwargs)
        return self.record(func, args, kwargs)

    def record(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the operator on fakes and append its node."""
        result = func(*args, **kwargs)
        self.bind_result(self.computed(func, args, kwargs, result), result)
        return result

    def computed(self, func: Any, args: Any, kwargs: Any, result: Any) -> Node:
        """The node of a call that has been run. Numbers in the place of tensors, as batching rules make them, fold."""
        constant = getattr(result, "constant", None)
        if constant is None or any(isinstance(leaf, Tensor) for leaf in leaves(args, kwargs)):
            return self.emit(func, args, kwargs, result)
        node = self.constant(constant)
        node.meta["val"] = result
        return node

    def bind_result(self, node: Node, result: Any) -> None:
        self._bind_results(node, result)
        newborn, self.fake.sizes.data.newborn = self.fake.sizes.data.newborn, []
        node.meta.update({BORN: tuple(newborn)} if newborn else {})
        for birth in newborn:
            tensor, index = birth.of(result), Index.of(birth.symbol)
            number = torch.SymInt(SizeNode(self.fake.sizes, index))
            size = self._call(aten.sym_size.int, (self.node_of(tensor), birth.dim), number)
            self._of_data[birth.symbol] = self._symbols[index] = size

    def _bind_results(self, node: Node, result: Any) -> None:
        match result:
            case Tensor():
                self.bind(result, node)
            case tuple() | list():
                for index, item in enumerate(result):
                    if isinstance(item, Tensor | tuple | list):
                        self._bind_results(self.emit(operator.getitem, (node, index), {}, item), item)

    # --- symbolic numbers ----------------------------------------------------------------------------------------

    def _symbolic(self, value: Any) -> Any:
        """A node that computes a symbolic number from the sizes of inputs."""
        if isinstance(value, torch.SymBool):
            return value.node.guard_bool()
        return self._computed(value.node.value, value.node.sizes)

    def _computed(self, value: Any, sizes: Sizes) -> Any:
        match value:
            case Index():
                value = sizes.simplify(value)
                if value.constant is not None:
                    return value.constant
                if value not in self._symbols:
                    self._symbols[value] = self._index(value, sizes)
                return self._symbols[value]
            case Float() if value in self._taken:
                return self._taken[value]
            case Float(op, args):
                operands = tuple([self._computed(arg, sizes) for arg in args])
                if not any(isinstance(operand, Node) for operand in operands):
                    return op(*operands)
                return self._call(op, operands, torch.SymFloat(SizeNode(sizes, value)))
        return value

    def _index(self, value: Index, sizes: Sizes) -> Node:
        """Sums by their last term, products by their last factor."""
        (monomial, coefficient), *rest = reversed(value.terms)
        result = torch.SymInt(SizeNode(sizes, value))
        if rest:
            last = Index(((monomial, coefficient),))
            function, parts = operator.add, (value - last, last)
        elif coefficient != 1:
            function, parts = operator.mul, (Index(((monomial, 1),)), Index.of(coefficient))
        elif len(monomial) > 1:
            function, parts = operator.mul, (Index(((monomial[:-1], 1),)), Index(((monomial[-1:], 1),)))
        elif isinstance(monomial[0], Call):
            function, parts = _INDEX_FUNCTIONS[monomial[0].op], (monomial[0].a, monomial[0].b)
        else:
            return self._call(aten.sym_size.int, self._dimensions[value], result)
        return self._call(function, tuple([self._computed(part, sizes) for part in parts]), result)

    def _call(self, function: Any, args: tuple[Any, ...], value: Any) -> Node:
        node = self.graph.call_function(function, args)
        node.meta["val"] = value
        return node


class RuleFailed(Exception):
    """A rule has raised an error: a defect of it, where eager mode may raise the like of its own."""


def followed(rule: Rule, func: Any, args: Any, kwargs: Any) -> Any:
    try:
        return rule(*args, **kwargs)
    except (RuntimeError, IndexError) as error:
        if type(error) not in (RuntimeError, IndexError):  # it says what a graph cannot hold
            raise
        raise RuleFailed(f"the rule for {func} raised {type(error).__name__}: {error}") from error


#: The comparisons of what is expected of sizes.
CHECKS: dict[str, Any] = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le}
_INDEX_FUNCTIONS: dict[str, Any] = {
    "//": operator.floordiv,
    "%": operator.mod,
    "max": torch.sym_max,
    "min": torch.sym_min,
}
