"""From one kernel to two LLVM functions: the part that computes a range of iterations, and the entry that splits them.

The vector axis either is an outer axis of the kernel (then everything in the kernel is a vector, and inner loops run
lane by lane side by side) or an axis of its inner loops (then these are vectors, and are folded when the loop ends).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from onegraph.base.constants import inf
from onegraph.base.late import late_module
from onegraph.compiler.codegen.accumulators import Accumulators, is_float_sum
from onegraph.compiler.codegen.casts import cast
from onegraph.compiler.codegen.emitter import Emitter, Val, suffix
from onegraph.compiler.codegen.fence import Fence
from onegraph.compiler.codegen.indices import emit_index
from onegraph.compiler.codegen.llvm_ops import LLVM_OPS
from onegraph.compiler.codegen.memory import Memory
from onegraph.compiler.codegen.outline import call, called_functions
from onegraph.compiler.codegen.tiles import Tiles
from onegraph.compiler.kernels import chunk_count, rows_of, size_symbols
from onegraph.compiler.target import Machine
from onegraph.ir.index import ONE, Index, Symbol
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
    Loop,
    Offset,
    Operand,
    Store,
    loads,
    statements,
)
from onegraph.ir.scalar import REDUCTIONS, SCALAR_OPS, operand_dtypes
from onegraph.ir.types import BF16, BOOL, F16, F32, I8, I64, DType

if TYPE_CHECKING:
    from onegraph.compiler.codegen.tile_functions import write_tile
else:  # most programs have no product
    write_tile = late_module("onegraph.compiler.codegen.tile_functions").write_tile

# What gives a NaN of its operands, cut to a number of bits, or the machine's own, of which the lower bits are zero.
_KEEP_NAN = frozenset("add sub mul div fma neg abs sqrt rsqrt reciprocal maximum minimum where".split())
# Additions into one accumulator before it is added to that of the next level: into one of many lanes, which are added
# up in pairs in the end, into any other, and on the levels above.
FOLDED, ALONE, LEVEL = 64, 16, 16
TILED = 256  # where totals take all registers: a level costs storing them
LEVELS = 4  # where the number of additions is not known


class KernelWriter:
    """Writes the part: `i64 part(ptr buffers, ptr sizes, i64 begin, i64 end)`."""

    def __init__(
        self,
        kernel: Kernel,
        dtypes: Mapping[str, DType],
        chunk: int,
        machine: Machine,
        instructions: str = "",
        sanitize: bool = False,
    ) -> None:
        self.kernel = kernel
        self.machine = machine
        self.e = Emitter(instructions)
        self.lanes = 1  # of the code that is being written
        self.mask: Val | None = None  # the lanes that count, in a tail
        self.names: dict[str, Val] = {}
        self.values: dict[str, Val] = {}  # of symbols
        self.types = {s.name: s.dtype for s in statements(kernel.body) if isinstance(s, Let | Accumulate)}
        self.called = called_functions(statements(kernel.body))
        self.short_nan: set[str] = set()  # values computed of bfloat16: see `cast`
        self.chunk = chunk
        self.errors: list[tuple[str, str]] = []
        self.memory = Memory(self, dtypes, Fence(self) if sanitize else None)
        self.accumulators = Accumulators(self)
        self.tiles = Tiles(self)
        self.loops: list[Symbol] = []  # the axes of the loops around what is being written
        self.placed: frozenset[str] = frozenset()  # totals that are stored by a function

    # ---- the part ----------------------------------------------------------------------------------------------------

    def write(self, name: str) -> str:
        """The text of the function."""
        e, kernel = self.e, self.kernel
        self.bind_sizes()
        self.memory.bind()
        iteration = e.open_loop(Val("%begin", I64), Val("%end", I64), 1)
        vector = kernel.vector.axis if kernel.vector is not None else None
        outer = vector if vector in kernel.axes else None
        chunk = self.decode(iteration, [axis for axis in kernel.axes if axis != outer], outer)
        if outer is not None and chunk is not None:
            assert outer.extent is not None and kernel.vector is not None
            begin = e.inst("mul nsw", chunk, e.i64(self.chunk))
            end = e.call("smin", e.inst("add nsw", begin, e.i64(self.chunk)), self.index(outer.extent))
            if outer.extent == Index.of(kernel.vector.width) and kernel.vector.across is None:
                self.lanes, self.values[outer.name] = kernel.vector.width, e.i64(0)  # there is nothing else
                self.block(kernel.body)
            elif kernel.vector.across is not None:
                self.tiles.loops(kernel.vector, begin, end)
            else:
                self.vector_loop(outer, begin, end, lambda: self.block(kernel.body))
        else:
            self.block(kernel.body)
        e.close_loop()
        body = "\n  ".join([*e.entry, *e.regions[0].lines])
        head = f"define internal i64 @{name}(ptr %buffers, ptr %sizes, i64 %begin, i64 %end)"
        return f"{head} {{\n  {body}\n  ret i64 0\n}}\n"

    def bind_sizes(self) -> None:
        for position, symbol in enumerate(size_symbols(self.kernel)):
            pointer = f"getelementptr i64, ptr %sizes, i64 {position}"
            self.e.line(f"%size{position}.p = {pointer}")
            self.e.line(f"%size{position} = load i64, ptr %size{position}.p")
            self.values[symbol.name] = Val(f"%size{position}", I64)

    def decode(self, iteration: Val, axes: Sequence[Symbol], vector: Symbol | None) -> Val | None:
        """The values of the outer axes in this iteration, and the chunk of the vector axis."""
        e, rest, chunk = self.e, iteration, None
        extents = [self.index(rows_of(axis, self.kernel.vector)) for axis in axes]
        if vector is not None:
            chunks = self.index(chunk_count(vector, self.chunk))
            if not axes:
                return rest
            chunk, rest = e.inst("urem", rest, chunks), e.inst("udiv", rest, chunks)
        for position in reversed(range(len(axes))):
            at = rest if position == 0 else e.inst("urem", rest, extents[position])
            rest = rest if position == 0 else e.inst("udiv", rest, extents[position])
            self.values[axes[position].name] = at
        return chunk

    # ---- statements --------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        for statement in block:
            match statement:
                case Let():
                    self.names[statement.name] = self.values[statement.name] = self.let(statement)
                case Store(value=value) if value in self.placed:
                    pass
                case Store(buffer, place, value, atomic):
                    self.memory.store(buffer, place, value, atomic)
                case Accumulate():
                    self.accumulators.add(statement)
                case Loop(axes, body):
                    self.loop(axes, body)
                case Check(condition, error, message):
                    self.check(condition, (error, message))

    def let(self, let: Let) -> Val:
        e, dtype = self.e, let.dtype
        match let.value:
            case Constant(value):
                return e.constant(value, dtype)
            case IndexValue(index):
                return self.index(index)
            case Load(buffer, place, condition):
                return self.memory.load(buffer, place, self.names[condition] if condition else None)
            case Cast(arg):
                if self.names[arg].dtype is BF16:
                    self.short_nan.add(let.name)
                return cast(e, self.names[arg], dtype, short_nan=arg in self.short_nan)
            case Bitcast(arg):
                return e.convert("bitcast", self.names[arg], dtype)
            case Apply(op, args):
                given = [self.names[a].dtype if isinstance(a, str) else None for a in args]
                wanted = operand_dtypes(SCALAR_OPS[op], dtype, given)
                read = [a for a, t in zip(args, wanted, strict=True) if isinstance(a, str) and t is not BOOL]
                if op in _KEEP_NAN and dtype is F32 and self.short_nan.issuperset(read):
                    self.short_nan.add(let.name)
                values = [self.operand(a, t) for a, t in zip(args, wanted, strict=True)]
                if op == "where":  # needs no arithmetic, of which machines have none on short floats
                    return LLVM_OPS[op](e, *values)
                wide = [cast(e, x, F32) if x.dtype in (BF16, F16) else x for x in values]
                result = call(e, op, *wide) if op in self.called else LLVM_OPS[op](e, *wide)
                return cast(e, result, dtype) if dtype in (BF16, F16) else result

    def operand(self, operand: Operand, dtype: DType) -> Val:
        return self.names[operand] if isinstance(operand, str) else self.e.constant(operand, dtype)

    def index(self, index: Index) -> Val:
        """The value of the expression; with one per lane where it depends on the vector axis inside its loop."""
        axis = self.vector_axis
        if axis is None or axis not in index.symbols:
            return emit_index(self.e, index, self.values)
        at = self.values[axis.name]
        lanes = self.e.inst("add nsw", at, self.e.iota(I64, self.lanes))
        return emit_index(self.e, index, {**self.values, axis.name: lanes})

    @property
    def vector_axis(self) -> Symbol | None:
        """The vector axis, inside its loop."""
        return self.kernel.vector.axis if self.lanes > 1 and self.kernel.vector is not None else None

    def check(self, condition: Operand, error: tuple[str, str]) -> None:
        """Leave the function with the error's code unless the condition holds (in every lane that counts)."""
        e = self.e
        held = self.operand(condition, BOOL)
        if held.lanes > 1:
            if self.mask is not None:
                held = e.inst("or", held, e.inst("xor", self.mask, e.constant(True, BOOL)))
            held = self.folded("vector.reduce.and", held)
        if error not in self.errors:
            self.errors.append(error)
        key = f"check {held.text} {error}"
        region = e.regions[held.depth]
        if key in region.memo:
            return
        region.memo[key] = held
        label = e.fresh("check")
        region.lines += [
            f"br i1 {held.text}, label %{label}.held, label %{label}.failed",
            f"{label}.failed:",
            f"ret i64 {self.errors.index(error) + 1}",
            f"{label}.held:",
        ]

    def folded(self, function: str, x: Val) -> Val:
        """A vector reduced to a scalar by an intrinsic of one operand."""
        e = self.e
        element = Val("", x.dtype).type
        name = f"@llvm.{function}.{suffix(x)}"
        e.declare(f"declare {element} {name}({x.type})")
        return e.value(f"call {element} {name}({x})", x.dtype, 1, x.depth)

    # ---- loops -------------------------------------------------------------------------------------------------------

    def loop(self, axes: tuple[Symbol, ...], body: Block) -> None:
        """An inner loop: the vector axis, if it is one of these, runs innermost."""
        if len(axes) == 1 and self.tiles.loop(axes[0], body):
            return
        kernel = self.kernel
        self.loops += axes
        if self.memory.is_product and self.memory.fence is None and len(kernel.locals) == 1:
            self.placed = write_tile(self, Loop(axes, body), _levels(axes), self.memory.pointers[kernel.locals[0].name])
        if not self.placed:
            self.written_loop(axes, body)
        del self.loops[-len(axes) :]

    def written_loop(self, axes: tuple[Symbol, ...], body: Block) -> None:
        """A loop that no function has."""
        kernel = self.kernel
        vector = kernel.vector.axis if kernel.vector is not None and kernel.vector.axis in axes else None
        scalar_axes = [axis for axis in axes if axis != vector]
        innermost = vector if vector is not None else scalar_axes.pop()
        width = kernel.vector.width if vector is not None and kernel.vector is not None else 1
        reductions = [s for s in body if isinstance(s, Accumulate)]
        self.accumulators.begin(reductions, max(width, self.lanes), vector is not None)
        alone = TILED if any(REDUCTIONS[s.op].products for s in reductions) else ALONE
        self.nest((*scalar_axes, innermost), width, body, alone if any(map(is_float_sum, reductions)) else None)
        self.accumulators.end()
        self.memory.passes.update(
            {(load.buffer, load.place.index) for load in loads(body) if isinstance(load.place, Offset)}
        )

    def nest(self, axes: Sequence[Symbol], width: int, body: Block, alone: int | None) -> None:
        """Loops within each other, the last one in vectors. Sums of many values are made in levels, the first one of so
        many that are not folded; None: there is no sum."""
        e, (axis, *inner) = self.e, axes
        step = 1 if inner else width
        blocks = [] if alone is None else _blocks(_steps([axis], step), FOLDED if step > 1 else alone)
        apart = alone is not None and bool(inner) and _steps(inner, width) > LEVEL
        begin, end = e.i64(0), self.index(axis.extent or ONE)
        for steps in blocks:
            begin, rest = e.open_loop(begin, end, steps * step), end
            end = e.call("smin", e.inst("add nsw", begin, e.i64(steps * step)), rest)
            self.accumulators.open_level()
        if step > 1:
            self.vector_loop(axis, begin, end, lambda: self.block(body))
        else:
            self.values[axis.name] = e.open_loop(begin, end, 1)
            if apart:
                self.accumulators.open_level()
            if inner:
                self.nest(inner, width, body, alone)
            else:
                self.block(body)
            if apart:
                self.accumulators.close_level()
            e.close_loop()
        for _ in blocks:
            self.accumulators.close_level()
            e.close_loop()

    def vector_loop(
        self, axis: Symbol, begin: Val, end: Val, body: Callable[[], None], exact: bool | None = None
    ) -> None:
        """`width` iterations at once, then the rest of them under a mask (unless it is `exact`: there is none)."""
        e, vector = self.e, self.kernel.vector
        assert vector is not None
        width = vector.width
        if exact is None:
            exact = axis.extent is not None and axis.extent.constant is not None and axis.extent.constant % width == 0
        before = self.lanes, self.mask
        self.lanes = width
        whole_end = end
        if not exact:
            length = e.inst("sub nsw", end, begin)
            whole_end = e.inst("add nsw", begin, e.inst("and", length, e.i64(-width)))
        names, values = dict(self.names), dict(self.values)
        extent = axis.extent.constant if axis.extent is not None else None
        if exact or extent is None or extent >= width:
            self.values[axis.name] = e.open_loop(begin, whole_end, width)
            body()
            e.close_loop()
        if not exact:
            self.names, self.values = names, values
            at = self.values[axis.name] = e.open_loop(whole_end, end, width)
            left = e.inst("sub nsw", end, at)
            small = e.value(f"trunc {left} to i8", I8, 1, left.depth)
            self.mask = e.inst("icmp ult", e.iota(I8, width), small, dtype=BOOL)
            body()
            e.close_loop()
        self.lanes, self.mask = before


def _levels(axes: Sequence[Symbol]) -> list[tuple[tuple[int, ...], bool]]:
    """How the products of a tile are summed in each of these loops, see `tile_functions`."""
    inner = [axes[number + 1 :] for number in range(len(axes))]
    return [
        (tuple(_blocks(_steps([axis], 1), TILED)), bool(rest) and _steps(rest, 1) > LEVEL)
        for axis, rest in zip(axes, inner, strict=True)
    ]


def _steps(axes: Sequence[Symbol], width: int) -> float:
    """How many steps the loops over these axes take, the last one with so many positions in each; perhaps infinite."""
    extents = [inf if axis.extent is None or (n := axis.extent.constant) is None else n for axis in axes]
    return math.prod(extents[:-1]) * math.ceil(extents[-1] / width) if inf not in extents else inf


def _blocks(steps: float, first: int) -> list[int]:
    """The steps in a block of each level of sums, from the largest: no level adds up more than a few dozen."""
    sizes: list[int] = []
    while steps > 2 * first and (math.isfinite(steps) or len(sizes) < LEVELS):
        sizes.insert(0, first)
        first *= LEVEL
    return sizes
