"""A program may give the numbers of `math` and torch other values: its own code sees them, the kernels do not."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy
import pytest
import torch

import onegraph

PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rad2deg": torch.rad2deg,
    "deg2rad": torch.deg2rad,
    "sinc": torch.sinc,
    "gelu": torch.nn.functional.gelu,
    "gelu of tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "exp": lambda x: x.exp() + x.exp2(),
    "log": lambda x: x.abs().log2() + x.abs().log10(),
    "sin": lambda x: x.sin() + (100 * x).cos(),
    "angle": torch.angle,
    "entr": torch.special.entr,
    "nan_to_num": lambda x: (x / 0).nan_to_num(),
    "max_pool": lambda x: torch.nn.functional.max_pool1d(x[None], 3, padding=1),
    "amax": lambda x: x.cummax(0).values + x.logcumsumexp(0),
    "norm": lambda x: torch.linalg.vector_norm(x, math.inf),
    "own": lambda x: x * math.pi,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_are_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x = torch.randn(40)
    function = PROGRAMS[name]
    wanted = function(x)
    for module in (math, torch, numpy):
        for constant, value in (("pi", 3.0), ("e", 2.0), ("inf", 7.0), ("nan", 0.5), ("tau", 6.0)):
            monkeypatch.setattr(module, constant, value, raising=False)
    wanted = function(x) if name in ("own", "norm") else wanted
    found = onegraph.compile(function, options={"cache": False})(x)
    torch.testing.assert_close(found, wanted, equal_nan=True)


def test_kernels_of_gradients_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def gradient(function: Callable[..., torch.Tensor]) -> torch.Tensor:
        x = torch.linspace(-2, 2, 9, requires_grad=True)
        function(x).sum().backward()
        assert x.grad is not None
        return x.grad

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x) + torch.nn.functional.gelu(x, approximate="tanh") + torch.erf(x)

    wanted = gradient(program)
    monkeypatch.setattr(math, "pi", 3)
    torch.testing.assert_close(gradient(onegraph.compile(program, options={"cache": False})), wanted)
