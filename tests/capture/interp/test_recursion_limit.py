"""Where a program comes to its limit of recursion, and what it is told there, is the same in compiled code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch

import onegraph
from onegraph import _C
from tests.native.swap import Swapper


def down(n: int) -> torch.Tensor:
    return torch.ones(2) if n == 0 else down(n - 1) + 1


def endless(log: list[int]) -> Any:
    log.append(len(log))
    return endless(log)


class Chained:
    def __init__(self, log: list[int]) -> None:
        self.log = log
        log.append(0)

    def next(self) -> Any:
        self.log.append(1)
        return Chained(self.log).next()


def chained(log: list[int]) -> Any:
    return Chained(log).next()


class Breaking:
    def __init__(self, log: list[int]) -> None:
        self.log = log

    @property
    def next(self) -> Any:
        self.log.append(len(self.log))
        torch._dynamo.graph_break()
        return Breaking(self.log).next


def breaking(log: list[int]) -> Any:
    return Breaking(log).next


class Node:
    next: Any

    def __eq__(self, other: object) -> bool:
        return bool(self.next == other.next)  # type: ignore[attr-defined]


def cyclic(log: list[int]) -> bool:
    a, b = Node(), Node()
    a.next, b.next = a, b
    log.append(0)
    return a == b


def at(depth: int, function: Callable[..., Any], *args: Any) -> Any:
    return function(*args) if depth == 0 else at(depth - 1, function, *args)


def outcome(depth: int, function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """What a call from so many frames gives: a sum, or what the RecursionError says and how long its traceback is."""
    try:
        result = at(depth, function, *args)
    except RecursionError as error:
        length, traceback = 0, error.__traceback__
        while traceback is not None:
            length, traceback = length + 1, traceback.tb_next
        return error.args, length, *args
    return float(result.sum()), *args


def are_alike(found: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    """Whether two outcomes are one, or errors that are one frame apart.

    From Python 3.12 on, a read of a property that has run often enters its frame without a look at the limit; from 3.14
    on, calls do so as well.
    """
    if found == expected or len(found) != 3 or found[0] != expected[0]:
        return found == expected
    shorter, longer = sorted((found, expected), key=lambda outcome: outcome[1])
    logs = [log if isinstance(log, list) else [log] for log in (shorter[2], longer[2])]
    return (
        longer[1] - shorter[1] <= 1 and len(logs[1]) - len(logs[0]) in (0, 1, 2) and logs[1][: len(logs[0])] == logs[0]
    )


def in_use() -> int:
    frame: FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


@pytest.mark.parametrize("recompile_limit", [8, 1])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_limit_of_recursion_is_met_where_it_would_be(backend: str, recompile_limit: int) -> None:
    def outcomes(compiled: Callable[[Any], Any]) -> list[Any]:
        functions = [compiled(function) for function in (endless, chained, cyclic, breaking)]
        falling = compiled(down)
        limit, seen = sys.getrecursionlimit(), []
        sys.setrecursionlimit(in_use() + 230)
        try:
            for depth in range(0, 140, 9):
                seen += [outcome(depth, function, []) for function in functions]
                seen += [outcome(depth, falling, n) for n in (3, 90, 150)]
        finally:
            sys.setrecursionlimit(limit)
        return seen

    options = {"recompile_limit": recompile_limit}
    found = outcomes(lambda function: onegraph.compile(function, backend=backend, options=options))
    expected = outcomes(lambda function: function)
    assert [pair for pair in zip(found, expected, strict=True) if not are_alike(*pair)] == []


def test_an_entry_for_more_frames_than_are_left_does_not_run() -> None:
    def marked() -> str:
        return "entry"

    def plain() -> str:
        return "as written"

    asked: list[Any] = []

    def answer(*frame: Any) -> Any:
        asked.append(frame)
        return _C.Entry(marked.__code__, None, context, levels=200)

    context = _C.Context(answer)
    region = _C.Region(plain, context)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(in_use() + 200)
    try:
        few = region(), region()  # one that was made just now, and one that was found
    finally:
        sys.setrecursionlimit(limit)
    assert few == ("as written", "as written")
    assert region() == "entry"
    assert len(asked) == 1


def test_handing_over_takes_no_level_of_recursion() -> None:
    def levels() -> int:
        return _C.frames_left()

    def outer() -> tuple[int, int]:
        return levels(), _C.hand_over([levels])

    called, handed = Swapper().region(outer)()
    assert called == handed
