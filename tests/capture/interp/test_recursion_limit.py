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
    """Whether two outcomes are one, or those of properties that are one frame apart.

    From Python 3.12 on, a read of a property that has run often enters its frame without a look at the limit.
    """
    if found == expected or found[0] != expected[0]:
        return found == expected
    (length, log), (expected_length, expected_log) = found[1:], expected[1:]
    longer = length - expected_length
    return abs(longer) == 1 and len(log) - len(expected_log) == longer


def in_use() -> int:
    frame: FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


@pytest.mark.parametrize("recompile_limit", [8, 1])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_limit_of_recursion_is_met_where_it_would_be(backend: str, recompile_limit: int) -> None:
    def outcomes(compiled: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
        functions = [compiled(function) for function in (endless, chained, cyclic)]
        falling, reading = compiled(down), compiled(breaking)
        limit, seen, read = sys.getrecursionlimit(), [], []
        sys.setrecursionlimit(in_use() + 230)
        try:
            for depth in range(0, 140, 9):
                seen += [outcome(depth, function, []) for function in functions]
                seen += [outcome(depth, falling, n) for n in (3, 90, 150)]
                read.append(outcome(depth, reading, []))
        finally:
            sys.setrecursionlimit(limit)
        return seen, read

    options = {"recompile_limit": recompile_limit}
    found, read = outcomes(lambda function: onegraph.compile(function, backend=backend, options=options))
    expected, expected_read = outcomes(lambda function: function)
    assert found == expected
    assert all(map(are_alike, read, expected_read)), (read, expected_read)


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
