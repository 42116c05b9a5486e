"""Totals of loops in Triton's language: a running value in each lane, and what becomes of all lanes together.

`tl.max` and `tl.min` pass over NaN, and of positions Triton knows the first alone: both are written out here, as eager
has them.
"""

from __future__ import annotations

from onegraph.compiler.codegen.accumulators import identity
from onegraph.compiler.triton.casts import cast
from onegraph.compiler.triton.index_text import Term
from onegraph.compiler.triton.ops import TRITON_OPS, triton_type, typed
from onegraph.compiler.triton.writing import Writing
from onegraph.ir.loop import Accumulate, Operand
from onegraph.ir.scalar import REDUCTIONS, Reduction
from onegraph.ir.types import BOOL, I32, DType

NO_POSITION = (1 << 63) - 1


class Totals:
    """Writes the totals of a kernel's loops."""

    def __init__(self, writer: Writing) -> None:
        self.w = writer

    def type_of(self, total: Accumulate) -> DType:
        """Of the values that are compared or added up."""
        first = total.args[0]
        positional = REDUCTIONS[total.op].positional and isinstance(first, str)
        return (self.w.types[str(first)] if positional else total.dtype).compute

    def begin(self, total: Accumulate) -> None:
        row, dtype = REDUCTIONS[total.op], self.type_of(total)
        self.w.line(f"{total.name} = {self.w.filled(identity(row.identity, dtype), dtype)}")
        if row.positional:
            self.w.line(f"{total.name}_at = {self.w.filled(NO_POSITION, total.dtype)}")

    def add(self, total: Accumulate) -> None:
        """One more value in each lane that counts."""
        row, dtype, name = REDUCTIONS[total.op], self.type_of(total), total.name
        terms = [self.wide(arg, dtype) for arg in (total.args[:1] if row.positional else total.args)]
        mask = self.w.mask(self.w.lanes)
        if row.positional:
            better = f"({terms[0]} {'>' if total.op == 'argmax' else '<'} {name}) | ({name}_at == {NO_POSITION})"
            if dtype.is_float:
                better += f" | (({terms[0]} != {terms[0]}) & ({name} == {name}))"
            better = self.w.named(Term(f"({better}) & {mask}" if mask else better)).text
            self.w.line(f"{name}_at = tl.where({better}, {self.w.operand(total.args[1], total.dtype).text}, {name}_at)")
            self.w.line(f"{name} = tl.where({better}, {terms[0]}, {name})")
            return
        op = "fma" if row.products else row.combine
        text = TRITON_OPS[op](dtype, *terms, name) if row.products else TRITON_OPS[op](dtype, name, *terms)
        self.w.line(f"{name} = tl.where({mask}, {text}, {name})" if mask else f"{name} = {text}")

    def wide(self, operand: Operand, dtype: DType) -> str:
        if isinstance(operand, str):
            return cast(self.w.values[operand].text, self.w.types[operand], dtype)
        return typed(operand, dtype)

    def alone(self, total: Accumulate) -> Term:
        """The total of each lane alone, in the type of the result."""
        if REDUCTIONS[total.op].positional:
            return Term(f"{total.name}_at", self.w.lanes)
        self.w.line(f"{total.name} = {cast(total.name, self.type_of(total), total.dtype)}")
        return Term(total.name, self.w.lanes)

    def combined(self, total: Accumulate) -> Term:
        """The totals of all lanes of the loop together."""
        row, dtype, name = REDUCTIONS[total.op], self.type_of(total), total.name
        if row.positional:
            self.w.line(f"{name}_best = {self.extreme(name, dtype, 'max' if total.op == 'argmax' else 'min')}")
            equal = f"({name} == {name}_best)"
            if dtype.is_float:
                equal = f"({equal} | (({name} != {name}) & ({name}_best != {name}_best)))"
            self.w.line(f"{name} = {self.folded('min', f'tl.where({equal}, {name}_at, {NO_POSITION})')}")
        else:
            self.w.line(f"{name} = {cast(self.fold(row, name, dtype), dtype, total.dtype)}")
        return Term(name, self.w.lanes)

    def fold(self, row: Reduction, name: str, dtype: DType) -> str:
        match row.combine:
            case "add":
                found = self.folded("sum", name)
            case "mul":
                found = self.keeping(f"tl.reduce({name}, {len(self.w.dims) - 1}, multiply)")
            case "maximum" | "minimum":
                found = self.extreme(name, dtype, row.combine[:3])
            case "or" | "and" if dtype is BOOL:
                found = self.folded("max" if row.combine == "or" else "min", f"{name}.to({triton_type(I32)})")
                return f"({found} != 0)"
            case "xor":
                found = self.folded("xor_sum", name)
            case _:
                raise NotImplementedError(f"{row.name} of {dtype}")
        return f"{found}.to({triton_type(dtype)})" if not dtype.is_float else found

    def extreme(self, name: str, dtype: DType, which: str) -> str:
        """The largest or smallest, or NaN if there is one."""
        if not dtype.is_float:
            number = f"{name}.to({triton_type(I32)})" if dtype is BOOL else name
            found = self.folded(which, number)
            return f"({found} != 0)" if dtype is BOOL else found
        missing = self.folded("max", f"({name} != {name}).to({triton_type(I32)})")
        return f'tl.where({missing} != 0, float("nan"), {self.folded(which, name)})'

    def folded(self, function: str, text: str) -> str:
        return self.keeping(f"tl.{function}({text}, {len(self.w.dims) - 1})")

    def keeping(self, text: str) -> str:
        """A result without the lanes of the loop, with a dimension for them."""
        return f"{text}[:, None]" if len(self.w.dims) > 1 else text
