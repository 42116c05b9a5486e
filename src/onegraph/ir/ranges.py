"""Comparisons of index expressions that are settled by what is known of their symbols; what is at least one."""

from __future__ import annotations

from typing import TypeGuard

from onegraph.ir.index import Atom, Call, Index, is_at_most


def is_least_one(atom: Atom) -> TypeGuard[Call]:
    """Whether it is the larger one of a number and 1: how many steps of memory a dimension of that size takes."""
    return isinstance(atom, Call) and atom.op == "max" and atom.b == 1


def decide(op: str, a: Index, b: Index) -> bool | None:
    """Whether a comparison (lt, le, gt, ge) certainly holds, or certainly does not; None if neither is certain."""
    match op:
        case "lt":
            return True if is_at_most(a + 1, b) else False if is_at_most(b, a) else None
        case "le":
            return True if is_at_most(a, b) else False if is_at_most(b + 1, a) else None
        case "gt":
            return decide("lt", b, a)
        case "ge":
            return decide("le", b, a)
    raise ValueError(f"unknown comparison {op!r}")
