"""Tracebacks of user errors: the functions and lines of eager mode, wherever the error and the graph breaks are."""

from __future__ import annotations

import contextlib
import io
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph


def wrong_shapes(x: torch.Tensor) -> torch.Tensor:
    return torch.ones(2) @ torch.ones(3)


def raises(x: torch.Tensor) -> None:
    x = x + 1
    raise ValueError("raised")


def breaks_and_raises(x: torch.Tensor) -> None:
    x = x + 1
    print("break")
    x = x * 2
    return raises(x)


def fails_in_python(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    int("no number")
    return y


def fails_where_it_breaks(x: torch.Tensor) -> None:
    onegraph.graph_break()
    open("/no such file")


class Noting:
    def __enter__(self) -> None:
        print("enter")

    def __exit__(self, *raised: object) -> None:
        print("exit")


def before_a_break(x: torch.Tensor) -> torch.Tensor:
    y = wrong_shapes(x)
    print("break")
    return y


def behind_a_break(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    print("break")
    return wrong_shapes(x) + 1


def two_deep_behind_a_break(x: torch.Tensor) -> None:
    y = breaks_and_raises(x)
    return y


def in_python(x: torch.Tensor) -> torch.Tensor:
    print("break")
    return fails_in_python(x) + 1


def raise_from(x: torch.Tensor) -> torch.Tensor:
    try:
        return fails_in_python(x)
    except ValueError as error:
        raise KeyError("other") from error


def raised_again(x: torch.Tensor) -> None:
    try:
        return breaks_and_raises(x)
    except ValueError:
        x = x + 1
        raise


def group(x: torch.Tensor) -> None:
    try:
        wrong_shapes(x)
    except RuntimeError as error:
        raise ExceptionGroup("several", [error, ValueError(3)])  # noqa: B904


def behind_a_group(x: torch.Tensor) -> None:
    try:
        raise ExceptionGroup("several", [ValueError(3), KeyError(4)])
    except* ValueError:
        print("break")


def through_a_context(x: torch.Tensor) -> None:
    with Noting():
        x = x + 1
        raises(x)


def at_the_break(x: torch.Tensor) -> None:
    return fails_where_it_breaks(x + 1)


def at_the_break_in_a_loop(x: torch.Tensor) -> None:
    for i in range(3):
        x = x + 1
        print(i)
        if i == 2:
            fails_where_it_breaks(x)


def handled_at_the_break(x: torch.Tensor) -> None:
    try:
        fails_where_it_breaks(x)
    except OSError:
        print("handled")
        raise RuntimeError("again")  # noqa: B904


def in_a_generator(x: torch.Tensor) -> list[Any]:
    def parts() -> Any:
        yield x + 1
        print("break")
        yield fails_in_python(x)

    return list(parts())


def fails_on_its_data(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(3)[x.long() + 7]


def in_a_graph(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return fails_on_its_data(y)


def in_a_graph_behind_a_break(x: torch.Tensor) -> torch.Tensor:
    print("break")
    return torch.arange(3)[x.long() + 7]


def in_a_graph_with_a_handler(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    try:
        return fails_on_its_data(x)
    finally:
        print("finally")


OUTSIDE = ValueError("from outside")


def raised_from_outside(x: torch.Tensor) -> None:
    OUTSIDE.__traceback__ = None
    try:
        x = x + 1
        raise OUTSIDE
    except ValueError as error:
        print("break")
        assert error.__traceback__ is not None
        print(error.__traceback__.tb_lineno, [step.lineno for step in traceback.extract_tb(error.__traceback__)])
        raise


class Looking:
    def __enter__(self) -> None:
        print("enter")

    def __exit__(self, kind: Any, value: Any, entry: Any) -> bool:
        print(kind, [step.lineno for step in traceback.extract_tb(entry)], sys.exc_info()[2] is not None)
        return True


def looked_at_by_a_context(x: torch.Tensor) -> torch.Tensor:
    OUTSIDE.__traceback__ = None
    for _ in range(2):
        with Looking():
            x = x + 1
            raise OUTSIDE
    return x


@contextlib.contextmanager
def managed() -> Any:
    yield


def stop_iteration_through_a_contextmanager(x: torch.Tensor) -> Any:
    out = []
    for stop in (StopIteration("one"), StopIteration("two")):
        try:
            with managed():
                raise stop
        except StopIteration as error:
            print("break", len(traceback.extract_tb(error.__traceback__)))
            out.append([step.lineno for step in traceback.extract_tb(error.__traceback__)])
    return out


def with_a_warning(x: torch.Tensor) -> None:
    print("break")
    warnings.warn("of the caller", stacklevel=2)
    raises(x)


PROGRAMS = [
    before_a_break, behind_a_break, two_deep_behind_a_break, in_python, raise_from, raised_again, group, behind_a_group,
    through_a_context, at_the_break, at_the_break_in_a_loop, handled_at_the_break, in_a_generator,
    in_a_graph, in_a_graph_behind_a_break, in_a_graph_with_a_handler,
    raised_from_outside, looked_at_by_a_context, stop_iteration_through_a_contextmanager, with_a_warning,
]  # fmt: skip


def told(error: BaseException | None) -> Any:
    """Names and lines of the traceback, without the test's own, and the same of what the exception holds."""
    if error is None:
        return None
    steps = [
        (step.name, step.lineno) for step in traceback.extract_tb(error.__traceback__) if step.name != outcome.__name__
    ]
    parts = [told(part) for part in getattr(error, "exceptions", ())]
    return type(error), str(error), steps, told(error.__cause__), told(error.__context__), parts


def outcome(function: Callable[..., Any]) -> Any:
    error = None
    with warnings.catch_warnings(record=True) as given, contextlib.redirect_stdout(io.StringIO()) as output:
        warnings.simplefilter("always")
        try:
            function(torch.zeros(1))
        except Exception as raised:
            error = raised
    return (
        told(error),
        [(each.filename, each.lineno) for each in given if each.category is UserWarning],
        output.getvalue(),
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_traceback_is_that_of_eager_mode(program: Callable[..., Any], backend: str) -> None:
    onegraph.reset()
    compiled = onegraph.compile(program, backend=backend)
    for _ in range(2):
        assert outcome(compiled) == outcome(program)


def test_the_traceback_of_an_equal_function_of_another_file() -> None:
    text = "def f(x):\n    try:\n        raise KeyError(1)\n    finally:\n        print('break')\n"
    for name in ("<first>", "<second>"):
        space: dict[str, Any] = {}
        exec(compile(text, name, "exec"), space)
        with pytest.raises(KeyError) as caught, contextlib.redirect_stdout(io.StringIO()):
            onegraph.compile(space["f"], backend="eager")(torch.ones(1))
        assert [step.filename for step in traceback.extract_tb(caught.value.__traceback__)][1:] == [name]
