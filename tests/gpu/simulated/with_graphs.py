"""Training under CUDA graphs: forward and backward graphs are replayed, and give what eager mode gives.

Libraries of simulated devices compute at once: these graphs have kernels alone. Memory that a capture has freed is
written to by later ones of the same pool, as on a device, and the stand-in complains of memory that is gone.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu.driver import StandIn
from gpu.simulated import kernels
from torch import Tensor, nn

import onegraph
from onegraph.base.events import LaunchedOneByOne
from onegraph.compile import EVENTS
from onegraph.compiler.runtime.cuda_graphs import FORWARD_REFUSED, IN_FLIGHT

driver = kernels.driver  # a fixture


@contextmanager
def told() -> Iterator[list[tuple[str, str]]]:
    """Of which part launches are not captured, and why."""
    found: list[tuple[str, str]] = []

    def note(event: object) -> None:
        if isinstance(event, LaunchedOneByOne):
            found.append((event.part, event.reason))

    stop = EVENTS.subscribe(note)
    yield found
    stop()


def how(driver: StandIn) -> str:
    """How all launches since the last time were made."""
    found = {each.how for each in driver.launches()}
    driver.forget()
    return " and ".join(sorted(found))


class Norm(nn.Module):
    """Several kernels, and things that are saved: statistics, and what a function is the derivative of."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.scale = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.norm(x) * self.scale).softmax(-1).sin()


def pair(size: int = 12) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    ours = Norm(size).cuda()
    theirs = Norm(size).cuda()
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def same(ours: nn.Module, theirs: nn.Module) -> None:
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other)
        assert (mine.grad is None) is (other.grad is None)
        if mine.grad is not None:
            torch.testing.assert_close(mine.grad, other.grad)


def test_forward_and_backward_are_replayed(driver: StandIn) -> None:
    ours, theirs = pair()
    compiled = onegraph.compile(ours, mode="reduce-overhead")
    kept = []
    with told() as reasons:
        for step in range(6):
            x = torch.randn(5, 12, device="cuda")
            inputs = [x.clone().requires_grad_() for _ in range(2)]
            driver.forget()
            found, forward = compiled(inputs[0]), how(driver)
            found.square().sum().backward()
            assert (forward, how(driver)) == (
                "launch" if step == 0 else "replay",
                "launch" if step < 2 else "replay",
            )
            expected = theirs(inputs[1])
            expected.square().sum().backward()
            same(ours, theirs)
            kept.append((found.detach(), expected.detach(), inputs[0].grad, inputs[1].grad))
            for model in (ours, theirs):
                for parameter in model.parameters():
                    with torch.no_grad():
                        parameter -= 0.1 * parameter.grad
                        parameter.grad = None if step % 2 else parameter.grad
    for found, expected, gradient, other in kept:  # what was given stays what it is
        torch.testing.assert_close((found, gradient), (expected, other))
    assert not reasons


def saving(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Sums along both dimensions, which are saved, and kernels between them."""
    y = (x * weight).square().sum(0, keepdim=True).sqrt()
    z = (x / (y + 1)).softmax(-1) + bias
    return (z / (z.square().sum(0) + 1)).sin()


class Sequence:
    """Random forward and backward passes of a function compiled and not, whose results must be equal."""

    def __init__(self, seed: int, compiled: Callable[..., Tensor], parameters: list[list[Tensor]]) -> None:
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.functions = (compiled, saving)
        self.parameters = parameters
        self.flying: list[tuple[Any, Any]] = []

    def forward(self) -> None:
        x = torch.randn(self.random.choice((1, 2, 3)), 6, device="cuda")
        inputs = [x.clone().requires_grad_(self.random.random() < 0.5)] * 2
        inputs[1] = x.clone().requires_grad_(inputs[0].requires_grad)
        results = [f(x, *own) for f, x, own in zip(self.functions, inputs, self.parameters, strict=True)]
        torch.testing.assert_close(*results)
        self.flying.append((results, inputs))

    def backward(self) -> None:
        if not self.flying:
            return
        at = self.random.randrange(len(self.flying))
        results, inputs = self.flying[at]
        keeps = self.random.random() < 0.3
        tangent = torch.randn_like(results[0])
        said = []
        for result in results:
            try:
                result.backward(tangent, retain_graph=keeps)
                said.append("")
            except RuntimeError as error:
                said.append(str(error)[:60])
        assert said[0] == said[1], said
        if said[0]:  # of eager mode, a part is done
            self.forget()
            return
        if inputs[0].grad is not None:
            torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
        if not keeps and self.random.random() < 0.7:
            self.flying.pop(at)

    def drop(self) -> None:
        if self.flying:
            self.flying.pop(self.random.randrange(len(self.flying)))

    def evaluate(self) -> None:
        x = torch.randn(2, 6, device="cuda")
        with torch.no_grad():
            torch.testing.assert_close(*[f(x, *own) for f, own in zip(self.functions, self.parameters, strict=True)])

    def step(self) -> None:
        """In place: no pass that needs the old values comes any more."""
        self.flying.clear()
        for ours, theirs in zip(*self.parameters, strict=True):
            if ours.grad is not None and theirs.grad is not None:
                with torch.no_grad():
                    ours -= 0.01 * ours.grad
                    theirs -= 0.01 * theirs.grad

    def move(self) -> None:
        for own in zip(*self.parameters, strict=True):
            value = torch.randn(6, device="cuda")
            for each in own:
                each.data = value.clone()

    def forget(self) -> None:
        for own in self.parameters:
            for each in own:
                each.grad = None

    def write(self) -> None:
        if self.flying:
            for result in self.random.choice(self.flying)[0]:
                result.detach().mul_(2)

    def run(self, steps: int) -> None:
        acts = [self.forward] * 8 + [self.backward] * 7 + [self.drop, self.evaluate, self.step, self.forget, self.write]
        for _ in range(steps):
            self.random.choice(acts)()
            for ours, theirs in zip(*self.parameters, strict=True):
                torch.testing.assert_close(ours.grad, theirs.grad) if ours.grad is not None else None


def sequences(seeds: Iterable[int]) -> None:
    compiled = onegraph.compile(saving, mode="reduce-overhead", dynamic=False)
    values = [torch.randn(6, device="cuda") for _ in range(2)]
    parameters: list[list[Tensor]] = [[nn.Parameter(value.clone()) for value in values] for _ in range(2)]
    for number, seed in enumerate(seeds):
        sequence = Sequence(seed, compiled, parameters)
        sequence.run(12)
        sequence.forget()
        if number % 50 == 30:
            sequence.move()


def test_random_passes(driver: StandIn) -> None:
    sequences(range(24))
    found = [each.how for each in driver.launches()]
    assert found.count("replay") > 3 * found.count("launch")


@pytest.mark.slow
@pytest.mark.parametrize("begin", range(0, 1000, 100))
def test_a_thousand_random_passes(driver: StandIn, begin: int) -> None:
    sequences(range(begin, begin + 100))


# ---- what is saved, and how long -------------------------------------------------------------------------------------


@pytest.fixture
def compiled(driver: StandIn) -> Callable[..., Tensor]:
    """`saving`, which has been captured for three rows."""
    compiled: Callable[..., Tensor] = onegraph.compile(saving, mode="reduce-overhead", dynamic=False)
    for _ in range(4):
        compiled(rows(), *PARAMETERS).sum().backward()
    cleared()
    driver.forget()
    return compiled


PARAMETERS = [nn.Parameter(torch.ones(6, device="cuda")), nn.Parameter(torch.zeros(6, device="cuda"))]


def rows(count: int = 3) -> Tensor:
    return torch.randn(count, 6, device="cuda")


def cleared() -> list[Tensor]:
    """The gradients, which are taken away."""
    found = [parameter.grad for parameter in PARAMETERS if parameter.grad is not None]
    for parameter in PARAMETERS:
        parameter.grad = None
    return found


def as_eager(inputs: list[Tensor], times: int = 1) -> None:
    """The gradients are those of eager mode for these inputs, summed up."""
    ours = cleared()
    for x in inputs * times:
        saving(x, *PARAMETERS).sum().backward()
    torch.testing.assert_close(ours, cleared())


def test_gradients_are_accumulated_over_two_forward_passes(driver: StandIn, compiled: Callable[..., Tensor]) -> None:
    """Each has saved something in memory of its own."""
    for step, expected in enumerate(["launch and replay", "replay", "replay"]):
        inputs = [rows(), rows()]
        results = [compiled(x, *PARAMETERS) for x in inputs]
        assert how(driver) == "replay"
        for result in results if step % 2 else reversed(results):
            result.sum().backward()
        assert how(driver) == expected  # the second memory's backward graph is captured later
        as_eager(inputs)


def test_no_more_than_some_are_in_flight(driver: StandIn, compiled: Callable[..., Tensor]) -> None:
    inputs = [rows() for _ in range(IN_FLIGHT + 2)]
    with told() as reasons:
        results = [compiled(x, *PARAMETERS) for x in inputs]
    assert {each.how for each in driver.launches()[:-6]} == {"replay"}
    assert [each.how for each in driver.launches()[-6:]] == ["launch"] * 6
    assert reasons == [("forward", f"what {IN_FLIGHT} calls have saved for their backward passes is still there")]
    for result in results:
        result.sum().backward()
    as_eager(inputs)
    driver.forget()
    results.clear()
    compiled(inputs[0], *PARAMETERS)
    assert how(driver) == "replay"


def test_a_graph_that_is_kept(driver: StandIn, compiled: Callable[..., Tensor]) -> None:
    x = rows()
    result = compiled(x, *PARAMETERS).sum()
    result.backward(retain_graph=True)
    compiled(rows(), *PARAMETERS)  # nothing comes of it
    result.backward(retain_graph=True)
    compiled(rows(), *PARAMETERS).sum().backward()
    cleared()
    for _ in range(2):
        result.backward(retain_graph=True)
    result.backward()
    as_eager([x], times=3)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        result.backward()


def test_what_hooks_have_taken_stays(compiled: Callable[..., Tensor]) -> None:
    """What is saved is in use as long as anybody has a view of it."""
    result = compiled(rows(), *PARAMETERS)
    saved = [value for value in result.grad_fn.kept if isinstance(value, Tensor)]  # type: ignore[union-attr]
    parts, values = [each.view(-1)[-1:] for each in saved], [each.clone() for each in saved]
    result.sum().backward()
    del result
    first = [each.data_ptr() for each in saved]
    saved.clear()
    for _ in range(3):
        again = compiled(rows(), *PARAMETERS)
        kept = [value.data_ptr() for value in again.grad_fn.kept if isinstance(value, Tensor)]  # type: ignore[union-attr]
        assert not set(first[3:]) & set(kept)
        again.sum().backward()
    for part, value in zip(parts, values, strict=True):
        assert torch.equal(part, value.view(-1)[-1:])
    cleared()


def test_parameters_that_move(driver: StandIn, compiled: Callable[..., Tensor]) -> None:
    before = [parameter.data for parameter in PARAMETERS]
    for parameter in PARAMETERS:
        parameter.data = parameter.data + 1
    for expected in ("launch", "launch and replay", "replay"):
        x = rows()
        compiled(x, *PARAMETERS).sum().backward()
        assert how(driver) == expected
        as_eager([x])
    for parameter, value in zip(PARAMETERS, before, strict=True):
        parameter.data = value


def test_sizes_that_alternate(driver: StandIn, compiled: Callable[..., Tensor]) -> None:
    """What one has saved is not written to by the launches of another."""
    for step in range(5):
        inputs = [rows(count) for count in (3, 1, 7)]
        results = [compiled(x, *PARAMETERS) for x in inputs]
        for result in results:
            result.sum().backward()
        as_eager(inputs)
        assert how(driver) == ("replay" if step > 1 else "launch and replay")


def test_inputs_that_are_written_to(driver: StandIn) -> None:
    def step(x: Tensor, weight: Tensor, mean: Tensor) -> Tensor:
        y = x * weight
        mean.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
        return ((y - mean).softmax(0) * y.square().sum(0)).sin()

    compiled = onegraph.compile(step, mode="reduce-overhead")
    means = [torch.zeros(6, device="cuda") for _ in range(2)]
    for expected in ("launch", "launch and replay", "replay", "replay"):
        x = rows()
        driver.forget()
        compiled(x, PARAMETERS[0], means[0]).sum().backward()
        assert how(driver) == expected
        ours = cleared()
        step(x, PARAMETERS[0], means[1]).sum().backward()
        torch.testing.assert_close((ours, means[0]), (cleared(), means[1]))


# ---- errors, threads, streams ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["forward", "backward"])
def test_errors_while_a_graph_is_captured(driver: StandIn, part: str) -> None:
    compiled = onegraph.compile(saving, mode="reduce-overhead", dynamic=False)
    with told() as reasons:
        for call in range(4):
            x = rows()
            driver.set(launch_fails=719 if (part, call) == ("forward", 1) else 0)
            result = compiled(x, *PARAMETERS)
            driver.set(launch_fails=719 if (part, call) == ("backward", 2) else 0)
            result.sum().backward()
            as_eager([x])
    assert [(each, reason[:24]) for each, reason in reasons] == [
        (part, "it cannot be captured: l"),
        *([("backward", FORWARD_REFUSED[:24])] if part == "forward" else []),
    ]
    driver.forget()
    compiled(rows(), *PARAMETERS).sum().backward()
    assert how(driver) == ("launch" if part == "forward" else "launch and replay")
    cleared()


def test_a_backward_pass_that_raises(driver: StandIn, compiled: Callable[..., Tensor]) -> None:
    class Stop(Exception):
        pass

    def raising(gradient: Tensor) -> None:
        raise Stop

    for _ in range(3):
        result = compiled(rows(), *PARAMETERS)
        result.register_hook(raising)
        with pytest.raises(Stop):
            result.sum().backward()
    x = rows()
    compiled(x, *PARAMETERS).sum().backward()
    as_eager([x])
    driver.forget()
    del result
    compiled(x, *PARAMETERS)
    assert how(driver) == "replay"


def test_threads(driver: StandIn, compiled: Callable[..., Tensor]) -> None:
    wrong: list[BaseException] = []

    def trains(seed: int) -> None:
        try:
            generator = torch.Generator().manual_seed(seed)
            for _ in range(6):
                x = torch.randn(3, 6, generator=generator).cuda()
                pairs = [
                    torch.autograd.grad(function(x, *PARAMETERS).square().sum(), PARAMETERS)
                    for function in (compiled, saving)
                ]
                torch.testing.assert_close(*pairs)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=trains, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert {each.how for each in driver.launches()} == {"launch", "replay"}


def test_streams(driver: StandIn, compiled: Callable[..., Tensor]) -> None:
    """Launches go to the stream that is current, and so do copies of inputs."""
    stream = torch.cuda.Stream()
    for current in (torch.cuda.default_stream(), stream, stream, torch.cuda.default_stream()):
        x = rows()
        with torch.cuda.stream(current):
            compiled(x, *PARAMETERS).sum().backward()
        launches = driver.launches()
        assert {each.stream for each in launches} == {current.cuda_stream}
        assert {each.how for each in launches} == {"replay"}
        as_eager([x])
        driver.forget()


# ---- whole programs --------------------------------------------------------------------------------------------------


def test_random_numbers(driver: StandIn) -> None:
    """They are drawn before each launch, in the order of the program, and are eager mode's."""

    def noisy(x: Tensor, weight: Tensor) -> Tensor:
        y = x * weight + torch.randn(3, 6, device="cuda")
        z = y.square().sum(0).sqrt() * torch.randint(1, 9, (6,), device="cuda")
        return (y / (z + 1)).softmax(-1).sin()

    compiled = onegraph.compile(noisy, mode="reduce-overhead")
    inputs = [rows() for _ in range(4)]
    found = []
    for function in (compiled, noisy):
        torch.manual_seed(3)
        results = []
        for x in inputs:
            results.append(function(x, PARAMETERS[0]))
            results[-1].sum().backward()
        both = [compiled(x, PARAMETERS[0]) if function is compiled else noisy(x, PARAMETERS[0]) for x in inputs[:2]]
        for result in both:
            result.sum().backward()
        found.append(([result.detach() for result in results + both], cleared()))
    torch.testing.assert_close(*found)
    assert not torch.equal(found[0][0][0], found[0][0][1])
    assert [each.how for each in driver.launches()].count("replay") > 8


def test_a_dropout_is_drawn_for_each_replay(driver: StandIn) -> None:
    """Kernels that draw read the generator's state where it is copied to before each launch."""

    def noisy(x: Tensor, weight: Tensor) -> Tensor:
        y = F.dropout((x * weight).softmax(-1), 0.4)
        return F.dropout(y + torch.rand_like(y), 0.2).sin()

    compiled = onegraph.compile(noisy, mode="reduce-overhead")
    inputs = [rows() for _ in range(6)]
    found = []
    with told() as reasons:
        for function in (compiled, noisy):
            torch.manual_seed(3)
            results = []
            for x in inputs:
                results.append(function(x, PARAMETERS[0]))
                results[-1].square().sum().backward()
            state = torch.cuda.get_rng_state()
            found.append(([result.detach() for result in results], cleared(), state))
    torch.testing.assert_close(*found)
    assert [each.how for each in driver.launches()].count("replay") >= 9
    assert not reasons


def test_steps_of_an_optimizer_and_whole_steps(driver: StandIn) -> None:
    ours, theirs = pair()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (ours, theirs)]

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> Tensor:
        loss: Tensor = model(x).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    compiled = onegraph.compile(step, mode="reduce-overhead")
    for _ in range(5):
        x = torch.randn(4, 12, device="cuda")
        driver.forget()
        onegraph.cudagraph_mark_step_begin()
        found = compiled(ours, optimizers[0], x)
        launched = how(driver)
        torch.testing.assert_close(found, step(theirs, optimizers[1], x))
        same(ours, theirs)
    assert launched == "replay"


def test_why_launches_are_not_captured(driver: StandIn) -> None:
    def drawing(x: Tensor, weight: Tensor) -> Tensor:
        return saving(x + x.abs().multinomial(6), weight, weight)

    compiled = onegraph.compile(drawing, mode="reduce-overhead")
    with told() as reasons:
        for _ in range(3):
            compiled(rows(), PARAMETERS[0]).sum().backward()
    expected = [
        ("forward", "aten.multinomial.default takes a tensor, and draws random numbers"),
        ("backward", "its forward graph is launched kernel by kernel"),
    ]
    assert reasons == expected and how(driver) == "launch"
    cleared()
    explained = onegraph.explain(onegraph.compile(drawing, mode="reduce-overhead"))(rows(), PARAMETERS[0])
    assert [(each.part, each.reason) for each in explained.one_by_one] == expected
    assert "(backward): its forward graph is launched" in str(explained)
