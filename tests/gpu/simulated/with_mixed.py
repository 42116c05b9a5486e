"""Kernels for programs with tensors of several devices: what is a kernel, what is called, and what is captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from gpu.driver import StandIn
from gpu.simulated import kernels
from gpu.simulated.compare import on_cuda
from gpu.simulated.on_mixed import Halves
from torch import Tensor

import onegraph
from onegraph.base.events import LaunchedOneByOne, MemoryPlanned, OperatorFellBack
from onegraph.compile import EVENTS
from onegraph.ir.plan import ExecPlan, ExternCall, Launch
from tests.compiler.fuzz import is_as_good
from tests.compiler.random_graphs import SHORT, RandomGraph, Unfit

DEVICES = ("cpu", "cuda:0", "cuda:0", "cuda:1")


class MixedGraph(RandomGraph):
    """A random graph, of which each input and each step is on some device."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.inputs = [x.to(self.random.choice(DEVICES)) for x in self.inputs]

    def together(self, x: Tensor, y: Tensor, where: float) -> tuple[Tensor, Tensor]:
        device = DEVICES[int(where * 9973) % len(DEVICES)]
        stays = y.dim() == 0 and y.is_cpu and where < 0.5  # a number to any device
        return x.to(device), y if stays else y.to(device)


driver = kernels.driver  # a fixture


@contextmanager
def told(*kinds: type) -> Iterator[list[Any]]:
    """The events of these kinds that are emitted meanwhile."""
    found: list[Any] = []
    stop = EVENTS.subscribe(lambda event: found.append(event) if isinstance(event, kinds) else None)
    yield found
    stop()


def planned(function: Callable[..., Any], *inputs: Any, **settings: Any) -> list[ExecPlan]:
    """The plans of a compiled call, whose results are eager's."""
    compiled = onegraph.compile(function, fullgraph=True, **settings)
    with told(MemoryPlanned) as found:
        for _ in range(2):
            torch.testing.assert_close(compiled(*inputs), function(*inputs))
    return [event.plan for event in found]


def calls(plan: ExecPlan) -> list[tuple[str, str]]:
    return [(s.operator.split(".")[1], s.device) for s in plan.steps if isinstance(s, ExternCall)]


def launches(plan: ExecPlan) -> int:
    return sum(isinstance(step, Launch) for step in plan.steps)


def test_a_number_on_the_processor_joins_a_kernel(driver: StandIn) -> None:
    x = on_cuda(3, 4)
    (plan,) = planned(lambda x, y: (x * y).sin() * y + 1, x, torch.tensor(1.5))
    assert launches(plan) == 1 and calls(plan) == [("empty_strided", ""), ("fill", "cpu")]
    (plan,) = planned(lambda x, y, z: (x * y).sin() * z, x, torch.tensor(1.5), torch.tensor(2.5))
    assert launches(plan) == 1 and calls(plan) == [("empty_strided", ""), ("fill", "cpu"), ("fill", "cpu")]


def test_constants_are_there_before_the_first_call(driver: StandIn) -> None:
    x = on_cuda(3, 4)

    def function(x: Tensor) -> Any:
        table = torch.tensor([0.5, 1.5, 2.5]).cuda()
        return (x * torch.tensor(1.5)).sin(), x[[2, 0]] * 2, x[:, torch.tensor([1, 3])], table, table[1:]

    (plan,) = planned(function, x)
    assert launches(plan) and not calls(plan)


def test_a_number_is_read_when_the_call_is_made(driver: StandIn) -> None:
    x, factor = on_cuda(3, 4), torch.tensor(2.0)
    compiled = onegraph.compile(lambda x, factor: (x * factor).cos())
    for number in (2.0, -3.5, float("inf"), 1e-30):
        factor.fill_(number)
        torch.testing.assert_close(compiled(x, factor), (x * factor).cos(), equal_nan=True)


def test_numbers_of_every_type(driver: StandIn) -> None:
    numbers: list[Any] = [(1 << 62) + 1, -7, True, 0.1, 3]
    dtypes = [torch.int64, torch.int32, torch.bool, torch.float64, torch.uint8]
    for number, dtype in zip(numbers, dtypes, strict=True):
        for other in (torch.float32, torch.float16, torch.int64):
            x = (on_cuda(40) * 3).to(other)
            (plan,) = planned(
                lambda x, y: (x * y, x > y, torch.where(x > 0, y, x)), x, torch.tensor(number, dtype=dtype)
            )
            assert launches(plan) == 1


def test_there_and_back(driver: StandIn) -> None:
    (plan,) = planned(lambda x: ((x.cuda() + 1).relu().cpu() * 2).sum(0), torch.randn(3, 4))
    assert launches(plan) == 1
    assert calls(plan) == [(name, "cpu") for name in ("_to_copy", "_to_copy", "mul", "sum")]


def test_why_operators_are_called(driver: StandIn) -> None:
    with told(OperatorFellBack) as found:
        planned(lambda x, y: (x.cpu() + 1, x[y] * 2, x.to("cuda:1") * 3), on_cuda(3), torch.tensor([1, 0]))
    assert [(each.operator, each.reason) for each in found] == [
        ("aten._to_copy.default", "its result lies on cpu"),
        ("aten.add.Tensor", "its result lies on cpu"),
        ("aten.index.Tensor", "it takes a tensor on cpu"),
        ("aten._to_copy.default", "its result lies on cuda:1"),
        ("aten.mul.Tensor", "its result lies on cuda:1"),
    ]


def test_steps_of_a_model_in_two_memories(driver: StandIn) -> None:
    def steps(forward: Callable[[Tensor], Any], model: Halves) -> list[Tensor]:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for seed in range(3):
            torch.manual_seed(seed)
            at = torch.randint(0, 20, (6,))
            found, penalty = forward(at)
            loss = found[:, 0].sum() + penalty.cpu()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return [*losses, *model.parameters()]

    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = Halves("cpu")
        results.append(steps(onegraph.compile(model, fullgraph=True) if compiled else model, model))
    torch.testing.assert_close(*results)
    assert len(driver.launches()) >= 6


def check_random_graphs(seeds: range, symbolic: bool) -> None:
    found = {}
    for seed in seeds:
        graph = MixedGraph(seed)
        try:
            expected = graph.expected()
        except Unfit:
            continue
        tolerance = 0.1 if any(x.dtype in SHORT for x in (*graph.inputs, *expected)) else 2e-4
        compiled = onegraph.compile(graph.function, dynamic=symbolic)
        try:
            results = compiled(*graph.inputs)
            assert [x.device for x in results] == [x.device for x in expected]
            torch.testing.assert_close(results, expected, equal_nan=True, rtol=tolerance, atol=tolerance)
        except AssertionError as error:
            if not is_as_good(graph, results, expected):
                found[seed] = str(error)
        onegraph.reset()
    assert not found, found


@pytest.mark.parametrize("symbolic", [False, True])
def test_random_graphs(symbolic: bool, driver: StandIn) -> None:
    check_random_graphs(range(30), symbolic)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 2000, 100))
def test_many_random_graphs(start: int, driver: StandIn) -> None:
    check_random_graphs(range(start, start + 100), False)


def test_steps_of_an_optimizer_that_counts_on_the_processor(driver: StandIn) -> None:
    results = []
    for is_compiled in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), capturable=False)
        step = onegraph.compile(optimizer.step) if is_compiled else optimizer.step
        driver.forget()
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(3, 8, device="cuda")).square().sum().backward()
            step()
        results.append([*model.parameters(), *(state["step"] for state in optimizer.state.values())])
    torch.testing.assert_close(*results)
    assert all(count.is_cpu for count in results[1][4:]) and len(driver.launches()) == 12


def test_why_such_graphs_are_not_captured(driver: StandIn) -> None:
    x, y = on_cuda(4), torch.randn(4)
    for function, inputs, why in [
        (lambda x: x.sin().cpu(), (x,), "aten._to_copy.default makes or takes tensors on cpu"),
        (lambda x: x.sin() + torch.arange(4).cuda(), (x,), "aten.arange.default makes or takes tensors on cpu"),
        (lambda x, y: x.sin() + y.cuda(), (x, y), "aten._to_copy.default makes or takes tensors on cpu"),
        (lambda x, y: x.sin() * y, (x, torch.tensor(2.0)), "aten.fill.Tensor makes or takes tensors on cpu"),
        (lambda x, y: x.sin()[y], (x, torch.tensor([1, 0])), "aten.index.Tensor makes or takes tensors on cpu"),
        (lambda x: x.to("cuda:1").sin(), (x,), "aten._to_copy.default makes or takes tensors on cuda:1"),
        (lambda x, y: (x.sin(), y), (x, y), None),
        (lambda x: x.sin()[[3, 1]] * torch.tensor(2.0) + torch.tensor([1.5, 3.0]).cuda(), (x,), None),
    ]:
        compiled = onegraph.compile(function, mode="reduce-overhead", dynamic=False)
        with told(LaunchedOneByOne) as found:
            for _ in range(3):
                torch.testing.assert_close(compiled(*inputs), function(*inputs))
        assert [each.reason for each in found] == ([] if why is None else [why])
