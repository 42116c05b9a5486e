"""Contexts of torch around a graph break are left with the graph and entered again behind it, and no state leaks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode, handle_torch_function
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import TorchDispatchMode

import onegraph


class Doubles(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.add else result


class Triples(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 3 if func is torch.ops.aten.add.Tensor else result


@contextlib.contextmanager
def devices() -> Any:
    with torch.device("meta"), torch.device("cpu"):
        yield


CONTEXTS: dict[str, Callable[[], Any]] = {
    "device": lambda: torch.device("meta"),
    "device context": lambda: DeviceContext("meta"),
    "two devices": devices,
    "function mode": Doubles,
    "dispatch mode": Triples,
    "autocast": lambda: torch.autocast("cpu"),
    "no_grad": torch.no_grad,
    "inference mode": torch.inference_mode,
    "without subclasses": torch._C.DisableTorchFunctionSubclass,
    "without torch functions": torch._C.DisableTorchFunction,
    "without autocast": torch._C._DisableAutocast,
    "below autograd": torch._C._AutoDispatchBelowAutograd,
}


def state() -> Any:
    return (
        torch._C._len_torch_function_stack(),
        torch._C._len_torch_dispatch_stack(),
        torch._C._get_torch_function_state(),  # type: ignore[attr-defined]
        torch.utils._device.CURRENT_DEVICE,
        torch.get_default_device(),
        torch.is_autocast_enabled("cpu"),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
    )


def facts(tensor: torch.Tensor) -> Any:
    return tensor.device, tensor.dtype, tensor.requires_grad, None if tensor.is_meta else tensor.tolist()


def broken_within(make: Callable[[], Any]) -> Callable[..., Any]:
    def function(x: torch.Tensor) -> Any:
        with make():
            a = torch.zeros(2) + torch.ones(2)
            onegraph.graph_break()
            b = torch.add(torch.ones(2), torch.ones(2))
            c = x @ x
        return a, b, c, torch.ones(2) + 1

    return function


def breaking_callee(make: Callable[[], Any]) -> Callable[..., Any]:
    def inner(x: torch.Tensor) -> Any:
        a = torch.ones(2)
        onegraph.graph_break()
        return torch.add(a, torch.ones(2)), x @ x

    def function(x: torch.Tensor) -> Any:
        with make():
            a, b = inner(x)
        return a, b, torch.ones(2) + 1

    return function


def raising(make: Callable[[], Any]) -> Callable[..., Any]:
    def function(x: torch.Tensor) -> Any:
        try:
            with make():
                a = torch.ones(2) + 1
                onegraph.graph_break()
                raise ValueError(1)
        except ValueError:
            return a, torch.ones(2) + 1

    return function


def whole(make: Callable[[], Any]) -> Callable[..., Any]:
    def function(x: torch.Tensor) -> Any:
        with make():
            a = torch.ones(2) + torch.ones(2)
        return a, torch.ones(2) + 1

    return function


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("form", [broken_within, breaking_callee, raising, whole])
def test_a_context_of_torch(context: str, form: Callable[..., Any]) -> None:
    function, x = form(CONTEXTS[context]), torch.full((2, 2), 3.0, requires_grad=True)
    compiled, before = onegraph.compile(function), state()
    for _ in range(3):
        assert list(map(facts, compiled(x))) == list(map(facts, function(x)))
        assert state() == before


def test_a_device_that_is_followed_is_no_break() -> None:
    assert onegraph.compile(whole(CONTEXTS["device"]), fullgraph=True)(torch.ones(1))[0].is_meta


def test_a_program_is_told_of_its_own_function_modes() -> None:
    def add(x: torch.Tensor) -> Any:
        if torch._C._is_torch_function_mode_enabled():
            return handle_torch_function(add, (x,), x)
        return x + 1

    def function(x: torch.Tensor) -> Any:
        return add(x) * 2, torch._C._len_torch_function_stack()

    found, modes = onegraph.compile(function, fullgraph=True)(torch.ones(2))
    assert modes == 0 and found.tolist() == [4, 4]
