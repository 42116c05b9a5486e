"""Equal kernels get equal text: names, axes and buffers are numbered in the order in which they occur.

Kernels that differ in the parts of buffers that they work on are equal, too: each is given where its part begins.
"""

from __future__ import annotations

from collections.abc import Mapping

from onegraph.base.dataclass import dataclass
from onegraph.compiler.kernels import operands, place_indices
from onegraph.ir.index import Index, Symbol
from onegraph.ir.loop import (
    Accumulate,
    Apply,
    Bitcast,
    Block,
    Cast,
    Check,
    Constant,
    IndexValue,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Offset,
    Operand,
    Place,
    Statement,
    Store,
    Value,
    Vector,
    loads,
    stores,
)
from onegraph.ir.loop_text import format_kernel
from onegraph.ir.types import DType


@dataclass(frozen=True, slots=True)
class CanonicalKernel:
    """A kernel on buffers p0, p1, ...; `text` decides whether two are the same code.

    Each buffer begins so many bytes behind the one that it stands for.
    """

    kernel: Kernel
    dtypes: tuple[DType, ...]
    text: str
    begins: tuple[int, ...]


def canonical(kernel: Kernel, dtypes: Mapping[str, DType], whole: bool = False, alignment: int = 1) -> CanonicalKernel:
    """The canonical form of a flat kernel, whose operands are those of the kernel in order; `whole` buffers, if asked.

    A kernel whose accesses are checked needs them, as checks are of places in them. Of other buffers multiples of so
    many bytes are stepped over.
    """
    begins = {} if whole else first_elements(kernel)
    begins = {name: n - n % max(alignment // dtypes[name].size, 1) for name, n in begins.items()}
    renamer = _Renamer(kernel, begins)
    result = renamer.kernel(kernel)
    names = operands(kernel)
    types = tuple(dtypes[name] for name in names)
    head = ", ".join(f"p{k}: {dtype}" for k, dtype in enumerate(types))
    skipped = tuple(begins.get(name, 0) * dtype.size for name, dtype in zip(names, types, strict=True))
    return CanonicalKernel(result, types, f"{head}\n{format_kernel(result)}", skipped)


def first_elements(kernel: Kernel) -> dict[str, int]:
    """How many elements of each buffer all accesses step over, where they do."""
    found: dict[str, int] = {}
    accesses: list[Load | Store] = [*loads(kernel.body), *stores(kernel.body)]
    for access in accesses:
        (index,) = place_indices(access.place)
        stepped = dict(index.terms).get((), 0)
        found[access.buffer] = min(stepped, found.get(access.buffer, stepped))
    own = {local.name for local in kernel.locals}
    return {name: elements for name, elements in found.items() if elements > 0 and name not in own}


class _Renamer:
    def __init__(self, kernel: Kernel, begins: Mapping[str, int]) -> None:
        self.begins = begins
        self.buffers = {name: f"p{k}" for k, name in enumerate(operands(kernel))}
        self.buffers |= {local.name: f"l{k}" for k, local in enumerate(kernel.locals)}
        self.names: dict[str, str] = {}
        self.symbols: dict[Symbol, Index] = {}
        self.axes = 0

    def kernel(self, kernel: Kernel) -> Kernel:
        axes = self.new_axes(kernel.axes)
        body = self.block(kernel.body)
        vector = kernel.vector
        if vector is not None:
            symbol = self.symbols[vector.axis].symbol
            across = self.symbols[vector.across].symbol if vector.across is not None else None
            assert symbol is not None
            vector = Vector(symbol, vector.width, across)
        locals = tuple(Local(self.buffers[local.name], local.dtype, local.size) for local in kernel.locals)
        return Kernel("k", axes, body, vector, locals)

    def new_axes(self, axes: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
        result = []
        for axis in axes:
            known = self.symbols.get(axis)
            if known is None:
                assert axis.extent is not None
                known = self.symbols[axis] = Index.of(Symbol(f"a{self.axes}", axis.extent.substitute(self.symbols)))
                self.axes += 1
            assert known.symbol is not None
            result.append(known.symbol)
        return tuple(result)

    def name(self, name: str) -> str:
        new = self.names[name] = f"t{len(self.names)}"
        self.symbols[Symbol(name, signed=True)] = Index.of(Symbol(new, signed=True))
        return new

    def operand(self, operand: Operand) -> Operand:
        return self.names[operand] if isinstance(operand, str) else operand

    def block(self, block: Block) -> Block:
        return tuple(self.statement(statement) for statement in block)

    def statement(self, statement: Statement) -> Statement:
        match statement:
            case Let(name, dtype, value):
                value = self.value(value)
                return Let(self.name(name), dtype, value)
            case Accumulate(name, dtype, op, args):
                args = tuple(map(self.operand, args))
                return Accumulate(self.name(name), dtype, op, args)
            case Store(buffer, place, value, atomic):
                return Store(self.buffers[buffer], self.place(buffer, place), self.operand(value), atomic)
            case Check(condition, error, message):
                return Check(self.operand(condition), error, message)
            case Loop(axes, body):
                return Loop(self.new_axes(axes), self.block(body))

    def value(self, value: Value) -> Value:
        match value:
            case Constant():
                return value
            case IndexValue(index):
                return IndexValue(index.substitute(self.symbols))
            case Load(buffer, place, condition):
                renamed = self.names[condition] if condition is not None else None
                return Load(self.buffers[buffer], self.place(buffer, place), renamed)
            case Apply(op, args):
                return Apply(op, tuple(map(self.operand, args)))
            case Cast(arg):
                return Cast(self.names[arg])
            case Bitcast(arg):
                return Bitcast(self.names[arg])

    def place(self, buffer: str, place: Place) -> Place:
        assert isinstance(place, Offset)
        return Offset(place.index.substitute(self.symbols) - self.begins.get(buffer, 0))
