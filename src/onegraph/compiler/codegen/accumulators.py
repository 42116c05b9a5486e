"""Reductions of a kernel: accumulators on the stack (LLVM makes them registers), folded at the end of their loop.

Float sums of many values are made in levels: after a few additions their total is added to the accumulator of the level
above, which keeps rounding errors small. Source: P. Blanchard, N. J. Higham, T. Mary, "A class of fast and accurate
summation algorithms" (2020), which calls them blocked.
"""

from __future__ import annotations

from collections.abc import Sequence

from onegraph.base.dataclass import dataclass
from onegraph.compiler.codegen.casts import cast
from onegraph.compiler.codegen.emitter import Emitter, Val, suffix
from onegraph.compiler.codegen.llvm_ops import LLVM_OPS
from onegraph.compiler.codegen.writing import Writing
from onegraph.ir.loop import Accumulate
from onegraph.ir.scalar import REDUCTIONS
from onegraph.ir.types import BF16, BOOL, F16, F32, I64, DType

_NO_POSITION = (1 << 63) - 1


@dataclass(slots=True)
class Accumulator:
    statement: Accumulate
    lanes: int
    cells: list[str]  # the running value; of float sums that of each open level
    folded: bool  # across lanes, when the loop ends
    position: str = ""  # positional reductions: the position of the running value


class Accumulators:
    """The accumulators of the loop that is being written."""

    def __init__(self, writer: Writing) -> None:
        self.w = writer
        self.active: dict[str, Accumulator] = {}

    def begin(self, reductions: Sequence[Accumulate], lanes: int, folded: bool) -> None:
        """Start the accumulators of a loop at their identities. `folded`: its lanes are folded when it ends."""
        self.active = {}
        for statement in reductions:
            cell = self._cell(value_type(statement, self.w), lanes)
            active = self.active[statement.name] = Accumulator(statement, lanes, [cell], folded and lanes > 1)
            self._set(cell, self._identity(statement, lanes))
            if REDUCTIONS[statement.op].positional:
                active.position = self._cell(I64, lanes)
                self._set(active.position, self.w.e.constant(_NO_POSITION, I64, lanes))

    def open_level(self) -> None:
        """A block of additions begins: sums start over, and are added to what was there when it ends."""
        for a in self.active.values():
            if is_float_sum(a.statement):
                a.cells.append(self._cell(value_type(a.statement, self.w), a.lanes))
                self._set(a.cells[-1], self._identity(a.statement, a.lanes))

    def close_level(self) -> None:
        for a in self.active.values():
            if is_float_sum(a.statement):
                added = self._value(a)
                a.cells.pop()
                self._set(a.cells[-1], self._add(a, self._value(a), added))

    def add(self, statement: Accumulate) -> None:
        """One more value; in a tail only the lanes that count change."""
        a, w = self.active[statement.name], self.w
        dtype = value_type(statement, w)
        value = w.e.widened(cast(w.e, w.operand(statement.args[0], dtype), dtype), a.lanes)
        old = self._value(a)
        if a.position:
            self._add_positional(a, old, value, w.operand(statement.args[1], I64))
            return
        if REDUCTIONS[statement.op].products:
            factor = cast(w.e, w.operand(statement.args[1], dtype), dtype)
            new = w.e.call("fma", value, w.e.widened(factor, a.lanes), old)
        else:
            new = self._add(a, old, value)
        self._set(a.cells[-1], w.e.select(w.mask, new, old) if w.mask is not None and a.folded else new)

    def end(self) -> None:
        """After the loop: the totals get their names; across lanes if the loop was the vector's."""
        for name, a in self.active.items():
            total = self._value(a)
            if a.position:
                position = self._get(a.position, I64, a.lanes)
                total = self._fold_positional(a, total, position) if a.folded else position
            else:
                total = fold(self.w.e, a.statement.op, total) if a.folded else total
                total = cast(self.w.e, total, a.statement.dtype)
            self.w.names[name] = self.w.values[name] = total
        self.active = {}

    # ---- pieces ------------------------------------------------------------------------------------------------------

    def _cell(self, dtype: DType, lanes: int) -> str:
        name = f"%{self.w.e.fresh('acc')}"
        self.w.e.entry.append(f"{name} = alloca {Val('', dtype, lanes).type}")
        return name

    def _set(self, cell: str, value: Val) -> None:
        self.w.e.line(f"store {value}, ptr {cell}")

    def _get(self, cell: str, dtype: DType, lanes: int) -> Val:
        return self.w.e.value(f"load {Val('', dtype, lanes).type}, ptr {cell}", dtype, lanes, None, pure=False)

    def _value(self, a: Accumulator) -> Val:
        return self._get(a.cells[-1], value_type(a.statement, self.w), a.lanes)

    def _identity(self, statement: Accumulate, lanes: int) -> Val:
        dtype = value_type(statement, self.w)
        return self.w.e.constant(identity(REDUCTIONS[statement.op].identity, dtype), dtype, lanes)

    def _add(self, a: Accumulator, old: Val, new: Val) -> Val:
        return LLVM_OPS[REDUCTIONS[a.statement.op].combine](self.w.e, old, new)

    def _add_positional(self, a: Accumulator, old: Val, value: Val, position: Val) -> None:
        e = self.w.e
        position = e.widened(position, a.lanes)
        at = self._get(a.position, I64, a.lanes)
        take = self._is_better(a, value, old, position, at)
        if self.w.mask is not None and a.folded:
            take = e.inst("and", take, self.w.mask)
        self._set(a.cells[-1], e.select(take, value, old))
        self._set(a.position, e.select(take, position, at))

    def _is_better(self, a: Accumulator, value: Val, old: Val, position: Val, at: Val) -> Val:
        """NaN before numbers, then the larger (smaller), then the smaller position."""
        e = self.w.e
        larger = LLVM_OPS["gt" if a.statement.op == "argmax" else "lt"](e, value, old)
        same = LLVM_OPS["eq"](e, value, old)
        if value.dtype.is_float:
            nan, old_nan = LLVM_OPS["isnan"](e, value), LLVM_OPS["isnan"](e, old)
            larger = e.inst("or", larger, e.inst("and", nan, e.inst("xor", old_nan, e.constant(True, BOOL))))
            same = e.inst("or", same, e.inst("and", nan, old_nan))
        earlier = e.inst("icmp slt", position, at, dtype=BOOL)
        return e.inst("or", larger, e.inst("and", same, earlier))

    def _fold_positional(self, a: Accumulator, values: Val, positions: Val) -> Val:
        e = self.w.e
        best = fold(e, "max" if a.statement.op == "argmax" else "min", values)
        same = LLVM_OPS["eq"](e, values, best)
        if values.dtype.is_float:
            same = e.inst("or", same, LLVM_OPS["isnan"](e, values))
            # With a NaN among them the best is NaN, which equals nothing: then only the NaNs are left.
        chosen = e.select(same, positions, e.constant(_NO_POSITION, I64, values.lanes))
        return fold(e, "min", chosen)


def value_type(statement: Accumulate, writer: Writing) -> DType:
    """The type of the values that are compared or added up: that of the operand for positional reductions; no short
    one, of which machines have no arithmetic."""
    first, dtype = statement.args[0], statement.dtype
    if REDUCTIONS[statement.op].positional and isinstance(first, str):
        dtype = writer.types[first]
    return F32 if dtype in (BF16, F16) else dtype


def is_float_sum(statement: Accumulate) -> bool:
    return REDUCTIONS[statement.op].combine == "add" and statement.dtype.is_float


def identity(start: float | str, dtype: DType) -> float | int:
    """Where an accumulation starts."""
    if start not in ("lowest", "highest"):
        return start  # type: ignore[return-value]
    lowest = start == "lowest"
    if dtype.is_float:
        return float("-inf") if lowest else float("inf")
    if dtype.kind == "int":
        return -(1 << dtype.bits - 1) if lowest else (1 << dtype.bits - 1) - 1
    return 0 if lowest else 1 if dtype is BOOL else (1 << dtype.bits) - 1


def fold(e: Emitter, op: str, x: Val) -> Val:
    """All lanes combined into one."""
    element = Val("", x.dtype).type
    unsigned = x.dtype.kind in ("uint", "bool")
    if op in ("sum", "dot", "prod") and x.dtype.is_float:
        name = f"@llvm.vector.reduce.{'fmul' if op == 'prod' else 'fadd'}.{suffix(x)}"
        e.declare(f"declare {element} {name}({element}, {x.type})")
        start = e.constant(1.0 if op == "prod" else -0.0, x.dtype)
        return e.value(f"call reassoc {element} {name}({start}, {x})", x.dtype, 1, x.depth)
    names = {"sum": "add", "prod": "mul", "any": "or", "all": "and", "xor": "xor"}
    if op in ("max", "min"):
        function = f"f{op}imum" if x.dtype.is_float else f"{'u' if unsigned else 's'}{op}"
    else:
        function = names[op]
    name = f"@llvm.vector.reduce.{function}.{suffix(x)}"
    e.declare(f"declare {element} {name}({x.type})")
    return e.value(f"call {element} {name}({x})", x.dtype, 1, x.depth)
