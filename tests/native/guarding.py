"""Building blocks of the tests of guards."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from onegraph import _C
from onegraph.capture.guards.encode import encode


def frame(a=None, b=None):
    """The function whose frames are guarded."""


def program(*instructions: tuple[Any, ...], consts: Any = ()) -> _C.GuardProgram:
    return encode(instructions, consts)


def check(value: Any, *instructions: tuple[Any, ...], consts: Any = (), function: FunctionType = frame) -> bool:
    """Run on a frame whose first argument is `value`, in register 0."""
    made = program(("ARG", 0, 0), *instructions, consts=consts)
    passed = made.check(function, (value, _C.NULL))
    assert (made.failing(function, (value, _C.NULL)) == -1) == passed
    return passed


class Plain:
    """An object with a __dict__."""

    def __init__(self, **names: Any) -> None:
        self.__dict__.update(names)
