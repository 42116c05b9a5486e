"""Small programs captured as one graph: results, second call and state equal eager's."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import math
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import onegraph

SCALE = 3.0
TABLE = {"a": 1.5, "b": [1, 2, 3]}


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Settings:
    alpha: float = 2.0
    shift: Any = None


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Vector:
    def __init__(self, data: torch.Tensor) -> None:
        self.data = data
        self.reads = 0

    @property
    def twice(self) -> torch.Tensor:
        self.reads += 1
        return self.data * 2

    def __add__(self, other: Any) -> Any:
        return Vector(self.data + (other.data if isinstance(other, Vector) else other))

    def __len__(self) -> int:
        return self.data.shape[0]

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.data[index]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.data @ x

    def __getattr__(self, name: str) -> Any:
        if name.startswith("times"):
            return self.data * int(name[5:])
        raise AttributeError(name)


def pointwise(x: torch.Tensor) -> torch.Tensor:
    return (x * 2 + 1).relu().sum(-1)


def several_outputs(x: torch.Tensor) -> Any:
    y = x.sin()
    return y, [x, y.cos()], {"sum": y.sum(), "shape": x.shape, "n": 3}


def lists(x: torch.Tensor) -> Any:
    parts = [x + i for i in range(3)]
    parts.append(x)
    parts.reverse()
    return torch.cat(parts), len(parts)


def dictionaries(x: torch.Tensor) -> Any:
    d = {name: x * i for i, name in enumerate("abc")}
    d.update(z=x)
    return {key: value + 1 for key, value in sorted(d.items())}


def closures(x: torch.Tensor) -> Any:
    count = 0

    def step(y: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        return y * count

    return step(step(x)), count


def generators(x: torch.Tensor) -> Any:
    def pieces():
        for i in range(3):
            got = yield x * i
            assert got is None
        return "end"

    return sum(pieces()), [y + 1 for y in pieces()]


def exceptions(x: torch.Tensor) -> Any:
    try:
        if x.shape[0] > 2:
            raise ValueError("big")
        y = x
    except ValueError as error:
        y = x + len(str(error))
    finally:
        z = x - 1
    with contextlib.suppress(KeyError):
        {}["missing"]
    return y, z


@contextlib.contextmanager
def scaled(values: list[float]):
    values.append(2.0)
    try:
        yield values
    finally:
        values.pop()


def contexts(x: torch.Tensor) -> Any:
    values = [1.0]
    with scaled(values) as inner:
        y = x * sum(inner)
    with torch.no_grad():
        z = y + 1
    return y, z, values


def classes(x: torch.Tensor) -> Any:
    v = Vector(x) + 1
    w = v + v
    return w.twice, len(w), w[0], w(x), w.times3, w.reads


def data_classes(x: torch.Tensor) -> Any:
    s = Settings(shift=x)
    t = dataclasses.replace(s, alpha=4.0)
    p = Point(x, t.alpha)
    q = p._replace(y=2)
    return q.x * t.alpha + t.shift, q


def enums(x: torch.Tensor) -> Any:
    return {Color.RED: x + 1, Color.GREEN: x + 2}[Color(2)], Color.RED.name


def matching(x: torch.Tensor) -> Any:
    match (x.dim(), Point(x, 1)):
        case (1, Point(a, b)):
            return a + b
        case _:
            return x


def global_values(x: torch.Tensor) -> torch.Tensor:
    return x * SCALE + TABLE["a"] + sum(TABLE["b"])


def functional_tools(x: torch.Tensor) -> Any:
    add = functools.partial(torch.add, alpha=3)
    total = functools.reduce(lambda a, b: a + b, map(lambda i: x * i, range(4)))
    ordered = sorted([3, 1, 2], key=lambda i: -i)
    return add(x, total), ordered, math.sqrt(4) * x


def copying(x: torch.Tensor) -> Any:
    d = collections.defaultdict(list)
    d["k"].append(x)
    e = copy.copy(d)
    return e["k"][0] + 1, list(e)


def in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.add_(1)
    y[0] = 5
    y[1:] *= 2
    return y


def factories(x: torch.Tensor) -> Any:
    return torch.zeros(4) + torch.arange(4) + x, torch.ones_like(x), x.new_full((2,), 7.0), torch.tensor([1.0, 2.0])


def strings(x: torch.Tensor) -> Any:
    name = f"{x.dtype}-{x.shape[0]:03d}-{'abc'.upper()!r}"
    return x + len(name), name


def star_arguments(x: torch.Tensor) -> Any:
    def inner(a, /, b, *rest, c=1, **named):
        return a + b + sum(rest) + c + named["d"]

    return inner(x, *[1, 2], **{"d": 3})


def unpacking(x: torch.Tensor) -> Any:
    first, *rest = x.unbind()
    a, b = torch.split(x, 2)
    return first, torch.stack(rest), a.sum() + b.sum()


def recursion(x: torch.Tensor, n: int = 4) -> torch.Tensor:
    return x if n == 0 else recursion(x + n, n - 1)


def comparisons(x: torch.Tensor) -> Any:
    return (x > 0) & (x < 1), x is x, x.shape == (4,), 1 < x.dim() < 3, "a" in {"a": 1}


def cached_function(x: torch.Tensor) -> torch.Tensor:
    return x * factor(3)


@functools.lru_cache
def factor(n: int) -> int:
    return n + 1


def same_output_twice(x: torch.Tensor) -> Any:
    y = x + 1
    box = [y]
    return box, box, y, x


PROGRAMS = [
    value
    for value in list(globals().values())
    if isinstance(value, types.FunctionType)
    and value.__module__ == __name__
    and value.__code__.co_varnames[:1] == ("x",)
]


def tree_equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        same = type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
        return (
            same and torch.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True) and a.requires_grad == b.requires_grad
        )
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(tree_equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(tree_equal, a, b))
    return a == b


@pytest.fixture(autouse=True)
def fresh():
    onegraph.reset()


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_program(program: Callable[..., Any], backend: str) -> None:
    compiled = onegraph.compile(program, fullgraph=True, backend=backend)
    for _ in range(2):
        x = torch.rand(4)
        expected, result = program(x.clone()), compiled(x.clone())
        assert tree_equal(expected, result), (expected, result)


def test_aliasing_of_outputs() -> None:
    x = torch.rand(4)
    first, second, y, same = onegraph.compile(same_output_twice, fullgraph=True)(x)
    assert first is second and first[0] is y and same is x
