"""Hooks that see what autograd saves, and checkpoints, around a compiled call: it is compiled, they see the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch


def whole(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = (x @ w).sin()
    z = torch.nn.functional.gelu(y) * y.exp()
    return torch.layer_norm(z, (4,)).relu()


def broken(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = whole(x, w)
    onegraph.graph_break()
    return whole(y, w) * 2


def run(function: Any, way: str) -> tuple[list[torch.Tensor | None], list[tuple[int, ...]]]:
    torch.manual_seed(0)
    x, w = (torch.randn(n, 4, dtype=torch.float64, requires_grad=True) for n in (3, 4))
    packed: list[tuple[int, ...]] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tuple(tensor.shape))
        return tensor * 2

    if way == "hooks":
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor / 2):
            result = function(x, w)
    elif way == "save_on_cpu":
        with torch.autograd.graph.save_on_cpu():
            result = function(x, w)
    elif way == "checkpoint":
        result = checkpoint(function, x, w, use_reentrant=False)
    else:
        result = checkpoint(function, x, w, use_reentrant=False) + function(x, w)
    result.sum().backward()
    return [result.detach(), x.grad, w.grad], sorted(packed)


@pytest.mark.parametrize("way", ["hooks", "save_on_cpu", "checkpoint", "checkpoint_and_plain"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program", [whole, broken])
def test_a_call_under_hooks_is_compiled(program: Any, backend: str, way: str) -> None:
    onegraph.reset()
    compiled = onegraph.compile(program, backend=backend, fullgraph=program is whole)
    with Watch() as watch:
        for _ in range(2):
            (wanted, packed), (found, seen) = run(program, way), run(compiled, way)
            torch.testing.assert_close(found, wanted)
            assert seen == packed
    assert len(watch.graphs) == (1 if program is whole else 2)
    assert not watch.of(ev.FrameSkipped)


def test_an_error_of_a_hook_is_raised_once() -> None:
    calls = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        calls.append(tensor)
        raise ValueError("no room")

    compiled = onegraph.compile(lambda x: x.sin() * 2, backend="eager")
    with pytest.raises(ValueError, match="no room"):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            compiled(torch.ones(2, requires_grad=True))
    assert len(calls) == 1
