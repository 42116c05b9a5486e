"""Comparisons of index expressions that are settled by what is known of their symbols."""

from __future__ import annotations

from onegraph.ir.index import Index, is_at_most


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
