"""Numbers that change from call to call, on either side of an operator and wherever they are kept: compiled once more,
not once for each number."""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

#: Of `t`, which is 1, 2, ...; each is compiled for a number that it has seen and once more.
TWICE = """
1 + t
3 - t
3 * t
7 / t
7 // t
-7 // t
7 % t
-7 % t
(1 + t) / (10 + t)
1 - 1 / t
0.5 ** t
2.5 / t
x / max(t - 1, 1)
x * (1 + t) / (10 + t)
x + 7 // t
torch.lerp(x, 2 * x, 1 - 1 / t)
x.add(x, alpha=1 - 1 / t)
torch.arange(4) * (1 / t)
torch.arange(4) + (1 + t)
x * min(0.99, (1 + t) / (10 + t))
""".strip().splitlines()
#: What decides something: compiled once for each answer, and once for the first number.
ANSWERS = "1 < t; 3 == t; 3 != t; 2.5 < t; t < 2.5; 4 >= t; 4.0 == t; 2.5 != t; 0 < t; max(3, t); min(3, t)".split("; ")


class Counted:
    def __init__(self) -> None:
        self.t = 0


class Slotted:
    __slots__ = ("__weakref__", "t")

    def __init__(self) -> None:
        self.t = 0


def values(function: Callable[..., Any], *args: Any) -> tuple[list[Any], int]:
    """What ten calls of the compiled function give, and how often it was compiled once more."""
    onegraph.reset()
    compiled = onegraph.compile(function, backend="lowered")
    with Watch() as watch:
        found = [compiled(torch.ones(2), *args) for _ in range(10)]
    assert not watch.of(ev.GraphBroken) and not watch.of(ev.RecompileLimitReached)
    return found, len(watch.of(ev.Recompiled))


def counting(text: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = {"torch": torch}
    exec(f"def counting(x, o):\n    o.t += 1\n    t = o.t\n    return {text}", namespace)
    return namespace["counting"]


def check_equal(found: list[Any], expected: list[Any]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert type(a) is type(b)
        assert torch.allclose(a, b) and a.dtype is b.dtype if isinstance(b, torch.Tensor) else a == b


@pytest.mark.parametrize("text", TWICE)
def test_plain_numbers_on_the_left(text: str) -> None:
    function, counted = counting(text), Counted()
    found, recompiled = values(function, Counted())
    check_equal(found, [function(torch.ones(2), counted) for _ in range(10)])
    assert recompiled <= 1


@pytest.mark.parametrize("text", ANSWERS)
def test_plain_numbers_are_compared_with_them(text: str) -> None:
    function, counted = counting(text), Counted()
    found, recompiled = values(function, Counted())
    check_equal(found, [function(torch.ones(2), counted) for _ in range(10)])
    assert recompiled <= 3


def test_identity_of_a_changing_number_is_that_of_the_number() -> None:
    three = 3

    def step(x: Any, kept: Any) -> Any:
        kept.t += 1
        return x * 2 if kept.t <= 5 and kept.t is three else x

    found, _ = values(step, Counted())
    assert [i for i, y in enumerate(found) if y[0] == 2] == [2]


def bound(function: Callable[..., Any]) -> Callable[..., Any]:
    """The method of an object, in a function around it."""

    @functools.wraps(function)
    def around(x: Any) -> Any:
        return method.__self__.step(x)

    class Kept:
        t = 0

        def step(self, x: Any) -> Any:
            return function(x, self)

    kept = Kept()
    kept.t = 0
    method = kept.step
    return around


def place(x: Any, kept: Any) -> Any:
    kept.t += 1
    return x * kept.t


def test_number_of_the_object_of_a_method() -> None:
    found, recompiled = values(bound(place))
    assert [int(y[0]) for y in found] == list(range(1, 11))
    assert recompiled == 1


@pytest.mark.parametrize("make", [Counted, Slotted], ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    "keep",
    [
        lambda kept: collections.defaultdict(Counted, {"a": kept}),
        lambda kept: collections.OrderedDict({"a": kept}),
        lambda kept: {"a": kept},
        lambda kept: SimpleNamespace(a=[kept]).__dict__,
    ],
    ids=["defaultdict", "OrderedDict", "dict", "list"],
)
def test_number_of_an_object_in_a_container(make: Callable[[], Any], keep: Callable[[Any], Any]) -> None:
    def step(x: Any, container: Any) -> Any:
        kept = container["a"]
        return place(x, kept[0] if type(kept) is list else kept)

    found, recompiled = values(step, keep(make()))
    assert [int(y[0]) for y in found] == list(range(1, 11))
    assert recompiled == 1


def test_number_of_an_object_in_a_deque() -> None:
    def step(x: Any, container: Any) -> Any:
        return place(x, container[-1])

    found, recompiled = values(step, collections.deque([Counted(), Counted()]))
    assert [int(y[0]) for y in found] == list(range(1, 11))
    assert recompiled == 1


def test_division_by_a_changing_number_raises() -> None:
    def step(x: Any, kept: Any) -> Any:
        kept.t += 1
        try:
            return x * (7 / (kept.t - 3))
        except ZeroDivisionError as error:
            return x * math.nan if "division by zero" in str(error) else x

    found, _ = values(step, Counted())
    assert [i for i, y in enumerate(found) if y.isnan().all()] == [2]


@functools.lru_cache(maxsize=8)
def mask(size: int) -> torch.Tensor:
    return torch.ones(size).cumsum(0)


def test_hits_of_a_cache_compile_nothing() -> None:
    def step(x: Any) -> Any:
        return x * mask(x.shape[0])

    mask.cache_clear()
    found, recompiled = values(step)
    assert all(torch.equal(y, torch.tensor([1.0, 2.0])) for y in found)
    assert recompiled == 0


class Registry:
    instances: dict[str, Counted] = {}


def test_number_of_an_object_in_a_container_of_a_class() -> None:
    def step(x: Any) -> Any:
        return place(x, Registry.instances["a"])

    Registry.instances["a"] = Counted()
    found, recompiled = values(step)
    assert [int(y[0]) for y in found] == list(range(1, 11))
    assert recompiled == 1


class Sample:
    def __init__(self, number: int) -> None:
        self.number, self.rate = number, number / 2


@pytest.mark.parametrize(("kept", "versions"), [(False, 2), (True, 4)])
def test_attributes_of_another_object_at_each_call(kept: bool, versions: int) -> None:
    """Objects that come and go, and many that stay; a few that stay have constants of their own."""

    def program(x: torch.Tensor, samples: list[Sample]) -> torch.Tensor:
        return x * samples[0].number - sum(sample.rate for sample in samples)

    held = []
    with Watch() as watch:
        compiled = onegraph.compile(program, fullgraph=True)
        for number in range(1, 13):
            samples = [Sample(number), Sample(7 * number)]
            held += samples if kept else []
            torch.testing.assert_close(compiled(torch.ones(2), samples), program(torch.ones(2), samples))
        assert len(watch.of(ev.GraphCaptured)) == versions
        few = [Sample(1), Sample(2)]
        compiled = onegraph.compile(lambda x, sample: x * sample.number, fullgraph=True)
        for sample in (*few, *few):
            assert compiled(torch.ones(1), sample).item() == sample.number
        assert len(watch.of(ev.GraphCaptured)) == versions + 2
