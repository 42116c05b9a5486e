"""Construction of the statements of a kernel, with common subexpressions found, and everything as far out as it can be.

Lowering and every pass that rebuilds kernels use it. A value that does not depend on the axes of a loop is put before
the loop, whoever asks for it inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager

from onegraph.compiler.literals import convert, fold
from onegraph.ir.index import Index, Symbol
from onegraph.ir.loop import (
    Accumulate,
    Apply,
    Bitcast,
    Block,
    Cast,
    Check,
    Constant,
    Coordinates,
    IndexValue,
    Literal,
    Load,
    Loop,
    Operand,
    Place,
    Statement,
    Store,
    Value,
)
from onegraph.ir.loop import Let as LetStatement
from onegraph.ir.ranges import decide
from onegraph.ir.types import BOOL, I64, DType


class _Scope:
    __slots__ = ("axes", "memo", "statements")

    def __init__(self, axes: tuple[Symbol, ...]) -> None:
        self.axes = axes
        self.statements: list[Statement] = []
        self.memo: dict[tuple[DType, Value], str] = {}

    def copy(self) -> _Scope:
        made = _Scope(self.axes)
        made.statements, made.memo = self.statements.copy(), self.memo.copy()
        return made


class Body:
    """A block under construction. `volatile` buffers are also stored to here, so that their loads stay in place."""

    def __init__(self, axes: Iterable[Symbol], volatile: Iterable[str] = ()) -> None:
        self._scopes = [_Scope(tuple(axes))]
        self._depths: dict[Symbol, int] = dict.fromkeys(self._scopes[0].axes, 0)
        self._names: dict[str, tuple[DType, int]] = {}
        self._indices: dict[str, Index] = {}  # the numbers that are index expressions
        self._exact: dict[str, str] = {}  # the integers that are now floats, which hold them exactly
        self._volatile = frozenset(volatile)
        self._loaded: set[str] = set()
        self._total = 0

    @property
    def loaded(self) -> Set[str]:
        """The buffers that are loaded from."""
        return self._loaded

    def going_on(self, volatile: Iterable[str]) -> Body:
        """Another body, without loops, that has these statements to begin with, but for the store that ends them."""
        assert isinstance(self.block()[-1], Store)
        made = Body((), volatile)
        made._scopes = [self._scopes[0].copy()]
        made._scopes[0].statements.pop()
        made._loaded = self._loaded.copy()
        made._depths, made._names, made._total = self._depths.copy(), self._names.copy(), self._total
        made._indices, made._exact = self._indices.copy(), self._exact.copy()
        return made

    # ---- values ------------------------------------------------------------------------------------------------------

    def dtype_of(self, operand: Operand) -> DType | None:
        """The element type of a name; None for a literal."""
        return self._names[operand][0] if isinstance(operand, str) else None

    def let(self, dtype: DType, value: Value) -> Operand:
        """A name (or literal) for the value; the same one for the same value."""
        if isinstance(value, IndexValue) and value.index.constant is not None:
            return value.index.constant
        depth = self._depth(value)
        for scope in self._scopes[: depth + 1]:
            found = scope.memo.get((dtype, value))
            if found is not None:
                return found
        name = self._fresh(dtype, depth)
        scope = self._scopes[depth]
        scope.statements.append(LetStatement(name, dtype, value))
        if isinstance(value, Load):
            self._loaded.add(value.buffer)
            if value.buffer in self._volatile:
                return name
        scope.memo[dtype, value] = name
        return name

    def constant(self, dtype: DType, value: Literal) -> str:
        """A name for the literal, where an operation has no other operand to take its type from."""
        name = self.let(dtype, Constant(value))
        assert isinstance(name, str)
        return name

    def load(self, dtype: DType, buffer: str, place: Place, condition: Operand | None = None) -> Operand:
        """An element; zero where the condition is false."""
        if condition is True:
            condition = None
        if condition is False:
            return False if dtype is BOOL else 0.0 if dtype.is_float else 0
        assert condition is None or isinstance(condition, str)
        return self.let(dtype, Load(buffer, place, condition))

    def apply(self, op: str, dtype: DType, *args: Operand) -> Operand:
        folded = fold(op, dtype, args)
        if folded is None:
            folded = self._fold_indices(op, dtype, args)
        return folded if folded is not None else self.let(dtype, Apply(op, args))

    def cast(self, operand: Operand, dtype: DType) -> Operand:
        if not isinstance(operand, str):
            return convert(operand, dtype)
        before = self._exact.get(operand)
        if before is not None and dtype.is_float:
            return self.cast(before, dtype)
        held = self._names[operand][0]
        if held is dtype:
            return operand
        made = self.let(dtype, Cast(operand))
        if isinstance(made, str) and dtype.is_float and not held.is_float and held.digits <= dtype.digits:
            self._exact[made] = operand
        return made

    def bitcast(self, operand: str, dtype: DType) -> Operand:
        return self.let(dtype, Bitcast(operand))

    def index(self, index: Index) -> Operand:
        """The index expression as a number of type i64."""
        symbol = index.symbol
        if symbol is not None and symbol.signed and symbol.name in self._names:
            return symbol.name
        operand = self.let(I64, IndexValue(index))
        if isinstance(operand, str):
            self._indices[operand] = index
        return operand

    def symbol(self, operand: Operand) -> Index:
        """The number (of type i64) as an index expression."""
        if not isinstance(operand, str):
            return Index.of(int(operand))
        known = self._indices.get(operand)
        return known if known is not None else Index.of(Symbol(operand, signed=True))

    def _fold_indices(self, op: str, dtype: DType, args: tuple[Operand, ...]) -> Operand | None:
        """Arithmetic on numbers that are index expressions is one of them, and may be decided by their ranges."""
        if len(args) != 2 or not any(arg in self._indices for arg in args):
            return None
        if not all(arg in self._indices if isinstance(arg, str) else type(arg) is int for arg in args):
            return None
        a, b = map(self.symbol, args)
        match op:
            case "add" | "sub" | "mul" if dtype is I64:
                return self.index({"add": a + b, "sub": a - b, "mul": a * b}[op])
            case "lt" | "le" | "gt" | "ge":
                return decide(op, a, b)
        return None

    # ---- statements --------------------------------------------------------------------------------------------------

    def store(self, buffer: str, place: Place, value: Operand, atomic: bool = False) -> None:
        self._scopes[-1].statements.append(Store(buffer, place, value, atomic))

    def check(self, condition: Operand, error: str, message: str) -> None:
        """Stop unless the condition holds; where it is computed, and once."""
        if condition is True:
            return
        depth = self._names[condition][1] if isinstance(condition, str) else 0
        statement = Check(condition, error, message)
        if statement not in self._scopes[depth].statements:
            self._scopes[depth].statements.append(statement)

    def accumulate(self, op: str, dtype: DType, *args: Operand) -> str:
        """The reduction of the values over the innermost loop. The name can be read once that loop is left."""
        scope = self._scopes[-1]
        name = self._fresh(dtype, len(self._scopes) - 2)
        scope.statements.append(Accumulate(name, dtype, op, args))
        return name

    def enter(self, axes: Iterable[Symbol]) -> None:
        """Begin a loop; what follows stands in it until `leave`."""
        scope = _Scope(tuple(axes))
        self._scopes.append(scope)
        self._depths.update(dict.fromkeys(scope.axes, len(self._scopes) - 1))

    def leave(self) -> None:
        scope = self._scopes.pop()
        if scope.statements:
            self._scopes[-1].statements.append(Loop(scope.axes, tuple(scope.statements)))

    @contextmanager
    def within(self, axes: tuple[Symbol, ...]) -> Iterator[None]:
        """What follows stands in a loop over the axes; without any it stands where it is."""
        if not axes:
            yield
            return
        self.enter(axes)
        yield
        self.leave()

    def block(self) -> Block:
        """What was built."""
        assert len(self._scopes) == 1, "a loop was not left"
        return tuple(self._scopes[0].statements)

    # ---- placement ---------------------------------------------------------------------------------------------------

    def _fresh(self, dtype: DType, depth: int) -> str:
        name = f"t{self._total}"
        self._total += 1
        self._names[name] = (dtype, depth)
        return name

    def _depth(self, value: Value) -> int:
        match value:
            case Apply(_, args):
                return max((self._names[a][1] for a in args if isinstance(a, str)), default=0)
            case Cast(arg) | Bitcast(arg):
                return self._names[arg][1]
            case IndexValue(index):
                return self._index_depth(index)
            case Load(buffer, place, condition):
                if buffer in self._volatile:
                    return len(self._scopes) - 1
                indices = place.indices if isinstance(place, Coordinates) else (place.index,)
                depth = max((self._index_depth(index) for index in indices), default=0)
                return depth if condition is None else max(depth, self._names[condition][1])
            case Constant():
                return 0

    def _index_depth(self, index: Index) -> int:
        depth = 0
        for symbol in index.symbols:
            found = self._names[symbol.name][1] if symbol.signed else self._depths.get(symbol, 0)
            depth = max(depth, found)
        return depth
