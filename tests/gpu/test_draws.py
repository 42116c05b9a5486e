"""Draws as loops: what is taken from the generator, and when; what is left to torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from compiler.graphs import record
from gpu.philox import Generator, philox
from torch import Tensor

from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.compiler.cpu_code import MACHINE
from onegraph.compiler.lower.graph import Lowered, lower_graph
from onegraph.compiler.target import Machine
from onegraph.compiler.triton.gpu import A100, H100, machine_of
from onegraph.ir.loop import Extern
from onegraph.ir.scalar import SCALAR_OPS
from onegraph.torchlib import philox as operators

aten = torch.ops.aten
X = torch.randn(40, 70)


def lowered(function: Callable[..., Any], *inputs: Tensor, machine: Machine | None = None, **settings: Any) -> Lowered:
    cx = Context(Config(**settings))
    return lower_graph(record(function, *inputs), cx, "cpu", machine or machine_of(H100))


def externs(found: Lowered) -> list[str]:
    calls = [step for step in found.program.steps if isinstance(step, Extern)]
    return [f"{call.operator.split('.')[1]}({', '.join(map(str, call.args[:1]))})" for call in calls]


def test_words_are_those_of_philox() -> None:
    """The known answers of Random123, and chance."""
    zeros, ones = np.zeros(1, np.uint64), np.full(1, 0xFFFFFFFFFFFFFFFF, np.uint64)
    known = {0: (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8), 1: (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)}
    for number, words in known.items():
        x = ones if number else zeros
        given = [SCALAR_OPS["philox"].evaluate(x, x, x, np.full(1, word, np.uint64)) for word in range(4)]
        assert tuple(int(each[0]) for each in given) == words
        assert tuple(int(each[0]) for each in philox(int(x[0]), x, x)) == words
    draw = np.random.default_rng(0)
    counter, stream = (draw.integers(0, 1 << 64, 100, np.uint64) for _ in range(2))
    for word, expected in enumerate(philox(9876543210987654321, counter, stream)):
        seed = np.full(100, 9876543210987654321, np.uint64)
        found = SCALAR_OPS["philox"].evaluate(seed, counter, stream, np.full(100, word, np.uint64))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("gpu", "count", "moves"), [(A100, 884_736, 4), (A100, 884_737, 8), (H100, 884_737, 4)])
def test_the_offset_depends_on_the_gpu(gpu: Any, count: int, moves: int) -> None:
    found = lowered(lambda: torch.rand(count), machine=machine_of(gpu))
    assert externs(found) == [f"philox_state({moves})"]


def test_draws_in_a_row_are_taken_at_once() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        first, _ = aten.native_dropout(x + 1, 0.1, True)
        second = torch.rand(3), torch.bernoulli(x.sigmoid())
        between = torch.multinomial(x.sigmoid(), 2)
        return first, *second, between, torch.randn(3), torch.rand(0), aten.native_dropout(x, 1.0, True)[0]

    found = lowered(function, X)
    assert [name.partition("(")[0] for name in externs(found)] == [
        "philox_state", "multinomial", "philox_state", "empty_strided",
    ]  # fmt: skip
    assert externs(found)[0] == "philox_state(20)" and externs(found)[2] == "philox_state(4)"


def test_what_is_left_to_torch() -> None:
    for function in (
        lambda: torch.randn(5, dtype=torch.float64),  # sincospi
        lambda: torch.rand(1 << 29),  # eager divides it
        lambda: torch.randint(300, (5,), dtype=torch.bfloat16),  # numbers that are not held
        lambda: aten.log_normal(torch.empty(5)),
        lambda: torch.randperm(5),
    ):
        found = lowered(function)
        assert len(found.left) == 1 and not any("philox" in call for call in externs(found))


@pytest.mark.parametrize("how", ["processor", "setting"])
def test_where_no_kernel_draws(how: str) -> None:
    """A processor's generator gives one number after the other."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return torch.rand_like(x), torch.bernoulli(x, 0.3), torch.randint(5, (3,))

    settings = {"fallback_random": True} if how == "setting" else {}
    found = lowered(function, X, machine=machine_of(H100) if settings else MACHINE, **settings)
    assert {each.reason for each in found.left} == {"its random numbers come in eager's order"}
    assert [each.operator for each in found.left] == [
        "aten.rand_like.default", "aten.bernoulli.p", "aten.randint.default",
    ]  # fmt: skip


def test_the_state_of_a_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed may have 64 bits; each draw moves the offset on."""
    generator = Generator(0xFEDCBA9876543210)
    monkeypatch.setattr(operators, "generator_of", lambda device: generator)
    for before in (0, 12):
        state = torch.ops.onegraph.philox_state(12, 0, device=torch.device("cpu"))
        assert state.dtype == torch.int64 and state.tolist() == [0xFEDCBA9876543210 - (1 << 64), before]
    assert generator.offset == 24
    with pytest.raises(RuntimeError, match="in parts"):
        torch.ops.onegraph.philox_state(12, 1 << 31, device=torch.device("cpu"))
    assert generator.offset == 24


def test_streams_for_each_thread() -> None:
    assert machine_of(H100).drawing_threads == 132 * 2048 and MACHINE.drawing_threads == 0
    assert machine_of(replace(H100, threads=1536)).drawing_threads == 132 * 1536
