"""The table of the state around a call: each row does what it says, and the page in the documentation shows it."""

from __future__ import annotations

import contextlib
import contextvars
import io
import locale
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from import_graph import ROOT
from torch import nn
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules import module as hooks
from torch.nn.utils import parametrize
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._python_dispatch import _disable_current_modes as without_modes

import onegraph
from onegraph import _C
from onegraph.base import events as ev
from onegraph.capture.guards.recompiling import changed
from onegraph.torchlib.around import STATES, State, Treatment
from tests.capture.resume.test_breaks import Watch

Tensor = torch.Tensor


@dataclass(frozen=True)
class Change:
    """A state that is set around a call, and a program whose result may depend on it."""

    state: str
    enter: Callable[[], AbstractContextManager[Any]]
    program: Callable[[Tensor], Any]


@contextlib.contextmanager
def setting(setter: Callable[[Any], Any], value: Any, before: Any) -> Iterator[None]:
    setter(value)
    try:
        yield
    finally:
        setter(before)


@contextlib.contextmanager
def registered(register: Callable[[Any], Any], hook: Any) -> Iterator[None]:
    handle = register(hook)
    try:
        yield
    finally:
        handle.remove()


class Doubled(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.sin else result


class TenTimes(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 10 if func is torch.ops.aten.sin.default else result


@contextlib.contextmanager
def unfilled() -> Iterator[None]:
    with setting(torch.use_deterministic_algorithms, True, False):
        torch.utils.deterministic.fill_uninitialized_memory = False
        try:
            yield
        finally:
            torch.utils.deterministic.fill_uninitialized_memory = True


def uncounted() -> Any:
    return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView))


def sine(x: Tensor) -> Tensor:
    return torch.sin(x) + 1


def addresses(x: Tensor) -> tuple[bool, ...]:
    """Of what is known of a real tensor only."""
    y = x.sin()
    data, counted = y.data_ptr(), y._version
    y.add_(1)
    memory = y.untyped_storage()
    return y.data_ptr() == data == memory.data_ptr(), y._version == counted + 1, memory.tolist() != []


class Tripled(Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        return result * 3 if func is torch.sin else result


def subclass(x: Tensor) -> tuple[Tensor, type]:
    y = torch.sin(x.as_subclass(Tripled))
    return y, type(y)


def product(x: Tensor) -> tuple[Tensor, torch.dtype]:
    y = torch.outer(x, x) @ torch.outer(x, x)
    return y, y.dtype


def cast(x: Tensor) -> tuple[Tensor, torch.dtype]:
    with torch.autocast("cpu"):
        return product(x)


def measured(x: Tensor) -> Tensor:
    return x * (2 if torch.autograd._profiler_enabled() else 1)


def made(x: Tensor) -> tuple[Any, ...]:
    y = torch.zeros(2)
    return y.device, y.dtype, torch.arange(3).device, x.sin()


def empty(x: Tensor) -> tuple[Tensor, ...]:
    """What is uninitialized is compared only where it is filled."""
    filled = torch.are_deterministic_algorithms_enabled() and torch.utils.deterministic.fill_uninitialized_memory
    return (torch.empty(3), x.new_empty(2), torch.empty_like(x), x.sin()) if filled else (x.sin(),)


def put(x: Tensor) -> Tensor:
    return x.clone().put_(torch.tensor([1, 1]), torch.tensor([1.0, 2.0]))


def unpooled(x: Tensor) -> Tensor:
    return nn.functional.max_unpool2d(x.reshape(1, 1, 2, 2), torch.tensor([[[[0, 2], [8, 10]]]]), 2) + 1


def attention(x: Tensor) -> Tensor:
    y = x.reshape(1, 1, 2, 2)
    return nn.functional.scaled_dot_product_attention(y, y, y)


def warned(x: Tensor) -> Tensor:
    y = x + 1
    warnings.warn("careful", stacklevel=1)
    return y


def printed(x: Tensor) -> Tensor:
    print("printed")
    return x + 1


def environment(x: Tensor) -> Tensor:
    return x * (2 if os.environ.get("ONEGRAPH_TEST_STATE") == "1" else 1)


def asked(x: Tensor) -> Tensor:
    return x * len(torch.get_float32_matmul_precision())


def squared(x: Tensor) -> Tensor:
    return (x * x).sqrt().sum()


def denormal(x: Tensor) -> Tensor:
    return (x.repeat(200_000) * 1e-39 * 1.0).sum()


def written(x: Tensor) -> str:
    return f"{x / 3}"


SCALE = contextvars.ContextVar("SCALE", default=1)
LOCAL = threading.local()
LOCAL.scale = 1


def scaled(x: Tensor) -> Tensor:
    return x * SCALE.get() + LOCAL.scale


LINEAR = nn.Linear(4, 4)
PARAMETRIZED = nn.Linear(4, 4)


class Symmetric(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + x.T


parametrize.register_parametrization(PARAMETRIZED, "weight", Symmetric())


def optimized(x: Tensor) -> Tensor:
    weight = nn.Parameter(torch.ones(4))
    weight.grad = x.clone()
    torch.optim.SGD([weight], lr=0.1).step()
    return weight.detach()


CHANGES = [
    Change("function modes of the program", Doubled, sine),
    Change("dispatch modes", TenTimes, sine),
    Change("no torch functions", torch._C.DisableTorchFunction, addresses),
    Change("dispatch in part", torch._C._DisableTorchDispatch, addresses),
    Change("dispatch in part", uncounted, lambda x: x.add_(1)._version),
    Change("torch functions of subclasses", torch._C.DisableTorchFunctionSubclass, subclass),
    Change("forward-mode differentiation", forward_ad.dual_level, sine),
    Change("trace functions", lambda: setting(sys.settrace, lambda *args: None, sys.gettrace()), sine),
    Change("grad mode", torch.no_grad, lambda x: (x.requires_grad_().sin() * 2).requires_grad),
    Change("inference mode", torch.inference_mode, lambda x: (x + 1).is_inference()),
    Change("default dtype", lambda: setting(torch.set_default_dtype, torch.float64, torch.float32), made),
    Change("default device", lambda: torch.device("meta"), made),
    Change("default device", lambda: torch.device("cpu"), made),
    Change("default device", lambda: setting(torch.set_default_device, "meta", None), made),
    Change("autocast", lambda: torch.autocast("cpu"), product),
    Change("autocast", lambda: torch.autocast("cpu", dtype=torch.float16), product),
    Change("deterministic algorithms", lambda: setting(torch.use_deterministic_algorithms, True, False), empty),
    Change("deterministic algorithms", lambda: setting(torch.use_deterministic_algorithms, True, False), put),
    Change("deterministic algorithms", lambda: setting(torch.use_deterministic_algorithms, True, False), unpooled),
    Change("deterministic algorithms", unfilled, empty),
    Change("autocast", lambda: setting(partial(torch.set_autocast_dtype, "cpu"), torch.float16, torch.bfloat16), cast),
    Change("settings that a program asks for", torch.autograd.profiler.profile, measured),
    Change(
        "hooks for all modules",
        lambda: registered(hooks.register_module_forward_hook, lambda module, args, result: result * 2),
        lambda x: LINEAR(x),
    ),
    Change(
        "hooks for all optimizers",
        lambda: registered(register_optimizer_step_pre_hook, lambda optimizer, *args: optimizer.zero_grad()),
        optimized,
    ),
    Change("cache of parametrizations", parametrize.cached, lambda x: PARAMETRIZED(x) + PARAMETRIZED.weight.sum()),
    Change(
        "settings that a program asks for",
        lambda: setting(torch.set_float32_matmul_precision, "medium", "highest"),
        asked,
    ),
    Change("environment", lambda: pytest.MonkeyPatch.context(), environment),
    Change("kernels of attention", lambda: sdpa_kernel(SDPBackend.MATH), attention),
    Change("filters of warnings", lambda: warnings.catch_warnings(action="error"), warned),
    Change("standard output", lambda: contextlib.redirect_stdout(io.StringIO()), printed),
    Change("hooks for saved tensors", lambda: torch.autograd.graph.save_on_cpu(), lambda x: sine(x.requires_grad_())),
    Change("operators in the place of others", torch._C._AutoDispatchBelowAutograd, sine),
    Change("anomaly mode", lambda: torch.autograd.set_detect_anomaly(True), squared),
    Change("precision of products", lambda: setting(torch.set_float32_matmul_precision, "medium", "highest"), product),
    Change("precision of products", lambda: torch.backends.mkldnn.flags(enabled=False), product),
    Change("flushing of denormal numbers", lambda: setting(torch.set_flush_denormal, True, False), denormal),
    Change("number of threads", lambda: setting(torch.set_num_threads, 1, torch.get_num_threads()), denormal),
    Change("cache of autocast", lambda: setting(torch.set_autocast_cache_enabled, False, True), product),
    Change("context variables, locale", lambda: setting(SCALE.set, 5, 1), scaled),
    Change(
        "thread-local objects",
        lambda: setting(partial(setattr, LOCAL, "scale"), 5, 1),
        scaled,
    ),
    Change(
        "context variables, locale",
        lambda: setting(partial(locale.setlocale, locale.LC_ALL), "C", locale.setlocale(locale.LC_ALL)),
        lambda x: (x + 1, f"{1234567:n}", locale.setlocale(locale.LC_ALL)),
    ),
    Change("print options", lambda: torch._tensor_str.printoptions(precision=1), written),
]


def outcomes(function: Callable[[Tensor], Any], change: Change, order: tuple[bool, ...]) -> list[str]:
    """What calls give, or raise, and print, in the state and outside of it."""
    found = []
    for active in order:
        state = change.enter() if active else contextlib.nullcontext()
        with contextlib.redirect_stdout(io.StringIO()) as out, state as entered:
            if isinstance(entered, pytest.MonkeyPatch):
                entered.setenv("ONEGRAPH_TEST_STATE", "1")
            x = torch.tensor([0.5, 1.0, 2.0, 3.0])
            x = forward_ad.make_dual(x, torch.ones(4)) if change.enter is forward_ad.dual_level and active else x
            try:
                result = function(x)
                found.append(repr(forward_ad.unpack_dual(result) if isinstance(result, Tensor) and active else result))
            except (RuntimeError, Warning) as error:
                found.append(f"{type(error).__name__}: {error}")
        found.append(out.getvalue())
    return found


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.state.replace(" ", "_"))
def test_a_call_sees_the_state(change: Change, first: bool) -> None:
    order = (first, not first, first, not first, not first)
    compiled = onegraph.compile(change.program)
    before = _C.GlobalState()
    assert outcomes(compiled, change, order) == outcomes(change.program, change, order)
    assert before.holds()


@pytest.mark.parametrize(
    "state", [state for state in STATES if state.treatment is Treatment.EAGER], ids=lambda state: state.name
)
def test_it_runs_eagerly(state: State) -> None:
    entered = [change.enter for change in CHANGES if change.state == state.name and state.is_there is not None]
    for enter in entered:
        compiled, x = onegraph.compile(sine), torch.ones(4)
        with Watch() as watch:
            with enter():
                assert state.is_there is not None and state.is_there()
                compiled(x)
            assert not watch.of(ev.GraphCaptured)
            compiled(x)
            assert len(watch.of(ev.GraphCaptured)) == 1
        assert not state.is_there()


@pytest.mark.parametrize(
    "enter", [torch._C.DisableTorchFunction, torch._C._DisableTorchDispatch, uncounted, without_modes]
)
def test_what_is_known_of_real_tensors_only(enter: Callable[[], AbstractContextManager[Any]]) -> None:
    def program(x: Tensor) -> tuple[Any, ...]:
        y = x + 1
        with enter():
            y = y.sin()
            found = x._cdata, x.untyped_storage()._cdata, x._version, x.data_ptr(), y.add_(1)._version
        return found, y + 1, y._version

    compiled = onegraph.compile(program)
    for records in (False, False, True, True):
        x = torch.ones(3).mul_(2).requires_grad_(records)
        assert repr(compiled(x)) == repr(program(x))


def test_a_version_is_used_again_when_its_state_comes_back() -> None:
    compiled, x = onegraph.compile(made), torch.ones(2)
    with Watch() as watch:
        for device in ("cpu", "meta", "cpu", "meta"):
            with torch.device(device):
                assert compiled(x)[0] == torch.device(device)
        compiled(x)
    assert len(watch.of(ev.GraphCaptured)) == 3


@pytest.mark.parametrize("abi", ["python", "libtorch"])
def test_both_ways_of_reading_the_state(abi: str) -> None:
    used = _C.tensor_abi()
    _C.tensor_abi(abi)
    try:
        for change in (change for change in CHANGES if change.program is not cast):
            row = next(state for state in STATES if state.name == change.state)
            if not row.compared:
                continue
            outside = _C.GlobalState()
            with change.enter():
                assert not outside.holds()
                assert set(changed(outside)) & set(row.compared)
                inside = _C.GlobalState()
            assert outside.holds() and not inside.holds() and not changed(outside)
    finally:
        _C.tensor_abi(used)


def test_the_table_is_complete() -> None:
    compared = [name for state in STATES for name in state.compared]
    assert sorted(compared) == sorted(_C.GlobalState().values)
    tested = {change.state for change in CHANGES}
    elsewhere = {"tracing by TorchScript", "symbolic tracing by FX", "function transforms"}  # test_modes_around.py
    elsewhere |= {"settings that a program changes", "generators of random numbers"}  # test_settings_within.py ...
    elsewhere |= {"current device"}  # tests/gpu
    elsewhere |= {"inference mode, dual numbers within the function"}
    for state in STATES:
        if state.treatment is not Treatment.IRRELEVANT:
            assert state.name in tested | elsewhere, f"nothing tests what is said of {state.name}"
        assert state.why or state.treatment is Treatment.COMPARED
    assert tested <= {state.name for state in STATES}


def test_the_page_shows_the_table(golden: Callable[..., None]) -> None:
    path = ROOT / "docs" / "programming_model" / "state_around.md"
    lines = path.read_text().splitlines(keepends=True)
    start = lines.index("|---|---|---|---|\n") + 1
    end = next(index for index in range(start, len(lines)) if not lines[index].startswith("|"))
    rows = [
        f"| {state.name} | {', '.join(map('`{}`'.format, state.setters))} | {state.treatment.value} | {state.why} |\n"
        for state in STATES
    ]
    golden(path, "".join([*lines[:start], *rows, *lines[end:]]))
