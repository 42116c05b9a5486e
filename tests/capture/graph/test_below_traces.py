"""Code of the program that runs below a trace: fakes of operators, decompositions, pieces of custom functions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

RUNS: list[str] = []


def described(x: torch.Tensor) -> torch.Tensor:
    """Called by fakes: a function like any other, which must not be compiled on its own."""
    RUNS.append("described")
    return torch.empty_like(x) + 0


@torch.library.custom_op("onegraph_below::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@scaled.register_fake
def _(x: torch.Tensor, factor: float) -> torch.Tensor:
    return described(x)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.factor = inputs[1]


def _backward(ctx: Any, gradient: torch.Tensor) -> Any:
    return torch.ops.onegraph_below.scaled(torch.zeros_like(described(gradient)) + gradient, ctx.factor), None


scaled.register_autograd(_backward, setup_context=_save)


def program(x: torch.Tensor) -> torch.Tensor:
    return scaled(x + 1, 3.0) * 2


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_a_fake_in_python_is_a_part_of_the_trace(backend: str, gradients: bool) -> None:
    x = torch.ones(3, requires_grad=gradients)
    with Watch() as watch:
        compiled = onegraph.compile(program, backend=backend, fullgraph=True)
        for number in range(4):
            found = compiled(x + number)
            torch.testing.assert_close(found, program(x + number))
            if gradients:
                x.grad = None
                found.sum().backward()
                assert x.grad is not None and x.grad.tolist() == [6.0] * 3
    assert [event.frame.function for event in watch.of(ev.GraphCaptured)] == ["program"]
    assert not watch.of(ev.FrameSkipped) and not watch.of(ev.GraphBroken)


def test_a_call_that_may_compile_nothing_runs_what_was_compiled() -> None:
    compiled, x = onegraph.compile(program), torch.ones(3)
    compiled(x)
    with onegraph.set_stance("fail_on_recompile"):
        torch.testing.assert_close(compiled(x), program(x))
