"""Copying statements into a kernel under construction, with axes replaced and loads resolved anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onegraph.compiler.body import Body
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
    Let,
    Load,
    Loop,
    Offset,
    Operand,
    Place,
    Statement,
    Store,
    Value,
)
from onegraph.ir.types import BOOL, DType

# Resolves a load: (element type, buffer, coordinates, condition) -> operand
Loader = Callable[[DType, str, tuple[Index, ...], Operand | None], Operand]


class Splicer:
    """Copies blocks into `body`. `names` maps names of the original to operands of the copy.

    Stores are copied only if that is wanted: `stored` has what the others would have stored, by buffer.
    """

    def __init__(
        self,
        body: Body,
        load: Loader,
        axes: Mapping[Symbol, Index],
        condition: Operand | None = None,
        stores: bool = False,
    ) -> None:
        self.body = body
        self.load = load
        self.axes = dict(axes)
        self.names: dict[str, Operand] = {}
        self.condition = condition
        self.stores = stores
        self.stored: dict[str, Operand] = {}

    def block(self, block: Block) -> None:
        """Copy the statements."""
        for statement in block:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Let(name, dtype, value):
                self.names[name] = self.value(dtype, value)
            case Accumulate(name, dtype, op, args):
                self.names[name] = self.body.accumulate(op, dtype, *map(self.operand, args))
            case Store(buffer, place, value, atomic) if self.stores:
                self.body.store(buffer, Coordinates(self.coordinates(place)), self.operand(value), atomic)
            case Store(buffer, _, value):
                self.stored[buffer] = self.operand(value)
            case Check(condition, error, message):
                self.body.check(self.unless_masked(self.operand(condition)), error, message)
            case Loop(axes, inner):
                self.body.enter(axes)
                self.block(inner)
                self.body.leave()

    def unless_masked(self, condition: Operand) -> Operand:
        if self.condition is None:
            return condition
        outside = self.body.apply("not", BOOL, self.condition)
        return self.body.apply("or", BOOL, condition, outside)

    def operand(self, operand: Operand) -> Operand:
        return self.names[operand] if isinstance(operand, str) else operand

    def value(self, dtype: DType, value: Value) -> Operand:
        body = self.body
        match value:
            case Constant(literal):
                return body.constant(dtype, literal)
            case IndexValue(index):
                return body.index(self.index(index))
            case Load(buffer, place, condition):
                own = self.operand(condition) if condition is not None else None
                return self.load(dtype, buffer, self.coordinates(place), conjunction(body, own, self.condition))
            case Cast(arg):
                return body.cast(self.operand(arg), dtype)
            case Bitcast(arg):
                operand = self.operand(arg)
                assert isinstance(operand, str)
                return body.bitcast(operand, dtype)
            case Apply(op, args):
                return body.apply(op, dtype, *map(self.operand, args))

    def coordinates(self, place: Place) -> tuple[Index, ...]:
        assert not isinstance(place, Offset), "kernels are rebuilt before they are flattened"
        return tuple(map(self.index, place.indices))

    def index(self, index: Index) -> Index:
        replaced = dict(self.axes)
        for symbol in index.symbols:
            if symbol.signed:
                replaced[symbol] = self.body.symbol(self.names[symbol.name])
        return index.substitute(replaced)


def conjunction(body: Body, a: Operand | None, b: Operand | None) -> Operand | None:
    """Both conditions; None is no condition."""
    if a is None or a is True or b is False:
        return b
    if b is None or b is True or a is False:
        return a
    return body.apply("and", BOOL, a, b)


def plain_load(body: Body) -> Loader:
    """Loads stay loads."""
    return lambda dtype, buffer, indices, condition: body.load(dtype, buffer, Coordinates(indices), condition)
