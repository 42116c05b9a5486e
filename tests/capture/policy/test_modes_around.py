"""Modes, tracers and transforms of the program around a call: they see what eager shows them, and nothing of ours."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.module_tracker import ModuleTracker

import onegraph


class TenTimes(TorchDispatchMode):
    """Additions give ten times their result."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 10 if func is torch.ops.aten.add.Tensor else result


class Log(TorchFunctionMode):
    """Notes the names of the functions that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) + 1


def test_a_dispatch_mode_sees_the_operators_of_each_call() -> None:
    compiled, x = onegraph.compile(program, fullgraph=True), torch.ones(2)
    for active in (True, True, False, True, False):
        with TenTimes() if active else contextlib.nullcontext():
            torch.testing.assert_close(compiled(x), program(x))


def test_a_function_mode_sees_the_calls_of_the_program_alone() -> None:
    compiled, x = onegraph.compile(program, fullgraph=True), torch.ones(2)
    for _ in range(2):
        with Log() as log:
            compiled(x)
        assert log.seen == ["sin", "add"]
        torch.testing.assert_close(compiled(x), program(x))


def test_modes_that_the_program_enters_behind_a_graph_break() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with TenTimes():
            onegraph.graph_break()
            z = x + 2
        return y + z

    compiled, x = onegraph.compile(broken), torch.ones(2)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), broken(x))


def test_flops_are_counted_in_each_call() -> None:
    compiled, x = onegraph.compile(torch.nn.Linear(4, 8)), torch.ones(1, 4)
    counted = []
    for _ in range(3):
        with FlopCounterMode(display=False) as counter:
            compiled(x)
        counted.append(counter.get_total_flops())
        compiled(x)
    assert counted == [64, 64, 64]


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).sin()


def counts_of(function: Callable[..., torch.Tensor]) -> list[Any]:
    found: list[Any] = []
    for _ in range(3):
        with FlopCounterMode(display=False) as counter:
            function(torch.ones(1, 4, requires_grad=True)).sum().backward()
        found.append({module: sum(of.values()) for module, of in counter.get_flop_counts().items()})
        with ModuleTracker():
            function(torch.ones(1, 4, requires_grad=True)).sum().backward()
        function(torch.ones(1, 4))
    return found


def test_flops_are_counted_for_each_module() -> None:
    block = Block()
    assert counts_of(onegraph.compile(lambda x: block(x) * 2)) == counts_of(lambda x: block(x) * 2)


def test_a_module_tracker_knows_the_module_that_runs() -> None:
    seen: list[list[str]] = []
    trackers: list[ModuleTracker] = []

    class Asking(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(sorted(trackers[-1].parents))
            return x + 1

    module = Asking()
    compiled = onegraph.compile(lambda x: module(x) * 2)
    for _ in range(3):
        with ModuleTracker() as tracker:
            trackers.append(tracker)
            compiled(torch.ones(2))
        compiled(torch.ones(2))
    assert seen == [["Asking", "Global"], ["Global"]] * 3


@pytest.mark.parametrize("warm", [False, True])
def test_torchscript_traces_through_a_compiled_function(warm: bool) -> None:
    compiled = onegraph.compile(program)
    if warm:
        compiled(torch.ones(2))
    traced = torch.jit.trace(lambda x: compiled(x) * 2, (torch.ones(2),), check_trace=False)
    x = torch.zeros(2)
    torch.testing.assert_close(traced(x), program(x) * 2)
    torch.testing.assert_close(compiled(x), program(x))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("warm", [False, True])
def test_make_fx_traces_through_a_compiled_function(warm: bool, mode: str) -> None:
    compiled = onegraph.compile(program)
    if warm:
        compiled(torch.ones(2))
    traced = make_fx(lambda x: compiled(x) * 2, tracing_mode=mode)(torch.ones(2))
    x = torch.zeros(2)
    torch.testing.assert_close(traced(x), program(x) * 2)
    torch.testing.assert_close(compiled(x), program(x))


@pytest.mark.parametrize("warm", [False, True])
def test_fx_traces_through_a_compiled_function(warm: bool) -> None:
    compiled = onegraph.compile(program)
    if warm:
        compiled(torch.ones(2))
    traced = torch.fx.symbolic_trace(lambda x: compiled(x) * 2)
    x = torch.zeros(2)
    torch.testing.assert_close(traced(x), program(x) * 2)


def test_tangents_go_through_a_call() -> None:
    compiled, x = onegraph.compile(program), torch.arange(3.0)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), program(x))
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones(3))
            tangents = [forward_ad.unpack_dual(function(dual)).tangent for function in (compiled, program)]
        torch.testing.assert_close(*tangents)


def test_transforms_around_a_call(caplog: pytest.LogCaptureFixture) -> None:
    compiled, x = onegraph.compile(program), torch.arange(6.0).reshape(2, 3)
    for _ in range(2):
        for transform in (
            torch.func.vmap,
            lambda f: torch.func.vmap(torch.func.grad(lambda row: f(row).sum())),
            torch.func.jacrev,
            torch.func.functionalize,
        ):
            torch.testing.assert_close(transform(compiled)(x), transform(program)(x))
        torch.testing.assert_close(torch.func.jvp(compiled, (x,), (x,)), torch.func.jvp(program, (x,), (x,)))
        torch.testing.assert_close(compiled(x), program(x))
    assert not caplog.records


def entering(manager: Callable[[], Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with manager():
            z = x + 2
        return y + z.sin()

    return function


MANAGERS = [TenTimes, Log, lambda: FlopCounterMode(display=False), ModuleTracker]


@pytest.mark.parametrize("manager", MANAGERS)
def test_what_a_program_enters_itself(manager: Callable[[], Any]) -> None:
    function = entering(manager)
    compiled, x = onegraph.compile(function), torch.ones(2)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), function(x))
        assert torch._C._len_torch_function_stack() == torch._C._len_torch_dispatch_stack() == 0


def test_a_program_is_told_of_its_own_dispatch_modes() -> None:
    """And not of the tracer's, which is one."""
    flags = torch.utils._python_dispatch

    def f(x):
        return x + 1, flags.is_in_torch_dispatch_mode(), flags._is_in_torch_dispatch_mode

    compiled = onegraph.compile(f, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2))[1:] == f(torch.ones(2))[1:] == (False, False)
