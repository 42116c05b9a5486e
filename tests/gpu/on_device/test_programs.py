"""Compiled programs give what eager mode gives on the same GPU: results, gradients, random numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu.simulated.models import MODELS, outcome
from torch import Tensor

import onegraph

SIZES = [(33, 70), (4, 3000), (2048, 2048), (1, 1)]
FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "gelu": lambda x, y: F.gelu(x + y),
    "softmax": lambda x, y: torch.softmax(x * 2, -1) + y,
    "layer norm": lambda x, y: F.layer_norm(x, (x.shape[1],)) * y,
    "totals": lambda x, y: (x.sum(), x.mean(0), (x * y).sum(1), x.amax(1), x.var(0)),
    "turned": lambda x, y: x.t().contiguous() + y.t(),
    "positions": lambda x, y: (x.argmax(1), y.argmin(0), x.topk(1).values),
    "functions": lambda x, y: x.exp() + y.sigmoid() * x.tanh() + torch.atan2(x, y) + x.abs().log1p(),
    "scans": lambda x, y: (x.cumsum(1), y.sort(1).values),
    "product": lambda x, y: F.relu(x @ y.t() + 1) * 2,
    "dropout": lambda x, y: F.dropout(x, 0.3) + y,
    "half": lambda x, y: (x.bfloat16() * y.bfloat16() + 1).softmax(-1).float() + (x.half() * 2).float(),
    "offsets": lambda x, y: x.flatten()[1:] * 2 + y.flatten()[1:],
}


def near(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results(name: str, size: tuple[int, int]) -> None:
    onegraph.reset()
    x, y = torch.randn(size, device="cuda"), torch.randn(size, device="cuda")
    torch.manual_seed(0)
    expected = FUNCTIONS[name](x, y)
    torch.manual_seed(0)
    near(onegraph.compile(FUNCTIONS[name])(x, y), expected)


@pytest.mark.parametrize("name", ["gelu", "softmax", "layer norm", "turned", "functions", "product", "dropout"])
def test_gradients(name: str) -> None:
    onegraph.reset()

    def trained(function: Callable[..., Tensor]) -> list[Tensor | None]:
        torch.manual_seed(0)
        x, y = (torch.randn(64, 96, device="cuda", requires_grad=True) for _ in range(2))
        function(x, y).square().sum().backward()
        return [x.grad, y.grad]

    near(trained(onegraph.compile(FUNCTIONS[name])), trained(FUNCTIONS[name]))


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, trains: bool) -> None:
    onegraph.reset()
    torch.manual_seed(0)
    made, given = MODELS[name]()
    model, inputs = made.cuda().train(trains), {key: value.cuda() for key, value in given.items()}
    other = copy.deepcopy(model)
    expected = outcome(other, other, inputs, trains)
    near(outcome(model, onegraph.compile(model), inputs, trains), expected)
