"""What exceptions carry is eager's."""

from __future__ import annotations

import contextlib
import io
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

total_count = 3


class Scale:
    factor = 2


def shown(error: BaseException) -> str:
    """What the interpreter prints of an uncaught exception."""
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        sys.__excepthook__(type(error), error, error.__traceback__)
    return text.getvalue()


MISSPELLED: dict[str, Callable[[torch.Tensor], Any]] = {
    "attribute": lambda x: Scale().factr,
    "attribute of a class": lambda x: Scale.factr,
    "attribute of a module": lambda x: sys.versio,
    "global": lambda x: total_coun,  # noqa: F821
    "builtin": lambda x: ZeroDivisionErr,  # noqa: F821
    "local": lambda long_name: long_nam,  # noqa: F821
}


@pytest.mark.parametrize("program", MISSPELLED.values(), ids=list(MISSPELLED))
def test_names_are_suggested(program: Callable[[torch.Tensor], Any]) -> None:
    def f(x: torch.Tensor) -> tuple[str, str, bool]:
        try:
            program(x)
        except (AttributeError, NameError) as error:
            return shown(error), error.name, error.__suppress_context__

    x = torch.ones(2)
    expected = f(x)
    assert onegraph.compile(f, backend="eager")(x) == expected
    assert "Did you mean" in expected[0]


@pytest.mark.parametrize("program", [lambda x: x.shap, lambda x: (x + 1).shap])
def test_a_tensor_that_lacks_an_attribute_is_told(program: Callable[[torch.Tensor], Any]) -> None:
    def f(x: torch.Tensor) -> tuple[str, str, torch.Tensor]:
        try:
            program(x)
        except AttributeError as error:
            return str(error), error.name, error.obj

    x = torch.ones(2)
    (text, name, obj), expected = onegraph.compile(f, backend="eager")(x), f(x)
    assert (text, name) == expected[:2] and torch.equal(obj, expected[2]) and (obj is x) == (expected[2] is x)


def lines(error: BaseException) -> list[tuple[str, int | None]]:
    return [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)]


def throw(error: BaseException) -> None:
    raise error


@contextlib.contextmanager
def passing() -> Iterator[None]:
    yield


def breaks_behind(error: BaseException, seen: list[Any]) -> list[tuple[str, int | None]]:
    try:
        throw(error)
    except ValueError as caught:
        seen.append(caught)
        onegraph.graph_break()
        return lines(caught)
    return []


def leaves_a_manager(error: BaseException, seen: list[Any]) -> list[tuple[str, int | None]]:
    try:
        with passing():
            throw(error)
    except ValueError as caught:
        return lines(caught)
    return []


@pytest.mark.parametrize("was_raised", [False, True])
@pytest.mark.parametrize("program", [breaks_behind, leaves_a_manager])
def test_an_exception_from_outside_remembers_where_it_was_raised(program: Any, was_raised: bool) -> None:
    def make() -> ValueError:
        error = ValueError("from outside")
        with contextlib.suppress(ValueError):
            if was_raised:
                throw(error)
        return error

    compiled, theirs, ours = onegraph.compile(program, backend="eager"), make(), make()
    for _ in range(3):
        assert compiled(ours, []) == program(theirs, [])


def test_a_proxy_of_a_dead_object_crosses_a_break() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        thing = Scale()
        proxy = weakref.proxy(thing)
        factor = proxy.factor
        onegraph.graph_break()
        del thing
        onegraph.graph_break()
        try:
            return x * proxy.factor, ""
        except ReferenceError as error:
            return x * factor, str(error)

    expected, found = f(torch.ones(2)), onegraph.compile(f, backend="eager")(torch.ones(2))
    assert torch.equal(expected[0], found[0]) and expected[1] == found[1] != ""


def test_a_recursion_without_end_is_not_traced_at_each_level() -> None:
    def deeper(x: torch.Tensor, depth: int) -> torch.Tensor:
        return deeper(x, depth + 1)

    with Watch() as watch, pytest.raises(RecursionError):
        onegraph.compile(deeper, backend="eager")(torch.zeros(2), 0)
    assert len(watch.of(ev.FrameStarted)) < 20


def test_a_program_that_goes_another_way_each_time_is_left_alone() -> None:
    class Chance:
        """It equals the others at every second time that it is asked, in whatever process and trace."""

        asked = iter(range(1_000_000))

        def __eq__(self, other: object) -> bool:
            if next(Chance.asked) % 2:
                raise KeyError("by chance")
            return False

        def __hash__(self) -> int:
            return 1

    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            with contextlib.suppress(KeyError):
                _ = {Chance(), Chance()}
            onegraph.graph_break()
        return x + 1

    assert torch.equal(onegraph.compile(f, backend="eager")(torch.zeros(2)), torch.ones(2))


def test_the_limit_of_recursion_is_the_programs() -> None:
    def deeper(depth: int) -> int:
        return deeper(depth + 1)

    def f(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(before + 10)
        try:
            deeper(0)
        except RecursionError:
            x = x + 1
        finally:
            sys.setrecursionlimit(before)
        return x, before

    limit = sys.getrecursionlimit()
    assert onegraph.compile(f, backend="eager")(torch.zeros(2))[1] == limit == sys.getrecursionlimit()


def test_a_limit_of_recursion_that_changes_is_seen() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + sys.getrecursionlimit()

    compiled, limit, x = onegraph.compile(f, backend="eager", fullgraph=True), sys.getrecursionlimit(), torch.zeros(1)
    assert compiled(x) == limit
    sys.setrecursionlimit(limit + 100)
    try:
        assert compiled(x) == limit + 100
    finally:
        sys.setrecursionlimit(limit)


def test_what_is_compiled_at_the_limit_of_recursion_has_room_for_it() -> None:
    """The program is near its limit, and puts it back itself: nothing of ours may fail meanwhile."""

    def step(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def f(x: torch.Tensor) -> torch.Tensor:
        before = sys.getrecursionlimit()
        depth = 1
        while True:
            try:
                sys.setrecursionlimit(depth)
            except RecursionError:
                depth += 1
            else:
                break
        sys.setrecursionlimit(depth + 5)
        try:
            return step(x)
        finally:
            sys.setrecursionlimit(before)

    limit = sys.getrecursionlimit()
    try:
        assert torch.equal(onegraph.compile(f, backend="eager")(torch.zeros(2)), torch.ones(2))
        assert sys.getrecursionlimit() == limit
    finally:
        sys.setrecursionlimit(limit)
