"""Graph breaks, first form: the frame goes on in a resume function, or runs eagerly and says so."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from tests.capture.test_small_programs import tree_equal


class Watch:
    """The events of a `with` block."""

    def __enter__(self) -> Watch:
        self.seen: list[Any] = []
        self.stop = EVENTS.subscribe(self.seen.append)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.seen if isinstance(event, kind)]

    @property
    def graphs(self) -> list[int]:
        return [event.operations for event in self.of(ev.GraphCaptured)]


def toy(a, b):
    x = a / (torch.abs(a) + 1)
    print("woo")
    if b.sum() < 0:
        b = b * -1
    return x * b


def test_toy_example(capsys) -> None:
    compiled = onegraph.compile(toy, backend="eager")
    with Watch() as watch:
        for sign in (1, -1, 1, -1):
            a, b = torch.randn(10), torch.rand(10) * sign
            assert tree_equal(toy(a, b), compiled(a, b))
    assert capsys.readouterr().out == "woo\n" * 8
    assert {event.code for event in watch.of(ev.GraphBroken)} == {"print", "data-dependent-branch"}
    assert not watch.of(ev.FrameSkipped)
    assert sum(watch.graphs) == 3 + 2 + 2 + 1


def test_break_keeps_locals_and_stack(capsys) -> None:
    def f(x, scale):
        y = x + 1
        items = [y, scale]
        alias = items
        z = torch.add(y, torch.tensor(float(y.sum() > -1e9)))
        alias.append(z)
        print("middle")
        return items, items is alias, y * scale

    compiled = onegraph.compile(f)
    x = torch.rand(3)
    assert tree_equal(f(x, 3), compiled(x, 3))


def test_break_in_called_function(capsys) -> None:
    def inner(x):
        y = x * 2
        print("inner")
        return y + 1

    def outer(x):
        return inner(x + 1) * 3

    compiled = onegraph.compile(outer)
    x = torch.rand(3)
    for _ in range(2):
        assert tree_equal(outer(x), compiled(x))
    assert capsys.readouterr().out == "inner\n" * 4


def test_break_in_loop(capsys) -> None:
    def f(xs):
        total = xs[0] * 0
        for i, x in enumerate(xs):
            total = total + x * i
            print("step", i)
        return total * 2

    compiled = onegraph.compile(f)
    xs = [torch.rand(3) for _ in range(3)]
    for _ in range(2):
        assert tree_equal(f(xs), compiled(xs))
    assert capsys.readouterr().out == "step 0\nstep 1\nstep 2\n" * 4


def test_closure_over_a_break(capsys) -> None:
    def f(x):
        n = 1

        def step(y):
            nonlocal n
            n += 1
            return y * n

        x = step(x)
        print("between")
        return step(x), n

    compiled = onegraph.compile(f)
    x = torch.rand(3)
    assert tree_equal(f(x), compiled(x))


def test_writes_before_and_behind_a_break(capsys) -> None:
    class Counter:
        def __init__(self):
            self.n = 0
            self.log = []

    def f(x, c):
        c.n += 1
        c.log.append("before")
        print(c.n, c.log)
        c.log.append("behind")
        return x + c.n

    compiled = onegraph.compile(f)
    a, b = Counter(), Counter()
    x = torch.rand(3)
    for _ in range(3):
        assert tree_equal(f(x, a), compiled(x, b))
        assert (a.n, a.log) == (b.n, b.log)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0::2] == lines[1::2]


def test_generator_runs_eagerly_and_says_so(capsys) -> None:
    def f(x):
        def pieces():
            yield x + 1
            print("in generator")
            yield x + 2

        return sum(pieces())

    compiled = onegraph.compile(f)
    x = torch.rand(3)
    assert tree_equal(f(x), compiled(x))
    assert capsys.readouterr().out == "in generator\n" * 2


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_fullgraph_names_reason_line_and_hint(backend: str) -> None:
    def f(x):
        y = x + 1
        if y.sum() > 0:
            return y
        return x

    with pytest.raises(onegraph.GraphBreakError) as caught:
        onegraph.compile(f, fullgraph=True, backend=backend)(torch.rand(3))
    error = caught.value
    assert error.code == "data-dependent-branch"
    assert "torch.where" in str(error) and "if y.sum() > 0:" in str(error)


def test_eager_error_at_the_user_line() -> None:
    def f(x, y):
        z = x + 1
        return torch.matmul(z, y)

    compiled = onegraph.compile(f)
    with pytest.raises(RuntimeError) as expected:
        f(torch.rand(3, 3), torch.rand(4, 4))
    with pytest.raises(RuntimeError) as found:
        compiled(torch.rand(3, 3), torch.rand(4, 4))
    assert str(expected.value) == str(found.value)
    assert any(entry.name == "f" for entry in found.traceback)


def test_exception_of_the_user() -> None:
    class Mine(Exception):
        pass

    def f(x, log):
        log.append(1)
        y = x + 1
        if y.dim() == 1:
            raise Mine("message", y.shape)
        return y

    compiled = onegraph.compile(f)
    for _ in range(2):
        a: list[int] = []
        b: list[int] = []
        with pytest.raises(Mine) as expected:
            f(torch.rand(3), a)
        with pytest.raises(Mine) as found:
            compiled(torch.rand(3), b)
        assert expected.value.args == found.value.args and a == b


def test_iterator_from_outside() -> None:
    def f(it):
        return next(it) + next(it)

    compiled = onegraph.compile(f)
    xs = [torch.rand(2) for _ in range(4)]
    left, right = iter(xs), iter(xs)
    for _ in range(2):
        assert tree_equal(f(left), compiled(right))


def test_random_numbers_of_python() -> None:
    import random

    def f(x):
        return x * random.random()

    compiled = onegraph.compile(f)
    x = torch.rand(3)
    for _ in range(3):
        state = random.getstate()
        expected = f(x)
        random.setstate(state)
        assert tree_equal(expected, compiled(x))
