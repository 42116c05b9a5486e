"""The functions of `operator`: what they do is what the operators of the program do."""

from __future__ import annotations

import operator
from typing import Any

from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing


def _binary(name: str, symbol: str) -> None:
    @policy(getattr(operator, name))
    def binary(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return tracer.binary(symbol, *args)


def _unary(name: str, symbol: str) -> None:
    @policy(getattr(operator, name))
    def unary(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return tracer.unary(symbol, *args)


def _comparison(name: str, symbol: str) -> None:
    @policy(getattr(operator, name))
    def compare(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return tracer.compare(symbol, *args)


for _name, _symbol in {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}.items():  # fmt: skip
    _binary(f"{_name}_" if _name in ("and", "or") else _name, _symbol)
    _binary(f"i{_name}", f"{_symbol}=")
for _name, _symbol in {"neg": "-", "pos": "+", "invert": "~", "inv": "~"}.items():
    _unary(_name, _symbol)
for _name, _symbol in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    _comparison(_name, _symbol)


@policy(operator.is_)
def is_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return bool(tracer.is_op(*args))


@policy(operator.is_not)
def is_not(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return not tracer.is_op(*args)


def _compared_with_none(name: str, wanted: bool) -> None:
    """A function of Python 3.14 and later."""

    def compared(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return bool(tracer.is_op(args[0], None)) is wanted

    if hasattr(operator, name):
        policy(getattr(operator, name))(compared)


_compared_with_none("is_none", True)
_compared_with_none("is_not_none", False)


@policy(operator.getitem)
def getitem(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return tracer.getitem(*args)


@policy(operator.setitem)
def setitem(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    tracer.setitem(*args)


@policy(operator.contains)
def contains(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return tracer.contains(args[1], args[0])


@policy(operator.not_)
def not_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return not tracer.truth(args[0])
