"""Steps of torch's optimizers, compiled: parameters, state and `state_dict` are those of eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base.events import GraphBroken, GraphCaptured, OperatorFellBack
from onegraph.compile import EVENTS

STEPS = 10
#: Those that are one graph, and how parameters are gone through.
CAPTURED: list[tuple[str, dict[str, Any]]] = [
    (name, settings)
    for name in ("SGD", "Adam", "AdamW", "Adamax", "NAdam", "Adadelta", "Adagrad", "RMSprop", "Rprop")
    for settings in ({}, {"foreach": True}, {"foreach": False})
]
CAPTURED += [(name, {"fused": True}) for name in ("SGD", "Adam", "AdamW", "Adagrad")]
CAPTURED += [
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "dampening": 0.1, "maximize": True, "foreach": True}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"amsgrad": True, "foreach": True, "maximize": True}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
    ("RMSprop", {"momentum": 0.9, "centered": True, "foreach": True}),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1}),
]


class Seen:
    """What was captured while it was open."""

    def __enter__(self) -> Seen:
        self.graphs = 0
        self.breaks: list[str] = []
        self.fallbacks: list[str] = []
        self._close = EVENTS.subscribe(self._note)
        return self

    def _note(self, event: Any) -> None:
        match event:
            case GraphCaptured():
                self.graphs += 1
            case GraphBroken():
                self.breaks.append(event.code)
            case OperatorFellBack():
                self.fallbacks.append(f"{event.operator}: {event.reason}")

    def __exit__(self, *_: object) -> None:
        self._close()


def parameters(dtype: torch.dtype) -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(*shape, dtype=dtype)) for shape in ((3, 4), (17,), (2, 3, 2))]


def stepped(make: Callable[[Any], Any], compile: Callable[[Any], Any], dtype: torch.dtype = torch.float64) -> Any:
    """Parameters and their optimizer after some steps, by gradients that do not depend on the steps before."""
    values = parameters(dtype)
    optimizer = make(values)
    step = compile(optimizer.step)
    for _ in range(STEPS):
        for value in values:
            value.grad = torch.randn_like(value)
        step()
    return values, optimizer


def check_equal(theirs: tuple[Any, Any], ours: tuple[Any, Any], tolerance: float) -> None:
    """Within roundings, of the parameters and of all that the optimizers remember."""
    torch.testing.assert_close(ours[0], theirs[0], rtol=tolerance, atol=tolerance)
    expected, found = theirs[1].state_dict(), ours[1].state_dict()
    assert found["param_groups"] == expected["param_groups"]
    assert found["state"].keys() == expected["state"].keys()
    for key, state in expected["state"].items():
        assert list(found["state"][key]) == list(state)
        torch.testing.assert_close(found["state"][key], state, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(("name", "settings"), CAPTURED, ids=str)
def test_a_step_is_one_graph(name: str, settings: dict[str, Any], dtype: torch.dtype) -> None:
    def make(values: Any) -> Any:
        return getattr(torch.optim, name)(values, lr=0.1, **settings)

    theirs = stepped(make, lambda step: step, dtype)
    with Seen() as seen:
        ours = stepped(make, lambda step: onegraph.compile(step, fullgraph=True), dtype)
    check_equal(theirs, ours, 1e-13 if dtype is torch.float64 else 1e-5)
    assert seen.graphs <= 2, "the first step makes the state"
    assert all("_fused" in text for text in seen.fallbacks)


def lbfgs(values: Any) -> Any:
    optimizer = torch.optim.LBFGS(values, lr=0.1)
    plain = optimizer.step
    optimizer.step = lambda: plain(lambda: torch.zeros(()))
    return optimizer


@pytest.mark.parametrize(
    "make",
    [
        lambda values: torch.optim.RAdam(values, lr=0.1),
        lambda values: torch.optim.RAdam(values, lr=0.1, foreach=True),
        lambda values: torch.optim.ASGD(values, lr=0.1),
        lambda values: torch.optim.Adafactor(values, lr=0.1),
        lbfgs,
    ],
)
def test_those_that_decide_by_their_tensors_break_by_name(make: Callable[[Any], Any]) -> None:
    theirs = stepped(make, lambda step: step)
    with Seen() as seen:
        ours = stepped(make, onegraph.compile)
    check_equal(theirs, ours, 0.0)
    assert seen.breaks[0] == "optimizer"


def test_muon() -> None:
    def make(values: Any) -> Any:
        return torch.optim.Muon(values[:1], lr=0.1)

    theirs = stepped(make, lambda step: step)
    with Seen() as seen:
        ours = stepped(make, lambda step: onegraph.compile(step, fullgraph=True))
    check_equal(theirs, ours, 1e-2)  # it computes in bfloat16
    assert seen.graphs <= 2
