"""Index expressions as LLVM values: scalars, or one per lane where they depend on the vector axis."""

from __future__ import annotations

from collections.abc import Mapping

from onegraph.compiler.codegen.emitter import Emitter, Val
from onegraph.ir.index import Atom, Index, Symbol, is_not_negative
from onegraph.ir.types import I64


def emit_index(e: Emitter, index: Index, values: Mapping[str, Val]) -> Val:
    """The expression, given the value of each symbol by name. Terms that are known further out are added first."""
    if index.constant is not None:
        return e.i64(index.constant)
    terms = []
    for monomial, coefficient in index.terms:
        factors = sorted((_atom(e, atom, values) for atom in monomial), key=lambda v: v.depth)
        if coefficient != 1 or not factors:
            factors.insert(0, e.i64(coefficient))
        term = factors[0]
        for factor in factors[1:]:
            term = e.inst("mul nsw", term, factor)
        terms.append(term)
    terms.sort(key=lambda v: (v.depth, v.lanes))
    total = terms[0]
    for term in terms[1:]:
        total = e.inst("add nsw", total, term)
    return total


def _atom(e: Emitter, atom: Atom, values: Mapping[str, Val]) -> Val:
    if isinstance(atom, Symbol):
        value = values[atom.name]
        return value if value.dtype is I64 else e.convert("sext", value, I64)
    a, b = emit_index(e, atom.a, values), emit_index(e, atom.b, values)
    match atom.op:
        case "//":
            return e.inst("udiv", a, b) if is_not_negative(atom.a) else _floor_divide(e, a, b)[0]
        case "%":
            return e.inst("urem", a, b) if is_not_negative(atom.a) else _floor_divide(e, a, b)[1]
        case "min" | "max":
            return e.call(f"s{atom.op}", a, b)
    raise AssertionError(atom.op)


def _floor_divide(e: Emitter, a: Val, b: Val) -> tuple[Val, Val]:
    """Quotient and remainder with floor, for a positive divisor."""
    quotient = e.inst("sdiv", a, b)
    rest = e.inst("sub", a, e.inst("mul", quotient, b))
    negative = e.inst("ashr", rest, e.i64(63))
    return e.inst("add", quotient, negative), e.inst("add", rest, e.inst("and", negative, b))
