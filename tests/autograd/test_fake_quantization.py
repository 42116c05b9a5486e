"""Training through fake quantization, whose observers give themselves a size in the first step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onegraph

OPTIONS = {"raise_compiler_errors": True}


class Observed(nn.Module):
    """What `prepare_qat` puts around weights (by channel) and activations."""

    def __init__(self, by_channel: bool) -> None:
        super().__init__()
        self.by_channel = by_channel
        self.register_buffer("on", torch.ones(1, dtype=torch.int64))
        self.register_buffer("least", torch.tensor([] if by_channel else float("inf")))
        self.register_buffer("most", torch.tensor([] if by_channel else -float("inf")))
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("zero", torch.zeros(1, dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        ranges = (self.least, self.most, self.scale, self.zero)
        return torch.fused_moving_avg_obs_fake_quant(
            x, self.on, self.on, *ranges, 0.01, -128, 127, 0, self.by_channel, self.by_channel
        )


class Quantized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 6)
        self.weight, self.activation = Observed(by_channel=True), Observed(by_channel=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(nn.functional.linear(x, self.weight(self.linear.weight), self.linear.bias))


def steps(model: Quantized, call: Any) -> list[Any]:
    torch.manual_seed(0)
    found: list[Any] = []
    for _ in range(3):
        result = call(torch.randn(5, 4))
        model.zero_grad()
        result.square().sum().backward()
        with torch.no_grad():
            for weight in model.parameters():
                assert weight.grad is not None
                weight -= 0.1 * weight.grad
        found += [result.detach(), *(each.clone() for each in model.state_dict().values())]
    return found


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_steps_are_eagers(backend: str) -> None:
    torch.manual_seed(1)
    model, other = Quantized(), Quantized()
    other.load_state_dict(model.state_dict())
    expected = steps(model, model)
    torch.testing.assert_close(steps(other, onegraph.compile(other, backend=backend, options=OPTIONS)), expected)


def test_an_empty_argument_of_any_name_breaks_the_graph() -> None:
    @onegraph.compile
    def f(x: Tensor, on: Tensor, least: Tensor, most: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        return torch.fused_moving_avg_obs_fake_quant(
            x, on, on, running_min=least, running_max=most, scale=scale, zero_point=zero, averaging_const=0.01,
            quant_min=-128, quant_max=127, ch_axis=0, per_row_fake_quant=True,
        )  # fmt: skip

    model = Observed(by_channel=True)
    f(torch.randn(6, 4), model.on, model.least, model.most, model.scale, model.zero)
    assert model.least.shape == model.scale.shape == (6,)
