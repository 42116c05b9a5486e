"""Graph: where it fails and can be undone, the frame of the code that called it runs as it was written."""

from __future__ import annotations

import gc
import sys
import traceback
import weakref
from types import FunctionType
from typing import Any

import pytest
from native.swap import Swapper, twin

from onegraph import _C

LOG: list[Any] = []


class Failing:
    """A graph that raises `error` if there is one, and what is known of it."""

    def __init__(self, resolved: bool = True, error: BaseException | None = None) -> None:
        self.resolved, self.error = resolved, error
        self.asked: list[Any] = []
        self.graph = _C.Graph(self.run, self.failed, self.before)

    def run(self, *args: Any) -> Any:
        assert _C.current_context() is None
        if self.error is not None:
            raise self.error
        return (sum(args),)

    def before(self, *args: Any) -> Any:
        return ("before", args)

    def failed(self, error: Exception, known: Any, *args: Any) -> bool:
        self.asked.append((error, known, args))
        return self.resolved


def written(a: int, b: int = 2, /, *rest: int, c: int = 3, **named: int) -> Any:
    LOG.append("written")
    count = a

    def inner() -> int:
        nonlocal count
        count += 1
        return count

    return inner(), count, b, rest, c, named


def replaced(failing: Failing, function: FunctionType = written) -> tuple[Any, Swapper]:
    """A function whose frames run residual code that calls the graph."""
    function = twin(function)

    def residual(a: int, b: int = 2, /, *rest: int, c: int = 3, **named: int) -> Any:
        call: Any = "graph"  # in its place, the code gets the graph itself
        (out,) = call(a, b)
        LOG.append("residual")
        return out

    code = residual.__code__
    consts = tuple(failing.graph if const == "graph" else const for const in code.co_consts)
    swapper = Swapper({})
    swapper.codes[function.__code__] = code.replace(co_consts=consts, co_name="residual")
    return swapper.region(function), swapper


@pytest.fixture(autouse=True)
def empty_log() -> None:
    LOG.clear()


def test_a_graph_that_succeeds() -> None:
    region, _ = replaced(failing := Failing())
    assert [region(1), region(1, 5), region(1, 2, 3, c=4, d=5)] == [3, 6, 3]
    assert LOG == ["residual"] * 3 and failing.asked == []


def test_the_frame_runs_as_it_was_written() -> None:
    failing = Failing(error=ValueError("data"))
    region, swapper = replaced(failing)
    for _ in range(3):
        assert region(1) == (2, 2, 2, (), 3, {})
        assert region(1, 5, 6, 7, c=8, d=9, a=10) == (2, 2, 5, (6, 7), 8, {"d": 9, "a": 10})
    assert LOG == ["written"] * 6
    assert failing.asked[0] == (failing.error, ("before", (1, 2)), (1, 2))
    assert swapper.names == ["twin"] and sys.exc_info() == (None, None, None)


def test_what_it_raises_is_what_the_program_raises() -> None:
    def fails(a: int, b: int = 2, /, *rest: int, c: int = 3, **named: int) -> Any:
        LOG.append("begun")
        raise KeyError(a)

    region, _ = replaced(Failing(error=ValueError("data")), fails)
    with pytest.raises(KeyError) as raised:
        region(7)
    assert raised.value.__context__ is None and LOG == ["begun"]
    names = [step.name for step in traceback.extract_tb(raised.value.__traceback__)]
    assert names[-1] == "twin" and "residual" not in names


@pytest.mark.parametrize("error", [ValueError("data"), KeyboardInterrupt()], ids=["not resolved", "no Exception"])
def test_its_error_is_raised(error: BaseException) -> None:
    failing = Failing(resolved=False, error=error)
    region, _ = replaced(failing)
    for _ in range(2):
        with pytest.raises(type(error)) as raised:
            region(1)
        assert raised.value is error and LOG == []
    assert len(failing.asked) == 2 * isinstance(error, Exception)


def test_nothing_is_compiled_where_it_runs_as_written() -> None:
    def calls(a: int, b: int = 2, /, *rest: int, c: int = 3, **named: int) -> Any:
        return other(a), _C.current_context()

    def other(a: int) -> int:
        return a

    region, swapper = replaced(Failing(error=ValueError("data")), calls)
    assert region(4) == (4, None)
    assert "other" not in swapper.names


def test_an_error_of_the_question_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: seen.append(what.exc_type))
    failing = Failing(error=ValueError("data"))
    failing.graph = _C.Graph(failing.run, lambda *_: 1 // 0)
    region, _ = replaced(failing)
    with pytest.raises(ValueError, match="data"):
        region(1)
    assert seen == [ZeroDivisionError]


def test_arguments_live_no_longer_than_the_call() -> None:
    class Thing:
        pass

    def keeps(a: Any, b: int = 2, /, *rest: int, c: int = 3, **named: int) -> Any:
        return None

    failing = Failing(error=ValueError("data"))
    region, swapper = replaced(failing, keeps)
    thing = Thing()
    seen = weakref.ref(thing)
    region(thing)
    failing.asked.clear()
    swapper.asked.clear()
    failing.error = None
    del thing
    gc.collect()
    assert seen() is None


def test_is_collected() -> None:
    failing = Failing()
    seen = weakref.ref(failing)
    assert failing.graph.function == failing.run
    del failing
    gc.collect()
    assert seen() is None
