"""What was compiled for a function is freed with the function. (Kernels stay: others may use them.)"""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch

import onegraph
from onegraph import _C
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch


def make(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
    module = torch.nn.Linear(4, 4)

    def f(x: torch.Tensor) -> torch.Tensor:
        y = module(x) * number
        if y.sum() > 0:
            y = y + 1
        onegraph.graph_break()
        return y.sin()

    return f


def counted(kind: str) -> int:
    gc.collect()
    return sum(type(item).__name__ == kind for item in gc.get_objects())


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_compiled_pieces_die_with_their_function(backend: str) -> None:
    kinds = ("Graph", "FakeTensor", "GraphModule", "Plan")
    x = torch.randn(2, 4)
    before = None
    with torch.no_grad():
        for number in range(4):
            function: Any = make(number)
            onegraph.compile(function, backend=backend)(x)
            gone = weakref.ref(function)
            del function
            gc.collect()
            assert gone() is None
            if number == 0:
                before = {kind: counted(kind) for kind in kinds}
    assert {kind: counted(kind) for kind in kinds} == before


def test_what_only_dead_variables_hold_is_not_computed_for_them() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        parts: list[torch.Tensor] = []
        for _ in range(3):
            x = torch.sin(x)
            parts.append(x)
        total = torch.cat(parts)
        onegraph.graph_break()
        return total + 1

    with Watch() as watch:
        onegraph.compile(f, backend="eager")(torch.ones(2))
    outputs = [event.module.graph.output_node().args[0] for event in watch.of(ev.GraphCaptured)]
    assert [len(each) for each in outputs] == [1, 1]


KEPT: list[BaseException] = []


def caught(x: torch.Tensor) -> torch.Tensor:
    try:
        raise ValueError
    except ValueError as error:
        KEPT.append(error)
    return x + 1


@onegraph.disable
def count_frames() -> int:
    return sum(type(each) is FrameType for each in gc.get_objects())


def loops_behind_a_kept_error(x: torch.Tensor, count: int) -> int:
    for i in range(count):
        if i == 1:
            caught(x)
        onegraph.graph_break()
        x = x + 1
    return count_frames()


def test_a_loop_behind_an_exception_that_is_kept_does_not_grow() -> None:
    compiled: Any = onegraph.compile(loops_behind_a_kept_error, backend="eager")
    counts = []
    for count in (4, 10, 300):
        KEPT.clear()
        counts.append(compiled(torch.ones(2), count))
    KEPT.clear()
    assert counts[2] <= counts[1] + 3


def frees_behind_a_kept_error(x: torch.Tensor, seen: list[Any]) -> torch.Tensor:
    large = x + 1
    seen.append(weakref.ref(large))
    y = large.sum()
    large = y
    caught(x)
    onegraph.graph_break()
    return y + large


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_an_exception_that_is_kept_holds_no_tensor_that_eager_mode_frees(backend: str) -> None:
    compiled: Any = onegraph.compile(frees_behind_a_kept_error, backend=backend)
    with torch.no_grad():
        for _ in range(3):
            KEPT.clear()
            seen: list[Any] = []
            compiled(torch.ones(2), seen)
            assert KEPT and seen[0]() is None
    KEPT.clear()


# ---- local classes and functions -------------------------------------------------------------------------------------


def module_of(number: int) -> Any:
    class Base(torch.nn.Module):
        @staticmethod
        def more(x: torch.Tensor) -> torch.Tensor:
            return x + number

        @classmethod
        def named(cls, x: torch.Tensor) -> tuple[torch.Tensor, type]:
            return x, cls

    class Layer(Base):
        scale = number

        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        @property
        def half(self) -> float:
            return self.scale / 2

        def forward(self, x: torch.Tensor) -> Any:
            x, cls = self.named(self.more(self.linear(x)) * self.half)
            onegraph.graph_break()
            return x + self.scale, cls.__name__

    return Layer()


class Slotted:
    __slots__ = ("number",)


def object_of(number: int) -> Any:
    class Pair(Slotted):
        __slots__ = ("other",)

        def __init__(self) -> None:
            self.number, self.other = number, [number]

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Pair) and self.number == other.number

        def __hash__(self) -> int:
            return hash(self.number)

        def __call__(self, x: torch.Tensor) -> Any:
            return x + self.number, {self: 1}[self], isinstance(self, type(self)), str(type(self))[-8:]

    return Pair()


def function_of(number: int) -> Any:
    @functools.lru_cache
    def cached(scale: int) -> int:
        return scale * number

    def function(x: torch.Tensor) -> Any:
        return x * cached(3), cached.__name__

    function.cached = cached  # type: ignore[attr-defined]
    return function


@pytest.mark.parametrize("make", [module_of, object_of, function_of])
def test_what_was_compiled_for_a_local_class_ends_with_it(make: Callable[[int], Any]) -> None:
    def run(thing: Any, x: torch.Tensor) -> Any:
        return thing(x)

    compiled = onegraph.compile(run, backend="eager")
    x = torch.ones(2, 4)
    for number in range(1, 12):
        thing = make(number)
        assert repr(compiled(thing, x)) == repr(run(thing, x))
        cached = getattr(thing, "cached", None)
        watched = [weakref.ref(kind) for kind in type(thing).__mro__ if "<locals>" in kind.__qualname__]
        watched += [weakref.ref(each) for each in (thing, cached) if hasattr(each, "__dict__")]
        del thing, cached
        gc.collect()
        assert [each() for each in watched] == [None] * len(watched)
    assert len(_C.entries(run.__code__)) <= 2


def test_a_class_in_the_place_of_a_dead_one_is_another() -> None:
    def make(number: int) -> Any:
        return type("Local", (), {"value": number, "__call__": lambda self, x: x + self.value})

    def run(thing: Any, x: torch.Tensor) -> Any:
        return thing(x)

    compiled = onegraph.compile(run, backend="eager")
    addresses = set[int]()
    for number in range(30):
        made = [make(number) for _ in range(100)]  # more than the allocator keeps places of that size
        cls = next((each for each in made if id(each) in addresses), made[0])
        del made
        addresses.add(id(cls))
        assert compiled(cls(), torch.ones(1)).item() == number + 1
        del cls
        gc.collect()
    assert len(addresses) < 30


def test_a_recompilation_names_a_local_class() -> None:
    def make() -> Any:
        class Local:
            pass

        return Local()

    def run(thing: Any, x: torch.Tensor) -> torch.Tensor:
        return x + (type(thing).__name__ == "Local")

    compiled = onegraph.compile(run, backend="eager", options={"recompile_limit": 1}, fullgraph=True)
    first = make()
    compiled(first, torch.ones(1))
    with pytest.raises(onegraph.RecompileLimitError, match=r"`type\(thing\)` was .*make.<locals>.Local, is int"):
        compiled(1, torch.ones(1))


# ---- tables of dicts -------------------------------------------------------------------------------------------------


class Point:
    def __init__(self, x: float, y: float, z: float) -> None:
        self.x, self.y, self.z = x, y, z


def test_objects_that_cross_a_break_share_the_keys_of_their_attributes() -> None:
    def f(x: torch.Tensor) -> Any:
        points = [Point(index, 2.0, 3.0) for index in range(3)]
        onegraph.graph_break()
        return x + 1, points

    def sizes(points: list[Point]) -> list[int]:
        return [sys.getsizeof(vars(point)) for point in points]

    for index in range(100):  # with each, CPython leaves less room for attributes to come
        Point(index, 2.0, 3.0)
    _, points = onegraph.compile(f, backend="eager")(torch.ones(2))
    _, expected = f(torch.ones(2))
    alone = dict(vars(points[0]))
    assert [vars(point) for point in points] == [vars(point) for point in expected]
    assert sizes(points) == sizes(expected) != [sys.getsizeof(alone)] * 3


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.popitem(),
        lambda d: (d.popitem(), d.popitem()),
        lambda d: (d.pop("c"), d.popitem(), d.pop("a"), d.popitem()),
        lambda d: (d.popitem(), d.update(d=5)),
        lambda d: (d.popitem(), d.pop("a"), d.update(a=5)),
        lambda d: [d.popitem() for _ in range(4)],
        lambda d: (d.update(e=6), d.popitem(), d.popitem()),
        lambda d: (d.pop("d"), d.update(d=6), d.popitem(), d.popitem()),
    ],
)
def test_items_that_are_popped_are_popped_when_the_compiled_code_runs(change: Callable[[Any], Any]) -> None:
    def f(x: torch.Tensor, d: Any) -> Any:
        return x + 1, change(d)

    def attributes() -> Any:
        holder = Point(1, 2, 3)
        holder.__dict__.clear()
        holder.a, holder.b, holder.c, holder.d = 1, 2, 3, 4  # type: ignore[attr-defined]
        return vars(holder)

    compiled = onegraph.compile(f, backend="eager", fullgraph=True)
    for make in (attributes, lambda: {"a": 1, "b": 2, "c": 3, "d": 4}, lambda: OrderedDict(a=1, b=2, c=3, d=4)):
        found, expected = make(), make()
        assert repr(compiled(torch.ones(2), found)) == repr(f(torch.ones(2), expected))
        assert list(found.items()) == list(expected.items())


def reads_an_attribute(x: torch.Tensor, holder: Any) -> Any:
    held = holder.held
    return x * 2, held is None


def reads_it_behind_a_break(x: torch.Tensor, holder: Any) -> Any:
    onegraph.graph_break()
    held = holder.held
    return x * 2, held is None


@pytest.mark.parametrize("function", [reads_an_attribute, reads_it_behind_a_break])
def test_a_trace_keeps_nothing_that_it_has_in_its_variables(function: Callable[..., Any]) -> None:
    class Watched:
        """Something with weak references."""

    compiled = onegraph.compile(function, backend="eager")
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            holder = Watched()
            holder.held = Watched()  # type: ignore[attr-defined]
            reference = weakref.ref(holder.held)  # type: ignore[attr-defined]
            compiled(torch.ones(2), holder)
            del holder.held  # type: ignore[attr-defined]
            assert reference() is None
    finally:
        gc.enable()
