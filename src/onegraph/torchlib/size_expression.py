"""What symbolic numbers are made of: index expressions, floating-point numbers computed from them, and comparisons."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from onegraph.ir.index import Index


@dataclass(frozen=True, slots=True)
class Condition:
    """`left op right`, with `op` one of `==`, `!=`, `<` and `<=`."""

    op: str
    left: Index
    right: Index

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"

    def negated(self) -> Condition:
        match self.op:
            case "==" | "!=":
                return Condition("!=" if self.op == "==" else "==", self.left, self.right)
            case "<":
                return Condition("<=", self.right, self.left)
        return Condition("<", self.right, self.left)


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point number computed from sizes."""

    op: Callable[..., float]
    args: tuple[Index | Float | float, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """The function of a `Float` of which nothing is known while tracing."""

    name: str

    def __call__(self) -> float:
        raise RuntimeError(f"the number {self.name} is not known while tracing")


Expression = Index | Float | Condition | float | bool
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
}


def as_integer(value: Expression) -> Expression:
    """Comparing converted integers is comparing the integers."""
    match value:
        case Float(op, (Index() as index,)) if op is torch.sym_float:
            return index
        case float() if value.is_integer():
            return Index.of(int(value))
    return value
