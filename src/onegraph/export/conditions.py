"""Conditions over the sizes of inputs as text, such as `x.size(0) == 2*y.size(1)`, evaluated without running code."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onegraph.base.errors import InvalidArgument

Sizes = Mapping[str, Sequence[int]]  #: of each input, by its name

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max}
_SIZE = re.compile(r"\b(\w+)\.size\((\d+)\)")


def sizes_in(condition: str) -> tuple[tuple[str, int], ...]:
    """The sizes that a condition is about: (name of the input, dimension)."""
    return tuple(dict.fromkeys((name, int(dim)) for name, dim in _SIZE.findall(condition)))


def holds(condition: str, sizes: Sizes) -> bool:
    """Whether a condition holds.

    Raises:
        InvalidArgument: for what is no condition over sizes.
    """
    try:
        return bool(_value(ast.parse(condition, mode="eval").body, sizes))
    except ZeroDivisionError:
        return False
    except (SyntaxError, KeyError, IndexError, TypeError):
        raise InvalidArgument(f"no condition over sizes: {condition}") from None


def evaluate(text: str, sizes: Sizes) -> int:
    """The value of an expression over sizes."""
    return int(_value(ast.parse(text, mode="eval").body, sizes))


def _value(node: ast.expr, sizes: Sizes) -> Any:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, sizes)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _COMPARE[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[ast.Constant(value=int(dim))]):
            return sizes[name][dim]
        case ast.Call(func=ast.Name(id=function), args=args):
            return _FUNCTIONS[function](*(_value(arg, sizes) for arg in args))
    raise TypeError
