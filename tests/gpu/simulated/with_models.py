"""Real models in small, on the simulated devices: inference and training steps beside eager mode on that device."""

from __future__ import annotations

import copy

import pytest
import torch
from gpu.driver import StandIn
from gpu.simulated import kernels
from gpu.simulated.models import MODELS, outcome

import onegraph

driver = kernels.driver  # a fixture
QUICK = {("bert", False), ("resnet", True)}
CASES = [
    pytest.param(name, trains, marks=() if (name, trains) in QUICK else pytest.mark.slow)
    for name in MODELS
    for trains in (False, True)
]


@pytest.mark.parametrize(("name", "trains"), CASES)
def test_a_model(driver: StandIn, name: str, trains: bool) -> None:
    torch.manual_seed(0)
    made, inputs = MODELS[name]()
    model = made.cuda().train(trains)
    inputs = {key: value.cuda() for key, value in inputs.items()}
    other = copy.deepcopy(model)
    expected = outcome(other, other, inputs, trains)
    driver.forget()
    found = outcome(model, onegraph.compile(model), inputs, trains)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    assert driver.launches()
