"""Results from which other results are computed: what comes to each input arrives there once."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

import onegraph

STEPS: tuple[Callable[..., torch.Tensor], ...] = (
    lambda a, b, w: a @ w,
    lambda a, b, w: a.sin() + w[0],
    lambda a, b, w: a * b,
    lambda a, b, w: a.cos(),
    lambda a, b, w: torch.cat([a[:3], b[3:]]),
    lambda a, b, w: a.cumsum(0),
    lambda a, b, w: a - b.mean(0),
    lambda a, b, w: a[:, [1, 0, 2, 3]],
)


def drawn(number: int) -> Callable[..., list[torch.Tensor]]:
    """A program that computes each value from earlier ones, and returns some of them, in any order."""
    rng = random.Random(number)
    steps = [(rng.choice(STEPS), rng.random(), rng.random(), rng.randrange(2)) for _ in range(rng.randint(2, 5))]
    kept = rng.sample(range(len(steps)), rng.randint(1, len(steps)))

    def program(x: torch.Tensor, *weights: torch.Tensor) -> list[torch.Tensor]:
        values = [x]
        for step, first, second, weight in steps:
            recent = values[-2:]
            a, b = recent[int(first * len(recent))], values[int(second * len(values))]
            values.append(step(a, b, weights[weight]))
        return [values[1 + index] for index in kept]

    return program


def gradients(function: Callable[..., list[torch.Tensor]], number: int) -> list[torch.Tensor | None]:
    torch.manual_seed(number)
    inputs = [torch.randn(size, 4).requires_grad_() for size in (6, 4, 4)]
    sum((result * 1.5).sin().sum() for result in function(*inputs)).backward()
    return [value.grad for value in inputs]


@pytest.mark.parametrize("number", range(25))
def test_gradients_are_eagers(number: int) -> None:
    program = drawn(number)
    backend, options = ("native", {"smallest_recorded_graph": 0}) if number % 2 else ("aot_eager", {})
    compiled = onegraph.compile(program, backend=backend, fullgraph=True, options=options)
    torch.testing.assert_close(gradients(compiled, number), gradients(program, number), rtol=1e-4, atol=1e-5)


def test_a_chain_of_results_with_weights() -> None:
    """The gradient of the last one comes to the first input through the results between, and on no other way."""

    def chain(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> list[torch.Tensor]:
        first = x @ w
        second = first.sin()
        third = second @ v
        return [first, second, third, third.cos()]

    compiled = onegraph.compile(chain, fullgraph=True, options={"smallest_recorded_graph": 0})
    torch.testing.assert_close(gradients(compiled, 0), gradients(chain, 0), rtol=1e-4, atol=1e-5)
