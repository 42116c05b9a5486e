"""The checker of loop programs: run after every pass in tests, so that a mistake is found in the pass that made it."""

from __future__ import annotations

from collections.abc import Mapping

from onegraph.ir.index import Index
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
    Kernel,
    Let,
    Load,
    Loop,
    Operand,
    Place,
    Program,
    Store,
    Value,
    View,
    reads,
    writes,
)
from onegraph.ir.scalar import REDUCTIONS, SCALAR_OPS, operand_dtypes
from onegraph.ir.types import BOOL, I64, DType


class InvalidProgram(AssertionError):
    """A loop program that breaks a rule of the IR."""


def check_program(program: Program) -> None:
    """Raise `InvalidProgram` if a rule is broken."""
    table = program.table()
    _require(len(table) == len(program.buffers), "two buffers have one name")
    defined = {b.name for b in program.buffers if b.constant}
    defined |= {item for item in program.inputs if isinstance(item, str)}
    names: set[str] = set()
    dtypes = {name: buffer.type.dtype for name, buffer in table.items()}
    ranks = {name: buffer.type.rank for name, buffer in table.items()}
    for step in program.steps:
        for name in reads(step):
            _require(name in defined, f"{name} is read before it is written, in {step}")
        for name in writes(step):
            _require(name in table, f"{name} is not a buffer of the program")
            defined.add(name)
        if isinstance(step, View):
            _require(table[step.name].device == table[step.base].device, f"{step.name} lies elsewhere than its base")
        if isinstance(step, Kernel):
            for name in (*reads(step), *writes(step)):
                _require(not table[name].device, f"{step.name} uses {name}, which lies on {table[name].device}")
            _require(step.name not in names, f"two kernels are called {step.name}")
            names.add(step.name)
            check_kernel(step, dtypes, ranks)
    for item in program.outputs:
        _require(not isinstance(item, str) or item in defined, f"the output {item} is never written")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidProgram(message)


def check_kernel(kernel: Kernel, dtypes: Mapping[str, DType], ranks: Mapping[str, int]) -> None:
    own = {local.name: local.dtype for local in kernel.locals}
    checker = _Checker(kernel, {**dtypes, **own}, {**ranks, **dict.fromkeys(own, 1)})
    checker.block(kernel.body, {axis.name for axis in kernel.axes}, in_loop=False)
    if kernel.vector is not None:
        _require(kernel.vector.width >= 2, f"{kernel.name}: a vector of one lane")
        if kernel.vector.across is not None:
            outer = kernel.vector.across in kernel.axes and kernel.vector.axis in kernel.axes
            _require(outer and kernel.vector.across != kernel.vector.axis, f"{kernel.name}: a tile of other axes")


class _Checker:
    """Names and axes in scope, and the rules for each statement."""

    def __init__(self, kernel: Kernel, dtypes: Mapping[str, DType], ranks: Mapping[str, int]) -> None:
        self.kernel = kernel
        self.dtypes = dtypes
        self.ranks = ranks
        self.names: dict[str, DType] = {}
        self.used: set[str] = set()

    def fail(self, message: str) -> None:
        raise InvalidProgram(f"in kernel {self.kernel.name}: {message}")

    def require(self, condition: bool, message: str) -> None:
        if not condition:
            self.fail(message)

    def block(self, block: Block, axes: set[str], in_loop: bool) -> None:
        scope = set(self.names)
        totals: dict[str, DType] = {}
        for statement in block:
            match statement:
                case Let(name, dtype, value):
                    self.value(value, dtype, axes)
                    self.define(name, dtype)
                case Accumulate(name, dtype, op, args):
                    self.require(in_loop, f"{name} accumulates outside of a loop")
                    self.require(op in REDUCTIONS, f"unknown reduction {op}")
                    row = REDUCTIONS[op]
                    self.require(len(args) == 1 + row.positional + row.products, f"{op} with {len(args)} operands")
                    types = (None, I64) if row.positional else (dtype, dtype)
                    for arg, wanted in zip(args, types, strict=False):
                        self.operand(arg, wanted)
                    self.require(name not in self.used, f"two values are called {name}")
                    self.used.add(name)
                    totals[name] = dtype
                case Store(buffer, place, value):
                    self.place(buffer, place, axes)
                    self.operand(value, self.dtypes[buffer])
                case Check(condition):
                    self.operand(condition, BOOL)
                case Loop(inner, body):
                    for axis in inner:
                        self.require(axis.name not in axes, f"two axes are called {axis.name}")
                        self.require(axis.extent is not None, f"the axis {axis.name} has no extent")
                    self.block(body, axes | {axis.name for axis in inner}, in_loop=True)
        self.names = {name: dtype for name, dtype in self.names.items() if name in scope} if in_loop else self.names
        self.names |= totals

    def define(self, name: str, dtype: DType) -> None:
        self.require(name not in self.used, f"two values are called {name}")
        self.used.add(name)
        self.names[name] = dtype

    def operand(self, operand: Operand, dtype: DType | None) -> None:
        if not isinstance(operand, str):
            return
        self.require(operand in self.names, f"{operand} is not in scope")
        have = self.names[operand]
        self.require(dtype is None or have is dtype, f"{operand} is {have} where {dtype} is needed")

    def value(self, value: Value, dtype: DType, axes: set[str]) -> None:
        match value:
            case Constant():
                return
            case IndexValue(index):
                self.index(index, axes)
                self.require(dtype is I64, "the number of an index is i64")
            case Load(buffer, place, condition):
                self.place(buffer, place, axes)
                self.require(self.dtypes[buffer] is dtype, f"{buffer} has elements of {self.dtypes[buffer]}")
                if condition is not None:
                    self.operand(condition, BOOL)
            case Cast(arg):
                self.operand(arg, None)
            case Bitcast(arg):
                self.operand(arg, None)
                self.require(self.names[arg].size == dtype.size, "a bitcast between sizes")
            case Apply(op, args):
                self.require(op in SCALAR_OPS, f"unknown operation {op}")
                row = SCALAR_OPS[op]
                self.require(len(args) == row.arity, f"{op} with {len(args)} operands")
                for operand in args:
                    self.operand(operand, None)
                given = [self.names[operand] if isinstance(operand, str) else None for operand in args]
                wanted = operand_dtypes(row, dtype, given)
                for operand, need in zip(args, wanted, strict=True):
                    self.operand(operand, need)
                self.require(row.rule != "compare" or dtype is BOOL, f"the result of {op} is bool")
                self.require(wanted[-1].kind in row.kinds, f"{op} of {wanted[-1]}")

    def place(self, buffer: str, place: Place, axes: set[str]) -> None:
        self.require(buffer in self.dtypes, f"{buffer} is not a buffer")
        if isinstance(place, Coordinates):
            rank = self.ranks[buffer]
            self.require(len(place.indices) == rank, f"{buffer} has {rank} dimensions")
            for index in place.indices:
                self.index(index, axes)
        else:
            self.index(place.index, axes)

    def index(self, index: Index, axes: set[str]) -> None:
        for symbol in index.symbols:
            if symbol.signed:
                self.operand(symbol.name, None)
                self.require(self.names[symbol.name].is_integer, f"{symbol.name} is no integer")
            elif symbol.extent is not None:
                self.require(symbol.name in axes, f"the axis {symbol.name} is not in scope")
