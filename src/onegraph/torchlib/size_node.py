"""The node of a symbolic number: what `torch.SymInt`, `SymFloat` and `SymBool` hold, and call by torch's names."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol

import torch
import torch.fx.experimental.sym_node  # gives torch.SymInt its arithmetic

from onegraph.base.dataclass import dataclass
from onegraph.ir.index import Index, Symbol
from onegraph.torchlib.size_expression import COMPARE, Computed, Condition, Expression, Float, Whole, as_integer


class OfData(Protocol):
    """What it asks of those that only the data say: `data_sizes.DataSizes`."""

    are_spared: bool


class Sizes(Protocol):
    """What a node asks of the sizes of its trace: `shapes.Sizes`, which says what each answer is."""

    indices: dict[Whole, Index]

    @property
    def data(self) -> OfData: ...
    def is_open(self, condition: Condition) -> bool: ...
    def simplify(self, value: Index) -> Index: ...
    def index_of(self, value: Whole) -> Index: ...
    def is_unknown(self, value: Any) -> bool: ...
    def is_given(self, value: Any) -> bool: ...
    def is_known(self, value: Any) -> bool: ...
    def value(self, expression: Expression) -> Any: ...
    def specialize(self, value: Index | Computed | float) -> Any: ...
    def certain(self, condition: Condition) -> bool | None: ...
    def holds(self, condition: Condition) -> bool: ...
    def answer(self, condition: Condition) -> bool: ...
    def ask(self, function: Callable[..., Any], args: tuple[Expression, ...]) -> Any: ...
    def as_index(self, op: Callable[..., Any], args: tuple[Expression, ...]) -> Index | None: ...
    def computed(self, op: Callable[..., Any], args: tuple[Expression, ...]) -> Any: ...
    def is_filled(self, shape: Sequence[Index], strides: Sequence[Index], order: Sequence[int]) -> bool: ...
    def narrow(self, symbols: Iterable[Symbol]) -> None: ...


class SizeNode:
    """The node of a `torch.SymInt`, `SymFloat` or `SymBool` over sizes. Methods have the names torch calls them by."""

    __slots__ = ("_value", "sizes")

    def __init__(self, sizes: Sizes, value: Expression) -> None:
        self.sizes = sizes
        self._value = value

    @property
    def value(self) -> Expression:
        match self._value:
            case Index():
                self._value = self.sizes.simplify(self._value)
            case Whole():
                self._value = self.sizes.indices.get(self._value, self._value)
        return self._value

    @property
    def index(self) -> Index:
        """The index expression of a symbolic integer."""
        value = self.value
        if isinstance(value, Whole):
            value = self._value = self.sizes.index_of(value)
        if not isinstance(value, Index):
            raise TypeError(f"{self} is not an integer")
        return value

    # --- what it is ----------------------------------------------------------------------------------------------

    def is_int(self) -> bool:
        return isinstance(self._value, Index | Whole)

    def is_float(self) -> bool:
        return isinstance(self._value, (Float, float))

    def is_bool(self) -> bool:
        return isinstance(self._value, (Condition, bool))

    @property
    def pytype(self) -> type:
        return builtins.int if self.is_int() else builtins.float if self.is_float() else builtins.bool

    def is_nested_int(self) -> bool:
        return False

    def nested_int(self) -> None:
        return None

    def is_symbolic(self) -> bool:
        return True

    def is_constant(self) -> bool:
        return self._constant() is not None

    def _constant(self) -> Any:
        value = self.value
        match value:
            case Index():
                return value.constant
            case Condition():
                return self.sizes.certain(value)
            case Computed():
                return None
        return value

    def maybe_as_int(self) -> int | None:
        return self._constant() if self.is_int() else None

    def maybe_as_float(self) -> float | None:
        return self._constant() if self.is_float() else None

    def maybe_as_bool(self) -> bool | None:
        return self._constant() if self.is_bool() else None

    constant_int = maybe_as_int
    constant_bool = maybe_as_bool

    @property
    def is_known(self) -> bool:
        """Whether the number has a value in this trace."""
        return not self.sizes.is_unknown(self.value)

    @property
    def is_given(self) -> bool:
        """Whether the program was given what the number is computed from."""
        return self.sizes.is_given(self.value)

    def has_hint(self) -> bool:
        return not self.sizes.is_unknown(self.value)

    @property
    def hint(self) -> Any:
        return self.sizes.value(self.value)

    _hint = hint

    @property
    def constant(self) -> Any:
        return self._constant()

    @property
    def expr(self) -> Opaque:
        return Opaque(str(self))

    def clone(self) -> SizeNode:
        return self

    def __repr__(self) -> builtins.str:
        return builtins.str(self.value)

    def str(self) -> builtins.str:
        """The text of the number, as the program sees it: which number it is is guarded."""
        return repr(self.guard_int() if self.is_int() else self.guard_float() if self.is_float() else self.guard_bool())

    _graph_repr = str

    # --- asking --------------------------------------------------------------------------------------------------

    def guard_int(self, file: builtins.str = "", line: int = 0) -> int:
        value = self.value
        return int(self.sizes.specialize(value if isinstance(value, Index | Whole) else self.index))

    def guard_float(self, file: builtins.str = "", line: int = 0) -> float:
        return float(self.sizes.specialize(self.value))  # type: ignore[arg-type]

    def guard_bool(self, file: builtins.str = "", line: int = 0) -> bool:
        value = self.truth()
        return self.sizes.answer(value) if isinstance(value, Condition) else value

    def truth(self) -> Condition | bool:
        """What the number is asked for its truth; whether it is true, where that is known."""
        value = self.value
        if isinstance(value, Index | Computed):
            value = self._compare("!=", self, self.wrap_int(0)).value
        return value if isinstance(value, Condition) else bool(value)

    expect_true = guard_or_true = guard_bool

    def guard_or_false(self, file: builtins.str = "", line: int = 0) -> bool:
        """Torch goes on rightly with False, too."""
        value = self.truth()
        spared = self.sizes.data.are_spared and isinstance(value, Condition) and self.sizes.is_open(value)
        return not spared and self.guard_bool()

    guard_size_oblivious = guard_or_false

    def statically_known_true(self, file: builtins.str = "", line: int = 0) -> bool:
        return self._constant() is True

    def expect_size(self, file: builtins.str = "", line: int = 0) -> bool:
        return True

    def int_(self) -> int:
        return self.guard_int()

    def bool_(self) -> bool:
        return self._compare("!=", self, self.wrap_float(0.0)).guard_bool() if self.is_float() else self.guard_bool()

    # --- arithmetic ----------------------------------------------------------------------------------------------

    def _new(self, value: Expression) -> SizeNode:
        return SizeNode(self.sizes, value)

    def wrap_int(self, number: int) -> SizeNode:
        return self._new(Index.of(number))

    def wrap_float(self, number: float) -> SizeNode:
        return self._new(float(number))

    def wrap_bool(self, answer: bool) -> SizeNode:
        return self._new(bool(answer))

    def _computed(self, op: Callable[..., Any], *others: SizeNode) -> SizeNode:
        args = (self.value, *(other.value for other in others))
        result = self.sizes.as_index(op, args)
        if result is None:
            result = self.sizes.computed(op, args)
        if type(result) is int:
            return self.wrap_int(result)
        return self._new(result)

    def sym_float(self) -> SizeNode:
        return self if self.is_float() else self._computed(torch.sym_float)

    def sqrt(self) -> SizeNode:
        return self._computed(math.sqrt)

    sym_sqrt = _sym_sqrt = sqrt

    def floor(self) -> SizeNode:
        return self._computed(math.floor)

    def ceil(self) -> SizeNode:
        return self._computed(math.ceil)

    def trunc(self) -> SizeNode:
        return self._computed(math.trunc)

    sym_int = trunc

    def round(self, ndigits: int | None = None) -> SizeNode:
        return self._computed(builtins.round, *(() if ndigits is None else (self.wrap_int(ndigits),)))

    def is_integer(self) -> SizeNode:
        return self.wrap_bool(self.is_int() or self.sizes.computed(builtins.float.is_integer, (self.value,)))

    def pos(self) -> SizeNode:
        return self

    def neg(self) -> SizeNode:
        return self._computed(operator.neg)

    def abs(self) -> SizeNode:
        return self._computed(builtins.abs)

    def _arithmetic(self, op: Callable[[Any, Any], Any], other: SizeNode) -> SizeNode:
        a, b = self.value, other.value
        if isinstance(a, Index) and isinstance(b, Index):
            return self._new(op(a, b))
        return self._computed(op, other)

    def add(self, other: SizeNode) -> SizeNode:
        return self._arithmetic(operator.add, other)

    def sub(self, other: SizeNode) -> SizeNode:
        return self._arithmetic(operator.sub, other)

    def mul(self, other: SizeNode) -> SizeNode:
        return self._arithmetic(operator.mul, other)

    def floordiv(self, other: SizeNode) -> SizeNode:
        return self._computed(operator.floordiv, other)

    int_floordiv = floordiv

    def mod(self, other: SizeNode) -> SizeNode:
        return self._computed(operator.mod, other)

    def truediv(self, other: SizeNode) -> SizeNode:
        return self._computed(operator.truediv, other)

    int_truediv = float_truediv = truediv

    def pow(self, other: SizeNode) -> SizeNode:
        return self._computed(operator.pow, other)

    pow_by_natural = float_pow = pow

    def lshift(self, other: SizeNode) -> SizeNode:
        return self._computed(operator.lshift, other)

    def rshift(self, other: SizeNode) -> SizeNode:
        return self._computed(operator.rshift, other)

    def sym_max(self, other: SizeNode) -> SizeNode:
        return self._computed(max, other)

    def sym_min(self, other: SizeNode) -> SizeNode:
        return self._computed(min, other)

    def sym_sum(self, args: Sequence[SizeNode]) -> SizeNode:
        return args[0]._computed(torch.sym_sum, *args[1:])

    # --- comparison and logic ------------------------------------------------------------------------------------

    def _compare(self, op: builtins.str, left: SizeNode, right: SizeNode) -> SizeNode:
        a, b = as_integer(left.value), as_integer(right.value)
        if isinstance(a, Index) and isinstance(b, Index):
            return self._new(Condition(op, a, b))
        if self.sizes.is_known(a) or self.sizes.is_known(b):
            return self._new(bool(self.sizes.ask(COMPARE[op], (a, b))))
        return self._new(COMPARE[op](self.sizes.specialize(a), self.sizes.specialize(b)))  # type: ignore[arg-type]

    def eq(self, other: SizeNode) -> SizeNode:
        return self._compare("==", self, other)

    def ne(self, other: SizeNode) -> SizeNode:
        return self._compare("!=", self, other)

    def lt(self, other: SizeNode) -> SizeNode:
        return self._compare("<", self, other)

    def le(self, other: SizeNode) -> SizeNode:
        return self._compare("<=", self, other)

    def gt(self, other: SizeNode) -> SizeNode:
        return self._compare("<", other, self)

    def ge(self, other: SizeNode) -> SizeNode:
        return self._compare("<=", other, self)

    def sym_not(self) -> SizeNode:
        value = self.value
        return self._new(value.negated() if isinstance(value, Condition) else not value)

    def and_(self, other: SizeNode) -> SizeNode:
        return other if self.guard_bool() else self

    def or_(self, other: SizeNode) -> SizeNode:
        return self if self.guard_bool() else other

    sym_and = and_
    sym_or = or_

    def bitwise_and(self, other: SizeNode) -> SizeNode:
        return self.and_(other) if self.is_bool() else self._computed(operator.and_, other)

    def bitwise_or(self, other: SizeNode) -> SizeNode:
        return self.or_(other) if self.is_bool() else self._computed(operator.or_, other)

    def bitwise_xor(self, other: SizeNode) -> SizeNode:
        return self.ne(other) if self.is_bool() else self._computed(operator.xor, other)

    def sym_ite(self, then: SizeNode, other: SizeNode) -> SizeNode:
        return then if self.guard_bool() else other

    # --- layouts: asked by tensors with symbolic sizes -----------------------------------------------------------

    def _dense(self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode], order: Sequence[int]) -> SizeNode:
        """Do the dimensions, innermost first in `order`, fill memory without gaps?"""
        shape, steps = [size.index for size in sizes], [stride.index for stride in strides]
        if self.sizes.is_filled(shape, steps, order):
            return self.wrap_bool(True)
        self._narrow(*sizes, *strides)
        expected = Index.of(1)
        for dim in order:
            if sizes[dim].index == 1:
                continue
            if not self.sizes.holds(Condition("==", strides[dim].index, expected)):
                return self.wrap_bool(False)
            expected = expected * sizes[dim].index
        return self.wrap_bool(True)

    def is_contiguous(self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode]) -> SizeNode:
        return self._dense(sizes, strides, range(len(sizes) - 1, -1, -1))

    def is_channels_last_contiguous_2d(self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode]) -> SizeNode:
        return self._dense(sizes, strides, (1, 3, 2, 0)) if len(sizes) == 4 else self.wrap_bool(False)

    def is_channels_last_contiguous_3d(self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode]) -> SizeNode:
        return self._dense(sizes, strides, (1, 4, 3, 2, 0)) if len(sizes) == 5 else self.wrap_bool(False)

    def _narrow(self, *nodes: SizeNode) -> None:
        """What these are asked has other answers for sizes of 0 and 1."""
        for node in nodes:
            self.sizes.narrow(node.index.symbols)

    def _ordered(self, strides: Sequence[SizeNode], rank: int, order: Sequence[int]) -> SizeNode:
        if len(strides) != rank:
            return self.wrap_bool(False)
        self._narrow(*strides)
        steps = [self.sizes.value(stride.value) for stride in strides]
        ordered = all(steps[a] < steps[b] for a, b in zip(order, order[1:], strict=False))
        return self.wrap_bool(ordered)

    def is_channels_last_strides_2d(self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode]) -> SizeNode:
        return self._ordered(strides, 4, (1, 3, 2, 0))

    def is_channels_last_strides_3d(self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode]) -> SizeNode:
        return self._ordered(strides, 5, (1, 4, 3, 2, 0))

    def is_non_overlapping_and_dense(self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode]) -> SizeNode:
        steps = [self.sizes.value(stride.value) for stride in strides]
        return self._dense(sizes, strides, sorted(range(len(steps)), key=lambda dim: (steps[dim], -dim)))

    def is_non_overlapping_and_dense_indicator(
        self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode]
    ) -> SizeNode:
        return self.wrap_int(int(self.is_non_overlapping_and_dense(sizes, strides).guard_bool()))


@dataclass(frozen=True, slots=True)
class Opaque:
    """What torch's Python operators see as the expression of a size: something that is not a number."""

    text: str
    is_number: ClassVar[bool] = False
    is_Boolean: ClassVar[bool] = False
    free_symbols: ClassVar[frozenset[Any]] = frozenset()
