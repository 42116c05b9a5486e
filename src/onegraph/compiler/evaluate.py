"""A slow evaluator of loop programs: one element at a time, by the meaning that `ir.scalar` gives each operation.

It says what the code of a kernel must do, without the writer of that code.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from onegraph.compiler.codegen.accumulators import identity
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
)
from onegraph.ir.scalar import REDUCTIONS, SCALAR_OPS, operand_dtypes
from onegraph.ir.types import BF16, BOOL, DType

Array = np.ndarray[Any, Any]
NO_SIZES: Mapping[str, int] = MappingProxyType({})


def numpy_type(dtype: DType) -> np.dtype[Any]:
    """The type that values are computed in. NumPy has no bfloat16: its values are kept as float32."""
    return np.dtype(np.float32 if dtype is BF16 else dtype.torch_name)


def bfloat16_bits(values: Array) -> Array:
    """Of float32, rounded to the nearest, ties to even."""
    bits = values.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def from_bfloat16(bits: Array) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def run(program: Program, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs, flat, as they stand in memory. `inputs` are arrays in row-major order; programs have no externs."""
    memory: dict[str, Array] = {}
    table = program.table()
    for buffer in program.buffers:
        sizes = zip(buffer.type.shape, buffer.type.strides, strict=True)
        extent = 1 + sum(_int(step) * max(_int(n) - 1, 0) for n, step in sizes)
        memory[buffer.name] = np.zeros(extent, numpy_type(buffer.type.dtype))
    for name, array in inputs.items():
        for at in np.ndindex(array.shape):
            memory[name][_int(table[name].type.offset(tuple(map(Index.of, at))))] = array[at]
    for step in program.steps:
        match step:
            case Kernel():
                Evaluator(program, memory).kernel(step)
            case View(name, base, offset):
                memory[name] = memory[base][_int(offset) :]
    return [memory[name] for name in program.outputs if isinstance(name, str)]


def _int(index: Index) -> int:
    value = index.constant
    assert value is not None
    return value


def number(index: Index, values: Mapping[str, int]) -> int:
    """An index expression, given each symbol's value by name."""
    return int(cast(int, index.evaluate(values)))


class CheckFailed(Exception):
    """A check of a kernel has failed: the name of the exception, and its message."""


class Evaluator:
    """Runs kernels of a program on `memory`, which has a flat array for each buffer; `sizes` are those with names."""

    def __init__(self, program: Program, memory: dict[str, Array], sizes: Mapping[str, int] = NO_SIZES) -> None:
        self.table = program.table()
        self.sizes = sizes
        self.memory = memory
        self.dtypes = {name: buffer.type.dtype for name, buffer in self.table.items()}
        self.values: dict[str, Any] = {}
        self.types: dict[str, DType] = {}

    def kernel(self, kernel: Kernel) -> None:
        self.dtypes.update({local.name: local.dtype for local in kernel.locals})
        for local in kernel.locals:
            self.memory[local.name] = np.zeros(local.size, numpy_type(local.dtype))
        for at in self.iterations(kernel.axes):
            self.values = {**self.sizes, **at}
            self.block(kernel.body, {})

    def iterations(self, axes: tuple[Symbol, ...]) -> Iterator[dict[str, int]]:
        extents = [number(axis.extent, self.sizes) for axis in axes if axis.extent is not None]
        for at in itertools.product(*map(range, extents)):
            yield {axis.name: value for axis, value in zip(axes, at, strict=True)}

    def block(self, block: Block, totals: dict[str, Any]) -> None:
        for statement in block:
            match statement:
                case Let(name, dtype, value):
                    self.types[name] = dtype
                    found = self.value(value, dtype)
                    is_rounded = dtype is BF16 and not isinstance(value, Load)
                    self.values[name] = from_bfloat16(bfloat16_bits(np.asarray(found)))[()] if is_rounded else found
                case Accumulate():
                    self.accumulate(statement, totals)
                case Store(buffer, place, value, atomic):
                    at = self.place(buffer, place)
                    stored = self.operand(value, self.dtypes[buffer])
                    self.memory[buffer][at] = self.memory[buffer][at] + stored if atomic else stored
                case Check(condition, error, message):
                    if not self.operand(condition, BOOL):
                        raise CheckFailed(error, message)
                case Loop(axes, body):
                    inner = {s.name: self.start(s) for s in body if isinstance(s, Accumulate)}
                    for turn in self.iterations(axes):
                        self.values.update(turn)
                        self.block(body, inner)
                    for name, (total, position) in inner.items():
                        self.values[name] = total if position is None else position

    def start(self, s: Accumulate) -> tuple[Any, Any]:
        self.types[s.name] = s.dtype
        row = REDUCTIONS[s.op]
        if row.positional:
            return None, -1
        return numpy_type(s.dtype).type(identity(row.identity, s.dtype)), None

    def accumulate(self, s: Accumulate, totals: dict[str, Any]) -> None:
        total, position = totals[s.name]
        row = REDUCTIONS[s.op]
        if not row.positional:
            operands = [np.asarray(self.operand(arg, s.dtype)) for arg in s.args]
            if row.products:
                combined = SCALAR_OPS["fma"].evaluate(*operands, np.asarray(total))
            else:
                combined = SCALAR_OPS[row.combine].evaluate(np.asarray(total), *operands)
            totals[s.name] = numpy_type(s.dtype).type(combined), None
            return
        value, at = self.operand(s.args[0], self.types[str(s.args[0])]), int(self.operand(s.args[1], s.dtype))
        better = total is None or (value > total if s.op == "argmax" else value < total)
        if better or (np.isnan(value) and not np.isnan(total)):
            totals[s.name] = value, at

    def operand(self, operand: Operand, dtype: DType) -> Any:
        return self.values[operand] if isinstance(operand, str) else numpy_type(dtype).type(operand)

    def index(self, index: Index) -> int:
        return number(index, {name: int(v) for name, v in self.values.items() if np.ndim(v) == 0 and v == v})

    def place(self, buffer: str, place: Place) -> int:
        if isinstance(place, Coordinates):
            if buffer not in self.table:
                return self.index(place.indices[0])
            return self.index(self.table[buffer].type.offset(place.indices))
        return self.index(place.index)

    def value(self, value: Value, dtype: DType) -> Any:
        kind = numpy_type(dtype)
        match value:
            case Constant(literal):
                return kind.type(literal)
            case IndexValue(index):
                return kind.type(self.index(index))
            case Load(_, _, condition) if condition is not None and not self.values[condition]:
                return kind.type(0)
            case Load(buffer, place):
                at = self.place(buffer, place)
                assert 0 <= at < len(self.memory[buffer]), f"{buffer} @ {at}"
                return self.memory[buffer][at]
            case Cast(arg):
                return np.asarray(self.values[arg]).astype(kind)[()]
            case Bitcast(arg):
                return np.asarray(self.values[arg]).view(kind)[()]
            case Apply(op, args):
                row = SCALAR_OPS[op]
                given = [self.types[a] if isinstance(a, str) else None for a in args]
                wanted = operand_dtypes(row, dtype, given)
                operands = [np.asarray(self.operand(a, t)) for a, t in zip(args, wanted, strict=True)]
                with np.errstate(all="ignore"):
                    return kind.type(row.evaluate(*operands))
