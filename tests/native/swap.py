"""Building blocks of the tests of the native layer: regions whose callback replaces functions by others."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from onegraph import _C


class Swapper:
    """A context whose callback runs `replacements[function]` in place of each function it knows and skips the rest."""

    def __init__(
        self,
        replacements: dict[Callable[..., Any], Callable[..., Any]] | None = None,
        guards: _C.GuardProgram | None = None,
    ) -> None:
        self.codes = {old.__code__: new.__code__ for old, new in (replacements or {}).items()}
        self.guards = guards
        self.asked: list[tuple[str, tuple[Any, ...]]] = []
        self.context = _C.Context(self.callback)

    def callback(self, function: FunctionType, code: CodeType, values: tuple[Any, ...]) -> Any:
        self.asked.append((code.co_name, values))
        if code not in self.codes:
            return _C.SKIP
        return _C.Entry(self.codes[code], self.guards, self.context)

    def region(self, function: Callable[..., Any]) -> _C.Region:
        return _C.Region(function, self.context)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.asked]


def swapped(old: Callable[..., Any], new: Callable[..., Any]) -> _C.Region:
    """`old`, with the code of `new` run in its frames."""
    return Swapper({old: new}).region(old)


def twin(function: FunctionType, name: str = "twin") -> FunctionType:
    """A function of its own code object, so that tests do not see what others left on the code."""
    code = function.__code__.replace(co_name=name)
    made = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def simple(a: int, b: int = 2, *, c: int = 3) -> Any:
    return a + b + c


def marked(a: int, b: int = 2, *, c: int = 3) -> Any:
    return ("swapped", a, b, c)


def many_locals(a):
    return a


def many_locals_new(a):
    b = c = d = e = f = g = h = i = j = a + 1
    return (a, b, c, d, e, f, g, h, i, j, [b, c, d, e, f, g, h, i, j, a, (b, (c, (d, (e, (f, (g, (h, i)))))))])
