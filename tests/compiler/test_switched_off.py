"""Graphs do without passes and lowerings, and Python evaluates the loops that kernels are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import onegraph
from onegraph.autograd.graphs import JOINT_PASSES
from onegraph.backends import evaluated
from onegraph.base.config import PASSES, Config
from onegraph.base.context import Context
from onegraph.base.errors import InvalidArgument
from onegraph.base.events import OperatorFellBack
from onegraph.compile import EVENTS
from onegraph.compiler.cpu import CPU
from onegraph.tools.record import recording


def program(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    h = torch.tanh(x @ w) + x.mean(1, keepdim=True)
    y = F.layer_norm(h, (6,)).softmax(-1)
    z = (x.bfloat16() * 3).exp().sum(0)
    return y.cumsum(0).amax(1), h.t().reshape(-1)[::2] * 2, z.float(), y.argmax()


def results(function: Callable[..., Any]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(4, 6, generator=generator), torch.randn(6, 6, generator=generator).requires_grad_()
    found = function(x, w)
    (found[0].sum() + (found[1] * found[1]).sum()).backward()
    assert w.grad is not None
    return [*(each.detach() for each in found), w.grad]


def is_right(function: Callable[..., Any]) -> None:
    for found, expected in zip(results(function), results(program), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_the_names_are_those_of_the_passes() -> None:
    graph, loops = list(dict.fromkeys(each.name for each in JOINT_PASSES)), [each.name for each in CPU.passes]
    needed = [each.name for each in CPU.passes if each.needed]
    assert needed == ["flatten"]
    assert list(PASSES) == [*graph, "recompute", "choose_calls", *(n for n in loops if n not in needed), "reuse_memory"]


@pytest.mark.parametrize("off", [PASSES, PASSES[::2], PASSES[1::2], PASSES[:8], PASSES[8:]])
def test_passes_are_left_out(off: tuple[str, ...]) -> None:
    is_right(onegraph.compile(program, options={"skipped_passes": off}))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("off", [(), PASSES])
def test_loops_are_evaluated(off: tuple[str, ...], dynamic: bool) -> None:
    config = Config.from_environment().replace(skipped_passes=off, cache=False)
    is_right(onegraph.compile(program, backend=lambda m, given: evaluated(m, given, Context(config)), dynamic=dynamic))


def test_lowerings_are_left_out() -> None:
    with recording(EVENTS, (OperatorFellBack,)) as recorded:
        options = {"skipped_lowerings": ("aten.tanh", "aten.amax.default"), "cache": False}
        is_right(onegraph.compile(program, options=options))
    left = {(each.event.operator, each.event.reason) for each in recorded if isinstance(each.event, OperatorFellBack)}
    named = {operator for operator, reason in left if reason == "the option skipped_lowerings names it"}
    assert named == {"aten.tanh.default", "aten.amax.default"}


def test_other_names_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="'skipped_passes' expects names of remove_dead_nodes, "):
        onegraph.compile(program, options={"skipped_passes": ("fusion",)})
