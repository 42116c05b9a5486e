"""Functions of torch that the program has replaced are the program's own, whenever that was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import onegraph

ROOT = Path(__file__).parents[3]
#: The tables of what calls do are filled by the first call of a compiled function: `replaced` stands in torch by then.
PROGRAM = """
from unittest import mock
import torch
import onegraph

original, seen = torch.autograd.{name}, []

def replaced(*args, **kwargs):
    seen.append(1)
    return original(*args, **kwargs)

def run(function):
    torch.manual_seed(0)
    weight = torch.randn(3, 3, requires_grad=True)
    for _ in range(3):
        loss = function(weight, torch.ones(2, 3))
    return weight.detach().sum().item(), loss.item(), len(seen)

def step(weight, x):
    loss = (x @ weight).square().mean()
    {call}
    with torch.no_grad():
        weight -= gradient
    weight.grad = None
    return loss.detach()

def again(weight, x):
    loss = (x @ weight).square().mean()
    {call}
    with torch.no_grad():
        weight -= gradient
    weight.grad = None
    return loss.detach()

with mock.patch.object(torch.autograd, "{name}", replaced):
    print(run(onegraph.compile(step)))
    seen.clear()
    print(run(step))
seen.clear()
print(run(onegraph.compile(again)), run(again))
"""
CALLS = {
    "backward": "loss.backward(); gradient = weight.grad",
    "grad": "(gradient,) = torch.autograd.grad(loss, weight)",
}


def results(name: str) -> list[str]:
    program = PROGRAM.format(name=name, call=CALLS[name])
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "ONEGRAPH_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_replaced_before_anything_is_compiled() -> None:
    for name in CALLS:
        ours, theirs, behind = results(name)
        assert ours == theirs and theirs.endswith(", 3)")
        first, second = behind.replace(") (", ")|(").split("|")
        assert first == second and first.endswith(", 0)")


def test_replaced_and_put_back() -> None:
    seen: list[int] = []
    original = torch.autograd.backward

    def replaced(*args: Any, **kwargs: Any) -> None:
        seen.append(1)
        original(*args, **kwargs)

    def step(weight: torch.Tensor) -> torch.Tensor:
        weight.grad = None
        weight.square().sum().backward()
        assert weight.grad is not None
        return weight.grad.clone()

    weight = torch.randn(3, requires_grad=True)
    compiled = onegraph.compile(step)
    for expected in (0, 1, 1, 2):
        if expected != len(seen):
            with mock.patch.object(torch.autograd, "backward", replaced):
                assert torch.equal(compiled(weight), 2 * weight)
        else:
            assert torch.equal(compiled(weight), 2 * weight)
        assert len(seen) == expected
    onegraph.reset()
