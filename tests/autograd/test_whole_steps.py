"""Steps of training around the optimizer: schedulers, groups, clipping, averages, closures, in double precision."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler

import onegraph
from tests.autograd.test_optimizers import Seen

STEPS = 10
Compile = Callable[[Any], Any]
OPTIONS = {"compile_gradients": True}


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Sigmoid(), nn.Linear(8, 8), nn.Linear(8, 2)).double()


def batch(number: int) -> Tensor:
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(number), dtype=torch.float64)


def backward(net: nn.Module, number: int) -> None:
    net(batch(number)).square().sum().backward()


def train(net: nn.Module, optimizer: Any, step: Callable[[], Any]) -> list[Any]:
    found = []
    for number in range(STEPS):
        optimizer.zero_grad()
        backward(net, number)
        found.append(step())
    return found


def scheduled(make: Callable[[Any], Any], inside: bool) -> Callable[[Compile], Any]:
    def run(compile: Compile) -> Any:
        net = model()
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
        scheduler = make(optimizer)
        step = compile(optimizer.step)

        def both() -> None:
            optimizer.step()
            scheduler.step()

        def behind() -> None:
            step()
            scheduler.step()

        train(net, optimizer, compile(both) if inside else behind)
        return net, optimizer, scheduler.get_last_lr()

    return run


def tensor_rate(name: str, **settings: Any) -> Callable[[Compile], Any]:
    def run(compile: Compile) -> Any:
        net, rate = model(), torch.tensor(0.1, dtype=torch.float64)
        optimizer = getattr(torch.optim, name)(net.parameters(), lr=rate, **settings)
        step = compile(optimizer.step)
        for number in range(STEPS):
            backward(net, number)
            step()
            rate.mul_(0.9)
        return net, optimizer

    return run


def groups(compile: Compile) -> Any:
    net = model()
    parts = [{"params": net[0].parameters(), "lr": 0.1}, {"params": net[2].parameters(), "betas": (0.5, 0.9)}]
    optimizer = torch.optim.AdamW([*parts, {"params": net[3].parameters(), "weight_decay": 0.0}], lr=0.01)
    train(net, optimizer, compile(optimizer.step))
    return net, optimizer


def tied(compile: Compile) -> Any:
    net = model()
    net.append(nn.Linear(2, 8).double()).append(nn.Linear(8, 8).double())
    net[5].weight = net[2].weight
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    train(net, optimizer, compile(optimizer.step))
    return net, optimizer


def average(compile: Compile) -> Any:
    net = model()
    mean = copy.deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(mean.parameters(), net.parameters(), strict=True):
                old.mul_(0.9).add_(new, alpha=0.1)

    train(net, optimizer, compile(step))
    return net, optimizer, mean


def clipped(clip: Callable[[Any], Any]) -> Callable[[Compile], Any]:
    def run(compile: Compile) -> Any:
        net = model()
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)

        def step() -> Any:
            norm = clip(net.parameters())
            optimizer.step()
            return norm

        norms = train(net, optimizer, compile(step))
        return net, optimizer, norms

    return run


def without_some(compile: Compile) -> Any:
    """Gradients that are None at first, and in some of the later steps."""
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    step = compile(optimizer.step)
    for number in range(STEPS):
        optimizer.zero_grad()
        (net[:2] if number % 2 == 0 else net)(batch(number)).square().sum().backward()
        step()
    return net, optimizer


def changed(compile: Compile) -> Any:
    """State that is loaded, settings that change, a parameter that is frozen."""
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    step = compile(optimizer.step)
    for number in range(STEPS):
        optimizer.zero_grad()
        backward(net, number)
        step()
        if number == 3:
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        if number == 5:
            optimizer.param_groups[0]["betas"] = (0.5, 0.6)
        if number == 7:
            net[0].weight.requires_grad_(False)
            net[0].weight.grad = None
    return net, optimizer


def whole(set_to_none: bool) -> Callable[[Compile], Any]:
    def run(compile: Compile) -> Any:
        net = model()
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad(set_to_none=set_to_none)
            loss = net(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = compile(step)
        losses = [step(batch(number)) for number in range(STEPS)]
        return net, optimizer, losses

    return run


def accumulated(compile: Compile) -> Any:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)

    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        net(y).square().mean().backward()
        optimizer.step()

    step = compile(step)
    for number in range(STEPS):
        step(batch(number), batch(number + 1))
    return net, optimizer


def scaled(compile: Compile) -> Any:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x).square().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    step = compile(step)
    losses = [step(batch(number)) for number in range(STEPS)]
    return net, optimizer, losses, scaler.get_scale()


def closure(name: str) -> Callable[[Compile], Any]:
    def run(compile: Compile) -> Any:
        net = model()
        optimizer = getattr(torch.optim, name)(net.parameters(), lr=0.1)

        def step(x: Tensor) -> Tensor:
            def loss_of() -> Tensor:
                optimizer.zero_grad()
                loss = net(x).square().sum()
                loss.backward()
                return loss

            return optimizer.step(loss_of).detach()

        step = compile(step)
        losses = [step(batch(number)) for number in range(STEPS)]
        return net, optimizer, losses

    return run


#: The programs, and how many graphs they are at most.
ONE_GRAPH: dict[str, tuple[Callable[[Compile], Any], int]] = {
    "cosine": (scheduled(lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, STEPS), inside=False), 2),
    "one cycle": (scheduled(lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=STEPS + 1), inside=False), 2),
    "steps of the rate inside": (scheduled(lambda optimizer: lr_scheduler.StepLR(optimizer, 3), inside=True), 5),
    "tensor rate of Adam": (tensor_rate("Adam"), 2),
    "tensor rate of SGD": (tensor_rate("SGD", momentum=0.9), 2),
    "tensor rate of SGD over lists": (tensor_rate("SGD", foreach=True), 2),
    "tensor rate of RMSprop": (tensor_rate("RMSprop"), 2),
    "groups": (groups, 2),
    "tied": (tied, 2),
    "average": (average, 2),
    "norm": (clipped(lambda values: nn.utils.clip_grad_norm_(values, 0.5)), 2),
    "norm over lists": (clipped(lambda values: nn.utils.clip_grad_norm_(values, 0.5, foreach=True)), 2),
    "largest norm": (clipped(lambda values: nn.utils.clip_grad_norm_(values, 0.5, norm_type=torch.inf)), 2),
    "value": (clipped(lambda values: nn.utils.clip_grad_value_(values, 0.05)), 2),
    "no gradients at first": (without_some, 4),
    "changed in between": (changed, 5),
}
#: The same for whole steps, with the model and its backward pass.
WHOLE: dict[str, tuple[Callable[[Compile], Any], int]] = {
    "clears to None": (whole(True), 2),
    "clears to zero": (whole(False), 2),
    "two backward passes": (accumulated, 2),
    "closure of Adam": (closure("Adam"), 2),
}
IN_PIECES: dict[str, tuple[Callable[[Compile], Any], set[str]]] = {
    "scaler": (scaled, {"optimizer"}),
    "closure of LBFGS": (closure("LBFGS"), {"optimizer"}),
}


def check(run: Callable[[Compile], Any], compile: Compile) -> Seen:
    theirs = run(lambda function: function)
    with Seen() as seen:
        ours = run(compile)
    for one, other in zip(states(theirs), states(ours), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-6, atol=1e-9)
    return seen


def states(found: tuple[Any, ...]) -> list[Any]:
    return [value.state_dict() if hasattr(value, "state_dict") else value for value in found]


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_around_the_optimizer(name: str) -> None:
    run, graphs = ONE_GRAPH[name]
    seen = check(run, lambda function: onegraph.compile(function, fullgraph=True))
    assert seen.graphs <= graphs
    assert not seen.fallbacks


@pytest.mark.parametrize("name", WHOLE)
def test_with_the_backward_pass(name: str) -> None:
    run, graphs = WHOLE[name]
    seen = check(run, lambda function: onegraph.compile(function, fullgraph=True, options=OPTIONS))
    assert seen.graphs <= graphs
    assert not any("operator by operator" in text for text in seen.fallbacks)


@pytest.mark.parametrize("name", IN_PIECES)
def test_in_pieces(name: str) -> None:
    run, breaks = IN_PIECES[name]
    seen = check(run, lambda function: onegraph.compile(function, options=OPTIONS))
    assert set(seen.breaks) == breaks
    assert not any("is written to" in text for text in seen.fallbacks), "the step of the optimizer is compiled"


@pytest.mark.parametrize("steps", ["optimizer.step()", "no optimizer"])
def test_weights_that_a_step_changes_are_not_packed(steps: str) -> None:
    """They would be packed again in each call."""
    net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        if steps == "optimizer.step()":
            optimizer.step()
        return loss

    kept = onegraph.kept_bytes()
    compiled = onegraph.compile(step, fullgraph=True, options={"library_calls": "packed"})
    for _ in range(2):
        compiled(torch.randn(64, 256))
    assert onegraph.kept_bytes() == kept
    onegraph.reset()
