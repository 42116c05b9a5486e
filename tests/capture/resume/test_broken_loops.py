"""Loops with a graph break in their body settle into a few compiled pieces, and do not grow the stack."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch
from tests.capture.test_small_programs import tree_equal


def counted(x):
    for _ in range(60):
        x = x * 0.5 + 1
        print("step")
        x = x.sin()
    return x


def counter_printed(x):
    for i in range(60):
        x = x * 0.5 + 1
        print(i)
        x = x.sin()
    return x


def counter_in_arithmetic(x):
    for i in range(60):
        x = x * 0.5 + i
        print("step")
    return x


def while_loop(x):
    n = 0
    while n < 60:
        x = x * 0.5 + n
        print("step")
        n += 1
    return x, n


def enumerated(x):
    for i, part in enumerate(x.unbind()):
        x = x * 0.5 + part * i
        print(i)
    return x


def branch_on_tensor(x):
    hits = 0
    for _ in range(60):
        x = x * 0.9
        if x.sum() > 1:
            hits += 1
    return x, hits


def value_printed(x):
    for i in range(60):
        x = x.sin() + i
        print(i, x.argmax().item())
    return x


def filling_a_list(x):
    parts = []
    for _ in range(60):
        x = x * 0.5 + 1
        print("step")
        parts.append(x)
    return parts


LOOPS = [
    filling_a_list,
    counted,
    counter_printed,
    counter_in_arithmetic,
    while_loop,
    enumerated,
    branch_on_tensor,
    value_printed,
]


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__)
def test_a_loop_settles(loop: Callable[..., Any], backend: str, capsys: Any) -> None:
    onegraph.reset()
    compiled = onegraph.compile(loop, backend=backend)
    with Watch() as watch:
        for _ in range(2):
            x = torch.rand(30)
            expected = loop(x), capsys.readouterr().out
            assert tree_equal(expected, (compiled(x), capsys.readouterr().out))
    assert 1 <= len(watch.graphs) <= 3
    assert not watch.of(ev.RecompileLimitReached) and not watch.of(ev.FrameSkipped)


def test_a_long_loop_does_not_grow_the_stack(capsys: Any) -> None:
    @onegraph.compile(backend="eager")
    def f(x):
        for _ in range(3000):
            x = x * 0.5 + 1
            print(end="")
        return x

    assert torch.allclose(f(torch.rand(3)), torch.full((3,), 2.0))


def uses(n):
    table = {i: i * i for i in range(50)}
    return {
        "bits": (n & 3, n | 8, n ^ 5, n << 2, n >> 1, ~n, -n, +n, abs(n)),
        "keys": (table[n], table.get(n), n in table, {n: 1}, {n}, (n,), [n] * 2),
        "methods": (n.bit_length(), n.real, n.numerator, n.conjugate()),
        "text": (str(n), repr(n), f"{n:03d}", "%d" % n, "{}".format(n), hex(n), str([n])),  # noqa: UP031, UP032
        "kinds": (type(n) is int, isinstance(n, int | str), isinstance(n, bool), n.__class__ is int),
        "arithmetic": (n + 1, n - 5, n // 3, n % 3, n / 4, n**2, divmod(n, 3), -n // 2, (n - 20) % 3, 7 % (n + 1)),
        "conversions": (n * 1.5, float(n), int(n), bool(n), round(n / 3, 1), math.sqrt(n), max(n, 3), sum([n, n])),
        "comparisons": (n == 3, n < 3, n is None, not n, n and 5, 1 < n < 9, n in (1, 2, 3), n in {5: 1}, n < 2.5),
        "ranges": (list(range(n)), "a" * n, [1, 2, 3, 4][: n % 4], (1, 2, 3)[n % 3]),
        "calls": (complex(n), sorted([3, n, 1]), hash(n), pow(3, n, 7), math.gcd(n, 6), int(str(n)), bytes([n])),
    }  # fmt: skip


def test_a_changing_number_is_an_integer() -> None:
    def kept() -> None:
        print(end="")

    def f(n):
        kept()
        return uses(n)

    compiled = onegraph.compile(f, backend="eager")
    for n in [3, 4, 5, 0, 1, 12, 7, 30]:
        found, expected = compiled(n), uses(n)
        assert found == expected and str(found) == str(expected)


def test_a_recursion_with_a_break_at_each_level_settles_too() -> None:
    def down(x: torch.Tensor, n: int) -> torch.Tensor:
        print(n)
        return down(x.sin(), n - 1) + 1 if n else x

    x = torch.randn(3)
    compiled = onegraph.compile(lambda x: down(x * 2, 80), backend="eager")
    with Watch() as watch:
        assert torch.equal(compiled(x), down(x * 2, 80))
    assert len(watch.of(ev.FrameStarted)) < 60
